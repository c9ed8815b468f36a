"""Reads tensors and memory configs in all the forms that tracers of TTNN write."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from ssinghal.catalog.recorded.calls import Member, RecordedTensor, Setting
from ssinghal.catalog.recorded.texts import core_ranges, read_text
from ssinghal.core.memory_config import BufferType, Cores, Distribution, MemoryRequest, Orientation, Sharding, ShardKind
from ssinghal.core.parsing import dtype_named, one_of
from ssinghal.core.tensors import Layout, check_shape
from ssinghal.errors import InvalidCase, cut

# TTNN's numbers of the members of its enumerations.
_MEMORY_LAYOUTS = {
    0: "INTERLEAVED",
    1: "SINGLE_BANK",
    2: "HEIGHT_SHARDED",
    3: "WIDTH_SHARDED",
    4: "BLOCK_SHARDED",
    5: "ND_SHARDED",
}
_BUFFERS = {0: "DRAM", 1: "L1", 2: "SYSTEM_MEMORY", 3: "L1_SMALL", 4: "TRACE"}
_ORIENTATIONS = {0: "ROW_MAJOR", 1: "COL_MAJOR"}
_DISTRIBUTIONS = {0: "ROUND_ROBIN_1D", 1: "GRID_2D", 2: "CONTIGUOUS_1D"}
_SHOWN = 80


def fields_of(value: Any) -> Mapping[str, Any]:
    """Returns the fields of an object, which may come as a text. InvalidCase if it has none."""
    if isinstance(value, str):
        value = read_text(value)
    if isinstance(value, Setting):
        return value.fields
    if not isinstance(value, dict):
        raise InvalidCase(f"{cut(str(value), _SHOWN)}: expected an object with named fields")
    return value


def read_tensor(fields: Mapping[str, Any]) -> RecordedTensor:
    """Returns a tensor from any of the forms that tracers write: its spec flat, or in ``tensor_spec`` and ``tensor_layout``.

    Raises:
        InvalidCase: Shape, dtype or layout is missing or unknown.
    """
    spec = _inner(fields, "tensor_spec")
    layout = _inner({**fields, **spec}, "tensor_layout")
    page = _inner(_inner(layout, "page_config"), "config", keep_text=True)
    known = {**page, **layout, **spec, **fields}
    shape = next((known[key] for key in ("logical_shape", "shape", "original_shape") if known.get(key) is not None), None)
    memory = known.get("memory_config")
    if memory is None:
        memory = next((_inner(known, key).get("memory_config") for key in ("storage", "storage_type") if key in known), None)
    storage = str(known.get("storage_type", known.get("storage", "")))
    return RecordedTensor(
        check_shape(_sizes(shape)),
        dtype_named(_last(known.get("dtype", known.get("original_dtype"))).lower()),
        _layout(known, page),
        None if "HOST" in storage.upper() else read_memory(fields_of(memory)),
    )


def _inner(fields: Mapping[str, Any], name: str, keep_text: bool = False) -> Mapping[str, Any]:
    """Returns the fields of an object within another one; none where it is absent."""
    value = fields.get(name)
    if isinstance(value, str):
        value = read_text(value)
    if isinstance(value, Setting):
        return {**value.fields, **({"page": value.kind} if keep_text else {})}
    return value if isinstance(value, dict) else {}


def _layout(known: Mapping[str, Any], page: Mapping[str, Any]) -> Layout:
    name = _last(known.get("layout")).lower() if known.get("layout") is not None else str(known.get("page", "")).lower()
    if name.startswith("tile"):
        return Layout.TILE
    if name.startswith(("row_major", "rowmajor")):
        return Layout.ROW_MAJOR
    raise InvalidCase(f"a tensor of layout {name or 'unknown'!r}; expected tile or row_major")


def _sizes(value: Any) -> tuple[int, ...]:
    if isinstance(value, str):
        value = read_text(value)
    if isinstance(value, dict):
        value = next((item for key, item in value.items() if key in ("value", "shape", "dims")), value)
    if isinstance(value, Setting):
        value = next(iter(value.fields.values()), None)
    if not isinstance(value, (list, tuple)) or not all(type(size) is int for size in value):
        raise InvalidCase(f"shape {cut(str(value), _SHOWN)}: expected a list of sizes")
    return tuple(value)


def _last(value: Any) -> str:
    """Returns the name of a member of an enumeration, however it is written."""
    if isinstance(value, Member):
        return value.name
    return str(value).replace("::", ".").rpartition(".")[2].strip()


def _named(value: Any, names: Mapping[int, str]) -> str:
    return names.get(value, str(value)) if type(value) is int else _last(value).upper()


def read_memory(fields: Mapping[str, Any]) -> MemoryRequest:
    """Returns a memory config; without cores and shape where the call left them to TTNN.

    Raises:
        InvalidCase: It is in none of the forms that TTNN writes, or in a memory that tensors are not put in.
    """
    buffer, kind = (
        _named(fields.get("buffer_type"), _BUFFERS),
        _named(fields.get("memory_layout"), _MEMORY_LAYOUTS),
    )
    if buffer not in ("DRAM", "L1"):
        raise InvalidCase(f"a tensor in {buffer.lower()}; expected dram or l1")
    if kind == "INTERLEAVED":
        return MemoryRequest(BufferType(buffer.lower()))
    shard, box = _optional(fields.get("shard_spec")), _optional(fields.get("nd_shard_spec"))
    kinds = {f"{one.name}_SHARDED": one for one in ShardKind}
    if kind not in kinds:
        raise InvalidCase(f"memory layout {kind}: expected one of INTERLEAVED, {', '.join(kinds)}")
    if shard is None and box is not None:
        sizes = box.get("shard_shape")
        if not isinstance(sizes, (list, tuple)):
            raise InvalidCase("the shape of its nd shards is not recorded")
        return _sharded(BufferType(buffer.lower()), ShardKind.ND, sizes, box)
    if shard is None:
        if kinds[kind] is ShardKind.ND:
            raise InvalidCase("nd shards without a shape")
        return MemoryRequest(BufferType(buffer.lower()), Sharding(kinds[kind]))
    return _sharded(BufferType(buffer.lower()), kinds[kind], shard.get("shape"), shard)


def _optional(spec: Any) -> Mapping[str, Any] | None:
    if isinstance(spec, str):
        spec = read_text(spec)
    return None if spec is None else fields_of(spec)


def _sharded(buffer: BufferType, kind: ShardKind, sizes: Any, spec: Mapping[str, Any]) -> MemoryRequest:
    grid = spec.get("grid")
    ranges = grid if isinstance(grid, list) and all(isinstance(one, tuple) for one in grid) else core_ranges(_ordered(grid))
    if not ranges:
        raise InvalidCase(f"core ranges {cut(str(grid), _SHOWN)}: expected first and last cores")
    orientation = one_of(Orientation, "orientation", _named(spec.get("orientation", 0), _ORIENTATIONS).lower())
    spread = one_of(Distribution, "distribution", _named(spec.get("shard_distribution_strategy", 0), _DISTRIBUTIONS).lower())
    return MemoryRequest(buffer, Sharding(kind, Cores(tuple(ranges)), _sizes(sizes), orientation, spread))


def _ordered(grid: Any) -> str:
    """Returns core ranges as text with the start of each before its end."""
    if isinstance(grid, list) and all(isinstance(one, dict) and {"start", "end"} <= one.keys() for one in grid):
        return " ".join(json.dumps({"start": _xy(one["start"]), "end": _xy(one["end"])}, default=str) for one in grid)
    return json.dumps(grid, default=str) if isinstance(grid, (list, dict)) else str(grid)


def _xy(core: Any) -> dict[str, Any]:
    return {"x": core.get("x"), "y": core.get("y")} if isinstance(core, dict) else {}
