"""The records of a run as one self-contained HTML page.

The data is one JSON block that no browser runs. Scripts insert it as text only, so catalogs and logs cannot inject markup.
Cases are columns in compressed parts: what every view lists; their tensors; and, for some cases each, what only the panel of a
selected case shows. Texts and tensors are stored once in a part and referred to by number.
"""

from __future__ import annotations

import json
import math
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import fields
from functools import lru_cache
from typing import Any

from ssinghal.core.case import Source
from ssinghal.core.json_values import fields_of
from ssinghal.core.measured import Usage
from ssinghal.core.record import Record
from ssinghal.core.tensors import Board, format_shape
from ssinghal.core.verdict import FAULTS, Resource, Status
from ssinghal.operators.case_json import KEYS
from ssinghal.render import html
from ssinghal.report.bank_occupancy import Bar, Segment, bars_of, board_of
from ssinghal.report.call_variants import CallVariants
from ssinghal.report.group_report import GroupReport
from ssinghal.report.page_parts import Part
from ssinghal.report.placement_alternatives import Answer
from ssinghal.report.placement_text import in_words
from ssinghal.report.placement_view import Placed, PlacementView, placement_views
from ssinghal.report.statistics import Size
from ssinghal.runs.change_kinds import TITLES, WORSE, ChangeKind
from ssinghal.runs.diff import Changes
from ssinghal.runs.reader import RecordGroup, Run

SCRIPTS = (
    "dom.js", "names.js", "format.js", "unpack.js", "data.js", "state.js", "filters.js", "parts.js", "table.js", "bars.js",
    "remedies.js", "breakdown.js", "changes.js", "overview.js", "summary.js", "matrix.js", "cases.js", "detail.js",
    "modules.js", "models.js", "padding.js", "placements.js", "main.js",
)  # fmt: skip
DETAIL_CASES = 500  # in a part of details
_TEXTS = ("id", "op", "operator", "status", "resource", "stage", "memory", "sentence")
_DETAIL_TEXTS = ("dtype", "layout", "message", "decided_by", "numerics", "usage_note")
_PEAKS = tuple(field.name for field in fields(Usage))
_RAN = (Status.FITS, Status.OOM, Status.MISMATCH)


def page(
    run: Run, changes: Changes | None = None, reports: Sequence[GroupReport] | None = None, other_files: Sequence[str] = ()
) -> str:
    """Returns the HTML of ``run``.

    ``changes``: since the run before, if there is one. ``reports``: of the run's groups, if they exist already.
    ``other_files``: names of files in the folder of the page.
    """
    return html_of(run, page_data(run, changes, reports, other_files))


def html_of(run: Run, data: dict[str, Any], *, loads_parts: bool = False) -> str:
    """Returns the HTML with ``data``. ``loads_parts``: whether its script may load others."""
    return html.page(
        html.templates("ssinghal.report").get_template("page.html.j2"),
        title=f"{run.id}: memory verdicts",
        style=html.asset("ssinghal.report", "assets/page.css"),
        scripts=[html.asset("ssinghal.report", f"assets/{name}") for name in SCRIPTS],
        data=data,
        loads_parts=loads_parts,
    )


def page_data(
    run: Run, changes: Changes | None = None, reports: Sequence[GroupReport] | None = None, other_files: Sequence[str] = ()
) -> dict[str, Any]:
    """Returns the data of the page as plain values, with the cases of each group in packed parts."""
    views = placement_views(run)
    reports = reports or [GroupReport(group, variants=CallVariants.of(run)) for group in run.groups]
    groups = [_group(report, views) for report in reports]
    return run_data(run, changes_data(changes) if changes is not None else None, groups, other_files)


def run_data(
    run: Run, changes: dict[str, Any] | None, groups: Sequence[dict[str, Any]], other_files: Sequence[str]
) -> dict[str, Any]:
    """Returns the data of the page, which has ``groups``."""
    return {
        "run": {
            "id": run.id,
            **{name: getattr(run.head, name) or "" for name in ("started", "finished", "command", "commit")},
            "losses": list(run.losses),
            "remarks": list(run.remarks),
            "variants": CallVariants.of(run).factors,
        },
        "faults": [status.value for status in FAULTS],
        "line": list(KEYS),
        "peaks": list(_PEAKS),
        "changes": changes,
        "files": list(other_files),
        "groups": list(groups),
    }


def group_head(group: RecordGroup) -> dict[str, Any]:
    """Returns what the page has of a group besides its cases."""
    setting = group.setting
    return {
        "setting": str(setting),
        "board": setting.board,
        "numerics": group.numerics,
        "measuresMemory": setting.measures_memory,
    }


def _group(report: GroupReport, views: Sequence[PlacementView]) -> dict[str, Any]:
    group = report.group
    board = board_of(group)
    cases, tensors = Part(), Part()
    details: list[Part] = []
    for number, record in enumerate(group.records):
        if number % DETAIL_CASES == 0:
            details.append(Part())
        bars = bars_of(record, board) if board is not None else ()
        remedies = remedies_of(record, report) if record.is_oom else []
        add_case(cases, record, report, board, bars, remedies)
        tensors.add(tensors=tensors_of(record, tensors))
        add_details(details[-1], record, bars, remedies)
    return {
        **group_head(group),
        "placements": placements_data(group, views),
        "cases": cases.packed(),
        "tensors": tensors.packed(),
        "details": [part.packed() for part in details],
        "detailCases": DETAIL_CASES,
    }


def placements_data(group: RecordGroup, views: Sequence[PlacementView]) -> dict[str, Any] | None:
    """Returns the placement views of a group as one, None if it has none: of each model and dtype its counts, and its calls
    with [case, what stops it, headroom, reason] for each placement."""
    own = [view for view in views if view.setting == str(group.setting)]
    if not own:
        return None
    models = [
        {
            "model": model.model or model.catalog,
            "input": model.input_size,
            "catalog": model.catalog,
            "dtype": model.dtype,
            "text": in_words(view.memories, model).rstrip(":"),
            "calls": model.calls,
            "fit": [model.fitting(memory) for memory in view.memories],
            "stopped": [{k.value: n for k, n in model.stopped(memory).items()} for memory in view.memories],
            "rows": [
                [calls, row.record.op, row.text, [_placed(row.placed.get(memory)) for memory in view.memories]]
                for row, calls in model.rows
            ],
        }
        for view in own
        for model in view.models
    ]
    return {"memories": list(own[0].memories), "models": models}


def _placed(placed: Placed | None) -> list[Any] | None:
    if placed is None:
        return None
    record = placed.record
    return [
        f"{record.op}:{record.key}",
        placed.stopper.value if placed.stopper else "",
        placed.headroom_bytes,
        placed.reason,
    ]


def add_case(
    part: Part, record: Record, report: GroupReport, board: Board | None, bars: Sequence[Bar], remedies: Sequence[_Remedy]
) -> None:
    """Adds what the views list, filter and sort. Only cases that ran have a ``load``."""
    size = Size.of_shape(record)
    part.add(
        key=record.key,
        **{name: part.text(getattr(record, name)) for name in _TEXTS},
        shape=part.text(format_shape(record.shape)),
        logical=size.logical_bytes,
        allocated=size.allocated_bytes,
        asked=record.total_bytes,
        need=_needed_bytes(record, board),
        short=record.call_shortfall_bytes,
        lacks=record.shortfall_bytes,
        load=round(max(bar.load for bar in bars), 4) if bars and record.status in _RAN else None,
        helps=[part.text(change) for change, helps, _ in remedies if helps],
        searched=int(report.was_searched(record)),
        left=sum(record.left_allocated.values()),
        calls=record.calls,
        **({"call": part.text(report.variants.call_of(record))} if report.variants else {}),
        sources=[_source(source, part) for source in record.sources],
    )


def add_details(part: Part, record: Record, bars: Sequence[Bar], remedies: Sequence[_Remedy]) -> None:
    """Adds what only the panel of a selected case shows."""
    part.add(
        **{name: part.text(getattr(record, name)) for name in _DETAIL_TEXTS},
        line=[part.text(_as_json(getattr(record, name))) for name in KEYS],
        remedies=[[helps, part.text(details)] for _, helps, details in remedies],
        bars=[_bar(bar, part) for bar in bars],
        usage=list(fields_of(record.usage).values()) if record.usage is not None else None,
        estimate=part.text(f"{record.estimate.verdict}: {record.estimate.reason}" if record.estimate else ""),
        seconds=record.duration_s if math.isfinite(record.duration_s) else None,  # JSON has no NaN
    )


def _as_json(value: Any) -> str:
    """Caches the JSON of values that can be hashed: most are one of few texts, flags or numbers."""
    try:
        return _plain_json(value)
    except TypeError:  # it holds a mapping, as a tuple of operands may
        return json.dumps(value)


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


def tensors_of(record: Record, part: Part) -> list[list[int | None]]:
    """Returns [label, tensor, bytes booked per bank] of the tensors known by arithmetic, then of all others that were
    placed."""
    booked = {tensor.label: tensor.booked_bytes for tensor in record.tensors}
    rows = []
    for a in record.allocations:
        values = (
            a.shape, a.padded_shape, a.dtype, a.layout, a.memory, a.logical_bytes, a.allocated_bytes,
            a.booked_bytes_per_bank, a.padding_cause,
        )  # fmt: skip
        rows.append([part.text(a.label), part.tensor(values), booked.get(a.label)])
    known = {allocation.label for allocation in record.allocations}
    for t in record.tensors:
        if t.label not in known:
            placed: tuple[Any, ...] = (t.shape, None, t.dtype, t.layout, t.memory, t.logical_bytes, t.allocated_bytes, None, "")
            rows.append([part.text(t.label), part.tensor(placed), t.booked_bytes])
    return rows


def _bar(bar: Bar, part: Part) -> list[Any]:
    """Returns [memory, its bytes, bytes of the bank, segments, segments beyond the end, notes]; a segment is [part, label,
    bytes]."""

    def pieces(segments: Iterable[Segment]) -> list[list[int]]:
        return [[part.text(s.part), part.text(s.label), s.size_bytes] for s in segments]

    notes = [part.text(note) for note in bar.notes]
    return [part.text(bar.memory), bar.size_bytes, bar.bank_bytes, pieces(bar.segments), pieces(bar.beyond), notes]


_Remedy = tuple[str, bool, str]  # a change, whether the case is known to fit with it, details


def remedies_of(failing: Record, report: GroupReport) -> list[_Remedy]:
    """Returns each remedy that a search found; without a search, each change of placement."""
    searched = report.searched_of(failing)
    if searched is None:
        answers = report.alternatives_of(failing)
        return [(str(a.remedy.value), a.answer in (Answer.TRIED, Answer.FITS), str(a)) for a in answers]
    if searched.found:
        return [(f"{w.contract}: {w.lever}", True, f"{w}; {w.cost}") for w in searched.found]
    rest = [(r.lever, False, f"{r.contract}: {r.lever}: {r.reason}") for r in searched.refused]
    return [("none", False, str(searched)), *rest]


def _source(source: Source, part: Part) -> list[Any]:
    """Returns [source, calls, [module, calls] of each module, [number of other modules, their calls]]."""
    number = part.source(source.catalog, source.model, source.input_size)
    modules = [[part.text(made.path), made.calls] for made in source.modules]
    return [number, source.count, modules, [source.other_modules, source.other_calls]]


def changes_data(changes: Changes) -> dict[str, Any]:
    """Returns the changes by the settings of the later run. ``compared``: settings that the earlier run has, too."""
    now = {before: after for before, after in changes.settings}
    rows = [
        [c.kind.value, str(now.get(c.setting, c.setting)), c.op, c.key, c.id, c.before, c.after, "; ".join(map(str, c.figures))]
        for c in changes.found
    ]
    compared = [str(after) for after in now.values()]
    kinds = [[kind.value, TITLES[kind], kind in WORSE] for kind in ChangeKind]
    return {"before": changes.before, "compared": compared, "kinds": kinds, "notes": list(changes.notes), "found": rows}
