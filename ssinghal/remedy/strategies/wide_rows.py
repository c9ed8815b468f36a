"""Avoids rows so wide that a program cannot hold one: permutes dims for the call and back, folds the tensor, or leaves its
pieces separate."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ssinghal.core.case import Case
from ssinghal.core.tensors import TILE_EDGE, format_shape
from ssinghal.core.verdict import Resource
from ssinghal.operators import families, named
from ssinghal.operators.operator_info import Attrs, normal_dim
from ssinghal.remedy.problem import Problem
from ssinghal.remedy.rewrites import Params, Rewrite, RewriteBackend, pieces_apart
from ssinghal.remedy.strategies.chunking import Cut, cuts_of
from ssinghal.remedy.strategies.count_search import smallest_count
from ssinghal.remedy.strategies.form import LAYOUT_CHANGES, rearranged
from ssinghal.remedy.strategies.strategy import Strategy, StrategyResult, StrategySearch, first_that_works, why_not
from ssinghal.remedy.trial import Impact, RewriteName, Trial

(PAD,) = named("constant_pad_nd")
ALONG_DIMS = named("slice cat")
FOLDED_HEIGHTS = (4096, 2048, 1024, 512, 256, 128, 64, TILE_EDGE)


# Turned -------------------------------------------------------------------------------------------------------------------


def turned(backend: RewriteBackend, params: Params) -> Sequence[Any]:
    """Permutes the operands by ``order``, makes the call on them, and permutes the results back."""
    order = list(params["order"])
    back = [order.index(d) for d in range(len(order))]
    permuted = [backend.ttnn.permute(x, order) for x in backend.tensors]
    results = backend.call(turned_case(backend.case, order), permuted)
    backend.free(*permuted)
    return [backend.ttnn.permute(r, back) for r in results]


def turned_case(case: Case, order: Sequence[int]) -> Case:
    """Returns the same call on operands whose dims are in this order."""
    inputs = tuple(tuple(shape[d] for d in order) for shape in case.inputs)
    return replace(case, inputs=inputs, attrs=_turned_attrs(case, order))


def _turned_attrs(case: Case, order: Sequence[int]) -> Attrs:
    rank = len(order)
    if case.operator == PAD:
        flat = list(case.attrs["pad"])
        pairs = [(flat[2 * i], flat[2 * i + 1]) if 2 * i < len(flat) else (0, 0) for i in range(rank)]  # last dim first
        by_dim = pairs[::-1]
        return {**case.attrs, "pad": [n for d in reversed(order) for n in by_dim[d]]}
    if "dim" in case.attrs:
        return {**case.attrs, "dim": list(order).index(normal_dim(case.attrs["dim"], rank))}
    return case.attrs


def _can_turn(problem: Problem) -> bool:
    known = problem.info.name in (*LAYOUT_CHANGES, PAD, *ALONG_DIMS) or problem.info in families()["elementwise"]
    ranks = {len(shape) for shape in problem.case.inputs}
    return _overflows(problem) and known and len(ranks) == 1 and max(ranks) > 1


def _overflows(problem: Problem) -> bool:
    return problem.verdict.resource is Resource.CIRCULAR_BUFFER


def _turn(problem: Problem) -> StrategySearch:
    """Tries every other dim as the last one."""
    if problem.is_sharded:
        return StrategyResult(None, "not tried with shards: those of permuted dims would be others")
    rank, reason = len(problem.case.inputs[0]), "no other dim could be the last"
    for other in range(rank - 1):
        order = list(range(rank))
        order[other], order[-1] = order[-1], order[other]
        result = yield replace(problem.trial(rewrite=RewriteName.TURNED), params={"order": order})
        if result.works:
            return StrategyResult(result, note=f"dims in the order {order} for the call, then back")
        reason = f"order {order}: {why_not(result)}"
    return StrategyResult(None, reason)


# Folded ------------------------------------------------------------------------------------------------------------------


def _can_fold(problem: Problem) -> bool:
    return _overflows(problem) and problem.info.name in LAYOUT_CHANGES


def _fold(problem: Problem) -> StrategySearch:
    """Folds the operand to a matrix of more and shorter rows before the layout changes; it stays a matrix."""
    volume = math.prod(problem.case.inputs[0])
    shapes = [(height, volume // height) for height in FOLDED_HEIGHTS if volume % height == 0]
    trials = [
        (rearranged(problem, replace(problem.case, inputs=(shape,))), f"operand and result are kept as {format_shape(shape)}")
        for shape in shapes
    ]
    return (yield from first_that_works(problem, trials, f"{volume:,} elements have no other matrix of complete tiles"))


# Apart ---------------------------------------------------------------------------------------------------------------------


def _can_stay_apart(problem: Problem) -> bool:
    return _overflows(problem) and len(problem.call.outputs) == 1


def _apart(problem: Problem) -> StrategySearch:
    """Leaves the pieces unjoined: the next operator must take several tensors."""
    reason = "no dim can be cut"
    for cut in cuts_of(problem):

        def trial(count: int, cut: Cut = cut) -> Trial:
            return _apart_trial(problem, cut, count)

        counted = yield from smallest_count(trial, cut.most)
        if counted.result is not None:
            return StrategyResult(
                counted.result, note=f"{counted.count} tensors, pieces along {cut.what} of the result, not joined"
            )
        reason = counted.reason
    return StrategyResult(None, reason)


def _apart_trial(problem: Problem, cut: Cut, count: int) -> Trial:
    how = {"axis": cut.axis, "count": count, "multiple": cut.multiple, "memory": cut.memory.value}
    sizes = [end - begin for begin, end in cut.stretches(count)]
    cases = [cut.axes.case_of(cut.case, {cut.axis: size}) for size in sizes]
    wanted = tuple(spec for case in cases for spec in problem.results_of(case))
    return replace(problem.trial(cut.case, RewriteName.PIECES_APART), params=how, wanted=wanted)


WIDE_REWRITES: Mapping[RewriteName, Rewrite] = {RewriteName.TURNED: turned, RewriteName.PIECES_APART: pieces_apart}

WIDE_STRATEGIES = (
    Strategy("dims permuted and back", Impact.REARRANGED, _can_turn, _turn),
    Strategy("folded to shorter rows", Impact.REARRANGED, _can_fold, _fold),
    Strategy("pieces, not joined", Impact.CHUNKED, _can_stay_apart, _apart),
)
