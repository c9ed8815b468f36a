"""Rewrites the splitting of heads for attention: one call for queries, keys and values out of one product.

Torch's own multi-head attention has tokens before the batch, [N, B, C]; TTNN's calls have the batch first.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from ssinghal.capture.trace import Step, Trace, Value, ValueKind
from ssinghal.core.tensors import TILE_EDGE
from ssinghal.plan.axis_layout import AxisLayout
from ssinghal.plan.lowering import EXTRAS
from ssinghal.plan.passes.editing import VIEWS, Graph, view_of, with_steps

_LINEAR = "aten.linear.default"


class _Viewed(NamedTuple):
    """A value that is another one seen through ``views``, steps that alone read each other."""

    value: int
    views: list[int]


def split_heads(trace: Trace) -> Trace:
    """Replaces views that cut queries, keys and values out of one product by TTNN's call for it.

    Where tokens are before the batch, the linear layer that takes the joined heads gets and gives the batch first as well.
    """
    graph = Graph(trace)
    changed: dict[int, list[Step]] = {}
    values: list[Value] = []
    for number, step in enumerate(trace.steps):
        if step.overload == _LINEAR:
            changed |= _split_call(graph, number) or _split_of_sequences(graph, number, values)
    split = with_steps(trace, changed, values)
    return _batch_first(split) if values else split


def _split_call(graph: Graph, number: int) -> dict[int, list[Step]]:
    """Returns the call in place of these steps after the linear layer ``number``, none where there are others:

    linear -> [B, N, 3 H d] -> views -> [3, B, H, N, d] -> three selects of dim 0, or an unbind.
    """
    packed = graph.steps[number].results[0]
    value, axes, views = graph.after_views(packed)
    shape, heads = graph.values[packed].shape, graph.values[value].shape
    if axes is None or len(shape) != 3 or len(heads) != 5 or heads[0] != 3 or not views:
        return {}
    _, batch, count, length, size = heads
    expected = AxisLayout.plain((batch, length, 3, count, size)).permuted((2, 0, 3, 1, 4))
    if (batch, length, 3 * count * size) != shape or not _same_meaning(axes, expected) or size % TILE_EDGE:
        return {}
    selects = graph.readers[value]
    parts = _selected_parts(graph, selects)
    if parts is None:
        return {}
    split = _split(packed, count, parts, graph.steps[views[0]].at)
    return {**{n: [] for n in (*views[1:], *selects)}, views[0]: [split]}


def _split(packed: int, heads: int, parts: Sequence[int], at: str) -> Step:
    """Returns the call that splits [B, N, 3 H d] into three of [B, H, N, d]."""
    args = {"chunks": 3, "dim": 2, f"{EXTRAS}heads": heads}
    return Step("aten.chunk.default", {"self": packed}, args, tuple(parts), at)


def _split_of_sequences(graph: Graph, number: int, values: list[Value]) -> dict[int, list[Step]]:
    """Returns the calls in place of these steps after the linear layer ``number``, none where there are others:

    linear -> [N, B, 3 C] -> views -> [3, N, B, C] -> three selects of dim 0, or an unbind -> views -> each [B, H, N, d].

    ``values``: new ones, to which the product with its batch first is added.
    """
    packed = graph.steps[number].results[0]
    value, axes, views = graph.after_views(packed)
    shape, cut = graph.values[packed].shape, graph.values[value].shape
    if axes is None or len(shape) != 3 or len(cut) != 4 or cut[0] != 3 or not views:
        return {}
    _, length, batch, width = cut
    expected = AxisLayout.plain((length, batch, 3, width)).permuted((2, 0, 1, 3))
    selects = graph.readers[value]
    parts = _selected_parts(graph, selects)
    if (length, batch, 3 * width) != shape or not _same_meaning(axes, expected) or parts is None:
        return {}
    found = [x for x in (_heads_of_sequence(graph, part) for part in parts) if x is not None]
    heads = {graph.values[x.value].shape for x in found}
    if len(found) != 3 or len(heads) != 1:
        return {}
    ((_, count, _, size),) = heads
    if size % TILE_EDGE:
        return {}
    values.append(replace(graph.values[packed], shape=(batch, length, 3 * width), kind=ValueKind.ACTIVATION))
    first, at = len(graph.values) + len(values) - 1, graph.steps[views[0]].at
    swapped = Step("aten.transpose.int", {"self": packed}, {"dim0": 0, "dim1": 1}, (first,), at)
    gone = [*views[1:], *selects, *(n for x in found for n in x.views)]
    return {**{n: [] for n in gone}, views[0]: [swapped, _split(first, count, [x.value for x in found], at)]}


def _heads_of_sequence(graph: Graph, part: int) -> _Viewed | None:
    """Follows [N, B, C] through views to [B, H, N, d]."""
    length, batch, _ = graph.values[part].shape
    for value, views, axes in _through_views(graph, part, AxisLayout.plain(graph.values[part].shape)):
        shape = graph.values[value].shape
        if len(shape) == 4 and (shape[0], shape[2]) == (batch, length):
            expected = AxisLayout.plain((length, batch, shape[1], shape[3])).permuted((1, 2, 0, 3))
            if _same_meaning(axes, expected):
                return _Viewed(value, views)
    return None


def _through_views(graph: Graph, value: int, axes: AxisLayout | None) -> Iterator[tuple[int, list[int], AxisLayout]]:
    """Yields, after each view that alone reads the one before, its result, the views so far and the layout of its axes."""
    views: list[int] = []
    while axes is not None and (number := graph.only_reader(value)) is not None and graph.steps[number].overload in VIEWS:
        views.append(number)
        (value,) = graph.steps[number].results
        axes = view_of(axes, graph.steps[number], graph.values[value].shape)
        if axes is not None:
            yield value, list(views), axes


def _selected_parts(graph: Graph, readers: list[int]) -> tuple[int, int, int] | None:
    """Returns the values at index 0, 1 and 2 of dim 0 that ``readers`` select; None where they do anything else."""
    parts: dict[int, int] = {}
    for number in readers:
        if number == len(graph.steps):
            return None
        step = graph.steps[number]
        if step.overload == "aten.select.int" and step.args["dim"] == 0:
            selected = {step.args["index"] % 3: step.results[0]}
        elif step.overload == "aten.unbind.int" and step.args.get("dim", 0) == 0:
            selected = dict(enumerate(step.results))
        else:
            return None
        if selected.keys() & parts.keys():
            return None
        parts |= selected
    return (parts[0], parts[1], parts[2]) if len(parts) == 3 else None


def _same_meaning(one: AxisLayout, other: AxisLayout) -> bool:
    """Returns whether two layouts differ only in the numbers of their atoms."""
    sizes = tuple(one.sizes[a] for a in one.order) == tuple(other.sizes[a] for a in other.order)
    number = dict(zip(one.order, other.order, strict=False))
    return sizes and tuple(tuple(number[a] for a in dim) for dim in one.dims) == other.dims


# After attention ----------------------------------------------------------------------------------------------------------


def _batch_first(trace: Trace) -> Trace:
    """Lets linear layers that take joined heads as [N, B, H d] and whose results become [B, N, C] have the batch first."""
    graph = Graph(trace)
    changed: dict[int, list[Step]] = {}
    values: list[Value] = []
    for number, step in enumerate(trace.steps):
        if step.overload == _LINEAR:
            changed |= _joined_batch_first(graph, number, values)
    return with_steps(trace, changed, values)


def _joined_batch_first(graph: Graph, number: int, values: list[Value]) -> dict[int, list[Step]]:
    """Returns the steps in place of these around the linear layer ``number``, none where there are others:

    [B, H, N, d] -> views -> [N, B, H d] or [N B, H d] -> linear -> views -> [B, N, C].
    """
    step = graph.steps[number]
    heads, before = _views_before(graph, number, step.operands["input"])
    given, taken = graph.values[heads].shape, graph.values[step.operands["input"]].shape
    if len(given) != 4 or not before:
        return {}
    batch, count, length, size = given
    axes = next((a for _, views, a in _through_views(graph, heads, AxisLayout.plain(given)) if views == before), None)
    expected = AxisLayout.plain((batch, count, length, size)).permuted((2, 0, 1, 3)).viewed(taken)
    result = _batch_of_rows(graph, step.results[0], length, batch)
    if axes is None or expected is None or taken[-1] != count * size or not _same_meaning(axes, expected) or result is None:
        return {}
    joined = (batch, length, count * size)
    values += [replace(graph.values[heads], shape=shape) for shape in ((batch, length, count, size), joined)]
    split, whole = (len(graph.values) + len(values) - back for back in (2, 1))
    steps = [
        Step("aten.transpose.int", {"self": heads}, {"dim0": 1, "dim1": 2}, (split,), step.at),
        Step("aten.reshape.default", {"self": split}, {"shape": list(joined)}, (whole,), step.at),
        replace(step, operands={**step.operands, "input": whole}, results=(result.value,)),
    ]
    return {**{n: [] for n in (*before, *result.views)}, number: steps}


def _views_before(graph: Graph, reader: int, value: int) -> _Viewed:
    """Goes back from an operand of ``reader`` through the views that make it for that alone."""
    views: list[int] = []
    while (number := graph.creator_for(reader, value)) is not None and graph.steps[number].overload in VIEWS:
        views.insert(0, number)
        reader, value = number, graph.steps[number].operands["self"]
    return _Viewed(value, views)


def _batch_of_rows(graph: Graph, value: int, length: int, batch: int) -> _Viewed | None:
    """Follows the rows [N, B] of a result through views to [B, N, C]."""
    shape = graph.values[value].shape
    plain = AxisLayout.plain((length, batch, shape[-1]))
    for seen, views, axes in _through_views(graph, value, plain.viewed(shape)):
        if graph.values[seen].shape == (batch, length, shape[-1]) and _same_meaning(axes, plain.permuted((1, 0, 2))):
            return _Viewed(seen, views)
    return None
