"""Measures the search for placements in L1 without a device: the graphs of real models, with calls whose needs are computed.

    python benchmarks/placing_search.py [--beam 64] [--model resnet50]

Each step has about ten choices: its result in DRAM or in L1, interleaved or in height, width or block shards, each with two
settings, one of which takes more program buffers and moves less. An operand in other shards than the result is resharded.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache

from ssinghal.capture.trace import Trace, Value
from ssinghal.capture.trace_library import find_trace
from ssinghal.core.boards import load_board
from ssinghal.core.memory_config import BufferType, Cores, MemoryConfig, ShardKind, ShardSpec
from ssinghal.core.tensors import Board, DType, Layout, ceil_div, round_up
from ssinghal.plan.axis_layout import AxisLayout
from ssinghal.plan.lowering import planned_steps
from ssinghal.plan.placement import DRAM, L1, Form, Held, Outcome, StepChoice, Traffic
from ssinghal.plan.placing.graph import Limits, StepNode
from ssinghal.plan.placing.refine import step_nodes
from ssinghal.plan.placing.search import NoPlacement, search

MODELS = (
    ("torchvision/resnet50", (1, 3, 224, 224)),
    ("torchvision/swin_b", (1, 3, 1280, 800)),
    ("transformers/segformer-b0", (1, 3, 1280, 800)),
    ("ultralytics/yolo12x", (1, 3, 640, 640)),
)
GRID = 8
CORES = GRID * GRID


@cache
def rows_and_columns(value: Value) -> tuple[int, int]:
    """Returns the value as a port lays it out: maps channels-last, everything else by its last dim."""
    shape = value.shape or (1,)
    columns = shape[1] if len(shape) == 4 else shape[-1]
    return math.prod(shape) // max(columns, 1) or 1, columns or 1


@cache
def memories(value: Value) -> tuple[MemoryConfig, ...]:
    rows, columns = (round_up(size, 32) for size in rows_and_columns(value))
    tall, wide = (round_up(ceil_div(size, CORES), 32) for size in (rows, columns))
    high, broad = (round_up(ceil_div(size, GRID), 32) for size in (rows, columns))
    blocks = Cores.grid(ceil_div(columns, broad), ceil_div(rows, high))
    shards = (
        ShardSpec(ShardKind.HEIGHT, (tall, columns), Cores.first(ceil_div(rows, tall), (GRID, GRID))),
        ShardSpec(ShardKind.WIDTH, (rows, wide), Cores.first(ceil_div(columns, wide), (GRID, GRID))),
        ShardSpec(ShardKind.BLOCK, (high, broad), blocks),
    )
    return (DRAM, L1, *(MemoryConfig(BufferType.L1, shard) for shard in shards))


@cache
def form(value: Value, memory: MemoryConfig) -> Form:
    shape = (1, 1, *rows_and_columns(value))
    return Form(memory, shape, DType.BFLOAT16, Layout.TILE, AxisLayout.plain(shape))


@dataclass
class ComputedCalls:
    """``seconds``: spent here and not in the search. ``requests``: outcomes that were requested."""

    trace: Trace
    board: Board
    seconds: float = 0.0
    requests: int = 0
    _bytes: dict[Form, tuple[int, int]] = field(default_factory=dict)

    def candidates(self, node: StepNode, operands: Mapping[int, Held]) -> Sequence[StepChoice]:
        return [
            StepChoice(memory=memory, settings=settings)
            for memory in memories(self.trace.values[node.results[0]])
            for settings in ((), (("blocks", 2),))
        ]

    def outcomes(self, node: StepNode, requests: Sequence[tuple[Mapping[int, Held], StepChoice]]) -> Sequence[Outcome]:
        started = time.perf_counter()
        outcomes = [self._outcome(node, operands, choice) for operands, choice in requests]
        self.seconds += time.perf_counter() - started
        self.requests += len(requests)
        return outcomes

    def _outcome(self, node: StepNode, operands: Mapping[int, Held], choice: StepChoice) -> Outcome:
        values = [self.trace.values[number] for number in node.results]
        kind = None if choice.memory is None or choice.memory.shard is None else choice.memory.shard.kind
        dram, reshard, changes, peak = 20_000 if choice.settings else 30_000, 0, 0, 60_000 if choice.settings else 20_000
        after: dict[int, Held] = {}
        for position, held in operands.items():
            after[position] = held
            booked, moved = self._sizes(held.form)
            peak += booked
            shard = held.form.memory.shard
            if not held.form.in_l1:
                dram += moved
            elif shard is not None and kind is not None and shard.kind is not kind:
                reshard, changes = reshard + moved, changes + 1
            if position in choice.spills:
                after[position] = Held(Form(DRAM, held.form.shape, held.form.dtype, held.form.layout, held.form.axes))
                dram += moved
        results = []
        for value in values:
            fitting = next((m for m in memories(value) if m.shard and m.shard.kind is kind), None)
            x = form(value, fitting or (choice.memory if choice.memory in (DRAM, L1) else L1))
            booked, moved = self._sizes(x)
            peak += booked
            dram += 0 if x.in_l1 else moved
            results.append(Held(x))
        return Outcome(after, tuple(results), peak, traffic=Traffic(dram, reshard, changes))

    def _sizes(self, x: Form) -> tuple[int, int]:
        if x not in self._bytes:
            self._bytes[x] = x.l1_bytes(self.board), x.total_bytes(self.board)
        return self._bytes[x]


def measure(name: str, trace: Trace, beam: int) -> None:
    board = load_board("n150")
    nodes = step_nodes(trace, planned_steps(trace))
    calls = ComputedCalls(trace, board)
    inputs = {number: form(value, DRAM) for number, value in enumerate(trace.values) if value.kind.value == "input"}
    started = time.perf_counter()
    result = search(nodes, inputs, calls, board, Limits(board.l1.bank_bytes), beam=beam)
    seconds = time.perf_counter() - started - calls.seconds
    head = f"{name:32} {len(nodes):5} steps {seconds:6.1f} s, calls {calls.seconds:5.1f} s for {calls.requests:7,} requests"
    if isinstance(result, NoPlacement):
        print(f"{head}: {result}")
        return
    print(f"{head}, {result.states:8,} states, {result.cost[0]:,} B, bound {result.bound[0]:,} B, exact {result.exact}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--beam", type=int, default=64)
    parser.add_argument("--model", default="", help="only models with this in their name")
    options = parser.parse_args()
    for name, shape in MODELS:
        if options.model in name:
            measure(name, find_trace(name, [shape]), options.beam)


if __name__ == "__main__":
    main()
