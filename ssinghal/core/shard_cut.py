"""How TTNN cuts a tensor into shards, and which cores get them. Checked against TTNN by ``benchmarks/sharded_specs.py``."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ssinghal.core.elements import MAX_DIM, TILE_EDGE, Layout, ceil_div
from ssinghal.core.memory_config import BufferType, Distribution, MemoryConfig, Orientation, ShardKind, ShardSpec
from ssinghal.errors import InvalidCase


@dataclass(frozen=True)
class ShardCut:
    """A padded tensor cut into shards.

    Attributes:
        shards: How many shards there are.
        banks: How many cores or banks hold one.
        values_per_bank: Elements that the fullest of them holds: those of its shards, of which it has several only of ``nd``
            shards.
        bounds: Columns and rows of the rectangle from core (0, 0) that the board must have.
    """

    shards: int
    banks: int
    values_per_bank: int
    bounds: tuple[int, int]


def cut(padded_shape: tuple[int, ...], layout: Layout, buffer: BufferType, shard: ShardSpec) -> ShardCut:
    """Returns how a tensor of ``padded_shape`` is cut.

    Raises:
        InvalidCase: TTNN rejects these shards for this tensor on every board; the text has the rule.
    """
    where = check_edges(layout, buffer, shard)
    check_rank(where, shard, padded_shape)
    folded = _folded(padded_shape, len(shard.shape))
    if shard.kind is ShardKind.HEIGHT and shard.shape[1] != folded[1]:
        raise InvalidCase(f"{where}: a height shard must be as wide as the padded tensor, {folded[1]}")
    if shard.kind is ShardKind.WIDTH and shard.shape[0] != folded[0]:
        raise InvalidCase(f"{where}: a width shard must be as high as the padded tensor, {folded[0]}")
    if shard.kind is not ShardKind.ND and layout is Layout.ROW_MAJOR and len(padded_shape) == 1 and shard.shape[0] != 1:
        raise InvalidCase(f"{where}: a row-major tensor of rank 1 has shards of height 1")
    counts = shards_of(padded_shape, shard.shape)
    if shard.kind is ShardKind.BLOCK or shard.distribution is Distribution.GRID_2D:
        bounds = _grid_bounds(counts, where, shard)
    else:
        bounds = shard.cores.bounds
    if buffer is BufferType.DRAM and bounds[1] > 1:
        raise InvalidCase(f"{where}: DRAM banks form one row; expected cores in row 0 only")
    shards = math.prod(counts)
    if shard.kind in (ShardKind.HEIGHT, ShardKind.WIDTH) and shards > shard.cores.count:
        raise InvalidCase(f"{where}: the tensor has {shards:,} shards, but there are {shard.cores.count:,} cores for them")
    held = ceil_div(shards, shard.cores.count)
    return ShardCut(shards, min(shards, shard.cores.count), held * math.prod(shard.shape), bounds)


def check_edges(layout: Layout, buffer: BufferType, shard: ShardSpec) -> str:
    """Checks what TTNN requires of a shard, whatever the tensor; raises InvalidCase. Returns how an error names the shards."""
    where = f"shards {MemoryConfig(buffer, shard)}"
    if not shard.shape or min(shard.shape) < 1 or max(shard.shape) > MAX_DIM:
        raise InvalidCase(f"{where}: sizes must be at least 1, and at most {MAX_DIM}")
    if shard.kind is not ShardKind.ND and len(shard.shape) != 2:
        raise InvalidCase(f"{where}: expected a shard of height x width")
    if layout is Layout.TILE and (len(shard.shape) < 2 or any(edge % TILE_EDGE for edge in shard.shape[-2:])):
        raise InvalidCase(f"{where}: in tile layout both edges must be multiples of {TILE_EDGE}")
    if shard.distribution is not Distribution.ROUND_ROBIN_1D and shard.kind is not ShardKind.ND:
        raise InvalidCase(f"{where}: {shard.distribution} is for nd shards")
    return where


def check_rank(where: str, shard: ShardSpec, padded_shape: tuple[int, ...]) -> None:
    """Raises InvalidCase where an ND shard has more dims than the tensor."""
    if shard.kind is ShardKind.ND and len(shard.shape) > len(padded_shape):
        dims = f"{len(shard.shape)} dims, the tensor {len(padded_shape)}"
        raise InvalidCase(f"{where}: the shard has {dims}; expected no more than the tensor")


def _folded(shape: tuple[int, ...], rank: int) -> tuple[int, ...]:
    """Returns the shape with as many dims as a shard of ``rank`` has, at least 2: the leading ones folded into one."""
    kept = max(rank, 2) - 1
    return math.prod(shape[:-kept]), *shape[-kept:]


def shards_of(padded_shape: tuple[int, ...], shape: tuple[int, ...]) -> list[int]:
    """Returns how many shards of ``shape`` there are along each of its dims, at least two: TTNN takes a row for 1 x row."""
    edges = shape if len(shape) > 1 else (1, *shape)
    return [ceil_div(size, edge) for size, edge in zip(_folded(padded_shape, len(shape)), edges, strict=True)]


def _grid_bounds(counts: list[int], where: str, shard: ShardSpec) -> tuple[int, int]:
    """Returns the bounds of the cores that get a shard of a grid of shards; TTNN asks for no others."""
    if len(counts) > 2:
        raise InvalidCase(f"{where}: {Distribution.GRID_2D} is for shards of 1 or 2 dims")
    if not shard.cores.is_rectangle:
        raise InvalidCase(f"{where}: {_grid_name(shard)} needs one rectangle of cores")
    down, across = counts
    if shard.orientation is Orientation.COL_MAJOR:
        down, across = across, down
    (columns, rows), (width, height) = shard.cores.bounds, shard.cores.box
    if across > width or down > height:
        turned = ", turned by col_major" if shard.orientation is Orientation.COL_MAJOR else ""
        raise InvalidCase(
            f"{where}: {counts[0]:,} shards down and {counts[1]:,} across need {across:,}x{down:,} cores{turned}; "
            f"the grid has {width}x{height}"
        )
    return columns - width + across, rows - height + down


def _grid_name(shard: ShardSpec) -> str:
    return "a block-sharded tensor" if shard.kind is ShardKind.BLOCK else str(Distribution.GRID_2D)
