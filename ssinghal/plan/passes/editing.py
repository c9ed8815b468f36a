"""Steps of a trace replaced by others. Device-free."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace

from ssinghal.capture.trace import Step, Trace, Value, ValueKind
from ssinghal.core.tensors import Shape
from ssinghal.plan.axis_layout import AxisLayout

# Steps that give another shape or order of the same elements.
VIEWS = frozenset(
    f"aten.{name}"
    for name in (
        "permute.default",
        "transpose.int",
        "contiguous.default",
        "clone.default",
        "view.default",
        "reshape.default",
        "_unsafe_view.default",
        "flatten.using_ints",
        "unflatten.int",
    )
)


def readers(trace: Trace) -> Mapping[int, list[int]]:
    """Value -> the steps that read it; a result of the model is read by the step after the last one."""
    found: dict[int, list[int]] = defaultdict(list)
    for number, step in enumerate(trace.steps):
        for value in dict.fromkeys(step.inputs):
            found[value].append(number)
    for value in trace.results:
        found[value].append(len(trace.steps))
    return found


def makers(trace: Trace) -> Mapping[int, int]:
    """Value -> the step that makes it."""
    return {value: number for number, step in enumerate(trace.steps) for value in step.results}


def with_steps(trace: Trace, changed: Mapping[int, Iterable[Step]], values: Iterable[Value] = ()) -> Trace:
    """Each of these steps replaced by others, or by none. ``values``: new ones, numbered after those of the trace.

    A value dies where it did, after the step before where that one is gone; but not before the last step that reads it now, nor
    before the one that makes it. New ones die after their last reader."""
    if not changed:
        return trace
    steps: list[Step] = []
    died: dict[int, int] = {}  # value -> place of the step after which it is gone
    for number, step in enumerate(trace.steps):
        steps += changed.get(number, [step])
        died.update(dict.fromkeys(step.dead, max(len(steps) - 1, 0)))
    made = {value for step in steps for value in step.results}
    edited = Trace(trace.head, (*trace.values, *values), tuple(steps), trace.results, trace.path)
    dead: list[list[int]] = [[] for _ in steps]
    for value in (*died, *range(len(trace.values), len(edited.values))):
        last = edited.last_use.get(value, 0)
        if last < len(steps) and (value in made or edited.values[value].kind is ValueKind.INPUT):
            dead[max(died.get(value, 0), last)].append(value)
    return replace(edited, steps=tuple(replace(step, dead=tuple(gone)) for step, gone in zip(steps, dead, strict=True)))


def view_of(form: AxisLayout, step: Step, shape: Shape) -> AxisLayout | None:
    """What a view makes of a form, ``shape`` being its result's."""
    name = step.overload.split(".")[1]
    if name == "permute":
        return form.permuted([d % len(form.dims) for d in step.args["dims"]])
    if name == "transpose":
        a, b = (step.args[key] % len(form.dims) for key in ("dim0", "dim1"))
        return form.permuted([b if d == a else a if d == b else d for d in range(len(form.dims))])
    return form if name in ("contiguous", "clone") else form.viewed(shape)
