"""Models the content of a log: failures, and the TTNN operations that a compiler's runtime named before them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ssinghal.core.memory_config import MemoryRequest, Sharding
from ssinghal.core.tensors import DType, Shape, TensorSpec, TextEnum, format_shape
from ssinghal.core.verdict import Status, Verdict
from ssinghal.errors import InvalidCase


@dataclass(frozen=True)
class MlirValue:
    """An operand or result of an operation: ``%8`` and, where the text gives its type, the tensor on the device.

    ``spec`` has shape and dtype from the tensor type; layout and memory from the layout in that type (``known_layout``), else
    TTNN's usual ones. ``grid``: cores that the layout spreads it over, (columns, rows); None where the text lacks it.
    ``sharding``: of a sharded tensor whose cores are not in the text, so that ``spec`` has no shards: what is known of them.
    """

    name: str
    spec: TensorSpec | None = None
    known_layout: bool = False
    grid: tuple[int, int] | None = None
    sharding: Sharding | None = None

    @property
    def request(self) -> MemoryRequest:
        """Where the tensor is, as a call requests it.

        Raises:
            InvalidCase: it has no type, or it is in shards of a size that the text lacks.
        """
        if self.spec is None:
            raise InvalidCase(f"{self.name}: its type is not in the text")
        shard = self.spec.memory.shard
        sharding = Sharding.of(shard) if shard else self.sharding
        if sharding is not None and sharding.shape is None:
            raise InvalidCase(f"{format_shape(self.spec.shape)} is {sharding.kind} sharded, but its shards are not in the text")
        return MemoryRequest(self.spec.memory.buffer, sharding)


@dataclass(frozen=True)
class Operation:
    """``%9 = "ttnn.to_layout"(%8) <{layout = …}> : (…) -> … loc("…")`` of a runtime's log or an MLIR module.

    ``attributes``: as parsed, numbers and lists of them as such, everything else as text. ``line``: of the file, from 1.
    """

    name: str
    results: tuple[MlirValue, ...] = ()
    operands: tuple[MlirValue, ...] = ()
    attributes: Mapping[str, Any] = field(default_factory=dict)
    location: str = ""
    line: int = 0


@dataclass(frozen=True)
class Module:
    """An MLIR module from a separate file. ``remarks``: what is odd about it."""

    operations: tuple[Operation, ...] = ()
    remarks: tuple[str, ...] = ()

    @property
    def is_ttnn(self) -> bool:
        return any(operation.name.startswith("ttnn.") for operation in self.operations)


@dataclass(frozen=True)
class PythonCall:
    """The innermost line of a traceback that calls TTNN: ``file:line`` and its source text."""

    where: str
    source: str


class FailureKind(TextEnum):
    """What a text about a failure is, as far as it is understood."""

    MEMORY = "memory"  # a memory ran out
    REFUSED = "refused"  # TTNN, or a compiler before it, refuses a placement or an argument: no memory ran out
    SUSPECT = "suspect"  # it looks like a memory failure, but its wording is not known
    CUT = "cut"  # only the start of the message is there
    ECHO = "echo"  # it only reports that another error happened, which the text does not have
    CRASH = "crash"  # native code ended the process
    OTHER = "other"  # anything else


@dataclass(frozen=True)
class PrintedShape:
    """A tensor of which a text prints the shape and perhaps the dtype, on ``line``: an operand, a result, or another one."""

    shape: Shape
    dtype: DType | None = None
    line: int = 0


@dataclass(frozen=True)
class Failure:
    """One error that was raised, or a crash.

    ``verdict``: from ``translate_error`` (``oom`` with its numbers, ``unsupported``, ``error``), or ``crash`` of a process that
    a signal ended, which says nothing about memory.
    ``line``: where its text starts. ``times``: how often the text occurs (a log repeats an error on its way up the stack).
    ``process``: the rank or process that a prefix of the line names, "" where none does. ``processes``: all that failed alike.
    ``operation``: the last one that the same process started before it. ``started``: how many it had started by then.
    ``test``: the pytest node id that the failure belongs to, where the log has it.
    ``functions``: those of TTNN, without ``ttnn.``, that may have been running according to the text, the likeliest first.
    ``mentioned``: those that it only mentions: near the message, or in the name of the test. They may not have run.
    ``shapes``: of tensors, printed near the message, in the text's order.
    ``tensors``: the operands in order, where the text shows all of them; their memory is assumed.
    ``printed``: the operands in order with their memory, where TTNN printed them.
    ``arguments``: those by name that the text shows, as it writes them.
    ``dated``: the month of the log there, "2025-11"; "" where the text lacks it.
    ``boards``: the names of boards and architectures in the text. ``versions``: of TTNN, that it states.
    ``is_cut``: the text has only the start of the message, so what failed is unknown.
    ``is_suspect``: the text looks like a memory failure and is not understood; ``verdict`` has its words alone.
    ``is_echo``: the text only reports that another error happened, and the text does not have that one.
    """

    verdict: Verdict
    line: int
    times: int = 1
    process: str = ""
    operation: Operation | None = None
    started: int = 0
    call: PythonCall | None = None
    test: str = ""
    functions: tuple[str, ...] = ()
    tensors: tuple[TensorSpec, ...] = ()
    printed: tuple[MlirValue, ...] = ()
    arguments: Mapping[str, str] = field(default_factory=dict)
    dated: str = ""
    boards: frozenset[str] = frozenset()
    versions: frozenset[str] = frozenset()
    is_cut: bool = False
    is_suspect: bool = False
    is_echo: bool = False
    processes: tuple[str, ...] = ()
    mentioned: tuple[str, ...] = ()
    shapes: tuple[PrintedShape, ...] = ()

    @property
    def kind(self) -> FailureKind:
        if self.verdict.resource is not None:
            return FailureKind.MEMORY
        if self.is_suspect:
            return FailureKind.SUSPECT
        if self.is_cut:
            return FailureKind.CUT
        if self.is_echo:
            return FailureKind.ECHO
        by_status = {Status.CRASH: FailureKind.CRASH, Status.UNSUPPORTED: FailureKind.REFUSED}
        return by_status.get(self.verdict.status, FailureKind.OTHER)


@dataclass(frozen=True)
class LogReading:
    """The content of a complete log.

    ``never_ran``: operations of the module, in its order, after the one that failed first; empty without a module.
    ``remarks``: what was odd in the text (bytes that are not text, lines that were cut). ``own_calls``: those that ``ssinghal
    exec`` reported in it, in the words of ``probe``, by what ran out. ``names_compiler``: the text names tt-mlir or a user.
    """

    name: str
    lines: int
    failures: tuple[Failure, ...] = ()
    module: tuple[Operation, ...] = ()
    never_ran: tuple[Operation, ...] = ()
    remarks: tuple[str, ...] = ()
    own_calls: Mapping[str, str] = field(default_factory=dict)
    names_compiler: bool = False

    @property
    def memory_failures(self) -> tuple[Failure, ...]:
        return tuple(f for f in self.failures if f.verdict.resource is not None)
