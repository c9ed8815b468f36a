"""Rotary position embeddings, by TTNN's functions: the halves of each head rotated by tables of cosines and sines."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ssinghal.core.tensors import TILE_EDGE, DType, Layout, Shape, ceil_div
from ssinghal.errors import InvalidCase
from ssinghal.operators.dim_rule import DimRule
from ssinghal.operators.heads import check_rank
from ssinghal.operators.operator_info import Attr, Attrs, Call, Limitation, OperatorInfo, Traits

ROTARY_TILES = Limitation("TTNN rotates tiles only", layouts=(Layout.ROW_MAJOR,))
TABLES = (1, 2)


def _halves_swapped(torch: Any, x: Any) -> Any:
    first, second = x.chunk(2, -1)
    return torch.cat((-second, first), -1)


def _check_width(name: str, shape: Shape) -> None:
    if shape[-1] != TILE_EDGE and shape[-1] % (2 * TILE_EDGE):
        raise InvalidCase(f"{name} of {list(shape)}: a head has {shape[-1]} elements; expected 32, or a multiple of 64")


def _whole_tiles(shape: Shape) -> Shape:
    """The result has the rows that fill up its tiles."""
    return (*shape[:-2], ceil_div(shape[-2], TILE_EDGE) * TILE_EDGE, shape[-1])


def _check_tables(name: str, x: Shape, tables: Sequence[Shape], rows: int) -> None:
    cos, sin = tables
    if cos != sin or len(cos) != 4 or cos[:2] != (1, 1) or cos[3] != x[-1] or cos[2] < rows:
        raise InvalidCase(f"{name}: tables {list(cos)} and {list(sin)}; expected two of [1, 1, {rows} or more, {x[-1]}]")


def _rotary_shape(shapes: Sequence[Shape], attrs: Attrs) -> list[Shape]:
    """With ``token_idx``, one row of the tables is for all rows of the operand."""
    x, token = shapes[0], attrs["token_idx"]
    if len(x) < 2:
        raise InvalidCase(f"rotary_embedding takes [..., rows, head size], not {list(x)}")
    _check_width("rotary_embedding", x)
    _check_tables("rotary_embedding", x, shapes[1:], x[-2] if token is None else token + 1)
    return [_whole_tiles(x)]


def _torch_rotary(torch: Any, tensors: Sequence[Any], attrs: Attrs) -> Any:
    x, cos, sin = tensors
    token = attrs["token_idx"]
    rows = slice(0, x.shape[-2]) if token is None else slice(token, token + 1)
    rotated = x * cos[0, 0, rows] + _halves_swapped(torch, x) * sin[0, 0, rows]
    return torch.nn.functional.pad(rotated, (0, 0, 0, -x.shape[-2] % TILE_EDGE))


def _rotary(c: Call) -> Any:
    token = [] if c.attrs["token_idx"] is None else [c.attrs["token_idx"]]
    return c.ttnn.experimental.rotary_embedding(*c.inputs, *token, **c.out)


def _rotate_half_shape(shapes: Sequence[Shape], attrs: Attrs) -> list[Shape]:
    (x,) = shapes
    if x[-1] % (2 * TILE_EDGE):
        raise InvalidCase(f"rotate_half of {list(x)}: expected a last dim that is a multiple of {2 * TILE_EDGE}")
    return [x]


def _decoded_shape(name: str) -> Callable[[Sequence[Shape], Attrs], list[Shape]]:
    """Returns ``infer`` of a rotation whose tables have a row for each token, or, of one token, for each user."""

    def infer(shapes: Sequence[Shape], attrs: Attrs) -> list[Shape]:
        x, *tables = shapes[:3]
        check_rank(name, x, "batch, heads, rows, head size")
        for table in tables:
            check_rank(name, table, "1, 1, rows, head size", one=0)
        if tables[0] != tables[1] or tables[0][3] != x[3]:
            raise InvalidCase(f"{name} of {list(x)}: tables {list(tables[0])} and {list(tables[1])} do not go with it")
        return [x]

    return infer


def _hf_shape(shapes: Sequence[Shape], attrs: Attrs) -> list[Shape]:
    (result,) = _decoded_shape("rotary_embedding_hf")(shapes, attrs)
    _check_width("rotary_embedding_hf", result)
    if not attrs["is_decode_mode"] and shapes[1][2] < result[2]:
        raise InvalidCase(f"rotary_embedding_hf: tables of {shapes[1][2]} rows for {result[2]}; expected as many or more")
    return [result]


def _torch_hf(torch: Any, tensors: Sequence[Any], attrs: Attrs) -> Any:
    x, cos, sin = tensors
    if not attrs["is_decode_mode"]:
        cos, sin = cos[:, :, : x.shape[2]], sin[:, :, : x.shape[2]]
    return x * cos + _halves_swapped(torch, x) * sin


def _torch_llama(torch: Any, tensors: Sequence[Any], attrs: Attrs) -> Any:
    """``trans_mat`` swaps neighbours within each 32 elements, so the values are those of a matrix product with it."""
    x, cos, sin, matrix = tensors
    if not attrs["is_decode_mode"]:
        cos, sin = cos[:, :, : x.shape[2]], sin[:, :, : x.shape[2]]
    parts = x.reshape(*x.shape[:-1], -1, TILE_EDGE) @ matrix[0, 0, :TILE_EDGE]
    return x * cos + parts.reshape(x.shape) * sin


def _fused_shapes(shapes: Sequence[Shape], attrs: Attrs) -> list[Shape]:
    for shape in shapes[:2]:
        check_rank("rotary_embedding_llama_fused_qk", shape, "1, users, heads, head size", one=0)
    query, key = shapes[:2]
    if query[1] != key[1] or query[3] != key[3]:
        raise InvalidCase(f"rotary_embedding_llama_fused_qk: queries {list(query)} and keys {list(key)} do not go together")
    return [query, key]


def _torch_fused(torch: Any, tensors: Sequence[Any], attrs: Attrs) -> list[Any]:
    query, key, cos, sin, matrix = tensors
    users = query.shape[1]
    rotated = []
    for x, part in ((query, slice(0, users)), (key, slice(users, 2 * users))):
        tables = [table[:, part, :1] for table in (cos, sin)]
        rotated.append(_torch_llama(torch, [x, *tables, matrix[:, :1]], {"is_decode_mode": True}))
    return rotated


BFLOAT16_ONLY = Limitation("TTNN rotates as Llama in bfloat16 only", dtypes=tuple(d for d in DType if d is not DType.BFLOAT16))
DECODES = {"is_decode_mode": Attr("bool", False)}

ROTATIONS = (
    OperatorInfo(
        names=("rotary_embedding",),
        aten=(),
        operands=("input", "cos_cache", "sin_cache"),
        ttnn="ttnn.experimental.rotary_embedding",
        call=_rotary,
        torch=_torch_rotary,
        infer=_rotary_shape,
        attrs={"token_idx": Attr("int|none", None)},
        dims=DimRule(),
        traits=Traits(temporaries=True, output_layout=Layout.TILE, weights=TABLES),
    ),
    OperatorInfo(
        names=("rotary_embedding_llama",),
        aten=(),
        operands=("input", "cos_cache", "sin_cache", "trans_mat"),
        ttnn="ttnn.experimental.rotary_embedding_llama",
        call=lambda c: c.ttnn.experimental.rotary_embedding_llama(*c.inputs, is_decode_mode=c.attrs["is_decode_mode"], **c.out),
        torch=_torch_llama,
        infer=_decoded_shape("rotary_embedding_llama"),
        attrs=DECODES,
        dims=DimRule(),
        limitations=(
            ROTARY_TILES,
            BFLOAT16_ONLY,
            Limitation("TTNN rotates heads of up to 256 elements as Llama", when=lambda shapes, attrs: shapes[0][-1] > 256),
        ),
    ),
    OperatorInfo(
        names=("rotary_embedding_hf",),
        aten=(),
        operands=("input", "cos_cache", "sin_cache"),
        ttnn="ttnn.experimental.rotary_embedding_hf",
        call=lambda c: c.ttnn.experimental.rotary_embedding_hf(*c.inputs, is_decode_mode=c.attrs["is_decode_mode"], **c.out),
        torch=_torch_hf,
        infer=_hf_shape,
        attrs=DECODES,
        dims=DimRule(),
        limitations=(ROTARY_TILES,),
    ),
    OperatorInfo(
        names=("rotary_embedding_llama_fused_qk",),
        aten=(),
        operands=("q_input_tensor", "k_input_tensor", "cos_cache", "sin_cache", "trans_mat"),
        ttnn="ttnn.experimental.rotary_embedding_llama_fused_qk",
        call=lambda c: c.ttnn.experimental.rotary_embedding_llama_fused_qk(*c.inputs),
        torch=_torch_fused,
        infer=_fused_shapes,
        dims=DimRule(),
        traits=Traits(ttnn_places=True, output_fixed=True, moves_output=True),
        limitations=(ROTARY_TILES, BFLOAT16_ONLY),
    ),
    OperatorInfo(
        names=("rotate_half",),
        aten=(),
        operands=("input",),
        ttnn="ttnn.experimental.rotate_half",
        call=lambda c: c.ttnn.experimental.rotate_half(c.inputs[0], **c.out),
        torch=lambda torch, tensors, attrs: _halves_swapped(torch, tensors[0]),
        infer=_rotate_half_shape,
        dims=DimRule(),
        traits=Traits(temporaries=True, output_layout=Layout.TILE),
    ),
)
