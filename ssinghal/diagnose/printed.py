"""Reads memory configs and tensors as TTNN prints them, and as lines of Python make them.

MemoryConfig(memory_layout=TensorMemoryLayout::HEIGHT_SHARDED,buffer_type=BufferType::L1,shard_spec=ShardSpec{grid=…, …},…)
Tensor(storage=DeviceStorage(),tensor_spec=TensorSpec(logical_shape=Shape([64, 256]),tensor_layout=TensorLayout(dtype=…,…)))
ttnn.create_sharded_memory_config((1, 1, 4096, 64), core_grid=ttnn.CoreGrid(y=8, x=8), strategy=ttnn.ShardStrategy.HEIGHT)
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ssinghal.catalog.recorded.tensors import fields_of, read_memory, read_tensor
from ssinghal.core.memory_config import BufferType, Cores, Distribution, MemoryRequest, Orientation, Sharding, ShardKind
from ssinghal.core.sharding import core_ranges, memory_request
from ssinghal.core.tensors import TensorSpec
from ssinghal.diagnose.model import MlirValue
from ssinghal.diagnose.parse.brackets import bracketed
from ssinghal.errors import InvalidCase, cut
from ssinghal.operators.settings.notation import read
from ssinghal.operators.settings.table import Field
from ssinghal.operators.settings.values import canonical

_CONSTANT = re.compile(r"(?:ttnn\.)?(DRAM|L1)_(?:(HEIGHT|WIDTH|BLOCK)_SHARDED_)?MEMORY_CONFIG")
_CORES = Field(("CoreRangeSet",), True, ())
_GRID = Field(("CoreGrid",), True, ())
_BUFFERS = ("L1", "DRAM")
_SPECS = {
    "ShardSpec": ("grid", "shard_shape", "orientation"),
    "NdShardSpec": ("shard_shape", "grid", "orientation", "shard_distribution_strategy"),
}
_KINDS = {f"{kind.upper()}_SHARDED": kind for kind in ShardKind}
_ORIENTATIONS = {
    "ROW_MAJOR": Orientation.ROW_MAJOR,
    "COL_MAJOR": Orientation.COL_MAJOR,
    "COLUMN_MAJOR": Orientation.COL_MAJOR,
}
_RANGE = re.compile(r"(\{\"start\":\{[^{}]{1,40}\},\"end\":\{[^{}]{1,40}\})\}?")
_TENSOR = re.compile(r"\bTensor\((?=storage=)")


def memory_in(text: str) -> MemoryRequest:
    """Returns the memory that a text writes: of shards as much as it states.

    Raises:
        InvalidCase: it is no memory config in a known form.
    """
    text = text.strip()
    if constant := _CONSTANT.fullmatch(text):
        sharding = Sharding(ShardKind(constant[2].lower())) if constant[2] else None
        return MemoryRequest(BufferType(constant[1].lower()), sharding)
    if "memory_layout=TensorMemoryLayout::" in text:
        return read_memory(fields_of(text))
    value = read(text)
    if not isinstance(value, dict) or value.get("type") not in ("MemoryConfig", "create_sharded_memory_config"):
        raise InvalidCase("not a memory config with its numbers; expected ttnn.MemoryConfig(…), or as l1:height@8x8:64x64")
    return _made(value) if value["type"] == "MemoryConfig" else _chosen(value)


def with_closed_ranges(text: str) -> str:
    """Returns ``text`` with the bracket that TTNN forgets after a range of cores."""
    return _RANGE.sub(r"\1}", text)


def tensors_in(text: str) -> tuple[MlirValue, ...]:
    """Returns the tensors that a text prints with their storage, in order; none where one of them is incomplete."""
    values = []
    text = with_closed_ranges(text)
    for match in _TENSOR.finditer(text):
        inner, _ = bracketed(text, match.end() - 1)
        value = _tensor(f"Tensor({inner})")
        if value is None:
            return ()
        values.append(value)
    return tuple(values)


def _checked(buffer: BufferType, sharding: Sharding) -> MemoryRequest:
    return memory_request(str(MemoryRequest(buffer, sharding)))


def _member(value: Any) -> str:
    return str(value["name"]).replace("::", ".").rpartition(".")[2] if isinstance(value, Mapping) and "name" in value else ""


def _made(value: Mapping[str, Any]) -> MemoryRequest:
    """Returns the memory of ``ttnn.MemoryConfig(layout, buffer, spec)`` or ``(buffer, nd_spec)``, by position or by name."""
    args = list(value.get("args", ()))
    if args and _member(args[0]) in _BUFFERS:  # the constructor without a layout
        args.insert(0, {"name": "ND_SHARDED"})
    parts = dict(zip(("memory_layout", "buffer_type", "shard_spec"), args, strict=False), **value)
    layout, buffer = _member(parts.get("memory_layout", {"name": "INTERLEAVED"})), _member(parts.get("buffer_type"))
    if buffer not in _BUFFERS:
        raise InvalidCase("a memory config without a buffer type")
    memory, spec = BufferType(buffer.lower()), parts.get("nd_shard_spec", parts.get("shard_spec"))
    if layout == "INTERLEAVED" and spec is None:
        return MemoryRequest(memory)
    kind = ShardKind.ND if _type(spec) == "NdShardSpec" else _KINDS.get(layout)
    if kind is None:
        raise InvalidCase(f"no layout of a memory config: {_shown(parts.get('memory_layout'))}")
    if spec is None:
        return _checked(memory, Sharding(kind))
    if _type(spec) not in _SPECS:
        raise InvalidCase(f"no shard spec: {_shown(spec)}; expected ttnn.ShardSpec(…) with its numbers")
    shard = dict(zip(_SPECS[_type(spec)], spec.get("args", ()), strict=False), **spec)
    ranges = canonical(shard.get("grid"), _CORES, "grid")
    shape = shard.get("shard_shape")
    if isinstance(shape, Mapping) and shape.get("type") == "Shape":
        shape = shape["args"][0]
    if not isinstance(shape, list) or not all(isinstance(size, int) for size in shape):
        raise InvalidCase(f"no sizes of a shard: {_shown(shape)}; expected numbers, as [64, 32]")
    orientation = shard.get("orientation", shard.get("shard_orientation"))
    spread = _distribution(shard.get("shard_distribution_strategy"))
    return _checked(memory, Sharding(kind, _ranges(ranges), tuple(shape), _orientation(orientation), spread))


def _type(value: Any) -> str:
    return str(value.get("type", "")) if isinstance(value, Mapping) else ""


def _chosen(value: Mapping[str, Any]) -> MemoryRequest:
    """Returns the memory of ``ttnn.create_sharded_memory_config(shape, core_grid, strategy, …)``, which chooses the shard."""
    names = ("shape", "core_grid", "strategy", "orientation", "use_height_and_width_as_shard_shape")
    parts = dict(zip(names, value.get("args", ()), strict=False), **value)
    strategy = _member(parts.get("strategy"))
    if strategy not in ("HEIGHT", "WIDTH", "BLOCK"):
        raise InvalidCase("a sharded memory config without a strategy")
    grid = parts.get("core_grid")
    if isinstance(grid, Mapping) and grid.get("type") == "CoreGrid":
        columns, rows = canonical(grid, _GRID, "core_grid")
        cores = Cores.grid(columns, rows)
    else:
        cores = _ranges(canonical(grid, _CORES, "core_grid"))
    shape = parts.get("shape")
    orientation = _orientation(parts.get("orientation"))
    own: tuple[int, ...] | None = None
    if parts.get("use_height_and_width_as_shard_shape", False) is not False:
        if not (isinstance(shape, list) and all(isinstance(size, int) for size in shape[-2:])):
            raise InvalidCase(f"no sizes of a shard: {_shown(shape)}; expected numbers, as [64, 32]")
        own = tuple(shape[-2:] if orientation is Orientation.ROW_MAJOR else shape[:-3:-1])  # TTNN swaps them
    return _checked(BufferType.L1, Sharding(ShardKind(strategy.lower()), cores, own, orientation))


def _ranges(text: Any) -> Cores:
    """Returns the cores of a setting's canonical text."""
    return core_ranges(text, "cores")


def _orientation(value: Any) -> Orientation:
    if value is None:
        return Orientation.ROW_MAJOR
    if _member(value) not in _ORIENTATIONS:
        raise InvalidCase(f"no orientation of shards: {_shown(value)}; expected ttnn.ShardOrientation.ROW_MAJOR or COL_MAJOR")
    return _ORIENTATIONS[_member(value)]


def _distribution(value: Any) -> Distribution:
    if value is None:
        return Distribution.ROUND_ROBIN_1D
    if (name := _member(value).lower()) not in list(Distribution):
        raise InvalidCase(f"no distribution of shards: {_shown(value)}; expected a member of ttnn.ShardDistributionStrategy")
    return Distribution(name)


def _shown(value: Any) -> str:
    return cut(str(value["name"]) if isinstance(value, Mapping) and "name" in value else str(value), 80)


def _tensor(text: str) -> MlirValue | None:
    """Returns a tensor on the device; None where shape, dtype, layout or memory is missing."""
    try:
        tensor = read_tensor(fields_of(text))
        if tensor.memory is None:
            return None
        spec = TensorSpec(tensor.shape, tensor.dtype, tensor.layout, tensor.memory.interleaved)
    except InvalidCase:
        return None
    return MlirValue("", spec, known_layout=True, sharding=tensor.memory.sharding)
