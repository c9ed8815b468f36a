"""A call that does not fit, with what arithmetic knows of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ssinghal.core.case import Case
from ssinghal.core.estimate import Prediction
from ssinghal.core.tensors import Board, BufferType, TensorSpec, format_bytes
from ssinghal.core.verdict import Verdict
from ssinghal.errors import InvalidCase
from ssinghal.estimation.estimator import MemoryEstimate, estimate
from ssinghal.operators.binding import BoundCall, bind
from ssinghal.operators.dims import as_placed
from ssinghal.operators.operator_info import OperatorInfo
from ssinghal.remedy.placements import interleaved
from ssinghal.remedy.trial import LiveSet, RewriteName, Trial


@dataclass(frozen=True)
class Problem:
    """``call``: its inputs are written as they are placed. ``verdict``: how it fails on ``board``, opened with the call's
    regions, alongside ``live``. ``newer``: TTNN releases to try as well. ``trace_region_bytes``: the board is opened with it.
    ``channels_last``: maps were permuted for the device. Of operands that are cut over the chips of a mesh, it is the call that
    each chip makes on its part."""

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
        """Returns the problem of ``case``. ``board``: its banks less the trace region.

        Raises:
            InvalidCase: the call is invalid, so that no change can make it fit.
        """
        channels_last = bool(case.placement.channels_last)
        opened = board.with_l1_small(case.placement.l1_small_bytes or 0)
        call = bind(as_placed(bind(case, opened).on_chip), opened)
        call.info.check_operands(call.case.inputs)
        for limitation in call.limitations(board):
            raise InvalidCase(f"TTNN cannot make the call: {limitation.reason}")
        call.specs()
        return cls(call, verdict, opened, live, newer, trace_region_bytes, channels_last)

    @property
    def case(self) -> Case:
        return self.call.case

    @property
    def info(self) -> OperatorInfo:
        return self.call.info

    @property
    def memory(self) -> BufferType:
        """Of the operands; where they differ, L1 if a tensor of the call is in it."""
        if self.case.placement.is_plain:
            return self.case.placement.memory
        specs = (*self.call.inputs, *self.call.outputs)
        return BufferType.L1 if any(spec.memory.buffer is BufferType.L1 for spec in specs) else BufferType.DRAM

    @property
    def result_memory(self) -> BufferType | None:
        """Where the call wants its result; None where TTNN chooses."""
        config = self.case.placement.output_config
        if config is None or self.case.placement.is_plain or not self.call.outputs:
            return config.buffer if config else None
        return self.call.outputs[0].memory.buffer

    @property
    def is_sharded(self) -> bool:
        """Whether an operand or a result has shards."""
        return any(spec.memory.shard is not None for spec in (*self.call.inputs, *self.call.outputs))

    def held(self, specs: Sequence[TensorSpec], memory: BufferType) -> int:
        """Returns the bytes per bank of ``memory`` that tensors take together, as the allocator books them."""
        return sum(s.booked_bytes_per_bank(self.board) for s in specs if s.memory.buffer is memory)

    def bank_bytes(self, memory: BufferType) -> int:
        """Returns what the live set leaves of a bank."""
        taken = sum(r.bytes_per_bank for r in self.live if r.memory is memory and not r.freed)
        return self.board.region(memory).bank_bytes - taken

    def results_beyond(self, memory: BufferType) -> str:
        """Returns the proof that the results alone exceed ``memory``; empty where they do not."""
        moved = [replace(s, memory=replace(s.memory, buffer=memory, shard=None)) for s in self.call.outputs]
        need, bank = self.held(moved, memory), self.bank_bytes(memory)
        if need <= bank:
            return ""
        what = "the result alone takes" if len(moved) == 1 else "the results alone take"
        return f"{what} {format_bytes(need)} of every {str(memory).upper()} bank, which has {format_bytes(bank)}"

    def placed(self, case: Case | None = None, **placement: Any) -> Case:
        case = case or self.case
        return replace(case, placement=replace(case.placement, **placement))

    def in_dram(self, case: Case | None = None) -> Case:
        """Returns the call with all of its tensors interleaved in DRAM."""
        case = case or self.case
        return replace(case, placement=interleaved(case.placement, BufferType.DRAM))

    def trial(
        self, case: Case | None = None, rewrite: RewriteName = RewriteName.CALL, live: LiveSet | None = None, **params: Any
    ) -> Trial:
        """Returns a trial of ``case``, whose results must have the specs that arithmetic predicts.

        Raises:
            InvalidCase: the changed call is invalid.
        """
        case = case or self.case
        chosen = bind(case, self.board).is_output_open
        live = self.live if live is None else live
        return Trial(case, self.results_of(case), rewrite, params, live, self.trace_region_bytes, any_memory=chosen)

    @property
    def settings(self) -> Mapping[str, Any]:
        """The attributes of the call that are TTNN's settings, not the operator's own."""
        own = self.info.attrs
        return {name: value for name, value in self.case.attrs.items() if name not in own and value is not None}

    def without_settings(self, case: Case) -> Case:
        return replace(case, attrs={name: value for name, value in case.attrs.items() if name in self.info.attrs})

    def results_of(self, case: Case, board: Board | None = None) -> tuple[TensorSpec, ...]:
        call = bind(case, board or self.board)
        _, results = call.specs()  # raises InvalidCase for impossible operands and settings
        return tuple(results)

    def estimate(self, case: Case) -> MemoryEstimate:
        return estimate(case, self.board)

    def ruled_out(self, case: Case) -> str:
        """Returns why ``case`` does not fit by arithmetic; empty where it fits or is unknown."""
        try:
            estimated = self.estimate(case)
        except InvalidCase as error:
            return str(error)
        if estimated.verdict is not Prediction.EXCEEDS:
            return ""
        if estimated.bytes_per_bank is None:
            return f"its program buffers end at {estimated.program_end:,} B, beyond {estimated.limit_bytes:,} B"
        kind = str(estimated.resource.value).removesuffix("_buffer").upper() if estimated.resource else "a"
        free = estimated.free_bytes if estimated.free_bytes is not None else estimated.bank_bytes
        return f"{estimated.stage} needs {estimated.bytes_per_bank:,} B of each {kind} bank, {free:,} B are free"
