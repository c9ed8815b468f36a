"""Writing to a cache of keys or values, in place: all rows of one user, one row of each user, and both by pages."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ssinghal.core.case import Case
from ssinghal.core.tensors import TILE_EDGE, DType, Layout, Shape, TensorSpec, ceil_div
from ssinghal.errors import InvalidCase
from ssinghal.operators.decoding import index_spec
from ssinghal.operators.dim_rule import DimRule
from ssinghal.operators.heads import check_rank
from ssinghal.operators.operator_info import INTEGERS, Attr, Attrs, Call, Limitation, OperatorInfo, Traits, operand_spec

IN_PLACE = Traits(in_place=True, output_fixed=True, weights=(0,))
TILES_ONLY = Limitation("TTNN's caches hold tiles only", layouts=(Layout.ROW_MAJOR,))
CACHE_FLOATS = Limitation("TTNN's caches hold float32, bfloat16 and bfloat8_b only", dtypes=(DType.BFLOAT4_B, *INTEGERS))
CACHE = "users, heads, rows, head size"


def _check_cache(name: str, cache: Shape, written: Shape) -> None:
    check_rank(name, cache, CACHE)
    check_rank(name, written, "1, heads, rows, head size", one=0)
    if (cache[1], cache[3]) != (written[1], written[3]):
        raise InvalidCase(f"{name}: {list(written)} has other heads than the cache {list(cache)}")


def _fill_shape(shapes: Sequence[Shape], attrs: Attrs) -> list[Shape]:
    (cache, written), name, start = shapes, "fill_cache", attrs["update_idx"]
    _check_cache(name, cache, written)
    if not 0 <= attrs["batch_idx"] < cache[0]:
        raise InvalidCase(f"{name}: batch_idx {attrs['batch_idx']} of a cache for {cache[0]} users")
    rows = ceil_div(written[2], TILE_EDGE) * TILE_EDGE
    if start < 0 or start % TILE_EDGE or start + rows > ceil_div(cache[2], TILE_EDGE) * TILE_EDGE:
        raise InvalidCase(
            f"{name}: rows {start} to {start + rows} of {cache[2]}; expected whole tiles of {TILE_EDGE} within them"
        )
    return [cache]


def _fill(c: Call) -> Any:
    start = {"update_idx": c.attrs["update_idx"]} if c.attrs["update_idx"] else {}
    return c.ttnn.fill_cache(*c.inputs, c.attrs["batch_idx"], **start)


def _torch_fill(torch: Any, tensors: Sequence[Any], attrs: Attrs) -> Any:
    cache, written = tensors[0].clone(), tensors[1]
    start = attrs["update_idx"]
    cache[attrs["batch_idx"], :, start : start + written.shape[2]] = written[0]
    return cache


def _update_shape(shapes: Sequence[Shape], attrs: Attrs) -> list[Shape]:
    (cache, written), name = shapes, "update_cache"
    _check_cache(name, cache, written)
    users, first = ceil_div(written[2], TILE_EDGE) * TILE_EDGE, attrs["batch_offset"]
    if first < 0 or (first + cache[0] > users and cache[0] <= TILE_EDGE):
        raise InvalidCase(f"{name}: users {first} to {first + cache[0]} of {users}")
    if not 0 <= attrs["update_idx"] < cache[2]:
        raise InvalidCase(f"{name}: update_idx {attrs['update_idx']} of {cache[2]} rows")
    return [cache]


def _torch_update(torch: Any, tensors: Sequence[Any], attrs: Attrs) -> Any:
    cache, token = tensors[0].clone(), tensors[1][0].transpose(0, 1)
    first = attrs["batch_offset"]
    count = min(cache.shape[0], token.shape[0] - first)
    cache[:count, :, attrs["update_idx"]] = token[first : first + count]
    return cache


# pages --------------------------------------------------------------------------------------------------------------------


def _check_paged(name: str, cache: Shape, written: Shape, rest: Sequence[Shape], attrs: Attrs) -> None:
    """One row for each user; with a table of pages the cache is [pages, heads, rows of a page, head size]."""
    check_rank(name, cache, CACHE)
    check_rank(name, written, "1, users, heads, head size", one=0)
    users, positions = written[1], attrs["update_idxs"]
    if cache[3] != written[3]:
        raise InvalidCase(f"{name}: {list(written)} has other heads than the cache {list(cache)}")
    if (positions is None) == (not rest):
        raise InvalidCase(f"{name}: expected the attribute update_idxs, or an operand [{users}] of positions, one of them")
    if (positions is not None and len(positions) != users) or (rest and rest[0] != (users,)):
        raise InvalidCase(f"{name}: expected {users} positions, one for each user")
    if len(rest) > 1 and (len(rest[1]) != 2 or rest[1][0] != users):
        raise InvalidCase(f"{name}: page table {list(rest[1])}; expected [{users}, pages of each]")
    if len(rest) < 2 and cache[0] != (1 if attrs["share_cache"] else users):
        raise InvalidCase(f"{name}: a cache for {cache[0]} users, and rows of {users}")


def _paged_update_shape(shapes: Sequence[Shape], attrs: Attrs) -> list[Shape]:
    cache, written, *rest = shapes
    _check_paged("paged_update_cache", cache, written, rest, attrs)
    return [cache]


def _fused_update_shapes(shapes: Sequence[Shape], attrs: Attrs) -> list[Shape]:
    first, written, second, also, *rest = shapes
    _check_paged("paged_fused_update_cache", first, written, rest, attrs)
    if first != second or written != also:
        raise InvalidCase(f"paged_fused_update_cache: {list(first)} and {list(second)}: expected two caches and rows alike")
    return [first, second]


def _indexed_after(count: int) -> Callable[[Case, Sequence[Shape], Attrs], list[TensorSpec]]:
    """Returns ``place`` of an operator whose operands after ``count`` are positions or pages."""

    def place(case: Case, shapes: Sequence[Shape], attrs: Attrs) -> list[TensorSpec]:
        floats, indices = shapes[:count], shapes[count:]
        return [*(operand_spec(case, shape) for shape in floats), *(index_spec(case, shape) for shape in indices)]

    return place


def _where(c: Call, rest: Sequence[Any]) -> dict[str, Any]:
    """Returns the arguments that say which rows are written."""
    arguments: dict[str, Any] = {"share_cache": True} if c.attrs["share_cache"] else {}
    if c.attrs["update_idxs"] is not None:
        arguments["update_idxs"] = list(c.attrs["update_idxs"])
    return {**arguments, **dict(zip(("update_idxs_tensor", "page_table"), rest, strict=False))}


def _torch_paged(torch: Any, tensors: Sequence[Any], attrs: Attrs) -> Any:
    cache, written, *rest = tensors
    return _written(torch, cache, written, rest, attrs)


def _torch_fused(torch: Any, tensors: Sequence[Any], attrs: Attrs) -> list[Any]:
    first, written, second, also, *rest = tensors
    return [_written(torch, cache, rows, rest, attrs) for cache, rows in ((first, written), (second, also))]


def _written(torch: Any, cache: Any, written: Any, rest: Sequence[Any], attrs: Attrs) -> Any:
    cache = cache.clone()
    positions = rest[0].tolist() if rest else attrs["update_idxs"]
    for user, position in enumerate(positions):
        page, row = (
            (user, position) if len(rest) < 2 else (int(rest[1][user, position // cache.shape[2]]), position % cache.shape[2])
        )
        cache[0 if attrs["share_cache"] and len(rest) < 2 else page, :, row] = written[0, user, : cache.shape[1]]
    return cache


def _paged_fill_shape(shapes: Sequence[Shape], attrs: Attrs) -> list[Shape]:
    (cache, written, pages), name = shapes, "paged_fill_cache"
    check_rank(name, cache, "pages, heads, rows of a page, head size")
    check_rank(name, written, "1, heads, rows, head size", one=0)
    if (cache[1], cache[3]) != (written[1], written[3]):
        raise InvalidCase(f"{name}: {list(written)} has other heads than the cache {list(cache)}")
    if len(pages) != 2 or not 0 <= attrs["batch_idx"] < pages[0]:
        raise InvalidCase(
            f"{name}: batch_idx {attrs['batch_idx']} of page table {list(pages)}; expected [users, pages of each]"
        )
    return [cache]


def _torch_paged_fill(torch: Any, tensors: Sequence[Any], attrs: Attrs) -> Any:
    cache, written, pages = tensors
    cache, height = cache.clone(), cache.shape[2]
    for row in range(written.shape[2]):
        cache[int(pages[attrs["batch_idx"], row // height]), :, row % height] = written[0, :, row]
    return cache


UPDATES = {"update_idxs": Attr("ints|none", None), "share_cache": Attr("bool", False)}

CACHES = (
    OperatorInfo(
        names=("fill_cache", "fill_cache_for_user_"),
        aten=(),
        operands=("cache_tensor", "input_tensor"),
        ttnn="ttnn.fill_cache, ttnn.kv_cache.fill_cache_for_user_",
        call=_fill,
        torch=_torch_fill,
        infer=_fill_shape,
        attrs={"batch_idx": Attr("int"), "update_idx": Attr("int", 0)},
        dims=DimRule(),
        traits=IN_PLACE,
        limitations=(TILES_ONLY, CACHE_FLOATS),
    ),
    OperatorInfo(
        names=("update_cache", "update_cache_for_token_"),
        aten=(),
        operands=("cache", "input"),
        ttnn="ttnn.update_cache, ttnn.kv_cache.update_cache_for_token_",
        call=lambda c: c.ttnn.update_cache(*c.inputs, c.attrs["update_idx"], batch_offset=c.attrs["batch_offset"]),
        torch=_torch_update,
        infer=_update_shape,
        attrs={"update_idx": Attr("int"), "batch_offset": Attr("int", 0)},
        dims=DimRule(),
        traits=IN_PLACE,
        limitations=(TILES_ONLY, CACHE_FLOATS),
    ),
    OperatorInfo(
        names=("paged_update_cache",),
        aten=(),
        operands=("cache_tensor", "input_tensor", "update_idxs_tensor?", "page_table?"),
        ttnn="ttnn.experimental.paged_update_cache",
        call=lambda c: c.ttnn.experimental.paged_update_cache(*c.inputs[:2], **_where(c, c.inputs[2:])),
        torch=_torch_paged,
        infer=_paged_update_shape,
        attrs=UPDATES,
        place=_indexed_after(2),
        dims=DimRule(),
        traits=IN_PLACE,
        limitations=(TILES_ONLY,),
    ),
    OperatorInfo(
        names=("paged_fused_update_cache",),
        aten=(),
        operands=("cache_tensor1", "input_tensor1", "cache_tensor2", "input_tensor2", "update_idxs_tensor?", "page_table?"),
        ttnn="ttnn.experimental.paged_fused_update_cache",
        call=lambda c: c.ttnn.experimental.paged_fused_update_cache(*c.inputs[:4], **_where(c, c.inputs[4:])),
        torch=_torch_fused,
        infer=_fused_update_shapes,
        attrs=UPDATES,
        place=_indexed_after(4),
        dims=DimRule(),
        traits=Traits(in_place=True, output_fixed=True, weights=(0, 2)),
        limitations=(TILES_ONLY,),
    ),
    OperatorInfo(
        names=("paged_fill_cache",),
        aten=(),
        operands=("cache_tensor", "input_tensor", "page_table"),
        ttnn="ttnn.experimental.paged_fill_cache",
        call=lambda c: c.ttnn.experimental.paged_fill_cache(*c.inputs, batch_idx=c.attrs["batch_idx"]),
        torch=_torch_paged_fill,
        infer=_paged_fill_shape,
        attrs={"batch_idx": Attr("int", 0)},
        place=_indexed_after(2),
        dims=DimRule(),
        traits=IN_PLACE,
    ),
)
