"""Runs a complete model on a device: real calls, real allocation and freeing, in a separate worker process."""

from __future__ import annotations

import hashlib
import json
import math
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from ssinghal.capture.trace import Trace, Value, ValueKind, logical_bytes, trace_text
from ssinghal.core.device_facts import DeviceFacts
from ssinghal.core.tensors import MAX_RANK, BufferType, DType, Layout, ceil_div
from ssinghal.core.verdict import Resource, Status, Verdict
from ssinghal.device.error_patterns import translate_error
from ssinghal.device.session import Session
from ssinghal.operators.operator_info import PLACED_DTYPES
from ssinghal.plan.activations import dtype_notes
from ssinghal.plan.axis_layout import AxisLayout
from ssinghal.plan.compaction import compact
from ssinghal.plan.layout_ops import HeldTensor, LayoutOps
from ssinghal.plan.lowering import PlannedCall, PlannedStep, planned_steps
from ssinghal.plan.memory_audit import AuditError, MemoryAudit, stored_spec
from ssinghal.plan.metering import CallMeter, StepMeter
from ssinghal.plan.placement import DRAM, IN_DRAM, Choices, Form, StepChoice
from ssinghal.plan.policy import Lifetime, PortingPolicy
from ssinghal.plan.result import CallFailure, LiveValue, PlanResult, Split, StandIn, StepUse
from ssinghal.plan.rules.base import Work
from ssinghal.plan.step_run import placed_results
from ssinghal.plan.weights import ResidentWeights
from ssinghal.runner.probe import TTNN_ERRORS
from ssinghal.runner.tasks import PoolOptions, Task

LARGEST = 10  # values that are reported of a peak or a failure
MAX_STAND_INS = 0.01  # of all bytes that calls produce


@dataclass(frozen=True)
class PlanTask(Task[PlanResult]):
    """A model to run.

    ``journal``: a file that gets a line for each step when it is done. ``allow_stand_ins``: for any share of the bytes.
    ``inside``: also watch what TTNN allocates within its calls. ``to_the_end``: continue after the first failure. ``choices``:
    where the steps put their tensors, and with which settings they are called.
    """

    trace: Trace
    policy: PortingPolicy
    l1_small_bytes: int
    journal: Path | None = None
    allow_stand_ins: bool = False
    inside: bool = True
    to_the_end: bool = True
    choices: Choices = field(default_factory=dict)

    def run(self, session: Session, options: PoolOptions) -> PlanResult:
        session.use_regions(self.l1_small_bytes)
        try:
            return PlanExecution(self, session).result()
        finally:
            if session.clear():
                session.reopen()

    def lost(self, verdict: Verdict, facts: DeviceFacts) -> PlanResult:
        done = len(self.journal.read_text().splitlines()) if self.journal is not None and self.journal.exists() else 0
        result = empty_result(self, facts.board, facts.ttnn, facts.mode)
        message = f"{verdict.message}; {done} of {result.total_steps} steps were done"
        return replace(result, status=verdict.status, message=message)

    def exhausted_host(self, result: PlanResult) -> bool:
        return result.failure is not None and result.failure.verdict.resource is Resource.HOST


def empty_result(task: PlanTask, board: str, ttnn: str, mode: str) -> PlanResult:
    """Returns the result of a run of which nothing is known yet."""
    return PlanResult(
        task.trace.model, task.trace.input_shapes, board, ttnn, mode, task.policy.to_json(), str(task.policy),
        hashlib.sha256(trace_text(task.trace).encode()).hexdigest(), task.l1_small_bytes, Status.ERROR,
        total_steps=len(task.trace.steps),
    )  # fmt: skip


def placed_form(value: Value, floats: str, policy: PortingPolicy) -> Form:
    """Returns an input as a port places it in DRAM: maps channels-last in rows, everything else in torch's order in tiles.

    ``floats``: the dtype of those that TTNN lacks.
    """
    dtype = PLACED_DTYPES.get(value.dtype, DType(floats))
    if policy.lazy_views and len(value.shape) == 4:
        n, c, *rest = value.shape
        rows = (1, 1, n * math.prod(rest), c)
        return Form(DRAM, rows, dtype, Layout.ROW_MAJOR, AxisLayout.plain(value.shape, (0, 2, 3, 1)))
    return Form(DRAM, value.shape or (1,), dtype, Layout.TILE, AxisLayout.plain(value.shape))


def stand_in_form(value: Value, floats: str, first: AxisLayout | None) -> Form:
    """Returns how a stand-in for a value is held: in DRAM, in the order of the first operand where that has the same rank."""
    order = first.device_dims() if first is not None and len(first.dims) == len(value.shape) else None
    order = order or list(range(len(value.shape)))
    shape = [value.shape[d] for d in order]
    rows = (1, 1, math.prod(shape[:-1]), shape[-1]) if shape and order != sorted(order) else tuple(shape) or (1,)
    if len(rows) > MAX_RANK:
        rows = (math.prod(rows[:-2]), *rows[-2:])
    smallest = tuple(max(size, 1) for size in rows)  # no device tensor is without elements
    dtype = PLACED_DTYPES.get(value.dtype, DType(floats))
    return Form(DRAM, smallest, dtype, Layout.TILE, AxisLayout.plain(value.shape, order))


class _StepOutcome(NamedTuple):
    """``results``: those that exist, or stand-ins for them."""

    status: Status
    results: list[HeldTensor]


class PlanExecution:
    """One run. ``store``: the live values, without those that a failed or impossible call should have produced."""

    def __init__(self, task: PlanTask, session: Session) -> None:
        self.task, self.session, self.trace, self.policy = task, session, task.trace, task.policy
        self.ops = LayoutOps(session, task.policy)
        self.residents = ResidentWeights(
            session, task.trace, task.policy.weights, task.choices, activations=task.policy.activations
        )
        self.meter = CallMeter(session) if task.inside and session.can_capture else None
        self.audit = MemoryAudit(session)
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
        self._result_storages = {task.trace.values[number].storage for number in task.trace.results}
        self._makers: dict[int, str] = {}  # value -> the operator that makes it
        self._weights_padding = 0
        self._kept: Counter[tuple[str, DType]] = Counter()  # steps that left tiles, by operator and dtype
        self._hash = hashlib.sha256()

    def result(self) -> PlanResult:
        """Runs the model and returns what was measured."""
        started = time.perf_counter()
        steps = planned_steps(self.trace)
        self._makers = {number: step.operator for step in steps for number in step.results}
        board, facts = self.session.board, self.session.facts
        audit_error = self._run(steps)
        share = self._stand_in_share(steps)
        status, message = self._status(audit_error, share)
        return replace(
            empty_result(self.task, facts.board, facts.ttnn, facts.mode),
            status=status,
            message=message,
            dram_bank_bytes=board.dram.bank_bytes,
            dram_banks=board.dram.num_banks,
            peak_bytes=self.peak_bytes,
            peak_step=self.peak_step,
            peak=self.peak_split,
            alive=self.peak_alive,
            l1_peak_bytes=max((use.l1_peak_bytes for use in self.uses), default=0),
            l1_bank_bytes=board.l1.bank_bytes,
            l1_small_peak_bytes=max((use.l1_small_bytes for use in self.uses), default=0),
            failure=self.failures[0] if self.failures else None,
            later=tuple(self.failures[1:]),
            stand_ins=tuple(self.stand_ins),
            stand_in_share=share,
            steps=tuple(self.uses),
            steps_sha256=self._hash.hexdigest(),
            checked=self.audit.checked,
            duration_s=time.perf_counter() - started,
            notes=dtype_notes(steps, self.policy.activations, self._kept),
        )

    def _run(self, steps: tuple[PlannedStep, ...]) -> str:
        """Runs the steps and frees everything; returns the error of the memory audit, "" where there is none."""
        error = ""
        try:
            if self._load(steps):
                with _journal(self.task.journal) as write:
                    for step in steps:
                        self._step(step)
                        write(self.uses[-1])
                        if self.failures and not self.task.to_the_end:
                            break
        except AuditError as difference:
            error = f"the memory audit failed, so no number of this plan is valid: {difference}"
        leftover = self._free_all()
        return error or (f"the memory audit failed: {leftover} are still allocated after the model" if leftover else "")

    def _status(self, audit_error: str, stand_in_share: float) -> tuple[Status, str]:
        """Returns the status of the plan and its message."""
        if audit_error:
            return Status.ERROR, audit_error
        if self.failures:
            verdict = self.failures[0].verdict
            return verdict.status, verdict.message
        if stand_in_share > MAX_STAND_INS and not self.task.allow_stand_ins:
            share = f"{100 * stand_in_share:.1f} % of the bytes"
            return Status.UNSUPPORTED, f"stand-ins produce {share}; with more than {100 * MAX_STAND_INS:g} % nothing is decided"
        return Status.FITS, ""

    # Before the first step ------------------------------------------------------------------------------------------------

    def _load(self, steps: tuple[PlannedStep, ...]) -> bool:
        """Places weights, then inputs; False where they do not fit, which is then the failure."""
        loading: int | None = None
        try:
            self.ops.doing = "preparing the weights"
            self.residents.decide_specs(steps)
            self.session.clear()
            if self.meter is not None:
                self.ops.ttnn = self.meter.ttnn
            self.ops.doing = "placing the weights"
            self.residents.place_all(steps)
            self.ops.doing = "placing the inputs"
            for loading, value in enumerate(self.trace.values):
                if value.kind is ValueKind.INPUT:
                    self.store[loading] = self._placed(value)
        except TTNN_ERRORS as error:
            self._keep_weights()
            self.failures.append(self._loading_failure(self.residents.placing if loading is None else loading, error))
            return False
        self._keep_weights()
        self._update_peak(self.audit.check("weights and inputs", self._tensors())[BufferType.DRAM], -1)
        self._name_buffers()
        return True

    def _name_buffers(self) -> None:
        """Lets the meter know which buffers are the model's own."""
        if self.meter is not None:
            weights = (tensor.buffer_address() for tensor in self.residents.tensors.values())
            inputs = (x.tensor.buffer_address() for x in self.store.values())
            self.meter.owned = {
                **{int(address): ValueKind.WEIGHT for address in weights},
                **{int(address): ValueKind.INPUT for address in inputs},
            }

    def _keep_weights(self) -> None:
        """Counts the weights that were placed."""
        self.audit.keep(self.residents.tensors.values())
        specs = [self.session.spec_of(tensor) for tensor in self.residents.tensors.values()]
        banks = self.session.board.dram.num_banks
        self._weights_padding = self.audit.weights_bytes - sum(ceil_div(spec.logical_bytes, banks) for spec in specs)

    def _loading_failure(self, number: int | None, error: Exception) -> CallFailure:
        """Returns the failure to place the weight or input ``number``; the weights before it are then among the live values."""
        value = None if number is None else self.trace.values[number]
        name, shapes = (value.name, (value.shape,)) if value is not None else ("", ())
        verdict = replace(translate_error(type(error).__name__, str(error)), stage=name)
        alive, split = self._alive([(weight.value, tensor) for weight, tensor in self.residents.tensors.items()])
        return CallFailure(-1, "", name, self.ops.doing, shapes, (), verdict, alive, split)

    def _placed(self, value: Value) -> HeldTensor:
        form = placed_form(value, self.trace.dtype, self.policy)
        return HeldTensor(self.session.empty(form.spec), form.axes)

    # Steps ----------------------------------------------------------------------------------------------------------------

    def _step(self, planned: PlannedStep) -> None:
        """Runs one step, checks what is allocated then, and frees the values that die with it."""
        dies = self._dying.get(planned.number, [])
        meter = self.meter.start() if self.meter is not None else StepMeter()
        status, results = self._outcome(planned, frozenset(dies))
        self.store.update(zip(planned.results, results, strict=False))
        results.clear()
        after = self.audit.check(f"step {planned.number} {planned.operator} in {planned.step.at}", self._tensors())
        self._record(planned, status, after, meter)
        for number in dies:
            self.store.pop(number, None)

    def _record(self, planned: PlannedStep, status: Status, after: Mapping[BufferType, int], meter: StepMeter) -> None:
        dram, l1, small = BufferType.DRAM, BufferType.L1, BufferType.L1_SMALL
        peak = {kind: max(after[kind], meter.peaks[kind]) for kind in after}
        sizes = (after[dram], peak[dram], after[l1], peak[l1], after[small], self.audit.cached[dram])
        traffic = meter.traffic
        own = (meter.read[ValueKind.WEIGHT], meter.read[ValueKind.INPUT], self._results_written(planned, meter))
        moved = (traffic.dram_bytes, traffic.reshard_bytes, traffic.changes, *own)
        programs = (max(peak[l1], meter.l1_peak_bytes), meter.program_bytes)
        self.uses.append(StepUse(planned.number, planned.operator, planned.step.at, status, *sizes, *programs, *moved))
        self._hash.update(repr((planned.number, status.value, *(after[kind] for kind in sorted(after)))).encode())
        if not self.failures:
            self._update_peak(peak[dram], planned.number)

    def _results_written(self, planned: PlannedStep, meter: StepMeter) -> int:
        """Returns the bytes of results of the model, or of what they are views of, that a step wrote to DRAM."""
        values = self.trace.values
        tensors = [
            self.store[n].tensor for n in planned.results if n in self.store and values[n].storage in self._result_storages
        ]
        addresses = {int(tensor.buffer_address()) for tensor in tensors if tensor.is_allocated()}
        return sum(size for address, size in meter.written.items() if address in addresses)

    def _outcome(self, planned: PlannedStep, dies: frozenset[int]) -> _StepOutcome:
        """Makes the call of a step; a call that fails, or that no operator makes, leaves stand-ins for its results."""
        values = self.trace.values
        if any(n not in self.store and not values[n].is_resident for n in planned.operands):
            return _StepOutcome(Status.NOT_RUN, [])
        if not isinstance(planned, PlannedCall):
            status, results = self._stand_in(planned)
            return _StepOutcome(status, results)
        shapes = [values[n].shape for n in planned.results]
        work = Work(planned, self.ops, self.residents, self.store, shapes, dies)
        results = []
        try:
            results.extend(self._results(work, self.task.choices.get(planned.number, IN_DRAM)))
            return _StepOutcome(Status.FITS, results)
        except TTNN_ERRORS as error:
            failure = self._failure(planned, error)
            error.__traceback__ = None  # its frames hold tensors
        self.failures.append(failure)
        return _StepOutcome(failure.verdict.status, self._stand_in(planned)[1])

    def _results(self, work: Work, choice: StepChoice) -> list[HeldTensor]:
        if choice.compact:
            compact(self.ops, self.store)
        results = placed_results(work, choice)
        if self.policy.activations is not None:
            tiles = [x for x in results if self.ops.layout(x) is Layout.TILE]
            self._kept.update((work.planned.operator, kind) for kind in set(map(self.ops.dtype, tiles)))
        for x, shape in zip(results, work.shapes, strict=False):
            if x.axes.shape != tuple(shape) or math.prod(x.shape) != x.axes.volume:
                raise AuditError(
                    f"step {work.planned.number} {work.planned.operator}: a result {list(shape)} came as {list(x.shape)}"
                )
        return results

    def _stand_in(self, planned: PlannedStep) -> tuple[Status, list[HeldTensor]]:
        """Returns tensors of the sizes of the results, without those that do not fit either."""
        first = next((self.store[n] for n in planned.operands if n in self.store), None)
        values = [self.trace.values[n] for n in planned.results]
        tensors: list[HeldTensor] = []
        if planned.reason:
            size = sum(map(logical_bytes, values))
            self.stand_ins.append(StandIn(planned.number, planned.step.overload, planned.step.at, planned.reason, size))
        for value in values:
            form = stand_in_form(value, self.trace.dtype, first.axes if first is not None else None)
            try:
                tensor = self.session.empty(form.spec)
                tensors.append(HeldTensor(tensor, form.axes))
                if self.meter is not None:
                    self.meter.owned.pop(int(tensor.buffer_address()), None)  # an input may have been there
            except TTNN_ERRORS as error:
                if planned.reason:
                    self.failures.append(self._failure(planned, error))
                error.__traceback__ = None
                return Status.OOM, tensors
        return Status.UNSUPPORTED, tensors

    def _failure(self, planned: PlannedStep, error: Exception) -> CallFailure:
        verdict = replace(translate_error(type(error).__name__, str(error)), stage=self.ops.doing)
        alive, split = self._alive()
        values = self.trace.values
        operands, results = (tuple(values[n].shape for n in numbers) for numbers in (planned.operands, planned.results))
        return CallFailure(
            planned.number, planned.operator, planned.step.at, self.ops.doing, operands, results, verdict, alive, split,
            after=bool(self.failures),
        )  # fmt: skip

    # Accounting -----------------------------------------------------------------------------------------------------------

    def _tensors(self) -> Iterator[Any]:
        return (x.tensor for x in self.store.values())

    def _update_peak(self, peak_bytes: int, number: int) -> None:
        if peak_bytes > self.peak_bytes:
            self.peak_bytes, self.peak_step = peak_bytes, number
            self.peak_alive, split = self._alive()
            self.peak_split = replace(split, temporaries_bytes=peak_bytes - split.total_bytes)

    def _alive(self, weights: Iterable[tuple[int, Any]] = ()) -> tuple[tuple[LiveValue, ...], Split]:
        """Returns the largest live values, those of ``weights`` among them, and the bytes of all."""
        live = self._live_values((number, x.tensor) for number, x in self.store.items())
        activations = sum(alive.bytes_per_bank for alive in live.values())
        banks = self.session.board.dram.num_banks
        padding = sum(alive.bytes_per_bank - ceil_div(alive.logical_bytes, banks) for alive in live.values())
        cached = self.audit.cached[BufferType.DRAM]
        split = Split(self.audit.weights_bytes, activations, cached, 0, self._weights_padding + padding)
        values = [*live.values(), *self._live_values(weights).values()]
        return tuple(sorted(values, key=lambda alive: (-alive.bytes_per_bank, alive.value))[:LARGEST]), split

    def _live_values(self, tensors: Iterable[tuple[int, Any]]) -> dict[int, LiveValue]:
        """Returns the values in DRAM by address, so that views of each other count once."""
        live: dict[int, LiveValue] = {}
        for number, tensor in tensors:
            if not tensor.is_allocated():
                continue  # freed by the call that read it
            spec, value, address = stored_spec(self.session, tensor), self.trace.values[number], tensor.buffer_address()
            if spec.memory.buffer is BufferType.DRAM and address not in live:
                logical = self.session.spec_of(tensor)
                size = spec.booked_bytes_per_bank(self.session.board)
                made_by = self._makers.get(number, value.kind.value)
                sizes = (size, logical.logical_bytes)
                live[address] = LiveValue(number, value.name, value.shape, logical.shape, spec.layout.value, *sizes, made_by)
        return live

    def _stand_in_share(self, steps: tuple[PlannedStep, ...]) -> float:
        total = sum(logical_bytes(self.trace.values[n]) for step in steps for n in step.results)
        return sum(s.result_bytes for s in self.stand_ins) / total if total else 0.0

    def _free_all(self) -> str:
        """Frees everything; returns what is still allocated then, which belongs to no value."""
        self.store.clear()
        self.residents.clear()
        left = self.session.clear()
        return ", ".join(f"{size:,} B per bank of {kind.value}" for kind, size in left.items())


@contextmanager
def _journal(path: Path | None) -> Iterator[Callable[[StepUse], None]]:
    """Opens a journal, and yields the function that writes one line for a step, so that a crash leaves those before it."""
    if path is None:
        yield lambda use: None
        return
    with path.open("w", encoding="utf-8") as file:

        def write(use: StepUse) -> None:
            file.write(json.dumps({**asdict(use), "status": use.status.value}) + "\n")
            file.flush()

        yield write
