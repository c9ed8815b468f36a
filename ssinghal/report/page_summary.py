"""The figures on which the page of a large run opens."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from ssinghal.core.record import Record
from ssinghal.core.tensors import format_shape
from ssinghal.core.verdict import FAULTS
from ssinghal.errors import cut
from ssinghal.report.group_report import GroupReport
from ssinghal.report.result_tables import alike
from ssinghal.runs.diff import Changes

MOST = 20  # cases in a list
MOST_ALIKE = 50  # kinds of faults
MOST_CHANGES = 100  # of one kind and setting, as the page shows at most
SENTENCE_CHARS = 300


def summary(report: GroupReport) -> dict[str, Any]:
    """Returns totals, operators by outcomes, models, faults, and the failing cases that lack most and least bytes."""
    facts = report.facts
    oom = [record for record in facts.oom if record.call_shortfall_bytes is not None]
    faults = [group for group in alike(facts.records) if group[0][0] in set(FAULTS)]
    return {
        "outcomes": _outcomes(facts.records),
        "calls": [sum(r.calls for r in facts.records), facts.failing_calls, report.variants.calls(facts.records)],
        "operators": [
            [o.op, len(o.records), _outcomes(o.records), o.failing_calls]
            for o in sorted(facts.operators, key=lambda o: (-len(o.oom), o.op))
        ],
        "models": [
            [m.model, m.input_size, m.catalog, len(m.cases), m.calls, m.fitting_calls, len(m.oom), m.failing_calls]
            for m in facts.models
        ],
        "faults": [
            [status, what, stage, len(records), sorted({r.op for r in records})[:MOST], _listed(records[0])]
            for (status, what, stage), records in faults[:MOST_ALIKE]
        ],
        "moreFaults": max(len(faults) - MOST_ALIKE, 0),
        "most": [_listed(r) for r in sorted(oom, key=lambda r: -(r.call_shortfall_bytes or 0))[:MOST]],
        "least": [_listed(r) for r in sorted(oom, key=lambda r: r.call_shortfall_bytes or 0)[:MOST]],
    }


def _outcomes(records: Iterable[Record]) -> list[list[Any]]:
    """Returns [status, resource or "", cases]."""
    counts = Counter((r.status.value, r.resource.value if r.is_oom and r.resource else "") for r in records)
    return [[*outcome, cases] for outcome, cases in sorted(counts.items())]


def _listed(record: Record) -> list[Any]:
    """Returns [op, key, shape, id, status, resource, missing bytes, calls, sentence]."""
    resource = record.resource.value if record.resource else ""
    case: list[Any] = [record.op, record.key, format_shape(record.shape), record.id, record.status.value, resource]
    return [*case, record.call_shortfall_bytes, record.calls, cut(record.sentence, SENTENCE_CHARS)]


def first_changes(changes: Changes, rows: Sequence[Sequence[Any]]) -> tuple[list[Sequence[Any]], list[list[Any]]]:
    """Returns the first rows of each kind and setting, and [kind, setting, number of the others]; a row starts with both."""
    seen: Counter[tuple[Any, Any]] = Counter()
    kept = []
    for row in rows:
        seen[row[0], row[1]] += 1
        if seen[row[0], row[1]] <= MOST_CHANGES:
            kept.append(row)
    return kept, [[*which, number - MOST_CHANGES] for which, number in seen.items() if number > MOST_CHANGES]
