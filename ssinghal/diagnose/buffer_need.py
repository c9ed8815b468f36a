"""Explains a buffer that does not fit in numbers: its need, the free bytes, its tensor, and what was allocated before."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ssinghal.core.record import L1_END_BYTES, Resource, Verdict
from ssinghal.core.tensors import BufferType, ceil_div, format_bytes, round_up
from ssinghal.diagnose.fingerprint import memory_of
from ssinghal.estimation.estimator import Allocation

GRANULE = 32  # bytes of a Wormhole's L1_SMALL region are allocated in multiples of it


@dataclass(frozen=True)
class BufferNeed:
    """The numbers of the message, per bank except ``total_bytes``; None where its wording lacks them.

    ``owner``: the tensors of the call that have exactly these bytes; "" where none has. ``owner_sought``: the call's tensors
    are known. ``resident_bytes``: per bank, allocated before the call, without its operands; None where those are unknown or
    incomplete.
    """

    memory: BufferType
    total_bytes: int
    banks: int
    bytes_per_bank: int
    bank_bytes: int | None = None
    allocated_bytes: int | None = None
    free_bytes: int | None = None
    largest_free_bytes: int | None = None
    fragmented: bool = False
    owner: str = ""
    owner_sought: bool = False
    resident_bytes: int | None = None

    @property
    def shortfall_bytes(self) -> int | None:
        return self.bytes_per_bank - self.largest_free_bytes if self.largest_free_bytes is not None else None

    @property
    def uneven_bytes(self) -> int:
        """The bytes by which all banks together hold less than if each were as full as the fullest: pages are not divided."""
        return self.banks * self.bytes_per_bank - self.total_bytes

    @property
    def fits_empty_bank(self) -> bool | None:
        return self.bytes_per_bank <= self.bank_bytes if self.bank_bytes is not None else None

    @property
    def least_holes(self) -> int | None:
        """The minimum number of holes that the free bytes are in."""
        if not self.fragmented or not self.free_bytes or not self.largest_free_bytes:
            return None
        return ceil_div(self.free_bytes, self.largest_free_bytes)

    @property
    def l1_small_size(self) -> int | None:
        """The L1_SMALL region that has room for this buffer after all that is in it now."""
        if self.memory is not BufferType.L1_SMALL or self.allocated_bytes is None:
            return None
        return round_up(self.allocated_bytes + self.bytes_per_bank, GRANULE)

    def lines(self) -> list[str]:
        return [*self._need_lines(), *self._bank_lines(), *self._owner_lines()]

    def _need_lines(self) -> Iterator[str]:
        name = self.memory.value.upper()
        size = format_bytes(self.total_bytes)
        yield f"{name} buffer of {size} over {self.banks} banks: {self.bytes_per_bank:,} B in the fullest"
        if self.uneven_bytes > 0:
            yield f"its pages do not divide evenly: the other banks together hold {self.uneven_bytes:,} B less"

    def _bank_lines(self) -> Iterator[str]:
        if self.bank_bytes is not None and self.allocated_bytes is not None and self.free_bytes is not None:
            block = f", largest block {self.largest_free_bytes:,} B" if self.largest_free_bytes is not None else ""
            used = f"{self.allocated_bytes:,} B allocated, {self.free_bytes:,} B free"
            yield f"a bank has {format_bytes(self.bank_bytes)}: {used}{block}"
        elif self.bank_bytes is not None:
            yield f"a bank has {format_bytes(self.bank_bytes)}"
        elif self.memory is BufferType.L1 and self.bytes_per_bank > max(L1_END_BYTES):
            yield f"no core has that much: an L1 ends at {max(L1_END_BYTES):,} B at most"
        if self.l1_small_size is not None:
            yield f"l1_small_size {self.l1_small_size:,} has room for this buffer; the programs that follow add their own"
            return
        if self.shortfall_bytes is not None and self.shortfall_bytes > 0:
            yield f"missing in each bank: {format_bytes(self.shortfall_bytes)}"
        if self.fragmented:
            holes = f"in at least {self.least_holes} holes, " if self.least_holes else ""
            largest = f"of {self.largest_free_bytes:,} B" if self.largest_free_bytes is not None else "smaller than this buffer"
            yield f"fragmented: {self.free_bytes:,} B are free, but {holes}the largest {largest}"
        elif self.fits_empty_bank is False and self.bank_bytes:
            yield f"it exceeds an empty bank: it needs {self.bytes_per_bank / self.bank_bytes:.2f} times its size in each"
        elif self.fits_empty_bank and self.allocated_bytes:
            yield "it fits into an empty bank: the cause is what is already allocated"

    def _owner_lines(self) -> Iterator[str]:
        if self.owner:
            yield f"these are exactly the bytes of the {self.owner}"
        elif self.owner_sought:
            yield "no operand or result of the call has these bytes: it is a temporary tensor of TTNN"
        if self.resident_bytes is not None:
            yield f"allocated in each bank before the call: {format_bytes(self.resident_bytes)}"


def buffer_need(verdict: Verdict, tensors: Sequence[Allocation], *, placed: bool) -> BufferNeed | None:
    """Returns the buffer that ``verdict`` names; None where it names none, or no size.

    ``tensors``: of the call, on the banks of the message. ``placed``: their memory is known, not only assumed.
    """
    memory = memory_of(verdict)
    if memory is None or verdict.total_bytes is None or verdict.banks is None or verdict.bytes_per_bank is None:
        return None
    owners = [
        tensor.label
        for tensor in tensors
        if (tensor.allocated_bytes, tensor.bytes_per_bank) == (verdict.total_bytes, verdict.bytes_per_bank)
    ]
    operands = sum(
        tensor.booked_bytes_per_bank
        for tensor in tensors
        if tensor.label.startswith("input") and tensor.spec.memory.buffer is memory
    )
    resident = None
    if placed and tensors and verdict.allocated_bytes is not None and verdict.allocated_bytes >= operands:
        resident = verdict.allocated_bytes - operands
        owners = [label for label in owners if label.startswith("output")] or owners  # the operands are already allocated
    return BufferNeed(
        memory=memory,
        total_bytes=verdict.total_bytes,
        banks=verdict.banks,
        bytes_per_bank=verdict.bytes_per_bank,
        bank_bytes=verdict.bank_bytes,
        allocated_bytes=verdict.allocated_bytes,
        free_bytes=verdict.free_bytes,
        largest_free_bytes=verdict.largest_free_bytes,
        fragmented=verdict.resource is Resource.FRAGMENTATION,
        owner=" or ".join(owners),
        owner_sought=bool(tensors),
        resident_bytes=resident,
    )
