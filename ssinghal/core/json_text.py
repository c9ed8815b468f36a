"""JSON that others wrote: integers of bounded size, and no deeper nesting than Python's parser takes."""

from __future__ import annotations

import json
import math
import re
from functools import partial
from typing import Any, NoReturn

# What may be beyond that, or beyond what a float holds. Only texts that match are read with checks, which take a call a number.
_LARGE = re.compile(r"\d{19}|[eE]\+?\d{3}")


def read_json(text: str, *, unique: bool = False, bits: int = 64) -> Any:
    """Returns the value of a JSON text. ``unique``: refuses an object that has a key twice, of which the last would count.
    ``bits``: those of the largest integer.

    Raises:
        ValueError: It is no JSON, is nested too deep, or has NaN, an infinity or an integer of more bits.
    """
    pairs = _once if unique else None
    try:
        if _LARGE.search(text):
            return json.loads(
                text, parse_int=partial(_integer, bits), parse_float=_finite, parse_constant=_no_number, object_pairs_hook=pairs
            )
        return json.loads(text, parse_constant=_no_number, object_pairs_hook=pairs)
    except RecursionError:
        raise ValueError("nested too deep") from None


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) < len(pairs):
        key = next(key for number, (key, _) in enumerate(pairs) if any(key == other for other, _ in pairs[:number]))
        raise ValueError(f"{key[:40]!r} is there twice")
    return values


def _integer(bits: int, text: str) -> int:
    if len(text) > bits or abs(value := int(text)) >= 2**bits:  # no digit takes less than a bit
        raise ValueError(f"an integer of {len(text)} characters is beyond {bits} bits")
    return value


def _finite(text: str) -> float:
    if not math.isfinite(value := float(text)):
        raise ValueError(f"{text[:20]} is beyond a float of 64 bits")
    return value


def _no_number(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number of JSON")
