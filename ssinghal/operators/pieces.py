"""Pieces of tensors: what operators that join and cut them share, with what TTNN does to block floats whose tiles break up."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from ssinghal.core.tensors import TILE_EDGE, DType, Layout, Shape, ceil_div
from ssinghal.operators.aliasing import Specs
from ssinghal.operators.operator_info import Attrs, DTypes, Infer, Limitation, to_nhwc
from ssinghal.operators.resizing import not_along

MAX_PIECES = 2**16  # that a call may return
NOT_CUT_ALONG = not_along("it is cut along it")

Condition = Callable[[Sequence[Shape], Attrs], bool]


def resized(shape: Shape, dim: int, size: int) -> Shape:
    """Returns ``shape`` with another size along ``dim``."""
    return (*shape[:dim], size, *shape[dim + 1 :])


def cuts_tiles(shape: Shape, dim: int, starts: Iterable[int]) -> bool:
    """Returns whether pieces that start there along ``dim`` break up tiles; pieces of a vector always do."""
    return len(shape) == 1 or (dim >= len(shape) - 2 and any(start % TILE_EDGE for start in starts))


def bfloat16_where(cuts: Condition, infer: Infer) -> Callable[[DType, Sequence[Shape], Attrs], DTypes]:
    """Returns the result dtypes of a call that unpacks block floats where it ``cuts`` tiles."""

    def dtypes(dtype: DType, shapes: Sequence[Shape], attrs: Attrs) -> DTypes:
        return (DType.BFLOAT16,) * len(infer(shapes, attrs)) if dtype.is_block_float and cuts(shapes, attrs) else ()

    return dtypes


def no_bfloat4_where(cuts: Condition) -> Limitation:
    return Limitation("TTNN cannot break up tiles of bfloat4_b", dtypes=(DType.BFLOAT4_B,), when=cuts)


def tiles_with_other_matrix(inputs: Specs, outputs: Specs) -> int:
    """Counts the tiles mapped, once for each operand, by the reshape that adds or drops a dim among the last two."""
    if inputs[0].layout is Layout.ROW_MAJOR or inputs[0].shape[-2:] == outputs[0].shape[-2:]:
        return 0
    return len(inputs) * outputs[0].num_pages


def halved(shape: Shape) -> tuple[Shape, int, int]:
    """Returns the sweep's call, which cuts a map, placed as NHWC, in two along dim 1, or a vector along dim 0: the operand as
    placed, that dim, and the size of the first half."""
    placed = to_nhwc(shape)
    dim = min(1, len(placed) - 1)
    return placed, dim, ceil_div(placed[dim], 2)
