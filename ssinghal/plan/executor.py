"""One run of a whole model on a device: real calls, real allocation and freeing, in a worker process of its own."""

from __future__ import annotations

import hashlib
import json
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from ssinghal.capture.trace import Trace, Value, ValueKind, logical_bytes, trace_text
from ssinghal.core.device_facts import DeviceFacts
from ssinghal.core.record import Resource, Status, Verdict
from ssinghal.core.tensors import BufferType, DType, Layout, TensorSpec, ceil_div
from ssinghal.device.error_patterns import translate_error
from ssinghal.device.session import Session
from ssinghal.device.usage import buffer_peaks
from ssinghal.operators.operator_info import PLACED_DTYPES
from ssinghal.plan.axis_layout import AxisLayout
from ssinghal.plan.layout_ops import HeldTensor, LayoutOps
from ssinghal.plan.lowering import PlannedStep, planned_steps
from ssinghal.plan.memory_audit import Ledger, Unbalanced
from ssinghal.plan.policy import Lifetime, PortingPolicy
from ssinghal.plan.result import CallFailure, LiveValue, PlanResult, Split, StandIn, StepUse
from ssinghal.plan.rules.base import Work
from ssinghal.plan.rules.dispatch import results_of
from ssinghal.plan.weights import ResidentWeights
from ssinghal.runner.probe import TTNN_ERRORS
from ssinghal.runner.tasks import PoolOptions, Task

LARGEST = 10  # values told of a peak or a failure
MAX_STAND_INS = 0.01  # of all bytes that calls make


@dataclass(frozen=True)
class PlanTask(Task[PlanResult]):
    """``journal``: a file that gets one line a step as it is done. ``allow_stand_ins``: of whatever share of the bytes.
    ``inside``: also watch what TTNN allocates within its calls. ``to_the_end``: go on after the first failure."""

    trace: Trace
    policy: PortingPolicy
    l1_small_bytes: int
    journal: Path | None = None
    allow_stand_ins: bool = False
    inside: bool = True
    to_the_end: bool = True

    def run(self, session: Session, options: PoolOptions) -> PlanResult:
        session.use_regions(self.l1_small_bytes)
        try:
            return _PlanExecution(self, session).result()
        finally:
            if session.clear():
                session.reopen()

    def lost(self, verdict: Verdict, facts: DeviceFacts) -> PlanResult:
        done = len(self.journal.read_text().splitlines()) if self.journal is not None and self.journal.exists() else 0
        told = replace(verdict, stage=f"step {done}")
        result = _blank(self, facts.board, facts.ttnn, facts.mode)
        return replace(result, status=told.status, message=f"{told.message}; {done} of {result.total_steps} steps were done")

    def exhausted_host(self, result: PlanResult) -> bool:
        return result.failure is not None and result.failure.verdict.resource is Resource.HOST


def _blank(task: PlanTask, board: str, ttnn: str, mode: str) -> PlanResult:
    return PlanResult(
        task.trace.model, task.trace.input_shapes, board, ttnn, mode, task.policy.to_json(), str(task.policy),
        hashlib.sha256(trace_text(task.trace).encode()).hexdigest(), task.l1_small_bytes, Status.ERROR,
        total_steps=len(task.trace.steps),
    )  # fmt: skip


class _PlanExecution:
    """``store``: the live values. A value that a failed or impossible call should have made is not in it."""

    def __init__(self, task: PlanTask, session: Session) -> None:
        self.task, self.session, self.trace, self.policy = task, session, task.trace, task.policy
        self.hand = LayoutOps(session, task.policy)
        self.residents = ResidentWeights(session, task.trace)
        self.ledger = Ledger(session)
        self.store: dict[int, HeldTensor] = {}
        self.uses: list[StepUse] = []
        self.failures: list[CallFailure] = []
        self.stand_ins: list[StandIn] = []
        self.peak_bytes, self.peak_step, self.peak_split = 0, -1, Split()
        self.peak_alive: tuple[LiveValue, ...] = ()
        last = task.trace.last_use if task.policy.lifetime is Lifetime.LAST_USE else task.trace.last_object
        self._dying: dict[int, list[int]] = {}
        for number, step in last.items():
            if not task.trace.values[number].is_resident:
                self._dying.setdefault(step, []).append(number)
        self._weights_padding = 0
        self._hash = hashlib.sha256()

    def result(self) -> PlanResult:
        started = time.perf_counter()
        steps = planned_steps(self.trace)
        session, facts = self.session, self.session.facts
        status, message = Status.FITS, ""
        try:
            if self._load(steps):
                with _journal(self.task.journal) as write:
                    for step in steps:
                        self._step(step)
                        write(self.uses[-1])
                        if self.failures and not self.task.to_the_end:
                            break
        except Unbalanced as error:
            status, message = Status.ERROR, f"the account does not balance, so nothing of this plan counts: {error}"
        left = self._drop()
        if left and status is Status.FITS:
            status, message = Status.ERROR, f"the account does not balance: {left} outlive the model"
        first = self.failures[0] if self.failures else None
        share = self._stand_in_share(steps)
        if status is Status.FITS and first is not None:
            status, message = first.verdict.status, first.verdict.message
        elif status is Status.FITS and share > MAX_STAND_INS and not self.task.allow_stand_ins:
            status = Status.UNSUPPORTED
            message = f"stand-ins made {100 * share:.1f} % of the bytes; more than {100 * MAX_STAND_INS:g} % decide nothing"
        return replace(
            _blank(self.task, facts.board, facts.ttnn, facts.mode),
            status=status,
            message=message,
            dram_bank_bytes=session.board.dram.bank_bytes,
            dram_banks=session.board.dram.num_banks,
            peak_bytes=self.peak_bytes,
            peak_step=self.peak_step,
            peak=self.peak_split,
            alive=self.peak_alive,
            l1_peak_bytes=max((use.l1_peak_bytes for use in self.uses), default=0),
            l1_bank_bytes=session.board.l1.bank_bytes,
            l1_small_peak_bytes=max((use.l1_small_bytes for use in self.uses), default=0),
            failure=first,
            later=tuple(self.failures[1:]),
            stand_ins=tuple(self.stand_ins),
            stand_in_share=share,
            steps=tuple(self.uses),
            steps_sha256=self._hash.hexdigest(),
            checked=self.ledger.checked,
            duration_s=time.perf_counter() - started,
        )

    # Before the first step ------------------------------------------------------------------------------------------------

    def _load(self, steps: tuple[PlannedStep, ...]) -> bool:
        """Weights, then inputs. False where they do not fit, which is then the failure."""
        self.hand.doing = "prepare the weights"
        try:
            self.residents.spec_all(steps)
            self.session.clear()
            self.hand.doing = "place the weights"
            self.residents.place_all(steps)
            self.hand.doing = "place the inputs"
            for number, value in enumerate(self.trace.values):
                if value.kind is ValueKind.INPUT:
                    self.store[number] = self._placed(value)
        except TTNN_ERRORS as error:
            self.failures.append(self._failure(None, error))
            return False
        self.ledger.keep(self.residents.tensors.values())
        specs = [self.session.spec_of(tensor) for tensor in self.residents.tensors.values()]
        banks = self.session.board.dram.num_banks
        self._weights_padding = self.ledger.weights_bytes - sum(ceil_div(spec.logical_bytes, banks) for spec in specs)
        self._account(self.ledger.check("weights and inputs", self._tensors()), 0)
        return True

    def _placed(self, value: Value) -> HeldTensor:
        """An input as a port brings it: maps channels-last in rows, all else as torch has it in tiles."""
        dtype = PLACED_DTYPES.get(value.dtype, DType(self.trace.dtype))
        n, c, *rest = (*value.shape, 1, 1)[:4] if len(value.shape) == 4 else (1, 1)
        if self.policy.lazy_views and len(value.shape) == 4:
            spec = TensorSpec((1, 1, n * math.prod(rest), c), dtype, Layout.ROW_MAJOR)
            return HeldTensor(self.session.empty(spec), AxisLayout.plain(value.shape, (0, 2, 3, 1)))
        return HeldTensor(self.session.empty(TensorSpec(value.shape or (1,), dtype)), AxisLayout.plain(value.shape))

    # Steps ----------------------------------------------------------------------------------------------------------------

    def _step(self, planned: PlannedStep) -> None:
        values = self.trace.values
        dies = self._dying.get(planned.number, [])
        made: list[HeldTensor] = []
        inside: dict[BufferType, int] = {}
        before = self.session.allocated_bytes()
        status = Status.FITS
        missing = [n for n in planned.operands if n not in self.store and not values[n].is_resident]
        if missing:
            status = Status.NOT_RUN
        elif planned.case is None:
            status = self._stand_in(planned, planned.reason, made)
        else:
            shapes = [values[n].shape for n in planned.results]
            work = Work(planned, self.hand, self.residents, self.store, shapes, frozenset(dies))
            try:
                inside = self._watched(lambda: made.extend(self._done(work)))
            except TTNN_ERRORS as error:
                made.clear()
                failure = self._failure(planned, error)
                error.__traceback__ = None  # its frames hold tensors
                self.failures.append(failure)
                status = failure.verdict.status
                self._stand_in(planned, "", made)
            del work
        for number, held in zip(planned.results, made, strict=False):
            self.store[number] = held
        made.clear()
        after = self.ledger.check(f"step {planned.number} {planned.operator} in {planned.step.at}", self._tensors())
        peak = {kind: max(after[kind], before.get(kind, 0) + inside.get(kind, 0)) for kind in after}
        l1, small = BufferType.L1, BufferType.L1_SMALL
        self.uses.append(
            StepUse(
                planned.number,
                planned.operator,
                planned.step.at,
                status,
                after[BufferType.DRAM],
                peak[BufferType.DRAM],
                after[l1],
                peak[l1],
                after[small],
                self.ledger.cached[BufferType.DRAM],
            )
        )
        self._hash.update(repr((planned.number, status.value, *(after[kind] for kind in sorted(after)))).encode())
        if not self.failures:
            self._account(peak, planned.number, after[BufferType.DRAM])
        for number in dies:
            self.store.pop(number, None)

    def _done(self, work: Work) -> list[HeldTensor]:
        results = results_of(work)
        for held, shape in zip(results, work.shapes, strict=False):
            if held.form.shape != tuple(shape) or math.prod(held.shape) != held.form.volume:
                raise Unbalanced(
                    f"step {work.planned.number} {work.planned.operator}: a result {list(shape)} came as {list(held.shape)}"
                )
            if not self.policy.lazy_views:
                self.hand.plain(held)
        return results

    def _watched(self, call: Callable[[], None]) -> dict[BufferType, int]:
        """Most bytes per bank that are allocated within the call, beyond those that were there."""
        if not self.task.inside or not self.session.can_capture:
            call()
            return {}
        return buffer_peaks(self.session.capture_running(call), self.session.board)

    def _stand_in(self, planned: PlannedStep, reason: str, made: list[HeldTensor]) -> Status:
        """Tensors of the results' sizes, in the order of the first operand where that has the rank, else as torch has them.
        What does not fit either is missing from there on."""
        first = next((self.store[n] for n in planned.operands if n in self.store), None)
        values = [self.trace.values[n] for n in planned.results]
        if reason:
            size = sum(map(logical_bytes, values))
            self.stand_ins.append(StandIn(planned.number, planned.step.overload, planned.step.at, reason, size))
        for value in values:
            order = first.form.device_dims() if first is not None and len(first.form.dims) == len(value.shape) else None
            order = order or list(range(len(value.shape)))
            dtype = PLACED_DTYPES.get(value.dtype, DType(self.trace.dtype))
            shape = [value.shape[d] for d in order]
            rows = (1, 1, math.prod(shape[:-1]), shape[-1]) if shape and order != sorted(order) else tuple(shape) or (1,)
            try:
                made.append(HeldTensor(self.session.empty(TensorSpec(rows, dtype)), AxisLayout.plain(value.shape, order)))
            except TTNN_ERRORS as error:
                if reason:
                    self.failures.append(self._failure(planned, error))
                error.__traceback__ = None
                return Status.OOM
        return Status.UNSUPPORTED

    def _failure(self, planned: PlannedStep | None, error: Exception) -> CallFailure:
        verdict = replace(translate_error(type(error).__name__, str(error)), stage=self.hand.doing)
        alive, split = self._alive()
        values = self.trace.values
        operands = () if planned is None else tuple(values[n].shape for n in planned.operands)
        results = () if planned is None else tuple(values[n].shape for n in planned.results)
        number, name, at = (-1, "", "") if planned is None else (planned.number, planned.operator, planned.step.at)
        return CallFailure(
            number, name, at, self.hand.doing, operands, results, verdict, alive, split, after=bool(self.failures)
        )

    # Account --------------------------------------------------------------------------------------------------------------

    def _tensors(self) -> Iterator[Any]:
        return (held.tensor for held in self.store.values())

    def _account(self, peak: Any, number: int, after_bytes: int | None = None) -> None:
        peak_bytes = peak[BufferType.DRAM]
        if peak_bytes > self.peak_bytes:
            self.peak_bytes, self.peak_step = peak_bytes, number if after_bytes is not None else -1
            self.peak_alive, split = self._alive()
            self.peak_split = replace(split, temporaries_bytes=peak_bytes - split.total_bytes)

    def _alive(self) -> tuple[tuple[LiveValue, ...], Split]:
        """The largest live values, and what all of them take."""
        board = self.session.board
        found: dict[int, LiveValue] = {}
        padding = 0
        for number, held in self.store.items():
            spec, value = self.session.spec_of(held.tensor), self.trace.values[number]
            if spec.memory.buffer is BufferType.DRAM and held.tensor.buffer_address() not in found:
                size = spec.booked_bytes_per_bank(board)
                padding += size - ceil_div(spec.logical_bytes, board.dram.num_banks)
                found[held.tensor.buffer_address()] = LiveValue(
                    number, value.name, value.shape, spec.shape, spec.layout.value, size, spec.logical_bytes
                )
        activations = sum(alive.bytes_per_bank for alive in found.values())
        padding += self._weights_padding
        split = Split(self.ledger.weights_bytes, activations, self.ledger.cached[BufferType.DRAM], 0, padding)
        largest = sorted(found.values(), key=lambda alive: (-alive.bytes_per_bank, alive.value))[:LARGEST]
        return tuple(largest), split

    def _stand_in_share(self, steps: tuple[PlannedStep, ...]) -> float:
        total = sum(logical_bytes(self.trace.values[n]) for step in steps for n in step.results)
        return sum(s.result_bytes for s in self.stand_ins) / total if total else 0.0

    def _drop(self) -> str:
        """Frees everything; what is still allocated then was referenced by nobody's value."""
        self.store.clear()
        self.residents.clear()
        left = self.session.clear()
        return ", ".join(f"{size:,} B per bank of {kind.value}" for kind, size in left.items())


class _journal:
    """One line a step, flushed: what a crash leaves. Writes nothing without a path."""

    def __init__(self, path: Path | None) -> None:
        self._file = None if path is None else path.open("w", encoding="utf-8")

    def __enter__(self) -> Callable[[StepUse], None]:
        return self._write

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            self._file.close()

    def _write(self, use: StepUse) -> None:
        if self._file is not None:
            self._file.write(json.dumps({**asdict(use), "status": use.status.value}) + "\n")
            self._file.flush()
