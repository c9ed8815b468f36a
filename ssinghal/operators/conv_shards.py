"""How ``ttnn.conv2d`` shards a map: what is chosen where a case requests only a shard kind for the image of a convolution.

The rules are TTNN's own, for a map that comes interleaved with this kind as ``Conv2dConfig.shard_layout``. They were found by
comparison with the shards that conv2d makes on a virtual device; ``tests/operators/test_conv_shards.py`` repeats it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from ssinghal.core.memory_config import Cores, Orientation, Sharding, ShardKind
from ssinghal.core.tensors import TILE_EDGE, Layout, TensorSpec, ceil_div, round_up

ROW_CHANNELS = 8  # conv2d pads the channels of row-major maps to this, 16 B of bfloat16


@dataclass(frozen=True)
class ShardedConvolution:
    """What decides the shards of a convolution's map.

    Attributes:
        channels: Channels of the map.
        out_channels: Channels of the result.
        out_pixels: Pixels of the result, of all maps of the batch.
        is_matmul: Whether TTNN runs it as a matrix product: a kernel of 1 without stride, padding and dilation.
        block_rows: Rows of the block that a core computes at a time (``act_block_h``), 0 where TTNN chooses them.
    """

    channels: int
    out_channels: int
    out_pixels: int
    is_matmul: bool
    block_rows: int = 0

    def choose(self, sharding: Sharding, image: TensorSpec, grid: tuple[int, int]) -> Sharding:
        """Returns the shards of ``image``, which is flat, on a board of ``grid`` columns x rows."""
        columns, rows = grid
        is_matmul = self.is_matmul and sharding.kind is not ShardKind.WIDTH
        tiled = image.layout is Layout.TILE
        unit = TILE_EDGE if tiled or self.is_matmul or sharding.kind is ShardKind.WIDTH else ROW_CHANNELS
        units = ceil_div(self.channels, unit)
        if sharding.kind is ShardKind.WIDTH:
            down, across = 1, _parts(units, columns * rows)
            cores = Cores.first(across, grid, sharding.orientation)
        elif sharding.kind is ShardKind.HEIGHT:
            down, across = self._rows_of_cores(columns * rows), 1
            cores = Cores.first(down, grid, sharding.orientation)
        else:
            turned = sharding.orientation is Orientation.COL_MAJOR
            most_down, most_across = (columns, rows) if turned else (rows, columns)
            down = self._rows_of_cores(most_down)
            out_units = ceil_div(self.out_channels, TILE_EDGE)
            across = _common_parts(units, out_units, most_across) if is_matmul else _parts(units, most_across)
            cores = Cores.grid(*((down, across) if turned else (across, down)))
        height, _ = image.padded_2d
        if sharding.kind is not ShardKind.WIDTH:
            height = round_up(height, down * TILE_EDGE) // down
        return replace(sharding, cores=cores, shape=(height, round_up(units, across) // across * unit))

    def _rows_of_cores(self, most: int) -> int:
        return _parts(ceil_div(self.out_pixels, TILE_EDGE), most, max(1, self.block_rows // TILE_EDGE))


def _parts(size: int, most: int, multiple: int = 1) -> int:
    """Returns the largest number of parts, each a multiple of ``multiple``, of which none would be padding alone."""
    for parts in range(most, 1, -1):
        padded = round_up(size, parts * multiple)
        if padded - size < padded // parts:
            return parts
    return 1


def _common_parts(size: int, other: int, most: int) -> int:
    """Returns the largest number of parts that divides both sizes."""
    return next(parts for parts in range(most, 0, -1) if size % parts == 0 and other % parts == 0)
