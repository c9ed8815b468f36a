"""Makes the calls of one step as its choice has them: in the run of a complete model, and alone to see what they need."""

from __future__ import annotations

from ssinghal.plan.layout_ops import HeldTensor
from ssinghal.plan.placement import DRAM, IN_DRAM, StepChoice
from ssinghal.plan.rules.base import Work
from ssinghal.plan.rules.dispatch import results_of


def placed_results(work: Work, choice: StepChoice) -> list[HeldTensor]:
    """Runs a step with its operands, results and settings as chosen. Errors are TTNN's own."""
    ops = work.ops
    ops.choice = choice
    try:
        results = results_of(work)
        if not ops.policy.lazy_views:
            for x in results:
                ops.to_torch_order(x)
    finally:
        ops.choice = IN_DRAM
    if choice.after is not None:
        for x in results:
            ops.move(x, choice.after)
    for position in choice.spills:
        ops.move(work.activations[work.planned.operands[position]], DRAM)
    return results
