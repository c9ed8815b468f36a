"""The data of a run's page in parts: JSON, compressed, each decoded by the page when it is needed."""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Hashable
from typing import Any, Generic, TypeVar

_T = TypeVar("_T", bound=Hashable)


class _Table(Generic[_T]):
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


class Part:
    """Columns of cases, with the tables of what they refer to by number."""

    def __init__(self) -> None:
        self._texts: _Table[str] = _Table()
        self._tensors: _Table[tuple[Any, ...]] = _Table()
        self._sources: _Table[tuple[str, str, str]] = _Table()
        self._columns: dict[str, list[Any]] = {}

    def text(self, value: object) -> int:
        return self._texts.number("" if value is None else str(value))

    def tensor(self, values: tuple[Any, ...]) -> int:
        return self._tensors.number(values)

    def source(self, catalog: str, model: str, input_size: str) -> int:
        return self._sources.number((catalog, model, input_size))

    def add(self, **row: Any) -> None:
        """Adds a value to every column; all rows have the same names."""
        for name, value in row.items():
            self._columns.setdefault(name, []).append(value)

    def packed(self) -> str:
        """Returns the base64 of the zlib stream of the JSON."""
        values = {
            "texts": self._texts.rows,
            "tensors": self._tensors.rows,
            "sources": self._sources.rows,
            "columns": self._columns,
        }
        return base64.b64encode(zlib.compress(json.dumps(values, separators=(",", ":")).encode("ascii"))).decode("ascii")


def unpacked(packed: str) -> dict[str, Any]:
    """Returns the values of ``Part.packed``, as the page decodes them."""
    values: dict[str, Any] = json.loads(zlib.decompress(base64.b64decode(packed)))
    return values
