"""Probes of cases whose records name remedies: where a call runs out of memory, one is searched for beside it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace

from ssinghal.core.case import Case
from ssinghal.core.record import Record, Resource, Status
from ssinghal.core.remedy_outcome import RemedyOutcome, StrategyRejection, ValueComparison, WorkingRemedy
from ssinghal.remedy.device_pools import DevicePools, why_no_values
from ssinghal.remedy.search import Budget, Remedy
from ssinghal.remedy.solver import Unsolved, solve
from ssinghal.remedy.text import RemedyReport
from ssinghal.remedy.trial import Impact
from ssinghal.runner.pool import Pool

HERE = tuple(contract for contract in Impact if contract not in (Impact.ELSEWHERE, Impact.VALUES))
# For one case among many. What ends a search is the number of trials, so that a busy machine finds the same.
RUN_BUDGET = Budget(probes=30, seconds=60.0)


class Searcher:
    """Gives each case its record, with ``remedies`` where it ran out of memory: those of the pool's own board and release.

    Trials run in the pool's workers, so one that crashes or hangs costs itself. As many cases at a time as there are workers.
    ``values``: the results of rewritten calls are compared in torch, in a worker of its own. Use as a context manager, within
    the pool's.
    """

    def __init__(self, pool: Pool, *, values: bool = False, budget: Budget = RUN_BUDGET) -> None:
        self._pool, self._budget = pool, budget
        self._bench = DevicePools(pool.choice, pool.options, no_values=why_no_values(values), home=pool)
        self._executor = ThreadPoolExecutor(pool.options.workers, "remedy")

    def __enter__(self) -> Searcher:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def submit(self, case: Case) -> Future[Record]:
        return self._executor.submit(self._record, case)

    def map(self, cases: Iterable[Case]) -> Iterator[Record]:
        """Records in the order of the cases."""
        for future in [self.submit(case) for case in cases]:
            yield future.result()

    def close(self) -> None:
        """Begins nothing more; what a search waits for ends with the pool."""
        self._executor.shutdown(wait=False, cancel_futures=True)
        self._bench.close()

    def _record(self, case: Case) -> Record:
        record = self._pool.submit(case).result()
        if record.status is not Status.OOM:
            return record
        if record.verdict.resource is Resource.HOST:
            return replace(record, remedies=RemedyOutcome(reason="it is the host's memory that ran out"))
        told = solve(case, self._bench, self._budget, verdict=record.verdict, only=HERE)
        if isinstance(told, Unsolved):
            return replace(record, remedies=RemedyOutcome(reason=told.verdict.message))
        return replace(record, remedies=searched(told))


def searched(told: RemedyReport) -> RemedyOutcome:
    """What a record keeps of a search."""
    remedies = told.remedies
    found = tuple(_working(told, r) for r in remedies.found)
    refused = tuple(StrategyRejection(str(r.contract), r.lever, r.reason, r.probes) for r in remedies.refused)
    return RemedyOutcome(found, refused, remedies.probes, remedies.spent)


def _working(told: RemedyReport, remedy: Remedy) -> WorkingRemedy:
    tried = remedy.tried
    return WorkingRemedy(
        str(remedy.contract),
        remedy.lever,
        remedy.note,
        {str(kind): size for kind, size in tried.peak_bytes.items()},
        tried.moved_bytes,
        tried.calls,
        remedy.probes,
        _values(told, remedy),
    )


def _values(told: RemedyReport, remedy: Remedy) -> ValueComparison:
    if remedy.contract is Impact.DTYPE:
        return ValueComparison.NARROWER
    check = told.values.get(remedy.lever)
    if check is None or check.equal is None:
        return (
            ValueComparison.NOT_COMPARED
            if remedy.contract in (Impact.REARRANGED, Impact.CHUNKED)
            else ValueComparison.SAME_CALL
        )
    return ValueComparison.EQUAL if check.equal else ValueComparison.ROUNDED
