"""Records → one self-contained HTML page: data, style and scripts in a single file that asks for nothing else.

The data is one JSON block that no browser runs; scripts write it as text only, so what catalogs and logs hold is never markup.
Texts and tensors are told once and referred to by number, and cases are columns, so 10,000 of them stay a few MB.
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
    "dom.js", "names.js", "format.js", "data.js", "state.js", "filters.js", "table.js", "bars.js", "overview.js", "matrix.js",
    "cases.js", "detail.js", "models.js", "padding.js", "main.js",
)  # fmt: skip
_TEXTS = (
    "id", "op", "operator", "status", "resource", "stage", "dtype", "layout", "memory", "sentence", "message", "decided_by",
    "numerics", "usage_note",
)  # fmt: skip
_PEAKS = tuple(field.name for field in fields(Usage))
_RAN = (Status.FITS, Status.OOM, Status.MISMATCH)

_T = TypeVar("_T", bound=Hashable)


def page(
    run: Run, changes: Changes | None = None, chapters: Sequence[GroupReport] | None = None, files_beside: Sequence[str] = ()
) -> str:
    """The HTML of ``run``.

    ``changes``: since the run before, where there is one. ``chapters``: of the run's groups, where they are made already.
    ``files_beside``: names of files that will lie beside the page.
    """
    return html.page(
        html.templates("ssinghal.report").get_template("page.html.j2"),
        title=f"{run.id}: memory verdicts",
        style=html.asset("ssinghal.report", "assets/page.css"),
        scripts=[html.asset("ssinghal.report", f"assets/{name}") for name in SCRIPTS],
        data=page_data(run, changes, chapters, files_beside),
    )


def page_data(
    run: Run, changes: Changes | None = None, chapters: Sequence[GroupReport] | None = None, files_beside: Sequence[str] = ()
) -> dict[str, Any]:
    """What the page knows, as plain values. Numbers in columns called after a text or a tensor count into its table."""
    tables = _Tables()
    groups = [_group(chapter, tables) for chapter in chapters or [GroupReport(group) for group in run.groups]]
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
        "files": list(files_beside),
        "groups": groups,
        "texts": tables.texts.rows,
        "tensors": tables.tensors.rows,
        "sources": tables.sources.rows,
    }


class _Table(Generic[_T]):
    """Distinct values, each told once."""

    def __init__(self) -> None:
        self.rows: list[_T] = []
        self._numbers: dict[_T, int] = {}

    def number(self, value: _T) -> int:
        found = self._numbers.get(value)
        if found is None:
            found = self._numbers[value] = len(self.rows)
            self.rows.append(value)
        return found


class _Tables:
    def __init__(self) -> None:
        self.texts: _Table[str] = _Table()
        self.tensors: _Table[tuple[Any, ...]] = _Table()
        self.sources: _Table[tuple[str, str, str]] = _Table()

    def text(self, value: object) -> int:
        return self.texts.number("" if value is None else str(value))


def _group(chapter: GroupReport, tables: _Tables) -> dict[str, Any]:
    group = chapter.group
    board = board_of(group)
    rows = [_case(record, chapter, board, tables) for record in group.records]
    return {
        "setting": str(group.setting),
        "board": group.setting.board,
        "numerics": group.numerics,
        "cases": {name: [row[name] for row in rows] for name in rows[0]},
    }


def _case(record: Record, chapter: GroupReport, board: Board | None, tables: _Tables) -> dict[str, Any]:
    """One value for every column. ``load`` is known of cases that ran, to their end or out of memory."""
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
        "remedies": _remedies(record, chapter, tables) if record.is_oom else [],
        "tensors": _tensors(record, tables),
        "bars": [_bar(bar, tables) for bar in bars],
        "usage": list(fields_of(record.usage).values()) if record.usage is not None else None,
        "estimate": text(f"{record.estimate.verdict}: {record.estimate.reason}" if record.estimate else ""),
        "left": sum(record.left_allocated.values()),
        "seconds": record.duration_s if math.isfinite(record.duration_s) else None,  # JSON has no NaN
        "calls": record.calls,
        "sources": [[*_source(source, tables), source.count] for source in record.sources],
    }


def _as_json(value: Any) -> str:
    """Most values of a line are one of few texts, flags or numbers."""
    return _plain_json(value) if isinstance(value, Hashable) else json.dumps(value)


@lru_cache(maxsize=4096, typed=True)
def _plain_json(value: Hashable) -> str:
    return json.dumps(value)


def _needed_bytes(record: Record, board: Board | None) -> int | None:
    """Bytes per bank, or of program buffers per core; None where TTNN names an end address and the base is not known, and for
    a clash, whose buffers would fit if they were alone."""
    if record.bytes_per_bank is not None or record.program_bytes is None:
        return record.bytes_per_bank
    if not record.ends_at_address:
        return record.program_bytes
    alone = board is not None and record.resource is not Resource.CLASH
    return record.program_bytes - board.reserved_base_bytes if alone and board is not None else None


def _tensors(record: Record, tables: _Tables) -> list[list[int | None]]:
    """[label, tensor, bytes that the allocator booked per bank]: by arithmetic, then what was placed beyond that."""
    booked = {tensor.label: tensor.booked_bytes for tensor in record.tensors}
    found = []
    for a in record.allocations:
        row = (
            a.shape, a.padded_shape, a.dtype, a.layout, a.memory, a.logical_bytes, a.allocated_bytes,
            a.booked_bytes_per_bank, a.padding_cause,
        )  # fmt: skip
        found.append([tables.text(a.label), tables.tensors.number(row), booked.get(a.label)])
    known = {allocation.label for allocation in record.allocations}
    for t in record.tensors:
        if t.label not in known:
            placed: tuple[Any, ...] = (t.shape, None, t.dtype, t.layout, t.memory, t.logical_bytes, t.allocated_bytes, None, "")
            found.append([tables.text(t.label), tables.tensors.number(placed), t.booked_bytes])
    return found


def _bar(bar: Bar, tables: _Tables) -> list[Any]:
    """[memory, its bytes, those of the bank, segments, what is beyond, notes]; a segment is [part, label, bytes]."""

    def parts(segments: Iterable[Segment]) -> list[list[int]]:
        return [[tables.text(s.part), tables.text(s.label), s.size_bytes] for s in segments]

    notes = [tables.text(note) for note in bar.notes]
    return [tables.text(bar.memory), bar.size_bytes, bar.bank_bytes, parts(bar.segments), parts(bar.beyond), notes]


def _remedies(failing: Record, chapter: GroupReport, tables: _Tables) -> list[tuple[int, bool, int]]:
    """[what is changed, whether it is known to fit so, all that is known in words] of what a search found; without a search,
    of the changes of placement."""
    searched = chapter.searched_of(failing)
    if searched is None:
        return [_remedy(alternative, tables) for alternative in chapter.alternatives_of(failing)]
    text = tables.text
    if searched.found:
        return [(text(f"{w.contract}: {w.lever}"), True, text(f"{w}; {w.cost}")) for w in searched.found]
    rest = [(text(r.lever), False, text(f"{r.contract}: {r.lever}: {r.reason}")) for r in searched.refused]
    return [(text("none"), False, text(str(searched))), *rest]


def _remedy(alternative: Alternative, tables: _Tables) -> tuple[int, bool, int]:
    helps = alternative.answer in (Answer.TRIED, Answer.FITS)
    return tables.text(alternative.remedy.value), helps, tables.text(str(alternative))


def _source(source: Source, tables: _Tables) -> tuple[int, int]:
    named = (source.catalog, source.model, source.input_size)
    return tables.sources.number(named), tables.text(source.module_path)


def _changes(changes: Changes) -> dict[str, Any]:
    """Under the settings that they have in the later run; ``compared``: those of which there was an earlier one."""
    now = {before: after for before, after in changes.settings}
    found = [
        [c.kind.value, str(now.get(c.setting, c.setting)), c.op, c.key, c.id, c.before, c.after, "; ".join(map(str, c.figures))]
        for c in changes.found
    ]
    compared = [str(after) for after in now.values()]
    kinds = [[kind.value, TITLES[kind], kind in WORSE] for kind in ChangeKind]
    return {"before": changes.before, "compared": compared, "kinds": kinds, "notes": list(changes.notes), "found": found}
