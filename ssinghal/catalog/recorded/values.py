"""Reads arguments of recorded calls: JSON of TTNN's operation tracer, of the model tracer, and of ``tracker.arguments``."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

from ssinghal.catalog.recorded.calls import (
    DEPTH,
    Member,
    OpenDevice,
    RecordedTensor,
    Setting,
    TorchTensor,
    Unread,
    Value,
)
from ssinghal.catalog.recorded.texts import core_ranges, read_text
from ssinghal.core.memory_config import BufferType, Cores, MemoryRequest, Orientation, Sharding, ShardKind
from ssinghal.core.parsing import dtype_named
from ssinghal.core.tensors import Layout, check_shape
from ssinghal.errors import InvalidCase, cut

_MEMORY_LAYOUTS = {0: "INTERLEAVED", 1: "SINGLE_BANK", 2: "HEIGHT_SHARDED", 3: "WIDTH_SHARDED", 4: "BLOCK_SHARDED", 5: "ND_SHARDED"}
_BUFFERS = {0: "DRAM", 1: "L1", 2: "SYSTEM_MEMORY", 3: "L1_SMALL", 4: "TRACE"}
_ORIENTATIONS = {0: "ROW_MAJOR", 1: "COL_MAJOR"}
_TENSOR_KEYS = {"logical_shape", "original_shape", "tensor_spec", "tensor_layout", "storage_type", "storage"}
_KERNEL_CONFIG = "DeviceComputeKernelConfig"
_SHOWN = 80


def read_value(value: Any, operands: Sequence[RecordedTensor] = (), depth: int = DEPTH) -> Value:
    """Returns an argument in the form of ``recorded.calls``. ``operands``: those that a profile refers to by number.

    Raises:
        InvalidCase: A tensor or a memory config in it cannot be read.
    """
    if not depth:
        return Unread(cut(str(value), _SHOWN))
    if value is None or isinstance(value, (bool, int)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else Unread(str(value))
    if isinstance(value, str):
        return _of_text(value, operands, depth)
    if isinstance(value, list):
        return [read_value(item, operands, depth - 1) for item in value]
    if isinstance(value, dict):
        return _of_object(value, operands, depth)
    return Unread(cut(str(value), _SHOWN))


def _of_text(text: str, operands: Sequence[RecordedTensor], depth: int) -> Value:
    read = read_text(text)
    if isinstance(read, (Setting, dict, list)):
        return _formed(read, operands, depth)
    if isinstance(read, Unread):
        return text if text.isidentifier() else read
    return read


def _formed(read: Value, operands: Sequence[RecordedTensor], depth: int) -> Value:
    """Returns what a text stated, with the tensors and memory configs in it."""
    if isinstance(read, list):
        return [_formed(item, operands, depth) for item in read]
    if isinstance(read, dict):
        return _of_object(read, operands, depth)
    if not isinstance(read, Setting):
        return read
    if read.kind == "Tensor":
        return read_tensor(read.fields)
    if read.kind == "MemoryConfig":
        return read_memory(read.fields)
    if read.kind in ("MeshDevice", "Device", "IDevice"):
        return OpenDevice()
    return Setting(read.kind, {name: _formed(value, operands, depth) for name, value in read.fields.items()})


def _of_object(value: Mapping[str, Any], operands: Sequence[RecordedTensor], depth: int) -> Value:
    kind = value.get("type")
    if len(value) == 1:
        ((key, only),) = value.items()
        known = _of_tracker(key, only, operands, depth)
        if known is not value:
            return known
        if key == "Tensor" and isinstance(only, (dict, Setting)):
            return read_tensor(_fields(only))
    if "object" in value:
        return _tracked_object(value, operands, depth)
    if kind == "ttnn.Tensor" or (_TENSOR_KEYS & value.keys() and ("shape" in value or _TENSOR_KEYS & value.keys() - {"storage"})):
        return read_tensor(value)
    if kind == "torch.Tensor":
        shape = value.get("shape")
        return TorchTensor(tuple(shape) if isinstance(shape, list) else (), str(value.get("dtype")).removeprefix("torch."))
    if "memory_layout" in value and "buffer_type" in value:
        return read_memory(value)
    if kind == "MeshDevice":
        return OpenDevice()
    if isinstance(kind, str) and ("repr" in value or "value" in value):
        text = str(value.get("repr", value.get("value")))
        read = _of_text(text, operands, depth)
        return Setting(kind, read) if isinstance(read, dict) else read
    if kind is None and "math_fidelity" in value:
        kind = _KERNEL_CONFIG
    fields = {str(name): read_value(item, operands, depth - 1) for name, item in value.items() if name != "type"}
    return Setting(kind, fields) if isinstance(kind, str) else fields


def _of_tracker(key: str, only: Any, operands: Sequence[RecordedTensor], depth: int) -> Value:
    """Returns what ``tracker.arguments`` wrote as an object of one key."""
    if key == "tensor":
        if type(only) is not int or not 0 <= only < len(operands):
            raise InvalidCase(f"operand {only!r} of {len(operands)}")
        return operands[only]
    if key == "device":
        return OpenDevice()
    if key == "tuple" and isinstance(only, list):
        return [read_value(item, operands, depth - 1) for item in only]
    if key == "dict" and isinstance(only, dict):
        return {name: read_value(item, operands, depth - 1) for name, item in only.items()}
    if key == "enum" and isinstance(only, list) and len(only) == 3:
        return Member(str(only[1]), str(only[2]))
    if key == "torch" and isinstance(only, list) and len(only) == 2 and isinstance(only[0], list):
        return TorchTensor(tuple(only[0]), str(only[1]))
    if key == "unknown":
        read = read_text(str(only))
        return read if isinstance(read, slice) or read is Ellipsis else Unread(str(only))
    return {key: read_value(only, operands, depth - 1)}


def _tracked_object(value: Mapping[str, Any], operands: Sequence[RecordedTensor], depth: int) -> Value:
    known_as = value["object"]
    kind = str(known_as[-1]) if isinstance(known_as, list) and known_as else str(known_as)
    if "json" in value:
        try:
            inner = json.loads(value["json"])
        except (TypeError, ValueError, RecursionError) as error:
            raise InvalidCase(f"{kind}: not JSON: {error}") from error
    else:
        inner = value.get("fields")
    if kind == "MemoryConfig":
        return read_memory(_fields(inner))
    if isinstance(inner, dict):
        return Setting(kind, {name: read_value(item, operands, depth - 1) for name, item in inner.items()})
    return Setting(kind, {"": read_value(inner, operands, depth - 1)})


def _fields(value: Any) -> Mapping[str, Any]:
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
    layout = _inner(spec, "tensor_layout")
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
        None if "HOST" in storage.upper() else read_memory(_fields(memory)),
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
    return None if spec is None else _fields(spec)


def _sharded(buffer: BufferType, kind: ShardKind, sizes: Any, spec: Mapping[str, Any]) -> MemoryRequest:
    grid = spec.get("grid")
    ranges = grid if isinstance(grid, list) and all(isinstance(one, tuple) for one in grid) else core_ranges(_ordered(grid))
    if not ranges:
        raise InvalidCase(f"core ranges {cut(str(grid), _SHOWN)}: expected first and last cores")
    orientation = Orientation(_named(spec.get("orientation", 0), _ORIENTATIONS).lower())
    return MemoryRequest(buffer, Sharding(kind, Cores(tuple(ranges)), _sizes(sizes), orientation))


def _ordered(grid: Any) -> str:
    """Returns core ranges as text with the start of each before its end."""
    if isinstance(grid, list) and all(isinstance(one, dict) and {"start", "end"} <= one.keys() for one in grid):
        return " ".join(json.dumps({"start": _xy(one["start"]), "end": _xy(one["end"])}) for one in grid)
    return json.dumps(grid) if isinstance(grid, (list, dict)) else str(grid)


def _xy(core: Any) -> dict[str, Any]:
    return {"x": core.get("x"), "y": core.get("y")} if isinstance(core, dict) else {}
