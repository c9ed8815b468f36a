"""Tables of one operator's cases."""

from __future__ import annotations

from ssinghal.core.record import Record
from ssinghal.core.verdict import Status
from ssinghal.render.markdown import Markup, code, shape, size, table
from ssinghal.report.group_report import GroupReport
from ssinghal.report.result_tables import SIZE_COLUMNS, padded, sizes
from ssinghal.report.statistics import OperatorResults, Size

MAX_CASES = 10


def counts(results: OperatorResults) -> Markup:
    rows: list[list[object]] = [[s, n] for s, n in results.statuses.items()]
    return table(["status", "cases"], [*rows, [Markup("**total**"), len(results.records)]])


def failures(c: GroupReport, results: OperatorResults) -> Markup:
    rows: list[list[object]] = []
    for r in sorted(results.oom, key=lambda r: -(r.call_shortfall_bytes or 0)):
        where = Size.of_shape(r)
        rows.append([code(r.id), *sizes(where), r.sentence, size(r.call_shortfall_bytes), r.calls, c.best(r)])
    return table(["case", *SIZE_COLUMNS, "TTNN's message", "short by", "calls of models", "what makes it fit"], rows)


def largest_fitting(results: OperatorResults) -> Markup:
    fitting = [r for r in results.records if r.status is Status.FITS]
    chosen = sorted(fitting, key=lambda r: Size.of_shape(r).order[::-1], reverse=True)[:MAX_CASES]
    rows = [[code(r.id), *sizes(Size.of_shape(r)), _peak(r), r.calls] for r in chosen]
    return table(["case", *SIZE_COLUMNS, "peak of L1, per core, as captured", "calls of models"], rows)


def others(results: OperatorResults) -> Markup:
    rest = [r for r in results.records if r.status not in (Status.FITS, Status.OOM)]
    return table(["case", "status", "why"], [[code(r.id), r.status.value, r.sentence] for r in rest])


def padding(results: OperatorResults) -> Markup:
    """Lists the shapes of this operator that padding inflates most."""
    worst: dict[tuple[int, ...], Record] = {}
    for r in results.records:
        if r.subject and r.subject.padding_factor > 1:
            worst.setdefault(r.shape, r)
    chosen = sorted(worst.values(), key=lambda r: -(Size.of_shape(r).padding or 0))[:MAX_CASES]
    rows: list[list[object]] = []
    for r in chosen:
        if r.subject:
            where, shapes = Size.of_shape(r), [shape(r.shape), shape(r.subject.padded_shape)]
            rows.append([*shapes, size(where.logical_bytes), padded(where), r.subject.padding_cause])
    return table(["shape", "as stored", "logical", "allocated, x logical", "padded by"], rows)


def _peak(record: Record) -> Markup:
    return size(record.usage.l1_total_bytes if record.usage else None)
