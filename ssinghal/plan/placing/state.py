"""States of the search: how all live values are held after a step, as tuples of ints that are equal where the states are.

A state's key has a *slot* for each live value, in an order that the step fixes. A slot numbers a form together with the bytes
that its buffer takes of a core's L1. Where values share a buffer in L1, *links* follow: for each value the first one that has
its buffer. Sharing in DRAM does not matter to any limit and is forgotten.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ssinghal.core.tensors import Board
from ssinghal.plan.placement import Form, Held
from ssinghal.plan.placing.graph import StepNode

Key = tuple[int, ...]
Links = tuple[int, ...]  # of each entry the first one with the same buffer; empty where no two share one
ABSENT = 0  # the slot of a result that the call does not return


class Slots:
    """Numbers forms with the L1 bytes of their buffers."""

    def __init__(self, board: Board) -> None:
        self.board = board
        self.forms: list[Form | None] = [None]
        self.buffer_bytes = [0]  # of a core's L1; 0 for a tensor in DRAM
        self.form_bytes = [0]  # the same by the form alone, as a call sees it that is tried with nothing else on the device
        self._numbers: dict[tuple[Form, int], int] = {}
        self._bytes: dict[Form, int] = {}

    def l1_bytes(self, form: Form) -> int:
        if form not in self._bytes:
            self._bytes[form] = form.l1_bytes(self.board)
        return self._bytes[form]

    def slot(self, form: Form, buffer_bytes: int | None = None) -> int:
        """Returns the number of a form. ``buffer_bytes``: of a buffer that it shares; None for one of its own."""
        own = self.l1_bytes(form)
        if buffer_bytes is None or not own:
            buffer_bytes = own
        known = self._numbers.get((form, buffer_bytes))
        if known is None:
            known = self._numbers[form, buffer_bytes] = len(self.forms)
            self.forms.append(form)
            self.buffer_bytes.append(buffer_bytes)
            self.form_bytes.append(own)
        return known


def links_of(buffers: Sequence[int]) -> Links:
    """Returns the links of entries whose buffers have these numbers; a negative one is shared with none.

    >>> links_of([7, -1, 9, 7]), links_of([7, -1, 9])
    ((0, 1, 2, 0), ())
    """
    first: dict[int, int] = {}
    links = tuple(i if b < 0 else first.setdefault(b, i) for i, b in enumerate(buffers))
    return links if any(link != i for i, link in enumerate(links)) else ()


@dataclass(frozen=True)
class LiveStep:
    """A step among the values that are live then.

    Attributes:
        index: Of the step in the graph.
        before: The live values before it, in the order of a state's entries.
        operands: Those that it reads, each once; ``operand_entries``: their places in ``before``.
        positions: Of each of them, all its positions among the step's operands.
        kept: Entries of other values that are live afterwards; ``lost``: of others that are not.
        survivors: Which of ``operands`` are live afterwards; ``results``: which results are.
        after: The live values after it: those kept, surviving operands, results.
    """

    index: int
    node: StepNode
    before: tuple[int, ...]
    operands: tuple[int, ...]
    operand_entries: tuple[int, ...]
    positions: tuple[tuple[int, ...], ...]
    kept: tuple[int, ...]
    lost: tuple[int, ...]
    survivors: tuple[int, ...]
    results: tuple[int, ...]
    after: tuple[int, ...]

    @property
    def others(self) -> tuple[int, ...]:
        return self.kept + self.lost

    def operand_at(self) -> dict[int, int]:
        """Returns by position which of ``operands`` is there."""
        return {position: i for i, positions in enumerate(self.positions) for position in positions}

    def held(self, slots: Slots, key: Key) -> dict[int, Held]:
        """Returns the operands by position, for a key that ``around`` made."""
        count = len(self.operands)
        links = key[count:] or range(count)
        held: dict[int, Held] = {}
        for i, positions in enumerate(self.positions):
            form = slots.forms[key[i]]
            if form is None:
                continue
            first = positions[0]
            held[first] = Held(form, None if links[i] == i else self.positions[links[i]][0])
            for position in positions[1:]:
                held[position] = Held(form, first)
        return dict(sorted(held.items()))


def live_steps(nodes: Sequence[StepNode], inputs: Iterable[int]) -> list[LiveStep]:
    """Returns the steps with the values that are live around them.

    Raises:
        ValueError: A step reads a value that is not live.
    """
    live = tuple(sorted(inputs))
    steps = []
    for index, node in enumerate(nodes):
        positions: dict[int, list[int]] = {}
        for position, value in enumerate(node.operands):
            if value is not None:
                positions.setdefault(value, []).append(position)
        dead = positions.keys() - set(live)
        if dead:
            raise ValueError(f"step {node.number} {node.operator} reads value {min(dead)}, which is not live then")
        operands = tuple(positions)
        replaced = {*node.dies, *node.results}
        others = [i for i, value in enumerate(live) if value not in positions]
        kept = tuple(i for i in others if live[i] not in replaced)
        survivors = tuple(i for i, value in enumerate(operands) if value not in replaced)
        results = tuple(i for i, value in enumerate(node.results) if value not in node.dies)
        after = (*(live[i] for i in kept), *(operands[i] for i in survivors), *(node.results[i] for i in results))
        entries = tuple(map(live.index, operands))
        lost = tuple(i for i in others if live[i] in replaced)
        places = tuple(map(tuple, positions.values()))
        steps.append(LiveStep(index, node, live, operands, entries, places, kept, lost, survivors, results, after))
        live = after
    return steps


class Entangled(NamedTuple):
    """A buffer in L1 that an operand shares with a value that is no operand.

    ``group``: the first operand with this buffer. ``keeper``: the first of the kept values with it, -1 where none is kept.
    """

    group: int
    buffer_bytes: int
    keeper: int


class Around(NamedTuple):
    """What a step leaves as it is in a state.

    ``operands``: slots of the operands, with links where some share a buffer: all that the call's outcome depends on.
    ``base``, ``base_links``, ``base_bytes``: the kept values, and what their buffers take of L1. ``others_bytes``: what is in
    L1 during the step beside what the call alone has there.
    """

    operands: Key
    base: Key
    base_links: Links
    base_bytes: int
    others_bytes: int
    entangled: tuple[Entangled, ...]


def split(key: Key, count: int) -> tuple[Key, Links]:
    """Returns the slots of a state of ``count`` values, and its links."""
    return key[:count], key[count:]


def around(step: LiveStep, slots: Slots, key: Key, l1_bytes: int) -> Around:
    """Returns what a step leaves of the state ``key``, whose buffers take ``l1_bytes`` of a core's L1."""
    sizes, own = slots.buffer_bytes, slots.form_bytes
    entries, links = split(key, len(step.before))
    operands = tuple([entries[i] for i in step.operand_entries])
    base = tuple([entries[i] for i in step.kept])
    if not links:
        left = l1_bytes - sum([own[slot] for slot in operands])
        kept_bytes = sum([sizes[slot] for slot in base])
        return Around(operands, base, (), kept_bytes, left, ())
    groups = [links[i] for i in step.operand_entries]
    booked: dict[int, int] = {}
    for group, slot in zip(groups, operands, strict=True):
        booked[group] = max(booked.get(group, 0), own[slot])
    kept_roots = [links[i] for i in step.kept]
    kept_sizes = {root: sizes[slot] for root, slot in zip(kept_roots, base, strict=True)}
    shared = {links[i] for i in step.others} & set(groups)
    entangled = tuple(
        Entangled(groups.index(root), sizes[entries[root]], kept_roots.index(root) if root in kept_roots else -1)
        for root in sorted(shared)
    )
    return Around(
        operands + links_of(groups), base, links_of(kept_roots), sum(kept_sizes.values()),
        l1_bytes - sum(booked.values()), entangled,
    )  # fmt: skip
