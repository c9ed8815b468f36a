"""Strategies that change the form of a call's tensors: layout, order and shape of the dims, dtype."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

from ssinghal.core.case import Case
from ssinghal.core.tensors import (
    TILE_EDGE,
    DType,
    Layout,
    Shape,
    format_shape,
)
from ssinghal.errors import InvalidCase
from ssinghal.operators import named
from ssinghal.operators.binding import bind
from ssinghal.operators.operator_info import SAME_DTYPE, WEIGHTS_DTYPE, weights_dtype
from ssinghal.remedy.config_changes import stated_weights_dtype, with_weights_in
from ssinghal.remedy.placements import NARROWER, narrowed, narrowed_operands
from ssinghal.remedy.problem import Problem
from ssinghal.remedy.strategies.placement import is_elementwise, is_in_l1
from ssinghal.remedy.strategies.strategy import HOST_TILES, Strategy, StrategyResult, StrategySearch, first_that_works, once
from ssinghal.remedy.trial import Impact, Trial

WIDTHS = (1024, 512, 256, 128, 64, TILE_EDGE)  # of a matrix that holds the elements of a tensor
LAYOUT_CHANGES = named("to_layout tilize untilize")


def _is_tiled(problem: Problem) -> bool:
    """Whether the operands are in tiles and could be row-major, which is not so where the call changes the layout."""
    changes_layout = problem.info.name in LAYOUT_CHANGES
    return problem.case.placement.layout is Layout.TILE and Layout.ROW_MAJOR in problem.info.layouts and not changes_layout


def _is_tiled_in_l1(problem: Problem) -> bool:
    return _is_tiled(problem) and is_in_l1(problem)


def _row_major(problem: Problem) -> StrategySearch:
    return (yield from once(problem, problem.trial(problem.placed(layout=Layout.ROW_MAJOR))))


def _row_major_in_dram(problem: Problem) -> StrategySearch:
    dram = problem.in_dram()
    if not problem.ruled_out(dram) and bind(dram, problem.board).host_tiles <= HOST_TILES:
        return StrategyResult(None, "no gain: tiles fit into DRAM as well")
    return (yield from once(problem, problem.trial(problem.placed(problem.in_dram(), layout=Layout.ROW_MAJOR))))


def _is_map(problem: Problem) -> bool:
    """Whether an elementwise call has maps that were placed channels last."""
    return problem.channels_last and is_elementwise(problem) and any(len(s) == 4 for s in problem.case.inputs)


def _channels_first(problem: Problem) -> StrategySearch:
    case = replace(problem.case, inputs=tuple((s[0], s[3], s[1], s[2]) if len(s) == 4 else s for s in problem.case.inputs))
    note = "every map as [N, C, H, W], and so is the result"
    return (yield from once(problem, rearranged(problem, case, (0, 3, 1, 2)), note))


def rearranged(problem: Problem, case: Case, order: tuple[int, ...] = ()) -> Trial:
    """Returns a trial of ``case``, whose operands are the problem's: with dims permuted by ``order``, or reshaped."""
    return replace(problem.trial(case), params={"original": problem.case, "order": order})


def _is_flat(problem: Problem) -> bool:
    shapes = {s.shape for s in (*problem.call.inputs, *problem.call.outputs)}
    return is_elementwise(problem) and len(shapes) == 1 and len(problem.call.outputs) == 1


def _as_matrix(problem: Problem) -> StrategySearch:
    """Uses [volume / w, w], which pads no dim."""
    volume = math.prod(problem.case.inputs[0])
    shapes = [(volume // width, width) for width in WIDTHS if volume % (width * TILE_EDGE) == 0]
    cases = [replace(problem.case, inputs=tuple(shape for _ in problem.case.inputs)) for shape in shapes]
    if cases and _bytes(problem, cases[0]) >= _bytes(problem, problem.case):
        return StrategyResult(None, "a matrix would not take less")
    notes = [f"operands and result are created and kept as {format_shape(shape)}" for shape in shapes]
    trials = [(rearranged(problem, case), note) for case, note in zip(cases, notes, strict=True)]
    return (yield from first_that_works(problem, trials, f"{volume:,} elements are no matrix of complete tiles"))


def _bytes(problem: Problem, case: Case) -> int:
    return sum(spec.allocated_bytes(problem.board) for spec in problem.results_of(case))


VIEWS = named("view unsqueeze flatten unflatten squeeze")


def _adds_small_dims(problem: Problem) -> bool:
    """Whether it is a reshape whose result ends in small dims, each of which tiles pad to 32."""
    shape = problem.call.outputs[0].shape if problem.call.outputs else ()
    return problem.info.name in VIEWS and any(s < TILE_EDGE for s in shape[-2:])


def _other_shapes(problem: Problem) -> Iterator[tuple[Shape, str]]:
    shape = problem.call.outputs[0].shape
    if 1 in shape[-2:]:
        yield (*(s for s in shape if s == 1), *(s for s in shape if s != 1)), "dims of size 1 in front"
    volume = math.prod(shape)
    for width in WIDTHS:
        if volume % (width * TILE_EDGE) == 0:
            yield (volume // width, width), "as a matrix of complete tiles"
            return


def _other_view(problem: Problem) -> StrategySearch:
    trials = []
    for shape, note in _other_shapes(problem):
        case = replace(problem.case, operator="view", name="view", attrs={**problem.settings, "size": list(shape)})
        if _bytes(problem, case) < _bytes(problem, problem.case):
            trials.append((rearranged(problem, case), f"the result is kept as {format_shape(shape)}: {note}"))
    return (yield from first_that_works(problem, trials, "no other shape of these elements pads less"))


def _can_narrow(problem: Problem) -> bool:
    return _widest(problem.case) in NARROWER and not problem.info.traits.indices


def _widest(case: Case) -> DType:
    """Returns the dtype of the call, or the widest floating-point one that an operand has."""
    dtypes = [case.placement.dtype, *(own.dtype for own in case.placement.operands if own.dtype is not None)]
    return max((d for d in dtypes if d in NARROWER), key=lambda d: d.tile_bytes, default=case.placement.dtype)


def _narrower(problem: Problem) -> StrategySearch:
    """Tries the widest dtype first: for the weights alone, where the call has a dtype for them, then for all of its tensors."""
    reasons: list[str] = []
    for case, note in _narrowed(problem):
        if declared := next(bind(case).limitations(problem.board), None):
            reasons.append(f"{note}: {declared.reason}")
            continue
        try:
            trial = problem.trial(case)
        except InvalidCase as error:
            reasons.append(f"{note}: {error}")
            continue
        outcome = yield from once(problem, trial, note)
        if outcome.result:
            return outcome
        reasons.append(f"{note}: {outcome.reason}")
    return StrategyResult(None, "; ".join(reasons))


def _narrowed(problem: Problem) -> Iterator[tuple[Case, str]]:
    """Yields the call in each narrower dtype, with what is in it."""
    case = problem.case
    has_weights = problem.info.attrs.get(WEIGHTS_DTYPE) is SAME_DTYPE
    own = [position for position in problem.info.traits.weights if case.placement.operand(position).dtype is not None]
    stored = weights_dtype(case.placement.dtype, problem.call.attrs) if has_weights and not own else None
    stored = stated_weights_dtype(case) or stored
    for dtype in NARROWER[_widest(case)]:
        if stored is not None and dtype.tile_bytes < stored.tile_bytes:
            yield with_weights_in(case, dtype), f"weights in {dtype}"
        if own and (weights := narrowed_operands(case.placement, own, dtype)) != case.placement:
            yield replace(case, placement=weights), f"weights in {dtype}"
        plain = {name: value for name, value in case.attrs.items() if name != WEIGHTS_DTYPE}
        narrow = narrowed(case.placement, dtype)
        yield replace(case, attrs=plain, placement=narrow), f"operands and result in {dtype}"


ROW_MAJOR = Strategy("row-major layout", Impact.LAYOUT, _is_tiled, _row_major)
ROW_MAJOR_IN_DRAM = Strategy("row-major layout in DRAM", Impact.LAYOUT, _is_tiled_in_l1, _row_major_in_dram)
CHANNELS_FIRST = Strategy("channels first", Impact.REARRANGED, _is_map, _channels_first)
AS_MATRIX = Strategy("as a matrix", Impact.REARRANGED, _is_flat, _as_matrix)
OTHER_VIEW = Strategy("another shape of the result", Impact.REARRANGED, _adds_small_dims, _other_view)
NARROWER_DTYPE = Strategy("narrower dtype", Impact.DTYPE, _can_narrow, _narrower)
