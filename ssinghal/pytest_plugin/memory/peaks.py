"""The most that some buffers took at once, whatever else was allocated meanwhile."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

from ssinghal.profile.model import Buffer, Call
from ssinghal.pytest_plugin.memory.figures import Line, by_line


def peaks_of(buffers: Iterable[Buffer], calls: Sequence[Call]) -> tuple[dict[str, int], dict[str, list[Line]]]:
    """Returns the most bytes per bank that these buffers took at once of each memory, and the lines that made them.

    That need not be where the device was fullest: other buffers may have been freed in between.
    """
    groups: defaultdict[tuple[str, int], list[Buffer]] = defaultdict(list)
    for buffer in buffers:  # devices follow one another: closing one frees what is on it
        groups[buffer.memory, buffer.device].append(buffer)
    peaks: dict[str, int] = {}
    lines: dict[str, list[Line]] = {}
    for (memory, _), group in groups.items():
        size, at = _most(group)
        if size > peaks.get(memory, 0):
            peaks[memory] = size
            lines[memory] = by_line((buffer for buffer in group if _is_allocated(buffer, at)), calls)
    return peaks, lines


def _most(buffers: Sequence[Buffer]) -> tuple[int, int]:
    """Returns the most that buffers of one memory took at once, and the allocation that it was reached with."""
    changes = [(buffer.made_at, buffer.bank_bytes) for buffer in buffers]
    changes += [(buffer.freed_at, -buffer.bank_bytes) for buffer in buffers if buffer.freed_at is not None]
    most = at = total = 0
    for change, size in sorted(changes):
        total += size
        if total > most:
            most, at = total, change
    return most, at


def _is_allocated(buffer: Buffer, at: int) -> bool:
    return buffer.made_at <= at and (buffer.freed_at is None or buffer.freed_at > at)
