"""Shape operators that roll and pad."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ssinghal.core.tensors import DType, Layout, Shape
from ssinghal.errors import InvalidCase
from ssinghal.operators.aliasing import Specs, in_requested_memory, is_unchanged
from ssinghal.operators.dim_rule import DimRule
from ssinghal.operators.dims import cut_across, cut_equal_dims
from ssinghal.operators.operator_info import Attr, Attrs, Call, Limitation, OperatorInfo, Sample, Traits, normal_dim, to_nhwc
from ssinghal.operators.pieces import bfloat16_where, cuts_tiles, no_bfloat4_where
from ssinghal.operators.slicing import slice_along


def _roll_arguments(shape: Shape, attrs: Attrs) -> tuple[list[int], list[int]]:
    shifts = [attrs["shifts"]] if isinstance(attrs["shifts"], int) else list(attrs["shifts"])
    dims = [attrs["dims"]] if isinstance(attrs["dims"], int) else list(attrs["dims"])
    if len(shifts) != (len(dims) or 1):
        raise InvalidCase(f"shifts {shifts} and dims {dims} do not pair up")
    return shifts, [normal_dim(d, len(shape)) for d in dims]


def _roll_shape(shapes: Sequence[Shape], attrs: Attrs) -> list[Shape]:
    _roll_arguments(shapes[0], attrs)
    return [shapes[0]]


def _roll_cuts_tiles(shapes: Sequence[Shape], attrs: Attrs) -> bool:
    """Without dims the tensor becomes one row, whose tiles are broken up in any case."""
    shifts, dims = _roll_arguments(shapes[0], attrs)
    sizes = [shapes[0][d] for d in dims]
    return not dims or any(s % n and cuts_tiles(shapes[0], d, (s, n)) for s, n, d in zip(shifts, sizes, dims, strict=True))


def _roll(c: Call) -> Any:
    """Without dims the tensor is rolled as one row."""
    shifts, dims = _roll_arguments(tuple(c.inputs[0].shape), c.attrs)
    if not dims:
        return c.ttnn.roll(c.inputs[0], shifts[0], **c.out)
    return c.ttnn.roll(c.inputs[0], shifts, dims, **c.out)


def _roll_sample(shape: Shape) -> Sample:
    """Builds the sweep's call, as a Swin block shifts its windows: by 3 along up to two dims between the first and the last."""
    dims = list(range(1, len(shape) - 1))[:2] or [0]
    return Sample((shape,), {"shifts": [-3] * len(dims), "dims": dims})


def _pad_pairs(pad: Sequence[int], rank: int) -> list[tuple[int, int]]:
    """Returns torch's flat list, last dim first, as (before, after) for each dim."""
    if len(pad) % 2 or len(pad) > 2 * rank or min(pad, default=0) < 0:
        raise InvalidCase(f"pad {list(pad)} is not a list of sizes >= 0, two for each of at most {rank} dims")
    pairs = [(pad[i], pad[i + 1]) for i in range(0, len(pad), 2)]
    return [(0, 0)] * (rank - len(pairs)) + pairs[::-1]


def _padded_shape(shape: Shape, pad: Sequence[int]) -> Shape:
    return tuple(before + size + after for size, (before, after) in zip(shape, _pad_pairs(pad, len(shape)), strict=True))


def _constant_pad(c: Call) -> Any:
    pairs = _pad_pairs(c.attrs["pad"], len(c.inputs[0].shape))
    return in_requested_memory(c, c.ttnn.pad(c.inputs[0], pairs, float(c.attrs["value"] or 0), **c.out))


def _pads_front(shapes: Sequence[Shape], attrs: Attrs) -> bool:
    return any(before for before, _ in _pad_pairs(attrs["pad"], len(shapes[0])))


def _pads_something(shapes: Sequence[Shape], attrs: Attrs) -> bool:
    """Otherwise TTNN returns its operand, whatever it is."""
    return any(attrs["pad"])


def _pads_rank_1(shapes: Sequence[Shape], attrs: Attrs) -> bool:
    return len(shapes[0]) == 1 and _pads_something(shapes, attrs)


def _pads_in_place(inputs: Specs, outputs: Specs) -> bool:
    """Returns whether the operand's tiles have room for the padding, which TTNN then writes into them."""
    x, y = inputs[0], outputs[0]
    return x.padded_shape == y.padded_shape and x.memory == y.memory


def _fill_program(inputs: Specs, outputs: Specs) -> int | None:
    """Unknown, but not nothing: a program writes padding even within the operand's tiles."""
    return None


def _back_pad_sample(shape: Shape) -> Sample:
    """Builds the sweep's call: one more row and column of a map as NHWC, as Swin pads to whole windows."""
    placed = to_nhwc(shape)
    return Sample((placed,), {"pad": [0, 0, 0, 1, 0, 1][: 2 * min(3, len(placed))]}, channels_last=False)


def _replicate(c: Call) -> Any:
    """Slices edges off and joins them again, last dim first: the large dims are then padded once, with the others grown."""
    result = c.inputs[0]
    pairs = _pad_pairs(c.attrs["padding"], len(result.shape))
    for dim in reversed(range(len(pairs))):
        if any(pairs[dim]):
            result = _with_edges(c, result, dim, *pairs[dim])
    return in_requested_memory(c, result)


def _with_edges(c: Call, x: Any, dim: int, before: int, after: int) -> Any:
    last = x.shape[dim] - 1
    front = [slice_along(c, x, dim, range(0, 1))] * before if before else []
    back = [slice_along(c, x, dim, range(last, last + 1))] * after if after else []
    return c.ttnn.concat([*front, x, *back], dim=dim, **c.out)


def _edges_cut_tiles(shapes: Sequence[Shape], attrs: Attrs) -> bool:
    return any(any(pair) for pair in _pad_pairs(attrs["padding"], len(shapes[0]))[-2:])


def _replication_pad(spatial: int) -> OperatorInfo:
    """Declares a composition: TTNN's pad has constants only."""

    def infer(shapes: Sequence[Shape], attrs: Attrs) -> list[Shape]:
        if len(attrs["padding"]) != 2 * spatial or len(shapes[0]) not in (spatial + 1, spatial + 2):
            raise InvalidCase(f"replication_pad{spatial}d takes {2 * spatial} paddings and rank {spatial + 1} or {spatial + 2}")
        return [_padded_shape(shapes[0], attrs["padding"])]

    return OperatorInfo(
        names=(f"replication_pad{spatial}d",),
        aten=(f"aten.replication_pad{spatial}d.default",),
        operands=("self",),
        ttnn="ttnn.slice, ttnn.concat",
        call=_replicate,
        torch=lambda t, x, a: t.nn.functional.pad(x[0], tuple(a["padding"]), mode="replicate"),
        infer=infer,
        attrs={"padding": Attr("ints")},
        sample=lambda shape: Sample((shape,), {"padding": [1] * 2 * spatial}, channels_last=False),
        dims=DimRule(cut=cut_equal_dims),
        traits=Traits(alias=is_unchanged, temporaries=True, output_dtypes=bfloat16_where(_edges_cut_tiles, infer)),
        limitations=(no_bfloat4_where(_edges_cut_tiles),),
    )


PADS = (
    OperatorInfo(
        names=("roll",),
        aten=("aten.roll.default",),
        operands=("self",),
        ttnn="ttnn.roll",
        call=_roll,
        torch=lambda t, x, a: t.roll(x[0], a["shifts"], a["dims"] or None),
        infer=_roll_shape,
        attrs={"shifts": Attr("int|ints"), "dims": Attr("int|ints", ())},
        sample=_roll_sample,
        dims=DimRule(cut=cut_across("dims")),
        traits=Traits(temporaries=True, output_dtypes=bfloat16_where(_roll_cuts_tiles, _roll_shape)),
        limitations=(no_bfloat4_where(_roll_cuts_tiles),),
    ),
    OperatorInfo(
        names=("constant_pad_nd", "constantpadnd", "pad"),
        aten=("aten.constant_pad_nd.default",),
        operands=("self",),
        ttnn="ttnn.pad",
        call=_constant_pad,
        torch=lambda t, x, a: t.constant_pad_nd(x[0], list(a["pad"]), a["value"] or 0),
        infer=lambda shapes, attrs: [_padded_shape(shapes[0], attrs["pad"])],
        attrs={"pad": Attr("ints"), "mode": Attr("str", "constant"), "value": Attr("float|none", None)},
        sample=_back_pad_sample,
        dims=DimRule(cut=cut_equal_dims),
        traits=Traits(alias=_pads_in_place, temporaries=True, program=_fill_program),
        limitations=(
            Limitation("ttnn.pad pads with a constant only", when=lambda shapes, attrs: attrs["mode"] != "constant"),
            Limitation("ttnn.pad takes no bfloat4_b", dtypes=(DType.BFLOAT4_B,), when=_pads_something),
            Limitation("ttnn.pad takes no uint8 in tile layout", (Layout.TILE,), (DType.UINT8,), when=_pads_something),
            Limitation("ttnn.pad pads no front in tile layout", (Layout.TILE,), when=_pads_front),
            Limitation(
                "ttnn.pad builds too small a buffer for rank 1 in tile layout",
                (Layout.TILE,),
                when=_pads_rank_1,
                taken=True,
            ),
        ),
    ),
    _replication_pad(2),
    _replication_pad(3),
)
