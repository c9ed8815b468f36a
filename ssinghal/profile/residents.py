"""What is allocated on a device at a time, while its records are replayed, and the most that there was of each memory."""

from __future__ import annotations

from collections import Counter
from heapq import heappop, heappush

from ssinghal.profile.model import Buffer, Call, Peak


class Residents:
    """The buffers that are allocated. ``sums``: bytes per bank of each memory. ``changes``: allocations and frees so far."""

    def __init__(self) -> None:
        self.sums: Counter[str] = Counter()
        self.changes = 0
        self._live: dict[tuple[str, int], Buffer] = {}
        self._freed: list[Buffer] = []  # since ``forget``, in order
        self._l1: list[int] = []  # a heap of addresses: those of all buffers in L1, and some of freed ones
        self._known: set[int] = set()  # what the heap holds

    def all(self) -> tuple[Buffer, ...]:
        return tuple(self._live.values())

    def get(self, memory: str | None, address: int | None) -> Buffer | None:
        return None if memory is None or address is None else self._live.get((memory, address))

    def add(self, buffer: Buffer) -> None:
        """A buffer was allocated."""
        buffer.made_at = self.changes
        self.changes += 1
        self._live[buffer.memory, buffer.address] = buffer
        self.sums[buffer.memory] += buffer.bank_bytes
        if buffer.memory == "l1" and buffer.address not in self._known:
            self._known.add(buffer.address)
            heappush(self._l1, buffer.address)

    def remove(self, memory: str, address: int) -> Buffer | None:
        """A buffer was freed: returns it, None if it is unknown."""
        buffer = self._live.pop((memory, address), None)
        if buffer is not None:
            buffer.freed_at = self.changes
            self.changes += 1
            self.sums[memory] -= buffer.bank_bytes
            self._freed.append(buffer)
        return buffer

    def lowest_l1(self, none: int) -> int:
        """Returns the lowest address of a buffer in L1; ``none`` where there is none."""
        while self._l1 and ("l1", self._l1[0]) not in self._live:
            self._known.discard(heappop(self._l1))
        return self._l1[0] if self._l1 else none

    def at(self, memory: str, change: int) -> tuple[Buffer, ...]:
        """Returns the buffers of a memory that were allocated after so many changes, none of them before ``forget``."""
        freed = (buffer for buffer in self._freed if buffer.freed_at is not None and buffer.freed_at >= change)
        found = [b for group in (freed, self._live.values()) for b in group if b.memory == memory and b.made_at < change]
        return tuple(sorted(found, key=lambda buffer: buffer.made_at))

    def forget(self) -> None:
        """Forgets what was freed until now."""
        self._freed.clear()

    def clear(self) -> None:
        """The device was closed, which frees everything."""
        for kept in (self.sums, self._live, self._freed, self._l1, self._known):
            kept.clear()


class PeakFinder:
    """Finds the most of each memory over a time; what was resident at a peak is looked up when that is over."""

    def __init__(self, peaks: dict[str, Peak]) -> None:
        self._peaks = peaks
        self._most: Counter[str] = Counter()
        self._risen: dict[str, tuple[Call, int]] = {}

    def note(self, memory: str, residents: Residents, call: Call) -> None:
        """There may be more of a memory than ever before."""
        if residents.sums[memory] > self._most[memory]:
            self._most[memory] = residents.sums[memory]
            self._risen[memory] = call, residents.changes

    def settle(self, residents: Residents) -> None:
        """Writes the peaks since ``forget``."""
        for memory, (call, change) in self._risen.items():
            self._peaks[memory] = Peak(self._most[memory], call, residents.at(memory, change))
        self._risen.clear()
