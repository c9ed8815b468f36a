"""The Markdown documents: rows counted in ``facts``, prose in ``templates``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import jinja2

from ssinghal.operators import operators as registry
from ssinghal.records import Status
from ssinghal.report.alternatives import Advice, Alternative, Alternatives, Answer, Remedy, advice
from ssinghal.report.facts import (
    BANDS,
    Facts,
    OperatorResults,
    Pair,
    ShapeFailures,
    Size,
    Statistics,
    calls_of,
)
from ssinghal.report.markdown import (
    SIZE_COLUMNS,
    Markup,
    code,
    padded,
    percent,
    shape,
    size,
    sizes,
    table,
    text,
)
from ssinghal.report.support import support_matrix
from ssinghal.runs import Group, Run, StoredRecord
from ssinghal.text import status_columns

MOST_SHAPES = 20
MOST_CASES = 10
MOST_NAMES = 6


@dataclass(frozen=True)
class Chapter:
    """One group of a run with all that its documents say: a name in a template is a property here.

    ``tried``: records of remedies that were probed since.
    """

    group: Group
    tried: tuple[StoredRecord, ...] = ()

    @cached_property
    def facts(self) -> Facts:
        return Facts(self.group)

    @cached_property
    def _answers(self) -> Mapping[tuple[str, str], tuple[Alternative, ...]]:
        alternatives = Alternatives(self.facts.records, self.tried)
        return {(r.op, r.key): alternatives.of(r) for r in self.facts.oom}

    def alternatives_of(self, failing: StoredRecord) -> tuple[Alternative, ...]:
        return self._answers[failing.op, failing.key]

    @cached_property
    def advice(self) -> tuple[Advice, ...]:
        return advice([(r, self.alternatives_of(r)) for r in self.facts.oom])

    def alternatives_in_short(self, records: Sequence[StoredRecord], remedy: Remedy = Remedy.DRAM) -> str:
        """Of ``records`` under one remedy: how many fit, and how many are unknown or do not."""
        given = [a.answer for r in records for a in self.alternatives_of(r) if a.remedy is remedy]
        counts = [(n, given.count(n)) for n in Answer]
        return ", ".join(f"{count:,} {answer}" for answer, count in counts if count) or "does not apply"

    # Tables, in the order of the documents

    @property
    def totals(self) -> Markup:
        cases = len(self.facts.records)
        rows: list[list[object]] = [[s, n, percent(n, cases)] for s, n in self.facts.statuses.items()]
        return table(["status", "cases", "share"], [*rows, [Markup("**total**"), cases, percent(cases, cases)]])

    @property
    def resources(self) -> Markup:
        rows: list[list[object]] = []
        for name, cases in self.facts.resources.items():
            worst = max((r for r in self.facts.oom if _resource(r) == name), key=lambda r: r.shortfall_bytes or 0)
            rows.append([name, cases, percent(cases, len(self.facts.oom)), code(f"{worst.op} {worst.id}"), worst.sentence])
        return table(["what ran out", "cases", "share", "worst case", "what TTNN said of it"], rows)

    @property
    def bands(self) -> Markup:
        pairs = len(self.facts.pairs)
        rows: list[list[object]] = [
            [
                band.name,
                band.range,
                len(found),
                percent(len(found), pairs),
                len({p.op for p in found}),
                len({p.shape for p in found}),
            ]
            for band, found in self.facts.bands.items()
        ]
        total: list[object] = [Markup("**total**"), "", pairs, percent(pairs, pairs), len(self.facts.failing_operators)]
        return table(
            ["band", "logical size of the shape", "failing pairs", "share", "operators", "shapes"],
            [*rows, [*total, len(self.facts.shapes)]],
        )

    @property
    def critical_shapes(self) -> Markup:
        return self._shapes([s for s in self.facts.shapes if s.band is BANDS[0]])

    @property
    def problematic_shapes(self) -> Markup:
        return self._shapes(self.facts.most_problematic[:MOST_SHAPES])

    def _shapes(self, found: Sequence[ShapeFailures]) -> Markup:
        rows = [[shape(s.shape), *sizes(s.size), len(s.pairs), s.cases, _names(p.op for p in s.pairs)] for s in found]
        return table(["shape", *SIZE_COLUMNS, "operators", "cases", "which"], rows)

    @property
    def failing_operators(self) -> Markup:
        rows: list[list[object]] = []
        for found in self.facts.failing_operators:
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

    @property
    def tiers(self) -> Markup:
        rows: list[list[object]] = []
        for tier in self.facts.tiers:
            worst = tier.pairs[0] if tier.pairs else None
            shown = [shape(worst.shape), size(worst.size.logical_bytes)] if worst else ["", None]
            inputs = ", ".join(tier.input_sizes)
            rows.append([tier.name, inputs, tier.cases, tier.failing_cases, len(tier.pairs), tier.here, *shown])
        total: list[object] = [Markup("**total**"), "", None, None, None, sum(t.here for t in self.facts.tiers), "", ""]
        header = [
            "tier",
            "input sizes",
            "cases",
            "failing cases",
            "failing pairs",
            "pairs first here",
            "worst shape",
            "logical",
        ]
        return table(header, [*rows, total] if rows else [])

    @property
    def tier_worst(self) -> list[tuple[str, Markup]]:
        """For each tier with failures its largest pairs."""
        return [
            (tier.name, self._pairs(tier.pairs[:MOST_CASES], tier.name))
            for tier in self.facts.tiers
            if tier.pairs and tier.input_sizes
        ]

    def _pairs(self, pairs: Iterable[Pair], tier: str) -> Markup:
        rows = [
            [shape(p.shape), *sizes(p.size), code(p.op), ", ".join(sorted(p.tiers[tier])), _models(p.records)] for p in pairs
        ]
        return table(["shape", *SIZE_COLUMNS, "operator", "at input", "models with it"], rows)

    @property
    def advice_table(self) -> Markup:
        rows = [[str(a.remedy), a.cases, *(a.answers.get(answer, 0) for answer in Answer), a.calls] for a in self.advice]
        return table(["change", "failing cases it applies to", *map(str, Answer), "calls of models that then fit"], rows)

    @property
    def closest(self) -> Markup:
        """The failing cases that lack least."""
        known = [r for r in self.facts.oom if r.shortfall_bytes is not None]
        chosen = sorted(known, key=lambda r: r.shortfall_bytes or 0)[:MOST_CASES]
        rows = [[code(f"{r.op} {r.id}"), r.sentence, size(r.shortfall_bytes), self.best(r)] for r in chosen]
        return table(["case", "what TTNN said", "short by, per bank or core", "what makes it fit"], rows)

    def best(self, failing: StoredRecord) -> str:
        """The remedies that are known to help; where there is none, those that may."""
        found = self.alternatives_of(failing)
        known = [a for a in found if a.answer in (Answer.TRIED, Answer.FITS)]
        open_ = [a for a in found if a.answer is Answer.UNKNOWN]
        return "; ".join(map(str, known or open_)) or "no single change of placement"

    @property
    def first_to_mend(self) -> Markup:
        """Operators by the calls of models that fail, then by failing shapes."""
        ordered = sorted(self.facts.failing_operators, key=lambda o: (-o.failing_calls, -len(o.pairs), o.op))
        rows: list[list[object]] = []
        for number, found in enumerate(ordered, 1):
            closest = found.closest
            short = size(closest.shortfall_bytes) if closest else None
            inside = self.alternatives_in_short(found.oom)
            rows.append([number, code(found.op), found.failing_calls, len(found.pairs), short, inside])
        return table(
            [
                "",
                "operator",
                "failing calls of models",
                "failing shapes",
                "least shortfall, per bank or core",
                "with all in DRAM",
            ],
            rows,
        )

    @property
    def operator_status(self) -> Markup:
        columns = status_columns(map(_outcome, self.facts.records))
        rows: list[list[object]] = []
        for found in self.facts.operators:
            rows.append([code(found.op), len(found.records), *_status_counts(found.records, columns), found.failing_calls])
        total = [Markup("**total**"), len(self.facts.records), *_status_counts(self.facts.records, columns)]
        names = [f"oom: {resource}" if resource else status for status, resource in columns]
        return table(["operator", "cases", *names, "failing calls of models"], [*rows, [*total, _sum_calls(self.facts.oom)]])

    @property
    def patterns(self) -> Markup:
        """What went wrong, alike by status, what ran out, and where; the case that lacks most stands for its kind."""
        found: dict[tuple[str, str, str], list[StoredRecord]] = {}
        for r in self.facts.records:
            if r.status is not Status.FITS:
                what = r.resource.value if r.resource else r.error_type
                found.setdefault((r.status.value, what, r.stage.rstrip(" 0123456789")), []).append(r)
        rows: list[list[object]] = []
        for (status, what, stage), records in sorted(found.items(), key=lambda item: (-len(item[1]), item[0])):
            example = max(records, key=lambda r: r.shortfall_bytes or 0)
            ops = _names(sorted({r.op for r in records}))
            rows.append([status, what, stage, len(records), ops, code(f"{example.op} {example.id}"), example.sentence])
        return table(["status", "what", "while placing", "cases", "operators", "example", "what was said of it"], rows)

    @property
    def statistics(self) -> Markup:
        fitting = [r for r in self.facts.records if r.status is Status.FITS]
        failing = [r.failed for r in self.facts.oom if r.failed]
        usage = [r.usage for r in fitting if r.usage]
        measured: list[tuple[str, Iterable[int | None]]] = [
            ("failing cases: bytes asked for by the tensor that did not fit", (r.total_bytes for r in self.facts.oom)),
            ("failing cases: the same per bank", (r.bytes_per_bank for r in self.facts.oom)),
            ("failing cases: logical bytes of that tensor", (f.logical_bytes for f in failing)),
            ("failing cases: missing bytes, per bank or core", (r.shortfall_bytes for r in self.facts.oom)),
            ("failing pairs: logical bytes of the shape", (p.size.logical_bytes for p in self.facts.pairs)),
            ("failing pairs: allocated bytes of the shape", (p.size.allocated_bytes for p in self.facts.pairs)),
            ("fitting cases: allocated bytes of all tensors", (sum(t.allocated_bytes for t in r.tensors) for r in fitting)),
            ("fitting cases: peak of L1 tensors, per bank", (u.get("l1_bytes") for u in usage)),
            ("fitting cases: L1 and all program buffers, per core, at most", (u.get("l1_total_bytes") for u in usage)),
            ("fitting cases: peak of DRAM, per bank", (u.get("dram_bytes") for u in usage)),
        ]
        rows: list[list[object]] = []
        for name, values in measured:
            found = Statistics.of(v for v in values if v is not None)
            if found:
                rows.append([name, found.count, size(found.minimum), size(found.maximum), size(found.mean)])
        return table(["device bytes", "cases", "least", "most", "mean"], rows)

    @property
    def hungriest(self) -> Markup:
        """Tensors of the most allocated bytes among all calls, whether they fit or not; one row for a shape."""
        largest: dict[tuple[int, ...], StoredRecord] = {}
        for r in self.facts.records:
            kept = largest.get(r.shape)
            if r.shape and (kept is None or Size.of_shape(r).order[::-1] > Size.of_shape(kept).order[::-1]):
                largest[r.shape] = r
        chosen = sorted(largest.values(), key=lambda r: Size.of_shape(r).order[::-1], reverse=True)[:MOST_SHAPES]
        rows: list[list[object]] = []
        for r in chosen:
            cause = r.subject.padding_cause if r.subject else ""
            rows.append([shape(r.shape), *sizes(Size.of_shape(r)), cause, code(r.op), r.memory, r.status.value])
        return table(["shape", *SIZE_COLUMNS, "padded by", "operator", "placed in", "status"], rows)

    @property
    def catalogs(self) -> Markup:
        found: dict[str, list[StoredRecord]] = {}
        for r in self.facts.records:
            for name in sorted({s.catalog for s in r.sources}) or [""]:
                found.setdefault(name, []).append(r)
        rows = [
            [
                name or "given by hand",
                len(rs),
                sum(r.status is Status.FITS for r in rs),
                sum(r.is_oom for r in rs),
                len({r.op for r in rs}),
            ]
            for name, rs in sorted(found.items())
        ]
        return table(["catalog", "cases", "fits", "oom", "operators"], rows)

    @property
    def models(self) -> Markup:
        rows: list[list[object]] = []
        for m in self.facts.models:
            share = percent(m.failing_calls, m.calls)
            rows.append(
                [text(m.model), m.input_size, m.calls, len(m.cases), len(m.oom), m.failing_calls, share, _modules(m.modules)]
            )
        header = ["model", "input", "calls", "cases", "failing cases", "failing calls", "share", "first made by"]
        return table(header, rows)

    @property
    def shape_only_models(self) -> Markup:
        rows = [[text(model), size, cases] for (model, size), cases in self.facts.shape_only_models.items()]
        return table(["model", "input", "failing cases at one of its shapes"], rows)

    @property
    def support(self) -> Markup:
        rows = [
            [code(row.operator), row.support, code(row.ttnn), row.cases, row.fits, row.oom, "; ".join(row.limitations)]
            for row in support_matrix(self.facts)
        ]
        return table(["operator", "support", "TTNN function", "cases", "fits", "oom", "limitations"], rows)

    @property
    def untouched(self) -> str:
        """Operators without a case in this run."""
        seen = {r.operator for r in self.facts.records}
        return ", ".join(code(name) for name in sorted({info.name for info in registry().values()} - seen)) or "none"


@dataclass(frozen=True)
class OperatorChapter:
    """One operator of one group, for its own document."""

    chapter: Chapter
    found: OperatorResults

    @property
    def limitations(self) -> list[str]:
        info = registry().get(self.found.op)
        return [limitation.reason for limitation in info.limitations] if info else []

    @property
    def ttnn(self) -> str:
        info = registry().get(self.found.op)
        return info.ttnn if info else ""

    @property
    def aten(self) -> tuple[str, ...]:
        info = registry().get(self.found.op)
        return info.aten if info else ()

    @property
    def counts(self) -> Markup:
        rows: list[list[object]] = [[s, n] for s, n in self.found.statuses.items()]
        return table(["status", "cases"], [*rows, [Markup("**total**"), len(self.found.records)]])

    @property
    def failures(self) -> Markup:
        rows: list[list[object]] = []
        for r in sorted(self.found.oom, key=lambda r: -(r.shortfall_bytes or 0)):
            where = Size.of_shape(r)
            rows.append([code(r.id), *sizes(where), r.sentence, size(r.shortfall_bytes), calls_of(r), self.chapter.best(r)])
        return table(["case", *SIZE_COLUMNS, "what TTNN said", "short by", "calls of models", "what makes it fit"], rows)

    @property
    def largest_fitting(self) -> Markup:
        fitting = [r for r in self.found.records if r.status is Status.FITS]
        chosen = sorted(fitting, key=lambda r: Size.of_shape(r).order[::-1], reverse=True)[:MOST_CASES]
        rows = [[code(r.id), *sizes(Size.of_shape(r)), _peak(r), calls_of(r)] for r in chosen]
        return table(["case", *SIZE_COLUMNS, "peak of L1, per core", "calls of models"], rows)

    @property
    def others(self) -> Markup:
        rest = [r for r in self.found.records if r.status not in (Status.FITS, Status.OOM)]
        return table(["case", "status", "why"], [[code(r.id), r.status.value, r.sentence] for r in rest])

    @property
    def padding(self) -> Markup:
        """Shapes of this operator that padding inflates most."""
        worst: dict[tuple[int, ...], StoredRecord] = {}
        for r in self.found.records:
            if r.subject and r.subject.padding_factor > 1:
                worst.setdefault(r.shape, r)
        chosen = sorted(worst.values(), key=lambda r: -(Size.of_shape(r).padding or 0))[:MOST_CASES]
        rows: list[list[object]] = []
        for r in chosen:
            if r.subject:
                where = Size.of_shape(r)
                rows.append(
                    [
                        shape(r.shape),
                        shape(r.subject.padded_shape),
                        size(where.logical_bytes),
                        padded(where),
                        r.subject.padding_cause,
                    ]
                )
        return table(["shape", "as stored", "logical", "allocated, x logical", "padded by"], rows)


def document(name: str, run: Run, chapters: Sequence[Chapter], **more: Any) -> str:
    """The Markdown of ``templates/<name>.j2`` for all groups of the run, each a chapter of its own."""
    return _templates().get_template(f"{name}.j2").render(run=run, chapters=chapters, **more).strip() + "\n"


def operator_document(op: str, run: Run, chapters: Sequence[Chapter]) -> str:
    """All groups' cases of one operator."""
    found = [OperatorChapter(c, results) for c in chapters for results in c.facts.operators if results.op == op]
    return document("operator.md", run, chapters, op=op, found=found)


@cache
def _templates() -> jinja2.Environment:
    filters: dict[str, Callable[..., Any]] = {"text": text, "code": code, "count": lambda n: f"{n:,}"}
    made = jinja2.Environment(
        loader=jinja2.PackageLoader("ssinghal.report"),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,  # Markdown: every text passes through the filters or ``table``
    )
    made.filters.update(filters)
    return made


def _resource(record: StoredRecord) -> str:
    return record.resource.value if record.resource else "not named"


def _outcome(record: StoredRecord) -> tuple[str, str | None]:
    return record.status.value, record.resource.value if record.is_oom and record.resource else None


def _status_counts(records: Iterable[StoredRecord], columns: Sequence[tuple[str, str | None]]) -> list[object]:
    kinds = Counter(map(_outcome, records))
    return [kinds[column] for column in columns]


def _sum_calls(records: Iterable[StoredRecord]) -> int:
    return sum(map(calls_of, records))


def _names(names: Iterable[str]) -> Markup:
    listed = list(names)
    shown = ", ".join(map(code, listed[:MOST_NAMES]))
    more = len(listed) - MOST_NAMES
    return Markup(f"{shown} and {more} more" if more > 0 else shown)


def _models(records: Iterable[StoredRecord]) -> Markup:
    return _names(sorted({s.model for r in records for s in r.sources if s.model}))


def _modules(modules: Iterable[tuple[str, StoredRecord]]) -> Markup:
    return _names(sorted({f"{path or '(top)'}: {record.op}" for path, record in modules}))


def _peak(record: StoredRecord) -> Markup:
    return size((record.usage or {}).get("l1_total_bytes"))


__all__ = ["Chapter", "OperatorChapter", "document", "operator_document"]
