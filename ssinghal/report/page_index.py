"""What the page of a large run knows of its cases before it loads any: counts for the filters, and which part has what."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from ssinghal.core.record import Record
from ssinghal.render import numbering

SHAPE_ONLY = "~"  # as in filters.js: before a model that has a tensor of the shape, but is not known to make the call
# The filters whose values a part lists: the others are decided by the cases.
FILTERS = ("status", "resource", "memory", "catalog", "model", "made", "remedy", "input")


def values_of(record: Record, helps: Iterable[str]) -> dict[str, set[str]]:
    """Returns the values that each filter finds a case by, as filters.js does."""
    models = {s.model if s.count else f"{SHAPE_ONLY}{s.model}" for s in record.sources if s.model}
    found = {
        "status": {record.status.value},
        "resource": {record.resource.value if record.resource else ""},
        "memory": {record.memory},
        "catalog": {source.catalog for source in record.sources},
        "model": models,
        "made": {"models" if record.calls else "nobody"},
        "remedy": set(helps),
        "input": {source.input_size for source in record.sources},
    }
    return {name: values - {""} for name, values in found.items()}


class Index:
    """The parts of one group of a run, and the number of its cases by the values of each filter."""

    def __init__(self) -> None:
        self._counts: dict[str, Counter[str]] = {name: Counter() for name in ("op", *FILTERS)}
        self._numbers: dict[str, dict[str, int]] = {name: {} for name in FILTERS}
        self._parts: list[tuple[int, dict[str, Any]]] = []

    def add(self, files: Sequence[tuple[str, str]], records: Sequence[Record], helps: Sequence[Sequence[str]]) -> None:
        """Adds a part of one operator, sorted by key. ``files``: name and digest of the file that all views need, and of the
        one with details. ``helps``: changes that make each case fit."""
        has: dict[str, set[int]] = {name: set() for name in FILTERS}
        for record, helping in zip(records, helps, strict=True):
            self._counts["op"][record.op] += 1
            for name, values in values_of(record, helping).items():
                self._counts[name].update(values)
                numbers = self._numbers[name]
                has[name].update(numbers.setdefault(value, len(numbers)) for value in sorted(values))
        part = {
            "op": records[0].op,
            "files": list(files),
            "cases": len(records),
            "first": records[0].key,
            "last": records[-1].key,
            "has": {name: sorted(values) for name, values in has.items()},
        }
        self._parts.append((sum(record.is_oom for record in records), part))

    def packed(self, summary: dict[str, Any]) -> str:
        """Returns the packed index: the parts with most failing cases first."""
        most_first = sorted(self._parts, key=lambda counted: -counted[0])
        values = {
            "total": sum(part["cases"] for _, part in self._parts),
            "parts": [part for _, part in most_first],
            "values": {name: list(numbers) for name, numbers in self._numbers.items()},
            "counts": {name: sorted(counts.items()) for name, counts in self._counts.items()},
            "summary": summary,
        }
        return numbering.packed(values)
