"""Rewrites linear layers whose features are spread over pixels."""

from __future__ import annotations

import math
from dataclasses import replace

from ssinghal.capture.trace import Step, Trace
from ssinghal.plan.axis_layout import AxisLayout
from ssinghal.plan.lowering import EXTRAS
from ssinghal.plan.passes.editing import Graph, with_steps


def depth_to_space(trace: Trace) -> Trace:
    """Reorders the weight's rows of each linear layer whose features are spread over pixels, when the weight is loaded.

    The channels are then last on the device after the spreading, so no tensor has rows of two elements.
    """
    graph = Graph(trace)
    changed: dict[int, list[Step]] = {}
    for number, step in enumerate(trace.steps):
        if step.overload != "aten.linear.default" or not all(trace.values[n].is_resident for n in step.inputs[1:]):
            continue
        inner = _pixels(graph, step.results[0])
        if inner is not None:
            changed[number] = [replace(step, args={**step.args, f"{EXTRAS}features_inner": inner})]
    return with_steps(trace, changed)


def _pixels(graph: Graph, value: int) -> int | None:
    """Returns over how many pixels views spread the features of one; None where they do something else.

    They move all parts of the features but the outermost, the channels, into other dims:
    [N, H, W, C * 2 * 2] -> [N, H, W, C, 2, 2] -> [N, C, H, 2, W, 2] -> [N, C, 2 H, 2 W] gives 4.
    """
    shape = graph.values[value].shape
    _, axes, _ = graph.after_views(value)
    if axes is None:
        return None
    atoms = axes.order[len(AxisLayout.plain(shape[:-1]).order) :]  # of the features, which are last on the device
    if len(atoms) < 2:
        return None
    homes = {atom: d for d, dim in enumerate(axes.dims) for atom in dim}
    channels = axes.dims[homes[atoms[0]]]
    moved = all(len(axes.dims[homes[a]]) > 1 for a in atoms[1:])
    inner = math.prod(axes.sizes[a] for a in atoms[1:])
    return inner if channels == atoms[:1] and moved and math.prod(axes.sizes[a] for a in atoms) == shape[-1] else None
