"""The device memory of one test, as it travels from the process that ran it to the one that reports it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from ssinghal.core.tensors import format_bytes
from ssinghal.profile.model import Buffer, Call

SHOWN = 5  # lines of a program that hold a peak
MEMORY_NAMES = {
    "l1": "L1 per core",
    "program": "program buffers per core",
    "dram": "DRAM per bank",
    "l1_small": "L1_SMALL per core",
    "trace": "trace region per bank",
}
Line = tuple[str, int, int]  # call and line of the program, bytes per bank that its buffers take, their number


@dataclass(frozen=True)
class Figures:
    """What a test took while its body ran, in bytes per core (L1, L1_SMALL) or per bank (DRAM, trace).

    ``peaks``: the most that was allocated at once by the test and its fixtures, with what the test used of others;
    ``program``: of the largest program buffers. ``tensors``: the same without what TTNN keeps for itself, which depends on the
    tests that ran before. ``lines``: which lines of the program hold the peaks. ``headroom_bytes``: the least
    distance between the program buffers and the lowest buffer of a core, whoever made that, at ``headroom_at``. ``share``: the
    largest of the peaks as part of its memory. ``ran_out``: whether a call of the body ran out of memory.

    ``leaks``: tensors that the body made and that were still allocated when it had ended. ``kept``: buffers that TTNN made for
    itself and keeps, such as those of its program cache. ``unknown``: why the figures are not known.
    """

    device: str = ""
    ttnn: str = ""
    calls: int = 0
    peaks: dict[str, int] = field(default_factory=dict)
    tensors: dict[str, int] = field(default_factory=dict)
    lines: dict[str, list[Line]] = field(default_factory=dict)
    headroom_bytes: int | None = None
    headroom_at: str = ""
    share: float = 0.0
    ran_out: bool = False
    leaks: dict[str, int] = field(default_factory=dict)
    leak_lines: list[Line] = field(default_factory=list)
    kept: dict[str, int] = field(default_factory=dict)
    unknown_programs: int = 0  # runs of programs whose program buffers TTNN did not report
    other_calls: int = 0  # of other threads, which are not recorded
    elsewhere: int = 0  # buffers on other devices and on submeshes, which are not recorded
    differences: int = 0  # from the allocator's own view: a fault of the recording
    unknown: str = ""

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> Figures:
        return cls(**fields)

    def comparable(self) -> dict[str, int]:
        """Returns the sizes of a baseline: those that do not depend on the tests that ran before.

        TTNN does not report the program buffers of a program that another test built, so that the largest ones are comparable
        only where all are known.
        """
        known = "program" in self.peaks and not self.unknown_programs
        return self.tensors | ({"program": self.peaks["program"]} if known else {})

    @property
    def unrecorded(self) -> str:
        """What the figures lack, empty if nothing."""
        counts = ((self.other_calls, "calls of other threads"), (self.elsewhere, "allocations on another device or submesh"))
        lacking = [f"{count:,} {what}" for count, what in counts if count]
        return f"{' and '.join(lacking)} are not recorded" if lacking else ""

    def properties(self) -> list[tuple[str, object]]:
        """Returns the properties of the test's report, which JUnit files have too."""
        if self.unknown or not self.calls:
            return []
        values: list[tuple[str, object]] = [(f"tt_{name}_peak_bytes", size) for name, size in self.peaks.items()]
        if self.headroom_bytes is not None:
            values.append(("tt_l1_headroom_bytes", self.headroom_bytes))
        return values + [(f"tt_{name}_leak_bytes", size) for name, size in self.leaks.items()]


def device_text(arch: str, grid: tuple[int, int]) -> str:
    """Returns what makes figures comparable: ``wormhole_b0 8x8``."""
    return f"{arch} {grid[0]}x{grid[1]}"


def where(call: Call) -> str:
    return f"{call.name}, {call.site}" if call.site else call.name


def by_line(buffers: Iterable[Buffer], calls: Sequence[Call]) -> list[Line]:
    """Returns the lines of the program that made most of the buffers."""
    sizes: Counter[str] = Counter()
    counts: Counter[str] = Counter()
    for buffer in buffers:
        place = where(calls[min(buffer.call, len(calls) - 1)])
        sizes[place] += buffer.bank_bytes
        counts[place] += 1
    return [(place, size, counts[place]) for place, size in sizes.most_common(SHOWN)]


def shown(lines: Iterable[Line]) -> list[str]:
    return [f"  {format_bytes(size):>28}  {count:>4} x  {place}" for place, size, count in lines]
