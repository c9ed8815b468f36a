"""Parses single values that users type in options, ini files and JSON. Errors state what was expected."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from fractions import Fraction
from typing import Any, TypeVar

from ssinghal.core.tensors import BufferType, DType, TextEnum
from ssinghal.errors import InvalidCase, unknown

T = TypeVar("T", bound=TextEnum)

MAX_SECONDS = 1_000_000
_SIZE = r"-?[0-9]{1,20}"
_SIZES = re.compile(rf"{_SIZE}(?: *, *{_SIZE})* *,?|{_SIZE}(?: *x *{_SIZE})+")
UNITS = {"B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}
_BYTES = re.compile(rf"([0-9]{{1,20}}(?:\.[0-9]{{1,20}})?) *({'|'.join(UNITS)})")
TENSOR_MEMORIES = (BufferType.DRAM, BufferType.L1)


def one_of(names: Iterable[T], what: str, value: Any) -> T:
    """Returns the member of ``names`` (an enum class, or some of its members) whose text is ``value``.

    Raises:
        InvalidCase: There is none; the text states the nearest ones.
    """
    known = {str(name): name for name in names}
    if not isinstance(value, str) or str(value) not in known:
        raise InvalidCase(unknown(what, str(value), known))
    return known[str(value)]


def dtype_named(value: Any, what: str = "dtype", among: Iterable[DType] = DType) -> DType:
    """Returns the dtype of this name, which may be a short one: bf16, fp32, bf8, bf4.

    Raises:
        InvalidCase: There is none ``among`` them; the text states the nearest ones.
    """
    try:
        return one_of(among, what, DType(value).value)
    except ValueError:
        return one_of(among, what, value)


def dtypes_named(text: str) -> tuple[DType, ...]:
    """Returns the dtypes of a comma-separated list, each once. Raises as ``dtype_named``."""
    return tuple(dict.fromkeys(dtype_named(word.strip()) for word in text.split(",")))


def tensor_memory(value: Any) -> BufferType:
    """Returns the memory for tensors, DRAM or L1; L1_SMALL is for TTNN alone."""
    return one_of(TENSOR_MEMORIES, "memory", value)


def parse_shape(text: str) -> list[int]:
    """Returns the sizes of ``1,64,80,80``, ``1x64x80x80``, ``[1, 64, 80, 80]`` or ``(1, 64, 80, 80)``."""
    sizes = text.strip()
    if (sizes[:1], sizes[-1:]) in (("[", "]"), ("(", ")")):
        sizes = sizes[1:-1].strip()
    if not _SIZES.fullmatch(sizes):
        raise InvalidCase(f"shape {text!r}: expected whole numbers like 1,64,80,80")
    return [int(size) for size in re.findall("-?[0-9]+", sizes)]


def whole_number(text: str) -> int:
    """Returns a count of at least 1."""
    try:
        number = int(text)
    except ValueError:
        number = 0
    if number < 1:
        raise InvalidCase(f"expected a whole number from 1, got {text!r}")
    return number


def seconds(value: str | float) -> float:
    """Returns a positive time of at most some days (the clocks of the system count milliseconds in 31 bits)."""
    try:
        number = float(value)
    except ValueError:
        number = math.nan
    if not 0 < number <= MAX_SECONDS:
        raise InvalidCase(f"expected a number of seconds above 0 and up to {MAX_SECONDS:,}, got {value!r}")
    return number


def size_in_bytes(value: Any) -> int:
    """Returns the bytes of a number of bytes, or of a text such as ``900 KiB`` or ``1.2MiB``, rounded down.

    Raises:
        InvalidCase: It is neither.

    >>> size_in_bytes("900 KiB"), size_in_bytes(4096)
    (921600, 4096)
    """
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    match = _BYTES.fullmatch(value.strip()) if isinstance(value, str) else None
    if match is None:
        raise InvalidCase(f"size {value!r}: expected a number of bytes, or a text in {', '.join(UNITS)} such as '900 KiB'")
    return int(Fraction(match[1]) * UNITS[match[2]])
