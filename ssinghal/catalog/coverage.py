"""Counts how many of the calls of models are cases, and why the others are not."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from ssinghal.catalog.aten_calls import Unmapped
from ssinghal.catalog.expansion import catalog_cases
from ssinghal.catalog.schema import CapturedCatalog, Catalog


@dataclass
class Share:
    """Calls and catalog lines, and how many of them are cases."""

    calls: int = 0
    mapped_calls: int = 0
    lines: int = 0
    mapped_lines: int = 0

    def add(self, count: int, *, mapped: bool) -> None:
        self.calls += count
        self.lines += 1
        self.mapped_calls += count * mapped
        self.mapped_lines += mapped

    def __str__(self) -> str:
        part = f" ({self.mapped_calls / self.calls:.2%})" if self.calls else ""
        return f"{self.mapped_calls:,} of {self.calls:,} calls{part}, {self.mapped_lines:,} of {self.lines:,} lines"


@dataclass
class Missing:
    """Calls of one overload that are no cases for one reason, over all catalogs."""

    overload: str
    reason: str
    calls: int = 0
    lines: int = 0
    models: set[str] = field(default_factory=set)

    def to_json(self) -> dict[str, Any]:
        return {**vars(self), "models": sorted(self.models)}


@dataclass
class Coverage:
    """``total``: all captured calls; ``levels``: those of each capture level. ``missing``: most calls first."""

    total: Share
    levels: dict[str, Share]
    missing: list[Missing]

    def to_json(self) -> dict[str, Any]:
        return {
            "total": vars(self.total),
            "levels": {level: vars(share) for level, share in self.levels.items()},
            "missing": [entry.to_json() for entry in self.missing],
        }


def coverage(catalogs: Iterable[Catalog]) -> Coverage:
    """Counts the calls of the captured ones among ``catalogs``, each as often as its line states."""
    total, levels = Share(), dict[str, Share]()
    missing: dict[tuple[str, str], Missing] = {}
    for catalog in catalogs:
        if not isinstance(catalog, CapturedCatalog):
            continue
        level = levels.setdefault(catalog.head.capture.level, Share())
        for call in catalog_cases(catalog):
            if isinstance(call, Unmapped):
                count = call.count
                entry = missing.setdefault((call.overload, call.reason), Missing(call.overload, call.reason))
                entry.calls += count
                entry.lines += 1
                entry.models.add(catalog.head.model.full_name)
            else:
                count = call.sources[0].count
            for share in (total, level):
                share.add(count, mapped=not isinstance(call, Unmapped))
    ordered = sorted(missing.values(), key=lambda entry: (-entry.calls, entry.overload, entry.reason))
    return Coverage(total, dict(sorted(levels.items())), ordered)
