"""What users write for a memory config, as ``l1:block@8x8``, and what is chosen where they leave something out.

Grammar: ``BUFFER``, or ``BUFFER:KIND[@CORES][:SHAPE][:ORIENTATION][:DISTRIBUTION]`` with

    CORES         8x8 (columns x rows from core 0,0), 12 (that many cores in the order of the orientation), or ranges such as
                  0,0-7,2+0,3-2,3
    SHAPE         the shard in elements, 576x480; of ``nd`` shards one size for each of the last dims
    ORIENTATION   row_major, which is the default, or col_major
    DISTRIBUTION  of ``nd`` shards: round_robin_1d, which is the default, grid_2d or contiguous_1d
"""

from __future__ import annotations

import math
import re
from dataclasses import replace

from ssinghal.core.memory_config import (
    BufferType,
    CoreRange,
    Cores,
    Distribution,
    MemoryConfig,
    MemoryRequest,
    Orientation,
    Sharding,
    ShardKind,
    ShardSpec,
)
from ssinghal.core.shard_cut import check_edges, check_rank, shards_of
from ssinghal.core.tensors import MAX_DIM, TILE_EDGE, TILE_ELEMENTS, Board, Layout, TensorSpec, ceil_div, round_up
from ssinghal.errors import InvalidCase, unknown

FORM = "dram, l1, or as l1:height, l1:block@8x8, l1:width@8x6:576x480, dram:width@12"
CORES_FORM = "8x8, a number of cores, or ranges such as 0,0-7,2+0,3-2,3"
MAX_RANGES = 1024  # no board has as many cores
_GRID = re.compile(r"([1-9]\d{0,4})x([1-9]\d{0,4})", re.ASCII)
_COUNT = re.compile(r"[1-9]\d{0,6}", re.ASCII)
_RANGE = re.compile(r"(\d{1,4}),(\d{1,4})(?:-(\d{1,4}),(\d{1,4}))?", re.ASCII)
_SHAPE = re.compile(r"[1-9]\d{0,9}(?:x[1-9]\d{0,9})*", re.ASCII)


def memory_request(text: str, what: str = "memory") -> MemoryRequest:
    """Reads a memory as users write it.

    Args:
        text: The memory, such as ``dram``, ``l1:height`` or ``l1:block@8x8:64x32``.
        what: What the memory is for, in the text of an error.

    Returns:
        The buffer, and how the tensor is to be sharded in it.

    Raises:
        InvalidCase: It is no memory; the text states what was expected.

    Examples:
        >>> str(memory_request("l1:height@0,0-7,3:32x64:row_major"))  # as short as can be
        'l1:height@8x4:32x64'
    """
    name, *parts = text.split(":") if isinstance(text, str) else [str(text)]
    buffers = {b.value: b for b in (BufferType.DRAM, BufferType.L1)}
    if name == BufferType.L1_SMALL:
        raise InvalidCase(f"{what} {text}: l1_small is for TTNN's own tables, and no call requests it; expected {FORM}")
    if name not in buffers:
        raise InvalidCase(f"{unknown(what, name, buffers)}; expected {FORM}")
    return MemoryRequest(buffers[name], _sharding(parts, f"{what} {text}") if parts else None)


def _sharding(parts: list[str], where: str) -> Sharding:
    kind, at, cores = parts[0].partition("@")
    kinds = {k.value: k for k in ShardKind}
    if not kind:
        raise InvalidCase(f"{where}: no shard kind; expected {FORM}")
    if kind in list(Orientation) or kind in list(Distribution):
        raise InvalidCase(f"{where}: {kind} is for shards, and this memory is interleaved; expected {FORM}")
    if kind not in kinds:
        raise InvalidCase(f"{where}: {unknown('shard kind', kind, kinds)}")
    shape, orientation, distribution = None, Orientation.ROW_MAJOR, Distribution.ROUND_ROBIN_1D
    seen: set[str] = set()
    for part in parts[1:]:
        if part in list(Orientation):
            orientation, what = Orientation(part), "orientation"
        elif part in list(Distribution):
            distribution, what = Distribution(part), "distribution"
        elif _SHAPE.fullmatch(part):
            shape, what = tuple(map(int, part.split("x"))), "shape"
        else:
            known = (*Orientation, *Distribution)
            raise InvalidCase(f"{where}: {part!r} is no shard shape as 32x64, and none of {', '.join(known)}")
        if what in seen:
            raise InvalidCase(f"{where}: has two of {what}")
        seen.add(what)
    sharding = Sharding(kinds[kind], _cores(cores, where) if at else None, shape, orientation, distribution)
    _check(sharding, where)
    return sharding


def _check(sharding: Sharding, where: str) -> None:
    """Raises InvalidCase for a request that no tensor and no board can satisfy."""
    shape = sharding.shape
    if shape is not None and max(shape) > MAX_DIM:
        raise InvalidCase(f"{where}: shard size {max(shape)} is more than {MAX_DIM}")
    if sharding.kind is not ShardKind.ND:
        if shape is not None and len(shape) != 2:
            raise InvalidCase(f"{where}: expected a shard of height x width")
        if sharding.distribution is not Distribution.ROUND_ROBIN_1D:
            raise InvalidCase(f"{where}: {sharding.distribution} is for nd shards")
    elif shape is None:
        raise InvalidCase(f"{where}: nd shards need a shape, as l1:nd@8x8:1x64x64")
    grids = sharding.kind is ShardKind.BLOCK or sharding.distribution is Distribution.GRID_2D
    if grids and isinstance(sharding.cores, Cores) and not sharding.cores.is_rectangle:
        raise InvalidCase(f"{where}: a grid of shards needs one rectangle of cores, as 8x8 or 1,0-4,3")


def core_ranges(text: str, where: str) -> Cores:
    """Reads cores as users write them: 8x8, or ranges such as 0,0-7,2+0,3-2,3. InvalidCase for anything else."""
    cores = _cores(text, where)
    if isinstance(cores, int):
        raise InvalidCase(f"{where}: cores {text!r}; expected 8x8, or ranges such as 0,0-7,2+0,3-2,3")
    return cores


def _cores(text: str, where: str) -> Cores | int:
    if match := _GRID.fullmatch(text):
        return Cores.grid(int(match[1]), int(match[2]))
    if _COUNT.fullmatch(text):
        return int(text)
    parts = text.split("+")
    if len(parts) > MAX_RANGES:
        raise InvalidCase(f"{where}: {len(parts)} core ranges; expected at most {MAX_RANGES}")
    ranges: list[CoreRange] = []
    for match in map(_RANGE.fullmatch, parts):
        if match is None:
            raise InvalidCase(f"{where}: cores {text!r}; expected {CORES_FORM}")
        left, top = int(match[1]), int(match[2])
        ranges.append(((left, top), (int(match[3] or left), int(match[4] or top))))
    try:
        return Cores(tuple(ranges))
    except InvalidCase as error:
        raise InvalidCase(f"{where}: {error}") from None


def _grid_of(buffer: BufferType, board: Board) -> tuple[int, int]:
    return (board.dram.num_banks, 1) if buffer is BufferType.DRAM else board.grid


def check_cores(buffer: BufferType, sharding: Sharding, board: Board) -> None:
    """Raises InvalidCase for cores that no tensor can be sharded over on this board."""
    columns, rows = _grid_of(buffer, board)
    cores = sharding.cores
    if isinstance(cores, int):
        if cores > columns * rows:
            raise InvalidCase(f"{cores} cores for shards; {board.name} has {columns * rows} for {buffer}")
    elif cores is not None and sharding.kind is ShardKind.BLOCK and (cores.bounds[0] > columns or cores.bounds[1] > rows):
        # TTNN places them if the cores that get one exist, but its programs then run on the complete grid.
        reach, limit = "{}x{}".format(*cores.bounds), f"{columns}x{rows}"
        raise InvalidCase(f"shards {buffer}:{sharding}: they reach over {reach} cores; {board.name} has {limit} for {buffer}")


def complete(spec: TensorSpec, buffer: BufferType, sharding: Sharding, board: Board) -> TensorSpec:
    """Returns ``spec`` in ``buffer``, sharded as requested.

    Where the request names cores but no shape, the shard is that of ``ttnn.create_sharded_memory_config`` on these cores; where
    that does not divide the tensor evenly, it is rounded up to tiles, or in row-major layout to the alignment of the memory.
    Where it names no cores, the shards are the smallest over all cores of the board, and the grid has those that get one; in
    DRAM it has all banks, as DRAM-sharded matrix products need it.

    Raises:
        InvalidCase: No such shards hold the tensor, or the board lacks the cores.
    """
    columns, rows = grid = _grid_of(buffer, board)
    check_cores(buffer, sharding, board)
    plain = replace(spec, memory=MemoryConfig(buffer))
    cores = sharding.cores
    if isinstance(cores, int):
        cores = Cores.first(cores, grid, sharding.orientation)
    if sharding.kind is ShardKind.ND and sharding.shape is None:
        raise InvalidCase(f"shards {buffer}:{sharding}: nd shards need a shape, as l1:nd@8x8:1x64x64")
    shape = sharding.shape or _chosen_shape(plain, sharding, cores or Cores.grid(columns, rows), board)
    if cores is None:
        cores = Cores.grid(columns, rows) if buffer is BufferType.DRAM else _used_cores(plain, sharding, shape, grid)
    shard = ShardSpec(sharding.kind, shape, cores, sharding.orientation, sharding.distribution)
    completed = replace(spec, memory=MemoryConfig(buffer, shard))
    completed.num_banks(board)  # raises InvalidCase where the board lacks the cores
    return completed


def _chosen_shape(plain: TensorSpec, sharding: Sharding, cores: Cores, board: Board) -> tuple[int, int]:
    height, width = plain.padded_2d
    down, across = _lines(sharding, cores)
    if plain.layout is Layout.TILE:
        return _cut_edge(height, down, TILE_EDGE), _cut_edge(width, across, TILE_EDGE)
    region = board.region(plain.memory.buffer)
    aligned = max(1, region.alignment_bytes * TILE_ELEMENTS // plain.dtype.tile_bytes)
    return _cut_edge(height, down, 1), _cut_edge(width, across, 1 if width % across == 0 else aligned)


def _cut_edge(size: int, parts: int, step: int) -> int:
    return round_up(ceil_div(size, parts), step) if parts > 1 else size


def _lines(sharding: Sharding, cores: Cores) -> tuple[int, int]:
    """Returns the number of shards down and across that ``cores`` can take."""
    if sharding.kind is ShardKind.HEIGHT:
        return cores.count, 1
    if sharding.kind is ShardKind.WIDTH:
        return 1, cores.count
    columns, rows = cores.box
    return (rows, columns) if sharding.orientation is Orientation.ROW_MAJOR else (columns, rows)


def _used_cores(plain: TensorSpec, sharding: Sharding, shape: tuple[int, ...], grid: tuple[int, int]) -> Cores:
    """Returns the cores that get a shard, all of the board if there are more shards than that."""
    columns, rows = grid
    every = ShardSpec(sharding.kind, shape, Cores.grid(*grid), sharding.orientation)
    where = check_edges(plain.layout, plain.memory.buffer, every)
    check_rank(where, every, plain.padded_shape)
    counts = shards_of(plain.padded_shape, shape)
    if sharding.kind is ShardKind.BLOCK or sharding.distribution is Distribution.GRID_2D:
        *_, down, across = counts
        wide, high = (across, down) if sharding.orientation is Orientation.ROW_MAJOR else (down, across)
        return Cores.grid(min(wide, columns), min(high, rows))
    return Cores.first(min(math.prod(counts), columns * rows), grid, sharding.orientation)
