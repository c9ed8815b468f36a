"""Runs a plan once more and records it: the steps with their calls and frees, the weights and how TTNN prepared them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, cast

from ssinghal.capture.trace import Trace
from ssinghal.core.device_facts import DeviceFacts
from ssinghal.core.tensors import TensorSpec
from ssinghal.core.verdict import Verdict
from ssinghal.device.code_writer import RecordedCall
from ssinghal.device.session import Session
from ssinghal.plan.axis_layout import AxisLayout
from ssinghal.plan.executor import PlanExecution, PlanTask
from ssinghal.plan.lowering import PlannedStep
from ssinghal.plan.policy import PortingPolicy
from ssinghal.plan.program.transcript import Event, RecordingSession, TensorFacts
from ssinghal.plan.result import PlanResult
from ssinghal.plan.weights import PlacedWeight, PreparedWeights, ResidentWeights
from ssinghal.runner.tasks import PoolOptions, Task


@dataclass(frozen=True)
class Holding:
    """A tensor with a value: its number in the transcript, and how the axes of the value lie in it."""

    number: int
    axes: AxisLayout


@dataclass(frozen=True)
class RecordedWeight:
    """A weight or constant as it is placed. ``spec``: None where TTNN prepares it, by ``preparation`` at ``position``."""

    number: int
    value: int
    spec: TensorSpec | None
    transposed: bool
    features_inner: int | None
    folded: tuple[Any, ...]
    position: int
    preparation: int | None = None


@dataclass(frozen=True)
class RecordedStep:
    """A step: its number in the rewritten trace, its operator, what happened, and the values that are held after it."""

    number: int
    operator: str
    at: str
    results: tuple[int, ...]
    operands: tuple[int, ...]
    events: tuple[Event, ...]
    held: Mapping[int, Holding]


@dataclass(frozen=True)
class Recording:
    """A run. ``trace``: the rewritten one. ``preparations``: calls of TTNN by number. ``inputs``: in the order of placing."""

    trace: Trace
    policy: PortingPolicy
    l1_small_bytes: int
    weights: tuple[RecordedWeight, ...]
    preparations: tuple[tuple[RecordedCall, ...], ...]
    inputs: Mapping[int, Holding]
    steps: tuple[RecordedStep, ...]
    facts: tuple[TensorFacts, ...]


class _RecordedResidents(ResidentWeights):
    """Weights that note which calls of TTNN prepared them, and which tensor each of them became."""

    def __init__(self, session: RecordingSession, task: PlanTask) -> None:
        policy = task.policy
        super().__init__(cast(Session, session), task.trace, policy.weights, task.choices, activations=policy.activations)
        self.recorder = session.recorder
        self.preparations: list[tuple[RecordedCall, ...]] = []
        self.numbers: dict[PlacedWeight, int] = {}
        self._by_signature: dict[tuple[Any, ...], int] = {}

    def _map_weight(self, *arguments: Any) -> Any:
        before = len(self.recorder.events)
        spec = super()._map_weight(*arguments)
        calls = tuple(event for event in self.recorder.events[before:] if isinstance(event, RecordedCall))
        if calls and isinstance(spec, PreparedWeights):
            self._by_signature[spec.signature] = len(self.preparations)
            self.preparations.append(calls)
        return spec

    def place_all(self, steps: Iterable[PlannedStep]) -> None:
        self.recorder.tracks = True
        super().place_all(steps)

    def _placed(self, weight: PlacedWeight) -> Any:
        tensor = super()._placed(weight)
        self.numbers[weight] = tensor.number
        return tensor

    def recorded(self) -> Iterable[RecordedWeight]:
        for weight, number in self.numbers.items():
            spec = weight.spec
            changes = (weight.transposed, weight.features_inner, weight.folded)
            if isinstance(spec, PreparedWeights):
                preparation = self._by_signature[spec.signature]
                yield RecordedWeight(number, weight.value, None, *changes, spec.position, preparation)
            else:
                yield RecordedWeight(number, weight.value, spec, *changes, 0)


class _RecordedExecution(PlanExecution):
    """A run of a plan that is recorded. TTNN's own graph is not captured meanwhile."""

    def __init__(self, task: PlanTask, session: RecordingSession) -> None:
        super().__init__(task, cast(Session, session))
        self.recorder = session.recorder
        self.residents: _RecordedResidents = _RecordedResidents(session, task)
        self.recorded: list[RecordedStep] = []
        self.inputs: dict[int, Holding] = {}

    def _load(self, steps: tuple[PlannedStep, ...]) -> bool:
        loaded = super()._load(steps)
        self.inputs = self._held()
        return loaded

    def _step(self, planned: PlannedStep) -> None:
        before = len(self.recorder.events)
        super()._step(planned)
        events = tuple(self.recorder.events[before:])
        where = planned.number, planned.operator, planned.step.at
        self.recorded.append(RecordedStep(*where, planned.results, planned.operands, events, self._held()))

    def _held(self) -> dict[int, Holding]:
        return {value: Holding(x.tensor.number, x.axes) for value, x in self.store.items()}

    def _free_all(self) -> str:
        self.recorder.tracks = False
        return super()._free_all()


@dataclass(frozen=True)
class RecordingTask(Task["tuple[PlanResult, Recording | None]"]):
    """Runs a plan and records it. The recording is None where the plan does not run to its end."""

    plan: PlanTask

    def run(self, session: Session, options: PoolOptions) -> tuple[PlanResult, Recording | None]:
        plan = replace(self.plan, inside=False, to_the_end=False, journal=None)
        session.use_regions(plan.l1_small_bytes)
        recording = RecordingSession(session)
        try:
            execution = _RecordedExecution(plan, recording)
            result = execution.result()
        finally:
            if session.clear():
                session.reopen()
        if result.failure is not None or len(execution.recorded) < result.total_steps:
            return result, None
        trace = plan.trace
        return result, Recording(
            trace,
            plan.policy,
            plan.l1_small_bytes,
            tuple(execution.residents.recorded()),
            tuple(execution.residents.preparations),
            execution.inputs,
            tuple(execution.recorded),
            tuple(recording.recorder.facts),
        )

    def lost(self, verdict: Verdict, facts: DeviceFacts) -> tuple[PlanResult, Recording | None]:
        return self.plan.lost(verdict, facts), None
