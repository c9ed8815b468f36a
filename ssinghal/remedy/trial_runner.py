"""Runs one trial on a device: places the other buffers and the operands, makes the rewritten call, checks the results."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from ssinghal.core.case import Case
from ssinghal.core.device_facts import DeviceFacts
from ssinghal.core.measured import PlacedTensor
from ssinghal.core.tensors import Board, BufferType, DType, Layout, MemoryConfig, TensorSpec, ceil_div
from ssinghal.core.verdict import DecidedBy, Resource, Status, Verdict
from ssinghal.device.call_recorder import Transcript
from ssinghal.device.error_patterns import translate_error
from ssinghal.device.session import Session
from ssinghal.device.usage import buffer_peaks
from ssinghal.errors import DeviceError, InvalidCase
from ssinghal.operators.binding import bind
from ssinghal.operators.settings.passing import lacking
from ssinghal.remedy.rewrites import PREPARATIONS, RewriteBackend
from ssinghal.remedy.strategies.registry import REWRITES
from ssinghal.remedy.trial import LiveSet, Resident, RewriteName, Trial, TrialResult
from ssinghal.runner.probe import TTNN_ERRORS, too_many_pages
from ssinghal.runner.tasks import PoolOptions, Task

# These move no bytes where the result shares the operand's buffer.
_VIEWS = ("ttnn.reshape", "ttnn.view", "ttnn.unsqueeze", "ttnn.squeeze", "ttnn.to_memory_config", "ttnn.to_layout")
INPUT_NAMES = "abcdefgh"


@dataclass(frozen=True)
class TrialTask(Task[TrialResult]):
    trial: Trial

    def run(self, session: Session, options: PoolOptions) -> TrialResult:
        return run_trial(self.trial, session)

    def lost(self, verdict: Verdict, facts: DeviceFacts) -> TrialResult:
        return TrialResult(self.trial, verdict, facts.board, facts.ttnn, facts.mode)

    def exhausted_host(self, result: TrialResult) -> bool:
        return result.verdict.resource is Resource.HOST


@dataclass(frozen=True)
class BoardTask(Task[Board]):
    """Returns the board as it opens with a trace region and no L1_SMALL region."""

    trace_region_bytes: int

    def run(self, session: Session, options: PoolOptions) -> Board:
        session.use_regions(0, self.trace_region_bytes)
        return session.board

    def lost(self, verdict: Verdict, facts: DeviceFacts) -> Board:
        raise DeviceError(f"no board with a trace region of {self.trace_region_bytes:,} B: {verdict.message}")


@dataclass(frozen=True)
class InsideTask(Task[Mapping[BufferType, int]]):
    """Returns the most that buffers take per bank during the trial's calls, temporaries and other buffers included; nothing
    where TTNN's graphs do not show it, as in 0.66.0."""

    trial: Trial

    def run(self, session: Session, options: PoolOptions) -> Mapping[BufferType, int]:
        return peaks_inside(self.trial, session) if session.can_capture else {}

    def lost(self, verdict: Verdict, facts: DeviceFacts) -> Mapping[BufferType, int]:
        return {}


def peaks_inside(trial: Trial, session: Session) -> Mapping[BufferType, int]:
    session.use_regions(trial.case.placement.l1_small_bytes or 0, trial.trace_region_bytes, bind(trial.case).fabric)
    transcript = Transcript(session.ttnn, session.device)
    peaks: Counter[BufferType] = Counter()
    try:
        with _placed_live_set(trial.live, session, transcript) as residents:
            held = session.allocated_bytes()
            trace = session.capture_running(lambda: _run(trial, session, transcript, residents))
            peaks.update(buffer_peaks(trace, session.board))
            peaks.update(held)
    except TTNN_ERRORS:
        peaks.clear()
    if session.clear():
        session.reopen()
    return dict(peaks)


def run_trial(trial: Trial, session: Session) -> TrialResult:
    """Runs the trial. The device is empty before and after."""
    session.use_regions(trial.case.placement.l1_small_bytes or 0, trial.trace_region_bytes, bind(trial.case).fabric)
    watch = _Watch(session)
    transcript = Transcript(session.ttnn, session.device, watch)
    results: Sequence[TensorSpec] = ()
    lines_of_live = 0
    try:
        with _placed_live_set(trial.live, session, transcript) as residents:
            lines_of_live = len(transcript.calls)
            verdict, results = _run(trial, session, transcript, residents)
    except TTNN_ERRORS as error:
        verdict = replace(translate_error(type(error).__name__, str(error)), stage="live set")
    if session.clear():
        session.reopen()
    facts = session.facts
    return TrialResult(
        trial,
        verdict,
        facts.board,
        facts.ttnn,
        facts.mode,
        tuple(_placed(spec, session.board) for spec in results),
        watch.peak_bytes,
        watch.moved_bytes,
        watch.calls,
        tuple(transcript.source()) if verdict.status is Status.FITS or trial.rewrite is RewriteName.CALL else (),
        session.board.reserved_base_bytes,
        lines_of_live,
        caution_of(trial, results) if verdict.status is Status.FITS else "",
    )


def _run(trial: Trial, session: Session, transcript: Transcript, residents: list[Any]) -> tuple[Verdict, Sequence[TensorSpec]]:
    backend = DeviceBackend(trial.case, session, transcript, residents)
    results: list[Any] = []
    operands = [(f"input {number}", spec) for number, spec in enumerate(backend.bound.inputs, 1)]
    for label, spec in (*operands, *(("output", spec) for spec in trial.wanted)):
        if spec.wraps_page_count:
            return too_many_pages(label, spec, session.board), ()
    try:
        if trial.rewrite in PREPARATIONS:
            PREPARATIONS[trial.rewrite](backend)
        backend.place()
        results += REWRITES[trial.rewrite](backend, trial.params)
        specs = [session.spec_of(r) for r in results]
        return judged(trial, specs), specs
    except TTNN_ERRORS as error:
        return replace(translate_error(type(error).__name__, str(error)), stage=backend.stage), ()
    except InvalidCase as error:
        return Verdict(
            Status.INVALID, stage=backend.stage, decided_by=DecidedBy.ARITHMETIC, error_type="InvalidCase", message=str(error)
        ), ()
    finally:
        for tensor in (*results, *backend.tensors):
            if tensor.is_allocated():
                tensor.deallocate()


def _placed(spec: TensorSpec, board: Board) -> PlacedTensor:
    dtype, layout, memory = spec.dtype.value, spec.layout.value, str(spec.memory)
    return PlacedTensor("output", spec.shape, dtype, layout, memory, spec.logical_bytes, spec.allocated_bytes(board))


def judged(trial: Trial, specs: Sequence[TensorSpec]) -> Verdict:
    """Returns that the trial fits if number, shapes, dtypes, layouts and memory of the results are the wanted ones.

    A result for which shards were requested may have others in that memory: see ``caution_of``.
    """
    wanted = trial.wanted
    errors = [f"{len(specs)} results; expected {len(wanted)}"] if len(specs) != len(wanted) else []
    for want, got in zip(wanted, specs, strict=False):
        errors += [
            f"{name} {getattr(got, name)}; expected {getattr(want, name)}"
            for name in ("shape", "dtype", "layout")
            if getattr(want, name) != getattr(got, name)
        ]
        same = got.memory == want.memory or (want.memory.shard is not None and got.memory.buffer is want.memory.buffer)
        errors += [] if same or trial.any_memory else [f"memory {got.memory}; expected {want.memory}"]
    if errors:
        message = f"TTNN returned {', '.join(errors)}"
        return Verdict(Status.MISMATCH, stage="output", decided_by=DecidedBy.HARNESS, message=message)
    return Verdict(Status.FITS)


def caution_of(trial: Trial, specs: Sequence[TensorSpec]) -> str:
    """Returns where TTNN put results for which the call requested other shards; empty where it kept to the request."""
    pairs = zip(trial.wanted, specs, strict=True)
    changed = [] if trial.any_memory else [(want, got) for want, got in pairs if want.memory != got.memory]
    return "; ".join(f"caution: the result is in {got.memory}, not {want.memory}" for want, got in changed)


class DeviceBackend(RewriteBackend):
    """Runs rewrites on a device and keeps a transcript of all calls. ``stage``: the step that is running."""

    def __init__(self, case: Case, session: Session, transcript: Transcript, residents: list[Any]) -> None:
        self.session, self.transcript, self.ttnn = session, transcript, transcript.ttnn
        self.bound, self.residents = bind(case, session.board), residents
        self.tensors: list[Any] = []
        self.stage = "call"

    def place(self) -> None:
        for number, spec in enumerate(self.bound.inputs, 1):
            self.stage = f"input {number}"
            tensor = self.session.empty(spec, self.ttnn)
            name = INPUT_NAMES[number - 1] if number <= len(INPUT_NAMES) else f"x{number}"
            self.tensors.append(self.transcript.named(tensor, name))
        self.stage = "call"

    def call(self, case: Case, tensors: Sequence[Any], **out: Any) -> list[Any]:
        bound = bind(case, self.session.board)
        missing = lacking(self.session.ttnn, bound.settings_by_function()) if bound.settings else ""
        if missing:
            raise InvalidCase(f"ttnn {self.session.facts.ttnn} has no {missing}")
        out = out or self.session.output_arguments(bound.requested_output, self.ttnn)
        return bound.run(self.ttnn, self.session.device, tensors, out)

    def in_memory(self, buffer: BufferType) -> Any:
        return self.session.memory_config(MemoryConfig(buffer), self.ttnn)

    def is_in(self, tensor: Any, buffer: BufferType) -> bool:
        return self.session.spec_of(tensor).memory == MemoryConfig(buffer)

    def shares(self, a: Any, b: Any) -> bool:
        return bool(a.buffer_address() == b.buffer_address() and self.is_in(a, self.session.spec_of(b).memory.buffer))

    def piece(self, number: int) -> Any:
        return self.transcript.piece(number)


@dataclass
class _Watch:
    """Observes each call: what the allocator holds after it, and the bytes of its operands and results."""

    session: Session
    peak_bytes: dict[BufferType, int] = field(default_factory=dict)
    moved_bytes: int = 0
    calls: int = 0

    def __call__(self, function: str, operands: Sequence[Any], results: Sequence[Any]) -> None:
        for kind in (BufferType.L1, BufferType.DRAM):
            held = self.session.memory(kind).allocated_bytes
            if held > self.peak_bytes.get(kind, 0):
                self.peak_bytes[kind] = held
        if function in ("ttnn.empty", "ttnn.deallocate") or (function in _VIEWS and _shared(operands, results)):
            return
        self.calls += 1
        if self._in_place(operands, results):
            operands = operands[:-1]  # the tensor that is written is an argument too
        self.moved_bytes += sum(map(self._bytes, (*operands, *results)))

    def _in_place(self, operands: Sequence[Any], results: Sequence[Any]) -> bool:
        return len(operands) > 1 and len(results) == 1 and any(operands[-1] is x for x in operands[:-1])

    def _bytes(self, tensor: Any) -> int:
        on_device = tensor.is_allocated() and tensor.storage_type() == self.session.ttnn.StorageType.DEVICE
        return self.session.spec_of(tensor).allocated_bytes(self.session.board) if on_device else 0


def _shared(operands: Sequence[Any], results: Sequence[Any]) -> bool:
    return (
        len(operands) == len(results) == 1
        and all(t.is_allocated() for t in (*operands, *results))
        and operands[0].buffer_address() == results[0].buffer_address()
    )


@contextmanager
def _placed_live_set(live: LiveSet, session: Session, transcript: Transcript) -> Iterator[list[Any]]:
    """Places the tensors of the live set and frees those that leave a hole. A rewrite may replace the tensors in the list."""
    tensors: list[Any] = []
    freed: list[Any] = []
    try:
        for resident in live:
            for spec in _specs(resident, session):
                tensor = session.empty(spec, transcript.ttnn)
                placed = freed if resident.freed else tensors
                placed.append(transcript.named(tensor, f"held{len(tensors) + len(freed)}"))
        for tensor in freed:
            transcript.ttnn.deallocate(tensor)
        yield tensors
    finally:
        for tensor in (*tensors, *freed):
            if tensor.is_allocated():
                tensor.deallocate()


ROW_BYTES = 2048  # of other buffers: a kernel that moves them holds a few rows at a time


def _specs(resident: Resident, session: Session) -> Iterator[TensorSpec]:
    """Yields tensors that take ``bytes_per_bank`` of every bank, up to the allocator's granule: rows, and the rest."""
    banks = session.board.region(resident.memory).num_banks
    rows, rest = divmod(resident.bytes_per_bank, ROW_BYTES)
    for height, row_bytes in ((rows, ROW_BYTES), (1, rest)):
        if height and row_bytes:
            shape = (banks * height, ceil_div(row_bytes, 4))
            yield TensorSpec(shape, DType.UINT32, Layout.ROW_MAJOR, MemoryConfig(resident.memory))
