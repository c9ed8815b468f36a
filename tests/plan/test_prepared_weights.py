"""The resident weights of whole models are the tensors that TTNN's own calls prepare, to the byte.

What TTNN prepares is asked here without any code of plans: forward hooks list the layers with the shapes of their inputs, each
layer's call of TTNN gets a weight in host memory and returns the prepared one, and the allocator says what that takes.
"""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import nn

from ssinghal.capture.trace_library import trace_for
from ssinghal.core.verdict import Status
from ssinghal.device.modes import choose_device
from ssinghal.plan.executor import PlanTask
from ssinghal.plan.passes.registry import rewritten
from ssinghal.plan.policy import find_policy
from ssinghal.runner.pool import Pool
from ssinghal.runner.tasks import PoolOptions
from tests.support import weighted_nets
from tests.support.prepared_bytes import L1_SMALL, Layer, PreparedBytes

NETS = ("unet", "generator", "listener", "vit")


def layers_of(model: nn.Module, x: torch.Tensor) -> list[Layer]:
    """Returns the layers with weights in the order of their calls."""
    calls: list[Layer] = []

    def note(module: nn.Module, inputs: tuple[torch.Tensor, ...], _: torch.Tensor) -> None:
        if isinstance(module, nn.BatchNorm2d):
            calls[-1] = calls[-1]._replace(bias=True)
        elif isinstance(module, nn.LayerNorm):
            calls.append(Layer("layer_norm", tuple(inputs[0].shape), tuple(module.weight.shape), True, 0, {}))
        elif isinstance(module, nn.Linear):
            calls.append(Layer("linear", tuple(inputs[0].shape), tuple(module.weight.shape), module.bias is not None, 0, {}))
        else:
            calls.append(_convolution(module, tuple(inputs[0].shape)))

    for module in model.modules():
        if isinstance(module, (nn.Conv1d, nn.Conv2d, nn.ConvTranspose2d, nn.Linear, nn.LayerNorm, nn.BatchNorm2d)):
            module.register_forward_hook(note)
    model.eval()
    with torch.inference_mode():
        model(torch.zeros_like(x))
    return calls


def _convolution(module: Any, image: tuple[int, ...]) -> Layer:
    names = ("kernel_size", "stride", "padding", "dilation")
    arguments = {name: getattr(module, name) for name in names}
    kind = {nn.Conv1d: "conv1d", nn.Conv2d: "conv2d", nn.ConvTranspose2d: "conv_transpose2d"}[type(module)]
    if kind == "conv1d":
        arguments = {name: value[0] for name, value in arguments.items()} | {"input_length": image[2]}
    else:
        arguments |= {"input_height": image[2], "input_width": image[3]}
    if kind == "conv_transpose2d":
        arguments["output_padding"] = module.output_padding
    arguments |= {"in_channels": image[1], "out_channels": module.out_channels, "batch_size": image[0], "groups": module.groups}
    return Layer(kind, image, tuple(module.weight.shape), module.bias is not None, module.out_channels, arguments)


@pytest.fixture(scope="module")
def pool():
    with Pool(choose_device("virtual", "n150"), PoolOptions()) as pool:
        yield pool


@pytest.mark.parametrize("weights", [None, "bfloat8_b", "bfloat4_b"])
@pytest.mark.parametrize("name", NETS)
def test_resident_weights_are_those_that_ttnn_prepares(name, weights, pool, captures):
    trace = trace_for(f"tests.support.weighted_nets:{name}", None, captures)
    policy = find_policy("port", (), weights)
    result = pool.run(PlanTask(rewritten(trace, policy), policy, L1_SMALL)).result()
    assert (result.status, result.stand_ins) == (Status.FITS, ())
    layers = layers_of(*getattr(weighted_nets, name)())
    assert result.peak.weights_bytes == sum(pool.run(PreparedBytes(layers, weights or "bfloat16")).result())


@pytest.mark.parametrize(
    ("layer", "weights_bytes"),
    [  # [1024, 256]: 256 tiles, 22 of the fullest bank, and one for the bias; [768, 256]: 192 tiles, 16, and one
        (Layer("conv_transpose2d", (1, 256, 16, 16), (256, 256, 2, 2), True, 256, {"kernel_size": (2, 2), "stride": (2, 2),
            "input_height": 16, "input_width": 16, "in_channels": 256, "out_channels": 256, "batch_size": 1}), 47_104),
        (Layer("conv1d", (1, 256, 1024), (256, 256, 3), True, 256, {"kernel_size": 3, "padding": 1, "input_length": 1024,
            "in_channels": 256, "out_channels": 256, "batch_size": 1}), 34_816),
    ],
)  # fmt: skip
def test_what_ttnn_prepares_is_the_matrix_and_a_row(layer, weights_bytes, pool):
    assert pool.run(PreparedBytes([layer])).result() == [weights_bytes]
    assert weights_bytes == (-(-math.prod(layer.weight) // 1024 // 12) + 1) * 2048
