"""Makes calls along some dims: slices, concats, reductions, normalizations, padding."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

from ssinghal.core.tensors import TILE_EDGE, Layout, Shape
from ssinghal.operators import named
from ssinghal.operators.operator_info import normal_dim, normal_dims
from ssinghal.plan.axis_layout import AxisLayout
from ssinghal.plan.layout_ops import HeldTensor, padding_factor
from ssinghal.plan.policy import Rewrite
from ssinghal.plan.rules.base import WIDE, Work, declared_call, device_dims
from ssinghal.plan.rules.matmul import split_heads
from ssinghal.plan.rules.views import unchanged, view


def _around(shape: Shape, order: Sequence[int], dim: int) -> tuple[Shape, int]:
    """Returns the shape [outer, dim, between, last], without ``between`` where that is 1, and the place of ``dim`` in it."""
    place = list(order).index(dim)
    outer = math.prod(shape[d] for d in order[:place])
    inner = [shape[d] for d in order[place + 1 :]]
    if not inner or math.prod(inner) == 1:
        return (1, 1, outer, shape[dim]), 3
    between, last = math.prod(inner[:-1]), inner[-1]
    return ((outer, shape[dim], between, last), 1) if between > 1 else ((1, outer, shape[dim], last), 2)


SPLITS = named("split chunk")
UNBIND, SELECT, CAT, STACK = named("unbind select cat stack")


def _slices(work: Work) -> list[tuple[int, int, int, int]]:
    """Returns (dim, start, end, step) of each result."""
    attrs, shape = work.attrs, work.case.inputs[0]
    dim = normal_dim(attrs["dim"], len(shape))
    if work.planned.operator in SPLITS:
        ends = [0]
        for result in work.shapes:
            ends.append(ends[-1] + result[dim])
        return [(dim, a, b, 1) for a, b in pairwise(ends)]
    if work.planned.operator == UNBIND:
        return [(dim, i, i + 1, 1) for i in range(shape[dim])]
    if work.planned.operator == SELECT:
        index = attrs["index"] % shape[dim]
        return [(dim, index, index + 1, 1)]
    start, step = attrs["start"] or 0, attrs["step"]
    start = max(0, start + shape[dim]) if start < 0 else start
    return [(dim, start, min(shape[dim], start + (work.shapes[0][dim] - 1) * step + 1), step)]


def slices(work: Work) -> list[HeldTensor]:
    """Slices rows as rows, and tiles only where every slice is at an edge of tiles."""
    if "heads" in work.planned.extras:
        return split_heads(work)
    x, ops = work.operand(0), work.ops
    ranges = _slices(work)
    dim = ranges[0][0]
    size = x.axes.shape[dim]
    if all((start, end, step) == (0, size, 1) for _, start, end, step in ranges):
        return view(work)
    order = device_dims(work, x)
    shape, place = _around(x.axes.shape, order, dim)
    along_tiles = all(step == 1 and not start % TILE_EDGE and not end % TILE_EDGE for _, start, end, step in ranges)
    stays = ops.layout(x) is Layout.TILE and (place == 3 or shape[2] % TILE_EDGE == 0) and (along_tiles or place == 1)
    ops.reshape_and_layout(x, shape, Layout.TILE if stays else Layout.ROW_MAJOR)
    results = []
    for (_, start, end, step), result in zip(ranges, work.shapes, strict=True):
        begins, ends, steps = [0] * 4, list(shape), [1] * 4
        begins[place], ends[place], steps[place] = start, end, step
        ops.doing = f"slice {list(shape)} from {begins} to {ends}"
        tensor = ops.ttnn.slice(work.ready(0, x), begins, ends, steps, **ops.placed)
        kept = [d for d in order if d != dim] if len(result) < len(order) else list(order)
        if len(result) < len(order):
            kept = [d - (d > dim) for d in kept]
        results.append(HeldTensor(tensor, AxisLayout.plain(result, kept)))
    return results


def cat(work: Work) -> list[HeldTensor]:
    """Concatenates in the order of the first operand; as rows where tiles would have to be untilized."""
    ops, operands = work.ops, [work.operand(i) for i in range(work.count)]
    result, name = work.shapes[0], work.planned.operator
    dim = normal_dim(work.attrs["dim"], len(result))
    if work.count == 1 and name == CAT:
        return unchanged(work)
    if name == STACK:
        operands = [HeldTensor(x.tensor, _stacked(x.axes, dim)) for x in operands]
    order = operands[0].axes.device_dims() or list(range(len(result)))
    groups = [_around(x.axes.shape, order, dim) for x in operands]
    place = groups[0][1]
    complete_tiles = all(shape[2] % TILE_EDGE == 0 for shape, _ in groups)
    fits_tiles = (place == 3 or complete_tiles) and padding_factor(groups[0][0]) <= WIDE
    for x, (shape, _) in zip(operands, groups, strict=True):
        work.as_float(x)
        ops.arrange(x, order, shape, Layout.TILE if fits_tiles else Layout.ROW_MAJOR)
        work.in_call_dtype(x)  # constants too: TTNN concatenates one dtype
    tensors = [work.ready(i, x) for i, x in enumerate(operands)]
    ops.doing = f"concat of {len(operands)} along dim {dim}"
    tensor = ops.ttnn.concat(tensors, dim=place, **ops.placed)
    return [HeldTensor(tensor, AxisLayout.plain(result, order))]


def _stacked(axes: AxisLayout, dim: int) -> AxisLayout:
    return replace(axes, dims=(*axes.dims[:dim], (), *axes.dims[dim:]))


def softmax(work: Work) -> list[HeldTensor]:
    """Calls softmax on the order of dims that the device has; in place where the policy allows it."""
    ops, x = work.ops, work.operand(0)
    dim = normal_dim(work.attrs["dim"], len(x.axes.dims))
    order = device_dims(work, x)
    shape, place = _around(x.axes.shape, order, dim)
    if place == 3:
        ops.to_last_axis(x, shape[3])
    else:
        ops.reshape_and_layout(x, shape, Layout.TILE)
    in_place = Rewrite.SOFTMAX_IN_PLACE in ops.policy.rewrites and place == 3
    if in_place and work.planned.operands[0] in work.dies and not work.is_shared(x.tensor):
        shape = (1, 1, 1, *x.shape)
        ops.reshape(x, (math.prod(shape[:-3]), *shape[-3:]))  # rank 4, in the same tiles
        ops.doing = "ttnn.softmax_in_place"
        return [HeldTensor(ops.ttnn.softmax_in_place(x.tensor), x.axes)]
    (result,) = work.call([work.ready(0, x)], {**work.case.attrs, "dim": -1 if place == 3 else place})
    return [HeldTensor(result, x.axes)]


def rowwise(work: Work) -> list[HeldTensor]:
    """Makes calls that work on the last dim alone: a linear layer, a normalization."""
    ops, x = work.ops, work.operand(0)
    last = len(x.axes.dims) - 1
    order = x.axes.device_dims()
    in_place = order is not None and (order[-1] == last or x.axes.shape[last] == 1)
    if not in_place and ops.policy.in_l1:
        order = None
        ops.last_dim_innermost(x)
    elif not in_place:
        order = list(range(last + 1))
        ops.arrange(x, order)
    work.as_float(x)
    ops.to_last_axis(x, x.axes.shape[last])
    weights = [work.residents.tensor(work.planned, i) if work.is_resident(i) else None for i in range(1, work.count)]
    if any(weight is None for weight in weights):
        return declared_call(work)
    case = replace(work.case, placement=work.placement(Layout.TILE))
    (result,) = work.run(work.configured(case), [work.ready(0, x), *weights])
    axes = x.axes.with_last_dim(work.shapes[0][-1]) if order is None else AxisLayout.plain(work.shapes[0], order)
    inner = work.planned.extras.get("features_inner")
    return [HeldTensor(result, axes if inner is None else axes.with_last_dim_swapped(inner))]


def reduce(work: Work) -> list[HeldTensor]:
    """Reduces runs of dims that are neighbours on the device."""
    ops, x, attrs = work.ops, work.operand(0), work.attrs
    shape = x.axes.shape
    reduced = set(normal_dims(attrs.get("dim"), len(shape)))
    order = device_dims(work, x)
    runs: list[list[int]] = []
    for d in order:
        if runs and (d in reduced) == (runs[-1][-1] in reduced):
            runs[-1].append(d)
        else:
            runs.append([d])
    sizes = tuple(math.prod(shape[d] for d in run) for run in runs)
    work.as_float(x)
    ops.reshape_and_layout(x, sizes if len(sizes) > 1 else (1, *sizes), Layout.TILE)
    shift = 0 if len(sizes) > 1 else 1
    dims = [i + shift for i, run in enumerate(runs) if run[0] in reduced]
    (result,) = work.call([work.ready(0, x)], {**work.case.attrs, "dim": dims, "keepdim": True})
    kept = work.shapes[0]
    if len(kept) == len(shape):
        return [HeldTensor(result, AxisLayout.plain(kept, order))]
    remaining = sorted(set(range(len(shape))) - reduced)
    return [HeldTensor(result, AxisLayout.plain(kept, [remaining.index(d) for d in order if d not in reduced]))]


def pad(work: Work) -> list[HeldTensor]:
    """Pads rows, by dims in the order of the device."""
    ops, x = work.ops, work.operand(0)
    name = "pad" if "pad" in work.attrs else "padding"
    flat = list(work.attrs[name])
    if not any(flat):
        return unchanged(work)
    rank = len(x.axes.dims)
    order = device_dims(work, x)
    pairs = [flat[2 * (rank - 1 - d) : 2 * (rank - d)] or [0, 0] for d in range(rank)]
    placed = [pairs[d] for d in order]
    ops.reshape_and_layout(x, tuple(x.axes.shape[d] for d in order), Layout.ROW_MAJOR)
    attrs = {**work.case.attrs, name: [n for pair in reversed(placed) for n in pair]}
    (result,) = work.call([work.ready(0, x)], attrs, Layout.ROW_MAJOR)
    return [HeldTensor(result, AxisLayout.plain(work.shapes[0], order))]


def roll(work: Work) -> list[HeldTensor]:
    """Rolls rows, by dims in the order of the device; under policy l1 by slices and a concat.

    TTNN's own call makes the same two calls for each dim, but keeps what it slices in DRAM.
    """
    ops, x, attrs = work.ops, work.operand(0), work.attrs
    if not attrs["dims"]:
        return declared_call(work)
    order = device_dims(work, x)
    dims = [attrs["dims"]] if isinstance(attrs["dims"], int) else list(attrs["dims"])
    placed = [order.index(normal_dim(d, len(order))) for d in dims]
    shape = tuple(x.axes.shape[d] for d in order)
    ops.reshape_and_layout(x, shape, Layout.ROW_MAJOR)
    axes = AxisLayout.plain(work.shapes[0], order)
    if ops.policy.in_l1:
        shifts = [attrs["shifts"]] if isinstance(attrs["shifts"], int) else list(attrs["shifts"])
        tensor = work.ready(0, x)
        for place, shift in zip(placed, shifts, strict=True):
            tensor = _rolled(work, tensor, shape, place, shape[place] - shift % shape[place])
        return [HeldTensor(tensor, axes)]
    (result,) = work.call([work.ready(0, x)], {**work.case.attrs, "dims": placed}, Layout.ROW_MAJOR)
    return [HeldTensor(result, axes)]


def _rolled(work: Work, tensor: Any, shape: Shape, place: int, start: int) -> Any:
    """Returns the rows of ``tensor`` along one dim from ``start`` on, and those before it after them."""
    size, ops = shape[place], work.ops
    if start == size:
        return tensor
    parts = []
    for a, b in ((start, size), (0, start)):
        begins, ends = [0] * len(shape), list(shape)
        begins[place], ends[place] = a, b
        ops.doing = f"slice {list(shape)} from {begins} to {ends}"
        parts.append(ops.ttnn.slice(tensor, begins, ends, [1] * len(shape), **ops.placed))
    ops.doing = f"concat of 2 along dim {place}"
    return ops.ttnn.concat(parts, dim=place, **ops.placed)
