"""A call made in pieces whose results are joined: along which axis, and in how many. Imports neither torch nor ttnn."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, replace

from ssinghal.core.case import Case
from ssinghal.core.record import Resource
from ssinghal.core.tensors import MAX_RANK, TILE_EDGE, BufferType, ceil_div
from ssinghal.errors import InvalidCase
from ssinghal.operators.binding import bind
from ssinghal.operators.dim_rule import Axes, Dims
from ssinghal.operators.dims import axes_of
from ssinghal.remedy.problem import Problem
from ssinghal.remedy.rewrites import cuts, piece_case
from ssinghal.remedy.strategies.count_search import smallest_count
from ssinghal.remedy.strategies.placement import Strategy, StrategyResult, StrategySearch, said
from ssinghal.remedy.trial import Impact, RewriteName, Trial, TrialResult

MAX_PIECES = 1024
MAX_AXES = 4
MORE_PIECES = 4  # times as many where the joined whole does not fit: what fails then fails for the join, whatever the pieces


@dataclass(frozen=True)
class Cut:
    """One way to cut: ``multiple`` units of ``axis`` at a time, so that tiles stay whole; pieces are made in ``memory``."""

    case: Case
    axes: Axes
    axis: int
    multiple: int
    memory: BufferType

    @property
    def most(self) -> int:
        return min(ceil_div(self.axes.units[self.axis], self.multiple), MAX_PIECES)

    def stretches(self, count: int) -> list[tuple[int, int]]:
        return cuts(self.axes.units[self.axis], count, self.multiple)

    def piece(self, count: int) -> Case:
        """The largest of ``count`` pieces as a call by itself."""
        begin, end = self.stretches(count)[0]
        return piece_case(self.case, self.axes, self.axis, end - begin, self.memory)

    def trial(self, problem: Problem, count: int) -> Trial:
        cut = {"axis": self.axis, "count": count, "multiple": self.multiple, "memory": self.memory.value}
        return replace(problem.trial(self.case, RewriteName.PIECES), params=cut)

    def first_piece(self, problem: Problem, count: int) -> Trial:
        """The largest of ``count`` pieces, made as all of them are."""
        dram = replace(self.piece(count), placement=self.case.placement)
        wanted = problem.results_of(dram)
        return replace(self.trial(problem, count), rewrite=RewriteName.ONE_PIECE, wanted=wanted)

    @property
    def what(self) -> str:
        """The dim of the result that is cut."""
        return f"dim {next(i for i, dim in enumerate(self.axes.results[0]) if dim is not None and dim[0] == self.axis)}"


def _multiple(axes: Axes, axis: int) -> int:
    """Units after which a piece begins with a whole tile of every tensor: 1 unless the axis is among its last two dims."""
    tensors: list[Dims] = [*axes.placed, *axes.results]
    near = any(dim is not None and dim[0] == axis for dims in tensors for dim in dims[-2:])
    return TILE_EDGE if near else 1


def cuts_of(problem: Problem) -> list[Cut]:
    """Along every axis, whole tiles apart; for program buffers the last dim first, else those outside the last two."""
    case = problem.in_dram()
    axes = axes_of(bind(case))
    if axes is None:
        return []
    memory = problem.memory
    found = [Cut(case, axes, axis, _multiple(axes, axis), memory) for axis in axes.units]
    found = [cut for cut in found if cut.most > 1]
    if problem.verdict.resource is Resource.CIRCULAR_BUFFER:
        return sorted(found, key=lambda cut: (-_nearness(cut), -cut.most))[:MAX_AXES]
    return sorted(found, key=lambda cut: (cut.multiple, -cut.most))[:MAX_AXES]


def _nearness(cut: Cut) -> int:
    """How near to the end of the operands' shape the axis is; far where only the result has it."""
    places = [i - len(dims) for dims in cut.axes.placed for i, dim in enumerate(dims) if dim is not None and dim[0] == cut.axis]
    return max(places, default=-MAX_RANK)


def _whole_result_fits(problem: Problem) -> str:
    """Pieces are joined in DRAM, beside which the pieces still are. The proof that this is too much; else empty."""
    specs = [replace(s, memory=replace(s.memory, buffer=BufferType.DRAM, shard=None)) for s in problem.call.outputs]
    operands = [replace(s, memory=replace(s.memory, buffer=BufferType.DRAM, shard=None)) for s in problem.call.inputs]
    need = problem.held([*operands, *specs, *specs], BufferType.DRAM)
    bank = problem.bank_bytes(BufferType.DRAM)
    if need <= bank:
        return ""
    return f"operands, pieces and their join take {need:,} B of each DRAM bank of {bank:,} B"


def _in_pieces(problem: Problem) -> StrategySearch:
    if proof := _whole_result_fits(problem):
        return StrategyResult(None, proof)
    reason = "no dim can be cut" if problem.call.inputs else "it has no operand to cut"
    for cut in cuts_of(problem):
        found = yield from _along(problem, cut)
        if found.tried:
            return found
        reason = f"along {cut.what}: {found.reason}"
    return StrategyResult(None, reason)


def _along(problem: Problem, cut: Cut) -> StrategySearch:
    """The smallest count whose pieces fit by themselves: the first that arithmetic does not rule out, then doubled until one
    fits, then halved back. From there on the whole is run, for what is joined takes room as well."""
    if reason := _ruled_out(problem, cut, cut.most):
        return StrategyResult(None, f"even {cut.most:,} pieces: {reason}")
    count = _fewest_possible(problem, cut)
    refused = count - 1
    while failed := (yield from _piece_fails(problem, cut, count)):
        if count >= cut.most:
            return StrategyResult(None, f"even {count:,} pieces: {failed}")
        refused, count = count, min(count * 2, cut.most)
    while count - refused > 1:
        middle = (count + refused) // 2
        if (yield from _piece_fails(problem, cut, middle)):
            refused = middle
        else:
            count = middle
    most = min(cut.most, MORE_PIECES * count)
    whole = yield from smallest_count(lambda n: cut.trial(problem, n), most, count, count - 1)
    if whole.tried is None:
        return StrategyResult(None, f"{count:,} pieces fit, all together do not: {whole.reason}")
    where = "" if cut.memory is BufferType.DRAM else ", each made in L1; operands and result in DRAM"
    made = len(cut.stretches(whole.count))
    return StrategyResult(whole.tried, note=f"{made:,} pieces along {cut.what} of the result{where}")


def _fewest_possible(problem: Problem, cut: Cut) -> int:
    """The smallest count that arithmetic does not rule out, by bisection: smaller pieces take no more."""
    low, high = 1, cut.most
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if _ruled_out(problem, cut, middle) else (low, middle)
    return high


def _ruled_out(problem: Problem, cut: Cut, count: int) -> str:
    """Why the largest piece cannot fit: what is cut of its operands and its results, in the memory that it is made in. Operands
    that are not cut stay where the whole ones are."""
    try:
        made = problem.estimate(cut.piece(count))
    except InvalidCase as error:
        return str(error)
    apart = {f"input {i}" for i, dims in enumerate(cut.axes.placed, 1) if all(d is None or d[0] != cut.axis for d in dims)}
    need = sum(a.booked_bytes_per_bank for a in made.allocations if a.spec.memory.buffer is cut.memory and a.label not in apart)
    bank = problem.bank_bytes(cut.memory)
    if need <= bank:
        return ""
    return f"a piece's tensors take {need:,} B of each {str(cut.memory).upper()} bank, {bank:,} B are there"


def _piece_fails(problem: Problem, cut: Cut, count: int) -> Generator[Trial, TrialResult, str]:
    """Why the largest piece does not fit by itself, as it is made; empty where it does."""
    if reason := _ruled_out(problem, cut, count):
        return reason
    tried = yield cut.first_piece(problem, count)
    return "" if tried.works else said(tried)


CHUNKS = Strategy("pieces", Impact.CHUNKED, lambda problem: bool(problem.call.inputs), _in_pieces)
