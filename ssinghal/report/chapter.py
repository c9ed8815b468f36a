"""One group of a run with what every document of a report counts from: facts, and what would make failing calls fit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from ssinghal.report.alternatives import Advice, Alternative, Alternatives, Answer, Remedy, advice
from ssinghal.report.facts import Facts
from ssinghal.runs import Group
from ssinghal.stored import StoredRecord


@dataclass(frozen=True)
class Chapter:
    """``tried``: records of remedies that were probed since the run."""

    group: Group
    tried: tuple[StoredRecord, ...] = ()

    @cached_property
    def facts(self) -> Facts:
        return Facts.of(self.group)

    @cached_property
    def _answers(self) -> Mapping[tuple[str, str], tuple[Alternative, ...]]:
        alternatives = Alternatives(self.facts.records, self.tried)
        return {(r.op, r.key): alternatives.of(r) for r in self.facts.oom}

    def alternatives_of(self, failing: StoredRecord) -> tuple[Alternative, ...]:
        return self._answers[failing.op, failing.key]

    @cached_property
    def advice(self) -> tuple[Advice, ...]:
        return advice([(r, self.alternatives_of(r)) for r in self.facts.oom])

    def best(self, failing: StoredRecord) -> str:
        """The remedies that are known to help; where there is none, those that may."""
        found = self.alternatives_of(failing)
        known = [a for a in found if a.answer in (Answer.TRIED, Answer.FITS)]
        open_ = [a for a in found if a.answer is Answer.UNKNOWN]
        return "; ".join(map(str, known or open_)) or "no single change of placement"

    def in_short(self, records: Sequence[StoredRecord]) -> str:
        """How many of ``records`` each remedy has which answer for."""
        given = Counter((a.remedy, a.answer) for r in records for a in self.alternatives_of(r))
        told = []
        for remedy in Remedy:
            counts = [f"{answer}: {given[remedy, answer]:,}" for answer in Answer if given[remedy, answer]]
            told += [f"{remedy} ({', '.join(counts)})"] if counts else []
        return "; ".join(told) or "no single change of placement applies"


__all__ = ["Chapter"]
