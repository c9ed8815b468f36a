"""Chooses the placements of a model's values with the least traffic: dynamic programming over the steps of its graph.

A state after a step is how each live value is held: its form, and whether it shares a buffer in L1. Nothing else decides what
later steps cost and whether they fit, so of all ways that lead to a state the cheapest one alone is followed. Along a chain
there are as few states as ways to hold one value, and the result is exact. Where branches and residuals are live together the
states multiply: then a *beam* is followed, and the result is as good as the beam is wide.

The cheapest states alone would be a short-sighted beam: what holds values in DRAM costs more now, what holds much in L1 may not
fit later. It therefore keeps, beside the cheapest states,

* of those on the front of (cost, L1 bytes), where none is both cheaper and smaller, some from end to end;
* the cheapest for each way in which the next step's operands are held, which is all that this step's outcome depends on;
* the state of the policy ``port``, as long as each call in DRAM fits, so that the result is never worse than ``port``.

**Spills.** A value that a step reads and a later one reads again may be spilled after the first even if no candidate does so.
That pays only where the L1 that it takes is missed, so the first pass adds no spills. Steps at which an option did not fit
then allow those of all values that are live across them, or whose views are, and the search is repeated until no such step is
new.

**Bound.** Placements that were not found either pass through states that were followed, and cost no less than the result, or
through a state that was cut. They cost at least as much as that state, and the bytes that all later steps move in any case
(``StepNode.least_bytes``). The least of these is the bound. Spills that the search does not add (see above) are no candidates.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import NamedTuple

from ssinghal.core.tensors import Board
from ssinghal.plan.placement import Form
from ssinghal.plan.placing.answers import found, no_placement
from ssinghal.plan.placing.found import Cost
from ssinghal.plan.placing.found import Found as Found
from ssinghal.plan.placing.found import LiveForm as LiveForm
from ssinghal.plan.placing.found import NoPlacement as NoPlacement
from ssinghal.plan.placing.found import PlacedStep as PlacedStep
from ssinghal.plan.placing.found import Rejected as Rejected
from ssinghal.plan.placing.frontier import State, followed
from ssinghal.plan.placing.graph import Calls as Calls
from ssinghal.plan.placing.graph import Limits as Limits
from ssinghal.plan.placing.graph import StepNode as StepNode
from ssinghal.plan.placing.menus import Menus
from ssinghal.plan.placing.options import applied
from ssinghal.plan.placing.state import Key, LiveStep, Slots, around, live_steps

DEFAULT_BEAM = 64
MAX_PASSES = 3  # where the beam cuts


def search(
    nodes: Sequence[StepNode],
    inputs: Mapping[int, Form],
    calls: Calls,
    board: Board,
    limits: Limits,
    *,
    beam: int = DEFAULT_BEAM,
) -> Found | NoPlacement:
    """Returns the cheapest choice for each step such that every step fits, by ``Traffic.cost``; of equally cheap ones the one
    that leaves less in L1 at the end. The order in which choices are proposed does not matter.

    Args:
        nodes: The steps in the order of the trace.
        inputs: How the model's inputs are held before the first step, each in a buffer of its own.
        calls: Proposes choices and tries them.
        board: Whose allocator books the bytes.
        limits: What L1 may hold at each step.
        beam: How many of the cheapest states are followed after each step, at least 1; others come on top, at most as many.

    Returns:
        The placements, or the step at which all ways end.

    Raises:
        ValueError: A step reads a value that no step before it creates.
    """
    return Search(nodes, inputs, calls, board, beam=beam).within(limits)


class _Mark(NamedTuple):
    """What a pass came to after a step: it is the same again under the same conditions.

    ``conditions``: the limit, whether tensors are moved together before the step, and which operands may be spilled beyond what
    is proposed. ``states``: those that are followed, cheapest first. ``port``: the key of the state of the policy ``port``.
    ``reached``: how many states there were. ``cut``: the least that placements beyond those followed can cost.
    """

    conditions: tuple[int, bool, frozenset[int]]
    states: Sequence[State]
    port: Key | None
    reached: int
    cut: Cost | None


class Search:
    """A search that can be repeated within other limits, at the cost of the steps from the first one that they change.

    Args and errors are those of ``search``. ``missed``: steps at which an option did not fit beside other values in some state.
    """

    def __init__(
        self,
        nodes: Sequence[StepNode],
        inputs: Mapping[int, Form],
        calls: Calls,
        board: Board,
        *,
        beam: int = DEFAULT_BEAM,
    ) -> None:
        self.beam = max(1, beam)
        self.slots = Slots(board)
        self.steps = live_steps(nodes, inputs)
        self.menus = Menus(self.steps, self.slots, calls, Limits(board.l1.bank_bytes))
        self.missed: set[int] = set()
        held = tuple(self.slots.slot(inputs[value]) for value in sorted(inputs))
        self._start = State(0, 0, sum(self.slots.buffer_bytes[slot] for slot in held), held)
        self._least_after = [0, *accumulate(node.least_bytes for node in reversed(nodes))][::-1]
        self._marks: list[_Mark] = []  # of the last pass

    def within(self, limits: Limits) -> Found | NoPlacement:
        """Returns the placements, or the step at which all ways end."""
        self.menus.limits = limits
        complete: list[State] = []
        stopped: list[tuple[int, Sequence[State]]] = []
        passes = reached = 0
        spillable = self._spillable()
        while True:
            self._pass(spillable)
            passes += 1
            reached += sum(mark.reached for mark in self._marks)
            states = self._marks[-1].states if self._marks else [self._start]
            if states:
                complete.append(states[0])
            else:
                at = len(self._marks) - 1
                stopped.append((at, self._marks[at - 1].states if at else [self._start]))
            cut = min((mark.cut for mark in self._marks if mark.cut is not None), default=None)
            allowed = self._spillable()
            settled = allowed == spillable
            if settled or (cut is not None and passes >= MAX_PASSES):
                break
            spillable = allowed
        exact = settled and cut is None
        if not complete:
            at, before = max(stopped, key=lambda x: x[0])
            return no_placement(self.menus, self.steps[at], before, exact=exact)
        best = min(complete, key=lambda state: state.cost)
        bound = best.cost if cut is None else min(best.cost, cut)
        return found(self.menus, best, exact=exact, states=reached, bound=bound)

    def _pass(self, spillable: Sequence[frozenset[int]]) -> None:
        """Follows states from the first step that has other conditions than before to the last one, or to one that none of them
        can take."""
        limits, known = self.menus.limits, self._marks
        self._marks = []
        states: Sequence[State] = [self._start]
        port: Key | None = self._start.key
        for step, may_spill in zip(self.steps, spillable, strict=True):
            number = step.node.number
            conditions = (limits.at(number), number in limits.compact, may_spill)
            mark = known[step.index] if step.index < len(known) else None
            if mark is None or mark.conditions != conditions:
                known = []
                mark = self._after(step, states, port, conditions)
            self._marks.append(mark)
            states, port = mark.states, mark.port
            if not states:
                return

    def _after(
        self, step: LiveStep, states: Sequence[State], port: Key | None, conditions: tuple[int, bool, frozenset[int]]
    ) -> _Mark:
        reached, port = self._step(step, states, port, conditions[2])
        following = step.index + 1
        read = self.steps[following].operand_entries if following < len(self.steps) else ()
        kept, cut = followed(reached, self.beam, read, port)
        least = None if cut is None else (cut.moved_bytes + self._least_after[following], cut.changes)
        return _Mark(conditions, kept, port, len(reached), least)

    def _step(
        self, step: LiveStep, states: Sequence[State], port: Key | None, may_spill: frozenset[int]
    ) -> tuple[list[State], Key | None]:
        """Returns the states that a step leads to, and which of them is the one of the policy ``port``."""
        limit = self.menus.limits.at(step.node.number)
        beside = [around(step, self.slots, state.key, state.l1_bytes) for state in states]
        menus = self.menus.at(step, (x.operands for x in beside), may_spill)
        best: dict[Key, State] = {}
        port_after: Key | None = None
        for state, rest in zip(states, beside, strict=True):
            menu = menus[rest.operands]
            for x in menu.open:
                key, l1_bytes, added = applied(rest, x)
                others = rest.others_bytes + added
                peak = x.peak + others
                if peak > limit:
                    self.missed.add(step.index)
                    continue
                moved, changes = state.moved_bytes + x.cost[0], state.changes + x.cost[1]
                peak = max(peak, state.peak_bytes)
                known = best.get(key)
                settings = state.settings + x.choice.settings_count
                way = (moved, changes, settings, peak)
                if known is None or way < (known.moved_bytes, known.changes, known.settings, known.peak_bytes):
                    best[key] = State(moved, changes, l1_bytes, key, settings, peak, state, x, others)
            if state.key == port and menu.in_dram is not None and menu.in_dram.possible:
                port_after = applied(rest, menu.in_dram)[0]
        return list(best.values()), port_after if port_after in best else None

    def _spillable(self) -> list[frozenset[int]]:
        """Returns for each step the operands that may be spilled because L1 was missed later on while they are live.

        At a step that reads a value, an option that does not fit alone counts too, as the value is part of it. A result of that
        step that is a view of the value takes as much L1 as long as it is live itself.
        """
        missed = sorted(self.missed)
        end = len(self.steps)
        next_read: dict[int, int] = {}
        wanted: dict[int, bool] = {}  # value -> whether it would better be in DRAM at its next read or later
        spillable: list[frozenset[int]] = []
        for step in reversed(self.steps):

            def better_in_dram(value: int, index: int = step.index) -> bool:
                read = next_read.get(value, end)
                return wanted.get(value, False) or bisect_left(missed, read) > bisect_right(missed, index)

            allowed = frozenset(i for i in step.survivors if better_in_dram(step.operands[i]))
            spillable.append(allowed)
            here = step.index in self.missed or step.index in self.menus.exceeded
            views = self.menus.views.get(step.index, set())
            viewed = {operand for operand, result in views if better_in_dram(result)}
            for i, value in enumerate(step.operands):
                next_read[value], wanted[value] = step.index, here or value in viewed or i in allowed
        return spillable[::-1]
