"""The states that a search follows from one step to the next."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from typing import NamedTuple

from ssinghal.plan.placing.options import Option
from ssinghal.plan.placing.state import Key


class State(NamedTuple):
    """The cheapest way to a state. The fields before ``parent`` are what states are sorted by.

    Attributes:
        moved_bytes, changes: The cost of all steps so far.
        l1_bytes: What all live buffers take of a core's L1.
        key: How the live values are held.
        settings: How many settings the choices so far state. Of equally cheap ways the one with the fewest is followed, as
            TTNN's own settings are, where they fit, those to start a port with.
        peak_bytes: The most L1 at any step so far; it decides between ways that are still equal.
        parent: The state before the last step; None before the first.
        option: What was chosen at that step.
        others_bytes: What there was in L1 then beside that call's own.
    """

    moved_bytes: int
    changes: int
    l1_bytes: int
    key: Key
    settings: int = 0
    peak_bytes: int = 0
    parent: State | None = None
    option: Option | None = None
    others_bytes: int = 0

    @property
    def cost(self) -> tuple[int, int]:
        return self.moved_bytes, self.changes


_order = attrgetter("moved_bytes", "changes", "l1_bytes", "key")


class Followed(NamedTuple):
    """``states``: those to follow, cheapest first. ``cut``: the cheapest of the others; None where there are none."""

    states: list[State]
    cut: State | None


def followed(states: Sequence[State], beam: int, next_operands: Sequence[int], always: Key | None) -> Followed:
    """Returns the states to follow: the ``beam`` cheapest, and up to as many others for the sake of later steps.

    Args:
        states: All that were reached, in any order.
        beam: How many of the cheapest are followed.
        next_operands: The entries of a key that the next step reads.
        always: The key of a state that is followed whatever it costs.
    """
    ranked = sorted(states, key=_order)
    if len(ranked) <= beam:
        return Followed(ranked, None)
    chosen = {*range(beam), *_spread(_front(ranked), max(2, beam // 2))}
    ways = {tuple([ranked[i].key[entry] for entry in next_operands]) for i in chosen}
    free = max(1, beam // 2)
    for i in range(beam, len(ranked)):
        key = ranked[i].key
        way = tuple([key[entry] for entry in next_operands])
        if free and way not in ways:
            ways.add(way)
            chosen.add(i)
            free -= 1
        elif key == always:
            chosen.add(i)
    cut = next((state for i, state in enumerate(ranked) if i not in chosen), None)
    return Followed([ranked[i] for i in sorted(chosen)], cut)


def _front(ranked: Sequence[State]) -> list[int]:
    """Returns the states than which none is both cheaper and smaller in L1: each smaller than all before it."""
    front, least = [], None
    for i, state in enumerate(ranked):
        if least is None or state.l1_bytes < least:
            front.append(i)
            least = state.l1_bytes
    return front


def _spread(items: Sequence[int], count: int) -> list[int]:
    """Returns ``count`` of the items, first and last among them, evenly."""
    if len(items) <= count:
        return list(items)
    return [items[i * (len(items) - 1) // (count - 1)] for i in range(count)]
