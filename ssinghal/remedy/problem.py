"""A call that does not fit, with all that arithmetic knows of it. Imports neither torch nor ttnn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from ssinghal.core.case import Case, OutputMemory
from ssinghal.core.record import Verdict
from ssinghal.core.tensors import Board, BufferType, TensorSpec, format_bytes
from ssinghal.errors import InvalidCase
from ssinghal.estimation.estimator import MemoryEstimate, Prediction, estimate
from ssinghal.operators import find_operator
from ssinghal.operators.dims import as_placed
from ssinghal.operators.operator_info import Attrs, OperatorInfo, input_specs, output_specs
from ssinghal.remedy.trial import LiveSet, Trial


@dataclass(frozen=True)
class Problem:
    """``case``: written as it is placed. ``verdict``: how it fails on ``board``, as that is opened for it, beside ``live``.
    ``newer``: TTNN releases that can be asked as well. ``trace_region_bytes``: the board is opened with it. ``channels_last``:
    maps were turned for the device."""

    case: Case
    verdict: Verdict
    board: Board
    live: LiveSet
    info: OperatorInfo
    attrs: Attrs
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
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
        case = as_placed(case)
        info = find_operator(case.operator)
        info.check_operands(case.inputs)
        attrs = info.complete_attrs(case.attrs)
        for limitation in info.limitations:
            if limitation.applies(info, case, attrs, board):
                raise InvalidCase(f"TTNN cannot make the call: {limitation.reason}")
        outputs = tuple(output_specs(info, case, attrs))
        inputs = tuple(input_specs(info, case, attrs))
        opened = board.with_l1_small(case.placement.l1_small_bytes or 0)
        return cls(case, verdict, opened, live, info, attrs, inputs, outputs, newer, trace_region_bytes, channels_last)

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
        moved = [replace(s, memory=replace(s.memory, buffer=memory, shard=None)) for s in self.outputs]
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

    def trial(self, case: Case | None = None, rewrite: str = "call", live: LiveSet | None = None, **params: Any) -> Trial:
        """A trial of ``case``, whose results must be what arithmetic says of it.

        Raises:
            InvalidCase: the changed call cannot be made.
        """
        case = case or self.case
        chosen = case.placement.output_config is None or self.info.traits.output_fixed
        beside = self.live if live is None else live
        return Trial(case, self.results_of(case), rewrite, params, beside, self.trace_region_bytes, any_memory=chosen)

    def results_of(self, case: Case) -> tuple[TensorSpec, ...]:
        self.operands_of(case)  # raises for those that no device holds
        info = find_operator(case.operator)
        return tuple(output_specs(info, case, info.complete_attrs(case.attrs)))

    def operands_of(self, case: Case) -> tuple[TensorSpec, ...]:
        info = find_operator(case.operator)
        return tuple(input_specs(info, case, info.complete_attrs(case.attrs)))

    def host_tiles(self, case: Case) -> int:
        """Tiles that TTNN maps on the host for the call, at 1 to 70 us each."""
        host_map = find_operator(case.operator).traits.host_map
        return host_map(self.operands_of(case), self.results_of(case)) if host_map else 0

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
