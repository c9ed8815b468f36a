"""Shape operators that join, cut or repeat tensors."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import accumulate
from typing import Any

from ssinghal.core.tensors import TILE_EDGE, BufferType, DType, Layout, Shape, ceil_div
from ssinghal.errors import InvalidCase
from ssinghal.operators.dim_rule import Axes, CuttableCall, DimRule, ResizableCall, Sizes, along
from ssinghal.operators.dims import OTHER_DIMS, cut_equal_dims, cut_with_new_dim, equal_operands, trailing, units
from ssinghal.operators.operator_info import (
    BLOCK_FLOATS,
    Attr,
    Attrs,
    Call,
    DTypes,
    Infer,
    Limitation,
    OperatorInfo,
    Sample,
    Traits,
    normal_dim,
    to_nhwc,
)
from ssinghal.operators.reshape import Specs, is_unchanged, is_view
from ssinghal.operators.resizing import not_along


def resized(shape: Shape, dim: int, size: int) -> Shape:
    """Returns ``shape`` with another size along ``dim``."""
    return (*shape[:dim], size, *shape[dim + 1 :])


def cuts_tiles(shape: Shape, dim: int, starts: Iterable[int]) -> bool:
    """Returns whether pieces that start there along ``dim`` break up tiles; pieces of a vector always do."""
    return len(shape) == 1 or (dim >= len(shape) - 2 and any(start % TILE_EDGE for start in starts))


Condition = Callable[[Sequence[Shape], Attrs], bool]


def bfloat16_where(cuts: Condition, infer: Infer) -> Callable[[DType, Sequence[Shape], Attrs], DTypes]:
    """Returns the result dtypes of a call that unpacks block floats where it ``cuts`` tiles."""

    def dtypes(dtype: DType, shapes: Sequence[Shape], attrs: Attrs) -> DTypes:
        return (DType.BFLOAT16,) * len(infer(shapes, attrs)) if dtype.is_block_float and cuts(shapes, attrs) else ()

    return dtypes


def no_bfloat4_where(cuts: Condition) -> Limitation:
    return Limitation("TTNN cannot break up tiles of bfloat4_b", dtypes=(DType.BFLOAT4_B,), when=cuts)


# Joining ------------------------------------------------------------------------------------------------------------------


def _cat_shape(shapes: Sequence[Shape], attrs: Attrs) -> list[Shape]:
    dim = normal_dim(attrs["dim"], len(shapes[0]))
    if len({resized(s, dim, 1) for s in shapes}) > 1:
        raise InvalidCase(f"shapes {' and '.join(str(list(s)) for s in shapes)} differ in more than dim {dim}")
    return [resized(shapes[0], dim, sum(s[dim] for s in shapes))]


def _stack_shape(shapes: Sequence[Shape], attrs: Attrs) -> list[Shape]:
    dim = normal_dim(attrs["dim"], len(shapes[0]) + 1)
    if len(set(shapes)) > 1:
        raise InvalidCase(f"stack takes equal shapes, not {' and '.join(str(list(s)) for s in shapes)}")
    return [(*shapes[0][:dim], len(shapes), *shapes[0][dim:])]


def _cat_cuts_tiles(shapes: Sequence[Shape], attrs: Attrs) -> bool:
    dim = normal_dim(attrs["dim"], len(shapes[0]))
    return len(shapes) > 1 and cuts_tiles(shapes[0], dim, (s[dim] for s in shapes))


def _stack_cuts_tiles(shapes: Sequence[Shape], attrs: Attrs) -> bool:
    return normal_dim(attrs["dim"], len(shapes[0]) + 1) >= len(shapes[0]) - 1


def _tiles_with_other_matrix(inputs: Specs, outputs: Specs) -> int:
    """Counts the tiles mapped, once for each operand, by the reshape that adds or drops a dim among the last two."""
    if inputs[0].layout is Layout.ROW_MAJOR or inputs[0].shape[-2:] == outputs[0].shape[-2:]:
        return 0
    return len(inputs) * outputs[0].num_pages


def _cut_concatenated(call: CuttableCall) -> Axes | None:
    shape = call.inputs[0]
    return call.axes([along(len(shape))], units(shape, [normal_dim(call.attrs["dim"], len(shape))]))


JOINS = (
    OperatorInfo(
        names=("cat", "concat", "Concat"),
        aten=("aten.cat.default", "aten.concat.default", "aten.concatenate.default"),
        operands=("tensors*",),
        ttnn="ttnn.concat",
        call=lambda c: c.ttnn.concat(c.inputs, dim=c.attrs["dim"], **c.out),
        torch=lambda t, x, a: t.cat(list(x), a["dim"]),
        infer=_cat_shape,
        attrs={"dim": Attr("int", 0)},
        sample=lambda shape: Sample((shape, shape), {"dim": 0}),
        dims=DimRule(equal_operands, resize=not_along("operands differ along it"), cut=_cut_concatenated),
        traits=Traits(
            alias=is_unchanged,
            temporaries=True,
            ttnn_output=BufferType.DRAM,
            output_dtypes=bfloat16_where(_cat_cuts_tiles, _cat_shape),
        ),
        limitations=(no_bfloat4_where(_cat_cuts_tiles),),
    ),
    OperatorInfo(
        names=("stack",),
        aten=("aten.stack.default",),
        operands=("tensors*",),
        ttnn="ttnn.stack",
        call=lambda c: c.ttnn.stack(c.inputs, dim=c.attrs["dim"]),
        torch=lambda t, x, a: t.stack(list(x), a["dim"]),
        infer=_stack_shape,
        attrs={"dim": Attr("int", 0)},
        sample=lambda shape: Sample((shape, shape), {"dim": 0}),
        dims=DimRule(equal_operands, cut=cut_with_new_dim),
        traits=Traits(
            alias=lambda inputs, outputs: len(inputs) == 1 and is_view(inputs, outputs),
            temporaries=True,
            ttnn_output=BufferType.DRAM,
            output_fixed=True,
            host_map=_tiles_with_other_matrix,
            output_dtypes=bfloat16_where(_stack_cuts_tiles, _stack_shape),
        ),
        limitations=(no_bfloat4_where(_stack_cuts_tiles),),
    ),
)

# Cutting ------------------------------------------------------------------------------------------------------------------


MAX_PIECES = 2**16


def _sizes_along(total: int, piece: int) -> list[int]:
    """Returns equal sizes, the last one smaller where they do not divide the total."""
    if piece < 1 or ceil_div(total, piece) > MAX_PIECES:
        raise InvalidCase(f"pieces of size {piece} along a dim of {total}: expected 1 to {MAX_PIECES:,} pieces")
    return [min(piece, total - start) for start in range(0, total, piece)]


def _split_sizes(shape: Shape, attrs: Attrs) -> list[int]:
    """Reads ``split``'s split_size, one size or a list of them, or ``split_with_sizes``' split_sizes, a list."""
    total = shape[normal_dim(attrs["dim"], len(shape))]
    values = [attrs[name] for name in ("split_size", "split_sizes") if attrs[name] is not None]
    if len(values) != 1:
        raise InvalidCase("split takes split_size or split_sizes, one of them")
    sizes = _sizes_along(total, values[0]) if isinstance(values[0], int) else list(values[0])
    if sum(sizes) != total or min(sizes, default=0) < 1:
        raise InvalidCase(f"sizes {sizes} do not cut a dim of {total}")
    return sizes


def _chunk_sizes(shape: Shape, attrs: Attrs) -> list[int]:
    """As in torch: pieces of ceil(size / chunks), so there may be fewer than requested."""
    total = shape[normal_dim(attrs["dim"], len(shape))]
    if attrs["chunks"] < 1:
        raise InvalidCase(f"chunks {attrs['chunks']} is not positive")
    return _sizes_along(total, ceil_div(total, attrs["chunks"]))


SizesOf = Callable[[Shape, Attrs], list[int]]


def _pieces(sizes_of: SizesOf) -> Infer:
    def infer(shapes: Sequence[Shape], attrs: Attrs) -> list[Shape]:
        dim = normal_dim(attrs["dim"], len(shapes[0]))
        return [resized(shapes[0], dim, size) for size in sizes_of(shapes[0], attrs)]

    return infer


def _cut_pieces(sizes_of: SizesOf, shapes: Sequence[Shape], attrs: Attrs) -> list[bool]:
    """Returns of each piece whether it breaks up tiles."""
    sizes = sizes_of(shapes[0], attrs)
    dim = normal_dim(attrs["dim"], len(shapes[0]))
    return [len(sizes) > 1 and cuts_tiles(shapes[0], dim, [start]) for start in accumulate(sizes[:-1], initial=0)]


def _cutting(names: tuple[str, ...], aten: tuple[str, ...], sizes_of: SizesOf, **rest: Any) -> OperatorInfo:
    """Declares a call of ``ttnn.split`` with the sizes that ``sizes_of`` returns.

    Without a memory config, TTNN moves more than two pieces of an L1 tensor to DRAM as soon as all of them together, with 8 KiB
    for each, exceed the free part of one bank; with one, it follows it. ttnn.chunk takes none.
    """

    def dtypes(dtype: DType, shapes: Sequence[Shape], attrs: Attrs) -> DTypes:
        cut = _cut_pieces(sizes_of, shapes, attrs)
        return tuple(DType.BFLOAT16 if broken and dtype.is_block_float else None for broken in cut)

    return OperatorInfo(
        names=names,
        aten=aten,
        operands=("self",),
        ttnn="ttnn.split",
        call=lambda c: c.ttnn.split(c.inputs[0], sizes_of(tuple(c.inputs[0].shape), c.attrs), c.attrs["dim"], **c.out),
        infer=_pieces(sizes_of),
        traits=Traits(alias=is_unchanged, temporaries=True, moves_output=True, output_dtypes=dtypes),
        limitations=(no_bfloat4_where(lambda shapes, attrs: any(_cut_pieces(sizes_of, shapes, attrs))),),
        **rest,
    )


def _half(shape: Shape) -> tuple[Shape, int, int]:
    """Builds the sweep's call: a map as NHWC (hence the operand), cut in two along dim 1, or along dim 0 of a vector."""
    placed = to_nhwc(shape)
    dim = min(1, len(placed) - 1)
    return placed, dim, ceil_div(placed[dim], 2)


def _split_sample(shape: Shape) -> Sample:
    placed, dim, half = _half(shape)
    return Sample((placed,), {"split_size": half, "dim": dim}, channels_last=False)


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
    placed, dim, half = _half(shape)
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


NOT_CUT_ALONG = not_along("it is cut along it")


def _rows_with_other_matrix(inputs: Specs, outputs: Specs) -> int:
    return len(outputs) * _tiles_with_other_matrix(inputs, outputs)


CUTS = (
    _cutting(
        names=("split", "split_with_sizes", "splitwithsizes"),
        aten=("aten.split.Tensor", "aten.split_with_sizes.default"),
        sizes_of=_split_sizes,
        dims=replace(OTHER_DIMS, resize=NOT_CUT_ALONG),
        torch=lambda t, x, a: t.split(x[0], a["split_size"] if a["split_sizes"] is None else a["split_sizes"], a["dim"]),
        attrs={"split_size": Attr("int|ints|none", None), "split_sizes": Attr("ints|none", None), "dim": Attr("int", 0)},
        sample=_split_sample,
    ),
    _cutting(
        names=("chunk",),
        aten=("aten.chunk.default",),
        sizes_of=_chunk_sizes,
        dims=OTHER_DIMS,
        torch=lambda t, x, a: t.chunk(x[0], a["chunks"], a["dim"]),
        attrs={"chunks": Attr("int"), "dim": Attr("int", 0)},
        sample=lambda shape: Sample((to_nhwc(shape),), {"chunks": 2, "dim": min(1, len(shape) - 1)}, channels_last=False),
    ),
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
            host_map=_tiles_with_other_matrix,
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

# Repeating ----------------------------------------------------------------------------------------------------------------


def _expand_shape(shapes: Sequence[Shape], attrs: Attrs) -> list[Shape]:
    shape, size = shapes[0], tuple(attrs["size"])
    new = len(size) - len(shape)
    aligned = (0,) * new + shape  # 0: a new dim, whose size must be given
    if new < 0 or not all(_expands(*pair) for pair in zip(aligned, size, strict=True)):
        raise InvalidCase(f"shape {list(shape)} does not expand to {list(size)}")
    return [tuple(have if want == -1 else want for have, want in zip(aligned, size, strict=True))]


def _expand(c: Call) -> Any:
    """Passes every size as a number: up to 0.75 TTNN takes -1 for 2**32 - 1 where the call adds a dim."""
    ((*size,),) = _expand_shape([tuple(c.inputs[0].shape)], c.attrs)
    return c.ttnn.expand(c.inputs[0], size, **c.out)


def _expands(have: int, want: int) -> bool:
    return want >= 1 if have == 0 else want in (-1, have) or (have == 1 and want > 1)


def _cut_expanded(call: CuttableCall) -> Axes | None:
    """Existing dims are cut in both; new ones and those of size 1 only in the result, whose size is then smaller."""
    shape, out = call.inputs[0], call.results[0]

    def attrs_for(attrs: Attrs, sizes: Sizes) -> Attrs:
        return {**attrs, "size": [sizes.get(d, size) for d, size in enumerate(out)]}

    return call.axes([along(len(out))], units(out), written=[trailing(shape, out)], attrs_for=attrs_for)


def _resize_expanded(call: ResizableCall, sizes: Sizes) -> Attrs:
    size = list(call.attrs["size"])
    for dim, to in sizes.items():
        place = call.placed[dim] + len(size) - len(call.subject)
        if size[place] not in (-1, call.subject[dim]):
            raise call.no(dim, f"it is expanded to {size[place]}")
        size[place] = to if size[place] != -1 else -1
    return {**call.attrs, "size": size}


def _twice(shape: Shape) -> Sample:
    """Builds the sweep's call: two copies along the leading dim, or along a new one where that is not 1."""
    return Sample((shape,), {"size": [2, *[-1] * (len(shape) - 1 if shape[0] == 1 else len(shape))]})


def _repeat_shape(shapes: Sequence[Shape], attrs: Attrs) -> list[Shape]:
    repeats = tuple(attrs["repeats"])
    aligned = (1,) * (len(repeats) - len(shapes[0])) + shapes[0]
    if len(repeats) < len(shapes[0]) or min(repeats, default=0) < 1:
        raise InvalidCase(f"repeats {list(repeats)} do not suit shape {list(shapes[0])}")
    return [tuple(size * times for size, times in zip(aligned, repeats, strict=True))]


def _interleave_shape(shapes: Sequence[Shape], attrs: Attrs) -> list[Shape]:
    if attrs["repeats"] < 1:
        raise InvalidCase(f"repeats {attrs['repeats']} is not positive")
    if attrs["dim"] is None:
        return [(math.prod(shapes[0]) * attrs["repeats"],)]
    dim = normal_dim(attrs["dim"], len(shapes[0]))
    return [resized(shapes[0], dim, shapes[0][dim] * attrs["repeats"])]


def _interleaved_tiles(inputs: Specs, outputs: Specs) -> int:
    """An upper bound: TTNN reshapes the repeated tensor for some dims only."""
    return 0 if inputs[0].layout is Layout.ROW_MAJOR or is_unchanged(inputs, outputs) else outputs[0].num_pages


REPEAT_TRAITS = Traits(alias=is_view, temporaries=True)

REPEATS = (
    OperatorInfo(
        names=("expand",),
        aten=("aten.expand.default",),
        operands=("self",),
        ttnn="ttnn.expand",
        call=_expand,
        torch=lambda t, x, a: x[0].expand(a["size"]),
        infer=_expand_shape,
        attrs={"size": Attr("ints"), "implicit": Attr("bool|none", None)},
        sample=_twice,
        dims=DimRule(resize=_resize_expanded, cut=_cut_expanded),
        traits=REPEAT_TRAITS,
    ),
    OperatorInfo(
        names=("repeat",),
        aten=("aten.repeat.default",),
        operands=("self",),
        ttnn="ttnn.repeat",
        call=lambda c: c.ttnn.repeat(c.inputs[0], list(c.attrs["repeats"]), **c.out),
        torch=lambda t, x, a: x[0].repeat(*a["repeats"]),
        infer=_repeat_shape,
        attrs={"repeats": Attr("ints")},
        sample=lambda shape: Sample((shape,), {"repeats": [2, *[1] * (len(shape) - 1)]}),
        dims=DimRule(cut=cut_equal_dims),
        traits=REPEAT_TRAITS,
    ),
    OperatorInfo(
        names=("repeat_interleave",),
        aten=("aten.repeat_interleave.self_int",),
        operands=("self",),
        ttnn="ttnn.repeat_interleave",
        call=lambda c: c.ttnn.repeat_interleave(c.inputs[0], c.attrs["repeats"], c.attrs["dim"], **c.out),
        torch=lambda t, x, a: t.repeat_interleave(x[0], a["repeats"], a["dim"]),
        infer=_interleave_shape,
        attrs={"repeats": Attr("int"), "dim": Attr("int|none", None), "output_size": Attr("int|none", None)},
        sample=lambda shape: Sample((shape,), {"repeats": 2, "dim": 0}),
        dims=OTHER_DIMS,
        traits=Traits(alias=is_unchanged, temporaries=True, host_map=_interleaved_tiles),
        limitations=(Limitation("ttnn.repeat_interleave needs a dim", when=lambda shapes, attrs: attrs["dim"] is None),),
    ),
)

PIECES = (*JOINS, *CUTS, *REPEATS)
