"""The data of a run's page in parts: JSON, compressed, each decoded by the page when it is needed."""

from __future__ import annotations

from typing import Any

from ssinghal.render import numbering
from ssinghal.render.numbering import Table


class Part:
    """Columns of cases, with the tables of what they refer to by number."""

    def __init__(self) -> None:
        self._texts: Table[str] = Table()
        self._tensors: Table[tuple[Any, ...]] = Table()
        self._sources: Table[tuple[str, str, str]] = Table()
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
        return numbering.packed(values)


def unpacked(packed: str) -> dict[str, Any]:
    """Returns the values of ``Part.packed``, as the page decodes them."""
    values: dict[str, Any] = numbering.unpacked(packed)
    return values
