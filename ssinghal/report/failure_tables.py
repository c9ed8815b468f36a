"""Tables of failures: resources that ran out, shapes, sizes, resolutions, and changes that make calls fit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from ssinghal.core.record import Record
from ssinghal.render.markdown import Markup, code, names, shape, share, size, table
from ssinghal.report.group_report import GroupReport
from ssinghal.report.placement_alternatives import Answer
from ssinghal.report.result_tables import SIZE_COLUMNS, sizes
from ssinghal.report.statistics import BANDS, Pair, ShapeFailures

MAX_SHAPES = 20
MAX_CASES = 10
NO_REMEDY = ("none", "")


def totals(c: GroupReport) -> Markup:
    cases = len(c.facts.records)
    rows: list[list[object]] = [[s, n, share(n, cases)] for s, n in c.facts.statuses.items()]
    return table(["status", "cases", "share"], [*rows, [Markup("**total**"), cases, share(cases, cases)]])


def resources(c: GroupReport) -> Markup:
    rows: list[list[object]] = []
    for name, cases in c.facts.resources.items():
        worst = max((r for r in c.facts.oom if _resource(r) == name), key=lambda r: r.call_shortfall_bytes or 0)
        rows.append([name, cases, share(cases, len(c.facts.oom)), code(f"{worst.op} {worst.id}"), worst.sentence])
    return table(["what ran out", "cases", "share", "worst case", "TTNN's message"], rows)


def bands(c: GroupReport) -> Markup:
    pairs = len(c.facts.pairs)
    rows: list[list[object]] = []
    for band, members in c.facts.bands.items():
        requested = [r.total_bytes for pair in members for r in pair.records if r.total_bytes is not None]
        counts = [len(members), share(len(members), pairs), len({p.op for p in members}), len({p.shape for p in members})]
        rows.append([band.name, band.range, *counts, *(size(of(requested)) if requested else None for of in (min, max))])
    totals = [pairs, share(pairs, pairs), len(c.facts.failing_operators), len(c.facts.shapes), None, None]
    rows.append([Markup("**total**"), "", *totals])
    count_columns = ["failing pairs", "share", "operators (of any band)", "shapes"]
    request_columns = ["did not fit: least allocated", "did not fit: most allocated"]
    return table(["band", "logical size of the shape", *count_columns, *request_columns], rows)


def critical_shapes(c: GroupReport) -> Markup:
    return _shapes([s for s in c.facts.shapes if s.band is BANDS[0]])


def problematic_shapes(c: GroupReport) -> Markup:
    return _shapes(c.facts.most_problematic[:MAX_SHAPES])


def _shapes(failures: Sequence[ShapeFailures]) -> Markup:
    rows = [[shape(s.shape), *sizes(s.size), len(s.pairs), s.cases, names(p.op for p in s.pairs)] for s in failures]
    return table(["shape", *SIZE_COLUMNS, "operators", "cases", "which"], rows)


def failing_operators(c: GroupReport) -> Markup:
    rows: list[list[object]] = []
    for operator in c.facts.failing_operators:
        worst = min(operator.pairs, key=lambda pair: pair.order)  # a failing operator has some
        resources = ", ".join(f"{name} {n:,}" for name, n in operator.resources.items())
        counts = [len(operator.pairs), len(operator.oom), len(operator.records)]
        rows.append([code(operator.op), *counts, resources, shape(worst.shape), *sizes(worst.size), worst.band.name])
    counts_are = ["failing shapes", "failing cases", "of cases"]
    return table(["operator", *counts_are, "what ran out", "worst shape", *SIZE_COLUMNS, "band"], rows)


def tiers(c: GroupReport) -> Markup:
    rows: list[list[object]] = []
    for tier in c.facts.tiers:
        worst = tier.pairs[0] if tier.pairs else None
        shown = [shape(worst.shape), *sizes(worst.size)] if worst else ["", None, None, None]
        inputs = ", ".join(tier.input_sizes)
        rows.append([tier.name, inputs, tier.cases, tier.failing_cases, len(tier.pairs), tier.here, *shown])
    total: list[object] = [Markup("**total**"), "", None, None, None, sum(t.here for t in c.facts.tiers), "", None, None, None]
    counts = ["tier", "input sizes", "cases", "failing cases", "failing pairs", "pairs first here"]
    return table([*counts, "worst shape", *SIZE_COLUMNS], [*rows, total] if rows else [])


def tier_worst(c: GroupReport) -> list[tuple[str, Markup]]:
    """Returns the largest failing pairs of each tier that has any."""
    return [(tier.name, _pairs(tier.pairs[:MAX_CASES], tier.name)) for tier in c.facts.tiers if tier.pairs and tier.input_sizes]


def _pairs(pairs: Iterable[Pair], tier: str) -> Markup:
    rows = [[shape(p.shape), *sizes(p.size), code(p.op), ", ".join(sorted(p.tiers[tier])), _models(p.records)] for p in pairs]
    return table(["shape", *SIZE_COLUMNS, "operator", "at input", "models with it"], rows)


def advice_table(c: GroupReport) -> Markup:
    rows = [[str(a.remedy), a.cases, *(a.answers.get(answer, 0) for answer in Answer), a.calls] for a in c.advice]
    return table(["change", "failing cases it applies to", *map(str, Answer), "calls of models that then fit"], rows)


def searched_table(c: GroupReport) -> Markup:
    """Lists the remedies that searches found, by how often they are a case's first; failing cases without a remedy last."""
    first: Counter[tuple[str, str]] = Counter()
    found: Counter[tuple[str, str]] = Counter()
    calls: Counter[tuple[str, str]] = Counter()
    for record, searched in c.searches():
        key = (searched.first.contract, searched.first.lever) if searched.first else NO_REMEDY
        first[key] += 1
        calls[key] += record.calls
        found.update((w.contract, w.lever) for w in searched.found)
    ordered = sorted({*first, *found}, key=lambda key: (key == NO_REMEDY, -first[key], -found[key], key))
    rows = [[*key, first[key], found[key] or None, calls[key]] for key in ordered]
    return table(["contract", "remedy", "first for cases", "found for cases", "calls of models it is first for"], rows)


def closest(c: GroupReport, records: Sequence[Record]) -> Markup:
    """Lists those of ``records`` with the fewest missing bytes, of all operands and results."""
    known = [r for r in records if r.call_shortfall_bytes is not None]
    chosen = sorted(known, key=lambda r: r.call_shortfall_bytes or 0)[:MAX_CASES]
    rows = [[code(f"{r.op} {r.id}"), r.sentence, size(r.call_shortfall_bytes), r.calls, c.best(r)] for r in chosen]
    header = ["case", "TTNN's message", "short by, per bank or core", "calls of models", "what makes it fit"]
    return table(header, rows)


def first_to_fix(c: GroupReport) -> Markup:
    """Lists operators with failing cases that models call, most calls first. Counts only these cases."""
    called = [o for o in c.facts.failing_operators if o.called]
    ordered = sorted(called, key=lambda o: (-o.failing_calls, o.op))
    rows = [[code(o.op), o.failing_calls, *_fixes(c, o.called), names(_callers(o.called))] for o in ordered]
    return table(["operator", "failing calls", *_FIX_COLUMNS, "models"], rows)


def uncalled_to_fix(c: GroupReport) -> Markup:
    """Lists operators with failing cases that no model is known to call, most cases first. Counts only these cases."""
    uncalled = [(o, [r for r in o.oom if not r.calls]) for o in c.facts.failing_operators]
    ordered = sorted((pair for pair in uncalled if pair[1]), key=lambda pair: (-len(pair[1]), pair[0].op))
    return table(["operator", *_FIX_COLUMNS], [[code(o.op), *_fixes(c, records)] for o, records in ordered])


_FIX_COLUMNS = ("failing cases", "least shortfall, per bank or core", "what would make them fit (cases)")


def _fixes(c: GroupReport, records: Sequence[Record]) -> list[object]:
    short = min((r.call_shortfall_bytes for r in records if r.call_shortfall_bytes is not None), default=None)
    return [len(records), size(short), c.remedy_counts(records)]


def _callers(records: Iterable[Record]) -> list[str]:
    return sorted({model for r in records for model in r.callers})


def _resource(record: Record) -> str:
    return record.resource.value if record.resource else "not named"


def _models(records: Iterable[Record]) -> Markup:
    return names(sorted({s.model for r in records for s in r.sources if s.model}))
