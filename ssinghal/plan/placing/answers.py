"""Puts what a search came to into words and numbers: the steps of the best way, or the step at which all ways end."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ssinghal.core.verdict import Verdict
from ssinghal.plan.placement import Traffic
from ssinghal.plan.placing.found import Cost, Found, LiveForm, NoPlacement, PlacedStep, Rejected
from ssinghal.plan.placing.frontier import State
from ssinghal.plan.placing.menus import Menus
from ssinghal.plan.placing.options import Option, applied
from ssinghal.plan.placing.state import LiveStep, around


def found(menus: Menus, last: State, *, exact: bool, states: int, bound: Cost) -> Found:
    """Returns the steps on the way to the state ``last``."""
    way: list[State] = []
    state: State | None = last
    while state is not None:
        way.append(state)
        state = state.parent
    way.reverse()
    steps = tuple(
        _placed(menus, step, before, after) for step, before, after in zip(menus.steps, way[:-1], way[1:], strict=True)
    )
    traffic = sum((step.traffic for step in steps), Traffic())
    return Found(steps, traffic, exact, states, min(bound, traffic.cost))


def _placed(menus: Menus, step: LiveStep, before: State, after: State) -> PlacedStep:
    chosen = after.option
    if chosen is None:
        raise ValueError(f"step {step.node.number} has no choice")
    limit = menus.limits.at(step.node.number)
    beside = around(step, menus.slots, before.key, before.l1_bytes)
    rejected = []
    for x in menus.known(step, beside.operands).proposed:
        if not x.possible:
            rejected.append(Rejected(x.choice, failure=x.outcome.failure))
        elif x.cost < chosen.cost:
            over = x.peak + beside.others_bytes + applied(beside, x)[2] - limit
            rejected.append(Rejected(x.choice, over if over > 0 else None, cost=x.cost))
    rejected.sort(key=lambda r: (r.cost is None, r.cost or (0, 0)))
    return PlacedStep(step.node.number, chosen.choice, chosen.outcome, after.others_bytes, limit, tuple(rejected))


def no_placement(menus: Menus, step: LiveStep, states: Sequence[State], *, exact: bool) -> NoPlacement:
    """Returns why no choice for a step fits in any of the states before it, cheapest first."""
    limit = menus.limits.at(step.node.number)
    nearest: tuple[tuple[int, int, int, int], State, Option, int] | None = None
    failed: list[Verdict] = []
    for rank, state in enumerate(states):
        beside = around(step, menus.slots, state.key, state.l1_bytes)
        for x in menus.known(step, beside.operands).all:
            if x.outcome.failure is not None:
                failed.append(x.outcome.failure)
                continue
            others = beside.others_bytes + applied(beside, x)[2]
            order = (x.peak + others - limit, x.cost[0], rank, x.order)
            if nearest is None or order < nearest[0]:
                nearest = (order, state, x, others)
    node = step.node
    best, over, others, state = None, None, 0, states[0]
    if nearest is not None:
        (over, *_), state, option, others = nearest
        best = option.choice
    return NoPlacement(
        node.number, node.operator, node.at, limit, best, over, others, _live(menus, step, state), _distinct(failed), exact
    )


def _live(menus: Menus, step: LiveStep, state: State) -> tuple[LiveForm, ...]:
    slots = menus.slots
    forms = ((value, slots.forms[slot], slots.buffer_bytes[slot]) for value, slot in zip(step.before, state.key, strict=False))
    return tuple(LiveForm(value, form, size) for value, form, size in sorted(forms, key=lambda x: x[0]) if form is not None)


def _distinct(failures: Iterable[Verdict]) -> tuple[Verdict, ...]:
    """Returns the failures without those of a message that another one has."""
    return tuple({(x.status, x.message): x for x in failures}.values())
