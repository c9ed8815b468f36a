"""Programs that plans write: written from a recorded model, and run with torch in the place of TTNN."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import ModuleType, SimpleNamespace
from typing import Any

import torch

from ssinghal.capture.trace import Trace, ValueKind
from ssinghal.core.verdict import Status
from ssinghal.plan.executor import PlanTask
from ssinghal.plan.passes.registry import rewritten
from ssinghal.plan.policy import PortingPolicy
from ssinghal.plan.program.model_source import ModelSource
from ssinghal.plan.program.recording import Recording, RecordingTask
from ssinghal.plan.program.writer import ProgramText
from ssinghal.plan.result import PlanResult
from ssinghal.runner.pool import Pool
from tests.support.real_traces import Recorded
from tests.support.torch_ttnn import ROW_MAJOR, TILE, Tensor, TorchTTNN

NO_SOURCE = ModelSource((), ('raise AssertionError("the test brings the model")',))


def recording_of(pool: Pool, trace: Trace, policy: PortingPolicy) -> tuple[PlanResult, Recording]:
    """Runs the plan of a model, recorded."""
    result, recording = pool.run(RecordingTask(PlanTask(rewritten(trace, policy), policy, 32768))).result()
    assert result.status is Status.FITS, result.message
    assert recording is not None
    return result, recording


def written(pool: Pool, trace: Trace, policy: PortingPolicy, source: ModelSource | None = NO_SOURCE) -> str:
    """Returns the program of a model."""
    result, recording = recording_of(pool, trace, policy)
    return ProgramText(trace, recording, result).text(source)


class ProgramTTNN(TorchTTNN):
    """What a program calls besides the operators. A freed tensor is overwritten, so that a later use shows in the values."""

    L1_MEMORY_CONFIG = SimpleNamespace(name="l1")

    def from_torch(self, values: torch.Tensor, dtype: Any, layout: Any = ROW_MAJOR) -> Tensor:
        return Tensor(values.clone().contiguous(), layout, dtype)

    def to_torch(self, tensor: Tensor) -> torch.Tensor:
        return tensor.values

    def to_device(self, tensor: Tensor, device: Any, memory_config: Any) -> Tensor:
        return Tensor(tensor.values.clone(), tensor.layout, tensor.dtype)

    def from_device(self, tensor: Tensor) -> Tensor:
        return Tensor(tensor.values.clone(), tensor.layout, tensor.dtype)

    def is_tensor_storage_on_device(self, tensor: Tensor) -> bool:
        return True

    def to_memory_config(self, tensor: Tensor, memory_config: Any) -> Tensor:
        """Always another buffer: a plan moves a tensor only to where it is not."""
        return Tensor(tensor.values.clone(), tensor.layout, tensor.dtype)

    def reallocate(self, tensor: Tensor) -> Tensor:
        """Its buffer is the one that is freed."""
        return tensor

    def deallocate(self, tensor: Tensor) -> None:
        tensor.values.fill_(torch.nan if tensor.values.is_floating_point() else -(2**31))

    def empty(self, shape: Any, dtype: Any, layout: Any, device: Any, memory: Any) -> Tensor:
        return Tensor(torch.zeros(shape, dtype=torch.float64), layout, dtype)

    def prepare_conv_weights(self, *, weight_tensor: Tensor, **_: Any) -> Tensor:
        """As torch has it, which is what convolutions take here."""
        return Tensor(weight_tensor.values.clone(), TILE, weight_tensor.dtype)

    def prepare_conv_bias(self, *, bias_tensor: Tensor, **_: Any) -> Tensor:
        return Tensor(bias_tensor.values.clone(), TILE, bias_tensor.dtype)

    def conv1d(self, **given: Any) -> Any:
        weight = given["weight_tensor"]
        if weight.values.dim() == 4:  # over maps of height 1
            given["weight_tensor"] = Tensor(weight.values.squeeze(2), weight.layout, weight.dtype)
        return self._function("conv1d")(**given)

    def _function(self, name: str) -> Callable[..., Any]:
        if name[0].isupper():  # a class of settings
            return _Settings
        function = super()._function(name)

        def call(*args: Any, return_weights_and_bias: bool = False, **kwargs: Any) -> Any:
            for setting in SETTINGS:
                kwargs.pop(setting, None)
            if name in ("conv1d", "conv2d", "conv_transpose2d"):
                kwargs.setdefault("bias_tensor", None)
            if return_weights_and_bias:
                made = [kwargs["weight_tensor"], kwargs["bias_tensor"]]
                return None, [None if t is None else Tensor(t.values.clone(), TILE, t.dtype) for t in made]
            return function(*args, **kwargs)

        return call


SETTINGS = ("conv_config", "slice_config", "program_config")


class _Settings:
    """A class of settings of TTNN, or an enum: none of them changes a value."""

    HEIGHT_SHARDED = WIDTH_SHARDED = BLOCK_SHARDED = ROW_MAJOR = COL_MAJOR = L1 = DRAM = None

    def __init__(self, *_: Any, x: int = 0, y: int = 0, **__: Any) -> None:
        self.x, self.y = x, y


def loaded(text: str) -> Any:
    """Returns the module of a program, with torch in the place of TTNN."""
    module = ModuleType("written")
    known = sys.modules.get("ttnn")
    sys.modules["ttnn"] = ProgramTTNN()  # type: ignore[assignment]
    try:
        exec(compile(text, "written.py", "exec"), module.__dict__)
    finally:
        sys.modules.pop("ttnn")
        if known is not None:
            sys.modules["ttnn"] = known
    return module


DEVICE = SimpleNamespace(clear_program_cache=lambda: None)


def results_of(program: Any, model: Any, inputs: list[torch.Tensor], check: Any = None) -> tuple[list[torch.Tensor], Any]:
    """Returns the results of a program in torch's order, and the run of the torch model that it made."""
    run = program.TorchRun(model, model, inputs)
    state = {**dict(model.named_parameters(remove_duplicate=False)), **dict(model.named_buffers(remove_duplicate=False))}
    with torch.no_grad():
        weights = program.place_weights(program.prepare_weights(state, run.constants, DEVICE), DEVICE)
        given = {} if check is None else {"check": check(program, run)}
        results = program.forward(*program.place_inputs(inputs, DEVICE), weights, DEVICE, **given)
        return [program.to_torch(x, *form) for x, form in zip(results, program.RESULTS, strict=True)], run


def computed(program: Any, model: Any, recording: Recorded) -> list[torch.Tensor]:
    """Returns the results of a program on the inputs that a model was recorded with."""
    inputs = [recording.values[n].clone() for n, v in enumerate(recording.trace.values) if v.kind is ValueKind.INPUT]
    default = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        return results_of(program, model, inputs)[0]
    finally:
        torch.set_default_dtype(default)


__all__ = ["NO_SOURCE", "ProgramTTNN", "computed", "loaded", "recording_of", "results_of", "written"]
