"""Runs single steps on a device, with their operands in given forms, to see what each way of calling them needs.

Equal calls of a model are the same call: a step is cut out of its trace, with its values numbered anew and without names, and
what was seen is kept under that.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from ssinghal.capture.trace import Step, Trace, Value, ValueKind
from ssinghal.core.device_facts import DeviceFacts
from ssinghal.core.memory_config import BufferType
from ssinghal.core.verdict import Resource, Status, Verdict
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
from ssinghal.plan.weights import Prepared, ResidentWeights
from ssinghal.runner.probe import TTNN_ERRORS
from ssinghal.runner.tasks import PoolOptions, Task
from ssinghal.tracker.shadow import nodes_without_dispatch


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
    values = tuple(_anonymous(trace.values[value], number) for value, number in numbers.items())
    head = {"model": {"factory": ""}, "input": {"shapes": [], "dtype": trace.dtype}, "capture": {}}
    return Trace(head, values, (single,), single.results)


def _anonymous(value: Value, number: int) -> Value:
    kind = value.kind if value.is_resident else ValueKind.ACTIVATION
    return replace(value, kind=kind, name="", storage=number)


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
        trials = _StepTrials(self, session)
        try:
            return [trials.outcome(request) for request in self.requests]
        finally:
            if session.clear():
                session.reopen()

    def lost(self, verdict: Verdict, facts: DeviceFacts) -> list[Outcome]:
        return [Outcome(failure=verdict)] * len(self.requests)

    def exhausted_host(self, result: list[Outcome]) -> bool:
        return any(outcome.failure is not None and outcome.failure.resource is Resource.HOST for outcome in result)


class _StepTrials:
    """Tries requests one after the other. What TTNN prepared for one, and the programs that it built, serve the others."""

    def __init__(self, probe: StepProbe, session: Session) -> None:
        self.probe, self.session = probe, session
        self.meter = CallMeter(session)
        self.prepared: Prepared = {}
        (self.planned,) = planned_steps(probe.trace)

    def outcome(self, request: StepRequest) -> Outcome:
        """Returns what one request does. One that finds no room for its tables gets a region that holds no others."""
        outcome = self._outcome(request)
        if outcome.failure is None or outcome.failure.resource is not Resource.L1_SMALL_BUFFER:
            return outcome
        if self.session.clear():
            self.session.reopen()
        return self._outcome(request)

    def _outcome(self, request: StepRequest) -> Outcome:
        planned = self.planned
        if not isinstance(planned, PlannedCall):
            return Outcome(failure=Verdict(Status.UNSUPPORTED, message=planned.reason))
        ops = LayoutOps(self.session, self.probe.policy)
        ops.ttnn = self.meter.ttnn
        store: dict[int, HeldTensor] = {}
        try:
            return self._tried(planned, request, ops, store)
        except TTNN_ERRORS as error:
            verdict = replace(translate_error(type(error).__name__, str(error)), stage=ops.doing)
            error.__traceback__ = None  # its frames hold tensors
        except InvalidCase as error:  # settings or shards that do not go with this call
            verdict = Verdict(Status.INVALID, message=str(error), stage=ops.doing)
            error.__traceback__ = None
        finally:
            store.clear()
        return Outcome(failure=verdict)

    def _tried(self, planned: PlannedCall, request: StepRequest, ops: LayoutOps, store: dict[int, HeldTensor]) -> Outcome:
        session, meter = self.session, self.meter
        choices = {planned.number: request.choice}
        policy = self.probe.policy
        residents = ResidentWeights(
            session,
            self.probe.trace,
            policy.weights,
            choices,
            activations=policy.activations,
            prepared=self.prepared,
            ttnn=meter.ttnn,
        )
        ops.doing = "preparing the weights"
        residents.decide_specs([planned])
        residents.place_all([planned])
        before = session.allocated_bytes()
        store.update(self._operands(planned, request))
        step = meter.start()
        start = session.memory(BufferType.L1).allocated_bytes
        results = placed_results(self._work(planned, ops, residents, store), request.choice)
        end = session.memory(BufferType.L1).allocated_bytes
        small = session.memory(BufferType.L1_SMALL).allocated_bytes
        positions = {number: position for position, number in reversed(list(enumerate(planned.operands)))}
        addresses = {
            int(x.tensor.buffer_address()): positions[number] for number, x in store.items() if x.tensor.is_allocated()
        }
        operands = {
            position: Held(self._form(store[number]))
            for position, number in enumerate(planned.operands)
            if number in store and store[number].tensor.is_allocated()
        }
        held = tuple(Held(self._form(x), addresses.get(int(x.tensor.buffer_address()))) for x in results)
        if step.unknown:
            results.clear()
            step.note_without_dispatch(self._repeated(planned, request, residents))
        return Outcome(
            operands,
            held,
            max(step.l1_peak_bytes, start, end) - before.get(BufferType.L1, 0),
            step.program_bytes,
            small,
            max(0, step.peaks[BufferType.DRAM] - before.get(BufferType.DRAM, 0)),
            step.traffic,
            None,
            (*step.calls, *(program.name for program in step.unknown)),
        )

    def _operands(self, planned: PlannedCall, request: StepRequest) -> dict[int, HeldTensor]:
        forms = {planned.operands[position]: form for position, form in reversed(request.operands)}
        return {number: HeldTensor(self.session.empty(form.spec), form.axes) for number, form in forms.items()}

    def _work(self, planned: PlannedCall, ops: LayoutOps, residents: ResidentWeights, store: Mapping[int, HeldTensor]) -> Work:
        dying = frozenset(planned.operands[position] for position in self.probe.dies)
        shapes = [self.probe.trace.values[number].shape for number in planned.results]
        return Work(planned, ops, residents, store, shapes, dying)

    def _repeated(self, planned: PlannedCall, request: StepRequest, residents: ResidentWeights) -> list[dict[str, Any]]:
        """Returns the graph of the same step without dispatch, on operands that are allocated there: nothing can be freed."""
        ops = LayoutOps(self.session, self.probe.policy)

        def repeat() -> None:
            store = self._operands(planned, request)
            placed_results(self._work(planned, ops, residents, store), request.choice)

        return nodes_without_dispatch(self.session.graph, repeat)

    def _form(self, x: HeldTensor) -> Form:
        spec = self.session.spec_of(x.tensor)
        return Form(spec.memory, spec.shape, spec.dtype, spec.layout, x.axes)
