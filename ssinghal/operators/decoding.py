"""Attention over a cache of keys and values: of one token for each user, in pages, in chunks, and of two sequences at once.

Positions and pages are values, which a case does not have: a call is made with the attribute ``cur_pos``, or with a tensor of
positions where it has one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ssinghal.core.case import Case
from ssinghal.core.memory_config import MemoryConfig
from ssinghal.core.tensors import TILE_EDGE, BufferType, DType, Layout, Shape, TensorSpec
from ssinghal.errors import InvalidCase
from ssinghal.operators.dim_rule import DimRule
from ssinghal.operators.heads import check_rank
from ssinghal.operators.operator_info import INTEGERS, Attr, Attrs, Call, Limitation, OperatorInfo, Traits, operand_spec

NOT_ATTENDED = Limitation("TTNN attends to bfloat16 and block floats only", dtypes=(DType.FLOAT32, *INTEGERS))
TILES_ONLY = Limitation("TTNN attends to tiles only", layouts=(Layout.ROW_MAJOR,))
CACHED = (1, 2)  # keys and values, which ports keep in DRAM


def index_spec(case: Case, shape: Shape) -> TensorSpec:
    """Returns the spec of positions or pages: rows of int32 in DRAM."""
    return operand_spec(case, shape, dtype=DType.INT32, layout=Layout.ROW_MAJOR, memory=MemoryConfig(BufferType.DRAM))


def _check_kv(name: str, key: Shape, value: Shape, form: str) -> None:
    check_rank(name, key, form)
    if key != value:
        raise InvalidCase(f"{name}: keys {list(key)} and values {list(value)} differ")


def _check_groups(name: str, heads: int, cached: int) -> None:
    if heads % cached:
        raise InvalidCase(f"{name}: {heads} heads of queries are no multiple of {cached} heads of keys")


def _scaled(attrs: Attrs) -> dict[str, Any]:
    return {} if attrs["scale"] is None else {"scale": float(attrs["scale"])}


def _torch_attention(torch: Any, query: Any, key: Any, value: Any, mask: Any, attrs: Attrs) -> Any:
    return torch.nn.functional.scaled_dot_product_attention(query, key, value, mask, scale=attrs["scale"], enable_gqa=True)


# one token of each user ---------------------------------------------------------------------------------------------------


def _decode_shape(shapes: Sequence[Shape], attrs: Attrs) -> list[Shape]:
    name = "scaled_dot_product_attention_decode"
    query, key, value, *rest = shapes
    check_rank(name, query, "1, users, heads, head size", one=0)
    _check_kv(name, key, value, "users, heads, rows, head size")
    users = query[1]
    if key[0] != (1 if attrs["share_cache"] else users) or key[3] != query[3]:
        raise InvalidCase(f"{name}: keys {list(key)} do not go with queries {list(query)}")
    _check_groups(name, query[2], key[1])
    _check_positions(name, users, query[2], key[2], rest, attrs)
    return [query]


def _check_positions(name: str, users: int, heads: int, rows: int, rest: Sequence[Shape], attrs: Attrs) -> None:
    """Causal calls have positions, as an attribute or an operand; others may have a mask."""
    positions = attrs.get("cur_pos")
    if not attrs["is_causal"]:
        if positions is not None:
            raise InvalidCase(f"{name}: cur_pos is for causal attention")
        if rest and rest[0] != (1, users, heads, rows):
            raise InvalidCase(f"{name}: mask {list(rest[0])}; expected {[1, users, heads, rows]}")
    elif (positions is None) == (not rest):
        raise InvalidCase(
            f"{name}: causal attention has the attribute cur_pos, or an operand [{users}] of positions, one of them"
        )
    elif (rest and rest[0] != (users,)) or (positions is not None and len(positions) != users):
        raise InvalidCase(f"{name}: expected {users} positions, one for each user")


def _place_decode(case: Case, shapes: Sequence[Shape], attrs: Attrs) -> list[TensorSpec]:
    fourth = index_spec if attrs["is_causal"] else operand_spec
    return [*(operand_spec(case, shape) for shape in shapes[:3]), *(fourth(case, shape) for shape in shapes[3:])]


def _positions(c: Call, rest: Sequence[Any]) -> dict[str, Any]:
    if not rest:
        return {} if c.attrs.get("cur_pos") is None else {"cur_pos": list(c.attrs["cur_pos"])}
    return {"cur_pos_tensor" if c.attrs["is_causal"] else "attn_mask": rest[0]}


def _decode(c: Call) -> Any:
    options = {"share_cache": True} if c.attrs["share_cache"] else {}
    if c.attrs["sliding_window_size"] is not None:
        options["sliding_window_size"] = c.attrs["sliding_window_size"]
    attend = c.ttnn.transformer.scaled_dot_product_attention_decode
    causal = c.attrs["is_causal"]
    return attend(*c.inputs[:3], is_causal=causal, **_positions(c, c.inputs[3:]), **_scaled(c.attrs), **options, **c.out)


def _torch_decode(torch: Any, tensors: Sequence[Any], attrs: Attrs) -> Any:
    """Row ``cur_pos`` is the last that a user's token attends to."""
    query, key, value, *rest = tensors
    rows = torch.arange(key.shape[2])
    if not attrs["is_causal"]:
        mask = rest[0].transpose(0, 1).transpose(1, 2) if rest else None
    else:
        last = rest[0] if rest else torch.tensor(list(attrs["cur_pos"]))
        seen = rows[None] <= last[:, None]
        if attrs["sliding_window_size"] is not None:
            seen &= rows[None] > last[:, None] - attrs["sliding_window_size"]
        mask = seen[:, None, None]
    per_user = query[0][:, :, None]
    return _torch_attention(torch, per_user, key, value, mask, attrs)[:, :, 0][None]


# pages --------------------------------------------------------------------------------------------------------------------


def gathered(torch: Any, cache: Any, pages: Any) -> Any:
    """Returns the rows of a paged cache [pages, heads, rows, size] in the order of a table [users, pages of each]."""
    users, count = pages.shape
    blocks = cache[pages.reshape(-1).to(torch.int64)]
    return blocks.reshape(users, count, *cache.shape[1:]).transpose(1, 2).flatten(2, 3)


def _paged_shape(shapes: Sequence[Shape], attrs: Attrs) -> list[Shape]:
    name = "paged_scaled_dot_product_attention_decode"
    query, key, value, pages, *rest = shapes
    check_rank(name, query, "1, users, heads, head size", one=0)
    _check_kv(name, key, value, "pages, heads, rows of a page, head size")
    users = query[1]
    if key[3] != query[3] or len(pages) != 2 or pages[0] != users:
        raise InvalidCase(f"{name}: keys {list(key)} and page table {list(pages)} do not go with queries {list(query)}")
    _check_groups(name, query[2], key[1])
    _check_positions(name, users, query[2], pages[1] * key[2], rest, attrs)
    return [query]


def _place_paged(case: Case, shapes: Sequence[Shape], attrs: Attrs) -> list[TensorSpec]:
    fifth = index_spec if attrs["is_causal"] else operand_spec
    floats = [operand_spec(case, shape) for shape in shapes[:3]]
    return [*floats, *(index_spec(case, shape) for shape in shapes[3:4]), *(fifth(case, shape) for shape in shapes[4:])]


def _paged(c: Call) -> Any:
    attend = c.ttnn.transformer.paged_scaled_dot_product_attention_decode
    positions = _positions(c, c.inputs[4:])
    return attend(*c.inputs[:4], is_causal=c.attrs["is_causal"], **positions, **_scaled(c.attrs), **c.out)


def _torch_paged(torch: Any, tensors: Sequence[Any], attrs: Attrs) -> Any:
    query, key, value, pages, *rest = tensors
    caches = [gathered(torch, cache, pages) for cache in (key, value)]
    return _torch_decode(torch, [query, *caches, *rest], {**attrs, "cur_pos": None, "sliding_window_size": None})


def _chunk_shape(shapes: Sequence[Shape], attrs: Attrs) -> list[Shape]:
    name = "chunked_scaled_dot_product_attention"
    query, key, value, pages = shapes
    check_rank(name, query, "batch, heads, rows of a chunk, head size")
    _check_kv(name, key, value, "pages, heads, rows of a page, head size")
    if key[3] != query[3] or len(pages) != 2 or pages[0] != query[0]:
        raise InvalidCase(f"{name}: keys {list(key)} and page table {list(pages)} do not go with queries {list(query)}")
    _check_groups(name, query[1], key[1])
    start, rows = attrs["chunk_start_idx"], pages[1] * key[2]
    if start < 0 or start + query[2] > rows:
        raise InvalidCase(f"{name}: rows {start} to {start + query[2]} of a cache of {rows}")
    return [query]


def _chunked(c: Call) -> Any:
    attend = c.ttnn.transformer.chunked_scaled_dot_product_attention
    return attend(*c.inputs, chunk_start_idx=c.attrs["chunk_start_idx"], **_scaled(c.attrs), **c.out)


def _torch_chunked(torch: Any, tensors: Sequence[Any], attrs: Attrs) -> Any:
    query, key, value, pages = tensors
    key, value = (gathered(torch, cache, pages) for cache in (key, value))
    own = torch.arange(query.shape[2]) + attrs["chunk_start_idx"]
    return _torch_attention(torch, query, key, value, torch.arange(key.shape[2])[None] <= own[:, None], attrs)


# two sequences ------------------------------------------------------------------------------------------------------------


def _joint_shapes(shapes: Sequence[Shape], attrs: Attrs) -> list[Shape]:
    name = "joint_scaled_dot_product_attention"
    own, joint = shapes[0], shapes[3]
    for shape in (own, joint):
        check_rank(name, shape, "batch, heads, rows, head size")
    if set(shapes[:3]) != {own} or set(shapes[3:]) != {joint} or (*own[:2], own[3]) != (*joint[:2], joint[3]):
        raise InvalidCase(
            f"{name}: {' '.join(str(list(s)) for s in shapes)}: expected three alike, and three that differ in rows"
        )
    for size in ("q_chunk_size", "k_chunk_size"):
        if attrs[size] < TILE_EDGE or attrs[size] % TILE_EDGE:
            raise InvalidCase(f"{name}: {size} {attrs[size]} is no multiple of {TILE_EDGE}")
    return [own, joint]


def _joint(c: Call) -> list[Any]:
    chunks = {name: c.attrs[name] for name in ("q_chunk_size", "k_chunk_size")}
    grid = c.device.compute_with_storage_grid_size()
    config = c.ttnn.SDPAProgramConfig(compute_with_storage_grid_size=(grid.x, grid.y), **chunks)
    attend = c.ttnn.transformer.joint_scaled_dot_product_attention
    return list(attend(*c.inputs, joint_strategy="rear", program_config=config, **_scaled(c.attrs)))


def _torch_joint(torch: Any, tensors: Sequence[Any], attrs: Attrs) -> list[Any]:
    query, key, value = (torch.cat(pair, 2) for pair in zip(tensors[:3], tensors[3:], strict=True))
    result = _torch_attention(torch, query, key, value, None, attrs)
    return list(result.split([tensors[0].shape[2], tensors[3].shape[2]], 2))


SCALE = {"scale": Attr("float|none", None)}
DECODES = Traits(weights=CACHED)

DECODERS = (
    OperatorInfo(
        names=("scaled_dot_product_attention_decode",),
        aten=(),
        operands=("query", "key", "value", "cur_pos_tensor_or_attn_mask?"),
        ttnn="ttnn.transformer.scaled_dot_product_attention_decode",
        call=_decode,
        torch=_torch_decode,
        infer=_decode_shape,
        attrs={
            **SCALE,
            "is_causal": Attr("bool", True),
            "cur_pos": Attr("ints|none", None),
            "sliding_window_size": Attr("int|none", None),
            "share_cache": Attr("bool", False),
        },
        place=_place_decode,
        dims=DimRule(),
        traits=DECODES,
        limitations=(NOT_ATTENDED,),
    ),
    OperatorInfo(
        names=("paged_scaled_dot_product_attention_decode",),
        aten=(),
        operands=("query", "key", "value", "page_table_tensor", "cur_pos_tensor_or_attn_mask?"),
        ttnn="ttnn.transformer.paged_scaled_dot_product_attention_decode",
        call=_paged,
        torch=_torch_paged,
        infer=_paged_shape,
        attrs={**SCALE, "is_causal": Attr("bool", True)},
        place=_place_paged,
        dims=DimRule(),
        traits=DECODES,
        limitations=(NOT_ATTENDED,),
    ),
    OperatorInfo(
        names=("chunked_scaled_dot_product_attention",),
        aten=(),
        operands=("query", "key", "value", "page_table_tensor"),
        ttnn="ttnn.transformer.chunked_scaled_dot_product_attention",
        call=_chunked,
        torch=_torch_chunked,
        infer=_chunk_shape,
        attrs={**SCALE, "chunk_start_idx": Attr("int", 0)},
        place=lambda case, shapes, attrs: [
            *(operand_spec(case, shape) for shape in shapes[:3]),
            *(index_spec(case, shape) for shape in shapes[3:]),
        ],
        dims=DimRule(),
        traits=DECODES,
        limitations=(NOT_ATTENDED, TILES_ONLY),
    ),
    OperatorInfo(
        names=("joint_scaled_dot_product_attention",),
        aten=(),
        operands=tuple(f"{which}_tensor_{part}" for which in ("input", "joint") for part in "qkv"),
        ttnn="ttnn.transformer.joint_scaled_dot_product_attention",
        call=_joint,
        torch=_torch_joint,
        infer=_joint_shapes,
        attrs={**SCALE, "q_chunk_size": Attr("int", TILE_EDGE), "k_chunk_size": Attr("int", TILE_EDGE)},
        dims=DimRule(),
        traits=Traits(ttnn_output=BufferType.DRAM, output_fixed=True),
        limitations=(
            TILES_ONLY,
            Limitation("TTNN attends to two sequences of bfloat16 and bfloat8_b only", dtypes=(DType.BFLOAT4_B, DType.FLOAT32)),
            Limitation("TTNN attends to integers nowhere", dtypes=INTEGERS),
        ),
    ),
)
