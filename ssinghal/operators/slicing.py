"""Shape operators that take a part of a tensor along one dim."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ssinghal.core.tensors import DType, Shape
from ssinghal.errors import InvalidCase
from ssinghal.operators.aliasing import Specs, is_unchanged, is_view
from ssinghal.operators.dim_rule import Axes, CuttableCall, DimRule, ResizableCall, Sizes, along
from ssinghal.operators.dims import OTHER_DIMS, units
from ssinghal.operators.operator_info import (
    BLOCK_FLOATS,
    Attr,
    Attrs,
    Call,
    DTypes,
    Limitation,
    OperatorInfo,
    Sample,
    Traits,
    normal_dim,
    to_nhwc,
)
from ssinghal.operators.pieces import (
    MAX_PIECES,
    NOT_CUT_ALONG,
    bfloat16_where,
    cuts_tiles,
    halved,
    no_bfloat4_where,
    resized,
    tiles_with_other_matrix,
)


def _slice_range(shape: Shape, attrs: Attrs) -> tuple[int, range]:
    """Returns the dim and its chosen indices; bounds are clamped as in Python, a negative step is invalid as in torch."""
    dim = normal_dim(attrs["dim"], len(shape))
    if attrs["step"] < 1:
        raise InvalidCase(f"step {attrs['step']} is not positive")
    chosen = range(shape[dim])[attrs["start"] : attrs["end"] : attrs["step"]]
    if not chosen:
        raise InvalidCase(f"start {attrs['start']} and end {attrs['end']} leave nothing of a dim of {shape[dim]}")
    return dim, chosen


def slice_along(c: Call, x: Any, dim: int, chosen: range) -> Any:
    """Cuts the indices ``chosen`` along ``dim`` out of the device tensor ``x``."""
    shape = tuple(x.shape)
    begins = resized((0,) * len(shape), dim, chosen.start)
    ends = resized(shape, dim, chosen[-1] + 1)
    if chosen.step == 1 or len(chosen) == 1:
        return c.ttnn.slice(x, begins, ends, **c.out)
    return c.ttnn.slice(x, begins, ends, resized((1,) * len(shape), dim, chosen.step), **c.out)


def _slice_shape(shapes: Sequence[Shape], attrs: Attrs) -> list[Shape]:
    dim, chosen = _slice_range(shapes[0], attrs)
    return [resized(shapes[0], dim, len(chosen))]


def _slice_cuts_tiles(shapes: Sequence[Shape], attrs: Attrs) -> bool:
    dim, chosen = _slice_range(shapes[0], attrs)
    return len(chosen) < shapes[0][dim] and cuts_tiles(shapes[0], dim, [chosen.start])


def _slice_sample(shape: Shape) -> Sample:
    placed, dim, half = halved(shape)
    return Sample((placed,), {"dim": dim, "start": 0, "end": half}, channels_last=False)


def _select_index(shape: Shape, attrs: Attrs) -> tuple[int, int]:
    dim = normal_dim(attrs["dim"], len(shape))
    index = attrs["index"]
    if not -shape[dim] <= index < shape[dim]:
        raise InvalidCase(f"index {index} is outside a dim of {shape[dim]}")
    return dim, index % shape[dim]


def _select(c: Call) -> Any:
    return _row(c, *_select_index(tuple(c.inputs[0].shape), c.attrs))


def _row(c: Call, dim: int, index: int) -> Any:
    row = slice_along(c, c.inputs[0], dim, range(index, index + 1))
    return c.ttnn.squeeze(row, dim) if len(row.shape) > 1 else row


def _select_cuts_tiles(shapes: Sequence[Shape], attrs: Attrs) -> bool:
    dim, index = _select_index(shapes[0], attrs)
    return shapes[0][dim] > 1 and cuts_tiles(shapes[0], dim, [index])


def _select_shape(shapes: Sequence[Shape], attrs: Attrs) -> list[Shape]:
    """A scalar stays [1], since rank 0 is no valid shape here."""
    dim, _ = _select_index(shapes[0], attrs)
    return [(*shapes[0][:dim], *shapes[0][dim + 1 :]) or (1,)]


def _unbind(c: Call) -> list[Any]:
    shape = tuple(c.inputs[0].shape)
    dim = normal_dim(c.attrs["dim"], len(shape))
    return [_row(c, dim, index) for index in range(shape[dim])]


def _unbind_shape(shapes: Sequence[Shape], attrs: Attrs) -> list[Shape]:
    count = shapes[0][normal_dim(attrs["dim"], len(shapes[0]))]
    if count > MAX_PIECES:
        raise InvalidCase(f"unbind: {count:,} pieces; at most {MAX_PIECES:,}")
    return _select_shape(shapes, {**attrs, "index": 0}) * count


def _unbind_dtypes(dtype: DType, shapes: Sequence[Shape], attrs: Attrs) -> DTypes:
    count = len(_unbind_shape(shapes, attrs))
    cut = [dtype.is_block_float and _select_cuts_tiles(shapes, {**attrs, "index": i}) for i in range(count)]
    return tuple(DType.BFLOAT16 if broken else None for broken in cut)


def _unbind_cuts_tiles(shapes: Sequence[Shape], attrs: Attrs) -> bool:
    return len(_unbind_shape(shapes, attrs)) > 1 and cuts_tiles(shapes[0], normal_dim(attrs["dim"], len(shapes[0])), [1])


def _cut_picked(call: CuttableCall) -> Axes | None:
    """The results lack the dim of the attribute."""
    shape = call.inputs[0]
    dim, dims = normal_dim(call.attrs["dim"], len(shape)), along(len(shape))
    return call.axes([(*dims[:dim], *dims[dim + 1 :])] * len(call.results), units(shape, [dim]))


def _resize_slice(call: ResizableCall, sizes: Sizes) -> Attrs:
    """A slice up to the end still ends there; one with an earlier end does not follow."""
    sliced, end = normal_dim(call.attrs.get("dim", 0), len(call.subject)), call.attrs.get("end")
    for dim, to in sizes.items():
        if call.placed[dim] == sliced and end is not None:
            if end < call.subject[dim]:
                raise call.no(dim, f"a part that ends at {end} is taken of it")
            end = max(end, to) if end > call.subject[dim] else to
    return {**call.attrs, "end": end} if "end" in call.attrs else call.attrs


def _rows_with_other_matrix(inputs: Specs, outputs: Specs) -> int:
    return len(outputs) * tiles_with_other_matrix(inputs, outputs)


SLICES = (
    OperatorInfo(
        names=("slice",),
        aten=("aten.slice.Tensor",),
        operands=("self",),
        ttnn="ttnn.slice",
        call=lambda c: slice_along(c, c.inputs[0], *_slice_range(tuple(c.inputs[0].shape), c.attrs)),
        torch=lambda t, x, a: x[0][(slice(None),) * (a["dim"] % x[0].dim()) + (slice(a["start"], a["end"], a["step"]),)],
        infer=_slice_shape,
        attrs={"dim": Attr("int", 0), "start": Attr("int|none", None), "end": Attr("int|none", None), "step": Attr("int", 1)},
        sample=_slice_sample,
        dims=replace(OTHER_DIMS, resize=_resize_slice),
        traits=Traits(alias=is_unchanged, temporaries=True, output_dtypes=bfloat16_where(_slice_cuts_tiles, _slice_shape)),
        limitations=(
            Limitation(
                "ttnn.slice takes no step in block floats",
                dtypes=BLOCK_FLOATS,
                when=lambda shapes, attrs: attrs["step"] != 1,
            ),
            no_bfloat4_where(_slice_cuts_tiles),
        ),
    ),
    OperatorInfo(
        names=("select",),
        aten=("aten.select.int",),
        operands=("self",),
        ttnn="ttnn.slice, ttnn.squeeze",
        call=_select,
        torch=lambda t, x, a: t.atleast_1d(t.select(x[0], a["dim"], a["index"])),
        infer=_select_shape,
        attrs={"dim": Attr("int"), "index": Attr("int")},
        sample=lambda shape: Sample((to_nhwc(shape),), {"dim": min(1, len(shape) - 1), "index": 0}, channels_last=False),
        dims=DimRule(cut=_cut_picked),
        traits=Traits(
            alias=is_view,
            temporaries=True,
            output_dtypes=bfloat16_where(_select_cuts_tiles, _select_shape),
            host_map=tiles_with_other_matrix,
        ),
        limitations=(no_bfloat4_where(_select_cuts_tiles),),
    ),
    OperatorInfo(
        names=("unbind",),
        aten=("aten.unbind.int",),
        operands=("self",),
        ttnn="ttnn.slice, ttnn.squeeze",
        call=_unbind,
        torch=lambda t, x, a: [t.atleast_1d(row) for row in t.unbind(x[0], a["dim"])],
        infer=_unbind_shape,
        attrs={"dim": Attr("int", 0)},
        sample=lambda shape: Sample((shape,), {"dim": 0}),
        dims=DimRule(cut=_cut_picked, resize=NOT_CUT_ALONG),
        traits=Traits(
            alias=lambda inputs, outputs: len(outputs) == 1 and is_view(inputs, outputs),
            temporaries=True,
            output_dtypes=_unbind_dtypes,
            host_map=_rows_with_other_matrix,
        ),
        limitations=(no_bfloat4_where(_unbind_cuts_tiles),),
    ),
)
