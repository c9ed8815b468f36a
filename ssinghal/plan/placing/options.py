"""Options of a step: a choice with the outcome of its call, and what that makes of a state of the search."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ssinghal.plan.placement import Form, Outcome, StepChoice
from ssinghal.plan.placing.state import ABSENT, Around, Key, Links, LiveStep, Slots, links_of


@dataclass(frozen=True, slots=True)
class Option:
    """A choice with its outcome, for operands held in one way.

    Attributes:
        order: Its place among the options of the step for these operands: the same whatever order they were proposed in.
        plain: Whether the policy ``port`` calls the step like this.
        peak: L1 bytes of a core, as if nothing else were there.
        tail: Slots of the operands that stay live, then of the results that do.
        tail_links: Which entries of ``tail`` share a buffer.
        tail_groups: For each entry of ``tail`` the operand whose buffer it still has, -1 for another buffer.
        tail_bytes: What the buffers of ``tail`` take of L1.
        kept_groups: Operands whose buffers are there until the call has returned, as the outcome's peak has it.
    """

    order: int
    choice: StepChoice
    outcome: Outcome
    plain: bool = False
    peak: int = 0
    cost: tuple[int, int] = (0, 0)
    tail: Key = ()
    tail_links: Links = ()
    tail_groups: tuple[int, ...] = ()
    tail_bytes: int = 0
    kept_groups: frozenset[int] = frozenset()

    @property
    def possible(self) -> bool:
        return self.outcome.failure is None


class _Buffer(NamedTuple):
    """``label``: the number of an operand's buffer before the call, a larger number for a new one, -1 in DRAM."""

    label: int
    slot: int


class _Reader:
    """Reads an outcome for operands in certain slots."""

    def __init__(self, step: LiveStep, slots: Slots, key: Key, outcome: Outcome) -> None:
        self.step, self.slots, self.outcome = step, slots, outcome
        self.at = step.operand_at()
        self.count = len(step.operands)
        self.before, self.groups = key[: self.count], key[self.count :] or tuple(range(self.count))
        self.next_label = self.count

    def operands(self) -> list[_Buffer | None]:
        """Returns the buffers of the operands after the call; None for one that was freed."""
        after: list[_Buffer | None] = []
        sharing: list[tuple[int, Form, int]] = []
        for i, positions in enumerate(self.step.positions):
            held = next((self.outcome.operands[p] for p in positions if p in self.outcome.operands), None)
            slot = self.before[i]
            source = None if held is None or held.shares is None else self.at.get(held.shares)
            if held is None:
                freed = self.step.operands[i] in self.step.node.dies
                after.append(None if freed else self._old(i, self.slots.forms[slot]))
            elif held.form == self.slots.forms[slot] or source == i:
                after.append(self._old(i, held.form))
            elif source is None:
                after.append(self._new(held.form))
            else:
                after.append(None)
                sharing.append((i, held.form, source))
        for i, form, source in sharing:
            after[i] = self._sharing(form, after[source]) if after[source] else self._old(source, form)
        return after

    def results(self, operands: Sequence[_Buffer | None]) -> list[_Buffer]:
        results = []
        for held in self.outcome.results:
            source = None if held.shares is None else self.at.get(held.shares)
            if source is None:
                results.append(self._new(held.form))
            elif operands[source] is not None:
                results.append(self._sharing(held.form, operands[source]))
            else:  # the operand was freed as a value, and its buffer is the result's
                results.append(self._old(source, held.form))
        missing = len(self.step.node.results) - len(results)
        return results + [_Buffer(-1, ABSENT)] * missing

    def _old(self, operand: int, form: Form | None) -> _Buffer:
        if form is None:
            return _Buffer(-1, ABSENT)
        return self._sharing(form, _Buffer(self.groups[operand], self.before[operand]))

    def _new(self, form: Form) -> _Buffer:
        slot = self.slots.slot(form)
        if not self.slots.buffer_bytes[slot]:
            return _Buffer(-1, slot)
        self.next_label += 1
        return _Buffer(self.next_label, slot)

    def _sharing(self, form: Form, buffer: _Buffer | None) -> _Buffer:
        size = self.slots.buffer_bytes[buffer.slot] if buffer else 0
        if buffer is None or not size or not form.in_l1:
            return self._new(form)
        return _Buffer(buffer.label, self.slots.slot(form, size))


def option(step: LiveStep, slots: Slots, key: Key, order: int, choice: StepChoice, plain: bool, outcome: Outcome) -> Option:
    """Returns the option of a choice for operands in the slots of ``key``."""
    if outcome.failure is not None:
        return Option(order, choice, outcome, plain)
    reader = _Reader(step, slots, key, outcome)
    operands = reader.operands()
    results = reader.results(operands)
    tail = [operands[i] or _Buffer(-1, ABSENT) for i in step.survivors] + [results[i] for i in step.results]
    spilled = {reader.groups[i] for i, positions in enumerate(step.positions) if set(positions) & set(choice.spills)}
    kept = {buffer.label for buffer in (*operands, *results) if buffer is not None} | spilled
    sizes = {buffer.label: slots.buffer_bytes[buffer.slot] for buffer in tail if buffer.label >= 0}
    return Option(
        order, choice, outcome, plain, outcome.l1_peak_bytes, outcome.traffic.cost,
        tuple(buffer.slot for buffer in tail),
        links_of([buffer.label for buffer in tail]),
        tuple(buffer.label if buffer.label < reader.count else -1 for buffer in tail),
        sum(sizes.values()),
        frozenset(label for label in kept if 0 <= label < reader.count),
    )  # fmt: skip


def worthwhile(options: Iterable[Option], limit: int) -> list[Option]:
    """Returns the options that fit into ``limit`` bytes alone, cheapest first, without those that another one makes needless:
    it leaves the same state at no more cost with no more settings, and needs no more L1."""
    least: dict[object, int] = {}
    best = []
    for x in sorted(options, key=lambda x: (x.cost, x.choice.settings_count, x.peak, x.order)):
        leaves = (x.tail, x.tail_links, x.tail_groups, x.kept_groups)
        if x.possible and x.peak <= min(limit, least.get(leaves, limit + 1) - 1):
            least[leaves] = x.peak
            best.append(x)
    return best


def applied(around: Around, x: Option) -> tuple[Key, int, int]:
    """Returns the state that an option leaves, the bytes of its buffers in L1, and what the option adds to the peak because a
    buffer stays that the call alone would have freed: a value that is no operand has it too."""
    count = len(around.base)
    if not around.entangled:
        key = around.base + x.tail
        if around.base_links or x.tail_links:
            key += _joined(around.base_links, x.tail_links, count, len(x.tail))
        return key, around.base_bytes + x.tail_bytes, 0
    held, added = around.base_bytes + x.tail_bytes, 0
    links = list(around.base_links or range(count)) + [count + link for link in x.tail_links or range(len(x.tail))]
    for buffer in around.entangled:
        if buffer.group not in x.kept_groups:
            added += buffer.buffer_bytes
        if buffer.keeper >= 0 and buffer.group in x.tail_groups:
            held -= buffer.buffer_bytes
            for i, group in enumerate(x.tail_groups):
                if group == buffer.group:
                    links[count + i] = links[buffer.keeper]
    return around.base + x.tail + links_of(links), held, added


def _joined(base: Links, tail: Links, count: int, added: int) -> Links:
    return (base or tuple(range(count))) + tuple(count + link for link in tail or range(added))
