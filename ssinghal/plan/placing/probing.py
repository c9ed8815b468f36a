"""Runs single steps on a device, with their operands in given forms, to see what each way of calling them needs.

Equal calls of a model are the same call: a step is cut out of its trace, with its values numbered anew and without names, and
what was seen is kept under that.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from ssinghal.capture.trace import Step, Trace
from ssinghal.core.device_facts import DeviceFacts
from ssinghal.core.memory_config import BufferType
from ssinghal.core.record import Resource, Status, Verdict
from ssinghal.device.error_patterns import translate_error
from ssinghal.device.session import Session
from ssinghal.errors import InvalidCase
from ssinghal.plan.layout_ops import HeldTensor, LayoutOps
from ssinghal.plan.lowering import PlannedCall, planned_steps
from ssinghal.plan.metering import CallMeter
from ssinghal.plan.placement import Form, Held, Outcome, StepChoice
from ssinghal.plan.policy import PortingPolicy
from ssinghal.plan.rules.base import Work
from ssinghal.plan.step_run import placed_results
from ssinghal.plan.weights import ResidentWeights
from ssinghal.runner.probe import TTNN_ERRORS
from ssinghal.runner.tasks import PoolOptions, Task


@dataclass(frozen=True)
class StepRequest:
    """One way of calling a step. ``operands``: by position, the activations among them; ``Held.shares`` is not used."""

    operands: tuple[tuple[int, Form], ...]
    choice: StepChoice


def single_step(trace: Trace, step: Step) -> Trace:
    """Returns a trace of one step, whose values are numbered in the order in which the step names them.

    Two calls that differ only in which values they read, and where in the model, give equal traces.
    """
    numbers: dict[int, int] = {}
    for value in (*step.inputs, *step.results):
        numbers.setdefault(value, len(numbers))

    def renumbered(operand: Any) -> Any:
        if isinstance(operand, tuple):
            return tuple(None if value is None else numbers[value] for value in operand)
        return None if operand is None else numbers[operand]

    folded = "ssinghal:folded"
    args = {key: [] if key == folded else value for key, value in step.args.items()}  # other weights, of the same form
    operands = {name: renumbered(operand) for name, operand in step.operands.items()}
    single = replace(step, operands=operands, args=args, results=tuple(numbers[v] for v in step.results), at="", dead=())
    values = tuple(replace(trace.values[value], name="", storage=number) for value, number in numbers.items())
    head = {"model": {"factory": ""}, "input": {"shapes": [], "dtype": trace.dtype}, "capture": {}}
    return Trace(head, values, (single,), single.results)


@dataclass(frozen=True)
class StepProbe(Task[list[Outcome]]):
    """Ways of calling one step, each tried on an empty device. ``dies``: positions of operands that nobody reads afterwards."""

    trace: Trace
    policy: PortingPolicy
    dies: frozenset[int]
    requests: tuple[StepRequest, ...]
    l1_small_bytes: int

    def run(self, session: Session, options: PoolOptions) -> list[Outcome]:
        session.use_regions(self.l1_small_bytes)
        return [_StepTrial(self, session, request).outcome() for request in self.requests]

    def lost(self, verdict: Verdict, facts: DeviceFacts) -> list[Outcome]:
        return [Outcome(failure=verdict)] * len(self.requests)

    def exhausted_host(self, result: list[Outcome]) -> bool:
        return any(outcome.failure is not None and outcome.failure.resource is Resource.HOST for outcome in result)


class _StepTrial:
    """One request on an empty device."""

    def __init__(self, probe: StepProbe, session: Session, request: StepRequest) -> None:
        self.probe, self.session, self.request = probe, session, request
        self.ops = LayoutOps(session, probe.policy)
        choices = {0: request.choice}
        self.residents = ResidentWeights(session, probe.trace, probe.policy.weights, choices)
        self.store: dict[int, HeldTensor] = {}

    def outcome(self) -> Outcome:
        (planned,) = planned_steps(self.probe.trace)
        if not isinstance(planned, PlannedCall):
            return Outcome(failure=Verdict(Status.UNSUPPORTED, message=planned.reason))
        with self._emptied():
            try:
                return self._tried(planned)
            except TTNN_ERRORS as error:
                verdict = replace(translate_error(type(error).__name__, str(error)), stage=self.ops.doing)
                error.__traceback__ = None  # its frames hold tensors
            except InvalidCase as error:  # settings or shards that do not go with this call
                verdict = Verdict(Status.INVALID, message=str(error), stage=self.ops.doing)
                error.__traceback__ = None
        return Outcome(failure=verdict)

    @contextmanager
    def _emptied(self) -> Iterator[None]:
        try:
            yield
        finally:
            self.store.clear()
            self.residents.clear()
            if self.session.clear():
                self.session.reopen()

    def _tried(self, planned: PlannedCall) -> Outcome:
        session, values = self.session, self.probe.trace.values
        self.residents.decide_specs([planned])
        session.clear()
        meter = CallMeter(session)
        self.ops.ttnn = meter.ttnn
        self.residents.place_all([planned])
        weights = session.memory(BufferType.DRAM).allocated_bytes
        for position, form in self.request.operands:
            number = planned.operands[position]
            if number not in self.store:
                self.store[number] = HeldTensor(session.empty(form.spec), form.axes)
        dying = frozenset(planned.operands[position] for position in self.probe.dies)
        shapes = [values[number].shape for number in planned.results]
        step = meter.start()
        start = session.memory(BufferType.L1).allocated_bytes
        results = placed_results(Work(planned, self.ops, self.residents, self.store, shapes, dying), self.request.choice)
        end = session.memory(BufferType.L1).allocated_bytes
        small = session.memory(BufferType.L1_SMALL).allocated_bytes
        positions = {number: position for position, number in reversed(list(enumerate(planned.operands)))}
        addresses = {
            int(x.tensor.buffer_address()): positions[number] for number, x in self.store.items() if x.tensor.is_allocated()
        }
        operands = {positions[n]: Held(self._form(x)) for n, x in self.store.items() if x.tensor.is_allocated()}
        return Outcome(
            operands,
            tuple(Held(self._form(x), addresses.get(int(x.tensor.buffer_address()))) for x in results),
            max(step.l1_peak_bytes, start, end),
            step.program_bytes,
            small,
            max(0, step.peaks[BufferType.DRAM] - weights),
            step.traffic,
            None,
            (*step.calls, *step.unknown),
        )

    def _form(self, x: HeldTensor) -> Form:
        spec = self.session.spec_of(x.tensor)
        return Form(spec.memory, spec.shape, spec.dtype, spec.layout, x.axes)
