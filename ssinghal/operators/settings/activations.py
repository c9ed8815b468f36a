"""What activations that a call fuses compute, for its reference in torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ssinghal.errors import InvalidCase

# TTNN's operations that have no parameters, or one that only chooses an approximation, where torch has them.
_IN_TORCH = frozenset("relu sigmoid tanh exp sqrt square abs neg log sin cos erf rsqrt".split())
_IN_FUNCTIONAL = frozenset("gelu silu mish relu6 hardswish hardsigmoid softsign".split())


def of_operands(torch: Any, settings: Mapping[str, Any], tensors: Sequence[Any]) -> list[Any]:
    """Returns the operands after the activations that the call applies to them first."""
    listed = [settings.get(f"input_tensor_{side}_activations") or () for side in "ab"]
    return [_applied(torch, x, listed[i] if i < len(listed) else ()) for i, x in enumerate(tensors)]


def of_results(torch: Any, settings: Mapping[str, Any], results: Sequence[Any]) -> list[Any]:
    """Returns the results after the activations that the call applies last.

    Raises:
        InvalidCase: One of them is not known here.
    """
    configs = [settings.get("program_config") or {}, settings.get("conv_config") or {}]
    fused = [settings.get("activation"), configs[0].get("fused_activation"), configs[1].get("activation")]
    listed = [*(settings.get("activations") or ()), *(activation for activation in fused if activation is not None)]
    return [_applied(torch, x, listed) for x in results]


def _applied(torch: Any, x: Any, activations: Sequence[Any]) -> Any:
    for activation in activations:
        name = (activation if isinstance(activation, str) else activation["op_type"]).lower()
        if name not in _IN_TORCH | _IN_FUNCTIONAL:
            known = ", ".join(sorted(_IN_TORCH | _IN_FUNCTIONAL))
            raise InvalidCase(f"activation {name}: its values are not known here, and cannot be compared; known: {known}")
        x = getattr(torch if name in _IN_TORCH else torch.nn.functional, name)(x)
    return x
