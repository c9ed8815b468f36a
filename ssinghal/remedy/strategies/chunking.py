"""Splits a call into pieces whose results are joined: along which axis, and into how many."""

from __future__ import annotations

import math
from collections.abc import Generator
from dataclasses import dataclass, replace

from ssinghal.core.case import Case
from ssinghal.core.tensors import MAX_RANK, TILE_EDGE, BufferType, Layout, ceil_div
from ssinghal.core.verdict import Resource
from ssinghal.errors import InvalidCase
from ssinghal.operators.binding import BoundCall, bind
from ssinghal.operators.dim_rule import Axes
from ssinghal.operators.dims import axes_of
from ssinghal.remedy.config_changes import without_program
from ssinghal.remedy.problem import Problem
from ssinghal.remedy.rewrites import cuts, piece_case
from ssinghal.remedy.strategies.count_search import smallest_count
from ssinghal.remedy.strategies.strategy import Strategy, StrategyResult, StrategySearch, why_not
from ssinghal.remedy.trial import Impact, RewriteName, Trial, TrialResult

MAX_PIECES = 1024
MAX_AXES = 4
MORE_PIECES = 4  # times as many are tried where pieces fit and their join does not; with more it would not fit either


@dataclass(frozen=True)
class Cut:
    """A way to cut a call: along ``axis``, by multiples of ``multiple`` so that tiles stay complete. Pieces run in
    ``memory``."""

    case: Case
    axes: Axes
    axis: int
    multiple: int
    memory: BufferType

    @property
    def most(self) -> int:
        """The largest number of pieces."""
        return min(ceil_div(self.axes.units[self.axis], self.multiple), MAX_PIECES)

    def stretches(self, count: int) -> list[tuple[int, int]]:
        return cuts(self.axes.units[self.axis], count, self.multiple)

    def piece(self, count: int) -> Case:
        """Returns the largest of ``count`` pieces as a separate call."""
        begin, end = self.stretches(count)[0]
        return piece_case(self.case, self.axes, self.axis, end - begin, self.memory)

    def trial(self, problem: Problem, count: int) -> Trial:
        cut = {"axis": self.axis, "count": count, "multiple": self.multiple, "memory": self.memory.value}
        return replace(problem.trial(self.case, RewriteName.PIECES), params=cut)

    def first_piece(self, problem: Problem, count: int) -> Trial:
        """Returns a trial of the largest of ``count`` pieces, run like all of them."""
        dram = replace(self.piece(count), placement=self.case.placement)
        wanted = problem.results_of(dram)
        return replace(self.trial(problem, count), rewrite=RewriteName.ONE_PIECE, wanted=wanted)

    @property
    def what(self) -> str:
        """The dim of the result that is cut."""
        return f"dim {next(i for i, dim in enumerate(self.axes.results[0]) if dim is not None and dim[0] == self.axis)}"


def _multiple(axes: Axes, axis: int, call: BoundCall) -> int:
    """Returns the multiple of units at which pieces start with complete tiles: 1 unless the axis is one of the last two
    dims of a tensor in tiles, or the last of one in rows, and there a unit does not fill tiles."""
    tensors = [*zip(axes.placed, call.inputs, strict=True), *zip(axes.results, call.outputs, strict=True)]
    near = [dim for dims, spec in tensors for dim in dims[-2 if spec.layout is Layout.TILE else -1 :]]
    steps = (dim[1] for dim in near if dim is not None and dim[0] == axis)
    return math.lcm(*(TILE_EDGE // math.gcd(TILE_EDGE, step) for step in steps))


def cuts_of(problem: Problem) -> list[Cut]:
    """Returns the cuts along every axis; for program buffers the last dim comes first, else dims outside the last two."""
    case = problem.in_dram()
    case = without_program(case) or case  # which belongs to the size of the complete call
    call = bind(case, problem.board)
    axes = axes_of(call)
    if axes is None:
        return []
    every = (Cut(case, axes, axis, _multiple(axes, axis, call), problem.memory) for axis in axes.units)
    useful = [cut for cut in every if cut.most > 1]
    if problem.verdict.resource is Resource.CIRCULAR_BUFFER:
        return sorted(useful, key=lambda cut: (-_nearness(cut), -cut.most))[:MAX_AXES]
    return sorted(useful, key=lambda cut: (cut.multiple, -cut.most))[:MAX_AXES]


def _nearness(cut: Cut) -> int:
    """Returns how near the axis is to the end of the operands' shapes; smallest where only the result has it."""
    places = [i - len(dims) for dims in cut.axes.placed for i, dim in enumerate(dims) if dim is not None and dim[0] == cut.axis]
    return max(places, default=-MAX_RANK)


def _join_exceeds(problem: Problem) -> str:
    """Returns the proof that DRAM cannot hold the pieces together with their join; empty where it can."""
    inputs, outputs = problem.call.specs()
    specs = [replace(s, memory=replace(s.memory, buffer=BufferType.DRAM, shard=None)) for s in (*inputs, *outputs, *outputs)]
    need = problem.held(specs, BufferType.DRAM)
    bank = problem.bank_bytes(BufferType.DRAM)
    if need <= bank:
        return ""
    return f"operands, pieces and their join take {need:,} B of each DRAM bank of {bank:,} B"


def _in_pieces(problem: Problem) -> StrategySearch:
    if proof := _join_exceeds(problem):
        return StrategyResult(None, proof)
    reason = "no dim can be cut" if problem.call.inputs else "there is no operand to cut"
    for cut in cuts_of(problem):
        outcome = yield from _along(problem, cut)
        if outcome.result:
            return outcome
        reason = f"along {cut.what}: {outcome.reason}"
    return StrategyResult(None, reason)


def _along(problem: Problem, cut: Cut) -> StrategySearch:
    """Finds the smallest count whose pieces fit: doubles the first that arithmetic does not rule out until a piece fits, then
    bisects. From there on it runs all pieces, as their join takes memory too."""
    if reason := _ruled_out(problem, cut, cut.most):
        return StrategyResult(None, f"even {cut.most:,} pieces: {reason}")
    count = _fewest_possible(problem, cut)
    too_few = count - 1
    while failed := (yield from _piece_fails(problem, cut, count)):
        if count >= cut.most:
            return StrategyResult(None, f"even {count:,} pieces: {failed}")
        too_few, count = count, min(count * 2, cut.most)
    while count - too_few > 1:
        middle = (count + too_few) // 2
        if (yield from _piece_fails(problem, cut, middle)):
            too_few = middle
        else:
            count = middle
    most = min(cut.most, MORE_PIECES * count)
    joined = yield from smallest_count(lambda n: cut.trial(problem, n), most, count, count - 1)
    if joined.result is None:
        return StrategyResult(None, f"each of {count:,} pieces fits, but not all together: {joined.reason}")
    where = "" if cut.memory is BufferType.DRAM else ", each computed in L1; operands and result in DRAM"
    pieces = len(cut.stretches(joined.count))
    return StrategyResult(joined.result, note=f"{pieces:,} pieces along {cut.what} of the result{where}")


def _fewest_possible(problem: Problem, cut: Cut) -> int:
    """Bisects for the smallest count that arithmetic does not rule out: smaller pieces never take more."""
    low, high = 1, cut.most
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if _ruled_out(problem, cut, middle) else (low, middle)
    return high


def _ruled_out(problem: Problem, cut: Cut, count: int) -> str:
    """Returns why the largest piece cannot fit in the memory in which it runs; empty where it can. Operands that are not cut
    stay in place."""
    try:
        estimated = problem.estimate(cut.piece(count))
    except InvalidCase as error:
        return str(error)
    uncut = {f"input {i}" for i, dims in enumerate(cut.axes.placed, 1) if all(d is None or d[0] != cut.axis for d in dims)}
    cut_tensors = [a for a in estimated.allocations if a.spec.memory.buffer is cut.memory and a.label not in uncut]
    need = sum(a.booked_bytes_per_bank for a in cut_tensors)
    bank = problem.bank_bytes(cut.memory)
    if need <= bank:
        return ""
    return f"a piece's tensors take {need:,} B of each {str(cut.memory).upper()} bank, which has {bank:,} B"


def _piece_fails(problem: Problem, cut: Cut, count: int) -> Generator[Trial, TrialResult, str]:
    """Tries the largest piece and returns why it does not fit; empty where it does."""
    if reason := _ruled_out(problem, cut, count):
        return reason
    result = yield cut.first_piece(problem, count)
    return "" if result.works else why_not(result)


CHUNKS = Strategy("pieces", Impact.CHUNKED, lambda problem: bool(problem.call.inputs), _in_pieces)
