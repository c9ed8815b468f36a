"""The addresses of a bank: its holes, and the fewest bytes to free for one that is large enough.

TTNN's allocator gives a buffer the same addresses in every bank, so one bank stands for all.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from ssinghal.core.verdict import Resource, Verdict
from ssinghal.profile.model import Buffer, Device, Memory

_MEMORIES = {
    Resource.L1_BUFFER: "l1",
    Resource.DRAM_BUFFER: "dram",
    Resource.L1_SMALL_BUFFER: "l1_small",
    Resource.TRACE_BUFFER: "trace",
    Resource.CLASH: "l1",
}


class Span(NamedTuple):
    """Addresses from ``low`` up to ``high``."""

    low: int
    high: int

    @property
    def size_bytes(self) -> int:
        return self.high - self.low


class Block(NamedTuple):
    """What is allocated. ``last_use``: of blocks alike, the one with the lowest is freed."""

    span: Span
    is_freeable: bool = True
    last_use: int = 0


def memory_of(verdict: Verdict, memories: Mapping[str, Memory]) -> str:
    """Returns the memory that ran out, "" for none of these. A fragmented one is known by the size of its banks, which TTNN's
    message has, as all of them differ."""
    if verdict.resource is Resource.FRAGMENTATION:
        sizes = {name for name in ("l1", "dram") if name in memories and memories[name].bank_bytes == verdict.bank_bytes}
        return sizes.pop() if len(sizes) == 1 else ""
    return _MEMORIES.get(verdict.resource, "") if verdict.resource else ""


def bank(device: Device, memory: str, buffers: Iterable[Buffer]) -> Span | None:
    """Returns the addresses of a bank; None where they are unknown.

    In each core, program buffers and tensors share what lies from ``l1_base`` up to L1_SMALL, which ends at ``l1_top``. Banks
    of DRAM are filled from the bottom, so the lowest of all ``buffers`` that were ever in one is its first address.
    """
    size = device.memories[memory].bank_bytes
    if memory == "l1_small":
        return Span(device.l1_top - size, device.l1_top)
    if memory == "l1":
        return Span(device.l1_base, device.l1_base + size)
    lows = [buffer.address for buffer in buffers if buffer.memory == memory]
    return Span(min(lows), min(lows) + size) if memory == "dram" and lows else None


def holes(bank: Span, blocks: Iterable[Span]) -> Iterator[Span]:
    """Yields what no block takes, the lowest first."""
    low = bank.low
    for block in sorted(blocks):
        if block.low > low:
            yield Span(low, block.low)
        low = max(low, block.high)
    if bank.high > low:
        yield Span(low, bank.high)


def largest_hole_bytes(bank: Span, blocks: Iterable[Span]) -> int:
    return max((hole.size_bytes for hole in holes(bank, blocks)), default=0)


def least_to_free(bank: Span, blocks: Sequence[Block], need_bytes: int) -> tuple[Block, ...] | None:
    """Returns the blocks of the fewest bytes whose freeing opens a hole of ``need_bytes``; None if none do.

    Blocks that are freed to open a hole are neighbours, so the best of all runs of neighbours is the minimum. Of equal ones the
    fewest blocks win, then those that have not been used for longest.
    """
    ordered = sorted(blocks)
    best: tuple[tuple[int, int, int], tuple[Block, ...]] | None = None
    for start in range(len(ordered)):
        low = ordered[start - 1].span.high if start else bank.low
        run: list[Block] = []
        for index in range(start, len(ordered)):
            if not ordered[index].is_freeable:
                break
            run.append(ordered[index])
            high = ordered[index + 1].span.low if index + 1 < len(ordered) else bank.high
            if high - low >= need_bytes:
                freed = sum(block.span.size_bytes for block in run)
                rank = freed, len(run), max(block.last_use for block in run)
                if best is None or rank < best[0]:
                    best = rank, tuple(run)
                break
    return best[1] if best else None
