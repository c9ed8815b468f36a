"""What happened in one memory of one device, allocation by allocation: the ground on which a change to a program is tried."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from operator import add
from typing import NamedTuple, TypeVar

from ssinghal.profile.model import Buffer, Device, Memory, Profile

K = TypeVar("K", bound=Hashable)


class Change(NamedTuple):
    """A buffer was made or freed, in the call ``call``, or before it (``is_between``). ``at``: see ``Buffer.made_at``."""

    at: int
    buffer: Buffer
    is_made: bool
    call: int
    is_between: bool


class Cut(NamedTuple):
    """Bytes per bank that a change to the program takes off from position ``start`` up to ``end``."""

    start: int
    end: int
    bank_bytes: int


@dataclass(frozen=True)
class History:
    """Positions count changes. ``sums``: bytes per bank allocated after each."""

    device: int
    memory: str
    facts: Memory
    changes: Sequence[Change]
    sums: Sequence[int]

    @property
    def peak_bytes(self) -> int:
        return max(self.sums, default=0)

    def buffers(self) -> list[Buffer]:
        """Returns the buffers in the order in which they were made."""
        return [change.buffer for change in self.changes if change.is_made]

    def made(self, buffer: Buffer) -> int:
        """Returns the position at which a buffer was made."""
        return bisect_left(self.changes, buffer.made_at, key=_at)

    def freed(self, buffer: Buffer) -> int:
        """Returns the position at which a buffer was freed; the end if it was not."""
        return len(self.changes) if buffer.freed_at is None else bisect_left(self.changes, buffer.freed_at, key=_at)

    def after_call(self, number: int) -> int:
        """Returns the position right after a call: of what happens between it and the next one."""
        return bisect_right(self.changes, number, key=_call)

    def before_call(self, number: int) -> int:
        """Returns the position at which a call begins, after what happened between it and the one before."""
        return bisect_left(self.changes, (number, True), key=_within)

    def peak_without(self, cuts: Iterable[Cut]) -> int:
        """Returns the peak, in bytes per bank, of the same sequence with ``cuts`` taken off."""
        return max(self.without(cuts), default=0)

    def without(self, cuts: Iterable[Cut]) -> list[int]:
        """Returns the bytes per bank allocated after each change with ``cuts`` taken off."""
        differences = [0] * (len(self.sums) + 1)
        for cut in cuts:
            differences[cut.start] -= cut.bank_bytes
            differences[cut.end] += cut.bank_bytes
        return list(map(add, self.sums, accumulate(differences)))

    def peaks_without(self, groups: Mapping[K, Sequence[Cut]], least_bytes: int) -> dict[K, int]:
        """Returns the peak without each group that lowers it by ``least_bytes`` or more.

        Only groups that take that much off the first and the last time of the peak can: few, as they share it.
        """
        peak = self.peak_bytes
        times = [self.sums.index(peak), len(self.sums) - 1 - self.sums[::-1].index(peak)] if self.sums else []
        lower: dict[K, int] = {}
        for key, cuts in groups.items():
            if times and all(taken(cuts, time) >= max(1, least_bytes) for time in times):
                after = self.peak_without(cuts)
                if peak - after >= max(1, least_bytes):
                    lower[key] = after
        return lower


def taken(cuts: Iterable[Cut], position: int) -> int:
    """Returns the bytes per bank that ``cuts`` take off at a position."""
    return sum(cut.bank_bytes for cut in cuts if cut.start <= position < cut.end)


def changes(profile: Profile) -> list[Change]:
    """Returns what was made and freed, in order."""
    found = [Change(one.made_at, one, True, one.call, one.made_between) for one in profile.buffers]
    for buffer in profile.buffers:
        if buffer.freed_at is not None and buffer.freed is not None:
            found.append(Change(buffer.freed_at, buffer, False, buffer.freed, buffer.freed_between))
    return sorted(found, key=_at)


def histories(devices: Sequence[Device], ordered: Iterable[Change]) -> list[History]:
    """Returns the history of each memory of each device that was used."""
    parts: dict[tuple[int, str], list[Change]] = {}
    for change in ordered:
        parts.setdefault((change.buffer.device, change.buffer.memory), []).append(change)
    return [
        History(device, memory, devices[device].memories[memory], part, list(accumulate(map(_growth, part))))
        for (device, memory), part in parts.items()
    ]


def end_call(profile: Profile, device: int) -> int:
    """Returns the number after that of the last call on a device."""
    following = profile.devices[device + 1 :]
    return following[0].first_call if following else len(profile.calls)


def _at(change: Change) -> int:
    return change.at


def _call(change: Change) -> int:
    return change.call


def _within(change: Change) -> tuple[int, bool]:
    return change.call, not change.is_between


def _growth(change: Change) -> int:
    return change.buffer.bank_bytes if change.is_made else -change.buffer.bank_bytes
