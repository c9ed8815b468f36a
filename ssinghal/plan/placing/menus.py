"""The options of each step by how its operands are held: proposed and tried once, however many states come to them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations

from ssinghal.plan.placement import IN_DRAM, Outcome, StepChoice
from ssinghal.plan.placing.graph import Calls, Limits
from ssinghal.plan.placing.options import Option, option, worthwhile
from ssinghal.plan.placing.state import Key, LiveStep, Slots

MAX_SUBSETS = 3  # operands of which each subset is tried as spilled; of more of them only single ones, and all


@dataclass
class Menu:
    """Options of a step for operands in one way.

    ``proposed``: the choices of ``Calls.candidates``. ``spilling``: with spills that the search adds, by the option that is
    changed and the positions. ``open``: those worth following, for the spills that are allowed at the time.
    """

    proposed: list[Option]
    spilling: dict[tuple[int, tuple[int, ...]], Option] = field(default_factory=dict)
    open: list[Option] = field(default_factory=list)

    @property
    def in_dram(self) -> Option | None:
        return next((x for x in self.proposed if x.plain), None)

    @property
    def all(self) -> list[Option]:
        return [*self.proposed, *self.spilling.values()]


class Menus:
    """All menus of a search. ``limits``: those of the time. ``exceeded``: steps with an option that was over the limit without
    other values. ``views``: by step, pairs of an operand and a result that was seen to share its buffer."""

    def __init__(self, steps: Sequence[LiveStep], slots: Slots, calls: Calls, limits: Limits) -> None:
        self.steps, self.slots, self.calls, self.limits = steps, slots, calls, limits
        self.exceeded: set[int] = set()
        self.views: dict[int, set[tuple[int, int]]] = {}
        self._menus: dict[tuple[int, bool], dict[Key, Menu]] = {}  # by step, and whether tensors are moved together before it
        self._texts: dict[StepChoice, str] = {}

    def at(self, step: LiveStep, keys: Iterable[Key], spillable: frozenset[int]) -> dict[Key, Menu]:
        """Returns the menus of a step for operands in each of these ways. ``spillable``: operands that may be spilled beyond
        what is proposed."""
        menus = self._of(step)
        distinct = list(dict.fromkeys(keys))
        self._propose(step, [key for key in distinct if key not in menus])
        limit = self.limits.at(step.node.number)
        for key in distinct:
            menu = menus[key]
            menu.open = worthwhile(menu.proposed, limit)
            if any(x.possible and x.peak > limit for x in menu.proposed):
                self.exceeded.add(step.index)
        if spillable:
            self._spill(step, distinct, spillable)
        return {key: menus[key] for key in distinct}

    def known(self, step: LiveStep, key: Key) -> Menu:
        """Returns the menu of a step for operands in a way that ``at`` was called with."""
        return self._of(step)[key]

    def _of(self, step: LiveStep) -> dict[Key, Menu]:
        return self._menus.setdefault((step.index, step.node.number in self.limits.compact), {})

    def _propose(self, step: LiveStep, keys: Sequence[Key]) -> None:
        compact = step.node.number in self.limits.compact
        requested: list[tuple[Key, StepChoice, bool]] = []
        for key in keys:
            self._of(step)[key] = Menu([])
            proposed = set(self.calls.candidates(step.node, step.held(self.slots, key)))
            for choice in sorted(proposed, key=self._text):
                requested.append((key, choice.with_compaction() if compact else choice, choice == IN_DRAM))
        outcomes = self._tried(step, [(key, choice) for key, choice, _ in requested])
        for (key, choice, plain), outcome in zip(requested, outcomes, strict=True):
            menu = self._of(step)[key]
            menu.proposed.append(option(step, self.slots, key, len(menu.proposed), choice, plain, outcome))
            self._note_views(step, outcome)

    def _note_views(self, step: LiveStep, outcome: Outcome) -> None:
        for result, held in zip(step.node.results, outcome.results, strict=False):
            operand = None if held.shares is None else step.node.operands[held.shares]
            if operand is not None:
                self.views.setdefault(step.index, set()).add((operand, result))

    def _spill(self, step: LiveStep, keys: Sequence[Key], spillable: frozenset[int]) -> None:
        """Adds spills to the options that are worth following."""
        menus = self._of(step)
        wanted = [(key, x, more) for key in keys for x in menus[key].open for more in self._spills(step, x, spillable)]
        new = [(key, x, more) for key, x, more in wanted if (x.order, more) not in menus[key].spilling]
        choices = [replace(x.choice, spills=tuple(sorted({*x.choice.spills, *more}))) for _, x, more in new]
        outcomes = self._tried(step, [(key, choice) for (key, _, _), choice in zip(new, choices, strict=True)])
        for (key, x, more), choice, outcome in zip(new, choices, outcomes, strict=True):
            menu = menus[key]
            order = len(menu.proposed) + len(menu.spilling)
            menu.spilling[x.order, more] = option(step, self.slots, key, order, choice, False, outcome)
        limit = self.limits.at(step.node.number)
        for key in keys:
            spilling = [menus[key].spilling[x.order, more] for k, x, more in wanted if k == key]
            if spilling:
                menus[key].open = worthwhile([*menus[key].open, *spilling], limit)

    def _spills(self, step: LiveStep, x: Option, spillable: frozenset[int]) -> list[tuple[int, ...]]:
        """Returns sets of positions whose operands stay live in L1 and may be spilled instead."""
        positions = [
            step.positions[operand][0]
            for operand, slot in zip(step.survivors, x.tail, strict=False)
            if operand in spillable and self.slots.buffer_bytes[slot]
        ]
        sizes = range(1, len(positions) + 1) if len(positions) <= MAX_SUBSETS else (1, len(positions))
        return [chosen for size in sizes for chosen in combinations(positions, size)]

    def _tried(self, step: LiveStep, requested: Sequence[tuple[Key, StepChoice]]) -> Sequence[Outcome]:
        if not requested:
            return ()
        held = {key: step.held(self.slots, key) for key, _ in requested}
        return self.calls.outcomes(step.node, [(held[key], choice) for key, choice in requested])

    def _text(self, choice: StepChoice) -> str:
        """Returns a text by which choices are sorted."""
        if choice not in self._texts:
            self._texts[choice] = repr(choice)
        return self._texts[choice]
