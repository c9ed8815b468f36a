"""Edge searches of single calls: each try is a probe in a worker process, so that a crash costs one of them."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from ssinghal.capacity.journal import Journal
from ssinghal.capacity.parameters import Bounds, Goal, SearchParameter, knob_of
from ssinghal.capacity.search import Edge, SearchLimits, last_possible, search_edge
from ssinghal.core.case import Case
from ssinghal.core.record import Status, Verdict
from ssinghal.core.tensors import Board
from ssinghal.errors import InvalidCase
from ssinghal.estimation.estimator import Prediction, estimate
from ssinghal.operators import find_operator
from ssinghal.runner.pool import Pool
from ssinghal.runner.tasks import PoolOptions
from ssinghal.runs.reader import Setting

_CERTAIN = {Prediction.FITS: True, Prediction.EXCEEDS: False, Prediction.UNKNOWN: None}


@dataclass(frozen=True)
class ValueRun:
    """The call at one value, and what became of it. ``is_known``: the run was made by an earlier search."""

    value: int
    case: Case
    verdict: Verdict
    is_known: bool = False

    @property
    def fits(self) -> bool:
        return self.verdict.status is Status.FITS


@dataclass(frozen=True)
class EdgeResult:
    """An edge of ``case``, or that there is none. ``seconds``: of the search, without the start of a worker."""

    case: Case
    knob: SearchParameter
    setting: Setting
    edge: Edge[int, ValueRun]
    seconds: float

    @property
    def fit(self) -> ValueRun | None:
        """The answer: the most demanding value that fits."""
        return None if self.edge.fit is None else self.edge.tried[self.edge.fit]

    @property
    def fail(self) -> ValueRun | None:
        """The first value beyond it that was run; where nothing fits, the least demanding one."""
        return None if self.edge.fail is None else self.edge.tried[self.edge.fail]

    @property
    def ran(self) -> int:
        """Runs of this search, without those that an earlier one had made."""
        return sum(not ran.is_known for ran in self.edge.tried.values())


def lean(options: PoolOptions) -> PoolOptions:
    """``options`` for runs of which the verdict alone is wanted: no window is listed a second time to tell the call's peaks."""
    return replace(options, limits=replace(options.limits, capture_tiles=0, capture_rows=0))


@dataclass(frozen=True)
class EdgeSearch:
    """How far ``case`` can go towards ``goal``."""

    goal: Goal
    case: Case
    bounds: Bounds = field(default_factory=Bounds)
    effort: SearchLimits = field(default_factory=SearchLimits)

    def check(self, board: Board) -> None:
        """InvalidCase where the call cannot be made on ``board``, or does not have what the goal turns."""
        knob_of(self.goal, self.case, board, self.bounds)

    def on(
        self, pool: Pool, journal: Journal | None = None, told: Callable[[SearchParameter, ValueRun], None] | None = None
    ) -> EdgeResult:
        """On the device of ``pool``. Each run is in the ``journal``, and ``told``, before the next begins.

        Raises:
            InvalidCase: the call cannot be made, or does not have what the goal turns.
            HarnessError: the journal cannot be written.
        """
        facts = pool.facts
        setting, board = Setting(facts.mode, facts.board, facts.ttnn), facts.opened_board
        knob = knob_of(self.goal, self.case, board, self.bounds)

        def run(value: int) -> ValueRun:
            case = knob.case_of(value)
            known = journal.known(case, setting) if journal else None
            if known is not None:
                ran = ValueRun(value, case, known, is_known=True)
            else:
                record = pool.submit(case).result()
                if journal:
                    journal.add(record)
                ran = ValueRun(value, case, record.verdict)
            if told:
                told(knob, ran)
            return ran

        def hint(value: int) -> bool | None:
            return _certain(knob, value, board)

        started = time.perf_counter()
        start = last_possible(knob.values, hint) if self._is_soon_refused else knob.start
        edge = search_edge(knob.values, run, hint, start=start, favoured=knob.favoured, effort=self.effort)
        return EdgeResult(self.case, knob, setting, edge, time.perf_counter() - started)

    @property
    def _is_soon_refused(self) -> bool:
        """Whether a call that is far too large costs little: TTNN allocates before it does work on the host that grows with
        the call, such as lists of windows and of pages. Then the search may begin where arithmetic has its limit."""
        traits = find_operator(self.case.name).traits
        return not (self.goal.is_smallest or traits.l1_small_bytes or traits.host_map)


def _certain(knob: SearchParameter, value: int, board: Board) -> bool | None:
    """What arithmetic knows of the call at a value. One that cannot be made does not fit."""
    try:
        return _CERTAIN[estimate(knob.case_of(value), board).verdict]
    except InvalidCase:
        return False
