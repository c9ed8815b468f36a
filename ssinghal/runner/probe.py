"""One case on one device: place the operands, make the call, read the allocator, leave nothing behind."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from ssinghal.core.case import Case
from ssinghal.core.record import Comparison, PlacedTensor, Record, Resource, Status, Usage, Verdict
from ssinghal.core.tensors import Board, BufferType, TensorSpec
from ssinghal.device.error_patterns import translate_error
from ssinghal.device.session import Session
from ssinghal.device.usage import usage_of
from ssinghal.errors import InvalidCase
from ssinghal.estimation.estimator import Prediction, estimate
from ssinghal.operators.binding import bind
from ssinghal.operators.operator_info import plain_specs

# What TTNN's Python bindings raise; MemoryError is host memory. Anything else is a bug of the harness and is not caught.
TTNN_ERRORS = (RuntimeError, TypeError, ValueError, IndexError, MemoryError)


@dataclass(frozen=True)
class Limits:
    """Host work that a case may cost. TTNN lists every source page of a tile reshape on the host, 1-70 us per output tile, and
    the windows of a convolution or pool, up to 14 us per row of a channels-last result.

    Above ``host_tiles`` the call is not made. Its capture finds the list that a call which fits has left in the program cache;
    above ``capture_tiles`` it is not made for one that failed, for which TTNN would list them anew. Windows are listed anew
    always, so above ``capture_rows`` the call is made without its capture.
    """

    host_tiles: int = 200_000
    capture_tiles: int = 5_000
    capture_rows: int = 1_000_000


def probe(
    case: Case, session: Session, *, numerics: bool = False, limits: Limits = Limits(), report: Path | None = None
) -> Record:
    """Runs ``case`` and returns its record. The device is empty before and after.

    No host tensor is made, so a case of many GiB costs milliseconds, and values are not looked at; with ``numerics`` a call
    that fits is made again with values and compared with torch. With ``report``, a folder, the run leaves TTNN's report
    database there, and is not made a second time for its usage.
    """
    started = time.perf_counter()
    session.use_regions(case.placement.l1_small_bytes or 0)
    attempt = _Attempt(case, session, limits)
    if report is None:
        verdict = attempt.run()
        usage, note = attempt.usage(verdict)
    else:
        verdict = session.report(attempt.run, report, *_about(case, session))
        usage, note = None, "a report was made"
    comparison = None
    if numerics and verdict.status is Status.FITS:
        verdict, comparison = attempt.compare()
    left = session.clear()
    if left:
        session.reopen()
    return Record.of(
        case,
        verdict,
        device_mode=session.facts.mode,
        board=session.facts.board,
        ttnn=session.facts.ttnn,
        tensors=tuple(attempt.placed),
        usage=asdict(usage) if usage else None,
        usage_note=note,
        comparison=comparison,
        resident={kind.value: size for kind, size in attempt.resident.items()},
        left_allocated={kind.value: size for kind, size in left.items()},
        duration_s=time.perf_counter() - started,
        mesh=session.facts.mesh,
    )


def _about(case: Case, session: Session) -> tuple[str, dict[str, str]]:
    """What a report must say of itself: a title, and facts for its metadata."""
    device = f"{session.facts.mode} {session.facts.board}"
    facts = {
        "case": json.dumps(case.identity()),
        "case_key": case.key,
        "device": device,
        "numerics": "not run: memory verdicts only",
    }
    return f"{case.name} {case.id} ({device}, numerics not run)", facts


class _Attempt:
    """The steps of one probe. Tensors live in ``run`` only, and are freed before it returns."""

    def __init__(self, case: Case, session: Session, limits: Limits) -> None:
        self.limits = limits
        self.case = case
        self.session = session
        self.board = session.board
        self.call = bind(case)
        self.is_invalid = False
        self.placed: list[PlacedTensor] = []
        self.expected: list[TensorSpec] = []
        self.inputs: list[TensorSpec] = []
        self.resident: dict[BufferType, int] = {}
        self.kept: dict[BufferType, int] = {}

    def run(self) -> Verdict:
        """Operands are placed before the call is judged: a tensor that fits nowhere is an OOM whatever the call."""
        invalid = self._complete()
        tensors: list[Any] = []
        try:
            for number, spec in enumerate(self.inputs, 1):
                failure = self._place(f"input {number}", spec, tensors)
                if failure:
                    return failure
            if invalid:
                return invalid
            for limitation in self.call.limitations(self.board):
                return Verdict(Status.UNSUPPORTED, stage="call", decided_by="registry", message=limitation.reason)
            if (
                self.call.host_tiles > self.limits.host_tiles
                and estimate(self.case, self.board).verdict is not Prediction.EXCEEDS
            ):
                # TTNN allocates the result before it maps, so one that cannot fit is refused at once
                return Verdict(Status.NOT_RUN, stage="call", decided_by="arithmetic", message=self._too_slow())
            verdict = self._call(tensors)
        finally:
            _free(tensors)
        kept = self.kept = self.session.allocated_bytes()  # what the program cache holds is neither operand nor result
        self.resident = {kind: size - kept.get(kind, 0) for kind, size in self.resident.items() if size > kept.get(kind, 0)}
        return verdict

    def _complete(self) -> Verdict | None:
        """Specs of all operands and results; of the plain inputs, with a verdict, where the call itself makes no sense."""
        try:
            self.inputs, self.expected = self.call.specs()
            return None
        except InvalidCase as error:
            self.is_invalid = True
            self.inputs = plain_specs(self.case)
            return Verdict(Status.INVALID, stage="call", decided_by="arithmetic", error_type="InvalidCase", message=str(error))

    def _place(self, label: str, spec: TensorSpec, tensors: list[Any]) -> Verdict | None:
        if spec.wraps_page_count:
            return _too_many_pages(label, spec, self.board)
        before = self.session.memory(spec.memory.buffer).allocated_bytes
        try:
            tensors.append(self.session.empty(spec))
        except TTNN_ERRORS as error:
            return replace(translate_error(type(error).__name__, str(error)), stage=label)
        booked = self.session.memory(spec.memory.buffer).allocated_bytes - before
        self.placed.append(_placed(label, spec, self.board, booked))
        return None

    def _call(self, tensors: list[Any]) -> Verdict:
        for number, spec in enumerate(self.expected, 1):
            if spec.wraps_page_count:
                return _too_many_pages(_output_label(number, self.expected), spec, self.board)
        results: list[Any] = []
        try:
            results += self._invoke(tensors)
        except TTNN_ERRORS as error:
            verdict = translate_error(type(error).__name__, str(error))
            return replace(verdict, stage=_stage_of(verdict, self.expected, self.board))
        except AttributeError as error:
            missing = self.session.missing_function(error)
            if missing is None:
                raise
            return Verdict(Status.UNSUPPORTED, stage="call", error_type="AttributeError", message=missing)
        else:
            return self._check_results(results)
        finally:
            _free(results)

    def _invoke(self, tensors: Sequence[Any]) -> list[Any]:
        out = self.session.output_argument(self.case.placement)
        return self.call.run(self.session.ttnn, self.session.device, tensors, out)

    def _check_results(self, results: Sequence[Any]) -> Verdict:
        """What came back must have the shape, dtype, layout and memory that were asked for."""
        self.resident = self.session.allocated_bytes()
        found = [self.session.spec_of(r) for r in results]
        for number, (result, spec) in enumerate(zip(results, found, strict=True), 1):
            label = _output_label(number, found)
            memory = f"{spec.memory.buffer.value}{' sharded' if self.session.is_sharded(result) else ''}"
            self.placed.append(replace(_placed(label, spec, self.board, None), memory=memory))
        if len(found) != len(self.expected):
            return _mismatch(f"TTNN returned {len(found)} tensors; expected {len(self.expected)}")
        ttnn_chooses = self.case.placement.output_config is None or self.call.info.traits.output_fixed
        for wanted, got in zip(self.expected, found, strict=True):
            differ = [
                f"{name} {getattr(got, name)}; expected {getattr(wanted, name)}"
                for name in ("shape", "dtype", "layout", *([] if ttnn_chooses else ["memory"]))
                if getattr(got, name) != getattr(wanted, name)
            ]
            if differ:
                return _mismatch(f"TTNN returned {', '.join(differ)}")
        return Verdict(Status.FITS, message=self._moved(found))

    def _moved(self, found: Sequence[TensorSpec]) -> str:
        """Where a result went that TTNN cannot be told to put elsewhere; empty where it went as asked."""
        config = self.case.placement.output_config
        buffers = {spec.memory.buffer for spec in found}
        if config is None or buffers <= {config.buffer}:
            return ""
        went = " and ".join(sorted(buffer.value for buffer in buffers))
        return f"{self.call.info.ttnn} takes no memory_config: the result went to {went}, not {config.buffer.value}"

    def _window_rows(self) -> int:
        """Rows of a result whose windows TTNN lists: of those operators that keep the list in L1_SMALL."""
        slides = self.call.info.traits.nhwc and self.call.info.traits.l1_small_bytes
        return math.prod(self.expected[0].shape[:-1]) if slides else 0

    def _too_slow(self) -> str:
        tiles, limit = self.call.host_tiles, self.limits.host_tiles
        return f"TTNN maps {tiles:,} tiles on the host for this call; more than {limit:,} are not tried"

    def compare(self) -> tuple[Verdict, Comparison | None]:
        """The call made again with values: fits, or a mismatch, or what stopped it (placing values takes host memory)."""
        from ssinghal.runner.numerics import compare_with_torch

        try:
            comparison = compare_with_torch(self.call, self.session)
        except TTNN_ERRORS as error:
            return replace(translate_error(type(error).__name__, str(error)), stage="numerics"), None
        if comparison.fault:
            return Verdict(Status.MISMATCH, stage="output", decided_by="torch", message=comparison.fault), comparison
        return Verdict(Status.FITS), comparison

    def usage(self, verdict: Verdict) -> tuple[Usage | None, str]:
        """Peaks of the call from a capture that neither dispatches nor allocates, so it also tells what an OOM would need.

        Programs that the call has left in the cache are found there, not made anew: quick, but what they keep allocated
        (tables of pools and convolutions, page maps of reshapes) is then not in the capture, so it is added.
        """
        if self.is_invalid or verdict.decided_by != "ttnn":
            return None, "no TTNN call was made"
        if not self.session.can_capture:
            return None, f"graphs of ttnn {self.session.facts.ttnn} do not tell the bytes of a bank"
        if verdict.resource is Resource.HOST:
            return None, "the call exhausted host memory"
        if verdict.stage.startswith("input"):
            return None, "an operand does not fit, so the call was not made"
        if verdict.status is not Status.FITS and self.call.host_tiles > self.limits.capture_tiles:
            return None, f"not captured: TTNN maps {self.call.host_tiles:,} tiles on the host for this call"
        if self._window_rows() > self.limits.capture_rows:
            return None, f"not captured: TTNN lists windows for {self._window_rows():,} rows on the host for this call"

        def whole_call() -> None:
            _free(self._invoke([self.session.empty(spec) for spec in self.inputs]))

        try:
            trace, per_core = self.session.capture(whole_call)
        except TTNN_ERRORS as error:
            return None, f"capture stopped: {translate_error(type(error).__name__, str(error)).message}"
        return usage_of(trace, per_core, self.kept, self.board), ""


def _placed(label: str, spec: TensorSpec, board: Board, booked: int | None) -> PlacedTensor:
    allocated = spec.allocated_bytes(board)
    return PlacedTensor(
        label, spec.shape, spec.dtype.value, spec.layout.value, str(spec.memory), spec.logical_bytes, allocated, booked
    )


def _output_label(number: int, outputs: Sequence[TensorSpec]) -> str:
    return "output" if len(outputs) == 1 else f"output {number}"


def _stage_of(verdict: Verdict, outputs: Sequence[TensorSpec], board: Board) -> str:
    """Which allocation of the call failed: a result if the bytes are a result's, else a temporary; programs are named so."""
    if verdict.resource in (Resource.CIRCULAR_BUFFER, Resource.CLASH, Resource.KERNEL_CONFIG):
        return "program"
    if verdict.bytes_per_bank is None:
        return "call"
    for number, spec in enumerate(outputs, 1):
        if (spec.allocated_bytes(board), spec.bytes_per_bank(board)) == (verdict.total_bytes, verdict.bytes_per_bank):
            return _output_label(number, outputs)
    return "intermediate"


def _too_many_pages(label: str, spec: TensorSpec, board: Board) -> Verdict:
    """TTNN counts pages in 32 bits and would pass this tensor as a tiny one, so the formula decides."""
    region = board.region(spec.memory.buffer)
    return Verdict(
        Status.OOM,
        Resource.DRAM_BUFFER if spec.memory.buffer is BufferType.DRAM else Resource.L1_BUFFER,
        stage=label,
        total_bytes=spec.allocated_bytes(board),
        bytes_per_bank=spec.bytes_per_bank(board),
        banks=region.num_banks,
        bank_bytes=region.bank_bytes,
        decided_by="arithmetic",
        message=f"{spec.num_pages:,} pages of {spec.page_bytes:,} B: TTNN's 32-bit page count would wrap",
    )


def _mismatch(message: str) -> Verdict:
    return Verdict(Status.MISMATCH, stage="output", decided_by="harness", message=message)


def _free(tensors: list[Any]) -> None:
    """Frees at once; waiting for the garbage collector would show the next case a fuller device."""
    for tensor in tensors:
        if tensor.is_allocated():
            tensor.deallocate()
    tensors.clear()
