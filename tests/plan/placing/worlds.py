"""Small graphs and calls for a search: ``Arithmetic`` costs what bytes cost, ``Wild`` anything at all."""

import hashlib
import random
from dataclasses import dataclass, field

from ssinghal.core.boards import load_board
from ssinghal.core.memory_config import BufferType, Cores, MemoryConfig, ShardKind, ShardSpec
from ssinghal.core.tensors import DType, Layout
from ssinghal.core.verdict import Status, Verdict
from ssinghal.plan.axis_layout import AxisLayout
from ssinghal.plan.placement import DRAM, L1, Form, Held, Outcome, StepChoice, Traffic
from ssinghal.plan.placing.search import StepNode

BOARD = load_board("n150")
CORES = 64
UNIT = 2048  # a tile of bfloat16: a value of n units takes n * UNIT of each core's L1, and CORES * n * UNIT in all


def form(units, memory=DRAM):
    shape = (1, 1, 32 * CORES * units, 32)
    return Form(memory, shape, DType.BFLOAT16, Layout.TILE, AxisLayout.plain(shape))


def height(units):
    return MemoryConfig(BufferType.L1, ShardSpec(ShardKind.HEIGHT, (32 * units, 32), Cores.grid(8, 8)))


def total(units):
    return CORES * units * UNIT


def units_of(x):
    return x.shape[2] // (32 * CORES)


@dataclass
class Info:
    """``kind``: op, sharded (reads its first operand height sharded), view, in_place. ``units``: of each result."""

    kind: str
    units: tuple
    weights: int = 0
    program: int = 0


@dataclass
class Arithmetic:
    """Traffic is what bytes have to be moved, peaks are what tensors and programs take."""

    infos: dict
    order: int = 0  # in which candidates are proposed
    requested: list = field(default_factory=list)
    memories: tuple = (DRAM, L1, "height")

    def candidates(self, node, operands):
        info = self.infos[node.number]
        if info.kind in ("view", "in_place"):
            return [StepChoice()]
        memories = [height(info.units[0]) if m == "height" else m for m in self.memories]
        choices = [StepChoice(memory=memory) for memory in memories]
        held = operands.get(0)
        if held is not None and not held.form.in_l1 and len(self.memories) > 2:
            choices.append(StepChoice(moves=((0, height(units_of(held.form))),), memory=L1))
        if self.order:
            random.Random(self.order).shuffle(choices)
        return choices

    def outcomes(self, node, requests):
        self.requested += [(node.number, choice) for _, choice in requests]
        return [self.outcome(node, dict(operands), choice) for operands, choice in requests]

    def outcome(self, node, operands, choice):
        info = self.infos[node.number]
        dram, reshard, changes = info.weights, 0, 0
        root = {p: p if h.shares is None else h.shares for p, h in operands.items()}
        buffers = {root[p]: operands[p].form.l1_bytes(BOARD) for p in operands}
        now = {p: h.form for p, h in operands.items()}
        peak = sum(buffers.values())

        def replace(position, memory):
            """The operand is copied; its old buffer is freed unless another operand has it."""
            nonlocal peak, dram, reshard, changes
            value = node.operands[position]
            same = [p for p in now if node.operands[p] == value]
            new = form(units_of(now[position]), memory)
            peak = max(peak, sum(buffers.values()) + new.l1_bytes(BOARD))
            if now[position].in_l1 != new.in_l1:
                dram += total(units_of(new))
            else:
                reshard += total(units_of(new))
            changes += 1
            old = root[position]
            for p in same:
                now[p], root[p] = new, ("new", position)
            if old not in root.values():
                del buffers[old]
            buffers["new", position] = new.l1_bytes(BOARD)

        for position, memory in choice.moves:
            if now[position].memory != memory:
                replace(position, memory)
        if info.kind == "sharded" and now[0].in_l1 and now[0].memory.shard is None:
            replace(0, height(units_of(now[0])))
        results = []
        if info.kind in ("view", "in_place"):
            results = [Held(now[0], 0)]
            peak = max(peak, sum(buffers.values()) + info.program)
        else:
            dram += sum(total(units_of(now[p])) for p in now if not now[p].in_l1)
            for units in info.units:
                results.append(Held(form(units, height(units) if choice.memory.shard else choice.memory)))
                dram += 0 if results[-1].form.in_l1 else total(units)
            made = sum(r.form.l1_bytes(BOARD) for r in results)
            peak = max(peak, sum(buffers.values()) + made + info.program)
        for position in choice.spills:
            if now[position].in_l1:
                value = node.operands[position]
                dram += total(units_of(now[position]))
                for p in now:
                    if node.operands[p] == value:
                        now[p] = form(units_of(now[p]))
                if info.kind in ("view", "in_place"):
                    results = [Held(results[0].form)]  # the only one that still has the buffer, or an L1 value by itself
        after = {}
        for p in now:
            moved = now[p] != operands[p].form
            after[p] = Held(now[p], None if moved else operands[p].shares)
        return Outcome(after, tuple(results), peak, traffic=Traffic(dram, reshard, changes))


@dataclass
class Wild:
    """Outcomes drawn at random, the same for the same call. Spills that are not proposed are rejected."""

    seed: int
    count: int
    forms: int = 4
    order: int = 0

    def pick(self, *key):
        return random.Random(hashlib.sha256(repr((self.seed, key)).encode()).digest())

    def proposed(self, node, operands):
        rng = self.pick("candidates", node.number, sorted((p, repr(h)) for p, h in operands.items()))
        choices = [StepChoice()]
        for i in range(1, rng.randint(1, self.count)):
            spills = tuple(sorted(p for p in operands if rng.random() < 0.15))
            choices.append(StepChoice(memory=L1, settings=(("variant", i),), spills=spills))
        return choices

    def candidates(self, node, operands):
        choices = self.proposed(node, operands)
        if self.order:
            random.Random(self.order).shuffle(choices)
        return choices

    def outcomes(self, node, requests):
        return [self.outcome(node, dict(operands), choice) for operands, choice in requests]

    def a_form(self, rng):
        units = rng.randint(1, 3)
        return form(units, rng.choice((DRAM, L1, height(units))))

    def outcome(self, node, operands, choice):
        from dataclasses import replace

        plain = replace(choice, compact=False)
        allowed = self.proposed(node, operands)
        rng = self.pick("outcome", node.number, sorted((p, repr(h)) for p, h in operands.items()), repr(choice))
        if plain not in allowed or rng.random() < 0.1:
            return Outcome(failure=Verdict(Status.UNSUPPORTED, message="not possible"))
        after = {}
        by_value = {}
        for p, held in operands.items():
            value = node.operands[p]
            if value not in by_value:
                by_value[value] = self.a_form(rng) if rng.random() < 0.2 else held.form
                if p in choice.spills:
                    by_value[value] = form(units_of(held.form))
            after[p] = Held(by_value[value], held.shares if by_value[value] == held.form else None)
        results = []
        spilled = {node.operands[p] for p in choice.spills}
        for _ in node.results:
            source = rng.choice(sorted(operands)) if operands and rng.random() < 0.35 else None
            if source is not None and after[source].form.in_l1 and not spilled & {node.operands[source]}:
                results.append(Held(after[source].form, source))
            else:
                results.append(Held(self.a_form(rng)))
        booked = sum(h.form.l1_bytes(BOARD) for h in operands.values() if h.shares is None)
        made = sum(r.form.l1_bytes(BOARD) for r in results if r.shares is None)
        peak = booked + made + rng.randint(0, 3) * UNIT
        traffic = Traffic(rng.randint(0, 9), rng.choice((0, 0, rng.randint(0, 5))), rng.randint(0, 1))
        return Outcome(after, tuple(results), peak, traffic=traffic)


def random_graph(rng, steps):
    """A graph of branches and joins: each step reads the newest value, or some of the last ones; one result is returned."""
    steps_read, made, reads = [], [0], {}
    for number in range(steps):
        if rng.random() < 0.6:
            chosen = [made[-1], rng.choice(made)] if rng.random() < 0.35 else [made[-1]]
        else:
            chosen = rng.sample(made[-4:], min(len(made), rng.choice((1, 1, 1, 2))))
        results = (len(made),) if rng.random() < 0.9 else (len(made), len(made) + 1)
        made.extend(results)
        operands = list(chosen)
        if rng.random() < 0.3:
            operands.insert(rng.randint(0, len(operands)), None)
        steps_read.append((operands, results))
        reads.update(dict.fromkeys(chosen, number))
    return graph_of(steps_read, {made[-1]})


def graph_of(steps, returned):
    """A graph of (operands, results) for each step, in which values die as early as they can."""
    last = {}
    for number, (operands, results) in enumerate(steps):
        last.update(dict.fromkeys([*results, *(v for v in operands if v is not None)], number))
    return [
        StepNode(
            number, "op", f"layer{number}", tuple(operands), tuple(results),
            frozenset(v for v, end in last.items() if end == number and v not in returned),
        )
        for number, (operands, results) in enumerate(steps)
    ]  # fmt: skip


def infos_of(rng, graph, kinds=("op", "op", "op", "sharded", "view")):
    """What the steps of a graph are; sizes follow views."""
    units, infos = {0: rng.randint(1, 3)}, {}
    for node in graph:
        first = next((v for v in node.operands if v is not None), None)
        kind = rng.choice(kinds)
        if kind != "op" and (node.operands[0] is None or len(node.results) > 1):
            kind = "op"
        sizes = tuple(units[first] if kind == "view" else rng.randint(1, 3) for _ in node.results)
        units.update(zip(node.results, sizes, strict=True))
        infos[node.number] = Info(kind, sizes, rng.choice((0, 1, 7)) * 1000, rng.randint(0, 3) * UNIT)
    return infos, units[0]
