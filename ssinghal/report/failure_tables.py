"""Tables of what fails: what ran out, at which shapes and sizes, at which resolution, and what would make it fit."""

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
        worst = max((r for r in c.facts.oom if _resource(r) == name), key=lambda r: r.shortfall_bytes or 0)
        rows.append([name, cases, share(cases, len(c.facts.oom)), code(f"{worst.op} {worst.id}"), worst.sentence])
    return table(["what ran out", "cases", "share", "worst case", "what TTNN said of it"], rows)


def bands(c: GroupReport) -> Markup:
    pairs = len(c.facts.pairs)
    rows: list[list[object]] = []
    for band, found in c.facts.bands.items():
        asked = [r.total_bytes for pair in found for r in pair.records if r.total_bytes is not None]
        counts = [len(found), share(len(found), pairs), len({p.op for p in found}), len({p.shape for p in found})]
        rows.append([band.name, band.range, *counts, *(size(of(asked)) if asked else None for of in (min, max))])
    total = [pairs, share(pairs, pairs), len(c.facts.failing_operators), len(c.facts.shapes), None, None]
    counted = ["failing pairs", "share", "operators (of any band)", "shapes"]
    asked_of = ["did not fit: least allocated", "did not fit: most allocated"]
    return table(["band", "logical size of the shape", *counted, *asked_of], [*rows, [Markup("**total**"), "", *total]])


def critical_shapes(c: GroupReport) -> Markup:
    return _shapes([s for s in c.facts.shapes if s.band is BANDS[0]])


def problematic_shapes(c: GroupReport) -> Markup:
    return _shapes(c.facts.most_problematic[:MAX_SHAPES])


def _shapes(found: Sequence[ShapeFailures]) -> Markup:
    rows = [[shape(s.shape), *sizes(s.size), len(s.pairs), s.cases, names(p.op for p in s.pairs)] for s in found]
    return table(["shape", *SIZE_COLUMNS, "operators", "cases", "which"], rows)


def failing_operators(c: GroupReport) -> Markup:
    rows: list[list[object]] = []
    for found in c.facts.failing_operators:
        worst = found.worst
        assert worst is not None  # it fails
        what = ", ".join(f"{name} {n:,}" for name, n in found.resources.items())
        pairs, cases = len(found.pairs), len(found.oom)
        rows.append(
            [
                code(found.op),
                pairs,
                cases,
                len(found.records),
                what,
                shape(worst.shape),
                *sizes(worst.size),
                worst.band.name,
            ]
        )
    return table(
        ["operator", "failing shapes", "failing cases", "of cases", "what ran out", "worst shape", *SIZE_COLUMNS, "band"],
        rows,
    )


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
    """For each tier with failures its largest pairs."""
    return [(tier.name, _pairs(tier.pairs[:MAX_CASES], tier.name)) for tier in c.facts.tiers if tier.pairs and tier.input_sizes]


def _pairs(pairs: Iterable[Pair], tier: str) -> Markup:
    rows = [[shape(p.shape), *sizes(p.size), code(p.op), ", ".join(sorted(p.tiers[tier])), _models(p.records)] for p in pairs]
    return table(["shape", *SIZE_COLUMNS, "operator", "at input", "models with it"], rows)


def advice_table(c: GroupReport) -> Markup:
    rows = [[str(a.remedy), a.cases, *(a.answers.get(answer, 0) for answer in Answer), a.calls] for a in c.advice]
    return table(["change", "failing cases it applies to", *map(str, Answer), "calls of models that then fit"], rows)


def searched_table(c: GroupReport) -> Markup:
    """What a search found, the most often first found on top; failing cases without a remedy last."""
    first: dict[tuple[str, str], list[Record]] = {}
    for _, searched in c.searched:
        first |= {(w.contract, w.lever): first.get((w.contract, w.lever), []) for w in searched.found}
    for record, searched in c.searched:
        key = (searched.first.contract, searched.first.lever) if searched.first else NO_REMEDY
        first.setdefault(key, []).append(record)
    having = Counter((w.contract, w.lever) for _, searched in c.searched for w in searched.found)
    ordered = sorted(first.items(), key=lambda item: (item[0] == NO_REMEDY, -len(item[1]), -having[item[0]], item[0]))
    rows = [[*key, len(rs), having[key] or None, sum(r.calls for r in rs)] for key, rs in ordered]
    return table(["contract", "remedy", "first for so many cases", "found for", "calls of models it is first for"], rows)


def closest(c: GroupReport, records: Sequence[Record]) -> Markup:
    """Of ``records`` those that lack least."""
    known = [r for r in records if r.shortfall_bytes is not None]
    chosen = sorted(known, key=lambda r: r.shortfall_bytes or 0)[:MAX_CASES]
    rows = [[code(f"{r.op} {r.id}"), r.sentence, size(r.shortfall_bytes), r.calls, c.best(r)] for r in chosen]
    header = ["case", "what TTNN said", "short by, per bank or core", "calls of models", "what makes it fit"]
    return table(header, rows)


def first_to_mend(c: GroupReport) -> Markup:
    """Operators whose failing cases models make, most calls first; of these cases alone."""
    found = [o for o in c.facts.failing_operators if o.called]
    ordered = sorted(found, key=lambda o: (-o.failing_calls, o.op))
    rows = [[code(o.op), o.failing_calls, *_mending(c, o.called), names(_callers(o.called))] for o in ordered]
    return table(["operator", "failing calls", *_MENDING, "models"], rows)


def tried_shapes_to_mend(c: GroupReport) -> Markup:
    """Operators whose failing cases no model is known to make, most of them first; of these cases alone."""
    found = [(o, [r for r in o.oom if not r.calls]) for o in c.facts.failing_operators]
    ordered = sorted((pair for pair in found if pair[1]), key=lambda pair: (-len(pair[1]), pair[0].op))
    return table(["operator", *_MENDING], [[code(o.op), *_mending(c, records)] for o, records in ordered])


_MENDING = ("failing cases", "least shortfall, per bank or core", "what would make them fit (cases)")


def _mending(c: GroupReport, records: Sequence[Record]) -> list[object]:
    short = min((r.shortfall_bytes for r in records if r.shortfall_bytes is not None), default=None)
    return [len(records), size(short), c.in_short(records)]


def _callers(records: Iterable[Record]) -> list[str]:
    return sorted({model for r in records for model in r.callers})


def _resource(record: Record) -> str:
    return record.resource.value if record.resource else "not named"


def _models(records: Iterable[Record]) -> Markup:
    return names(sorted({s.model for r in records for s in r.sources if s.model}))
