"""Finds steps of a trace by the values that they read and create, and replaces them by others."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace

from ssinghal.capture.trace import Step, Trace, Value, ValueKind
from ssinghal.core.tensors import Shape
from ssinghal.plan.axis_layout import AxisLayout

# Steps that only change the shape or order of elements.
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
        "unsqueeze.default",
        "squeeze.dim",
    )
)


class Graph:
    """The steps of a trace by their values.

    ``readers``: value -> the steps that read it; a result of the model is read by the step after the last one.
    ``creators``: value -> the step that creates it.
    """

    def __init__(self, trace: Trace) -> None:
        self.trace, self.steps, self.values = trace, trace.steps, trace.values
        self.creators = {value: number for number, step in enumerate(trace.steps) for value in step.results}
        self.readers: Mapping[int, list[int]] = defaultdict(list)
        for number, step in enumerate(trace.steps):
            for value in dict.fromkeys(step.inputs):
                self.readers[value].append(number)
        for value in trace.results:
            self.readers[value].append(len(trace.steps))

    def only_reader(self, value: int) -> int | None:
        """Returns the one step that reads ``value``; None where several do, or the model returns it."""
        readers = self.readers[value]
        return readers[0] if len(readers) == 1 and readers[0] < len(self.steps) else None

    def creator_for(self, reader: int, value: int) -> int | None:
        """Returns the step that creates ``value`` for the step ``reader`` alone; None where something else reads it."""
        return self.creators.get(value) if self.readers[value] == [reader] else None

    def after_views(self, value: int) -> tuple[int, AxisLayout | None, list[int]]:
        """Follows ``value`` through the views that alone read it.

        Returns the last value, the layout of its axes (None where a view needs a copy), and the steps of the views.
        """
        axes: AxisLayout | None = AxisLayout.plain(self.values[value].shape)
        views: list[int] = []
        while axes is not None and (number := self.only_reader(value)) is not None and self.steps[number].overload in VIEWS:
            views.append(number)
            (value,) = self.steps[number].results
            axes = view_of(axes, self.steps[number], self.values[value].shape)
        return value, axes, views


def with_steps(trace: Trace, changed: Mapping[int, Iterable[Step]], values: Iterable[Value] = ()) -> Trace:
    """Returns the trace with some steps replaced by others, or by none. ``values``: new ones, numbered after the others.

    A value dies where it did, or after the step before if that step is gone; but never before the step that creates it or the
    last one that reads it now. New values die after their last reader.
    """
    if not changed:
        return trace
    steps: list[Step] = []
    died: dict[int, int] = {}  # value -> place of the step after which it is gone
    for number, step in enumerate(trace.steps):
        steps += changed.get(number, [step])
        died.update(dict.fromkeys(step.dead, max(len(steps) - 1, 0)))
    created = {value for step in steps for value in step.results}
    edited = Trace(trace.head, (*trace.values, *values), tuple(steps), trace.results, trace.path)
    dead: list[list[int]] = [[] for _ in steps]
    for value in (*died, *range(len(trace.values), len(edited.values))):
        last = edited.last_use.get(value, 0)
        if last < len(steps) and (value in created or edited.values[value].kind is ValueKind.INPUT):
            dead[max(died.get(value, 0), last)].append(value)
    return replace(edited, steps=tuple(replace(step, dead=tuple(gone)) for step, gone in zip(steps, dead, strict=True)))


def view_of(axes: AxisLayout, step: Step, shape: Shape) -> AxisLayout | None:
    """Returns the layout of the axes after a view whose result has ``shape``; None where the view needs a copy."""
    name = step.overload.split(".")[1]
    if name == "permute":
        return axes.permuted([d % len(axes.dims) for d in step.args["dims"]])
    if name == "transpose":
        a, b = (step.args[key] % len(axes.dims) for key in ("dim0", "dim1"))
        return axes.permuted([b if d == a else a if d == b else d for d in range(len(axes.dims))])
    return axes if name in ("contiguous", "clone") else axes.viewed(shape)
