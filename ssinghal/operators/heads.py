"""Splitting a projected matrix into heads of queries, keys and values, and joining heads again, by TTNN's functions for it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from ssinghal.core.tensors import TILE_EDGE, DType, Layout, Shape, ceil_div
from ssinghal.errors import InvalidCase
from ssinghal.operators.dim_rule import DimRule
from ssinghal.operators.operator_info import INTEGERS, Attr, Attrs, Call, Limitation, OperatorInfo, Traits

TILES_ONLY = Limitation("TTNN splits and joins heads in tile layout only", layouts=(Layout.ROW_MAJOR,))
NOT_HEADS = Limitation(
    "TTNN splits and joins heads of float32, bfloat16 and bfloat8_b only", dtypes=(DType.BFLOAT4_B, *INTEGERS)
)


def _leaves_tiles(size_of: Callable[[Sequence[Shape], Attrs], int]) -> Callable[[Sequence[Shape], Attrs], bool]:
    """Returns whether a head is no multiple of a tile's width."""
    return lambda shapes, attrs: size_of(shapes, attrs) % TILE_EDGE != 0


HEADS = {"num_heads": Attr("int"), "num_kv_heads": Attr("int|none", None)}


def check_rank(name: str, shape: Shape, form: str, *, one: int | None = None) -> None:
    """Raises InvalidCase unless a shape has as many dims as ``form`` names, and size 1 in dim ``one``."""
    if len(shape) != len(form.split(", ")) or (one is not None and shape[one] != 1):
        raise InvalidCase(f"{name} takes [{form}], not {list(shape)}")


def _counts(name: str, attrs: Attrs) -> tuple[int, int]:
    """Returns the heads of queries, and those of keys as of values."""
    queries, keys = attrs["num_heads"], attrs["num_kv_heads"]
    keys = queries if keys is None else keys
    if queries < 1 or keys < 1:
        raise InvalidCase(f"{name}: {queries} heads of queries and {keys} of keys: expected numbers from 1 on")
    return queries, keys


def _head_size(name: str, widths: Sequence[int], counts: tuple[int, int]) -> int:
    """Returns the size of a head: the width has heads of queries, keys and values, or a second operand those of the latter."""
    queries, keys = counts
    parts = [queries + 2 * keys] if len(widths) == 1 else [queries, 2 * keys]
    sizes = {width // part for width, part in zip(widths, parts, strict=True)}
    if len(sizes) != 1 or any(width % part for width, part in zip(widths, parts, strict=True)):
        raise InvalidCase(f"{name}: width {' and '.join(map(str, widths))} has no {queries} heads of queries, {keys} of keys")
    return sizes.pop()


def _split_shapes(name: str, form: str, transposes: str) -> Callable[[Sequence[Shape], Attrs], list[Shape]]:
    """Returns ``infer`` of an operator that splits [batch, (1,) rows, width]. ``transposes``: the attribute that turns keys."""

    def infer(shapes: Sequence[Shape], attrs: Attrs) -> list[Shape]:
        one = 1 if form.count(",") == 3 else None
        for shape in shapes:
            check_rank(name, shape, form, one=one)
        if len({shape[:-1] for shape in shapes}) > 1:
            raise InvalidCase(f"{name}: operands {' and '.join(str(list(s)) for s in shapes)} differ in more than the width")
        counts = _counts(name, attrs)
        size = _head_size(name, [shape[-1] for shape in shapes], counts)
        batch, rows = shapes[0][0], shapes[0][-2]
        key = (size, rows) if attrs[transposes] else (rows, size)
        return [(batch, counts[0], rows, size), (batch, counts[1], *key), (batch, counts[1], rows, size)]

    return infer


def _torch_split(transposes: str) -> Callable[[Any, Sequence[Any], Attrs], list[Any]]:
    """The values of interleaved operands: TTNN expects those of sharded ones ordered by head instead."""

    def reference(torch: Any, tensors: Sequence[Any], attrs: Attrs) -> list[Any]:
        queries, keys = _counts("", attrs)
        joined = torch.cat(list(tensors), -1)
        size = joined.shape[-1] // (queries + 2 * keys)
        heads = joined.reshape(joined.shape[0], joined.shape[-2], queries + 2 * keys, size).transpose(1, 2)
        query, key, value = heads.split([queries, keys, keys], 1)
        return [query, key.transpose(-2, -1) if attrs[transposes] else key, value]

    return reference


def _heads(c: Call) -> dict[str, Any]:
    """Returns the numbers of heads as TTNN's functions take them."""
    queries, keys = _counts(c.case.operator, c.attrs)
    return {"num_heads": queries, "num_kv_heads": keys}


def _kind_alone(c: Call) -> dict[str, Any]:
    """Returns the requested memory without its shards: TTNN sets those of each result, and keys may have other than queries."""
    config = c.out.get("memory_config")
    if config is None or not config.is_sharded():
        return c.out
    return {**c.out, "memory_config": c.ttnn.MemoryConfig(config.memory_layout, config.buffer_type)}


def _size_of_split(shapes: Sequence[Shape], attrs: Attrs) -> int:
    return _head_size("", [shape[-1] for shape in shapes], _counts("", attrs))


def _splitting(
    name: str,
    ttnn: str,
    operands: tuple[str, ...],
    call: Callable[[Call], Any],
    form: str,
    transposes: str,
    *,
    pads: bool = False,
) -> OperatorInfo:
    """Declares a function that splits the width into heads. ``pads``: TTNN takes heads of any size."""
    multiples = Limitation(
        "TTNN splits heads of whole tiles only: multiples of 32 elements", when=_leaves_tiles(_size_of_split), taken=pads
    )
    return OperatorInfo(
        names=(name,),
        aten=(),
        operands=operands,
        ttnn=ttnn,
        call=call,
        torch=_torch_split(transposes),
        infer=_split_shapes(name, form, transposes),
        attrs={**HEADS, transposes: Attr("bool", True)},
        dims=DimRule(),
        limitations=(TILES_ONLY, NOT_HEADS, multiples),
    )


def _nlp_create(c: Call) -> Any:
    transposes = c.attrs["transpose_k_heads"]
    return c.ttnn.experimental.nlp_create_qkv_heads(*c.inputs, **_heads(c), transpose_k_heads=transposes, **c.out)


def _create(c: Call) -> Any:
    transposes = c.attrs["transpose_k_heads"]
    return c.ttnn.experimental.create_qkv_heads(*c.inputs, **_heads(c), transpose_k_heads=transposes, **_kind_alone(c))


def _create_separate(c: Call) -> Any:
    create, transposes = c.ttnn.experimental.create_qkv_heads_from_separate_tensors, c.attrs["transpose_k_heads"]
    return create(*c.inputs, **_heads(c), transpose_k_heads=transposes, **_kind_alone(c))


def _split(c: Call) -> Any:
    split = c.ttnn.transformer.split_query_key_value_and_split_heads
    return split(*c.inputs, **_heads(c), transpose_key=c.attrs["transpose_key"], **_kind_alone(c))


def _fixed(name: str, widths: str, results: Callable[[int], Sequence[tuple[int, int]] | None]) -> OperatorInfo:
    """Declares a function for one model. ``results``: heads and their size of each result, of the operand's width."""

    def infer(shapes: Sequence[Shape], attrs: Attrs) -> list[Shape]:
        (shape,) = shapes
        check_rank(name, shape, "batch, 1, rows, width", one=1)
        parts = results(shape[3])
        if parts is None:
            raise InvalidCase(f"{name} takes a width of {widths}, not {shape[3]}")
        rows = ceil_div(shape[2], TILE_EDGE) * TILE_EDGE  # these functions do not keep the rows within the last tile apart
        return [(shape[0], count, rows, size) for count, size in parts]

    def reference(torch: Any, tensors: Sequence[Any], attrs: Attrs) -> list[Any]:
        shapes = infer([tuple(tensors[0].shape)], attrs)
        padded = _whole_rows(torch, tensors[0])
        parts = padded.split([count * size for _, count, _, size in shapes], -1)
        return [
            part.reshape(batch, rows, count, size).transpose(1, 2)
            for part, (batch, count, rows, size) in zip(parts, shapes, strict=True)
        ]

    return OperatorInfo(
        names=(name,),
        aten=(),
        operands=("input",),
        ttnn=f"ttnn.experimental.{name}",
        call=lambda c: getattr(c.ttnn.experimental, name)(c.inputs[0], **c.out),
        torch=reference,
        infer=infer,
        dims=DimRule(),
        limitations=(TILES_ONLY, NOT_HEADS),
    )


def _whole_rows(torch: Any, x: Any) -> Any:
    """Returns [batch, rows of whole tiles, width]."""
    return torch.nn.functional.pad(x[:, 0], (0, 0, 0, -x.shape[2] % TILE_EDGE))


def _narrow_heads(width: int) -> Sequence[tuple[int, int]] | None:
    """Three results of all heads of 32: ports use the first alone."""
    return None if width % TILE_EDGE else [(width // TILE_EDGE, TILE_EDGE)] * 3


# joining ------------------------------------------------------------------------------------------------------------------


def _joined_shape(name: str, *, keeps_rank: bool) -> Callable[[Sequence[Shape], Attrs], list[Shape]]:
    def infer(shapes: Sequence[Shape], attrs: Attrs) -> list[Shape]:
        (shape,) = shapes
        check_rank(name, shape, "batch, heads, rows, head size")
        batch, heads, rows, size = shape
        return [(batch, 1, rows, heads * size) if keeps_rank else (batch, rows, heads * size)]

    return infer


def _joining(name: str, ttnn: str, call: Callable[[Call], Any], *limitations: Limitation, keeps_rank: bool) -> OperatorInfo:
    def reference(torch: Any, tensors: Sequence[Any], attrs: Attrs) -> Any:
        joined = tensors[0].transpose(1, 2).flatten(2)
        return joined.unsqueeze(1) if keeps_rank else joined

    return OperatorInfo(
        names=(name,),
        aten=(),
        operands=("input",),
        ttnn=ttnn,
        call=call,
        torch=reference,
        infer=_joined_shape(name, keeps_rank=keeps_rank),
        dims=DimRule(),
        limitations=(TILES_ONLY, NOT_HEADS, *limitations),
    )


# one token of each user ---------------------------------------------------------------------------------------------------

USERS = TILE_EDGE  # whose tokens are the rows of one tile


def _decoded_shapes(shapes: Sequence[Shape], attrs: Attrs) -> list[Shape]:
    (shape,), name = shapes, "nlp_create_qkv_heads_decode"
    check_rank(name, shape, "1, 1, users, width", one=1)
    if shape[0] != 1 or shape[2] > USERS:
        raise InvalidCase(f"{name} takes one token of up to {USERS} users, [1, 1, users, width], not {list(shape)}")
    queries, keys = _counts(name, attrs)
    size = _head_size(name, [shape[3]], (queries, keys))
    return [(1, shape[2], count, size) for count in (queries, keys, keys)]


def _torch_decoded(torch: Any, tensors: Sequence[Any], attrs: Attrs) -> list[Any]:
    queries, keys = _counts("", attrs)
    _, _, users, width = tensors[0].shape
    heads = tensors[0].reshape(1, users, queries + 2 * keys, width // (queries + 2 * keys))
    return list(heads.split([queries, keys, keys], 2))


def _create_decoded(c: Call) -> Any:
    overlaps = {} if c.attrs["overlap_qk_coregrid"] else {"overlap_qk_coregrid": False}
    return c.ttnn.experimental.nlp_create_qkv_heads_decode(c.inputs[0], **_heads(c), **overlaps, **c.out)


def _joined_decoded(shapes: Sequence[Shape], attrs: Attrs) -> list[Shape]:
    """The users are padded to a tile."""
    (shape,), name, heads = shapes, "nlp_concat_heads_decode", attrs["num_heads"]
    check_rank(name, shape, "1, users, padded heads, head size", one=0)
    padded = ceil_div(shape[2], TILE_EDGE) * TILE_EDGE
    if not 1 <= heads <= padded or shape[1] > USERS:
        raise InvalidCase(f"{name} of {list(shape)}: {heads} of {padded} heads of {shape[1]} users, of whom {USERS} are taken")
    return [(1, 1, USERS, heads * shape[3])]


def _torch_joined_decoded(torch: Any, tensors: Sequence[Any], attrs: Attrs) -> Any:
    _, users, _, _ = tensors[0].shape
    joined = tensors[0][:, :, : attrs["num_heads"]].reshape(1, 1, users, -1)
    return torch.nn.functional.pad(joined, (0, 0, 0, USERS - users))


OVER_USERS = Traits(ttnn_places=True, moves_output=True)

SPLITS_AND_JOINS = (
    _splitting(
        "nlp_create_qkv_heads",
        "ttnn.experimental.nlp_create_qkv_heads",
        ("input", "input_kv?"),
        _nlp_create,
        "batch, 1, rows, width",
        "transpose_k_heads",
        pads=True,
    ),
    _splitting(
        "create_qkv_heads",
        "ttnn.experimental.create_qkv_heads",
        ("input",),
        _create,
        "batch, 1, rows, width",
        "transpose_k_heads",
    ),
    _splitting(
        "create_qkv_heads_from_separate_tensors",
        "ttnn.experimental.create_qkv_heads_from_separate_tensors",
        ("input", "input_kv"),
        _create_separate,
        "batch, 1, rows, width",
        "transpose_k_heads",
    ),
    _splitting(
        "split_query_key_value_and_split_heads",
        "ttnn.transformer.split_query_key_value_and_split_heads",
        ("input_tensor", "kv_input_tensor?"),
        _split,
        "batch, rows, width",
        "transpose_key",
    ),
    _fixed("nlp_create_qkv_heads_vit", "2304", lambda width: [(12, 64)] * 3 if width == 2304 else None),
    _fixed("nlp_create_qkv_heads_falcon7b", "4672", lambda width: [(71, 64), (1, 64), (1, 64)] if width == 4672 else None),
    replace(
        _fixed("nlp_create_qkv_heads_segformer", "multiples of 32", _narrow_heads),
        torch=lambda torch, tensors, attrs: [_whole_rows(torch, tensors[0]).unflatten(-1, (-1, TILE_EDGE)).transpose(1, 2)] * 3,
    ),
    _joining(
        "nlp_concat_heads",
        "ttnn.experimental.nlp_concat_heads",
        lambda c: c.ttnn.experimental.nlp_concat_heads(c.inputs[0], **c.out),
        keeps_rank=True,
    ),
    _joining(
        "concatenate_heads",
        "ttnn.transformer.concatenate_heads",
        lambda c: c.ttnn.transformer.concatenate_heads(c.inputs[0], **c.out),
        Limitation(
            "ttnn.transformer.concatenate_heads takes heads of whole tiles only: multiples of 32 elements",
            when=_leaves_tiles(lambda shapes, attrs: shapes[0][-1]),
        ),
        keeps_rank=False,
    ),
    OperatorInfo(
        names=("nlp_create_qkv_heads_decode",),
        aten=(),
        operands=("input",),
        ttnn="ttnn.experimental.nlp_create_qkv_heads_decode",
        call=_create_decoded,
        torch=_torch_decoded,
        infer=_decoded_shapes,
        attrs={**HEADS, "overlap_qk_coregrid": Attr("bool", True)},
        dims=DimRule(),
        traits=OVER_USERS,
        limitations=(
            TILES_ONLY,
            Limitation(
                "TTNN splits one token's heads of float32 and bfloat16 only",
                dtypes=(DType.BFLOAT8_B, DType.BFLOAT4_B, *INTEGERS),
            ),
        ),
    ),
    OperatorInfo(
        names=("nlp_concat_heads_decode",),
        aten=(),
        operands=("input",),
        ttnn="ttnn.experimental.nlp_concat_heads_decode",
        call=lambda c: c.ttnn.experimental.nlp_concat_heads_decode(c.inputs[0], num_heads=c.attrs["num_heads"], **c.out),
        torch=_torch_joined_decoded,
        infer=_joined_decoded,
        attrs={"num_heads": Attr("int")},
        dims=DimRule(),
        traits=OVER_USERS,
        limitations=(TILES_ONLY,),
    ),
)
