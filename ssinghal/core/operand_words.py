"""Reads an operand as users type it: a shape, then what it has of its own, as ``1,1,3136,64/bfloat8_b/l1:height@8x8``."""

from __future__ import annotations

from typing import Any

from ssinghal.core.mesh import WORD, shard_dim_from_word, shard_dim_json
from ssinghal.core.parsing import dtype_named, parse_shape
from ssinghal.core.sharding import memory_request
from ssinghal.core.tensors import BufferType, DType, Layout
from ssinghal.errors import InvalidCase, unknown

_EXPECTED = (
    "expected a dtype (bfloat16, bf8, …), a layout (tile, row_major), a memory (dram, l1, l1:height, l1:block@8x8, …)"
    " or shard=DIM"
)


def operand_words(text: str) -> tuple[list[int], dict[str, Any] | None]:
    """Returns the shape, and what differs for this operand as the JSON of a case has it; None where nothing does.

    Words after the shape are a dtype, a layout, a memory, and on a mesh ``shard=DIM``, ``shard=DIM@AXIS`` or ``shard=DIM,DIM``,
    in any order.

    Raises:
        InvalidCase: A word is none of these, or one is given twice.

    >>> operand_words("64,256/bfloat8_b/dram:width@12")
    ([64, 256], {'dtype': 'bfloat8_b', 'memory': 'dram:width@12'})
    """
    shape, *words = text.split("/")
    fields: dict[str, Any] = {}
    for word in words:
        key, value = _field(word, text)
        if key in fields:
            raise InvalidCase(f"operand {text}: has two of {key}: {fields[key]} and {value}")
        fields[key] = value
    return parse_shape(shape), fields or None


def _field(word: str, text: str) -> tuple[str, Any]:
    if word in list(Layout):
        return "layout", word
    if word.startswith(WORD):
        try:
            return "shard_dim", shard_dim_json(shard_dim_from_word(word.removeprefix(WORD)))
        except InvalidCase as error:
            raise InvalidCase(f"operand {text}: {error}") from None
    if word.partition(":")[0] in list(BufferType):
        return "memory", str(memory_request(word))
    try:
        return "dtype", dtype_named(word).value
    except InvalidCase:
        near = unknown("word", word, (*DType, *Layout, "l1", "dram", "l1:height", "l1:block@8x8", "shard=3")).partition("?")
        hint = f"{near[0]}?" if near[1] else f"unknown word {word!r};"
        raise InvalidCase(f"operand {text}: {hint} {_EXPECTED}") from None
