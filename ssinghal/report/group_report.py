"""One group of a run with the data of every document: its statistics, and the remedies of failing calls."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from ssinghal.core.record import Record
from ssinghal.core.remedy_outcome import RemedyOutcome
from ssinghal.report.call_variants import CallVariants
from ssinghal.report.placement_alternatives import Advice, Alternative, Alternatives, Answer, PlacementRemedy, advice
from ssinghal.report.statistics import Facts
from ssinghal.runs.reader import RecordGroup


@dataclass(frozen=True)
class GroupReport:
    """``tried``: records written since the run, of changed calls and of failing ones with a search for remedies. ``variants``:
    those that the run has of each call."""

    group: RecordGroup
    tried: tuple[Record, ...] = ()
    variants: CallVariants = field(default_factory=CallVariants)

    @cached_property
    def facts(self) -> Facts:
        return Facts.of(self.group)

    @cached_property
    def _answers(self) -> Mapping[tuple[str, str], tuple[Alternative, ...]]:
        alternatives = Alternatives(self.facts.records, self.tried)
        return {(r.op, r.key): alternatives.of(r) for r in self.facts.oom}

    @cached_property
    def _searches(self) -> Mapping[tuple[str, str], Record]:
        """The record with the last search of each case. What it found may be long, and is read when it is needed."""
        return {(r.op, r.key): r for r in (*self.facts.oom, *self.tried) if r.was_searched}

    @property
    def probed_since(self) -> int:
        """The number of changed calls in ``tried``."""
        failing = {(r.op, r.key) for r in self.facts.oom}
        return sum((r.op, r.key) not in failing for r in self.tried)

    def alternatives_of(self, failing: Record) -> tuple[Alternative, ...]:
        return self._answers[failing.op, failing.key]

    def searched_of(self, failing: Record) -> RemedyOutcome | None:
        """Returns the outcome of a search for remedies, if there was one."""
        record = self._searches.get((failing.op, failing.key))
        return None if record is None else record.remedies

    def was_searched(self, record: Record) -> bool:
        return (record.op, record.key) in self._searches

    @property
    def searched(self) -> int:
        """The number of failing cases whose remedies were searched for."""
        return sum(map(self.was_searched, self.facts.oom))

    def searches(self) -> Iterator[tuple[Record, RemedyOutcome]]:
        """Yields the failing cases whose remedies were searched for, one by one with the outcome."""
        for record in self.facts.oom:
            searched = self.searched_of(record)
            if searched is not None:
                yield record, searched

    @cached_property
    def advice(self) -> tuple[Advice, ...]:
        return advice([(r, self.alternatives_of(r)) for r in self.facts.oom])

    def best(self, failing: Record) -> str:
        """Returns the first remedy found by search. Without a search, returns the changes of placement that help, or else those
        that may help."""
        searched = self.searched_of(failing)
        if searched is not None:
            return str(searched)
        alternatives = self.alternatives_of(failing)
        helping = [a for a in alternatives if a.answer in (Answer.TRIED, Answer.FITS)]
        unknown = [a for a in alternatives if a.answer is Answer.UNKNOWN]
        return "; ".join(map(str, helping or unknown)) or "no single change of placement"

    def remedies_of(self, failing: Record) -> tuple[str, ...]:
        """Returns all remedies found by search; without a search, every change of placement with its answer."""
        searched = self.searched_of(failing)
        if searched is None:
            return tuple(map(str, self.alternatives_of(failing)))
        return tuple(map(str, searched.found)) or (str(searched),)

    def remedy_counts(self, records: Sequence[Record]) -> str:
        """Counts ``records`` by the first remedy found by search, and the others by the answers for each change of
        placement."""
        searches = [self.searched_of(r) for r in records]
        firsts = Counter(f"{s.first.contract}, {s.first.lever}" if s.first else "no remedy" for s in searches if s is not None)
        parts = [f"{what} (found by search: {cases:,})" for what, cases in firsts.most_common()]
        others = [r for r, searched in zip(records, searches, strict=True) if searched is None]
        answers = Counter((a.remedy, a.answer) for r in others for a in self.alternatives_of(r))
        for remedy in PlacementRemedy:
            counts = [f"{answer}: {answers[remedy, answer]:,}" for answer in Answer if answers[remedy, answer]]
            parts += [f"{remedy} ({', '.join(counts)})"] if counts else []
        return "; ".join(parts) or "no single change of placement applies"
