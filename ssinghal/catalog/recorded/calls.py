"""A call of TTNN as a recording has it, in one form for all kinds of recordings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ssinghal.core.memory_config import MemoryRequest
from ssinghal.core.tensors import DType, Layout, Shape, format_shape

DEPTH = 12  # of lists and objects within an argument


@dataclass(frozen=True)
class RecordedTensor:
    """A tensor of a call. ``memory``: None on the host; exact where it is sharded."""

    shape: Shape
    dtype: DType
    layout: Layout
    memory: MemoryRequest | None = None

    def __str__(self) -> str:
        return f"{format_shape(self.shape)} {self.dtype} {self.layout} {self.memory or 'on the host'}"


@dataclass(frozen=True)
class Member:
    """A member of an enumeration of TTNN: ``DataType``, ``BFLOAT16``. ``kind`` is empty where it is not recorded."""

    kind: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind}.{self.name}".lstrip(".")


@dataclass(frozen=True)
class Setting:
    """An object of TTNN, as a program config, by the names of its class and fields."""

    kind: str
    fields: Mapping[str, Any]

    def __str__(self) -> str:
        return f"{self.kind}({', '.join(f'{name}={shown(value)}' for name, value in self.fields.items())})"


@dataclass(frozen=True)
class TorchTensor:
    """A tensor of torch, which is on the host."""

    shape: tuple[int, ...]
    dtype: str


@dataclass(frozen=True)
class Unread:
    """An argument of which only a text is recorded."""

    text: str

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class OpenDevice:
    """The device of a call."""


Value = Any  # None, bool, int, float, str, list, dict, slice, MemoryRequest, or one of the above


@dataclass(frozen=True)
class RecordedCall:
    """One call, or ``count`` equal ones.

    ``function``: TTNN's dotted name. ``has_arguments``: False where only the tensors are recorded, in ``args``.
    ``results``: empty where they are not recorded. ``module``: who made the call. ``where``: its place in the recording.
    ``l1_small_bytes``: of each core's region on the device that it ran on, if that is recorded.
    """

    function: str
    args: Sequence[Value] = ()
    kwargs: Mapping[str, Value] = field(default_factory=dict)
    results: tuple[RecordedTensor, ...] = ()
    has_arguments: bool = True
    model: str = ""
    module: str = ""
    where: str = ""
    count: int = 1
    l1_small_bytes: int | None = None

    def tensors(self) -> Iterator[RecordedTensor]:
        """Yields the tensors among the arguments."""
        yield from tensors_in([*self.args, *self.kwargs.values()])


def tensors_in(value: Value) -> Iterator[RecordedTensor]:
    """Yields the tensors in nested lists."""
    if isinstance(value, RecordedTensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from tensors_in(item)


def shown(value: Value) -> str:
    """Returns an argument as a message has it."""
    if isinstance(value, list):
        return f"[{', '.join(map(shown, value))}]"
    return str(value)


@dataclass(frozen=True)
class Fault:
    """A line that is not what its format says, and why."""

    where: str
    what: str

    def __str__(self) -> str:
        return f"{self.where}: {self.what}"


@dataclass(frozen=True)
class Refused:
    """A call that cannot become a case, and why. ``count``: how often the recording has it."""

    where: str
    function: str
    reason: str
    count: int = 1

    def __str__(self) -> str:
        return f"{self.where}: {self.function}: {self.reason}"


Entry = RecordedCall | Refused | Fault
