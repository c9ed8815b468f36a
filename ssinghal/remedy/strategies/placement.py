"""Strategies that change where and how the tensors of a call are placed, in the order in which they are tried.

A strategy's search is a generator: it yields trials, receives their results, and returns its own. Arithmetic comes first: a
change that cannot fit is rejected, with the reason, without a trial.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass, replace

from ssinghal.core.boards import current_boards, load_board
from ssinghal.core.case import Case, OutputMemory
from ssinghal.core.memory_config import Sharding
from ssinghal.core.record import Prediction, Resource, Status, sentence
from ssinghal.core.tensors import (
    TILE_EDGE,
    Board,
    BufferType,
    DType,
    Layout,
    Shape,
    ceil_div,
    format_bytes,
    format_shape,
    round_up,
)
from ssinghal.errors import InvalidCase
from ssinghal.estimation.estimator import estimate
from ssinghal.operators import families, named
from ssinghal.operators.binding import bind
from ssinghal.operators.operator_info import SAME_DTYPE, WEIGHTS_DTYPE, weights_dtype
from ssinghal.remedy.config_changes import PROGRAM_CONFIG, stated_weights_dtype, with_weights_in, without_program
from ssinghal.remedy.placements import NARROWER, narrowed, narrowed_operands
from ssinghal.remedy.problem import Problem
from ssinghal.remedy.trial import Impact, LiveSet, Resident, RewriteName, Trial, TrialResult


@dataclass(frozen=True)
class StrategyResult:
    """``result``: of the trial that works; None where none does, for ``reason``. ``note``: explains the change."""

    result: TrialResult | None
    reason: str = ""
    note: str = ""


HOST_TILES = 40_000  # TTNN maps so many in about a second
WIDTHS = (1024, 512, 256, 128, 64, TILE_EDGE)  # of a matrix that holds the elements of a tensor
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


# The same tensor ----------------------------------------------------------------------------------------------------------


def _is_elementwise(problem: Problem) -> bool:
    return problem.info in families()["elementwise"]


IN_PLACE = named("softmax")  # alongside the elementwise family
NOT_IN_PLACE = named("clone")  # the one elementwise function that takes no ``output_tensor``


def _can_be_in_place(problem: Problem) -> bool:
    inputs, outputs = problem.call.specs()
    same_spec = len(outputs) == 1 and bool(inputs) and inputs[0] == outputs[0]
    is_already = problem.info.traits.in_place or problem.info.name in NOT_IN_PLACE
    return same_spec and not is_already and (_is_elementwise(problem) or problem.info.name in IN_PLACE)


def _in_place(problem: Problem) -> StrategySearch:
    if problem.info.name in IN_PLACE and problem.settings:
        return StrategyResult(None, f"not tried: the call in place would not take its {', '.join(problem.settings)}")
    need, bank = problem.held(problem.call.inputs, problem.memory), problem.bank_bytes(problem.memory)
    if need > bank:
        return StrategyResult(
            None, f"its operands alone take {need:,} B of each {str(problem.memory).upper()} bank of {bank:,} B"
        )
    result = yield problem.trial(rewrite=RewriteName.IN_PLACE)
    note = "the first operand is overwritten: only where nothing needs it afterwards"
    return StrategyResult(result, note=note) if result.works else StrategyResult(None, why_not(result))


def _wants_l1(problem: Problem) -> bool:
    return bool(problem.call.outputs) and problem.memory is BufferType.L1 and problem.result_memory in (None, BufferType.L1)


def _operands_from_dram(problem: Problem) -> StrategySearch:
    """Leaves only the result in L1. Convolutions and pools then slice their work themselves."""
    if proof := problem.results_beyond(BufferType.L1):
        return StrategyResult(None, proof)
    shard = problem.call.outputs[0].memory.shard
    case = problem.placed(
        problem.in_dram(), output_memory=OutputMemory.L1, output_sharding=Sharding.of(shard) if shard else None
    )
    trial = problem.trial(case)
    if any(spec.memory.buffer is not BufferType.L1 for spec in trial.wanted):
        return StrategyResult(None, f"{problem.info.ttnn} puts its result where its operand is, and takes no other memory")
    note = "the operands are created in DRAM; the result stays in L1"
    return (yield from once(problem, replace(trial, any_memory=False), note))


def _has_residents(problem: Problem) -> bool:
    return any(r.memory is BufferType.L1 and not r.freed for r in problem.live)


def _spill(problem: Problem) -> StrategySearch:
    for back in (True, False):
        result = yield problem.trial(rewrite=RewriteName.SPILLED, back=back)
        if result.works:
            how = "for the call" if back else "and stay there"
            return StrategyResult(result, note=f"other buffers in L1 move to DRAM {how}")
    return StrategyResult(None, why_not(result))


def _free_residents(problem: Problem) -> StrategySearch:
    """Finds how much of the other buffers may stay, to a 64th of them or a KiB; the rest must be freed before the call."""
    memory = _memory_that_ran_out(problem)
    held = sum(r.bytes_per_bank for r in problem.live if r.memory is memory and not r.freed)
    if not held:
        return StrategyResult(None, "there are no other buffers in it")
    fits: TrialResult | None = None
    low, high = 0, held  # bytes that stay
    while fits is None or high - low > max(held // 64, 1024):
        stays = low if fits is None else (low + high) // 2
        result = yield problem.trial(live=_shrunk(problem.live, memory, stays, held))
        if result.works:
            fits, low = result, stays
        elif fits is None:
            return StrategyResult(None, f"it does not fit without other buffers either: {why_not(result)}")
        else:
            high = stays
    return StrategyResult(
        fits, note=f"free {format_bytes(held - low)} per {str(memory).upper()} bank of other buffers before the call"
    )


def _memory_that_ran_out(problem: Problem) -> BufferType:
    """Returns the memory that ran out (L1 for program buffers), or one that holds other buffers."""
    ran_out = BufferType.DRAM if problem.verdict.resource is Resource.DRAM_BUFFER else BufferType.L1
    occupied = [r.memory for r in problem.live if not r.freed]
    return ran_out if ran_out in occupied else occupied[0]


def _shrunk(live: LiveSet, memory: BufferType, stays: int, held: int) -> LiveSet:
    return tuple(
        r if r.memory is not memory or r.freed else replace(r, bytes_per_bank=r.bytes_per_bank * stays // held) for r in live
    )


def _is_fragmented(problem: Problem) -> bool:
    return bool(problem.live) and problem.verdict.resource is Resource.FRAGMENTATION


def _reallocate(problem: Problem) -> StrategySearch:
    result = yield problem.trial(rewrite=RewriteName.REALLOCATED)
    if not result.works:
        return StrategyResult(None, why_not(result))
    return StrategyResult(result, note="each of the other buffers is moved once")


def _l1_small(problem: Problem) -> StrategySearch:
    """Finds the smallest region that suffices, to the allocator's granule."""
    granule = problem.board.granule_bytes
    low = problem.case.placement.l1_small_bytes or 0
    high = max(round_up(low + (problem.verdict.bytes_per_bank or granule), granule), granule)
    limit = problem.board.l1.bank_bytes // 2
    best: TrialResult | None = None
    while best is None and high <= limit:
        result = yield problem.trial(problem.placed(l1_small_bytes=high))
        if result.works:
            best = result
        elif result.verdict.resource is not Resource.L1_SMALL_BUFFER:
            return StrategyResult(None, f"l1_small_size={high:,} suffices, but then: {why_not(result)}")
        else:
            low, high = high, high * 2
    if best is None:
        return StrategyResult(None, f"half of L1 as L1_SMALL ({limit:,} B) does not suffice")
    while high - low > granule:
        middle = round_up((low + high) // 2, granule)
        if middle == high:
            break
        result = yield problem.trial(problem.placed(l1_small_bytes=middle))
        if result.works:
            best, high = result, middle
        else:
            low = middle
    note = (
        f"open the device with l1_small_size={high}, the smallest for this call alone, in steps of {granule} B; calls whose"
        " programs stay in the cache add up; 32,768 was enough for every measured call"
    )
    return StrategyResult(best, note=note)


def _can_shrink_region(problem: Problem) -> bool:
    """The region takes room from L1: tensors start lower, and program buffers run into them."""
    in_l1 = problem.verdict.resource in (Resource.CLASH, Resource.L1_BUFFER)
    return in_l1 and bool(problem.case.placement.l1_small_bytes)


def _smaller_region(problem: Problem) -> StrategySearch:
    """Halves the region until the call works, as long as the region suffices."""
    size, granule, reason = problem.case.placement.l1_small_bytes or 0, problem.board.granule_bytes, ""
    missing = problem.verdict.shortfall_bytes
    if missing is not None and missing > size:
        return StrategyResult(None, f"{missing:,} B are missing, and the region has only {size:,} B")
    while size > granule:
        size = round_up(size // 2, granule)
        result = yield problem.trial(problem.placed(l1_small_bytes=size))
        if result.works:
            return StrategyResult(result, note=f"open the device with l1_small_size={size}: L1 gains the rest of the region")
        reason = f"l1_small_size {size:,}: {why_not(result)}"
        if result.verdict.resource is Resource.L1_SMALL_BUFFER:
            break
    return StrategyResult(None, reason)


# Other memory, other layout ---------------------------------------------------------------------------------------------


def _is_in_l1(problem: Problem) -> bool:
    return problem.memory is BufferType.L1


def _all_in_dram(problem: Problem) -> StrategySearch:
    return (yield from once(problem, problem.trial(problem.in_dram())))


def _result_in_dram(problem: Problem) -> StrategySearch:
    case = problem.placed(output_memory=OutputMemory.DRAM, output_sharding=None)
    return (yield from once(problem, problem.trial(case), "the operands stay in L1"))


LAYOUT_CHANGES = named("to_layout tilize untilize")


def _is_tiled(problem: Problem) -> bool:
    """Whether the operands are in tiles and could be row-major, which is not so where the call changes the layout."""
    changes_layout = problem.info.name in LAYOUT_CHANGES
    return problem.case.placement.layout is Layout.TILE and Layout.ROW_MAJOR in problem.info.layouts and not changes_layout


def _row_major(problem: Problem) -> StrategySearch:
    return (yield from once(problem, problem.trial(problem.placed(layout=Layout.ROW_MAJOR))))


def _row_major_in_dram(problem: Problem) -> StrategySearch:
    dram = problem.in_dram()
    if not problem.ruled_out(dram) and bind(dram, problem.board).host_tiles <= HOST_TILES:
        return StrategyResult(None, "no gain: tiles fit into DRAM as well")
    return (yield from once(problem, problem.trial(problem.placed(problem.in_dram(), layout=Layout.ROW_MAJOR))))


# Re-arranged ------------------------------------------------------------------------------------------------------------


def _is_map(problem: Problem) -> bool:
    """Whether an elementwise call has maps that were placed channels last."""
    return problem.channels_last and _is_elementwise(problem) and any(len(s) == 4 for s in problem.case.inputs)


def _channels_first(problem: Problem) -> StrategySearch:
    case = replace(problem.case, inputs=tuple((s[0], s[3], s[1], s[2]) if len(s) == 4 else s for s in problem.case.inputs))
    note = "every map as [N, C, H, W], and so is the result"
    return (yield from once(problem, rearranged(problem, case, (0, 3, 1, 2)), note))


def rearranged(problem: Problem, case: Case, order: tuple[int, ...] = ()) -> Trial:
    """Returns a trial of ``case``, whose operands are the problem's: with dims permuted by ``order``, or reshaped."""
    return replace(problem.trial(case), params={"original": problem.case, "order": order})


def _is_flat(problem: Problem) -> bool:
    shapes = {s.shape for s in (*problem.call.inputs, *problem.call.outputs)}
    return _is_elementwise(problem) and len(shapes) == 1 and len(problem.call.outputs) == 1


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


# Other dtype, other board ------------------------------------------------------------------------------------------------


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


def _always(problem: Problem) -> bool:
    return True


def placement_strategies() -> tuple[Strategy, ...]:
    """Returns the strategies that change the placement of operands or of other buffers, in order within each impact."""
    return (
        Strategy("reallocate live buffers", Impact.SAME, _is_fragmented, _reallocate),
        Strategy("in place", Impact.SAME, _can_be_in_place, _in_place),
        Strategy("spill live buffers to DRAM", Impact.SAME, _has_residents, _spill),
        Strategy("a smaller L1_SMALL region", Impact.SAME, _can_shrink_region, _smaller_region),
        Strategy("free dead buffers", Impact.SAME, lambda p: any(not r.freed for r in p.live), _free_residents),
        Strategy("operands from DRAM", Impact.SAME, _wants_l1, _operands_from_dram),
        Strategy("all in DRAM", Impact.MEMORY, _is_in_l1, _all_in_dram),
        Strategy("result in DRAM", Impact.MEMORY, _is_in_l1, _result_in_dram),
        Strategy("row-major layout", Impact.LAYOUT, _is_tiled, _row_major),
        Strategy("row-major layout in DRAM", Impact.LAYOUT, lambda p: _is_tiled(p) and _is_in_l1(p), _row_major_in_dram),
        Strategy("channels first", Impact.REARRANGED, _is_map, _channels_first),
        Strategy("as a matrix", Impact.REARRANGED, _is_flat, _as_matrix),
        Strategy("another shape of the result", Impact.REARRANGED, _adds_small_dims, _other_view),
        Strategy("narrower dtype", Impact.DTYPE, _can_narrow, _narrower),
        Strategy("a newer release", Impact.ELSEWHERE, lambda p: bool(p.newer), _newer_release),
        Strategy("another board", Impact.ELSEWHERE, _always, _other_board),
    )


L1_SMALL = Strategy("l1_small_size", Impact.SAME, _always, _l1_small)
