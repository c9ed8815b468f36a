"""The free blocks of a memory, as TTNN's allocator keeps them: the addresses are the same in all banks.

A buffer takes the top of the highest free block that holds it, in DRAM the bottom of the lowest one; blocks that touch become
one. This gave every address of the ports in ``examples/ports``, and is held against those of the profile wherever it is used.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable

from ssinghal.profile.address_map import bank
from ssinghal.profile.model import Buffer, Device


class FreeBlocks:
    """Free and taken blocks of one memory, from address ``start`` up to ``end``. ``is_upwards``: as in DRAM."""

    def __init__(self, start: int, end: int, *, is_upwards: bool = False) -> None:
        self.is_upwards = is_upwards
        self._free = [(start, end)]
        self._taken: dict[int, int] = {}

    @property
    def largest(self) -> int:
        """The bytes of the largest free block."""
        return max((end - start for start, end in self._free), default=0)

    @property
    def free(self) -> int:
        """The bytes of all free blocks."""
        return sum(end - start for start, end in self._free)

    @property
    def lowest(self) -> int | None:
        """The lowest address taken."""
        return min(self._taken, default=None)

    def allocate(self, size: int) -> int | None:
        """Takes a block and returns its address; None if no free block holds it."""
        blocks = self._free if self.is_upwards else reversed(self._free)
        for start, end in blocks:
            if end - start >= size:
                address = start if self.is_upwards else end - size
                self.place(address, size)
                return address
        return None

    def place(self, address: int, size: int) -> bool:
        """Takes the block at ``address``. Returns False, and takes none, if it is not free."""
        index = bisect_left(self._free, (address + 1,)) - 1
        if index < 0 or self._free[index][1] < address + size:
            return False
        start, end = self._free[index]
        self._free[index : index + 1] = [block for block in ((start, address), (address + size, end)) if block[0] < block[1]]
        self._taken[address] = size
        return True

    def release(self, address: int) -> None:
        start, end = address, address + self._taken.pop(address)
        index = bisect_left(self._free, (start,))
        if index < len(self._free) and self._free[index][0] == end:
            end = self._free.pop(index)[1]
        if index and self._free[index - 1][1] == start:
            index -= 1
            start = self._free.pop(index)[0]
        self._free.insert(index, (start, end))

    def move(self, address: int) -> int | None:
        """Releases a block and takes one of its size, as ``ttnn.move`` does; returns the new address."""
        size = self._taken[address]
        self.release(address)
        return self.allocate(size)

    def copy(self) -> FreeBlocks:
        other = FreeBlocks(0, 0)
        other.is_upwards, other._free, other._taken = self.is_upwards, list(self._free), dict(self._taken)
        return other


def free_blocks(device: Device, memory: str, buffers: Iterable[Buffer], taken: Iterable[Buffer] = ()) -> FreeBlocks | None:
    """Returns the blocks of a memory with those of ``taken`` left out; None where its addresses are unknown, or do not hold
    these. ``buffers``: all that were ever in it."""
    span = bank(device, memory, buffers)
    if span is None:
        return None
    blocks = FreeBlocks(span.low, span.high, is_upwards=memory == "dram")
    return blocks if all(blocks.place(one.address, one.bank_bytes) for one in taken) else None
