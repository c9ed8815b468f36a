"""Strategies that take a call elsewhere: to another board or a newer release."""

from __future__ import annotations

from dataclasses import replace

from ssinghal.core.boards import current_boards, load_board
from ssinghal.core.estimate import Prediction
from ssinghal.core.tensors import (
    Board,
    ceil_div,
    round_up,
)
from ssinghal.errors import InvalidCase
from ssinghal.estimation.estimator import estimate
from ssinghal.remedy.problem import Problem
from ssinghal.remedy.strategies.strategy import Strategy, StrategyResult, StrategySearch, always, why_not
from ssinghal.remedy.trial import Impact, LiveSet, Resident


def _other_board(problem: Problem) -> StrategySearch:
    """Finds a board of another size on which the unchanged call fits."""
    here = load_board(problem.board.name)
    same_release = here.provenance == problem.board.provenance  # a board's file has the banks of one release
    reasons, sizes = [], {(here.l1, here.dram)}
    for name in reversed(current_boards()):  # the largest first
        board = load_board(name)
        if (board.l1, board.dram) in sizes:
            continue
        sizes.add((board.l1, board.dram))
        opened = board.with_l1_small(problem.board.l1_small_bytes)
        try:
            wanted = problem.results_of(problem.case, opened)
        except InvalidCase as error:
            reasons.append(f"{name}: {error}")
            continue
        if same_release and estimate(problem.case, board).verdict is Prediction.EXCEEDS:
            reasons.append(f"{name}: exceeds it by arithmetic")
            continue
        result = yield replace(problem.trial(live=_spread(problem, opened)), board=name, wanted=wanted)
        if result.works:
            return StrategyResult(result, note=f"on a {name}, the same call")
        reasons.append(f"{name}: {why_not(result)}")
    return StrategyResult(None, "; ".join(reasons))


def _spread(problem: Problem, board: Board) -> LiveSet:
    """Returns other buffers of as many bytes in total, over the banks of another board."""

    def on(resident: Resident) -> Resident:
        here, there = problem.board.region(resident.memory).num_banks, board.region(resident.memory).num_banks
        return replace(resident, bytes_per_bank=round_up(ceil_div(resident.bytes_per_bank * here, there), board.granule_bytes))

    return tuple(map(on, problem.live))


def _newer_release(problem: Problem) -> StrategySearch:
    reasons = []
    for release in problem.newer:
        result = yield replace(problem.trial(), release=release)
        if result.works:
            return StrategyResult(result, note=f"with ttnn {release}, the same call")
        reasons.append(f"ttnn {release}: {why_not(result)}")
    return StrategyResult(None, "; ".join(reasons))


NEWER_RELEASE = Strategy("a newer release", Impact.ELSEWHERE, lambda p: bool(p.newer), _newer_release)
OTHER_BOARD = Strategy("another board", Impact.ELSEWHERE, always, _other_board)
