"""Asks TTNN's own calls for the weights that they prepare, without any code of plans."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

from ssinghal.core.device_facts import DeviceFacts
from ssinghal.core.verdict import Verdict
from ssinghal.device.session import Session
from ssinghal.runner.tasks import PoolOptions, Task

L1_SMALL = 65536


class Layer(NamedTuple):
    """A layer as it is called. ``arguments``: of the call of TTNN. ``bias``: also where a batch norm is folded into it."""

    kind: str
    image: tuple[int, ...]
    weight: tuple[int, ...]
    bias: bool
    out: int
    arguments: dict[str, Any]


@dataclass(frozen=True)
class PreparedBytes(Task["list[int]"]):
    """Returns the bytes per DRAM bank that the weight and bias of each layer take, as the allocator books them.

    ``weights``: the dtype of the weights of convolutions, with their biases, and of linear layers, without theirs.
    """

    layers: list[Layer]
    weights: str = "bfloat16"

    def run(self, session: Session, options: PoolOptions) -> list[int]:
        session.use_regions(L1_SMALL)
        try:
            return [self._booked(session, layer) for layer in self.layers]
        finally:
            session.clear()

    def _booked(self, session: Session, layer: Layer) -> int:
        ttnn, device = session.ttnn, session.device
        tensors = (self._prepared if layer.kind.startswith("conv") else self._in_tiles)(session, layer)
        with_them = ttnn.get_memory_view(device, ttnn.BufferType.DRAM).total_bytes_allocated_per_bank
        for tensor in tensors:
            ttnn.deallocate(tensor)
        return int(with_them - ttnn.get_memory_view(device, ttnn.BufferType.DRAM).total_bytes_allocated_per_bank)

    def _in_tiles(self, session: Session, layer: Layer) -> list[Any]:
        """Returns operands that TTNN takes in tiles and does not prepare: [in, out] and a row, or two rows of a norm."""
        ttnn, out, inner = session.ttnn, layer.weight[0], layer.image[-1]
        is_linear = layer.kind == "linear"
        shapes = [(inner, out) if is_linear else (1, out), *([(1, out)] if layer.bias else [])]
        how = {"dtype": ttnn.bfloat16, "layout": ttnn.TILE_LAYOUT, "memory_config": ttnn.DRAM_MEMORY_CONFIG}
        weight, *bias = [ttnn.empty(list(shape), device=session.device, **how) for shape in shapes]
        if is_linear:
            weight = ttnn.empty(list(shapes[0]), device=session.device, **{**how, "dtype": getattr(ttnn, self.weights)})
        x = ttnn.empty([1, 1, math.prod(layer.image[:-1]), inner], device=session.device, **how)
        result = ttnn.linear(x, weight, bias=(*bias, None)[0]) if is_linear else ttnn.layer_norm(x, weight=weight, bias=bias[0])
        ttnn.deallocate(result)
        ttnn.deallocate(x)
        return [weight, *bias]

    def _prepared(self, session: Session, layer: Layer) -> list[Any]:
        """Maps come in tiles, or in rows where their channels do not fill complete tiles, as plans give them."""
        ttnn, device = session.ttnn, session.device

        def host(*shape: int) -> Any:
            spec = ttnn.TensorSpec(list(shape), ttnn.bfloat16, ttnn.ROW_MAJOR_LAYOUT, ttnn.BufferType.DRAM)
            return ttnn.allocate_tensor_on_host(spec, device)

        batch, channels, *sizes = layer.image
        layout = ttnn.ROW_MAJOR_LAYOUT if channels % 32 else ttnn.TILE_LAYOUT
        in_dram = ttnn.DRAM_MEMORY_CONFIG
        shape = [1, 1, batch * math.prod(sizes), channels]
        x = ttnn.empty(shape, dtype=ttnn.bfloat16, layout=layout, device=device, memory_config=in_dram)
        result, prepared = getattr(ttnn, layer.kind)(
            input_tensor=x,
            weight_tensor=host(*layer.weight),
            bias_tensor=host(1, 1, 1, layer.out) if layer.bias else None,
            device=device,
            memory_config=in_dram,
            return_weights_and_bias=True,
            conv_config=ttnn.Conv2dConfig(weights_dtype=getattr(ttnn, self.weights)),
            **layer.arguments,
        )
        ttnn.deallocate(result)
        ttnn.deallocate(x)
        return [tensor for tensor in prepared if tensor is not None]

    def lost(self, verdict: Verdict, facts: DeviceFacts) -> list[int]:
        raise AssertionError(verdict.message)
