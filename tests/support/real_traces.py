"""Small models of torch, recorded by the real recorder on real tensors: the trace, and every value that it speaks of.

Everything is computed in float64, so that another order of a sum is no difference and every other one is. The trace says
bfloat16 in its place, so that it is lowered as a model of a port is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from ssinghal.capture.child.call_recorder import ModulePaths
from ssinghal.capture.child.trace_recorder import TraceRecorder
from ssinghal.capture.trace import Step, Trace, Value, ValueKind, trace_of, trace_text
from ssinghal.plan.lowering import EXTRAS

Values = dict[int, torch.Tensor]


class Net(torch.nn.Module):
    """``forward(self, *inputs)`` with these parts: modules, or tensors, which become parameters."""

    def __init__(self, forward: Callable[..., Any], **parts: Any) -> None:
        super().__init__()
        for name, part in parts.items():
            is_tensor = isinstance(part, torch.Tensor)
            setattr(self, name, torch.nn.Parameter(part, requires_grad=False) if is_tensor else part)
        self._forward = forward

    def forward(self, *inputs: torch.Tensor) -> Any:
        return self._forward(self, *inputs)


@dataclass(frozen=True)
class Recorded:
    """``values``: of every number of the trace as it was when it was made; so those of the results are what torch computes."""

    trace: Trace
    values: Values

    def given(self) -> Values:
        """What is there before the first step."""
        return {n: self.values[n] for n, value in enumerate(self.trace.values) if value.kind is not ValueKind.ACTIVATION}

    def results(self) -> list[torch.Tensor]:
        return [self.values[n] for n in self.trace.results]


class _Keeping(TraceRecorder):
    def __init__(self, *arguments: Any) -> None:
        self.kept: Values = {}
        super().__init__(*arguments)

    def _new(self, tensor: torch.Tensor, kind: ValueKind, name: str) -> int:
        number = super()._new(tensor, kind, name)
        self.kept[number] = tensor.detach().clone()
        return number


def recorded(model: torch.nn.Module, *inputs: torch.Tensor | tuple[int, ...], seed: int = 0) -> Recorded:
    """One forward in evaluation mode. Inputs that are given as shapes are normal; weights and statistics are made anew, so that
    none is a special value (a norm begins with 1 and 0)."""
    generator = torch.Generator().manual_seed(seed)
    tensors = [x if isinstance(x, torch.Tensor) else _normal(x, generator) for x in inputs]
    for name, tensor in (*model.double().named_parameters(), *model.named_buffers()):
        if tensor.is_floating_point():
            fresh = _normal(tensor.shape, generator)
            tensor.data.copy_(fresh.abs() + 0.5 if name.endswith("running_var") else fresh)
    model.eval()
    paths = ModulePaths(model, torch.float64)
    recorder = _Keeping(paths, model, tensors)
    torch.set_default_dtype(torch.float64)
    try:
        with torch.inference_mode(), paths.followed(), recorder:
            returned = model(*tensors)
    finally:
        torch.set_default_dtype(torch.float32)
    results = recorder.results_of(returned)
    recorder.finish()
    values = tuple(replace(v, dtype="bfloat16") if v.dtype == "float64" else v for v in recorder.values)
    head = {
        "model": {"name": "net", "package": "mine==local", "config": "", "params": 0, "fused": False},
        "input": {"shapes": [list(t.shape) for t in tensors], "dtype": "bfloat16"},
        "capture": {"torch": str(torch.__version__), "level": "torch", "device": "cpu", "guessed": 0},
    }
    return Recorded(Trace(head, values, tuple(recorder.steps), results), recorder.kept)


def _normal(shape: Sequence[int], generator: torch.Generator) -> torch.Tensor:
    return torch.randn(tuple(shape), generator=generator, dtype=torch.float64)


def close(actual: Sequence[torch.Tensor], expected: Sequence[torch.Tensor]) -> bool:
    """Shapes and values, to what float64 leaves of them."""
    return len(actual) == len(expected) and all(
        a.shape == e.shape and torch.allclose(a.double(), e.double(), rtol=1e-9, atol=1e-9 * float(e.double().abs().max()))
        for a, e in zip(actual, expected, strict=True)
    )


# What a trace computes ------------------------------------------------------------------------------------------------------


def interpreted(trace: Trace, given: Values) -> list[torch.Tensor]:
    """The results, by torch's own overloads. A value is dropped when the trace says that it died, so that one which is read
    afterwards is a KeyError."""
    values = dict(given)
    for step in trace.steps:
        returned = _called(step, values)
        results = returned if isinstance(returned, (list, tuple)) else [returned]
        assert len(step.results) == len(results) or len(step.results) == 1, step
        for number, result in zip(step.results, results, strict=False):
            assert tuple(result.shape) == trace.values[number].shape, (step, result.shape)
            values[number] = result
        for number in step.dead:
            del values[number]
    return [values[n] for n in trace.results]


def _called(step: Step, values: Values) -> Any:
    assert not step.writes, "an interpreter of values has no views"
    extras = {key.removeprefix(EXTRAS): value for key, value in step.args.items() if key.startswith(EXTRAS)}
    name, overload = step.overload.split(".")[1:]
    function = getattr(getattr(torch.ops.aten, name), overload)
    given = {k: v for k, v in step.args.items() if not k.startswith(EXTRAS)}
    for argument, operand in step.operands.items():
        if isinstance(operand, tuple):
            given[argument] = [values[n] for n in operand]
        else:
            given[argument] = None if operand is None else values[operand].clone()  # some calls write in place
    if "folded" in extras:
        parts = extras["folded"]
        given["weight"], given["bias"] = folded_weight(given["weight"], parts, values), folded_bias(parts, values)
    if "heads" in extras:
        return heads(given["self"], extras["heads"])
    if extras.get("padding_mode") == "replicate":
        sides = [n for p in reversed(given.pop("padding")) for n in (p, p)]
        given["input"] = torch.nn.functional.pad(given["input"], sides, mode="replicate")
    absent = {a.name: None for a in function._schema.arguments if not a.has_default_value()}
    return function(**{**absent, **given})


def folded_weight(weight: torch.Tensor, parts: Sequence[Any], values: Values) -> torch.Tensor:
    """norm(conv(x)) = gamma (W x + b - mean) / sqrt(variance + eps) + beta, so W is scaled by s = gamma / sqrt(variance + eps)
    for each out channel."""
    _, gamma, _, _, variance = (None if n is None else values[n] for n in parts[:5])
    scale = 1 / torch.sqrt(variance + parts[5])
    scale = scale if gamma is None else gamma * scale
    return weight * scale.reshape(-1, *[1] * (weight.dim() - 1))


def folded_bias(parts: Sequence[Any], values: Values) -> torch.Tensor:
    """And the bias is (b - mean) s + beta."""
    own, _, beta, mean, _ = (None if n is None else values[n] for n in parts[:5])
    bias = folded_weight(-mean if own is None else own - mean, parts, values)
    return bias if beta is None else bias + beta


def heads(packed: torch.Tensor, count: int) -> list[torch.Tensor]:
    """[B, N, 3 H d], queries before keys before values, to three of [B, H, N, d]: what TTNN's call gives."""
    batch, length, _ = packed.shape
    return [part.reshape(batch, length, count, -1).transpose(1, 2) for part in packed.chunk(3, -1)]


# What every trace must be ---------------------------------------------------------------------------------------------------


def checked(trace: Trace) -> Trace:
    """The trace as a file would hold it: without the values that no step makes any more, numbered anew, and read back, which
    checks that each value is made once before it is read and not read after it died."""
    made = {n for step in trace.steps for n in step.results}
    kept = [n for n, value in enumerate(trace.values) if value.kind is not ValueKind.ACTIVATION or n in made]
    new = {old: number for number, old in enumerate(kept)}

    def numbered(operand: Any) -> Any:
        return tuple(map(numbered, operand)) if isinstance(operand, tuple) else new.get(operand)

    steps = []
    for step in trace.steps:
        assert all(n in new for n in (*step.inputs, *step.results, *step.dead)), step
        args = {key: value for key, value in step.args.items() if key != f"{EXTRAS}folded"}  # values by their old numbers
        operands = {name: numbered(operand) for name, operand in step.operands.items()}
        steps.append(replace(step, operands=operands, args=args, results=numbered(step.results), dead=numbered(step.dead)))
    values: tuple[Value, ...] = tuple(trace.values[n] for n in kept)
    return trace_of(trace_text(Trace(trace.head, values, tuple(steps), numbered(trace.results))))


__all__ = ["Net", "Recorded", "Values", "checked", "close", "folded_bias", "folded_weight", "heads", "interpreted", "recorded"]
