"""Program configs of TTNN's matrix products, as a port writes them: which cores compute which tiles, and in which blocks.

Three kinds: over a grid, which takes both operands in blocks (``MatmulMultiCoreReuseMultiCast``); over rows of the result, each
core with all columns (the 1D kind that multicasts the weight); over its columns, each core with all rows (the 1D kind that
multicasts the activation).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ssinghal.core.tensors import ceil_div
from ssinghal.plan.placement import frozen

DST_TILES = 8  # that a core's destination registers hold, in bfloat16
MAX_BLOCK_WIDTH = 8  # tiles of the inner dim that are multiplied at a time: more only takes memory
Settings = tuple[tuple[str, Any], ...]


@dataclass(frozen=True)
class Product:
    """A matrix product, in tiles: [``rows``, ``inner``] x [``inner``, ``columns``]."""

    rows: int
    inner: int
    columns: int


@dataclass(frozen=True)
class Blocking:
    """How a product is computed.

    Attributes:
        inner_parts: Into how many parts the shards of the left operand cut the inner dim; 1 if it is interleaved.
        sharded_result: Whether the result is in the shards that the cores compute; then a core holds its part at once.
        tiles: That the blocks of both operands, and of an interleaved result, may take of a core's L1.
    """

    inner_parts: int = 1
    sharded_result: bool = False
    tiles: int = 96


def over_grid(product: Product, grid: tuple[int, int], blocking: Blocking) -> Settings:
    """Returns the config for ``grid`` columns x rows of cores: rows of the result go down, its columns across."""
    across, down = grid
    per_core = ceil_div(product.rows, down), ceil_div(product.columns, across)
    return _settings("MatmulMultiCoreReuseMultiCastProgramConfig", product, grid, per_core, blocking, transpose_mcast=False)


def over_rows(product: Product, cores: int, grid: tuple[int, int], blocking: Blocking) -> Settings:
    """Returns the config in which each of ``cores`` computes some rows of the result."""
    per_core = ceil_div(product.rows, cores), product.columns
    return _settings(_ONE_DIM, product, grid, per_core, blocking, fuse_batch=True, mcast_in0=False)


def over_columns(product: Product, cores: int, grid: tuple[int, int], blocking: Blocking) -> Settings:
    """Returns the config in which each of ``cores`` computes some columns of the result."""
    per_core = product.rows, ceil_div(product.columns, cores)
    return _settings(_ONE_DIM, product, grid, per_core, blocking, fuse_batch=True, mcast_in0=True)


_ONE_DIM = "MatmulMultiCoreReuseMultiCast1DProgramConfig"


def _settings(
    kind: str, product: Product, grid: tuple[int, int], per_core: tuple[int, int], blocking: Blocking, **others: Any
) -> Settings:
    rows, columns = per_core
    block_rows, block_columns = per_core if blocking.sharded_result else _result_block(rows, columns, blocking.tiles)
    width = _block_width(product.inner // blocking.inner_parts, block_rows + block_columns, blocking.tiles)
    high, wide = subblock(block_rows, block_columns, whole_rows=blocking.sharded_result)
    config = {
        "type": kind,
        "compute_with_storage_grid_size": list(grid),
        "in0_block_w": width,
        "out_subblock_h": high,
        "out_subblock_w": wide,
        "per_core_M": rows,
        "per_core_N": columns,
        **others,
    }
    if (block_rows, block_columns) != per_core:
        config |= {"out_block_h": block_rows, "out_block_w": block_columns}
    return (("program_config", frozen(config)),)


def _block_width(inner: int, edge: int, tiles: int) -> int:
    """Returns the widest part of the inner dim whose blocks, twice for each operand, take at most ``tiles``; at least one tile.

    ``edge``: the rows of the left block and the columns of the right one.
    """
    widths = [n for n in range(1, min(inner, MAX_BLOCK_WIDTH) + 1) if inner % n == 0 and 2 * n * edge <= tiles]
    return max(widths, default=1)


def _result_block(rows: int, columns: int, tiles: int) -> tuple[int, int]:
    """Returns the largest block of the result, with all columns if these alone fit, that takes at most ``tiles``."""
    wide = max(n for n in range(1, columns + 1) if columns % n == 0 and (n <= tiles or n == 1))
    high = max(n for n in range(1, rows + 1) if rows % n == 0 and (n * wide <= tiles or n == 1))
    return high, wide


def subblock(rows: int, columns: int, *, whole_rows: bool) -> tuple[int, int]:
    """Returns height and width, in tiles, of the part of a block that is in the destination registers at a time.

    The largest one that divides the block. ``whole_rows``: a sharded result needs complete rows of the block, or single ones.

    >>> subblock(7, 9, whole_rows=True), subblock(7, 4, whole_rows=True), subblock(4, 4, whole_rows=False)
    ((1, 3), (1, 4), (2, 4))
    """
    sizes = [
        (high, wide)
        for high in range(1, min(rows, DST_TILES) + 1)
        for wide in range(1, min(columns, DST_TILES) + 1)
        if high * wide <= DST_TILES and rows % high == 0 and columns % wide == 0
        if not whole_rows or high == 1 or wide == columns
    ]
    return max(sizes, key=lambda size: (size[0] * size[1], size[1]))
