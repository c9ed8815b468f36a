"""Probes many cases into a run's folder, outside pytest. However the run ends, each case has its record."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from heapq import heappop, heappush, heappushpop
from typing import TYPE_CHECKING, Any

from ssinghal.core.batches import batches
from ssinghal.core.case import Case
from ssinghal.core.device_facts import DeviceFacts
from ssinghal.core.record import Record
from ssinghal.core.signals import collected_signals
from ssinghal.core.tensors import Board
from ssinghal.core.verdict import Status
from ssinghal.errors import DEVICE_ERRORS, reason
from ssinghal.estimation.estimator import MemoryEstimate, estimate
from ssinghal.runner.answerer import searcher_of
from ssinghal.runner.probers import Prober
from ssinghal.runs.writer import RunFolder, unprobed

if TYPE_CHECKING:
    from ssinghal.runs.known import EarlierAnswer, EarlierRuns

Opened = Callable[[], AbstractContextManager[Prober]]  # opens the device

AT_ONCE = 2000  # cases that the index is queried for
LOOK_AHEAD = 16_384  # cases of which the slowest starts next; their estimates, of 2 KB, are in memory
SLOW_S = 0.1  # a known case that took longer starts before those of unknown duration


def sweep(
    cases: Sequence[Case],
    board: Board,
    folder: RunFolder,
    report: Callable[[Record], None],
    *,
    opened: Opened,
    answerer: Callable[[Prober], str],
    remedies: bool = False,
    earlier: EarlierRuns | None = None,
    incremental: bool = False,
    probes: Callable[[], None] = lambda: None,
) -> signal.Signals | None:
    """Answers ``cases`` and returns the signal that ended the sweep early, or None.

    ``opened()`` opens the device, ``answerer(prober)`` identifies it. Each record is written, and passed to ``report``, as soon
    as its case has ended. Equal calls under several names are probed once. ``incremental``: what the ``earlier`` runs have
    answered is taken from them. Of the next ``LOOK_AHEAD`` cases, slow ones go first, by the durations in earlier runs or by
    what they allocate, as none should remain for a single worker at the end. Cases that the run did not reach get a ``not_run``
    record with the reason, which is not reported. ``remedies``: whether the prober searches for them. ``probes()`` is called
    once the answers of earlier runs have been reported, before the first case is probed.

    Raises:
        HarnessError, OSError: no device opens, or the folder cannot be written.
    """
    records = _Records(cases, board, folder, report)
    alike = _alike(cases)
    with collected_signals() as caught:
        why = ""
        try:
            with opened() as prober:
                identity = answerer(prober)
                searcher = searcher_of(identity) if remedies else ""
                stated = searcher if folder.info.searcher in ("", searcher) else ""  # of all records of a run that is resumed
                folder.set_device(prober.facts, identity, stated)
                if incremental and earlier is not None:
                    known = partial(earlier.answers, device=prober.facts, answerer=identity, searcher=searcher)
                    records.take(alike, known, remedies=remedies, stopped=lambda: bool(caught))
                left = {numbers[0]: numbers for numbers in alike if numbers[0] in records.waiting}
                ordered = records.slow_first(left, earlier, prober.facts, stopped=lambda: bool(caught))
                probes()
                for number, record in prober.answers(((n, cases[n]) for n in ordered), lambda: bool(caught)):
                    records.add(left[number], record)
        except DEVICE_ERRORS as error:
            why = f": {reason(error)}"
            raise
        finally:
            records.add_unreached(f": {caught[0].name}" if caught else why)
    return caught[0] if caught else None


class _Records:
    """Writes the records of ``cases``. ``waiting``: the numbers of those that have none yet."""

    def __init__(self, cases: Sequence[Case], board: Board, folder: RunFolder, report: Callable[[Record], None]) -> None:
        self.waiting = set(range(len(cases)))
        self._cases, self._board, self._folder, self._report = cases, board, folder, report
        self._estimates: dict[int, MemoryEstimate] = {}  # of cases that were ordered and have no record yet

    def add(self, numbers: Sequence[int], record: Record) -> None:
        """Writes the answer of equal calls: each under its name, but the time of the first alone, which was probed."""
        for place, number in enumerate(numbers):
            own = record if place == 0 else record.standing_for(self._cases[number], duration_s=0.0)
            self._folder.append(self._line(number, own))
            self.waiting.discard(number)
            self._report(own)

    def add_unreached(self, why: str) -> None:
        """Writes a record for each case that has none."""
        for number in sorted(self.waiting):
            record = unprobed(self._cases[number], Status.NOT_RUN, f"the run ended before it{why}", self._board.name)
            self._folder.append_unreached(self._line(number, record))
            self.waiting.discard(number)

    def take(
        self,
        alike: Iterable[Sequence[int]],
        known: Callable[[list[str]], Mapping[str, EarlierAnswer]],
        *,
        remedies: bool,
        stopped: Callable[[], bool],
    ) -> None:
        """Writes the answers that earlier runs have, a part of the cases at a time, until ``stopped()``."""
        for some in batches(alike, AT_ONCE):
            if stopped():
                return
            answers = known([self._cases[numbers[0]].key for numbers in some])
            for numbers in some:
                first = self._cases[numbers[0]]
                answer = answers.get(first.key)
                record = None if answer is None else answer.record(first, remedies=remedies)
                if record is not None:
                    self.add(numbers, record)

    def slow_first(
        self, numbers: Iterable[int], earlier: EarlierRuns | None, device: DeviceFacts, *, stopped: Callable[[], bool]
    ) -> Iterator[int]:
        """Yields ``numbers`` in the order in which they should start, until ``stopped()``: each time the slowest of the next
        ``LOOK_AHEAD``. So cases run while others are ordered."""
        ahead: list[tuple[int, float, int]] = []  # a heap
        for place in self._places(numbers, earlier, device):
            if stopped():
                return
            if len(ahead) < LOOK_AHEAD:
                heappush(ahead, place)
            else:
                yield heappushpop(ahead, place)[-1]
        while ahead and not stopped():
            yield heappop(ahead)[-1]

    def _places(
        self, numbers: Iterable[int], earlier: EarlierRuns | None, device: DeviceFacts
    ) -> Iterator[tuple[int, float, int]]:
        """Yields what sorts each number, and the number: known slow cases, new ones by what they allocate, known quick ones."""
        for some in batches(numbers, AT_ONCE):
            keys = [self._cases[number].key for number in some]
            durations = {} if earlier is None else earlier.durations(keys, device)
            for number, key in zip(some, keys, strict=True):
                seconds = durations.get(key)
                if seconds is None:
                    made = self._estimates[number] = estimate(self._cases[number], self._board)
                    yield 1, -sum(allocation.allocated_bytes for allocation in made.allocations), number
                else:
                    yield (0 if seconds >= SLOW_S else 2), -seconds, number

    def _line(self, number: int, record: Record) -> dict[str, Any]:
        made = self._estimates.pop(number, None) or estimate(self._cases[number], self._board)
        return replace(record, estimate=made.stored()).to_json()


def _alike(cases: Sequence[Case]) -> list[list[int]]:
    """Returns the numbers of the cases, those of equal calls in one list: such calls may have several names."""
    alike: dict[tuple[str, str, str], list[int]] = {}
    for number, case in enumerate(cases):
        call = (case.operator, case.key, "")
        if call in alike and not case.is_same_call(cases[alike[call][0]]):
            call = (case.operator, case.key, case.name)  # of one name, no two calls have a key: catalogs with such are refused
        alike.setdefault(call, []).append(number)
    return list(alike.values())
