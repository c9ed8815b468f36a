"""Where a result shares its operand's buffer.

TTNN has no strides: a result that is a view in torch is one here where TTNN's own condition holds (``is_view``), else a copy.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ssinghal.core.tensors import TILE_EDGE, Layout, TensorSpec
from ssinghal.operators.operator_info import Call

Specs = Sequence[TensorSpec]


def is_view(inputs: Specs, outputs: Specs) -> bool:
    """Checks TTNN's condition (documented at ``ttnn.reshape``) for a result that shares its operand's buffer.

    Same memory, same last dim, and in tile layout the same second last dim, or one without padding.
    """
    x, y = inputs[0], outputs[0]
    if x.memory != y.memory or x.volume != y.volume or x.shape[-1] != y.shape[-1]:
        return False
    heights = [spec.shape[-2] if len(spec.shape) > 1 else 1 for spec in (x, y)]
    return x.layout is Layout.ROW_MAJOR or heights[0] == heights[1] or not any(h % TILE_EDGE for h in heights)


def is_unchanged(inputs: Specs, outputs: Specs) -> bool:
    """Returns whether the one result equals the one operand, which TTNN then returns."""
    return len(inputs) == len(outputs) == 1 and inputs[0] == outputs[0]


def mapped_tiles(inputs: Specs, outputs: Specs) -> int:
    """A tile reshape that is no view lists the source pages of every output tile on the host."""
    return 0 if inputs[0].layout is Layout.ROW_MAJOR or is_view(inputs, outputs) else outputs[0].num_pages


def in_requested_memory(c: Call, result: Any) -> Any:
    """Returns ``result``, moved if need be: TTNN ignores the memory config where it returns its operand as it is."""
    return c.ttnn.to_memory_config(result, **c.out) if "memory_config" in c.out else result
