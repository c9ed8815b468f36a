"""Counts how many of the calls of models, and of recordings of ports, are cases, and why the others are not."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ssinghal.catalog.aten_calls import Unmapped
from ssinghal.catalog.captured import CapturedCatalog
from ssinghal.catalog.expansion import catalog_cases
from ssinghal.catalog.recorded import operation_traces, profile_records
from ssinghal.catalog.recorded.importer import is_recording, read_recording
from ssinghal.catalog.schema import Catalog


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


RECORDED = "recorded"  # the level of calls of TTNN


@dataclass
class Missing:
    """Calls of one overload, or of one function of TTNN, that are no cases for one reason, over all catalogs or recordings."""

    overload: str
    reason: str
    calls: int = 0
    lines: int = 0
    models: set[str] = field(default_factory=set)

    def to_json(self) -> dict[str, Any]:
        return {**vars(self), "models": sorted(self.models)}


@dataclass
class Coverage:
    """``total``: all captured calls; ``levels``: those of each capture level. ``missing``: most calls first.

    ``faults``: damaged lines of recordings, as ``file:line: what``.
    """

    total: Share
    levels: dict[str, Share]
    missing: list[Missing]
    faults: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return {
            "total": vars(self.total),
            "levels": {level: vars(share) for level, share in self.levels.items()},
            "missing": [entry.to_json() for entry in self.missing],
            **({"faults": list(self.faults)} if self.faults else {}),
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
    return Coverage(total, dict(sorted(levels.items())), _ordered(missing.values()))


def _ordered(missing: Iterable[Missing]) -> list[Missing]:
    return sorted(missing, key=lambda entry: (-entry.calls, entry.overload, entry.reason))


def recorded_coverage(paths: Iterable[Path]) -> Coverage:
    """Counts the calls of TTNN in recordings. A line is a call that differs from others; a folder stands for its recordings.

    Raises:
        CatalogError: A recording is damaged, or in no known form.
    """
    total, missing, faults = Share(), dict[tuple[str, str], Missing](), list[str]()
    for path in (file for given in paths for file in _recordings(given)):
        recording = read_recording(path)
        faults += recording.faults
        total.calls += recording.calls
        total.mapped_calls += recording.calls - sum(refused.count for refused in recording.refused)
        total.lines += recording.lines + len(recording.refused)
        total.mapped_lines += recording.lines
        for refused in recording.refused:
            key = (refused.function, refused.reason)
            entry = missing.setdefault(key, Missing(*key))
            entry.calls += refused.count
            entry.lines += 1
            entry.models.add(path.name.partition(".")[0])
    return Coverage(total, {RECORDED: total}, _ordered(missing.values()), tuple(faults))


def _recordings(path: Path) -> list[Path]:
    """Returns the recordings in a folder, unless it is one as a whole: a profile, or the traces of an operation tracer."""
    if not path.is_dir() or any(path.glob(profile_records.PATTERN)) or operation_traces.trace_files(path):
        return [path]
    return sorted(file for file in path.iterdir() if file.is_file() and is_recording(file)) or [path]
