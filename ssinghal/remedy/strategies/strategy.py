"""What a strategy is: a search for a change that makes a call fit.

The search is a generator: it yields trials, receives their results, and returns its own. Arithmetic comes first: a change that
cannot fit is rejected, with the reason, without a trial.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass, replace

from ssinghal.core.verdict import Status, sentence
from ssinghal.remedy.config_changes import PROGRAM_CONFIG, without_program
from ssinghal.remedy.problem import Problem
from ssinghal.remedy.trial import Impact, Trial, TrialResult


@dataclass(frozen=True)
class StrategyResult:
    """``result``: of the trial that works; None where none does, for ``reason``. ``note``: explains the change."""

    result: TrialResult | None
    reason: str = ""
    note: str = ""


HOST_TILES = 40_000  # TTNN maps so many in about a second
StrategySearch = Generator[Trial, TrialResult, StrategyResult]


@dataclass(frozen=True)
class Strategy:
    """``applies``: whether the change is meaningful for the call; where not, it is not reported either."""

    name: str
    impact: Impact
    applies: Callable[[Problem], bool]
    search: Callable[[Problem], StrategySearch]


def why_not(result: TrialResult) -> str:
    """Returns in a line why a trial does not work."""
    return result.verdict.message if result.verdict.status is Status.NOT_RUN else f"tried: {sentence(result.verdict)}"


def once(problem: Problem, trial: Trial, note: str = "") -> StrategySearch:
    """Runs a trial, unless arithmetic rules it out."""
    if reason := problem.ruled_out(trial.case):
        return StrategyResult(None, reason)
    result = yield trial
    keeps_program = trial.case.attrs.get(PROGRAM_CONFIG) == problem.case.attrs.get(PROGRAM_CONFIG)
    if not result.works and keeps_program and (free := without_program(trial.case)) is not None:
        again = yield replace(trial, case=free)  # a program config belongs to the shards and shapes that it was made for
        if again.works:
            return StrategyResult(again, note="; ".join(filter(None, (note, "without the program config"))))
    return StrategyResult(result, note=note) if result.works else StrategyResult(None, why_not(result))


def first_that_works(problem: Problem, trials: Iterable[tuple[Trial, str]], reason: str) -> StrategySearch:
    """Runs ``trials``, each with its note, until one works. ``reason``: why none works if there are no trials."""
    for trial, note in trials:
        outcome = yield from once(problem, trial, note)
        if outcome.result:
            return outcome
        reason = outcome.reason
    return StrategyResult(None, reason)


def always(problem: Problem) -> bool:
    return True
