"""Probes cases and searches remedies for those that run out of memory, so that their records name them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace

from ssinghal.core.case import Case
from ssinghal.core.closing import Closing
from ssinghal.core.record import Record
from ssinghal.core.remedy_outcome import RemedyOutcome, StrategyRejection, ValueComparison, WorkingRemedy
from ssinghal.core.verdict import Resource, Status
from ssinghal.remedy.device_pools import DevicePools, why_no_values
from ssinghal.remedy.search import Budget, Remedy
from ssinghal.remedy.solver import Unsolved, solve
from ssinghal.remedy.text import RemedyReport
from ssinghal.remedy.trial import Impact
from ssinghal.runner.pool import Pool

HERE = tuple(impact for impact in Impact if impact not in (Impact.ELSEWHERE, Impact.VALUES))
# For one case of many. The number of trials ends a search, so that a busy machine finds the same remedies.
RUN_BUDGET = Budget(probes=30, seconds=60.0)


class Searcher(Closing):
    """Returns records of cases, with ``remedies`` on the pool's board and release for those that run out of memory.

    Trials run in the pool's workers, so a crash or a hang affects one trial only. There are as many cases at a time as workers.
    ``values``: compares the results of rewritten calls in torch, in a separate worker. A context manager within the pool's.
    """

    def __init__(self, pool: Pool, *, values: bool = False, budget: Budget = RUN_BUDGET) -> None:
        self._pool, self._budget = pool, budget
        self._pools = DevicePools(pool.choice, pool.options, no_values=why_no_values(values), home=pool)
        self._executor = ThreadPoolExecutor(pool.options.workers, "remedy")

    def submit(self, case: Case) -> Future[Record]:
        return self._executor.submit(self._record, case)

    def map(self, cases: Iterable[Case]) -> Iterator[Record]:
        """Yields records in the order of the cases."""
        for future in [self.submit(case) for case in cases]:
            yield future.result()

    def close(self) -> None:
        """Starts nothing more; running trials end with the pool."""
        self._executor.shutdown(wait=False, cancel_futures=True)
        self._pools.close()

    def _record(self, case: Case) -> Record:
        record = self._pool.submit(case).result()
        if record.status is not Status.OOM:
            return record
        if record.verdict.resource is Resource.HOST:
            return replace(record, remedies=RemedyOutcome(reason="the host ran out of memory"))
        report = solve(case, self._pools, self._budget, verdict=record.verdict, only=HERE)
        if isinstance(report, Unsolved):
            return replace(record, remedies=RemedyOutcome(reason=report.verdict.message))
        return replace(record, remedies=outcome_of(report))


def outcome_of(report: RemedyReport) -> RemedyOutcome:
    """Returns what a record keeps of a search."""
    remedies = report.remedies
    found = tuple(_working(report, r) for r in remedies.found)
    refused = tuple(StrategyRejection(str(r.impact), r.strategy, r.reason, r.probes) for r in remedies.refused)
    return RemedyOutcome(found, refused, remedies.probes, remedies.spent)


def _working(report: RemedyReport, remedy: Remedy) -> WorkingRemedy:
    result = remedy.result
    return WorkingRemedy(
        str(remedy.impact),
        remedy.strategy,
        remedy.note,
        {str(kind): size for kind, size in result.peak_bytes.items()},
        result.moved_bytes,
        result.calls,
        remedy.probes,
        _values(report, remedy),
    )


def _values(report: RemedyReport, remedy: Remedy) -> ValueComparison:
    if remedy.impact is Impact.DTYPE:
        return ValueComparison.NARROWER
    check = report.values.get(remedy.strategy)
    if check is None or check.equal is None:
        return (
            ValueComparison.NOT_COMPARED if remedy.impact in (Impact.REARRANGED, Impact.CHUNKED) else ValueComparison.SAME_CALL
        )
    return ValueComparison.EQUAL if check.equal else ValueComparison.ROUNDED
