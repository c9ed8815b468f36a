"""Walks through a model on the virtual device: at each step one of the choices that are offered and that TTNN accepts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from ssinghal.capture.trace import Trace, ValueKind
from ssinghal.core.boards import load_board
from ssinghal.core.verdict import Verdict
from ssinghal.plan.executor import placed_form
from ssinghal.plan.lowering import planned_steps
from ssinghal.plan.placement import Form, Held, Outcome, StepChoice
from ssinghal.plan.placing.device_calls import DeviceCalls
from ssinghal.plan.placing.refine import step_nodes
from ssinghal.plan.policy import PortingPolicy
from ssinghal.runner.pool import Pool

L1_SMALL_BYTES = 32_768
Tried = tuple[StepChoice, Outcome]


@dataclass
class Walk:
    """``choices``: by step. ``outcomes``: of these. ``rejected``: what TTNN said to others that were offered on the way."""

    choices: dict[int, StepChoice] = field(default_factory=dict)
    outcomes: dict[int, Outcome] = field(default_factory=dict)
    rejected: list[tuple[str, StepChoice, Verdict]] = field(default_factory=list)


def walked(pool: Pool, trace: Trace, policy: PortingPolicy, choose: Callable[[Sequence[Tried]], Tried]) -> Walk:
    """Returns a walk through ``trace``, which the policy has rewritten. ``choose``: one of the calls that TTNN accepted."""
    board = load_board("n150").with_l1_small(L1_SMALL_BYTES)
    steps = planned_steps(trace)
    calls = DeviceCalls(trace, policy, steps, pool, board, L1_SMALL_BYTES)
    forms: dict[int, Form] = {
        number: placed_form(value, trace.dtype, policy)
        for number, value in enumerate(trace.values)
        if value.kind is ValueKind.INPUT
    }
    walk = Walk()
    for node in step_nodes(trace, steps):
        operands = {p: Held(forms[value]) for p, value in enumerate(node.operands) if value is not None}
        choices = calls.candidates(node, operands)
        outcomes = calls.outcomes(node, [(operands, choice) for choice in choices])
        accepted = []
        for choice, outcome in zip(choices, outcomes, strict=True):
            if outcome.failure is None:
                accepted.append((choice, outcome))
            else:
                walk.rejected.append((node.operator, choice, outcome.failure))
        walk.choices[node.number], outcome = choose(accepted)
        walk.outcomes[node.number] = outcome
        forms.update((node.operands[p], held.form) for p, held in outcome.operands.items() if node.operands[p] is not None)
        forms.update((number, held.form) for number, held in zip(node.results, outcome.results, strict=True))
    return walk
