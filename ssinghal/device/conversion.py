"""Layouts, memory configs and specs of tensors as TTNN's objects, and back."""

from __future__ import annotations

from typing import Any

from ssinghal.core.memory_config import BufferType, Cores, Distribution, MemoryConfig, Orientation, ShardKind, ShardSpec
from ssinghal.core.tensors import DType, Layout, TensorSpec


def layout_of(ttnn: Any, layout: Layout) -> Any:
    return ttnn.TILE_LAYOUT if layout is Layout.TILE else ttnn.ROW_MAJOR_LAYOUT


def memory_config(ttnn: Any, config: MemoryConfig) -> Any:
    if config.shard is None:
        return ttnn.DRAM_MEMORY_CONFIG if config.buffer is BufferType.DRAM else ttnn.L1_MEMORY_CONFIG
    layouts = {
        ShardKind.HEIGHT: ttnn.TensorMemoryLayout.HEIGHT_SHARDED,
        ShardKind.WIDTH: ttnn.TensorMemoryLayout.WIDTH_SHARDED,
        ShardKind.BLOCK: ttnn.TensorMemoryLayout.BLOCK_SHARDED,
    }
    ranges = [ttnn.CoreRange(ttnn.CoreCoord(*start), ttnn.CoreCoord(*end)) for start, end in config.shard.cores.ranges]
    cores, buffer = ttnn.CoreRangeSet(ranges), getattr(ttnn.BufferType, config.buffer.name)
    orientation = getattr(ttnn.ShardOrientation, config.shard.orientation.name)
    if config.shard.kind is ShardKind.ND:
        spread = getattr(ttnn.ShardDistributionStrategy, config.shard.distribution.name)
        return ttnn.MemoryConfig(buffer, ttnn.NdShardSpec(list(config.shard.shape), cores, orientation, spread))
    shard = ttnn.ShardSpec(cores, list(config.shard.shape), orientation)
    return ttnn.MemoryConfig(layouts[config.shard.kind], buffer, shard)


def spec_of(ttnn: Any, tensor: Any) -> TensorSpec:
    """Returns the spec of a device tensor, with its shards."""
    is_tiled = tensor.layout == ttnn.TILE_LAYOUT
    return TensorSpec(
        tuple(tensor.shape),
        DType(tensor.dtype.name.lower()),
        Layout.TILE if is_tiled else Layout.ROW_MAJOR,
        _config_of(tensor),
        row_alignment=1 if is_tiled else _row_alignment(tensor),
    )


def _config_of(tensor: Any) -> MemoryConfig:
    """Returns where a device tensor is, with its shards."""
    config = tensor.memory_config()
    buffer = BufferType(config.buffer_type.name.lower())
    if not config.is_sharded():
        return MemoryConfig(buffer)
    shard: Any = config.shard_spec
    nd: Any = getattr(config, "nd_shard_spec", None)
    if shard is None:
        kind, shape, spec, orientation = ShardKind.ND, tuple(nd.shard_shape), nd, nd.orientation
    else:
        kind = ShardKind(config.memory_layout.name.partition("_")[0].lower())
        shape, spec, orientation = tuple(shard.shape), shard, shard.orientation
    distribution = Distribution[nd.shard_distribution_strategy.name] if shard is None else Distribution.ROUND_ROBIN_1D
    ranges = tuple(((r.start.x, r.start.y), (r.end.x, r.end.y)) for r in spec.grid.ranges())
    return MemoryConfig(buffer, ShardSpec(kind, shape, Cores(ranges), Orientation[orientation.name], distribution))


def _row_alignment(tensor: Any) -> int:
    """Returns the elements to which an operator padded the rows of a row-major tensor, 1 where it did not."""
    width, stored = tensor.shape[-1], tensor.padded_shape[-1]
    return int(stored) if stored != width else 1
