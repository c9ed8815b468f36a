"""Values that repeat, each written once and referred to by its number."""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Hashable
from typing import Any, Generic, TypeVar

_T = TypeVar("_T", bound=Hashable)


class Table(Generic[_T]):
    """Distinct values, each stored once."""

    def __init__(self) -> None:
        self.rows: list[_T] = []
        self._numbers: dict[_T, int] = {}

    def number(self, value: _T) -> int:
        number = self._numbers.get(value)
        if number is None:
            number = self._numbers[value] = len(self.rows)
            self.rows.append(value)
        return number


def packed(values: Any) -> str:
    """Returns the base64 of the zlib stream of the JSON, as a page's script decodes it."""
    return base64.b64encode(zlib.compress(json.dumps(values, separators=(",", ":")).encode("ascii"))).decode("ascii")


def unpacked(text: str) -> Any:
    """Returns the values of ``packed``."""
    return json.loads(zlib.decompress(base64.b64decode(text)))
