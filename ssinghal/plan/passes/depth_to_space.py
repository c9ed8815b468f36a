"""Rewrite of features that are spread over pixels. Device-free."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

from ssinghal.capture.trace import Step, Trace
from ssinghal.plan.axis_layout import AxisLayout
from ssinghal.plan.lowering import EXTRAS
from ssinghal.plan.passes.editing import VIEWS, readers, view_of, with_steps


def depth_to_space(trace: Trace) -> Trace:
    """A linear layer whose features are spread over the pixels: its rows of weights are put in another order when they are
    loaded, so that the channels lie last after the spreading, and no tensor has rows of two elements."""
    read = readers(trace)
    changed: dict[int, list[Step]] = {}
    for number, step in enumerate(trace.steps):
        if step.overload != "aten.linear.default" or not all(trace.values[n].is_resident for n in step.inputs[1:]):
            continue
        inner = _spread(trace, read, step.results[0])
        if inner is not None:
            changed[number] = [replace(step, args={**step.args, f"{EXTRAS}features_inner": inner})]
    return with_steps(trace, changed)


def _spread(trace: Trace, read: Mapping[int, list[int]], value: int) -> int | None:
    """How many pixels take the features of one, where views alone put all but their outermost part into other dims."""
    shape = trace.values[value].shape
    form: AxisLayout | None = AxisLayout.plain(shape)
    features = len(shape) - 1
    while form is not None and len(read[value]) == 1 and read[value][0] < len(trace.steps):
        step = trace.steps[read[value][0]]
        if step.overload not in VIEWS or not step.results:
            break
        value = step.results[0]
        form = view_of(form, step, trace.values[value].shape)
    if form is None:
        return None
    atoms = form.order[len(AxisLayout.plain(shape[:-1]).order) :]  # of the features, as they lie: last
    if len(atoms) < 2:
        return None
    homes = {atom: d for d, dim in enumerate(form.dims) for atom in dim}
    channels = form.dims[homes[atoms[0]]]
    moved = all(len(form.dims[homes[a]]) > 1 for a in atoms[1:])
    inner = math.prod(form.sizes[a] for a in atoms[1:])
    return inner if channels == atoms[:1] and moved and math.prod(form.sizes[a] for a in atoms) == shape[features] else None
