"""The call of a failure made again on a virtual device, beside as much as lived on the real one, and its figures compared."""

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

FIGURES = (
    "total_bytes", "banks", "bytes_per_bank", "bank_bytes", "allocated_bytes", "free_bytes", "largest_free_bytes",
    "program_bytes", "limit_bytes", "tensor_address", "cores",
)  # fmt: skip
AT_ADDRESS = ("program_bytes", "tensor_address")  # which grow with what a build reserves; what is left of a bank shrinks
MAX_HOLES = 16


@dataclass(frozen=True)
class ComparedNumber:
    """One number of the message, as reported and as replayed (None where the replay's message lacks it)."""

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
    """``tried``: the call on its board and release, beside ``live``. ``live_is_least``: the message does not tell what lived,
    and with less the call would fit. ``figures``: those of the reported message. ``later``: what never ran, tried as well where
    the call itself fits."""

    tried: TrialResult
    reported: Verdict
    live: LiveSet
    figures: tuple[ComparedNumber, ...]
    later: tuple[LaterOperation, ...] = ()
    live_is_least: bool = False

    @property
    def same_kind(self) -> bool:
        return self.tried.verdict.status is Status.OOM and self.tried.verdict.resource is self.reported.resource

    @property
    def same_figures(self) -> bool:
        return self.same_kind and all(figure.equal for figure in self.figures)

    def outcome(self, bases: Sequence[int]) -> str:
        """In a line: whether it fails here, and with the same figures. ``bases``: reserved bases of the report's builds."""
        verdict = self.tried.verdict
        if verdict.status is Status.FITS:
            return "it fits"
        if not self.same_kind:
            return f"it ends otherwise: {verdict.status}, {sentence(verdict)}"
        if not self.figures:
            return f"it fails in the same way, and the report has no figures: {sentence(verdict)}"
        if self.same_figures:
            return f"it fails with the same figures, all {len(self.figures)}"
        differing = [figure for figure in self.figures if not figure.equal]
        told = "; ".join(map(str, differing))
        equal = len(self.figures) - len(differing)
        return f"it fails in the same way, {equal} of {len(self.figures)} figures equal: {told}{self._why(differing, bases)}"

    def _why(self, differing: Sequence[ComparedNumber], bases: Sequence[int]) -> str:
        """Where all that differs, differs by as much as the two builds reserve at the bottom of an L1."""
        here = self.tried.reserved_base_bytes
        if here is None or not differing:
            return ""
        gaps = {
            figure.replayed - figure.reported if figure.name in AT_ADDRESS else figure.reported - figure.replayed
            for figure in differing
            if isinstance(figure.replayed, int) and isinstance(figure.reported, int)
        }
        for base in bases:
            if gaps == {here - base}:
                return f"; that is the difference of the reserved bases, {here:,} here and {base:,} B there"
        return ""

    def to_json(self) -> dict[str, Any]:
        return {
            "board": self.tried.board,
            "ttnn": self.tried.ttnn,
            "device_mode": self.tried.device_mode,
            "status": str(self.tried.verdict.status),
            "says": sentence(self.tried.verdict) if self.tried.verdict.status is not Status.FITS else "",
            "same_kind": self.same_kind,
            "same_figures": self.same_figures,
            "figures": [asdict(figure) | {"equal": figure.equal} for figure in self.figures],
            "live": [{"memory": str(r.memory), "bytes_per_bank": r.bytes_per_bank, "freed": r.freed} for r in self.live],
            "live_is_least": self.live_is_least,
            "later": [later.to_json() for later in self.later],
            "code": list(self.tried.code),
        }


@dataclass(frozen=True)
class LaterOperation:
    """An operation that never ran, tried as well: ``verdict``, or ``why_not``."""

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
    bench: DevicePools,
    release: str = "",
    live: LiveSet | None = None,
    trace_region_bytes: int = 0,
) -> Replay:
    """``case`` on the bench's board with ``release`` (its own where empty). ``live``: what to put beside it, else what the
    message implies, once the call has shown alone how much it takes by itself.

    Raises:
        InvalidCase: the call cannot be made at all.
    """
    board = bench.board_of(release, trace_region_bytes)
    problem = Problem.of(case, reported, board, trace_region_bytes=trace_region_bytes)

    def beside(residents: LiveSet) -> Replay:
        tried = bench.run(bench.on(release, problem.trial(live=residents)))
        return Replay(tried, reported, residents, tuple(_figures(reported, tried.verdict)))

    if live is not None:
        return beside(live)
    alone = beside(())
    if alone.same_figures:
        return alone
    made: list[Replay] = []
    for residents in implied_lives(reported, problem.case, problem.board, alone.tried.verdict):
        made.append(beside(residents))
        if made[-1].same_figures:
            return made[-1]
    if made and reported.resource is not Resource.CLASH:  # a call's own tensors inside it reach as low as what else lives
        return max(made, key=lambda replayed: sum(figure.equal for figure in replayed.figures))
    least = least_live(reported, problem.case, problem.board) if alone.tried.works else ()
    return replace(beside(least), live_is_least=True) if least else alone


def replay_later(operations: Sequence[Operation], bench: DevicePools, release: str = "") -> Iterator[LaterOperation]:
    """Each of the operations by itself, up to the first that runs out of memory."""
    for operation in operations:
        try:
            case = case_of(operation)
            problem = Problem.of(case, Verdict(Status.FITS), bench.board_of(release))
        except InvalidCase as error:
            yield LaterOperation(operation, why_not=str(error))
            continue
        verdict = bench.run(bench.on(release, problem.trial())).verdict
        yield LaterOperation(operation, verdict)
        if verdict.status is Status.OOM:
            return


def _figures(reported: Verdict, replayed: Verdict) -> Iterator[ComparedNumber]:
    for name in FIGURES:
        value = getattr(reported, name)
        if value not in (None, ""):
            yield ComparedNumber(name, value, getattr(replayed, name))


def implied_lives(verdict: Verdict, case: Case, board: Board, alone: Verdict) -> Iterator[LiveSet]:
    """What else may have lived for the message's figures: as allocated, less what the call itself had placed by then. Of that
    ``alone`` tells, where without anything else it fails for the same buffer; and each tensor of the size that failed may have
    been the one.

    Holes are made alike where the largest free block was smaller than all that was free. Nothing where the message does not
    tell, and where it tells of no more than the call's own.
    """
    if verdict.resource is Resource.CLASH:
        yield from filter(None, [_live_above(verdict, case, board)])
        return
    memory = memory_of(verdict)
    if memory not in (BufferType.L1, BufferType.DRAM) or verdict.allocated_bytes is None or verdict.free_bytes is None:
        return
    same_buffer = (alone.total_bytes, alone.bytes_per_bank) == (verdict.total_bytes, verdict.bytes_per_bank)
    told = [alone.allocated_bytes] if same_buffer and alone.allocated_bytes is not None else []
    largest = verdict.largest_free_bytes if verdict.largest_free_bytes is not None else verdict.free_bytes
    for own in dict.fromkeys([*told, *_own_bytes(verdict, estimate(case, board), memory)]):
        held = verdict.allocated_bytes - own
        if held > 0:
            yield tuple(_with_holes(memory, held, verdict.free_bytes - largest, largest, board.granule_bytes))


def _live_above(verdict: Verdict, case: Case, board: Board) -> LiveSet:
    """L1 tensors begin at an address and reach to the end of the bank: what of that is not the call's own must have lived."""
    if verdict.tensor_address is None:
        return ()
    top = board.l1_end_bytes - board.l1_small_bytes
    own = sum(a.booked_bytes_per_bank for a in estimate(case, board).allocations if a.spec.memory.buffer is BufferType.L1)
    held = top - verdict.tensor_address - own
    return (Resident(BufferType.L1, held),) if held > 0 else ()


def least_live(verdict: Verdict, case: Case, board: Board) -> LiveSet:
    """The least that must have lived where the message has the size of the banks alone: with it the buffer just does not fit.
    Empty where it could not fit into a whole bank either."""
    memory, bank, need = memory_of(verdict), verdict.bank_bytes, verdict.bytes_per_bank
    if memory not in (BufferType.L1, BufferType.DRAM) or verdict.allocated_bytes is not None or bank is None or need is None:
        return ()
    room = bank - _own_bytes(verdict, estimate(case, board), memory)[0] - need
    return () if room < 0 else (Resident(memory, round_up(room + 1, board.granule_bytes)),)


def _own_bytes(verdict: Verdict, made: MemoryEstimate, memory: BufferType) -> list[int]:
    """Of the call's tensors, what is placed before each that may be the one that failed: results of that size first, then
    operands of it; all operands where there is neither."""
    placed = [a for a in made.allocations if a.spec.memory.buffer is memory]
    operands = [a for a in placed if a.label.startswith("input")]
    asked = (verdict.total_bytes, verdict.bytes_per_bank)
    alike = [i for i, a in enumerate(placed) if (a.allocated_bytes, a.bytes_per_bank) == asked]
    order = [*(i for i in alike if placed[i] not in operands), *(i for i in alike if placed[i] in operands)]
    return [sum(a.booked_bytes_per_bank for a in placed[:at]) for at in order or [len(operands)]]


def _with_holes(memory: BufferType, held: int, holes: int, largest: int, granule: int) -> Iterator[Resident]:
    """``held`` bytes in all, between which ``holes`` bytes are left in blocks no larger than ``largest``."""
    count = -(-holes // largest) if holes and largest else 0
    if not 0 < count <= MAX_HOLES or held < (count + 1) * granule:
        yield Resident(memory, held)
        return
    each, more = divmod(holes // granule, count)
    for number in range(count):
        yield Resident(memory, (each + (number < more)) * granule, freed=True)
        yield Resident(memory, granule)
    yield Resident(memory, held - count * granule)
