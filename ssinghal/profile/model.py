"""What a profile is made of: calls, the buffers they made, and the lines of the program they came from. Bytes are per bank."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ssinghal.core.verdict import Status, Verdict
from ssinghal.errors import printable
from ssinghal.profile.tried_changes import TriedChanges


class Site(NamedTuple):
    """A line of the user's program. ``text``: what it said when the program ran, empty if it could not be read."""

    file: str
    line: int
    function: str
    text: str = ""

    def __str__(self) -> str:
        return printable(f"{self.file}:{self.line} ({self.function})")


class Spec(NamedTuple):
    """What a tensor is. ``memory``: None on the host. ``shard``: shape of a shard, and its cores; ``config``: TTNN's own JSON
    of the memory config then."""

    shape: tuple[int, ...]
    dtype: str
    layout: str
    memory: str | None = None
    memory_layout: str = ""
    shard: tuple[tuple[int, ...], str] | None = None
    config: str = ""

    def __str__(self) -> str:
        """
        >>> str(Spec((1, 64), "bfloat16", "tile", "l1", "width_sharded"))
        '1x64 bfloat16 tile width_sharded'
        """
        placed = f" {self.memory_layout}" if self.memory_layout not in ("", "interleaved") else ""
        return f"{'x'.join(map(str, self.shape))} {self.dtype} {self.layout}{placed}"


class Tensor(NamedTuple):
    """An operand or a result. ``address``: None on the host, and after it was freed."""

    spec: Spec
    address: int | None


class Memory(NamedTuple):
    """A memory of a device. ``base_bytes``: what was allocated in each bank before the recording began; those of its buffers
    whose sizes are known are buffers of the profile, made before the first call."""

    banks: int
    bank_bytes: int
    base_bytes: int


class Device(NamedTuple):
    """A device from its opening to its end. ``first_call``: the number that its first call has. Program buffers grow upwards
    from ``l1_base``, the buffers of tensors downwards from ``l1_top``, both addresses of a core."""

    ttnn: str
    arch: str
    mesh: tuple[int, ...]
    grid: tuple[int, int]
    granule: int
    l1_base: int
    l1_top: int
    memories: dict[str, Memory]
    first_call: int


@dataclass(slots=True)
class Buffer:
    """One allocation. ``call``: the one that made it, or before which it was made (``made_between``). ``freed``: the call in
    which, or before which (``freed_between``), it was freed; None if it was resident to the end of its device. ``last_use``:
    the last call that had it as operand or result, other than to deallocate it. ``made_at``, ``freed_at``: how many allocations
    and frees the process had made before. ``made_before``: it was on the device when the recording began."""

    memory: str
    address: int
    bank_bytes: int
    total_bytes: int
    call: int
    last_use: int
    freed: int | None = None
    tensor: str = ""  # its shape, dtype and layout, if a call returned it or took it
    device: int = 0  # its index in the profile's devices
    made_between: bool = False
    freed_between: bool = False
    made_at: int = 0
    freed_at: int | None = None
    made_before: bool = False


class Program(NamedTuple):
    """A program that ran within a call, with the L1 that buffers held meanwhile. ``program_bytes``: of its program buffers on
    the fullest core, None where TTNN did not report them. ``headroom_bytes``: between them and the lowest buffer; where they
    are not known, what the lowest buffer leaves for them, which is an upper bound."""

    name: str
    program_bytes: int | None
    l1_bytes: int
    headroom_bytes: int


@dataclass(slots=True)
class Call:
    """A call of TTNN. ``peak``, ``after``: bytes per bank allocated, per memory. ``error``: class and text of its exception;
    ``resident``: what was allocated then, after the last allocation or program of the call. ``operands``: as they were before
    the call. Of a call that raised: ``before``: what was allocated when it began; ``arguments``: see ``tracker.arguments``."""

    number: int
    name: str
    site: Site | None
    stack: tuple[Site, ...]
    peak: Mapping[str, int]
    after: Mapping[str, int] = field(default_factory=dict)
    largest_free: Mapping[str, int] = field(default_factory=dict)
    programs: tuple[Program, ...] = ()
    error: tuple[str, str] | None = None
    verdict: Verdict | None = None  # what the exception means
    resident: tuple[Buffer, ...] = ()
    operands: tuple[Tensor, ...] = ()
    results: tuple[Tensor, ...] = ()
    microseconds: int = 0
    before: tuple[Buffer, ...] = ()
    arguments: Mapping[str, Any] | None = None

    @property
    def is_out_of_memory(self) -> bool:
        return self.verdict is not None and self.verdict.status is Status.OOM


class Difference(NamedTuple):
    """A call after which the buffers of a memory do not add up to what the allocator reports: a fault of the profiler."""

    call: int
    memory: str
    replayed_bytes: int
    allocator_bytes: int


class Peak(NamedTuple):
    """The most that was allocated of a memory at any time, in which call, and the buffers that were resident then."""

    bank_bytes: int
    call: Call
    resident: tuple[Buffer, ...]


@dataclass
class Span:
    """A named part of a program on one device, such as a test: its calls are those from ``first_call`` up to ``end_call``; a
    part within which the process ended has no end.

    ``peaks``, ``fullest`` and ``unknown_programs`` are as those of a profile. ``before``, ``after``: bytes per bank that the
    program's buffers took when it began and when it ended, per memory.
    """

    name: str
    first_call: int
    end_call: int | None = None
    peaks: dict[str, Peak] = field(default_factory=dict)
    fullest: tuple[Call, Program] | None = None
    unknown_programs: int = 0
    before: dict[str, int] = field(default_factory=dict)
    after: dict[str, int] = field(default_factory=dict)


@dataclass
class Profile:
    """What one process did on the devices that it opened, one after another. ``peaks``: per memory in use."""

    argv: tuple[str, ...] = ()
    folder: str = ""
    devices: list[Device] = field(default_factory=list)
    spans: list[Span] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    buffers: list[Buffer] = field(default_factory=list)
    peaks: dict[str, Peak] = field(default_factory=dict)
    checks: int = 0
    differences: list[Difference] = field(default_factory=list)
    unknown_frees: int = 0
    unsized_frees: int = 0  # of buffers from before the recording began, whose sizes TTNN does not report
    others: int = 0  # calls of other threads, which are not recorded
    others_bytes: dict[str, int] = field(default_factory=dict)  # per memory: the most bytes per bank these were seen to hold
    elsewhere: int = 0  # buffers on other devices and on submeshes, which are not recorded
    skipped: int = 0  # calls of traces and events that were not passed on to TTNN
    raised: int = 0  # calls that raised
    failure: Call | None = None  # the last call that ran out of memory, else the last that raised
    tried: TriedChanges | None = None  # what was tried to make that call fit, if anything was
    unfinished: Call | None = None  # the call within which the process ended
    lost: str = ""  # why nothing more was recorded
    is_part: bool = False  # the program went on after the recording
    ended: bool = False  # the device was closed, or the program ended by itself
    fullest: tuple[Call, Program] | None = None  # the program with the least headroom, so far as it is known
    unknown_programs: int = 0  # runs of programs whose program buffers TTNN did not report

    @property
    def ttnn(self) -> str:
        return self.devices[-1].ttnn if self.devices else ""

    @property
    def l1_and_program_bytes(self) -> int:
        """The most of L1 that tensors took, by themselves or together with the program buffers of a program that ran; a lower
        bound where there are ``unknown_programs``."""
        programs = (program for call in self.calls for program in call.programs)
        tensors = self.peaks["l1"].bank_bytes if "l1" in self.peaks else 0
        return max([tensors, *(one.l1_bytes + one.program_bytes for one in programs if one.program_bytes is not None)])

    def resident(self) -> list[Buffer]:
        """Returns the buffers that nothing freed."""
        return [buffer for buffer in self.buffers if buffer.freed is None]


def is_at_most(owner: Profile | Span) -> bool:
    """Whether the least headroom is an upper bound: program buffers that TTNN did not report may have left less. They leave 0 B
    or more, for the programs ran."""
    return owner.unknown_programs > 0 and owner.fullest is not None and owner.fullest[1].headroom_bytes > 0
