"""Edge searches for single calls. Each value is probed in a worker process, so a crash costs one run only."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from ssinghal.capacity.journal import Journal
from ssinghal.capacity.parameters import Bounds, Goal, SearchParameter, parameter_of
from ssinghal.capacity.search import Edge, SearchLimits, last_possible, search_edge
from ssinghal.core.case import Case
from ssinghal.core.estimate import Prediction
from ssinghal.core.tensors import Board
from ssinghal.core.verdict import Verdict, memory_verdict
from ssinghal.errors import InvalidCase
from ssinghal.estimation.estimator import estimate
from ssinghal.operators import find_operator
from ssinghal.runner.pool import Pool
from ssinghal.runner.tasks import PoolOptions
from ssinghal.runs.setting import Setting

_CERTAIN = {Prediction.FITS: True, Prediction.EXCEEDS: False, Prediction.UNKNOWN: None}


@dataclass(frozen=True)
class ValueRun:
    """The call at one value and its verdict. ``is_known``: the verdict is from an earlier search."""

    value: int
    case: Case
    verdict: Verdict
    is_known: bool = False

    @property
    def fits(self) -> bool | None:
        """None if the run was no trial of memory; see ``memory_verdict``."""
        return memory_verdict(self.verdict.status, self.verdict.resource)


@dataclass(frozen=True)
class EdgeResult:
    """The result of a search for an edge of ``case``. ``seconds``: duration of the search without the start of a worker."""

    case: Case
    parameter: SearchParameter
    setting: Setting
    edge: Edge[int, ValueRun]
    seconds: float

    @property
    def fit(self) -> ValueRun | None:
        """The answer: the most demanding value that fits."""
        return None if self.edge.fit is None else self.edge.tried[self.edge.fit]

    @property
    def fail(self) -> ValueRun | None:
        """The first run beyond the answer that does not fit; if nothing fits, the one with the least demand."""
        return None if self.edge.fail is None else self.edge.tried[self.edge.fail]

    @property
    def untried(self) -> list[ValueRun]:
        """Runs between the two that say nothing about memory: their values may fit."""
        return [self.edge.tried[index] for index in self.edge.untried]

    @property
    def new_runs(self) -> int:
        """The number of runs without those reused from an earlier search."""
        return sum(not run.is_known for run in self.edge.tried.values())


def lean(options: PoolOptions) -> PoolOptions:
    """Returns ``options`` for runs whose verdict alone matters: windows are not listed again to measure the call's peaks."""
    return replace(options, limits=replace(options.limits, capture_tiles=0, capture_rows=0))


@dataclass(frozen=True)
class EdgeSearch:
    """A search for the edge of ``case`` towards ``goal``."""

    goal: Goal
    case: Case
    bounds: Bounds = field(default_factory=Bounds)
    limits: SearchLimits = field(default_factory=SearchLimits)

    def check(self, board: Board) -> None:
        """Raises InvalidCase if the call is invalid on ``board`` or has no parameter for the goal."""
        parameter_of(self.goal, self.case, board, self.bounds)

    def on(
        self, pool: Pool, journal: Journal | None = None, on_run: Callable[[SearchParameter, ValueRun], None] | None = None
    ) -> EdgeResult:
        """Searches on the device of ``pool``. Writes each run to ``journal`` and passes it to ``on_run`` before the next.

        Raises:
            InvalidCase: the call is invalid or has no parameter for the goal.
            HarnessError: the journal cannot be written.
        """
        facts = pool.facts
        setting, board = Setting(facts.mode, facts.board, facts.ttnn), facts.opened_board
        parameter = parameter_of(self.goal, self.case, board, self.bounds)

        def run(value: int) -> ValueRun:
            case = parameter.case_of(value)
            known = journal.known(case, setting) if journal else None
            if known is not None:
                value_run = ValueRun(value, case, known, is_known=True)
            else:
                record = pool.submit(case).result()
                if journal:
                    journal.add(record)
                value_run = ValueRun(value, case, record.verdict)
            if on_run:
                on_run(parameter, value_run)
            return value_run

        def hint(value: int) -> bool | None:
            return _certain(parameter, value, board)

        values = parameter.values
        started = time.perf_counter()
        start = last_possible(values, hint) if self._is_rejected_early else parameter.start
        edge = search_edge(values, run, hint, start=start, favoured=parameter.favoured, limits=self.limits)
        return EdgeResult(self.case, parameter, setting, edge, time.perf_counter() - started)

    @property
    def _is_rejected_early(self) -> bool:
        """Whether a call that is far too large costs little, because TTNN allocates before it does work on the host that grows
        with the call, such as listing windows and pages. Then the search may start at the limit given by arithmetic."""
        traits = find_operator(self.case.name).traits
        return not (self.goal.is_smallest or traits.l1_small_bytes or traits.host_map)


def _certain(parameter: SearchParameter, value: int, board: Board) -> bool | None:
    """Returns whether the call fits by arithmetic, None if arithmetic is not certain. False for an invalid call, which ends the
    search in that direction like one that does not fit."""
    try:
        return _CERTAIN[estimate(parameter.case_of(value), board).verdict]
    except InvalidCase:
        return False
