"""Probes one case on one device: places the operands, calls TTNN, reads the allocator, frees everything."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ssinghal.core.case import Case
from ssinghal.core.estimate import Prediction
from ssinghal.core.measured import Comparison, PlacedTensor, Usage
from ssinghal.core.record import Record
from ssinghal.core.tensors import Board, BufferType, ShardKind, TensorSpec
from ssinghal.core.verdict import DecidedBy, Resource, Status, Verdict
from ssinghal.device.error_patterns import translate_error
from ssinghal.device.report_database import reported
from ssinghal.device.session import Session
from ssinghal.device.usage import usage_of
from ssinghal.errors import InvalidCase
from ssinghal.estimation.estimator import estimate
from ssinghal.operators.binding import bind
from ssinghal.operators.settings.passing import lacking
from ssinghal.operators.settings.signatures import parameters

# What TTNN's Python bindings raise; MemoryError is host memory. Anything else is a bug of the harness and is not caught.
TTNN_ERRORS = (RuntimeError, TypeError, ValueError, IndexError, MemoryError)


@dataclass(frozen=True)
class Limits:
    """Host work that a case may need. TTNN lists every source page of a tile reshape on the host, 1-70 us per output tile, and
    the windows of a convolution or pool, up to 14 us per row of a channels-last result.

    Above ``host_tiles`` the case is not run. A capture reuses the page list that a call which fits has left in the program
    cache; a call that failed is not captured above ``capture_tiles``, as TTNN would list the pages again. Windows are always
    listed again, so above ``capture_rows`` there is no capture.
    """

    host_tiles: int = 200_000
    capture_tiles: int = 5_000
    capture_rows: int = 1_000_000


def probe(
    case: Case, session: Session, *, numerics: bool = False, limits: Limits = Limits(), report: Path | None = None
) -> Record:
    """Runs ``case`` and returns its record. The device is empty before and after.

    Nothing is allocated on the host, so a case of many GiB takes milliseconds, and values are not checked; with ``numerics`` a
    call that fits is repeated with values and compared with torch, but for calls over several chips: torch has no reference for
    what each chip holds of them. With ``report``, a folder, TTNN's report database is
    written there, and the call is not repeated to capture its usage.
    """
    started = time.perf_counter()
    session.use_regions(case.placement.l1_small_bytes or 0, fabric=bind(case).fabric)
    attempt = _Attempt(case, session, limits)
    if report is None:
        verdict = attempt.run()
        usage, note = attempt.usage(verdict)
    else:
        verdict = reported(session, attempt.run, report, *_about(case, session))
        usage, note = None, "a report was made"
    comparison = None
    if numerics and verdict.status is Status.FITS and not attempt.call.is_distributed:
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
        usage=usage,
        usage_note=note,
        comparison=comparison,
        resident={kind.value: size for kind, size in attempt.resident.items()},
        left_allocated={kind.value: size for kind, size in left.items()},
        duration_s=round(time.perf_counter() - started, 6),
        mesh=session.facts.mesh,
    )


def _about(case: Case, session: Session) -> tuple[str, dict[str, str]]:
    """Returns a report's title and metadata."""
    device = f"{session.facts.mode} {session.facts.board}"
    facts = {
        "case": json.dumps(case.identity()),
        "case_key": case.key,
        "device": device,
        "numerics": "not run: memory verdicts only",
    }
    return f"{case.name} {case.id} ({device}, numerics not run)", facts


class _Attempt:
    """The steps of one probe. Tensors exist within ``run`` only."""

    def __init__(self, case: Case, session: Session, limits: Limits) -> None:
        self.limits = limits
        self.case = case
        self.session = session
        self.board = session.board
        self.call = bind(case, self.board)
        self.is_invalid = False
        self.placed: list[PlacedTensor] = []
        self.expected: list[TensorSpec] = []
        self.inputs: list[TensorSpec] = []
        self.resident: dict[BufferType, int] = {}
        self.kept: dict[BufferType, int] = {}

    def run(self) -> Verdict:
        """Places the operands before it checks the call: a tensor that does not fit is an OOM, whatever the call."""
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
                return Verdict(Status.UNSUPPORTED, stage="call", decided_by=DecidedBy.REGISTRY, message=limitation.reason)
            if missing := self._missing_setting():
                return Verdict(Status.UNSUPPORTED, stage="call", decided_by=DecidedBy.REGISTRY, message=missing)
            if (
                self.call.host_tiles > self.limits.host_tiles
                and estimate(self.case, self.board).verdict is not Prediction.EXCEEDS
            ):
                # TTNN allocates the result before it maps, so it fails at once where the result cannot fit
                return Verdict(Status.NOT_RUN, stage="call", decided_by=DecidedBy.ARITHMETIC, message=self._too_slow())
            verdict = self._call(tensors)
        finally:
            _free(tensors)
        kept = self.kept = self.session.allocated_bytes()  # buffers of the program cache are neither operand nor result
        self.resident = {kind: size - kept.get(kind, 0) for kind, size in self.resident.items() if size > kept.get(kind, 0)}
        return verdict

    def _missing_setting(self) -> str:
        """Returns the setting of the call that this release of TTNN lacks; empty where it has all."""
        if not self.call.settings:
            return ""
        missing = lacking(self.session.ttnn, self.call.settings_by_function())
        return missing and f"ttnn {self.session.facts.ttnn} has no {missing}"

    def _complete(self) -> Verdict | None:
        """Sets the specs of operands and results; for an invalid call those of the plain inputs, and returns a verdict."""
        try:
            self.inputs, self.expected = self.call.specs()
            return None
        except InvalidCase as error:
            self.is_invalid = True
            self.inputs = self.call.placeable
            return Verdict(
                Status.INVALID, stage="call", decided_by=DecidedBy.ARITHMETIC, error_type="InvalidCase", message=str(error)
            )

    def _place(self, label: str, spec: TensorSpec, tensors: list[Any]) -> Verdict | None:
        if spec.wraps_page_count:
            return too_many_pages(label, spec, self.board)
        before = self.session.allocated_in(spec.memory.buffer)
        try:
            tensors.append(self.session.empty(spec, shard_dim=self.call.shard_dim(len(tensors))))
        except TTNN_ERRORS as error:
            return replace(self._translated(error), stage=label)
        except AttributeError as error:
            return self._unsupported(error, label)
        booked = self.session.allocated_in(spec.memory.buffer) - before
        self.placed.append(_placed(label, spec, self.board, booked))
        return None

    def _call(self, tensors: list[Any]) -> Verdict:
        for number, spec in enumerate(self.expected, 1):
            if spec.wraps_page_count:
                return too_many_pages(_output_label(number, self.expected), spec, self.board)
        results: list[Any] = []
        try:
            results += self._invoke(tensors)
        except TTNN_ERRORS as error:
            if untaken := self._untaken_dtype(error):
                return Verdict(Status.UNSUPPORTED, stage="call", decided_by=DecidedBy.REGISTRY, message=untaken)
            verdict = self._translated(error)
            return replace(verdict, stage=_stage_of(verdict, self.expected, self.board))
        except AttributeError as error:
            return self._unsupported(error, "call")
        except InvalidCase as error:  # a setting that this call has no use for
            return Verdict(
                Status.INVALID, stage="call", decided_by=DecidedBy.HARNESS, error_type="InvalidCase", message=str(error)
            )
        else:
            return self._check_results(results)
        finally:
            _free(results)

    def _translated(self, error: Exception) -> Verdict:
        # every failed check of a function that TTNN alone has, and torch does not, is a rule of TTNN
        plain = self.call.is_plain and bool(self.call.info.aten)
        return translate_error(type(error).__name__, str(error), plain=plain)

    def _invoke(self, tensors: Sequence[Any]) -> list[Any]:
        out = self.session.output_arguments(self.call.requested_output)
        return self.call.run(self.session.ttnn, self.session.device, tensors, out)

    def _called(self) -> str:
        return " or ".join(f"ttnn.{function}" for function in self.call.functions)

    def _untaken_dtype(self, error: Exception) -> str:
        """Returns that the function takes no dtype for its result, if one is requested and that caused ``error``, else ""."""
        requested = self.case.placement.output_dtype
        if requested is None or not isinstance(error, TypeError):
            return ""
        path, found, _ = str(error).strip().partition("(): incompatible function arguments")
        function: Any = self.session.ttnn
        for part in path.removeprefix("ttnn.").split("."):
            function = getattr(function, part, None)
        taken = parameters(function) if found and function is not None else {}
        return f"{path} takes no dtype for its result; {requested} is requested" if taken and "dtype" not in taken else ""

    def _unsupported(self, error: AttributeError, stage: str) -> Verdict:
        """Returns what this release lacks; raises ``error`` where it has another cause."""
        missing = self.session.missing_function(error)
        if missing is None:
            raise error
        return Verdict(Status.UNSUPPORTED, stage=stage, error_type="AttributeError", message=missing)

    def _check_results(self, results: Sequence[Any]) -> Verdict:
        """Checks the results' shape, dtype, layout and memory."""
        self.resident = self.session.allocated_bytes()
        actual = [self.session.spec_of(r) for r in results]
        for number, spec in enumerate(actual, 1):
            label = _output_label(number, actual)
            self.placed.append(_placed(label, spec, self.board, None))
        if len(actual) != len(self.expected):
            return _mismatch(f"TTNN returned {len(actual)} tensors; expected {len(self.expected)}")
        ttnn_chooses = self.call.is_output_open
        for wanted, got in zip(self.expected, actual, strict=True):
            facts = {name: (getattr(got, name), getattr(wanted, name)) for name in ("shape", "dtype", "layout")}
            if self.call.is_layout_open:
                del facts["layout"]
            if not ttnn_chooses:
                facts["memory"] = (got.memory.buffer, wanted.memory.buffer)
            differ = [
                f"{name} {actually}; expected {expected}"
                for name, (actually, expected) in facts.items()
                if actually != expected
            ]
            requested = self.case.placement.output_dtype
            if requested not in (None, got.dtype) and len(differ) == 1:
                message = f"{self._called()} does not keep to dtype {requested}: the result is {got.dtype}"
                return Verdict(Status.UNSUPPORTED, stage="call", message=message)
            if differ:
                return _mismatch(f"TTNN returned {', '.join(differ)}")
        return Verdict(Status.FITS, message=self._moved(actual))

    def _moved(self, specs: Sequence[TensorSpec]) -> str:
        """Returns where TTNN put a result for which it takes, or keeps to, no memory config; empty where it is as requested."""
        config = self.call.requested_output.memory
        buffers = {spec.memory.buffer for spec in specs}
        if config is None or buffers <= {config.buffer}:
            return self._resharded(specs)
        went = " and ".join(sorted(buffer.value for buffer in buffers))
        takes = "takes no" if self.call.info.traits.output_fixed else "does not keep to its"
        return f"{self.call.info.ttnn} {takes} memory_config: the result went to {went}, not {config.buffer.value}"

    def _resharded(self, specs: Sequence[TensorSpec]) -> str:
        """Returns the shards of a result for which the call requested others; empty where TTNN kept to the request."""
        if specs and self.call.is_layout_open and specs[0].layout is not self.expected[0].layout:
            requested = " as requested" if self.call.layout_setting else ""
            return f"the result is in {specs[0].layout} layout, not {self.expected[0].layout}{requested}"
        placement = self.case.placement
        if placement.is_plain or placement.output_config is None or self.call.info.traits.output_fixed:
            return ""
        both = zip(specs, self.expected, strict=True)
        changed = [(got, want) for got, want in both if not _placed_alike(got, want, self.board)]
        return "; ".join(f"the result is in {got.memory}, not {want.memory}" for got, want in changed)

    def _window_rows(self) -> int:
        """Rows of the result if TTNN lists windows for it, as it does for operators that keep the list in L1_SMALL; else 0."""
        slides = self.call.info.traits.nhwc and self.call.info.traits.l1_small_bytes
        return math.prod(self.expected[0].shape[:-1]) if slides else 0

    def _too_slow(self) -> str:
        tiles, limit = self.call.host_tiles, self.limits.host_tiles
        return f"TTNN maps {tiles:,} tiles on the host for this call; more than {limit:,} are not tried"

    def compare(self) -> tuple[Verdict, Comparison | None]:
        """Repeats the call with values: it fits, differs, or fails (placing values takes host memory)."""
        from ssinghal.runner.numerics import compare_with_torch

        try:
            comparison = compare_with_torch(self.call, self.session)
        except TTNN_ERRORS as error:
            return replace(translate_error(type(error).__name__, str(error)), stage="numerics"), None
        except InvalidCase as error:  # an activation without a reference
            return Verdict(Status.FITS, message=str(error)), None
        if comparison.fault:
            return Verdict(Status.MISMATCH, stage="output", decided_by=DecidedBy.TORCH, message=comparison.fault), comparison
        return Verdict(Status.FITS), comparison

    def usage(self, verdict: Verdict) -> tuple[Usage | None, str]:
        """Returns the call's peaks from a capture, which neither dispatches nor allocates, so it also shows what an OOM needs.

        The capture reuses programs that the call has left in the cache. That is fast, but the buffers that they keep (tables of
        pools and convolutions, page maps of reshapes) are then not in the capture, so they are added.
        """
        if self.is_invalid or verdict.decided_by is not DecidedBy.TTNN:
            return None, "no TTNN call was made"
        if not self.session.can_capture:
            return None, f"graphs of ttnn {self.session.facts.ttnn} have no bytes per bank"
        if verdict.resource is Resource.HOST:
            return None, "the call exhausted host memory"
        if verdict.stopped_at_operand:
            return None, "an operand does not fit, so the call was not made"
        if verdict.status is not Status.FITS and self.call.host_tiles > self.limits.capture_tiles:
            return None, f"not captured: TTNN maps {self.call.host_tiles:,} tiles on the host for this call"
        if self._window_rows() > self.limits.capture_rows:
            return None, f"not captured: TTNN lists windows for {self._window_rows():,} rows on the host for this call"

        def whole_call() -> None:
            dims = map(self.call.shard_dim, range(len(self.inputs)))
            _free(self._invoke([self.session.empty(x, shard_dim=dim) for x, dim in zip(self.inputs, dims, strict=True)]))

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


def _placed_alike(got: TensorSpec, want: TensorSpec, board: Board) -> bool:
    """Whether a result is as requested. TTNN describes ND shards as height, width or block shards where these are the same."""
    if got.memory == want.memory:
        return True
    mine, theirs = got.memory.shard, want.memory.shard
    if mine is None or theirs is None or theirs.kind is not ShardKind.ND or got.memory.buffer is not want.memory.buffer:
        return False
    same_cores = (mine.cores, mine.orientation) == (theirs.cores, theirs.orientation)
    return same_cores and got.allocated_bytes(board) == want.allocated_bytes(board)


def _output_label(number: int, outputs: Sequence[TensorSpec]) -> str:
    return "output" if len(outputs) == 1 else f"output {number}"


def _stage_of(verdict: Verdict, outputs: Sequence[TensorSpec], board: Board) -> str:
    """Returns which allocation of the call failed: the result of these bytes, else a temporary, or the program."""
    if verdict.resource in (Resource.CIRCULAR_BUFFER, Resource.CLASH, Resource.KERNEL_CONFIG):
        return "program"
    if verdict.bytes_per_bank is None:
        return "call"
    for number, spec in enumerate(outputs, 1):
        if (spec.allocated_bytes(board), spec.bytes_per_bank(board)) == (verdict.total_bytes, verdict.bytes_per_bank):
            return _output_label(number, outputs)
    return "intermediate"


def too_many_pages(label: str, spec: TensorSpec, board: Board) -> Verdict:
    """TTNN counts pages in 32 bits and would accept this tensor as a tiny one, so arithmetic decides."""
    region = board.region(spec.memory.buffer)
    return Verdict(
        Status.OOM,
        Resource.DRAM_BUFFER if spec.memory.buffer is BufferType.DRAM else Resource.L1_BUFFER,
        stage=label,
        total_bytes=spec.allocated_bytes(board),
        bytes_per_bank=spec.bytes_per_bank(board),
        banks=spec.num_banks(board),
        bank_bytes=region.bank_bytes,
        decided_by=DecidedBy.ARITHMETIC,
        message=f"{spec.num_pages:,} pages of {spec.page_bytes:,} B: TTNN's 32-bit page count would wrap",
    )


def _mismatch(message: str) -> Verdict:
    return Verdict(Status.MISMATCH, stage="output", decided_by=DecidedBy.HARNESS, message=message)


def _free(tensors: list[Any]) -> None:
    """Frees at once: the garbage collector might do so only during the next case."""
    for tensor in tensors:
        if tensor.is_allocated():
            tensor.deallocate()
    tensors.clear()
