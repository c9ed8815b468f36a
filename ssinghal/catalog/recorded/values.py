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
from ssinghal.catalog.recorded.tensors import fields_of, read_memory, read_tensor
from ssinghal.catalog.recorded.texts import read_text
from ssinghal.errors import InvalidCase, cut

_TENSOR_KEYS = {"logical_shape", "original_shape", "tensor_spec", "tensor_layout", "storage_type"}
_TRACKED = ("tensor", "device", "tuple", "dict", "enum", "torch", "unknown")
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
        if key in _TRACKED:
            return _of_tracker(key, only, operands, depth)
        if key == "Tensor":
            return read_tensor(fields_of(only))
    if "object" in value:
        return _tracked_object(value, operands, depth)
    if kind == "ttnn.Tensor" or (
        _TENSOR_KEYS & value.keys() and ("shape" in value or _TENSOR_KEYS & value.keys() - {"storage"})
    ):
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
        return read_memory(fields_of(inner))
    if isinstance(inner, dict):
        named = {name: item for name, item in value.items() if name in inner}  # what TTNN's JSON has by a number alone
        return Setting(kind, {name: read_value(item, operands, depth - 1) for name, item in {**inner, **named}.items()})
    return Setting(kind, {"": read_value(inner, operands, depth - 1)})
