"""Tries every sequence of choices, step by step, with buffers as objects: what a search is held against. Knows no states."""

from dataclasses import dataclass, replace
from itertools import combinations

from ssinghal.plan.placement import Held


class Buffer:
    """A buffer in L1 or DRAM; ``bytes``: of a core's L1."""

    def __init__(self, size):
        self.bytes = size


@dataclass
class Best:
    """``cost``: of the cheapest sequence, None where there is none. ``furthest``: the most steps that any sequence made."""

    cost: tuple | None = None
    choices: tuple = ()
    furthest: int = 0
    sequences: int = 0


def spill_variants(node, choice, outcome):
    """The choice, and with each set of operands in L1 that stay live spilled on top."""
    held, seen = [], set()
    for position, value in enumerate(node.operands):
        if value is None or value in node.dies or value in seen:
            continue
        seen.add(value)
        if outcome.operands[position].form.in_l1 and position not in choice.spills:
            held.append(position)
    for count in range(len(held) + 1):
        for more in combinations(held, count):
            yield replace(choice, spills=tuple(sorted((*choice.spills, *more)))) if more else choice


class Exhaustive:
    def __init__(self, nodes, calls, board, limits, spills=True):
        self.nodes, self.calls, self.board, self.limits, self.spills = nodes, calls, board, limits, spills
        self.best = Best()
        self.outcomes = {}

    def run(self, inputs):
        held = {value: (form, Buffer(form.l1_bytes(self.board))) for value, form in inputs.items()}
        self._follow(0, held, (0, 0), ())
        return self.best

    def _request(self, node, held):
        """Operands by position, with the first position of the same value or, in L1, of the same buffer."""
        request = {}
        for position, value in enumerate(node.operands):
            if value is None:
                continue
            form, buffer = held[value]
            shares = None
            for before in range(position):
                other = node.operands[before]
                if other is not None and (other == value or (form.in_l1 and held[other][1] is buffer)):
                    shares = before
                    break
            request[position] = Held(form, shares)
        return request

    def _outcome(self, node, request, choice):
        key = (node.number, tuple(request.items()), choice)
        if key not in self.outcomes:
            (self.outcomes[key],) = self.calls.outcomes(node, [(request, choice)])
        return self.outcomes[key]

    def _follow(self, index, held, cost, made):
        self.best.furthest = max(self.best.furthest, index)
        if index == len(self.nodes):
            self.best.sequences += 1
            if self.best.cost is None or cost < self.best.cost:
                self.best.cost, self.best.choices = cost, made
            return
        node = self.nodes[index]
        request = self._request(node, held)
        for proposed in self.calls.candidates(node, request):
            if node.number in self.limits.compact:
                proposed = replace(proposed, compact=True)
            first = self._outcome(node, request, proposed)
            if first.failure is not None:
                continue
            for choice in spill_variants(node, proposed, first) if self.spills else [proposed]:
                outcome = self._outcome(node, request, choice)
                after = None if outcome.failure is not None else self._after(node, held, choice, outcome)
                if after is not None:
                    step = outcome.traffic.cost
                    self._follow(index + 1, after, (cost[0] + step[0], cost[1] + step[1]), (*made, choice))

    def _after(self, node, held, choice, outcome):
        """How values are held after the step; None where it does not fit."""
        operands = {value for value in node.operands if value is not None}
        old = {value: held[value][1] for value in operands}
        now, by_position = dict(held), {}
        for position, value in enumerate(node.operands):
            if value is None:
                continue
            if position in outcome.operands and value not in {node.operands[p] for p in by_position}:
                form = outcome.operands[position].form
                buffer = old[value] if form == held[value][0] else Buffer(form.l1_bytes(self.board))
                now[value] = (form, buffer)
            by_position[position] = now[value][1]
        created = []
        for number, result in zip(node.results, outcome.results, strict=True):
            buffer = Buffer(result.form.l1_bytes(self.board)) if result.shares is None else by_position[result.shares]
            if not result.form.in_l1 or not buffer.bytes:
                buffer = Buffer(result.form.l1_bytes(self.board))
            now[number] = (result.form, buffer)
            created.append(buffer)
        others = {id(b): b for value, (_, b) in held.items() if value not in operands and b not in old.values()}
        for buffer in set(old.values()):  # what a value that is no operand has, too, stays though the call would have freed it
            shared = any(b is buffer for value, (_, b) in held.items() if value not in operands)
            spilled = any(old[node.operands[p]] is buffer for p in choice.spills)
            freed = buffer not in [now[value][1] for value in operands] + created and not spilled
            if shared and freed:
                others[id(buffer)] = buffer
        beyond = 0  # a view may be smaller than the buffer that it keeps
        for buffer in set(old.values()):
            seen = max(held[value][0].l1_bytes(self.board) for value in operands if old[value] is buffer)
            beyond += buffer.bytes - seen
        limit = self.limits.l1_bank_bytes - self.limits.headroom_bytes - self.limits.learned.get(node.number, 0)
        if outcome.l1_peak_bytes + sum(b.bytes for b in others.values()) + beyond > limit:
            return None
        return {value: x for value, x in now.items() if value not in node.dies}
