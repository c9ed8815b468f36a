"""The calls that a port makes for one step: operands laid out as TTNN takes them, results as they come.

Each rule takes a ``Work`` and returns the results as they lie. What a rule does not know by itself is the registry's call.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from ssinghal.cases import Case, Placement
from ssinghal.operators import make_case
from ssinghal.operators.core import Call, input_specs, normal_dim, normal_dims
from ssinghal.plan.forms import Form
from ssinghal.plan.hand import Hand, Held, padding_factor
from ssinghal.plan.policy import Rewrite
from ssinghal.plan.residents import VOLUME, Residents, conv_arguments, spatial
from ssinghal.plan.steps import PlannedStep
from ssinghal.specs import TILE_EDGE, Layout, Shape, round_up

CHANNELS_LAST = (0, 2, 3, 1)
WIDE = 2.0  # tiles that take more than this many times their elements are not made where rows do as well


@dataclass
class Work:
    """One step to be done. ``held``: its activations, by value; ``shapes``: of its results; ``dies``: values that nobody reads
    after it."""

    planned: PlannedStep
    hand: Hand
    residents: Residents
    held: Mapping[int, Held]
    shapes: Sequence[Shape]
    dies: frozenset[int] = frozenset()

    @property
    def case(self) -> Case:
        assert self.planned.case is not None
        return self.planned.case

    @property
    def attrs(self) -> Mapping[str, Any]:
        return self.planned.attrs

    @property
    def count(self) -> int:
        return len(self.planned.operands)

    def is_resident(self, position: int) -> bool:
        return self.planned.operands[position] not in self.held

    def operand(self, position: int) -> Held:
        """To be converted at will: in place of the value where the policy says so, else beside it."""
        if self.is_resident(position):
            return self.residents.held(self.planned, position)
        held = self.held[self.planned.operands[position]]
        return held if self.hand.policy.replace_on_conversion else replace(held)

    def is_shared(self, tensor: Any) -> bool:
        """Whether another value than the first operand lies in its buffer, so that it must not be written over. What torch
        copies may be such a value: here it lies as it lies."""
        others = [held.tensor for number, held in self.held.items() if number != self.planned.operands[0]]
        weights = [] if self.is_resident(0) else self.residents.tensors.values()
        address = tensor.buffer_address()
        return any(other.buffer_address() == address for other in (*others, *weights))

    def placement(self, layout: Layout) -> Placement:
        return replace(self.case.placement, layout=layout, channels_last=False)

    def call(self, tensors: Sequence[Any], attrs: Mapping[str, Any], layout: Layout = Layout.TILE) -> list[Any]:
        """The registry's call on tensors of these shapes, with the results in DRAM."""
        info, hand = self.planned.info, self.hand
        case = make_case(info.name, tuple(tuple(t.shape) for t in tensors), attrs, self.placement(layout))
        return self.run(case, tensors, info.complete_attrs(attrs), hand)

    def run(self, case: Case, tensors: Sequence[Any], attrs: Mapping[str, Any], hand: Hand) -> list[Any]:
        info = self.planned.info
        assert info.call is not None
        if info.traits.in_place and self.is_shared(tensors[0]):
            hand.doing = "ttnn.clone"
            tensors = [hand.ttnn.clone(tensors[0], **hand.in_dram), *tensors[1:]]
        hand.doing = info.ttnn
        returned = info.call(Call(hand.ttnn, hand.session.device, list(tensors), attrs, hand.in_dram, case))
        return list(returned) if isinstance(returned, (list, tuple)) else [returned]


Rule = Callable[[Work], list[Held]]


# Views -----------------------------------------------------------------------------------------------------------------


def _view(work: Work) -> list[Held]:
    """Another shape of the same elements: free, unless the order on the device stands against it."""
    x, shape = work.operand(0), work.shapes[0]
    form = x.form.viewed(shape)
    if form is None:
        work.hand.plain(x, Layout.ROW_MAJOR)
        form = Form.plain(shape)
    return [Held(x.tensor, form)]


def _permute(work: Work) -> list[Held]:
    x, attrs = work.operand(0), work.attrs
    rank = len(x.form.dims)
    if work.planned.operator == "permute":
        dims = [normal_dim(d, rank) for d in attrs["dims"]]
    elif work.planned.operator == "t":
        dims = list(reversed(range(rank)))
    else:
        a, b = normal_dim(attrs["dim0"], rank), normal_dim(attrs["dim1"], rank)
        dims = [b if d == a else a if d == b else d for d in range(rank)]
    return [Held(x.tensor, x.form.permuted(dims))]


def _same(work: Work) -> list[Held]:
    """What torch copies to have it in another order: on the device it lies as it lies."""
    x = work.operand(0)
    return [Held(x.tensor, x.form)]


def _dropout(work: Work) -> list[Held]:
    """Outside training it is the identity."""
    return _registry(work) if work.attrs["train"] and work.attrs["p"] else _same(work)


def _expand(work: Work) -> list[Held]:
    return _view(work) if math.prod(work.shapes[0]) == work.operand(0).form.volume else _registry(work)


# Elementwise -----------------------------------------------------------------------------------------------------------


def _unary(work: Work) -> list[Held]:
    """On the device tensor as it lies; tiled, unless that takes several times the bytes."""
    x = work.operand(0)
    work.hand.cast(x, work.case.placement.dtype)
    shape = x.shape
    rows = (1, 1, math.prod(shape[:-1]), shape[-1])
    takes_rows = Layout.ROW_MAJOR in work.planned.info.layouts
    layout = Layout.ROW_MAJOR if takes_rows and padding_factor(rows) > WIDE else Layout.TILE
    if work.hand.layout(x) is not layout and layout is Layout.TILE:
        work.hand.rows(x)
    (result,) = work.call([x.tensor], work.case.attrs, work.hand.layout(x))
    return [Held(result, x.form)]


def _broadcast(work: Work) -> list[Held]:
    """All operands in the order of the first one that has the shape of the result, on the device as that one lies."""
    hand, shape = work.hand, work.shapes[0]
    operands = [work.operand(i) for i in range(work.count)]
    if work.count == 1:
        return _unary(work)
    leads = [x for i, x in enumerate(operands) if x.form.shape == shape and not work.is_resident(i)]
    if not leads:
        return _broadcast_plain(work, operands)
    lead = next((x for x in leads if x.form.device_dims() is not None), leads[0])
    order = _device_dims(work, lead)
    for x in operands:
        hand.cast(x, work.case.placement.dtype)
    hand.rows(lead)
    if not all(_fits(x.form, shape, lead.shape, order) for x in operands):
        hand.arrange(lead, order, tuple(shape[d] for d in order), Layout.TILE)
        lead = replace(lead)
    for x in operands:
        if x is not lead:
            _follow(hand, x, shape, lead.shape, order)
    (result,) = work.call([x.tensor for x in operands], work.case.attrs)
    return [Held(result, lead.form)]


def _aligned(form: Form, shape: Shape) -> Form:
    """With as many dims as the result."""
    return replace(form, dims=((),) * (len(shape) - len(form.dims)) + form.dims)


def _pattern(form: Form, shape: Shape, device: Shape, order: Sequence[int]) -> list[int] | None:
    """The device shape of an operand that is broadcast to ``shape``, which lies as ``device``; None where a dim of that device
    tensor would be broadcast in part."""
    sizes = _aligned(form, shape).shape
    result: list[int] = []
    left = [d for d in order if shape[d] != 1]
    for size in device:
        taken: list[int] = []
        while math.prod(shape[d] for d in taken) < size and left:
            taken.append(left.pop(0))
        own = math.prod(sizes[d] for d in taken)
        if math.prod(shape[d] for d in taken) != size or own not in (1, size):
            return None
        result.append(own)
    return result


def _fits(form: Form, shape: Shape, device: Shape, order: Sequence[int]) -> bool:
    return _pattern(form, shape, device, order) is not None


def _follow(hand: Hand, x: Held, shape: Shape, device: Shape, order: Sequence[int]) -> None:
    wanted = _pattern(x.form, shape, device, order)
    assert wanted is not None
    form, missing = x.form, len(shape) - len(x.form.dims)
    dims = [d - missing for d in order if d >= missing]
    assert len(dims) == len(form.dims)
    hand.arrange(x, dims, tuple(wanted), Layout.TILE)


def _broadcast_plain(work: Work, operands: Sequence[Held]) -> list[Held]:
    for x in operands:
        work.hand.cast(x, work.case.placement.dtype)
        work.hand.plain(x)
    (result,) = work.call([x.tensor for x in operands], work.case.attrs)
    return [Held(result, Form.plain(work.shapes[0]))]


# Along some dims --------------------------------------------------------------------------------------------------------


def _device_dims(work: Work, x: Held) -> list[int]:
    """The order of its dims on the device. Where their atoms are mixed, one is made: what lies last stays last."""
    order = x.form.device_dims()
    if order is None:
        last = next(d for d, atoms in enumerate(x.form.dims) if x.form.order[-1] in atoms)
        order = [*(d for d in range(len(x.form.dims)) if d != last), last]
        work.hand.arrange(x, order, layout=Layout.ROW_MAJOR)
    return order


def _around(shape: Shape, order: Sequence[int], dim: int) -> tuple[Shape, int]:
    """[outer, dim, between, last] without what is 1 in the middle, and the place of ``dim`` in it."""
    place = list(order).index(dim)
    outer = math.prod(shape[d] for d in order[:place])
    inner = [shape[d] for d in order[place + 1 :]]
    if not inner or math.prod(inner) == 1:
        return (1, 1, outer, shape[dim]), 3
    between, last = math.prod(inner[:-1]), inner[-1]
    return ((outer, shape[dim], between, last), 1) if between > 1 else ((1, outer, shape[dim], last), 2)


def _cuts(work: Work) -> list[tuple[int, int, int, int]]:
    """(dim, start, end, step) of each result."""
    attrs, shape = work.attrs, work.case.inputs[0]
    dim = normal_dim(attrs["dim"], len(shape))
    if work.planned.operator in ("split", "chunk"):
        ends = [0]
        for result in work.shapes:
            ends.append(ends[-1] + result[dim])
        return [(dim, a, b, 1) for a, b in pairwise(ends)]
    if work.planned.operator == "unbind":
        return [(dim, i, i + 1, 1) for i in range(shape[dim])]
    if work.planned.operator == "select":
        index = attrs["index"] % shape[dim]
        return [(dim, index, index + 1, 1)]
    start, step = attrs["start"] or 0, attrs["step"]
    start = max(0, start + shape[dim]) if start < 0 else start
    return [(dim, start, min(shape[dim], start + (work.shapes[0][dim] - 1) * step + 1), step)]


def _cut(work: Work) -> list[Held]:
    """Rows are cut as rows; tiles only where every cut is at an edge of tiles."""
    if "heads" in work.planned.extras:
        return _split_heads(work)
    x, hand = work.operand(0), work.hand
    cuts = _cuts(work)
    dim = cuts[0][0]
    size = x.form.shape[dim]
    if all((start, end, step) == (0, size, 1) for _, start, end, step in cuts):
        return _view(work)
    order = _device_dims(work, x)
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
        results.append(Held(tensor, Form.plain(result, kept)))
    return results


def _split_heads(work: Work) -> list[Held]:
    """[B, N, 3 H d] to three of [B, H, N, d]."""
    hand, x = work.hand, work.operand(0)
    hand.plain(x)
    hand.doing = "ttnn.transformer.split_query_key_value_and_split_heads"
    split = hand.ttnn.transformer.split_query_key_value_and_split_heads
    parts = split(x.tensor, num_heads=work.planned.extras["heads"], transpose_key=False, **hand.in_dram)
    return [Held(tensor, Form.plain(shape)) for tensor, shape in zip(parts, work.shapes, strict=True)]


def _cat(work: Work) -> list[Held]:
    """In the order of the first operand; as rows where tiles would have to be broken up."""
    hand, operands = work.hand, [work.operand(i) for i in range(work.count)]
    result, name = work.shapes[0], work.planned.operator
    dim = normal_dim(work.attrs["dim"], len(result))
    if work.count == 1 and name == "cat":
        return _same(work)
    if name == "stack":
        operands = [Held(x.tensor, _stacked(x.form, dim)) for x in operands]
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
    return [Held(tensor, Form.plain(result, order))]


def _stacked(form: Form, dim: int) -> Form:
    return replace(form, dims=(*form.dims[:dim], (), *form.dims[dim:]))


def _softmax(work: Work) -> list[Held]:
    hand, x = work.hand, work.operand(0)
    dim = normal_dim(work.attrs["dim"], len(x.form.dims))
    order = _device_dims(work, x)
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
        return [Held(hand.ttnn.softmax_in_place(x.tensor), x.form)]
    (result,) = work.call([x.tensor], {**work.case.attrs, "dim": -1 if place == 3 else place})
    return [Held(result, x.form)]


def _rowwise(work: Work) -> list[Held]:
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
        return _registry(work)
    case = replace(work.case, placement=work.placement(Layout.TILE))
    (result,) = work.run(case, [x.tensor, *weights], work.attrs, hand)
    form = Form.plain(work.shapes[0], order)
    inner = work.planned.extras.get("features_inner")
    return [Held(result, form if inner is None else form.last_turned(inner))]


def _reduce(work: Work) -> list[Held]:
    """Over runs of dims as they lie."""
    hand, x, attrs = work.hand, work.operand(0), work.attrs
    shape = x.form.shape
    gone = set(normal_dims(attrs.get("dim"), len(shape)))
    order = _device_dims(work, x)
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
        return [Held(result, Form.plain(kept, order))]
    left = sorted(set(range(len(shape))) - gone)
    return [Held(result, Form.plain(kept, [left.index(d) for d in order if d not in gone]))]


def _pad(work: Work) -> list[Held]:
    """As rows, by dims in the order in which they lie. Nothing to pad is nothing to do."""
    hand, x = work.hand, work.operand(0)
    name = "pad" if "pad" in work.attrs else "padding"
    flat = list(work.attrs[name])
    if not any(flat):
        return _same(work)
    rank = len(x.form.dims)
    order = _device_dims(work, x)
    pairs = [flat[2 * (rank - 1 - d) : 2 * (rank - d)] or [0, 0] for d in range(rank)]
    placed = [pairs[d] for d in order]
    hand._reshape_and_layout(x, tuple(x.form.shape[d] for d in order), Layout.ROW_MAJOR)
    attrs = {**work.case.attrs, name: [n for pair in reversed(placed) for n in pair]}
    (result,) = work.call([x.tensor], attrs, Layout.ROW_MAJOR)
    return [Held(result, Form.plain(work.shapes[0], order))]


def _roll(work: Work) -> list[Held]:
    hand, x, attrs = work.hand, work.operand(0), work.attrs
    if not attrs["dims"]:
        return _registry(work)
    order = _device_dims(work, x)
    dims = [attrs["dims"]] if isinstance(attrs["dims"], int) else list(attrs["dims"])
    placed = [order.index(normal_dim(d, len(order))) for d in dims]
    hand._reshape_and_layout(x, tuple(x.form.shape[d] for d in order), Layout.ROW_MAJOR)
    (result,) = work.call([x.tensor], {**work.case.attrs, "dims": placed}, Layout.ROW_MAJOR)
    return [Held(result, Form.plain(work.shapes[0], order))]


# Products --------------------------------------------------------------------------------------------------------------


def _matmul(work: Work) -> list[Held]:
    """Batches before matrices. With ``transposed_matmul`` an operand whose matrices lie transposed stays so."""
    hand, shape = work.hand, work.shapes[0]
    a, b = work.operand(0), work.operand(1)
    if min(len(a.form.dims), len(b.form.dims)) < 2 or a.form.shape[:-2] != b.form.shape[:-2]:
        return _registry(work)
    flags = {}
    for x, flag in ((a, "transpose_a"), (b, "transpose_b")):
        rank = len(x.form.dims)
        straight = list(range(rank))
        swapped = [*straight[:-2], rank - 1, rank - 2]
        order = straight
        if hand.policy.transposed_matmul and not x.form.lies(straight) and x.form.lies(swapped):
            flags[flag], order = True, swapped
        sizes = [x.form.shape[d] for d in order]
        batch = sizes[:-2] if rank <= 4 else [math.prod(sizes[:-3]), sizes[-3]]
        hand.cast(x, work.case.placement.dtype)
        hand.arrange(x, order, (*[1] * (2 - len(batch)), *batch, *sizes[-2:]), Layout.TILE)
    hand.doing = f"matmul {list(a.shape)} with {list(b.shape)} {' '.join(flags)}".rstrip()
    return [Held(hand.ttnn.matmul(a.tensor, b.tensor, **flags, **hand.in_dram), Form.plain(shape))]


def _convolution(work: Work) -> list[Held]:
    if not work.residents.prepares(work.planned):
        return _registry(work)
    return _conv3d(work) if len(work.case.inputs[0]) == VOLUME else _conv2d(work)


def _conv2d(work: Work) -> list[Held]:
    hand, x, step = work.hand, work.operand(0), work.planned
    refusal = work.residents.refusal(step)
    if refusal is not None:
        hand.doing = "ttnn.prepare_conv_weights"
        raise refusal
    n, c, h, w = work.case.inputs[0]
    hand.arrange(x, CHANNELS_LAST, (1, 1, n * h * w, c))
    bias = work.residents.tensor(step, 2) if work.count > 2 else None
    hand.doing = "ttnn.conv2d"
    result = hand.ttnn.conv2d(
        input_tensor=x.tensor,
        weight_tensor=work.residents.tensor(step, 1),
        bias_tensor=bias,
        device=hand.session.device,
        **conv_arguments(step),
        **hand.in_dram,
    )
    return [Held(result, Form.plain(work.shapes[0], CHANNELS_LAST))]


def _conv3d(work: Work) -> list[Held]:
    """On [N, D, H, W, C] in rows, whole tiles of channels, and to such: what TTNN adds to fewer by itself it does not count
    when the result gets another shape. The weight is dense over its groups, so that the call has one."""
    hand, x, step = work.hand, work.operand(0), work.planned
    order = (0, 2, 3, 4, 1)
    n, c, *volume = work.case.inputs[0]
    hand.arrange(x, order, (n, *volume, c), Layout.ROW_MAJOR)
    tensor = x.tensor
    if c % TILE_EDGE:
        hand.doing = "pad of the channels"
        tensor = hand.ttnn.pad(tensor, [(0, 0)] * 4 + [(0, -c % TILE_EDGE)], 0.0)
    out, *kernel = work.case.inputs[1][0], *work.case.inputs[1][2:]
    hand.doing = "ttnn.experimental.conv3d"
    result = hand.ttnn.experimental.conv3d(
        input_tensor=tensor,
        weight_tensor=work.residents.tensor(step, 1),
        bias_tensor=work.residents.tensor(step, 2) if work.count > 2 else None,
        device=hand.session.device,
        output_channels=round_up(out, TILE_EDGE),
        kernel_size=kernel,
        groups=1,
        dtype=tensor.dtype,
        **{name: list(spatial(step, name, 3)) for name in ("stride", "padding", "dilation")},
        **{name: step.extras[name] for name in ("padding_mode",) if name in step.extras},
        **hand.in_dram,
    )
    if out % TILE_EDGE:
        hand.doing = "slice of the channels"
        ends = [*tuple(result.shape)[:-1], out]
        result = hand.ttnn.slice(result, [0] * len(ends), ends, [1] * len(ends), **hand.in_dram)
    return [Held(result, Form.plain(work.shapes[0], order))]


def _resize(work: Work) -> list[Held]:
    """To the size that the map has already: nothing to do."""
    return _same(work) if work.shapes[0] == work.case.inputs[0] else _registry(work)


# The registry's own ------------------------------------------------------------------------------------------------------


def _registry(work: Work) -> list[Held]:
    """Operands as the operator declares them, its results as it returns them: in torch's order, or channels-last for maps."""
    hand, info = work.hand, work.planned.info
    specs = input_specs(info, work.case, work.attrs)
    tensors = []
    for position, spec in enumerate(specs):
        if work.is_resident(position):
            tensors.append(work.residents.tensor(work.planned, position))
            continue
        x = work.operand(position)
        rank = len(x.form.dims)
        order = _channels_last(rank) if info.traits.nhwc and position == 0 else range(rank)
        if position in info.traits.transposed:
            order = [*range(rank - 2), rank - 1, rank - 2]
        hand.cast(x, spec.dtype)
        hand.arrange(x, order, spec.shape, spec.layout)
        tensors.append(x.tensor)
    results = work.run(work.case, tensors, work.attrs, hand)
    last = bool(info.traits.nhwc)
    forms = [Form.plain(s, _channels_last(len(s)) if last else range(len(s))) for s in work.shapes]
    return [Held(tensor, form) for tensor, form in zip(results, forms, strict=False)]


def _channels_last(rank: int) -> Sequence[int]:
    return (0, *range(2, rank), 1) if rank > 2 else range(rank)


_UNARY = (
    "relu silu silu_ sigmoid tanh mish hardswish gelu softplus leaky_relu hardtanh relu6 hardsigmoid elu exp expm1 erf sin cos"
    " floor ceil round sign log log1p log2 sqrt rsqrt reciprocal neg abs square clamp clamp_min clamp_max rsub pow rpow"
    " logical_not"
)
_BROADCAST = (
    "add sub mul div floor_divide maximum minimum addcmul eq ne gt ge lt le where masked_fill"
    " logical_and logical_or logical_xor"
)

RULES: Mapping[str, Rule] = {
    **dict.fromkeys(_UNARY.split(), _unary),
    **dict.fromkeys(_BROADCAST.split(), _broadcast),
    **dict.fromkeys("view flatten unflatten unsqueeze squeeze".split(), _view),
    **dict.fromkeys("permute transpose t".split(), _permute),
    **dict.fromkeys("clone identity".split(), _same),
    **dict.fromkeys("split chunk slice select unbind".split(), _cut),
    **dict.fromkeys("cat stack".split(), _cat),
    **dict.fromkeys("linear native_layer_norm rms_norm".split(), _rowwise),
    **dict.fromkeys("mean sum amax amin".split(), _reduce),
    **dict.fromkeys("constant_pad_nd replication_pad2d replication_pad3d".split(), _pad),
    **dict.fromkeys("matmul bmm mm".split(), _matmul),
    "dropout": _dropout,
    "expand": _expand,
    "roll": _roll,
    "softmax": _softmax,
    "convolution": _convolution,
    **dict.fromkeys("upsample_nearest2d upsample_bilinear2d upsample_nearest3d".split(), _resize),
}


def results_of(work: Work) -> list[Held]:
    """Runs the step. Errors are TTNN's own; ``work.hand.doing`` says what was under way."""
    return RULES.get(work.planned.operator, _registry)(work)


__all__ = ["Work", "results_of"]
