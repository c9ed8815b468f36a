"""Replays the call of a failure on a virtual device, with as much allocated as on the real one, and compares the numbers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from ssinghal.core.case import Case
from ssinghal.core.record import Resource, Status, Verdict, sentence
from ssinghal.core.tensors import Board, BufferType, round_up
from ssinghal.diagnose.fingerprint import memory_of
from ssinghal.diagnose.mlir_to_case import case_of
from ssinghal.diagnose.model import Operation
from ssinghal.errors import InvalidCase
from ssinghal.estimation.estimator import MemoryEstimate, estimate
from ssinghal.remedy.device_pools import DevicePools
from ssinghal.remedy.problem import Problem
from ssinghal.remedy.trial import LiveSet, Resident, TrialResult

NUMBERS = (
    "total_bytes", "banks", "bytes_per_bank", "bank_bytes", "allocated_bytes", "free_bytes", "largest_free_bytes",
    "program_bytes", "limit_bytes", "tensor_address", "cores",
)  # fmt: skip
AT_ADDRESS = ("program_bytes", "tensor_address")  # grow with the bytes that a build reserves; the rest of a bank shrinks
MAX_HOLES = 16


@dataclass(frozen=True)
class ComparedNumber:
    """A number of the message, as reported and as replayed (None where the replay's message lacks it)."""

    name: str
    reported: int | str
    replayed: int | str | None

    @property
    def equal(self) -> bool:
        return self.reported == self.replayed

    def __str__(self) -> str:
        name = self.name.replace("_", " ")
        if isinstance(self.reported, int) and isinstance(self.replayed, int):
            return f"{name} {self.replayed:,}, reported {self.reported:,} ({self.replayed - self.reported:+,})"
        return f"{name} {self.replayed}, reported {self.reported}"


@dataclass(frozen=True)
class Replay:
    """The result of the call on one board and release, with ``live`` allocated before.

    ``live_is_least``: the message does not show what was allocated, and with less the call would fit. ``numbers``: those of the
    reported message. ``later``: results of operations that never ran, tried where the call itself fits.
    """

    result: TrialResult
    reported: Verdict
    live: LiveSet
    numbers: tuple[ComparedNumber, ...]
    later: tuple[LaterOperation, ...] = ()
    live_is_least: bool = False

    @property
    def same_kind(self) -> bool:
        """Whether the replay ran out of the same resource as reported."""
        return self.result.verdict.status is Status.OOM and self.result.verdict.resource is self.reported.resource

    @property
    def same_numbers(self) -> bool:
        """Whether the replay failed with all numbers of the reported message."""
        return self.same_kind and all(number.equal for number in self.numbers)

    def outcome(self, bases: Sequence[int]) -> str:
        """Describes in a line whether it fails here, and with the same numbers. ``bases``: reserved by the report's builds."""
        verdict = self.result.verdict
        if verdict.status is Status.FITS:
            return "it fits"
        if not self.same_kind:
            return f"it ends differently: {verdict.status}, {sentence(verdict)}"
        if not self.numbers:
            return f"it fails in the same way, and the report has no numbers: {sentence(verdict)}"
        if self.same_numbers:
            return f"it fails with the same numbers, all {len(self.numbers)}"
        differing = [number for number in self.numbers if not number.equal]
        equal = f"{len(self.numbers) - len(differing)} of {len(self.numbers)} numbers equal"
        return f"it fails in the same way, {equal}: {'; '.join(map(str, differing))}{self._cause(differing, bases)}"

    def _cause(self, differing: Sequence[ComparedNumber], bases: Sequence[int]) -> str:
        """Names the reserved bases as the cause where all numbers differ by the difference of those."""
        here = self.result.reserved_base_bytes
        if here is None or not differing:
            return ""
        gaps = {
            number.replayed - number.reported if number.name in AT_ADDRESS else number.reported - number.replayed
            for number in differing
            if isinstance(number.replayed, int) and isinstance(number.reported, int)
        }
        for base in bases:
            if gaps == {here - base}:
                return f"; that is the difference of the reserved bases, {here:,} here and {base:,} B there"
        return ""

    def to_json(self) -> dict[str, Any]:
        """Returns the replay as plain values."""
        return {
            "board": self.result.board,
            "ttnn": self.result.ttnn,
            "device_mode": self.result.device_mode,
            "status": str(self.result.verdict.status),
            "says": sentence(self.result.verdict) if self.result.verdict.status is not Status.FITS else "",
            "same_kind": self.same_kind,
            "same_figures": self.same_numbers,
            "figures": [asdict(number) | {"equal": number.equal} for number in self.numbers],
            "live": [{"memory": str(r.memory), "bytes_per_bank": r.bytes_per_bank, "freed": r.freed} for r in self.live],
            "live_is_least": self.live_is_least,
            "later": [later.to_json() for later in self.later],
            "code": list(self.result.code),
        }


@dataclass(frozen=True)
class LaterOperation:
    """The result of an operation that never ran in the log: ``verdict``, or ``why_not`` it was tried."""

    operation: Operation
    verdict: Verdict | None = None
    why_not: str = ""

    def line(self) -> str:
        results = ", ".join(value.name for value in self.operation.results)
        name = f"{results} {self.operation.name}" if results else self.operation.name
        if self.verdict is None:
            return f"{name}: not tried ({self.why_not})"
        return f"{name}: {'fits' if self.verdict.status is Status.FITS else sentence(self.verdict)}"

    def to_json(self) -> dict[str, Any]:
        status = str(self.verdict.status) if self.verdict else "not_run"
        return {"operation": self.operation.name, "line": self.operation.line, "status": status, "text": self.line()}


def replay(
    case: Case,
    reported: Verdict,
    pools: DevicePools,
    release: str = "",
    live: LiveSet | None = None,
    trace_region_bytes: int = 0,
) -> Replay:
    """Runs ``case`` on the board of ``pools`` with ``release`` (their own where empty).

    ``live``: buffers allocated before it. Without them the call first runs alone, which shows what it takes by itself, and then
    with the buffers that the message implies.

    Raises:
        InvalidCase: the call cannot be made at all.
    """
    board = pools.board_of(release, trace_region_bytes)
    problem = Problem.of(case, reported, board, trace_region_bytes=trace_region_bytes)

    def replay_with(residents: LiveSet) -> Replay:
        result = pools.run(pools.on(release, problem.trial(live=residents)))
        return Replay(result, reported, residents, tuple(_numbers(reported, result.verdict)))

    if live is not None:
        return replay_with(live)
    alone = replay_with(())
    if alone.same_numbers:
        return alone
    replays: list[Replay] = []
    for residents in implied_live_sets(reported, problem.case, problem.board, alone.result.verdict):
        replays.append(replay_with(residents))
        if replays[-1].same_numbers:
            return replays[-1]
    if replays and reported.resource is not Resource.CLASH:  # in a clash, the call's own tensors may reach as low as live ones
        return max(replays, key=lambda replayed: sum(number.equal for number in replayed.numbers))
    least = least_live_set(reported, problem.case, problem.board) if alone.result.works else ()
    return replace(replay_with(least), live_is_least=True) if least else alone


def replay_later(operations: Sequence[Operation], pools: DevicePools, release: str = "") -> Iterator[LaterOperation]:
    """Runs each of the operations by itself, up to the first that runs out of memory."""
    for operation in operations:
        try:
            case = case_of(operation)
            problem = Problem.of(case, Verdict(Status.FITS), pools.board_of(release))
        except InvalidCase as error:
            yield LaterOperation(operation, why_not=str(error))
            continue
        verdict = pools.run(pools.on(release, problem.trial())).verdict
        yield LaterOperation(operation, verdict)
        if verdict.status is Status.OOM:
            return


def _numbers(reported: Verdict, replayed: Verdict) -> Iterator[ComparedNumber]:
    for name in NUMBERS:
        value = getattr(reported, name)
        if value not in (None, ""):
            yield ComparedNumber(name, value, getattr(replayed, name))


def implied_live_sets(verdict: Verdict, case: Case, board: Board, alone: Verdict) -> Iterator[LiveSet]:
    """Yields what else may have been allocated for the numbers of the message: none where it shows only the call's own tensors.

    It is what was allocated less what the call itself had placed by then. That is known from the call ``alone``, if it fails
    for the same buffer; otherwise each tensor of the size that failed may have been the one. Equal holes are left where the
    largest free block was smaller than all free bytes.
    """
    if verdict.resource is Resource.CLASH:
        yield from filter(None, [_live_above(verdict, case, board)])
        return
    memory = memory_of(verdict)
    if memory not in (BufferType.L1, BufferType.DRAM) or verdict.allocated_bytes is None or verdict.free_bytes is None:
        return
    same_buffer = (alone.total_bytes, alone.bytes_per_bank) == (verdict.total_bytes, verdict.bytes_per_bank)
    shown = [alone.allocated_bytes] if same_buffer and alone.allocated_bytes is not None else []
    largest = verdict.largest_free_bytes if verdict.largest_free_bytes is not None else verdict.free_bytes
    for own in dict.fromkeys([*shown, *_own_bytes(verdict, estimate(case, board), memory)]):
        other = verdict.allocated_bytes - own
        if other > 0:
            yield tuple(_with_holes(memory, other, verdict.free_bytes - largest, largest, board.granule_bytes))


def _live_above(verdict: Verdict, case: Case, board: Board) -> LiveSet:
    """Returns the L1 tensors that reach from the address of the message to the end of the bank, without the call's own."""
    if verdict.tensor_address is None:
        return ()
    top = board.l1_end_bytes - board.l1_small_bytes
    own = sum(a.booked_bytes_per_bank for a in estimate(case, board).allocations if a.spec.memory.buffer is BufferType.L1)
    other = top - verdict.tensor_address - own
    return (Resident(BufferType.L1, other),) if other > 0 else ()


def least_live_set(verdict: Verdict, case: Case, board: Board) -> LiveSet:
    """Returns the minimum with which the buffer just does not fit, for a message that has only the size of the banks.

    Empty where the buffer exceeds a complete bank.
    """
    memory, bank, need = memory_of(verdict), verdict.bank_bytes, verdict.bytes_per_bank
    if memory not in (BufferType.L1, BufferType.DRAM) or verdict.allocated_bytes is not None or bank is None or need is None:
        return ()
    room = bank - _own_bytes(verdict, estimate(case, board), memory)[0] - need
    return () if room < 0 else (Resident(memory, round_up(room + 1, board.granule_bytes)),)


def _own_bytes(verdict: Verdict, estimated: MemoryEstimate, memory: BufferType) -> list[int]:
    """Returns the bytes of the call's tensors that are placed before each that may be the one that failed.

    Results of its size come first, then operands of it; where there is neither, all operands are placed.
    """
    placed = [a for a in estimated.allocations if a.spec.memory.buffer is memory]
    operands = [a for a in placed if a.label.startswith("input")]
    failed = (verdict.total_bytes, verdict.bytes_per_bank)
    alike = [i for i, a in enumerate(placed) if (a.allocated_bytes, a.bytes_per_bank) == failed]
    order = [*(i for i in alike if placed[i] not in operands), *(i for i in alike if placed[i] in operands)]
    return [sum(a.booked_bytes_per_bank for a in placed[:at]) for at in order or [len(operands)]]


def _with_holes(memory: BufferType, total: int, holes: int, largest: int, granule: int) -> Iterator[Resident]:
    """Yields residents of ``total`` bytes, between which ``holes`` bytes are left in blocks no larger than ``largest``."""
    count = -(-holes // largest) if holes and largest else 0
    if not 0 < count <= MAX_HOLES or total < (count + 1) * granule:
        yield Resident(memory, total)
        return
    each, more = divmod(holes // granule, count)
    for number in range(count):
        yield Resident(memory, (each + (number < more)) * granule, freed=True)
        yield Resident(memory, granule)
    yield Resident(memory, total - count * granule)
