"""Records what the run of a plan does with tensors: each call of TTNN, and each moment at which a buffer is freed.

The run holds a ``Handle`` in the place of each tensor. TTNN frees a buffer with its last tensor, and Python the tensor with
its last reference, so the end of a handle is where a program must free the buffer.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from ssinghal.core.tensors import TensorSpec
from ssinghal.device.call_recorder import Transcript
from ssinghal.device.code_writer import RecordedCall
from ssinghal.device.session import Session

UNWRITTEN = "?"  # begins the text of a value that no Python is known for
PLAIN = ("Shape", "SmallVector")  # kinds of TTNN that are lists of numbers


@dataclass(frozen=True)
class Freed:
    """The buffer of this tensor is freed; that of all tensors which share it."""

    number: int


@dataclass(frozen=True)
class TensorFacts:
    """A tensor of the transcript. ``dtype``, ``layout`` and ``memory`` are Python; memory is empty for one on the host."""

    shape: tuple[int, ...]
    dtype: str
    layout: str
    memory: str = ""


Event = RecordedCall | Freed


class Handle:
    """A tensor of the run. Everything that it does not have itself is the tensor's."""

    def __init__(self, tensor: Any, number: int, ended: Callable[[Handle], None]) -> None:
        self.tensor, self.number, self._ended = tensor, number, ended

    def __getattr__(self, name: str) -> Any:
        return getattr(self.tensor, name)

    def __del__(self) -> None:
        self._ended(self)


@dataclass
class Recorder(Transcript):
    """A transcript with handles. ``events``: calls and frees in their order. ``facts``: of each tensor.

    ``tracks``: whether buffers are followed; what only prepares weights is not part of the run.
    """

    events: list[Event] = field(default_factory=list)
    facts: list[TensorFacts] = field(default_factory=list)
    tracks: bool = False
    _sharing: dict[tuple[str, int], list[weakref.ref[Handle]]] = field(default_factory=dict)
    _keys: dict[int, tuple[str, int]] = field(default_factory=dict)

    def is_tensor(self, value: Any) -> bool:
        return isinstance(value, Handle)

    def call(self, name: str, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Makes a call on the tensors of handles, and records it; returns handles."""
        keywords = tuple((key, self._recorded(value)) for key, value in kwargs.items())
        recorded = RecordedCall(name, tuple(map(self._recorded, args)), keywords, ())
        returned = function(*map(_tensors_of, args), **{key: _tensors_of(value) for key, value in kwargs.items()})
        made: list[int] = []
        result = self._handles_of(returned, made)
        if made or any(True for value in (*args, *kwargs.values()) for _ in self._tensors(value)):
            is_list = isinstance(returned, (list, tuple))
            self.events.append(replace(recorded, results=tuple(made), is_list=is_list))
        return result

    def handle(self, tensor: Any) -> Handle:
        """Returns a handle of a tensor that no recorded call returned."""
        return self._new(tensor)

    def _new(self, tensor: Any) -> Handle:
        handle = Handle(tensor, len(self.facts), self._ended)
        on_device = self.module.is_tensor_storage_on_device(tensor)
        memory = self._memory_config(tensor.memory_config()) if on_device else ""
        dtype, layout = self._expression(tensor.dtype), self._expression(tensor.layout)
        self.facts.append(TensorFacts(tuple(tensor.shape), dtype, layout, memory))
        if self.tracks:
            key = (str(tensor.memory_config().buffer_type), int(tensor.buffer_address()))
            self._keys[handle.number] = key
            others = [ref for ref in self._sharing.get(key, []) if (h := ref()) is not None and h.tensor.is_allocated()]
            self._sharing[key] = [*others, weakref.ref(handle)]
        return handle

    def _ended(self, handle: Handle) -> None:
        key = self._keys.pop(handle.number, None)
        if key is None or not self.tracks:
            return
        others = [ref for ref in self._sharing[key] if (h := ref()) is not None and h is not handle]
        self._sharing[key] = others
        if not others and handle.tensor.is_allocated():
            self.events.append(Freed(handle.number))

    def _handles_of(self, value: Any, made: list[int]) -> Any:
        if isinstance(value, self.module.Tensor):
            handle = self._new(value)
            made.append(handle.number)
            return handle
        if type(value) in (list, tuple):
            return type(value)(self._handles_of(item, made) for item in value)
        return value

    def _number(self, tensor: Any) -> int:
        return int(tensor.number)

    def _expression(self, value: Any) -> str:
        kind = type(value).__name__
        if kind in PLAIN:
            return str([int(size) for size in value])
        if kind == "MemoryConfig":
            return self._memory_config(value)
        text = super()._expression(value)
        if text == str(value) and not text.startswith("ttnn.") and value is not self.device:
            return f"{UNWRITTEN}{kind}"
        return text

    def _memory_config(self, config: Any) -> str:
        buffer = f"ttnn.BufferType.{config.buffer_type.name}"
        if not config.is_sharded():
            return "ttnn.DRAM_MEMORY_CONFIG" if buffer.endswith(".DRAM") else "ttnn.L1_MEMORY_CONFIG"
        shard = config.shard_spec
        if shard is None:
            return f"{UNWRITTEN}MemoryConfig"
        ranges = [
            f"ttnn.CoreRange(ttnn.CoreCoord({r.start.x}, {r.start.y}), ttnn.CoreCoord({r.end.x}, {r.end.y}))"
            for r in shard.grid.ranges()
        ]
        orientation = f"ttnn.ShardOrientation.{shard.orientation.name}"
        spec = f"ttnn.ShardSpec(ttnn.CoreRangeSet([{', '.join(ranges)}]), {list(shard.shape)}, {orientation})"
        return f"ttnn.MemoryConfig(ttnn.TensorMemoryLayout.{config.memory_layout.name}, {buffer}, {spec})"


class RecordingSession:
    """A session whose calls of TTNN are recorded; everything else is the session's own."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self.recorder = Recorder(session.ttnn, session.device)
        self.ttnn = self.recorder.ttnn

    def __getattr__(self, name: str) -> Any:
        return getattr(self._session, name)

    def memory_config(self, config: Any, ttnn: Any = None) -> Any:
        return self._session.memory_config(config, ttnn or self.ttnn)

    def empty(self, spec: TensorSpec, ttnn: Any = None, shard_dim: Any = None) -> Any:
        """Allocates a tensor that no call of the run makes: a weight or an input."""
        return self.recorder.handle(self._session.empty(spec))


def _tensors_of(value: Any) -> Any:
    if isinstance(value, Handle):
        return value.tensor
    if type(value) in (list, tuple):
        return type(value)(_tensors_of(item) for item in value)
    return value


__all__ = ["UNWRITTEN", "Event", "Freed", "Handle", "Recorder", "RecordingSession", "TensorFacts"]
