"""The counts of the documents as JSON, and the table of failures as CSV. Sizes are integer bytes."""

from __future__ import annotations

import csv
import io
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from ssinghal.core.json_values import plain
from ssinghal.core.record import Record
from ssinghal.core.tensors import Shape, format_shape
from ssinghal.operators import operators as registry
from ssinghal.report.call_variants import CallVariants
from ssinghal.report.group_report import GroupReport
from ssinghal.report.json_stream import Streamed
from ssinghal.report.statistics import OperatorResults, Pair, Size, Statistics, TierResults, band_of, tiers_of
from ssinghal.report.support_matrix import operator_mapping, support_matrix
from ssinghal.runs.reader import Run
from ssinghal.runs.stored import complete

REPORT_SCHEMA = 1
FAILURE_COLUMNS = (
    "run", "device_mode", "board", "ttnn", "numerics",
    "op", "operator", "id", "key", "shape", "band", "dtype", "layout", "memory",
    "logical_bytes", "allocated_bytes", "bytes_per_bank", "padding_factor", "padding_cause",
    "resource", "stage", "failing_logical_bytes", "failing_allocated_bytes", "needed_bytes_per_bank", "banks", "bank_bytes",
    "free_bytes", "largest_free_bytes", "program_bytes", "limit_bytes", "tensor_address",
    "shortfall_bytes", "call_shortfall_bytes", "tiers", "models", "callers", "calls", "remedies", "message",
)  # fmt: skip


def oom_report(run: Run, reports: Sequence[GroupReport]) -> dict[str, Any]:
    """``comprehensive_oom_report.json``: failures by band, operator, shape, tier and model, with remedies."""
    return _of_groups(run, reports, _oom)


def analysis(run: Run, reports: Sequence[GroupReport]) -> dict[str, Any]:
    """``detailed_analysis_data.json``: every operator with its outcomes and byte statistics, every case with its own."""
    return _of_groups(run, reports, _analysis)


def mapping(run: Run, _: Sequence[GroupReport]) -> dict[str, Any]:
    """``operator_mapping.json``: names and ATen overloads -> TTNN functions, as this version declares them."""
    return {**_head(run), **operator_mapping()}


def mapping_analysis(run: Run, reports: Sequence[GroupReport]) -> dict[str, Any]:
    """``mapping_analysis.json``: operators by support, with the run's counts of each."""

    def of(report: GroupReport) -> dict[str, Any]:
        matrix = support_matrix(report.facts)
        by_support: dict[str, list[str]] = defaultdict(list)
        for row in matrix:
            by_support[row.support].append(row.operator)
        return {
            "counts": {support: len(names) for support, names in by_support.items()},
            "support": dict(by_support),
            "not_in_this_run": [row.operator for row in matrix if not row.cases],
            "operators": [vars(row) for row in matrix],
        }

    return _of_groups(run, reports, of)


def basic_operators(run: Run, reports: Sequence[GroupReport]) -> dict[str, Any]:
    """``basic_operators.json``: every operator name of the run with its shapes."""

    def of(report: GroupReport) -> dict[str, Any]:
        return {operator.op: _shapes_of(operator) for operator in report.facts.operators}

    return _of_groups(run, reports, of)


def failures_csv(run: Run, reports: Sequence[GroupReport]) -> Iterator[str]:
    """``oom_failures_detailed.csv``: a line for each failing case with ``FAILURE_COLUMNS``; unknown values are empty."""
    text = io.StringIO()
    writer = csv.DictWriter(text, FAILURE_COLUMNS, lineterminator="\r\n")
    writer.writeheader()
    for report in reports:
        for record in report.facts.oom:
            row = {**_failure(record), "run": run.id, "shape": format_shape(record.shape), "message": record.message}
            row["remedies"] = report.remedies_of(record)
            row |= {name: "; ".join(row[name]) for name in ("tiers", "models", "callers", "remedies")}
            writer.writerow({name: _cell(row[name]) for name in FAILURE_COLUMNS})
            yield text.getvalue()
            text.seek(0)
            text.truncate()
    yield text.getvalue()


def _cell(value: object) -> object:
    """Puts an apostrophe before a text that a spreadsheet would take for a formula."""
    return f"'{value}" if isinstance(value, str) and value.startswith(("=", "+", "-", "@", "\t", "\r")) else value


def _head(run: Run) -> dict[str, Any]:
    head = {name: getattr(run.head, name) for name in ("started", "finished", "command", "commit", "versions", "selected")}
    variants = CallVariants.of(run)
    return {
        "report_schema": REPORT_SCHEMA,
        "run": run.id,
        **head,
        **({"variants": vars(variants)} if variants else {}),
        "losses": list(run.losses),
        "remarks": list(run.remarks),
    }


def _of_groups(run: Run, reports: Sequence[GroupReport], of: Callable[[GroupReport], dict[str, Any]]) -> dict[str, Any]:
    """Returns an object with one group for each board, device mode and release. Nothing is added up across groups."""
    groups = []
    for report in reports:
        group = report.group
        numerics = {"numerics": group.numerics, "cases": len(group.records), "totals": report.facts.statuses}
        found = of(report)
        if not group.setting.measures_memory:
            found = {"memory": "not measured", **_without_memory(found)}
        groups.append({**group.setting.to_json(), **numerics, **found})
    return {**_head(run), "groups": groups}


def _without_memory(value: Any) -> Any:
    """Returns ``value`` with None for everything that a run of golden functions cannot know: it has no failures, nor none."""
    if isinstance(value, Streamed):
        return value.map(_without_memory)
    if isinstance(value, Mapping):
        return {key: None if key in _OF_MEMORY else _without_memory(inner) for key, inner in value.items()}
    return [_without_memory(inner) for inner in value] if isinstance(value, (list, tuple)) else value


_OF_MEMORY = frozenset({
    "failing", "failing_cases", "failing_pairs", "failing_calls", "failing_shapes", "failing_operators", "failures",
    "failing_cases_of_models", "failing_calls_of_models", "fits", "oom", "fitting_calls", "resources", "bands", "shapes",
    "worst", "pairs_first_here", "remedies", "searched",
})  # fmt: skip


def _oom(report: GroupReport) -> dict[str, Any]:
    facts = report.facts
    return {
        "failing_cases": len(facts.oom),
        "failing_cases_of_models": len(facts.called),
        "failing_calls_of_models": facts.failing_calls,
        "failing_pairs": len(facts.pairs),
        "failing_shapes": len(facts.shapes),
        "failing_operators": len(facts.failing_operators),
        "resources": facts.resources,
        "bands": [
            {"band": band.name, "logical_size": band.range, "above_bytes": max(band.above_bytes, 0), "pairs": len(pairs),
             "operators": len({p.op for p in pairs}), "shapes": len({p.shape for p in pairs})}
            for band, pairs in facts.bands.items()
        ],
        "operators": [_operator(o) for o in facts.failing_operators] if facts.group.setting.measures_memory else None,
        "shapes": [
            {"shape": s.shape, "band": s.band.name, **_size(s.size), "operators": [p.op for p in s.pairs], "cases": s.cases}
            for s in facts.shapes
        ],
        "tiers": [_tier(tier) for tier in facts.tiers],
        "models": _models(report),
        "remedies": [
            {"remedy": a.remedy.value, "cases": a.cases, "calls": a.calls,
             "answers": {answer.value: cases for answer, cases in a.answers.items()}}
            for a in report.advice
        ],
        "searched": {
            "cases": report.searched,
            "first": Counter(s.first.contract if s.first else "none" for _, s in report.searches()),
        },
        "failures": Streamed(lambda: (_answered_failure(report, record) for record in facts.oom)),
    }  # fmt: skip


def _answered_failure(report: GroupReport, record: Record) -> dict[str, Any]:
    alternatives = [
        {"remedy": a.remedy.value, "answer": a.answer.value, "memory": a.memory.value,
         "bytes_per_bank": a.bytes_per_bank, "bank_bytes": a.bank_bytes}
        for a in report.alternatives_of(record)
    ]  # fmt: skip
    searched = report.searched_of(record)
    return {
        **_failure(record),
        "alternatives": alternatives,
        "searched": plain(searched) if searched is not None else None,
    }


def _analysis(report: GroupReport) -> dict[str, Any]:
    facts = report.facts
    return {
        "operators": [
            {**_operator(operator), "declared": operator.op in registry(), "bytes": _statistics(operator.records)}
            for operator in facts.operators
        ],
        "bytes": _statistics(facts.records),
        "records": Streamed(lambda: map(_case, facts.records)),
    }


def _case(r: Record) -> dict[str, Any]:
    return {
        "op": r.op, "operator": r.operator, "id": r.id, "key": r.key, "shape": r.shape, "status": r.status.value,
        "resource": r.resource.value if r.resource else None, "stage": r.stage, **_size(Size.of_shape(r)),
        "usage": plain(r.usage), "shortfall_bytes": r.shortfall_bytes, "calls": r.calls,
    }  # fmt: skip


def _operator(results: OperatorResults) -> dict[str, Any]:
    return {
        "op": results.op,
        "operator": results.operator,
        "cases": len(results.records),
        "statuses": results.statuses,
        "resources": results.resources,
        "failing_cases": len(results.oom),
        "failing_pairs": len(results.pairs),
        "failing_calls": results.failing_calls,
        "worst": _pair(results.worst) if results.worst else None,
    }


def _pair(pair: Pair) -> dict[str, Any]:
    return {"op": pair.op, "shape": pair.shape, "band": pair.band.name, **_size(pair.size), "cases": len(pair.records)}


def _tier(tier: TierResults) -> dict[str, Any]:
    return {
        "tier": tier.name,
        "input_sizes": tier.input_sizes,
        "cases": tier.cases,
        "failing_cases": tier.failing_cases,
        "failing_pairs": len(tier.pairs),
        "pairs_first_here": tier.here,
        "worst": _pair(tier.pairs[0]) if tier.pairs else None,
    }


def _models(report: GroupReport) -> list[dict[str, Any]]:
    return [
        {
            "model": m.model,
            "input_size": m.input_size,
            "catalog": m.catalog,
            "calls": m.calls,
            "fitting_calls": m.fitting_calls,
            "cases": len(m.cases),
            "failing_cases": len(m.oom),
            "failing_calls": m.failing_calls,
            "failures": [
                {"module": f.path, "calls": f.calls, "op": f.record.op, "id": f.record.id, "key": f.record.key}
                for f in m.modules
            ],
        }
        for m in report.facts.models
    ]


def _failure(record: Record) -> dict[str, Any]:
    """Returns a failing case without its alternatives. The second size is that of the tensor that did not fit."""
    record = complete(record)
    where, failed = Size.of_shape(record), record.failed
    return {
        "device_mode": record.device_mode,
        "board": record.board,
        "ttnn": record.ttnn,
        "numerics": record.numerics,
        "op": record.op,
        "operator": record.operator,
        "id": record.id,
        "key": record.key,
        "shape": record.shape,
        "band": band_of(where.logical_bytes).name,
        "dtype": record.dtype,
        "layout": record.layout,
        "memory": record.memory,
        **_size(where),
        "padding_factor": round(where.padding, 4) if where.padding else None,
        "padding_cause": record.subject.padding_cause if record.subject else "",
        "resource": record.resource.value if record.resource else None,
        "stage": record.stage,
        "failing_logical_bytes": failed.logical_bytes if failed else None,
        "failing_allocated_bytes": record.total_bytes,
        "needed_bytes_per_bank": record.bytes_per_bank,
        "banks": record.banks,
        "bank_bytes": record.bank_bytes,
        "free_bytes": record.free_bytes,
        "largest_free_bytes": record.largest_free_bytes,
        "program_bytes": record.program_bytes,
        "limit_bytes": record.limit_bytes,
        "tensor_address": record.tensor_address,
        "shortfall_bytes": record.shortfall_bytes,
        "call_shortfall_bytes": record.call_shortfall_bytes,
        "tiers": sorted(tiers_of(record)),
        "models": sorted({s.model for s in record.sources if s.model}),
        "callers": record.callers,
        "calls": record.calls,
    }


def _size(size: Size) -> dict[str, int | None]:
    return {
        "logical_bytes": size.logical_bytes,
        "allocated_bytes": size.allocated_bytes,
        "bytes_per_bank": size.bytes_per_bank,
    }


def _statistics(records: Iterable[Record]) -> dict[str, Mapping[str, int]]:
    """Returns statistics of requested and missing bytes of failing cases, and of peaks of fitting ones."""
    cases = list(records)
    values = {
        "asked_bytes": [r.total_bytes for r in cases if r.is_oom],
        "shortfall_bytes": [r.shortfall_bytes for r in cases if r.is_oom],
        "call_shortfall_bytes": [r.call_shortfall_bytes for r in cases if r.is_oom],
        **{f"peak_{kind}": [getattr(r.usage, kind) for r in cases if r.usage and not r.is_oom] for kind in _PEAKS},
    }
    statistics = {name: Statistics.of(v for v in listed if v is not None) for name, listed in values.items()}
    return {name: vars(measured) for name, measured in statistics.items() if measured}


_PEAKS = ("l1_bytes", "l1_total_bytes", "l1_small_bytes", "dram_bytes")


def _shapes_of(results: OperatorResults) -> list[dict[str, Any]]:
    by_shape: dict[Shape, list[Record]] = defaultdict(list)
    for record in results.records:
        by_shape[record.shape].append(record)
    return [
        {"shape": shape, "cases": len(rs), "failing": sum(r.is_oom for r in rs), "calls": sum(r.calls for r in rs)}
        for shape, rs in sorted(by_shape.items())
    ]
