"""Compares the arithmetic of sharded tensors with TTNN's allocator, on random specs.

    python benchmarks/sharded_specs.py [--boards n150,p100,p150] [--specs 3000] [--seed 1]

Specs are drawn over both memories, height, width, block and ND shards, orientations, distributions, core ranges, layouts,
dtypes and ranks, with uneven last shards, cores without a shard, and near misses that TTNN rejects. Each spec that TTNN accepts
is compared by what its allocator books on an empty device, the number of pages and the padded shape, and by the total, the
banks and the bytes per bank of its out-of-memory text on a full one. ``--specs`` counts the accepted ones. The exit code is 1
if there is a difference, or if one side accepts what the other rejects.
"""

from __future__ import annotations

import argparse
import math
import multiprocessing
import random
import re
import sys
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from ssinghal.core.boards import load_board
from ssinghal.core.device_facts import DeviceMode
from ssinghal.core.memory_config import (
    BufferType,
    CoreRange,
    Cores,
    Distribution,
    MemoryConfig,
    Orientation,
    ShardKind,
    ShardSpec,
)
from ssinghal.core.tensors import Board, DType, Layout, Shape, TensorSpec, ceil_div, format_shape, round_up
from ssinghal.device.modes import DeviceChoice
from ssinghal.device.session import Session
from ssinghal.device.virtual import apply_environment, environment_for
from ssinghal.device.virtual_cache import scratch_folder
from ssinghal.errors import InvalidCase

_OOM = re.compile(r"allocate (\d+) B \w+ buffer across (\d+) banks, where each bank needs to store (\d+) B")


@dataclass(frozen=True)
class Request:
    """A spec that is not checked yet, so that rejections can be compared as well."""

    shape: Shape
    dtype: DType
    layout: Layout
    memory: MemoryConfig

    def __str__(self) -> str:
        return f"{format_shape(self.shape)} {self.dtype} {self.layout} {self.memory}"


@dataclass(frozen=True)
class Figures:
    """What an allocation takes. ``booked_bytes`` and what follows are None if the tensor is too large for an empty device."""

    total_bytes: int
    banks: int
    bytes_per_bank: int
    booked_bytes: int | None = None
    pages: int | None = None
    padded_shape: Shape | None = None


@dataclass
class Comparison:
    """The outcome on a board. ``compared``: by shard kind, layout and memory."""

    board: str
    compared: Counter[str] = field(default_factory=Counter)
    rejected: int = 0
    differences: list[str] = field(default_factory=list)


def compare(board_name: str, specs: int, seed: int) -> Comparison:
    """Compares ``specs`` accepted specs in a process of its own, since a process can open one board only."""
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, spawn) as worker:
        return worker.submit(_compare, board_name, specs, seed).result()


def _compare(board_name: str, specs: int, seed: int) -> Comparison:
    choice = DeviceChoice(DeviceMode.VIRTUAL, board_name, "requested")
    outcome, random_numbers, board = Comparison(board_name), random.Random(seed), load_board(board_name)
    with scratch_folder() as scratch:
        apply_environment(environment_for(choice, scratch))
        with Session(choice) as session:
            while outcome.compared.total() < specs:
                request = random_request(random_numbers, board)
                expected, found = by_arithmetic(request, board), by_allocator(request, session)
                if isinstance(expected, str) and isinstance(found, str):
                    outcome.rejected += 1
                    continue
                shard = request.memory.shard
                assert shard is not None
                outcome.compared[f"{request.memory.buffer} {shard.kind} {request.layout}"] += 1
                if expected != found:
                    outcome.differences.append(f"{board_name}: {request}: arithmetic {expected}; TTNN {found}")
    return outcome


# The two sides -----------------------------------------------------------------------------------------------------------


def by_arithmetic(request: Request, board: Board) -> Figures | str:
    """Returns what the harness computes, or its sentence where it rejects the spec."""
    try:
        spec = TensorSpec(request.shape, request.dtype, request.layout, request.memory)
        oom = (spec.allocated_bytes(board), spec.num_banks(board), spec.bytes_per_bank(board))
    except InvalidCase as error:
        return str(error)
    booked = spec.booked_bytes_per_bank(board)
    if booked > board.region(spec.memory.buffer).bank_bytes:
        return Figures(*oom)
    return Figures(*oom, booked, spec.num_pages, spec.padded_shape)


def by_allocator(request: Request, session: Session) -> Figures | str:
    """Returns what TTNN does, or its text where it rejects the spec."""
    buffer = request.memory.buffer
    booked: tuple[int | None, int | None, Shape | None] = (None, None, None)
    try:
        tensor = _allocated(request, session)
    except RuntimeError as error:
        if "Out of Memory" not in str(error):
            return str(error)
    else:
        booked = (session.memory(buffer).allocated_bytes, tensor.buffer_num_pages(), tuple(tensor.padded_shape))
        tensor.deallocate()
    region = session.memory(buffer)
    half_of_each_bank = (region.num_banks, region.bank_bytes // 2)  # of 2 B
    filler = _allocated(Request(half_of_each_bank, DType.BFLOAT16, Layout.ROW_MAJOR, MemoryConfig(buffer)), session)
    try:
        _allocated(request, session).deallocate()
    except RuntimeError as error:
        found = _OOM.search(str(error))
        if found is None:
            return str(error)
        total, banks, per_bank = map(int, found.groups())
        return Figures(total, banks, per_bank, *booked)
    finally:
        filler.deallocate()
    return "fits on a full device"


def _allocated(request: Request, session: Session) -> Any:
    ttnn = session.ttnn
    return ttnn.empty(
        list(request.shape),
        dtype=getattr(ttnn, request.dtype.value),
        layout=ttnn.TILE_LAYOUT if request.layout is Layout.TILE else ttnn.ROW_MAJOR_LAYOUT,
        device=session.device,
        memory_config=session.memory_config(request.memory),
    )


# Random specs ------------------------------------------------------------------------------------------------------------


def random_request(rng: random.Random, board: Board) -> Request:
    """Draws a spec that TTNN accepts in about two of three cases."""
    layout, buffer = rng.choice(list(Layout)), rng.choice([BufferType.L1, BufferType.L1, BufferType.DRAM])
    dtype = rng.choice([d for d in DType if layout is Layout.TILE or not d.is_block_float])
    leading = [rng.choice([1, 2, 3, 5, rng.randint(1, 40)]) for _ in range(rng.choice([0, 0, 0, 1, 1, 2, 2, 3, 4]))]
    inner = [rng.choice([1, 31, 32, 33, 64, 96, 100, 128, rng.randint(1, 300), rng.randint(1, 3000)]) for _ in range(2)]
    shape = (*leading, *inner) if rng.random() < 0.9 else (inner[-1],)
    padded = TensorSpec(shape, dtype, layout).padded_shape
    cores = _cores(rng, buffer, board)
    orientation = rng.choice(list(Orientation))
    kind = rng.choice([*ShardKind, ShardKind.ND])
    distribution = (
        rng.choice([*Distribution, Distribution.ROUND_ROBIN_1D]) if kind is ShardKind.ND else Distribution.ROUND_ROBIN_1D
    )
    edges = _nd_edges(rng, padded) if kind is ShardKind.ND else _edges(rng, kind, padded, cores, orientation)
    step = 32 if layout is Layout.TILE else 1
    last_two = [round_up(edge, step) if rng.random() < 0.98 else edge for edge in edges[-2:]]
    shard = ShardSpec(kind, (*edges[:-2], *last_two), cores, orientation, distribution)
    return Request(shape, dtype, layout, MemoryConfig(buffer, shard))


def _cores(rng: random.Random, buffer: BufferType, board: Board) -> Cores:
    """Draws one to four ranges, now and then beyond the board."""
    columns, rows = (board.dram.num_banks, 1) if buffer is BufferType.DRAM else board.grid
    if rng.random() < 0.05:
        columns, rows = columns + 2, rows + 1
    ranges: list[CoreRange] = []
    for _ in range(1 if rng.random() < 0.6 else rng.randint(1, 4)):
        left, top = rng.choice([0, rng.randrange(columns)]), rng.choice([0, rng.randrange(rows)])
        drawn = ((left, top), (rng.randint(left, columns - 1), rng.randint(top, rows - 1)))
        try:
            ranges = list(Cores((*ranges, drawn)).ranges)
        except InvalidCase:  # they overlap
            continue
    return Cores(tuple(ranges))


def _edges(rng: random.Random, kind: ShardKind, padded: Shape, cores: Cores, orientation: Orientation) -> tuple[int, int]:
    """Draws a shard near the one that covers the tensor evenly."""
    height, width = math.prod(padded[:-1]), padded[-1]
    columns, rows = cores.box if orientation is Orientation.ROW_MAJOR else cores.box[::-1]
    if kind is not ShardKind.BLOCK:
        columns = rows = cores.count

    def near(size: int, parts: int) -> int:
        even = ceil_div(size, parts)
        return max(1, even + rng.choice([0, 0, 0, 1, -1, 32, -32, rng.randint(0, even)]))

    down = height if kind is ShardKind.WIDTH and rng.random() < 0.9 else near(height, rows)
    across = width if kind is ShardKind.HEIGHT and rng.random() < 0.9 else near(width, columns)
    return down, across


def _nd_edges(rng: random.Random, padded: Shape) -> tuple[int, ...]:
    """Draws a shard of any rank up to the tensor's, rarely one more: of its sizes, parts of them, or larger ones."""
    rank = rng.choice([len(padded)] * 5 + [rng.randint(1, len(padded))] * 3 + [2, len(padded) + 1])
    return tuple(rng.choice([size, size // 2 or 1, rng.randint(1, size), 1, size + 1]) for size in ((1, 1, *padded)[-rank:]))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--boards", default="n150,p100,p150", help="names, separated by commas")
    parser.add_argument("--specs", type=int, default=3000, help="accepted specs on each board")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    outcomes = [compare(board, options.specs, options.seed) for board in options.boards.split(",")]
    for outcome in outcomes:
        print(
            f"{outcome.board}: {outcome.compared.total():,} sharded specs compared, {len(outcome.differences)} differences; "
            f"{outcome.rejected:,} more rejected by both"
        )
        for group, count in sorted(outcome.compared.items()):
            print(f"  {count:5,} {group}")
        print(*outcome.differences[:20], sep="\n", end="\n" if outcome.differences else "")
    return 1 if any(outcome.differences for outcome in outcomes) else 0


if __name__ == "__main__":
    sys.exit(main())
