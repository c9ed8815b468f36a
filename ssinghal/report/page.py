"""The records of a run as one self-contained HTML page.

The data is one JSON block that no browser runs. Scripts insert it as text only, so catalogs and logs cannot inject markup.
Texts and tensors are stored once and referred to by number, and cases are columns, so 10,000 of them stay a few MB.
"""

from __future__ import annotations

import json
import math
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import fields
from functools import lru_cache
from typing import Any, Generic, TypeVar

from ssinghal.core.case import Source
from ssinghal.core.json_values import fields_of
from ssinghal.core.record import FAULTS, Record, Resource, Status, Usage
from ssinghal.core.tensors import Board, format_shape
from ssinghal.operators.case_json import KEYS
from ssinghal.render import html
from ssinghal.report.bank_occupancy import Bar, Segment, bars_of, board_of
from ssinghal.report.group_report import GroupReport
from ssinghal.report.placement_alternatives import Alternative, Answer
from ssinghal.report.statistics import Size
from ssinghal.runs.change_kinds import TITLES, WORSE, ChangeKind
from ssinghal.runs.diff import Changes
from ssinghal.runs.reader import Run

SCRIPTS = (
    "dom.js", "names.js", "format.js", "data.js", "state.js", "filters.js", "table.js", "bars.js", "remedies.js",
    "breakdown.js", "changes.js", "overview.js", "matrix.js", "cases.js", "detail.js", "modules.js", "models.js", "padding.js",
    "main.js",
)  # fmt: skip
_TEXTS = (
    "id", "op", "operator", "status", "resource", "stage", "dtype", "layout", "memory", "sentence", "message", "decided_by",
    "numerics", "usage_note",
)  # fmt: skip
_PEAKS = tuple(field.name for field in fields(Usage))
_RAN = (Status.FITS, Status.OOM, Status.MISMATCH)

_T = TypeVar("_T", bound=Hashable)


def page(
    run: Run, changes: Changes | None = None, reports: Sequence[GroupReport] | None = None, other_files: Sequence[str] = ()
) -> str:
    """Returns the HTML of ``run``.

    ``changes``: since the run before, if there is one. ``reports``: of the run's groups, if they exist already.
    ``other_files``: names of files in the folder of the page.
    """
    return html.page(
        html.templates("ssinghal.report").get_template("page.html.j2"),
        title=f"{run.id}: memory verdicts",
        style=html.asset("ssinghal.report", "assets/page.css"),
        scripts=[html.asset("ssinghal.report", f"assets/{name}") for name in SCRIPTS],
        data=page_data(run, changes, reports, other_files),
    )


def page_data(
    run: Run, changes: Changes | None = None, reports: Sequence[GroupReport] | None = None, other_files: Sequence[str] = ()
) -> dict[str, Any]:
    """Returns the data of the page as plain values. Columns of texts and tensors hold indices into their tables."""
    tables = _Tables()
    groups = [_group(report, tables) for report in reports or [GroupReport(group) for group in run.groups]]
    return {
        "run": {
            "id": run.id,
            **{name: getattr(run.head, name) or "" for name in ("started", "finished", "command", "commit")},
            "losses": list(run.losses),
            "remarks": list(run.remarks),
        },
        "faults": [status.value for status in FAULTS],
        "line": list(KEYS),
        "peaks": list(_PEAKS),
        "changes": _changes(changes) if changes is not None else None,
        "files": list(other_files),
        "groups": groups,
        "texts": tables.texts.rows,
        "tensors": tables.tensors.rows,
        "sources": tables.sources.rows,
    }


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


class _Tables:
    def __init__(self) -> None:
        self.texts: _Table[str] = _Table()
        self.tensors: _Table[tuple[Any, ...]] = _Table()
        self.sources: _Table[tuple[str, str, str]] = _Table()

    def text(self, value: object) -> int:
        return self.texts.number("" if value is None else str(value))


def _group(report: GroupReport, tables: _Tables) -> dict[str, Any]:
    group = report.group
    board = board_of(group)
    rows = [_case(record, report, board, tables) for record in group.records]
    return {
        "setting": str(group.setting),
        "board": group.setting.board,
        "numerics": group.numerics,
        "cases": {name: [row[name] for row in rows] for name in rows[0]},
    }


def _case(record: Record, report: GroupReport, board: Board | None, tables: _Tables) -> dict[str, Any]:
    """Returns one value for every column. Only cases that ran have a ``load``."""
    size = Size.of_shape(record)
    bars = bars_of(record, board) if board is not None else ()
    text = tables.text
    return {
        "key": record.key,
        **{name: text(getattr(record, name)) for name in _TEXTS},
        "shape": text(format_shape(record.shape)),
        "line": [text(_as_json(getattr(record, name))) for name in KEYS],
        "logical": size.logical_bytes,
        "allocated": size.allocated_bytes,
        "asked": record.total_bytes,
        "need": _needed_bytes(record, board),
        "short": record.shortfall_bytes,
        "load": round(max(bar.load for bar in bars), 4) if bars and record.status in _RAN else None,
        "remedies": _remedies(record, report, tables) if record.is_oom else [],
        "tensors": _tensors(record, tables),
        "bars": [_bar(bar, tables) for bar in bars],
        "usage": list(fields_of(record.usage).values()) if record.usage is not None else None,
        "estimate": text(f"{record.estimate.verdict}: {record.estimate.reason}" if record.estimate else ""),
        "left": sum(record.left_allocated.values()),
        "seconds": record.duration_s if math.isfinite(record.duration_s) else None,  # JSON has no NaN
        "calls": record.calls,
        "searched": report.searched_of(record) is not None,
        "sources": [_source(source, tables) for source in record.sources],
    }


def _as_json(value: Any) -> str:
    """Caches the JSON of values that can be hashed: most are one of few texts, flags or numbers."""
    return _plain_json(value) if isinstance(value, Hashable) else json.dumps(value)


@lru_cache(maxsize=4096, typed=True)
def _plain_json(value: Hashable) -> str:
    return json.dumps(value)


def _needed_bytes(record: Record, board: Board | None) -> int | None:
    """Returns the bytes needed per bank, or per core for program buffers. None if only an end address is known, and for a
    clash, whose buffers would fit alone."""
    if record.bytes_per_bank is not None or record.program_bytes is None:
        return record.bytes_per_bank
    if not record.ends_at_address:
        return record.program_bytes
    if board is None or record.resource is Resource.CLASH:
        return None
    return record.program_bytes - board.reserved_base_bytes


def _tensors(record: Record, tables: _Tables) -> list[list[int | None]]:
    """Returns [label, tensor, bytes booked per bank] of the tensors known by arithmetic, then of all others that were
    placed."""
    booked = {tensor.label: tensor.booked_bytes for tensor in record.tensors}
    rows = []
    for a in record.allocations:
        values = (
            a.shape, a.padded_shape, a.dtype, a.layout, a.memory, a.logical_bytes, a.allocated_bytes,
            a.booked_bytes_per_bank, a.padding_cause,
        )  # fmt: skip
        rows.append([tables.text(a.label), tables.tensors.number(values), booked.get(a.label)])
    known = {allocation.label for allocation in record.allocations}
    for t in record.tensors:
        if t.label not in known:
            placed: tuple[Any, ...] = (t.shape, None, t.dtype, t.layout, t.memory, t.logical_bytes, t.allocated_bytes, None, "")
            rows.append([tables.text(t.label), tables.tensors.number(placed), t.booked_bytes])
    return rows


def _bar(bar: Bar, tables: _Tables) -> list[Any]:
    """Returns [memory, its bytes, bytes of the bank, segments, segments beyond the end, notes]; a segment is [part, label,
    bytes]."""

    def parts(segments: Iterable[Segment]) -> list[list[int]]:
        return [[tables.text(s.part), tables.text(s.label), s.size_bytes] for s in segments]

    notes = [tables.text(note) for note in bar.notes]
    return [tables.text(bar.memory), bar.size_bytes, bar.bank_bytes, parts(bar.segments), parts(bar.beyond), notes]


def _remedies(failing: Record, report: GroupReport, tables: _Tables) -> list[tuple[int, bool, int]]:
    """Returns [change, whether the case is known to fit with it, details] of each remedy that a search found; without a search,
    of each change of placement."""
    searched = report.searched_of(failing)
    if searched is None:
        return [_remedy(alternative, tables) for alternative in report.alternatives_of(failing)]
    text = tables.text
    if searched.found:
        return [(text(f"{w.contract}: {w.lever}"), True, text(f"{w}; {w.cost}")) for w in searched.found]
    rest = [(text(r.lever), False, text(f"{r.contract}: {r.lever}: {r.reason}")) for r in searched.refused]
    return [(text("none"), False, text(str(searched))), *rest]


def _remedy(alternative: Alternative, tables: _Tables) -> tuple[int, bool, int]:
    helps = alternative.answer in (Answer.TRIED, Answer.FITS)
    return tables.text(alternative.remedy.value), helps, tables.text(str(alternative))


def _source(source: Source, tables: _Tables) -> list[Any]:
    """Returns [source, calls, [module, calls] of each module, [number of other modules, their calls]]."""
    number = tables.sources.number((source.catalog, source.model, source.input_size))
    modules = [[tables.text(made.path), made.calls] for made in source.modules]
    return [number, source.count, modules, [source.other_modules, source.other_calls]]


def _changes(changes: Changes) -> dict[str, Any]:
    """Returns the changes by the settings of the later run. ``compared``: settings that the earlier run has, too."""
    now = {before: after for before, after in changes.settings}
    rows = [
        [c.kind.value, str(now.get(c.setting, c.setting)), c.op, c.key, c.id, c.before, c.after, "; ".join(map(str, c.figures))]
        for c in changes.found
    ]
    compared = [str(after) for after in now.values()]
    kinds = [[kind.value, TITLES[kind], kind in WORSE] for kind in ChangeKind]
    return {"before": changes.before, "compared": compared, "kinds": kinds, "notes": list(changes.notes), "found": rows}
