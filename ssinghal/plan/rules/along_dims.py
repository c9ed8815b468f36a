"""Calls along some dims: cuts, joins, reductions, normalizations, padding."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from ssinghal.core.tensors import TILE_EDGE, Layout, Shape
from ssinghal.operators import named
from ssinghal.operators.binding import bind
from ssinghal.operators.operator_info import normal_dim, normal_dims
from ssinghal.plan.axis_layout import AxisLayout
from ssinghal.plan.layout_ops import HeldTensor, padding_factor
from ssinghal.plan.policy import Rewrite
from ssinghal.plan.rules.base import WIDE, Work, device_dims, registry
from ssinghal.plan.rules.matmul import split_heads
from ssinghal.plan.rules.views import same, view


def _around(shape: Shape, order: Sequence[int], dim: int) -> tuple[Shape, int]:
    """[outer, dim, between, last] without what is 1 in the middle, and the place of ``dim`` in it."""
    place = list(order).index(dim)
    outer = math.prod(shape[d] for d in order[:place])
    inner = [shape[d] for d in order[place + 1 :]]
    if not inner or math.prod(inner) == 1:
        return (1, 1, outer, shape[dim]), 3
    between, last = math.prod(inner[:-1]), inner[-1]
    return ((outer, shape[dim], between, last), 1) if between > 1 else ((1, outer, shape[dim], last), 2)


SPLITS = named("split chunk")
UNBIND, SELECT, CAT, STACK = named("unbind select cat stack")


def _cuts(work: Work) -> list[tuple[int, int, int, int]]:
    """(dim, start, end, step) of each result."""
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


def cut(work: Work) -> list[HeldTensor]:
    """Rows are cut as rows; tiles only where every cut is at an edge of tiles."""
    if "heads" in work.planned.extras:
        return split_heads(work)
    x, hand = work.operand(0), work.hand
    cuts = _cuts(work)
    dim = cuts[0][0]
    size = x.form.shape[dim]
    if all((start, end, step) == (0, size, 1) for _, start, end, step in cuts):
        return view(work)
    order = device_dims(work, x)
    shape, place = _around(x.form.shape, order, dim)
    along_tiles = all(step == 1 and not start % TILE_EDGE and not end % TILE_EDGE for _, start, end, step in cuts)
    stays = hand.layout(x) is Layout.TILE and (place == 3 or shape[2] % TILE_EDGE == 0) and (along_tiles or place == 1)
    hand._reshape_and_layout(x, shape, Layout.TILE if stays else Layout.ROW_MAJOR)
    results = []
    for (_, start, end, step), result in zip(cuts, work.shapes, strict=True):
        begins, ends, steps = [0] * 4, list(shape), [1] * 4
        begins[place], ends[place], steps[place] = start, end, step
        hand.doing = f"slice {list(shape)} from {begins} to {ends}"
        tensor = hand.ttnn.slice(x.tensor, begins, ends, steps, **hand.in_dram)
        kept = [d for d in order if d != dim] if len(result) < len(order) else list(order)
        if len(result) < len(order):
            kept = [d - (d > dim) for d in kept]
        results.append(HeldTensor(tensor, AxisLayout.plain(result, kept)))
    return results


def cat(work: Work) -> list[HeldTensor]:
    """In the order of the first operand; as rows where tiles would have to be broken up."""
    hand, operands = work.hand, [work.operand(i) for i in range(work.count)]
    result, name = work.shapes[0], work.planned.operator
    dim = normal_dim(work.attrs["dim"], len(result))
    if work.count == 1 and name == CAT:
        return same(work)
    if name == STACK:
        operands = [HeldTensor(x.tensor, _stacked(x.form, dim)) for x in operands]
    order = operands[0].form.device_dims() or list(range(len(result)))
    groups = [_around(x.form.shape, order, dim) for x in operands]
    place = groups[0][1]
    whole = all(shape[2] % TILE_EDGE == 0 for shape, _ in groups)
    fits_tiles = (place == 3 or whole) and padding_factor(groups[0][0]) <= WIDE
    for x, (shape, _) in zip(operands, groups, strict=True):
        hand.cast(x, work.case.placement.dtype)
        hand.arrange(x, order, shape, Layout.TILE if fits_tiles else Layout.ROW_MAJOR)
    hand.doing = f"concat of {len(operands)} along dim {dim}"
    tensor = hand.ttnn.concat([x.tensor for x in operands], dim=place, **hand.in_dram)
    return [HeldTensor(tensor, AxisLayout.plain(result, order))]


def _stacked(form: AxisLayout, dim: int) -> AxisLayout:
    return replace(form, dims=(*form.dims[:dim], (), *form.dims[dim:]))


def softmax(work: Work) -> list[HeldTensor]:
    hand, x = work.hand, work.operand(0)
    dim = normal_dim(work.attrs["dim"], len(x.form.dims))
    order = device_dims(work, x)
    shape, place = _around(x.form.shape, order, dim)
    if place == 3:
        hand.last_axis(x, shape[3])
    else:
        hand._reshape_and_layout(x, shape, Layout.TILE)
    in_place = Rewrite.SOFTMAX_IN_PLACE in hand.policy.rewrites and place == 3
    if in_place and work.planned.operands[0] in work.dies and not work.is_shared(x.tensor):
        shape = (1, 1, 1, *x.shape)
        hand.reshape(x, (math.prod(shape[:-3]), *shape[-3:]))  # of rank 4, in the same tiles
        hand.doing = "ttnn.softmax_in_place"
        return [HeldTensor(hand.ttnn.softmax_in_place(x.tensor), x.form)]
    (result,) = work.call([x.tensor], {**work.case.attrs, "dim": -1 if place == 3 else place})
    return [HeldTensor(result, x.form)]


def rowwise(work: Work) -> list[HeldTensor]:
    """Calls that work on the last dim alone: a linear layer, a normalization."""
    hand, x = work.hand, work.operand(0)
    last = len(x.form.dims) - 1
    order = x.form.device_dims()
    if order is None or (order[-1] != last and x.form.shape[last] != 1):
        order = list(range(last + 1))
        hand.arrange(x, order)
    hand.cast(x, work.case.placement.dtype)
    hand.last_axis(x, x.form.shape[last])
    weights = [work.residents.tensor(work.planned, i) if work.is_resident(i) else None for i in range(1, work.count)]
    if any(weight is None for weight in weights):
        return registry(work)
    case = replace(work.case, placement=work.placement(Layout.TILE))
    (result,) = work.run(bind(case), [x.tensor, *weights])
    form = AxisLayout.plain(work.shapes[0], order)
    inner = work.planned.extras.get("features_inner")
    return [HeldTensor(result, form if inner is None else form.last_turned(inner))]


def reduce(work: Work) -> list[HeldTensor]:
    """Over runs of dims as they lie."""
    hand, x, attrs = work.hand, work.operand(0), work.attrs
    shape = x.form.shape
    gone = set(normal_dims(attrs.get("dim"), len(shape)))
    order = device_dims(work, x)
    runs: list[list[int]] = []
    for d in order:
        if runs and (d in gone) == (runs[-1][-1] in gone):
            runs[-1].append(d)
        else:
            runs.append([d])
    sizes = tuple(math.prod(shape[d] for d in run) for run in runs)
    hand.cast(x, work.case.placement.dtype)
    hand._reshape_and_layout(x, sizes if len(sizes) > 1 else (1, *sizes), Layout.TILE)
    shift = 0 if len(sizes) > 1 else 1
    dims = [i + shift for i, run in enumerate(runs) if run[0] in gone]
    (result,) = work.call([x.tensor], {**work.case.attrs, "dim": dims, "keepdim": True})
    kept = work.shapes[0]
    if len(kept) == len(shape):
        return [HeldTensor(result, AxisLayout.plain(kept, order))]
    left = sorted(set(range(len(shape))) - gone)
    return [HeldTensor(result, AxisLayout.plain(kept, [left.index(d) for d in order if d not in gone]))]


def pad(work: Work) -> list[HeldTensor]:
    """As rows, by dims in the order in which they lie. Nothing to pad is nothing to do."""
    hand, x = work.hand, work.operand(0)
    name = "pad" if "pad" in work.attrs else "padding"
    flat = list(work.attrs[name])
    if not any(flat):
        return same(work)
    rank = len(x.form.dims)
    order = device_dims(work, x)
    pairs = [flat[2 * (rank - 1 - d) : 2 * (rank - d)] or [0, 0] for d in range(rank)]
    placed = [pairs[d] for d in order]
    hand._reshape_and_layout(x, tuple(x.form.shape[d] for d in order), Layout.ROW_MAJOR)
    attrs = {**work.case.attrs, name: [n for pair in reversed(placed) for n in pair]}
    (result,) = work.call([x.tensor], attrs, Layout.ROW_MAJOR)
    return [HeldTensor(result, AxisLayout.plain(work.shapes[0], order))]


def roll(work: Work) -> list[HeldTensor]:
    hand, x, attrs = work.hand, work.operand(0), work.attrs
    if not attrs["dims"]:
        return registry(work)
    order = device_dims(work, x)
    dims = [attrs["dims"]] if isinstance(attrs["dims"], int) else list(attrs["dims"])
    placed = [order.index(normal_dim(d, len(order))) for d in dims]
    hand._reshape_and_layout(x, tuple(x.form.shape[d] for d in order), Layout.ROW_MAJOR)
    (result,) = work.call([x.tensor], {**work.case.attrs, "dims": placed}, Layout.ROW_MAJOR)
    return [HeldTensor(result, AxisLayout.plain(work.shapes[0], order))]
