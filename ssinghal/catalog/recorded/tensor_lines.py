"""Reads recordings that have the tensors of each call and no other argument: JSON lines with ``op``, ``in`` and ``out``.

A tensor is ``[shape, dtype, layout, buffer, memory layout, [shard shape, cores] or null, address]``, or ``[…, "HOST"]``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ssinghal.catalog.recorded.calls import Entry, Fault, RecordedCall, RecordedTensor, Refused
from ssinghal.catalog.recorded.files import lines, parsed
from ssinghal.core.memory_config import BufferType, Cores, MemoryRequest, Sharding, ShardKind
from ssinghal.core.parsing import dtype_named
from ssinghal.core.tensors import Layout, TensorSpec, ceil_div, check_shape
from ssinghal.errors import CatalogError, InvalidCase

_HOST = "HOST"
_KINDS = {f"{kind.name}_SHARDED": kind for kind in (ShardKind.HEIGHT, ShardKind.WIDTH, ShardKind.BLOCK)}


def is_line(value: Any) -> bool:
    """Whether a JSON value is a call with its tensors."""
    return isinstance(value, dict) and {"op", "in", "out"} <= value.keys()


def entries(text: str, file: Path) -> Iterator[Entry]:
    """Yields the call of every line."""
    model = file.name.partition(".")[0]
    for number, line in lines(text):
        where = f"{file}:{number}"
        try:
            yield _entry(parsed(line, file, number), where, model)
        except CatalogError as error:
            yield Fault(where, str(error).partition(": ")[2])
        except (LookupError, TypeError, ValueError) as error:
            yield Fault(where, f"not a complete call with its tensors ({error!r})")


def _entry(value: Any, where: str, model: str) -> Entry:
    if not is_line(value) or not isinstance(value["op"], str):
        return Fault(where, "expected a call with op, in and out")
    function = value["op"] if value["op"].startswith("ttnn.") else f"ttnn.{value['op']}"
    try:
        operands, results = ([_tensor(item) for item in value[side]] for side in ("in", "out"))
    except InvalidCase as error:
        return Refused(where, function, str(error))
    return RecordedCall(function, operands, {}, tuple(results), False, model, _module(value), where)


def _module(value: Mapping[str, Any]) -> str:
    at = value.get("at")
    return f"{at[0]}:{at[1]}" if isinstance(at, list) and len(at) > 1 and at[0] else ""


def _tensor(item: Any) -> RecordedTensor:
    shape, dtype, layout, *placed = item
    if not all(type(size) is int for size in shape):
        raise TypeError(f"shape {shape!r}")
    if not isinstance(dtype, str) or not isinstance(layout, str):
        raise TypeError(f"dtype {dtype!r}, layout {layout!r}")
    known = check_shape(tuple(shape)), dtype_named(dtype.lower()), Layout(layout.lower())
    if placed[0] == _HOST:
        return RecordedTensor(*known)
    buffer, memory_layout, shard = placed[:3]
    if buffer not in ("DRAM", "L1"):
        raise InvalidCase(f"a tensor in {buffer}; expected DRAM or L1")
    memory = MemoryRequest(BufferType(buffer.lower()))
    if memory_layout != "INTERLEAVED":
        if memory_layout not in _KINDS or shard is None:
            raise InvalidCase(f"shards of {memory_layout}: expected one of {', '.join(_KINDS)} with shape and cores")
        spec = TensorSpec(*known, memory.interleaved)
        memory = MemoryRequest(memory.buffer, _sharding(_KINDS[memory_layout], spec, tuple(shard[0]), shard[1]))
    return RecordedTensor(*known, memory)


def _sharding(kind: ShardKind, spec: TensorSpec, shape: tuple[int, int], cores: int) -> Sharding:
    """Returns shards whose number of cores alone is recorded: those of a block fill a grid row by row."""
    if kind is not ShardKind.BLOCK:
        return Sharding(kind, cores, shape)
    height, width = spec.padded_2d
    down, across = ceil_div(height, shape[0]), ceil_div(width, shape[1])
    if down * across != cores:
        raise InvalidCase(f"{down} x {across} shards on {cores} cores: which ones is not recorded")
    return Sharding(kind, Cores.grid(across, down), shape)
