"""Offers the ways of calling what else maps go through: pools, changes of resolution, concats, slices, pads."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from ssinghal.core.memory_config import BufferType, Cores, MemoryConfig, ShardKind, ShardSpec
from ssinghal.core.tensors import TILE_EDGE, Board
from ssinghal.operators import named
from ssinghal.operators.operator_info import normal_dim
from ssinghal.plan.lowering import PlannedCall
from ssinghal.plan.placement import DRAM, L1, StepChoice
from ssinghal.plan.placing.convolution_offers import LAYOUTS
from ssinghal.plan.placing.offers import Offer, Operands, interleaved, moves_to

MAP = 4  # rank


def pool(planned: PlannedCall, operands: Operands, board: Board) -> Iterator[StepChoice]:
    """Pools shards as they are, and interleaved maps in shards of a kind; the result stays in shards or goes to DRAM."""
    memory = operands[0].form.memory
    if memory.shard is not None:
        yield StepChoice(memory=None)
        yield StepChoice(memory=None, after=DRAM)
    image = memory if memory.shard is None else L1
    columns, rows = board.grid
    channels = planned.case.inputs[0][1]
    used = {
        ShardKind.HEIGHT: columns * rows,
        ShardKind.BLOCK: rows * min(columns, math.ceil(channels / TILE_EDGE)),
    }
    moves = moves_to({0: operands[0]}, image)
    for kind in (kind for kind in used if 2 * used[kind] >= max(used.values())):
        yield StepChoice(moves=moves, memory=None, settings=(("applied_shard_scheme", LAYOUTS[kind]),))


def global_pool(planned: PlannedCall, operands: Operands, board: Board) -> Iterator[StepChoice]:
    """Reduces maps to points in interleaved memory of L1, since points are few; TTNN makes shards interleaved there itself."""
    moves = moves_to(operands, L1)
    yield from dict.fromkeys((StepChoice(memory=L1), StepChoice(moves=moves, memory=L1)))


def upsample(planned: PlannedCall, operands: Operands, board: Board) -> Iterator[StepChoice]:
    """Repeats the rows of shards as they are, those of shards that have complete rows of the map, or interleaved."""
    yield from interleaved(planned, operands, board)
    image = planned.case.inputs[0]
    if len(image) == MAP:
        batch, channels, height, width = image
        cores = _most(batch * height, board)
        memory = height_shards(batch * height * width, channels, cores, board)
        if operands[0].form.memory != memory:
            yield StepChoice(moves=((0, memory),), memory=None)
        yield StepChoice(memory=None)


def slices(planned: PlannedCall, operands: Operands, board: Board) -> Iterator[StepChoice]:
    """Cuts shards into shards on the same cores, or in interleaved memory."""
    yield from interleaved(planned, operands, board)
    if any(held.form.memory.shard is not None for held in operands.values()):
        yield StepChoice(memory=None)


def concat(planned: PlannedCall, operands: Operands, board: Board) -> Iterator[StepChoice]:
    """Joins channels in the rows of the shards of an operand, or interleaved."""
    yield from interleaved(planned, operands, board)
    shapes = planned.case.inputs
    if len(operands) < len(shapes) or len(shapes[0]) != MAP or normal_dim(planned.attrs["dim"], MAP) != 1:
        return
    channels = [shape[1] for shape in shapes]
    for memory in dict.fromkeys(operands[p].form.memory for p in operands):
        shard = memory.shard
        if shard is not None and shard.kind is ShardKind.HEIGHT:
            yield _joined(memory, channels)


def _joined(memory: MemoryConfig, channels: Sequence[int]) -> StepChoice:
    moves = tuple((position, with_width(memory, width)) for position, width in enumerate(channels))
    return StepChoice(moves=moves, memory=with_width(memory, sum(channels)))


def with_width(memory: MemoryConfig, width: int) -> MemoryConfig:
    """Returns height shards as they are, but ``width`` columns wide."""
    shard = memory.shard
    return memory if shard is None else replace(memory, shard=replace(shard, shape=(shard.shape[0], width)))


def height_shards(rows: int, width: int, cores: int, board: Board) -> MemoryConfig:
    """Returns shards of ``rows`` / ``cores`` rows."""
    shape = (math.ceil(rows / cores), width)
    return MemoryConfig(BufferType.L1, ShardSpec(ShardKind.HEIGHT, shape, Cores.first(cores, board.grid)))


def _most(parts: int, board: Board) -> int:
    """Returns the most cores that take an equal number of ``parts``."""
    return max(n for n in range(1, board.grid[0] * board.grid[1] + 1) if parts % n == 0)


OFFERS: Mapping[str, Offer] = {
    **dict.fromkeys(named("max_pool2d avg_pool2d"), pool),
    **dict.fromkeys(named("adaptive_avg_pool2d adaptive_max_pool2d"), global_pool),
    **dict.fromkeys(named("upsample_nearest2d upsample_bilinear2d"), upsample),
    **dict.fromkeys(named("split chunk slice"), slices),
    **dict.fromkeys(named("cat"), concat),
}
