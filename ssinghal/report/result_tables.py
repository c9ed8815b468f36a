"""Tables of all cases of a run: outcomes by operator, error patterns, bytes, catalogs, models, support."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from ssinghal.core.estimate import EstimatedTensor
from ssinghal.core.record import Record
from ssinghal.core.tensors import Shape
from ssinghal.core.verdict import Status
from ssinghal.operators import operators as registry
from ssinghal.render.markdown import Markup, Number, code, names, shape, share, size, table, text
from ssinghal.render.tables import status_columns
from ssinghal.report.group_report import GroupReport
from ssinghal.report.statistics import ModuleFailures, Size, Statistics
from ssinghal.report.support_matrix import support_matrix

MAX_SHAPES = 20


def measured(c: GroupReport, found: object) -> object:
    """Returns a cell on memory: ``found``, or that this group did not measure any."""
    return found if c.group.setting.measures_memory else "not measured"


def operator_status(c: GroupReport) -> Markup:
    columns = status_columns(map(_outcome, c.facts.records))
    rows: list[list[object]] = []
    for o in c.facts.operators:
        rows.append([code(o.op), len(o.records), *_status_counts(o.records, columns), measured(c, o.failing_calls)])
    total = [Markup("**total**"), len(c.facts.records), *_status_counts(c.facts.records, columns)]
    names = [f"oom: {resource}" if resource else status for status, resource in columns]
    return table(
        ["operator", "cases", *names, "failing calls of models"], [*rows, [*total, measured(c, _sum_calls(c.facts.oom))]]
    )


def patterns(c: GroupReport) -> Markup:
    """Groups cases that do not fit by status, resource and stage; the one with most missing bytes is the example."""
    rows: list[list[object]] = []
    for (status, what, stage), records in alike(c.facts.records):
        example = max(records, key=lambda r: r.call_shortfall_bytes or 0)
        ops = names(sorted({r.op for r in records}))
        rows.append([status, what, stage, len(records), ops, code(f"{example.op} {example.id}"), example.sentence])
    return table(["status", "what", "while placing", "cases", "operators", "example", "message"], rows)


def alike(records: Iterable[Record]) -> list[tuple[tuple[str, str, str], list[Record]]]:
    """Returns the cases that do not fit by status, what ran out or the error, and stage; the most frequent first."""
    found: dict[tuple[str, str, str], list[Record]] = {}
    for r in records:
        if r.status not in (Status.FITS, Status.AGREES):
            what = r.resource.value if r.resource else r.error_type
            found.setdefault((r.status.value, what, r.stage.rstrip(" 0123456789")), []).append(r)
    return sorted(found.items(), key=lambda item: (-len(item[1]), item[0]))


def statistics(c: GroupReport) -> Markup:
    fitting = [r for r in c.facts.records if r.status is Status.FITS]
    failing = [r.failed for r in c.facts.oom if r.failed]
    usage = [r.usage for r in fitting if r.usage]
    columns: list[tuple[str, Iterable[int | None]]] = [
        ("failing cases: bytes requested by the tensor that did not fit", (r.total_bytes for r in c.facts.oom)),
        ("failing cases: the same per bank", (r.bytes_per_bank for r in c.facts.oom)),
        ("failing cases: logical bytes of that tensor", (f.logical_bytes for f in failing)),
        ("failing cases: missing bytes of the call, per bank or core", (r.call_shortfall_bytes for r in c.facts.oom)),
        ("failing pairs: logical bytes of the shape", (p.size.logical_bytes for p in c.facts.pairs)),
        ("failing pairs: allocated bytes of the shape", (p.size.allocated_bytes for p in c.facts.pairs)),
        ("fitting cases: allocated bytes of all tensors", (r.placed_bytes for r in fitting)),
        ("fitting cases: peak of L1 tensors, per bank", (u.l1_bytes for u in usage)),
        ("fitting cases: the same with program buffers, per core, as captured", (u.l1_total_bytes for u in usage)),
        ("fitting cases: peak of DRAM, per bank", (u.dram_bytes for u in usage)),
    ]
    rows: list[list[object]] = []
    for name, values in columns:
        measured = Statistics.of(v for v in values if v is not None)
        if measured:
            rows.append([name, measured.count, size(measured.minimum), size(measured.maximum), size(measured.mean)])
    return table(["device bytes", "count", "least", "most", "mean"], rows)


def is_captured(records: Iterable[Record]) -> bool:
    """Whether a fitting case has peaks from TTNN's graph of the call, which the documents then explain."""
    return any(r.status is Status.FITS and r.usage for r in records)


def largest_tensors(c: GroupReport) -> Markup:
    """Lists the operands and results with the most allocated bytes, whether they fit or not; one row per shape."""
    chosen = _largest_by_shape(c.facts.records, MAX_SHAPES)
    rows: list[list[object]] = []
    for a, r in chosen:
        taken = Size(a.logical_bytes, a.allocated_bytes, a.bytes_per_bank)
        rows.append([shape(a.shape), *sizes(taken), a.padding_cause, code(r.op), a.label, a.memory, r.status.value])
    return table(["shape as placed", *SIZE_COLUMNS, "padded by", "operator", "tensor", "placed in", "status"], rows)


def _largest_by_shape(records: Sequence[Record], count: int) -> list[tuple[EstimatedTensor, Record]]:
    """Returns the largest tensor of each of ``count`` shapes, the first of several equal ones. Looks at the records with the
    largest tensors only."""
    best: dict[Shape, tuple[int, int, EstimatedTensor]] = {}
    for number in sorted(range(len(records)), key=lambda n: -records[n].largest_bytes):
        largest = sorted((allocated for allocated, *_ in best.values()), reverse=True)[:count] if len(best) >= count else ()
        if not records[number].largest_bytes or (largest and records[number].largest_bytes < largest[-1]):
            break
        for allocation in records[number].allocations:
            kept = best.get(allocation.shape)
            if kept is None or (allocation.allocated_bytes, -number) > (kept[0], -kept[1]):
                best[allocation.shape] = allocation.allocated_bytes, number, allocation
    chosen = sorted(best.items(), key=lambda item: (-item[1][0], item[0]))[:count]
    return [(allocation, records[number]) for _, (_, number, allocation) in chosen]


def catalogs(c: GroupReport) -> Markup:
    by_catalog: dict[str, list[Record]] = {}
    for r in c.facts.records:
        for name in sorted({s.catalog for s in r.sources}) or [""]:
            by_catalog.setdefault(name, []).append(r)
    rows: list[list[object]] = []
    for name, rs in sorted(by_catalog.items()):
        fits, oom = (measured(c, sum(r.status is status for r in rs)) for status in (Status.FITS, Status.OOM))
        rows.append([name or "given by hand", len(rs), fits, oom, len({r.op for r in rs})])
    return table(["catalog", "cases", "fits", "oom", "operators"], rows)


def models(c: GroupReport) -> Markup:
    rows: list[list[object]] = []
    for m in c.facts.models:
        neither = m.calls - m.fitting_calls - m.failing_calls
        outcomes = m.fitting_calls, m.failing_calls, neither, share(m.failing_calls, m.calls)
        calls = [m.calls, *(measured(c, outcome) for outcome in outcomes)]
        failing = measured(c, len(m.oom)), measured(c, _modules(m.modules))
        rows.append([m.model, m.input_size, m.catalog, *calls, len(m.cases), *failing])
    calls_are = ["calls", "fit", "fail (OOM)", "neither", "fail"]
    return table(["model", "input", "catalog", *calls_are, "cases", "failing cases", "failing calls by module"], rows)


def shape_only_models(c: GroupReport) -> Markup:
    rows = [[text(model), size, cases] for (model, size), cases in c.facts.shape_only_models.items()]
    return table(["model", "input", "failing cases at one of its shapes"], rows)


def support(c: GroupReport) -> Markup:
    rows = [
        [
            code(row.operator),
            row.support,
            code(row.ttnn),
            row.cases,
            measured(c, row.fits),
            measured(c, row.oom),
            "; ".join(row.limitations),
        ]
        for row in support_matrix(c.facts)
    ]
    return table(["operator", "support", "TTNN function", "cases", "fits", "oom", "limitations"], rows)


def operators_without_case(c: GroupReport) -> str:
    seen = {r.operator for r in c.facts.records}
    return ", ".join(code(name) for name in sorted({info.name for info in registry().values()} - seen)) or "none"


def _outcome(record: Record) -> tuple[str, str | None]:
    return record.status.value, record.resource.value if record.is_oom and record.resource else None


def _status_counts(records: Iterable[Record], columns: Sequence[tuple[str, str | None]]) -> list[object]:
    kinds = Counter(map(_outcome, records))
    return [kinds[column] for column in columns]


def _sum_calls(records: Iterable[Record]) -> int:
    return sum(r.calls for r in records)


def _modules(modules: Iterable[ModuleFailures]) -> Markup:
    """Returns the modules with most failing calls first."""
    calls: Counter[tuple[str, str]] = Counter()
    for failures in modules:
        calls[failures.path, failures.record.op] += failures.calls
    most_first = sorted(calls.items(), key=lambda item: (-item[1], item[0]))
    return names(f"{path or 'other modules'}: {op} {times:,}x" for (path, op), times in most_first)


SIZE_COLUMNS = ("logical", "allocated, x logical", "per bank")


def padded(size_: Size) -> Number:
    """Returns the allocated bytes and their ratio to the logical ones."""
    factor = f"{size_.padding or 1:.3f}".rstrip("0").rstrip(".")
    return Number(size(size_.allocated_bytes) + (f", {factor}x" if factor != "1" else ""))


def sizes(size_: Size) -> list[Number]:
    """Returns the cells of ``SIZE_COLUMNS``."""
    return [size(size_.logical_bytes), padded(size_), size(size_.bytes_per_bank)]
