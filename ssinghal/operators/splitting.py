"""Shape operators that cut a tensor into pieces."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import accumulate
from typing import Any

from ssinghal.core.tensors import DType, Shape, ceil_div
from ssinghal.errors import InvalidCase
from ssinghal.operators.aliasing import is_unchanged
from ssinghal.operators.dims import OTHER_DIMS
from ssinghal.operators.operator_info import Attr, Attrs, DTypes, Infer, OperatorInfo, Sample, Traits, normal_dim, to_nhwc
from ssinghal.operators.pieces import MAX_PIECES, NOT_CUT_ALONG, cuts_tiles, halved, no_bfloat4_where, resized


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


def _split_sample(shape: Shape) -> Sample:
    placed, dim, half = halved(shape)
    return Sample((placed,), {"split_size": half, "dim": dim}, channels_last=False)


SPLITS = (
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
)
