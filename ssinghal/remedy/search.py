"""Searches remedies: runs strategies in order, keeps the first of each impact that works, and stops at three."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from ssinghal.core.verdict import DecidedBy, Resource, Status, Verdict
from ssinghal.errors import InvalidCase
from ssinghal.operators.binding import bind
from ssinghal.remedy.placements import bare
from ssinghal.remedy.problem import Problem
from ssinghal.remedy.strategies.registry import STRATEGIES
from ssinghal.remedy.strategies.residents import L1_SMALL
from ssinghal.remedy.strategies.strategy import HOST_TILES, Strategy, StrategyResult
from ssinghal.remedy.trial import Impact, Trial, TrialResult

Run = Callable[[Trial], TrialResult]
MAX_REMEDIES = 3


@dataclass(frozen=True)
class Budget:
    """``probes``: trials of all strategies together. ``seconds``: no trial starts later. ``host_tiles``: a trial for which TTNN
    maps more tiles on the host, at 1 to 70 us each, does not run."""

    probes: int = 50
    seconds: float = 5.0
    host_tiles: int = HOST_TILES


@dataclass(frozen=True)
class Remedy:
    """A strategy that works. ``result``: of the last of its ``probes`` trials."""

    strategy: str
    impact: Impact
    result: TrialResult
    note: str
    probes: int


@dataclass(frozen=True)
class RejectedStrategy:
    """A strategy that does not work. ``probes``: its trials; 0 where the reason was known without one."""

    strategy: str
    impact: Impact
    reason: str
    probes: int


@dataclass(frozen=True)
class Remedies:
    """``found``: for at most three impacts, in their order, the first strategy that works. ``refused``: strategies that were
    tried or ruled out before it. ``spent``: the budget ended the search. ``seconds``: time of the search on the host."""

    problem: Problem
    found: tuple[Remedy, ...] = ()
    refused: tuple[RejectedStrategy, ...] = ()
    probes: int = 0
    seconds: float = 0.0
    spent: bool = False


@dataclass
class _Spent:
    budget: Budget
    started: float = field(default_factory=time.perf_counter)
    probes: int = 0

    @property
    def seconds(self) -> float:
        return time.perf_counter() - self.started

    @property
    def is_over(self) -> bool:
        return self.probes >= self.budget.probes or self.seconds >= self.budget.seconds


def strategies(problem: Problem) -> tuple[Strategy, ...]:
    """Returns the strategies that apply to the problem. Where the L1_SMALL region is too small, only its size helps, which is
    chosen when the device is opened."""
    if problem.verdict.resource is Resource.L1_SMALL_BUFFER:
        return (L1_SMALL,)
    return tuple(strategy for strategy in STRATEGIES if strategy.applies(problem))


def search(
    problem: Problem,
    run: Run,
    budget: Budget = Budget(),
    *,
    most: int = MAX_REMEDIES,
    only: Iterable[Impact] = tuple(Impact),
) -> Remedies:
    """Runs strategies until one works for each of ``most`` impacts, or the budget is spent."""
    spent, wanted = _Spent(budget), set(only)
    found: dict[Impact, Remedy] = {}
    refused: list[RejectedStrategy] = []
    for strategy in strategies(problem):
        name, impact = strategy.name, strategy.impact
        if len(found) >= most or impact in found or impact not in wanted:
            continue
        before = spent.probes
        outcome = _run(strategy, problem, run, spent)
        probes = spent.probes - before
        if outcome is None:
            refused.append(RejectedStrategy(name, impact, "not finished: the budget was spent", probes))
        elif outcome.result is None:
            refused.append(RejectedStrategy(name, impact, outcome.reason, probes))
        else:
            note = "; ".join(text for text in (outcome.note, outcome.result.caution) if text)
            found[impact] = Remedy(name, impact, outcome.result, note, probes)
    return Remedies(problem, tuple(found.values()), tuple(refused), spent.probes, spent.seconds, spent.is_over)


def _run(strategy: Strategy, problem: Problem, run: Run, spent: _Spent) -> StrategyResult | None:
    """Runs the trials of a strategy and returns its result; None where the budget ends before it."""
    steps = strategy.search(problem)
    try:
        trial = next(steps)
        while True:
            if spent.is_over:
                return None
            result = _too_slow(trial, problem, spent.budget)
            if result is None:
                spent.probes += 1
                result = run(trial)
            trial = steps.send(result)
    except StopIteration as stop:
        outcome: StrategyResult = stop.value
        return outcome
    except InvalidCase as error:
        return StrategyResult(None, f"the changed call is invalid: {error}")


def _too_slow(trial: Trial, problem: Problem, budget: Budget) -> TrialResult | None:
    tiles = bind(bare(trial.case)).host_tiles
    if tiles <= budget.host_tiles:
        return None
    message = f"TTNN maps {tiles:,} tiles on the host for it; more than {budget.host_tiles:,} are not tried"
    return TrialResult(
        trial, Verdict(Status.NOT_RUN, decided_by=DecidedBy.ARITHMETIC, message=message), problem.board.name, "", ""
    )
