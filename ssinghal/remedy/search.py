"""The search: levers in their order, each contract's first that works, until three are found. Needs neither torch nor ttnn."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from ssinghal.core.record import DecidedBy, Resource, Status, Verdict
from ssinghal.errors import InvalidCase
from ssinghal.operators.binding import bind
from ssinghal.remedy.problem import Problem
from ssinghal.remedy.strategies.placement import HOST_TILES, L1_SMALL, Strategy, StrategyResult
from ssinghal.remedy.strategies.registry import LEVERS
from ssinghal.remedy.trial import Impact, Trial, TrialResult

Run = Callable[[Trial], TrialResult]
MAX_REMEDIES = 3


@dataclass(frozen=True)
class Budget:
    """``probes``: trials of one problem, of all levers together. ``seconds``: after them no further trial begins.
    ``host_tiles``: no trial is made for which TTNN maps more tiles on the host, at 1 to 70 us each."""

    probes: int = 50
    seconds: float = 5.0
    host_tiles: int = HOST_TILES


@dataclass(frozen=True)
class Remedy:
    """A lever that works: ``tried`` is the run that showed it, the last of ``probes`` trials."""

    lever: str
    contract: Impact
    tried: TrialResult
    note: str
    probes: int


@dataclass(frozen=True)
class RejectedStrategy:
    """A lever that does not, or was not tried, where ``probes`` is 0: ``reason`` says which."""

    lever: str
    contract: Impact
    reason: str
    probes: int


@dataclass(frozen=True)
class Remedies:
    """``found``: at most three, the first lever that works of each contract, in the order of contracts. ``refused``: those that
    were tried or ruled out before. ``spent``: the budget ended the search. ``seconds``: host time, none of a device."""

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


def levers(problem: Problem) -> tuple[Strategy, ...]:
    """Those that mean anything for the problem. A region that is chosen when the device is opened is mended there, and only
    there; that what is too large for it could be smaller too is not for this call to say."""
    if problem.verdict.resource is Resource.L1_SMALL_BUFFER:
        return (L1_SMALL,)
    return tuple(lever for lever in LEVERS if lever.applies(problem))


def search(
    problem: Problem,
    run: Run,
    budget: Budget = Budget(),
    *,
    most: int = MAX_REMEDIES,
    only: Iterable[Impact] = tuple(Impact),
) -> Remedies:
    """Runs levers until ``most`` contracts have one that works, or the budget is spent."""
    spent, wanted = _Spent(budget), set(only)
    found: dict[Impact, Remedy] = {}
    refused: list[RejectedStrategy] = []
    for lever in levers(problem):
        if len(found) >= most or lever.contract in found or lever.contract not in wanted:
            continue
        before = spent.probes
        finding = _drive(lever, problem, run, spent)
        if finding is None:
            refused.append(
                RejectedStrategy(lever.name, lever.contract, "not finished: the budget was spent", spent.probes - before)
            )
        elif finding.tried is not None:
            found[lever.contract] = Remedy(lever.name, lever.contract, finding.tried, finding.note, spent.probes - before)
        else:
            refused.append(RejectedStrategy(lever.name, lever.contract, finding.reason, spent.probes - before))
    return Remedies(problem, tuple(found.values()), tuple(refused), spent.probes, spent.seconds, spent.is_over)


def _drive(lever: Strategy, problem: Problem, run: Run, spent: _Spent) -> StrategyResult | None:
    """What the lever finds; None where the budget is spent before it does."""
    steps = lever.search(problem)
    try:
        trial = next(steps)
        while True:
            if spent.is_over:
                return None
            tried = _too_slow(trial, problem, spent.budget)
            if tried is None:
                spent.probes += 1
                tried = run(trial)
            trial = steps.send(tried)
    except StopIteration as stop:
        finding: StrategyResult = stop.value
        return finding
    except InvalidCase as error:
        return StrategyResult(None, f"the call cannot be made so: {error}")


def _too_slow(trial: Trial, problem: Problem, budget: Budget) -> TrialResult | None:
    tiles = bind(trial.case).host_tiles
    if tiles <= budget.host_tiles:
        return None
    message = f"TTNN maps {tiles:,} tiles on the host for it; more than {budget.host_tiles:,} are not tried"
    return TrialResult(
        trial, Verdict(Status.NOT_RUN, decided_by=DecidedBy.ARITHMETIC, message=message), problem.board.name, "", ""
    )
