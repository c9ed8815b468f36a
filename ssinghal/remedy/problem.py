"""A call that does not fit, with all that arithmetic knows of it. Imports neither torch nor ttnn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from ssinghal.core.case import Case, OutputMemory
from ssinghal.core.record import Prediction, Verdict
from ssinghal.core.tensors import Board, BufferType, TensorSpec, format_bytes
from ssinghal.errors import InvalidCase
from ssinghal.estimation.estimator import MemoryEstimate, estimate
from ssinghal.operators.binding import BoundCall, bind
from ssinghal.operators.dims import as_placed
from ssinghal.operators.operator_info import OperatorInfo
from ssinghal.remedy.trial import LiveSet, RewriteName, Trial


@dataclass(frozen=True)
class Problem:
    """``call``: its inputs are written as they are placed. ``verdict``: how it fails on ``board``, as that is opened for it,
    alongside ``live``. ``newer``: TTNN releases to try as well. ``trace_region_bytes``: the board is opened with it.
    ``channels_last``: maps were turned for the device."""

    call: BoundCall
    verdict: Verdict
    board: Board
    live: LiveSet
    newer: tuple[str, ...] = ()
    trace_region_bytes: int = 0
    channels_last: bool = False

    @classmethod
    def of(
        cls,
        case: Case,
        verdict: Verdict,
        board: Board,
        live: LiveSet = (),
        newer: tuple[str, ...] = (),
        trace_region_bytes: int = 0,
    ) -> Problem:
        """``board``: its banks less the trace region.

        Raises:
            InvalidCase: the call cannot be made at all, so that nothing can make it fit.
        """
        channels_last = bool(case.placement.channels_last)
        call = bind(as_placed(case))
        call.info.check_operands(call.case.inputs)
        for limitation in call.limitations(board):
            raise InvalidCase(f"TTNN cannot make the call: {limitation.reason}")
        call.specs()
        opened = board.with_l1_small(case.placement.l1_small_bytes or 0)
        return cls(call, verdict, opened, live, newer, trace_region_bytes, channels_last)

    @property
    def case(self) -> Case:
        return self.call.case

    @property
    def info(self) -> OperatorInfo:
        return self.call.info

    @property
    def memory(self) -> BufferType:
        return self.case.placement.memory

    def held(self, specs: Sequence[TensorSpec], memory: BufferType) -> int:
        """Bytes per bank of ``memory`` that tensors take together, as the allocator books them."""
        return sum(s.booked_bytes_per_bank(self.board) for s in specs if s.memory.buffer is memory)

    def bank_bytes(self, memory: BufferType) -> int:
        """Of one bank, what the live set leaves."""
        taken = sum(r.bytes_per_bank for r in self.live if r.memory is memory and not r.freed)
        return self.board.region(memory).bank_bytes - taken

    def results_beyond(self, memory: BufferType) -> str:
        """The proof that the results cannot be in ``memory`` whatever is done about the rest; empty where they can."""
        moved = [replace(s, memory=replace(s.memory, buffer=memory, shard=None)) for s in self.call.outputs]
        need, bank = self.held(moved, memory), self.bank_bytes(memory)
        if need <= bank:
            return ""
        what = "the result alone takes" if len(moved) == 1 else "the results alone take"
        return f"{what} {format_bytes(need)} of every {str(memory).upper()} bank, and one has {format_bytes(bank)}"

    def placed(self, case: Case | None = None, **placement: Any) -> Case:
        case = case or self.case
        return replace(case, placement=replace(case.placement, **placement))

    def in_dram(self, case: Case | None = None) -> Case:
        return self.placed(case, memory=BufferType.DRAM, output_memory=OutputMemory.SAME)

    def trial(
        self, case: Case | None = None, rewrite: RewriteName = RewriteName.CALL, live: LiveSet | None = None, **params: Any
    ) -> Trial:
        """A trial of ``case``, whose results must be what arithmetic says of it.

        Raises:
            InvalidCase: the changed call cannot be made.
        """
        case = case or self.case
        chosen = case.placement.output_config is None or self.info.traits.output_fixed
        beside = self.live if live is None else live
        return Trial(case, self.results_of(case), rewrite, params, beside, self.trace_region_bytes, any_memory=chosen)

    def results_of(self, case: Case) -> tuple[TensorSpec, ...]:
        call = bind(case)
        _ = call.inputs  # raises for those that no device holds
        return tuple(call.outputs)

    def estimate(self, case: Case) -> MemoryEstimate:
        return estimate(case, self.board)

    def ruled_out(self, case: Case) -> str:
        """Why arithmetic says that ``case`` does not fit, in words; empty where it does, or does not know."""
        try:
            made = self.estimate(case)
        except InvalidCase as error:
            return str(error)
        if made.verdict is not Prediction.EXCEEDS:
            return ""
        if made.bytes_per_bank is None:
            return f"its program buffers end at {made.program_end:,} B, beyond {made.limit_bytes:,} B"
        kind = str(made.resource.value).removesuffix("_buffer").upper() if made.resource else "a"
        free = made.free_bytes if made.free_bytes is not None else made.bank_bytes
        return f"{made.stage} needs {made.bytes_per_bank:,} B of each {kind} bank, {free:,} B are free"
