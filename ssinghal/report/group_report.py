"""One group of a run with what every document of a report counts from: facts, and what would make failing calls fit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from ssinghal.core.record import Record
from ssinghal.core.remedy_outcome import RemedyOutcome
from ssinghal.report.placement_alternatives import Advice, Alternative, Alternatives, Answer, PlacementRemedy, advice
from ssinghal.report.statistics import Facts
from ssinghal.runs.reader import RecordGroup


@dataclass(frozen=True)
class GroupReport:
    """``tried``: records that were made since the run, of changed calls and of failing ones with a search for remedies."""

    group: RecordGroup
    tried: tuple[Record, ...] = ()

    @cached_property
    def facts(self) -> Facts:
        return Facts.of(self.group)

    @cached_property
    def _answers(self) -> Mapping[tuple[str, str], tuple[Alternative, ...]]:
        alternatives = Alternatives(self.facts.records, self.tried)
        return {(r.op, r.key): alternatives.of(r) for r in self.facts.oom}

    @cached_property
    def _searches(self) -> Mapping[tuple[str, str], RemedyOutcome]:
        """The last of each case."""
        return {(r.op, r.key): r.remedies for r in (*self.facts.oom, *self.tried) if r.remedies is not None}

    @property
    def probed_since(self) -> int:
        """Changed calls among ``tried``."""
        failing = {(r.op, r.key) for r in self.facts.oom}
        return sum((r.op, r.key) not in failing for r in self.tried)

    def alternatives_of(self, failing: Record) -> tuple[Alternative, ...]:
        return self._answers[failing.op, failing.key]

    def searched_of(self, failing: Record) -> RemedyOutcome | None:
        """What a search found, if there was one."""
        return self._searches.get((failing.op, failing.key))

    @cached_property
    def searched(self) -> tuple[tuple[Record, RemedyOutcome], ...]:
        """Failing cases that a search was made for."""
        found = [(r, self.searched_of(r)) for r in self.facts.oom]
        return tuple((r, searched) for r, searched in found if searched is not None)

    @cached_property
    def advice(self) -> tuple[Advice, ...]:
        return advice([(r, self.alternatives_of(r)) for r in self.facts.oom])

    def best(self, failing: Record) -> str:
        """What a search found first. Without a search, the changes of placement that are known to help; where there is none,
        those that may."""
        searched = self.searched_of(failing)
        if searched is not None:
            return str(searched)
        found = self.alternatives_of(failing)
        known = [a for a in found if a.answer in (Answer.TRIED, Answer.FITS)]
        open_ = [a for a in found if a.answer is Answer.UNKNOWN]
        return "; ".join(map(str, known or open_)) or "no single change of placement"

    def remedies_of(self, failing: Record) -> tuple[str, ...]:
        """All that a search found; without a search, every change of placement with its answer."""
        searched = self.searched_of(failing)
        if searched is None:
            return tuple(map(str, self.alternatives_of(failing)))
        return tuple(map(str, searched.found)) or (str(searched),)

    def in_short(self, records: Sequence[Record]) -> str:
        """How many of ``records`` fit with what a search found first; how many of the others each change of placement has
        which answer for."""
        searches = [self.searched_of(r) for r in records]
        firsts = Counter(f"{s.first.contract}, {s.first.lever}" if s.first else "no remedy" for s in searches if s is not None)
        told = [f"{what} (found by search: {cases:,})" for what, cases in firsts.most_common()]
        others = [r for r, searched in zip(records, searches, strict=True) if searched is None]
        given = Counter((a.remedy, a.answer) for r in others for a in self.alternatives_of(r))
        for remedy in PlacementRemedy:
            counts = [f"{answer}: {given[remedy, answer]:,}" for answer in Answer if given[remedy, answer]]
            told += [f"{remedy} ({', '.join(counts)})"] if counts else []
        return "; ".join(told) or "no single change of placement applies"
