"""Records the calls of TTNN that a plan makes, on a virtual device or in torch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from types import ModuleType
from typing import Any, NamedTuple

from ssinghal.capture.trace import Trace
from ssinghal.core.device_facts import DeviceFacts
from ssinghal.core.tensors import TensorSpec
from ssinghal.core.verdict import Verdict
from ssinghal.device.session import Session
from ssinghal.plan.convolutions import map_convolution
from ssinghal.plan.executor import PlanTask
from ssinghal.plan.lowering import planned_steps
from ssinghal.plan.result import PlanResult
from ssinghal.plan.weights import ResidentWeights
from ssinghal.runner.tasks import PoolOptions, Task

LOADING = ("prepare_", "allocate_", "empty")  # prefixes of calls before the first step


class NotedCall(NamedTuple):
    """A call. ``arguments``: numbers and text, without tensors and memory configs. ``results``: (shape, layout, dtype)."""

    name: str
    arguments: tuple[Any, ...]
    results: tuple[tuple[tuple[int, ...], str, str], ...]


class Noting:
    """A session whose calls of ttnn are recorded in ``calls``; everything else is delegated."""

    def __init__(self, session: Any) -> None:
        self._session = session
        self.calls: list[NotedCall] = []
        self.ttnn = _Module(session.ttnn, self.calls)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._session, name)


class _Module:
    def __init__(self, module: Any, calls: list[NotedCall]) -> None:
        self._module, self._calls = module, calls

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._module, name)
        if isinstance(value, ModuleType) and not name.startswith("_"):
            return _Module(value, self._calls)
        noted = callable(value) and not isinstance(value, type) and not name.startswith(LOADING)
        return self._noted(name, value) if noted else value

    def _noted(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            returned = function(*args, **kwargs)
            results = [t for t in (returned if isinstance(returned, (list, tuple)) else [returned]) if _is_tensor(t)]
            if results and not kwargs.get("return_weights_and_bias"):  # that is a preparation before the first step
                arguments = [*map(_plain, args), *((key, _plain(value)) for key, value in sorted(kwargs.items()))]
                specs = tuple((tuple(t.shape), t.layout.name, t.dtype.name) for t in results)
                self._calls.append(
                    NotedCall(name, tuple(a for a in arguments if a not in (None, (), *_named_nothing(a))), specs)
                )
            return returned

        return call


def _named_nothing(argument: Any) -> tuple[Any, ...]:
    """Returns a keyword without a value, which is left out."""
    return (argument,) if isinstance(argument, tuple) and argument[1:] in ((None,), ((),)) else ()


def _plain(value: Any) -> Any:
    if isinstance(value, (list, tuple)) and not hasattr(value, "_fields"):
        return tuple(item for item in map(_plain, value) if item is not None)
    return value if isinstance(value, (bool, int, float, str)) and type(value) in (bool, int, float, str) else None


def _is_tensor(value: Any) -> bool:
    return hasattr(value, "padded_shape")


@dataclass(frozen=True)
class NotedPlan(Task["tuple[PlanResult, list[NotedCall]]"]):
    """Runs a model and returns the calls that it made."""

    plan: PlanTask

    def run(self, session: Session, options: PoolOptions) -> tuple[PlanResult, list[NotedCall]]:
        noting = Noting(session)
        plan = replace(self.plan, inside=False)  # or else calls are repeated without dispatch, to know their program buffers
        result = plan.run(noting, options)  # type: ignore[arg-type]
        return result, noting.calls

    def lost(self, verdict: Verdict, facts: DeviceFacts) -> tuple[PlanResult, list[NotedCall]]:
        return self.plan.lost(verdict, facts), []


Specs = list[tuple[tuple[int, ...], tuple[int, ...], str, str]]  # shape, padded shape, layout, dtype of weight and bias


@dataclass(frozen=True)
class WeightsOfConvolution(Task["tuple[Specs, Specs]"]):
    """Returns the weights that a plan places for the one convolution of a trace, and those that TTNN's call prepares."""

    trace: Trace

    def run(self, session: Session, options: PoolOptions) -> tuple[Specs, Specs]:
        session.use_regions(32768)
        try:
            return self._placed(session), self._returned(session)
        finally:
            session.clear()

    def _placed(self, session: Session) -> Specs:
        residents, steps = ResidentWeights(session, self.trace), planned_steps(self.trace)
        residents.decide_specs(steps)
        residents.place_all(steps)
        return [_facts(tensor) for tensor in residents.tensors.values()]

    def _returned(self, session: Session) -> Specs:
        ttnn, (step,) = session.ttnn, planned_steps(self.trace)
        convolution = map_convolution(step)
        channels = step.case.inputs[0][1]
        weight, *bias = (self.trace.values[number].shape for number in step.operands[1:])

        def host(shape: tuple[int, ...]) -> Any:
            spec = ttnn.TensorSpec(list(shape), ttnn.bfloat16, ttnn.ROW_MAJOR_LAYOUT, ttnn.BufferType.DRAM)
            return ttnn.allocate_tensor_on_host(spec, session.device)

        _, (weights, vector) = getattr(ttnn, convolution.function)(
            input_tensor=session.empty(TensorSpec((1, 1, convolution.rows, channels), layout=convolution.layout)),
            weight_tensor=host(weight),
            bias_tensor=host((1, 1, 1, *bias[0])) if bias else None,
            device=session.device,
            memory_config=ttnn.DRAM_MEMORY_CONFIG,
            return_weights_and_bias=True,
            **convolution.call,
        )
        return [_facts(tensor) for tensor in (weights, vector) if tensor is not None]

    def lost(self, verdict: Verdict, facts: DeviceFacts) -> tuple[Specs, Specs]:
        raise AssertionError(verdict.message)


def _facts(tensor: Any) -> tuple[tuple[int, ...], tuple[int, ...], str, str]:
    return tuple(tensor.shape), tuple(tensor.padded_shape), tensor.layout.name, tensor.dtype.name


__all__ = ["NotedCall", "NotedPlan", "Noting", "WeightsOfConvolution"]
