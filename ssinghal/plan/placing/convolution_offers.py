"""Offers the ways of calling convolutions over rows and maps.

A call in L1 shards its map by rows (height), by channels (width) or by both (block). It takes shards of that kind as they are,
and moves others itself; the result keeps the kind and, unless it has fewer rows, the cores. What decides whether a call fits
are its program buffers: the blocks of activations that it gathers, as high as a core's share of the result unless
``act_block_h_override`` makes them lower, and the block of weights.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace

from ssinghal.core.memory_config import MemoryConfig, ShardKind
from ssinghal.core.tensors import TILE_EDGE, Board, round_up
from ssinghal.operators import named
from ssinghal.plan.convolutions import VOLUME, map_convolution
from ssinghal.plan.lowering import PlannedCall
from ssinghal.plan.placement import DRAM, L1, StepChoice, frozen
from ssinghal.plan.placing.offers import Offer, Operands, interleaved

FULL_L1 = frozen({"type": "Conv2dSliceConfig", "slice_type": "L1Full"})
HEIGHT, BLOCK, WIDTH = ShardKind.HEIGHT, ShardKind.BLOCK, ShardKind.WIDTH
LAYOUTS = {HEIGHT: "HEIGHT_SHARDED", BLOCK: "BLOCK_SHARDED", WIDTH: "WIDTH_SHARDED"}
BYTES = 2  # of an element of bfloat16; block floats take half, so that a little more is offered than fits
LOW = 2 * TILE_EDGE  # rows to a core that need no lower blocks
LARGE = 4  # a map that takes more than this part of a core's L1, and is read again later, may have to leave it for the call
SHARE = 16  # blocks that take more than this part of a core's L1 are offered lower too


class _Maps:
    """The numbers of a convolution that decide what is worth a try."""

    def __init__(self, planned: PlannedCall, rows: int, board: Board) -> None:
        image, weight = planned.case.inputs[0], planned.case.inputs[1]
        transposed, groups = planned.attrs["transposed"], planned.attrs["groups"]
        self.channels = image[1]
        self.out = weight[1] * groups if transposed else weight[0]
        self.kernel = math.prod(weight[2:])
        self.row_positions = weight[-1]
        self.rows = rows
        self.board = board
        self.cores = board.grid[0] * board.grid[1]

    def kinds(self) -> list[ShardKind]:
        """Returns how the map may be cut: in ways whose weights fit, and that use at least half as many cores as another."""
        tiles = math.ceil(self.rows / TILE_EDGE)
        across = math.ceil(min(self.channels, self.out) / TILE_EDGE)
        used = {HEIGHT: min(self.cores, tiles), BLOCK: min(self.board.grid[1], tiles) * min(self.board.grid[0], across)}
        if self.kernel > 1 and self.row_positions * self.channels * self.out > self.board.l1.bank_bytes:
            del used[HEIGHT]  # each core would hold the weights of all channels
        if self.rows * TILE_EDGE * BYTES * SHARE <= self.board.l1.bank_bytes:
            used[WIDTH] = min(self.cores, across)  # each core holds all rows
        return [kind for kind in used if 2 * used[kind] >= max(used.values())]

    def block_heights(self, kind: ShardKind) -> list[int]:
        """Returns lower blocks of activations where these may be what does not fit: of a few tiles, and of one."""
        cores = {HEIGHT: self.cores, BLOCK: self.board.grid[1], WIDTH: 1}[kind]
        tiles = math.ceil(self.rows / TILE_EDGE / cores)
        across = {HEIGHT: 1, BLOCK: self.board.grid[0], WIDTH: self.cores}[kind]
        row = round_up(self.row_positions * math.ceil(self.channels / across), TILE_EDGE) * BYTES * 2  # gathered, and in tiles
        if self.kernel == 1 or tiles * TILE_EDGE <= LOW or tiles * TILE_EDGE * row * SHARE <= self.board.l1.bank_bytes:
            return []
        divisors = [
            n for n in range(2, tiles // 2 + 1) if tiles % n == 0 and n * TILE_EDGE * row * 4 <= self.board.l1.bank_bytes
        ]
        return [TILE_EDGE * n for n in [*divisors[-1:], 1]]


def convolution(planned: PlannedCall, operands: Operands, board: Board) -> Iterator[StepChoice]:
    """Sliced through DRAM; or complete in L1, with shards of the operand's kind or another."""
    if 0 not in operands:
        return
    if len(planned.case.inputs[0]) == VOLUME:
        yield from interleaved(planned, operands, board)
        return
    shape = operands[0].form.shape
    memory = operands[0].form.memory
    maps = _Maps(planned, max(math.prod(shape[:-1]), _rows(planned)), board)
    own = memory.shard.kind if memory.shard is not None else None
    kinds = maps.kinds()
    if own in kinds:
        yield from _in_l1(planned, maps, memory, own)
        yield replace(_full(planned, memory, own), after=DRAM)
        yield _full(planned, memory, own, reshard_if_not_optimal=True)
    if own in LAYOUTS:
        tiled = not any(size % TILE_EDGE for size in memory.shard.shape) if memory.shard is not None else True
        for kind in kinds:
            if kind is not own and tiled:
                yield from _in_l1(planned, maps, memory, kind, reshard_if_not_optimal=True)
            elif kind is not own:  # rows in shards, as pools leave them, that no tiles can take
                yield from _in_l1(planned, maps, L1, kind)
        if operands[0].form.l1_bytes(board) * LARGE > board.l1.bank_bytes:
            for kind in kinds:
                yield from _in_l1(planned, maps, DRAM, kind)
        return
    for kind in kinds:
        yield from _in_l1(planned, maps, memory, kind)
        if memory == DRAM and operands[0].form.layout is not map_convolution(planned).layout:
            yield _full(planned, L1, kind)  # its layout is converted there


def _rows(planned: PlannedCall) -> int:
    image = planned.case.inputs[0]
    return image[0] * math.prod(image[2:])


def _in_l1(planned: PlannedCall, maps: _Maps, image: MemoryConfig, kind: ShardKind, **config: int) -> Iterator[StepChoice]:
    yield _full(planned, image, kind, **config)
    for height in maps.block_heights(kind):
        yield _full(planned, image, kind, **config, act_block_h_override=height)


def _full(planned: PlannedCall, image: MemoryConfig, kind: ShardKind, **config: int) -> StepChoice:
    """Returns the choice of a call in L1. ``config``: fields of Conv2dConfig."""
    slices = "dram_slice_config" if planned.attrs["transposed"] else "slice_config"
    settings = (("conv_config", frozen({"type": "Conv2dConfig", "shard_layout": LAYOUTS[kind], **config})), (slices, FULL_L1))
    return StepChoice(moves=((0, image),), memory=None, settings=settings)


OFFERS: Mapping[str, Offer] = dict.fromkeys(named("convolution conv_transpose2d"), convolution)
