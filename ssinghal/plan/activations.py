"""The dtype of activations in tiles, where a policy has one of its own: which calls take it, and which do not.

TTNN has no block floats in rows: a tensor that is untilized becomes bfloat16, and stays so until it is tilized again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace

from ssinghal.core.tensors import DType, Layout
from ssinghal.operators import named
from ssinghal.operators.binding import bind
from ssinghal.plan.lowering import PlannedCall, PlannedStep

# Calls that TTNN refuses in block floats in some forms, which no case of the registry has.
REFUSED = dict.fromkeys(named("roll"), "ttnn.roll joins complete tiles with parts of others, which are bfloat16 then")
FLOATS = (DType.BFLOAT16, DType.FLOAT32)  # dtypes of a model's activations


def dtype_in_tiles(planned: PlannedCall, activations: DType | None) -> DType:
    """Returns the dtype in which a call gets its activations in tiles. ``activations``: the policy's, None for the model's."""
    own = planned.case.placement.dtype
    return own if activations is None or own not in FLOATS or refusal(planned, activations) else activations


def refusal(planned: PlannedCall, dtype: DType) -> str:
    """Returns why TTNN does not make a call in ``dtype`` that it makes in the model's; "" where it does."""
    if dtype.is_block_float and planned.operator in REFUSED:
        return REFUSED[planned.operator]
    before = set(planned.call.limitations(None))
    case = replace(planned.case, placement=replace(planned.case.placement, dtype=dtype, layout=Layout.TILE))
    return next((x.reason for x in bind(case).limitations(None) if x not in before), "")


def dtype_notes(
    steps: Iterable[PlannedStep], activations: DType | None, made: Mapping[tuple[str, DType], int]
) -> tuple[str, ...]:
    """Returns what is not in the policy's dtype of activations.

    Args:
        steps: Of the model.
        activations: The policy's dtype, None for the model's.
        made: How many steps left floats in tiles, by operator and dtype.
    """
    if activations is None:
        return ()
    refused: Counter[tuple[str, str]] = Counter()
    for step in steps:
        if isinstance(step, PlannedCall) and step.case.placement.dtype is not activations:
            refused.update((step.operator, reason) for reason in [refusal(step, activations)] if reason)
    kept = ((name, kind, count) for (name, kind), count in made.items() if kind in FLOATS and kind is not activations)
    return (
        *(f"activations: {count} of {name} take no {activations}: {reason}" for (name, reason), count in refused.items()),
        *(f"activations: {count} of {name} leave {kind} in tiles, not {activations}" for name, kind, count in kept),
    )
