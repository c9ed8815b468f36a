"""What users write for a memory config, as ``l1:block@8x8``, and what is chosen where they leave something out.

Grammar: ``BUFFER``, or ``BUFFER:KIND[@CORES][:SHAPE][:col_major]`` with

    CORES   8x8 (columns x rows from core 0,0), 12 (that many cores, row by row), or ranges such as 0,0-7,2+0,3-2,3
    SHAPE   the shard in elements, 576x480; of ``nd`` shards one size for each of the last dims
"""

from __future__ import annotations

import math
import re
from dataclasses import replace

from ssinghal.core.memory_config import (
    BufferType,
    CoreRange,
    Cores,
    MemoryConfig,
    MemoryRequest,
    Orientation,
    Sharding,
    ShardKind,
    ShardSpec,
)
from ssinghal.core.tensors import TILE_EDGE, TILE_ELEMENTS, Board, Layout, TensorSpec, ceil_div, round_up
from ssinghal.errors import InvalidCase, unknown

FORM = "dram, l1, or as l1:height, l1:block@8x8, l1:width@8x6:576x480, dram:width@12"
_GRID = re.compile(r"([1-9]\d{0,4})x([1-9]\d{0,4})")
_COUNT = re.compile(r"[1-9]\d{0,6}")
_RANGE = re.compile(r"(\d{1,4}),(\d{1,4})(?:-(\d{1,4}),(\d{1,4}))?")
_SHAPE = re.compile(r"[1-9]\d{0,9}(?:x[1-9]\d{0,9})*")


def memory_request(text: str, what: str = "memory") -> MemoryRequest:
    """Reads a memory as users write it.

    Raises:
        InvalidCase: It is none; the text states what was expected.

    >>> memory_request("l1:height")
    MemoryRequest(buffer=<BufferType.L1: 'l1'>, sharding=Sharding(kind=<ShardKind.HEIGHT: 'height'>, cores=None, shape=None, \
orientation=<Orientation.ROW_MAJOR: 'row_major'>))
    """
    name, *parts = text.split(":") if isinstance(text, str) else [str(text)]
    buffers = {b.value: b for b in (BufferType.DRAM, BufferType.L1)}
    if name not in buffers:
        raise InvalidCase(f"{unknown(what, name, buffers)}; expected {FORM}")
    if not parts:
        return MemoryRequest(buffers[name])
    kind, at, cores = parts[0].partition("@")
    kinds = {k.value: k for k in ShardKind}
    if kind not in kinds:
        raise InvalidCase(f"{what} {text}: {unknown('shard kind', kind, kinds)}")
    turned = parts[1:] and parts[-1] in list(Orientation)
    shapes = parts[1:-1] if turned else parts[1:]
    if len(shapes) > 1 or not all(map(_SHAPE.fullmatch, shapes)):
        raise InvalidCase(f"{what} {text}: expected {FORM}")
    shape = tuple(map(int, shapes[0].split("x"))) if shapes else None
    sharding = Sharding(
        kinds[kind],
        _cores(cores, f"{what} {text}") if at else None,
        shape,
        Orientation(parts[-1]) if turned else Orientation.ROW_MAJOR,
    )
    check_sharding(sharding, f"{what} {text}")
    return MemoryRequest(buffers[name], sharding)


def check_sharding(sharding: Sharding, where: str) -> None:
    """Raises InvalidCase for a request that no tensor and no board can satisfy."""
    if sharding.kind is ShardKind.ND:
        if sharding.shape is None:
            raise InvalidCase(f"{where}: nd shards need a shape, as l1:nd@8x8:1x64x64")
    elif sharding.shape is not None and len(sharding.shape) != 2:
        raise InvalidCase(f"{where}: expected a shard of height x width")
    if sharding.kind is ShardKind.BLOCK and isinstance(sharding.cores, Cores) and not sharding.cores.is_rectangle:
        raise InvalidCase(f"{where}: block shards need a rectangle of cores")


def _cores(text: str, where: str) -> Cores | int:
    if match := _GRID.fullmatch(text):
        return Cores.grid(int(match[1]), int(match[2]))
    if _COUNT.fullmatch(text):
        return int(text)
    matches = [_RANGE.fullmatch(part) for part in text.split("+")]
    ranges: list[CoreRange] = []
    for match in matches:
        if match is None:
            raise InvalidCase(f"{where}: cores {text!r}; expected 8x8, a number of cores, or ranges such as 0,0-7,2+0,3-2,3")
        left, top = int(match[1]), int(match[2])
        ranges.append(((left, top), (int(match[3] or left), int(match[4] or top))))
    return Cores(tuple(ranges))


def complete(spec: TensorSpec, buffer: BufferType, sharding: Sharding, board: Board) -> TensorSpec:
    """Returns ``spec`` in ``buffer``, sharded as requested.

    Where the request names a grid but no shape, the shard is that of ``ttnn.create_sharded_memory_config`` on this grid,
    rounded up to complete tiles, or in row-major layout to the alignment of L1. Where it names no grid, the shards are the
    smallest over all cores of the board, and the grid has the cores that get one.

    Raises:
        InvalidCase: No such shards hold the tensor, or the board lacks the cores.
    """
    columns, rows = (board.dram.num_banks, 1) if buffer is BufferType.DRAM else board.grid
    plain = replace(spec, memory=MemoryConfig(buffer))
    cores = sharding.cores
    if isinstance(cores, int):
        if cores > columns * rows:
            raise InvalidCase(f"{cores} cores for shards; {board.name} has {columns * rows} for {buffer}")
        cores = Cores.first(cores, columns)
    shape = sharding.shape or _chosen_shape(plain, sharding, cores or Cores.grid(columns, rows), board)
    chosen = cores or _used_cores(plain, sharding, shape, columns, rows)
    completed = replace(spec, memory=MemoryConfig(buffer, ShardSpec(sharding.kind, shape, chosen, sharding.orientation)))
    completed.num_banks(board)  # raises InvalidCase where the board lacks the cores
    return completed


def _chosen_shape(plain: TensorSpec, sharding: Sharding, cores: Cores, board: Board) -> tuple[int, int]:
    height, width = plain.padded_2d
    down, across = _lines(sharding, cores)
    if plain.layout is Layout.TILE:
        tall, wide = TILE_EDGE, TILE_EDGE
    else:
        region = board.region(plain.memory.buffer)
        tall, wide = 1, max(1, region.alignment_bytes * TILE_ELEMENTS // plain.dtype.tile_bytes)
    return (
        round_up(ceil_div(height, down), tall) if down > 1 else height,
        round_up(ceil_div(width, across), wide) if across > 1 else width,
    )


def _lines(sharding: Sharding, cores: Cores) -> tuple[int, int]:
    """Returns the number of shards down and across that ``cores`` can take."""
    if sharding.kind is ShardKind.HEIGHT:
        return cores.count, 1
    if sharding.kind is ShardKind.WIDTH:
        return 1, cores.count
    columns, rows = cores.box
    return (rows, columns) if sharding.orientation is Orientation.ROW_MAJOR else (columns, rows)


def _used_cores(plain: TensorSpec, sharding: Sharding, shape: tuple[int, ...], columns: int, rows: int) -> Cores:
    if sharding.kind is ShardKind.ND:
        sizes = (*(1,) * (len(plain.padded_shape) - len(shape)), *shape)
        shards = math.prod(ceil_div(size, edge) for size, edge in zip(plain.padded_shape, sizes, strict=True))
        return Cores.first(min(shards, columns * rows), columns)
    height, width = plain.padded_2d
    down, across = ceil_div(height, shape[0]), ceil_div(width, shape[1])
    if sharding.kind is ShardKind.BLOCK:
        return Cores.grid(*((across, down) if sharding.orientation is Orientation.ROW_MAJOR else (down, across)))
    return Cores.first(down * across, columns)
