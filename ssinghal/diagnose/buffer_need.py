"""Explains a buffer that does not fit in numbers: its need, the free bytes, its tensor, and what was allocated before."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ssinghal.core.tensors import BufferType, ceil_div, format_bytes
from ssinghal.core.verdict import L1_END_BYTES, Verdict
from ssinghal.diagnose.builds import DRAM_BANKS
from ssinghal.diagnose.chips import L1_ENDS
from ssinghal.diagnose.fingerprint import Fingerprint, memory_of
from ssinghal.diagnose.odd_figures import odd_lines
from ssinghal.diagnose.reserved_bases import MAX_L1_SMALL
from ssinghal.diagnose.shard_sizes import Shard, shard_of
from ssinghal.diagnose.small_region import region_lines, sufficient_size
from ssinghal.estimation.estimator import Allocation


@dataclass(frozen=True)
class BufferNeed:
    """The numbers of the message, per bank except ``total_bytes``; None where the text lacks them.

    ``fragmented``: a bank has enough free bytes, but in no single block. ``owner``: the tensors of the call that have exactly
    these bytes; "" where none has. ``owner_sought``: the call's tensors are known; ``owner_assumed``: but not the layout of
    each. ``resident_bytes``: per bank, allocated before the call, without its operands; None where those are unknown or
    incomplete. ``l1_small_size``: of an L1_SMALL buffer, a region with room for it. ``empty_banks``: the smallest and the
    largest bank that is possible, where the message lacks it. ``remarks``: on an L1_SMALL region, and what is odd about the
    numbers.
    """

    memory: BufferType
    total_bytes: int | None
    banks: int | None
    bytes_per_bank: int
    bank_bytes: int | None = None
    allocated_bytes: int | None = None
    free_bytes: int | None = None
    largest_free_bytes: int | None = None
    fragmented: bool = False
    owner: str = ""
    owner_sought: bool = False
    owner_assumed: bool = False
    resident_bytes: int | None = None
    l1_small_size: int | None = None
    empty_banks: tuple[int, int] | None = None
    shard: Shard | None = None
    remarks: tuple[str, ...] = ()

    @property
    def shortfall_bytes(self) -> int | None:
        return self.bytes_per_bank - self.largest_free_bytes if self.largest_free_bytes is not None else None

    @property
    def uneven_bytes(self) -> int:
        """The bytes by which all banks together hold less than if each were as full as the fullest: pages are not divided."""
        if self.total_bytes is None or self.banks is None:
            return 0
        return self.banks * self.bytes_per_bank - self.total_bytes

    @property
    def fits_empty_bank(self) -> bool | None:
        return self.bytes_per_bank <= self.bank_bytes if self.bank_bytes is not None else None

    @property
    def least_taken_bytes(self) -> int | None:
        """What is allocated in a bank at least, where the message has only its size: one byte more and the buffer fits."""
        if self.bank_bytes is None or not self.fits_empty_bank:
            return None
        is_known = self.allocated_bytes is not None or self.free_bytes is not None
        return self.bank_bytes - self.bytes_per_bank + 1 if not is_known else None

    @property
    def least_holes(self) -> int | None:
        """The minimum number of holes that the free bytes are in."""
        largest = self.bytes_per_bank - 1 if self.largest_free_bytes is None else self.largest_free_bytes
        if not self.fragmented or not self.free_bytes or largest <= 0:
            return None
        return ceil_div(self.free_bytes, largest)

    def lines(self) -> list[str]:
        cause = [] if self.memory is BufferType.L1_SMALL else self._cause_lines()
        shards = self.shard.lines() if self.shard else ()
        return [*self._need_lines(), *self._bank_lines(), *cause, *self.remarks, *shards, *self._owner_lines()]

    def _need_lines(self) -> Iterator[str]:
        name = self.memory.value.upper()
        size = f" of {format_bytes(self.total_bytes)}" if self.total_bytes is not None else ""
        if self.banks == 1:
            yield f"{name} buffer{size} in one bank: {self.bytes_per_bank:,} B"
            return
        banks = f" over {self.banks} banks" if self.banks is not None else ""
        yield f"{name} buffer{size}{banks}: {self.bytes_per_bank:,} B in the fullest{'' if banks else ' bank'}"
        if self.uneven_bytes > 0:
            yield f"its pages do not divide evenly: the other banks together hold {self.uneven_bytes:,} B less"

    def _bank_lines(self) -> Iterator[str]:
        figures = {"allocated": self.allocated_bytes, "free": self.free_bytes}
        parts = [f"{size:,} B {name}" for name, size in figures.items() if size is not None]
        if self.largest_free_bytes is not None:
            parts.append(f"largest block {self.largest_free_bytes:,} B")
        if self.bank_bytes is not None:
            yield f"a bank has {format_bytes(self.bank_bytes)}{': ' if parts else ''}{', '.join(parts)}"
        elif parts:
            yield f"a bank, whose size is not in the text: {', '.join(parts)}"

    def _cause_lines(self) -> Iterator[str]:
        need, free, largest = self.bytes_per_bank, self.free_bytes, self.largest_free_bytes
        if self.bank_bytes is None and self.memory is BufferType.L1 and need > max(L1_END_BYTES):
            yield f"no core has that much: an L1 ends at {max(L1_END_BYTES):,} B at most"
        if self.shortfall_bytes is not None and self.shortfall_bytes > 0:
            yield f"missing in each bank: {format_bytes(self.shortfall_bytes)}"
        elif free is not None and free < need:
            yield f"missing in each bank: {format_bytes(need - free)}, or more where the free bytes are in several holes"
        if self.fits_empty_bank is False and self.bank_bytes:
            yield f"it exceeds an empty bank: it needs {need / self.bank_bytes:,.2f} times its size in each"
        elif self.fragmented:
            holes = f"in at least {self.least_holes:,} holes, " if self.least_holes else ""
            biggest = f"the largest of {largest:,} B" if largest is not None else f"none of {need:,} B"
            yield f"fragmented: {free:,} B are free, but {holes}{biggest}"
        elif self.fits_empty_bank and self.allocated_bytes:
            yield "it fits into an empty bank: the cause is what is already allocated"
            if free is not None and largest is not None and largest < free < need:
                yield f"it is no fragmentation: all free bytes in one block would be {need - free:,} B too few"
        elif self.least_taken_bytes:
            yield (
                f"it fits into an empty bank: at least {self.least_taken_bytes:,} B of it are taken, by the call's own tensors"
                " or by others, unless what is free is in several holes"
            )
        yield from self._empty_bank_lines()

    def _empty_bank_lines(self) -> Iterator[str]:
        if self.empty_banks is None or (self.memory is BufferType.L1 and self.bytes_per_bank > max(L1_END_BYTES)):
            return
        least, most = self.empty_banks
        size = f"{least:,} B" if least == most else f"{least:,} to {most:,} B"
        region, largest = ("trace", least // 4) if self.memory is BufferType.DRAM else ("L1_SMALL", MAX_L1_SMALL)
        known = f"an empty {self.memory.value.upper()} bank has {size} in the builds known here, which are later ones"
        if self.bytes_per_bank + largest <= least:
            yield f"{known}: the buffer would fit into it, and then the cause is what is already allocated"
        elif self.bytes_per_bank > most:
            yield f"{known}: the buffer would exceed it"
        else:
            yield f"{known}, less any {region} region: the buffer may fit into it"

    def _owner_lines(self) -> Iterator[str]:
        if self.owner:
            yield f"these are exactly the bytes of the {self.owner}"
        elif self.memory is BufferType.L1_SMALL:
            return  # tables of programs: neither operands nor results
        elif self.owner_sought and self.owner_assumed:
            unknown = "in the layouts that the text has or TTNN usually gives them"
            yield f"no operand or result of the call has these bytes {unknown}: it may be a temporary tensor of TTNN"
        elif self.owner_sought:
            yield "no operand or result of the call has these bytes: it is a temporary tensor of TTNN"
        if self.resident_bytes is not None:
            yield f"allocated in each bank before the call: {format_bytes(self.resident_bytes)}"


def buffer_need(
    verdict: Verdict, tensors: Sequence[Allocation], fingerprint: Fingerprint, *, placed: bool
) -> BufferNeed | None:
    """Returns the buffer that ``verdict`` names; None where it names none, or no size.

    ``tensors``: of the call, on the banks of the message. ``placed``: their memory is known, not only assumed.
    """
    memory = memory_of(verdict)
    if memory is None or verdict.bytes_per_bank is None or not (verdict.banks or verdict.bank_bytes or verdict.free_bytes):
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
    is_small = memory is BufferType.L1_SMALL
    return BufferNeed(
        memory=memory,
        total_bytes=verdict.total_bytes,
        banks=verdict.banks,
        bytes_per_bank=verdict.bytes_per_bank,
        bank_bytes=verdict.bank_bytes,
        allocated_bytes=verdict.allocated_bytes,
        free_bytes=verdict.free_bytes,
        largest_free_bytes=verdict.largest_free_bytes,
        fragmented=not is_small and is_fragmented(verdict),
        owner=" or ".join(owners),
        owner_sought=bool(tensors),
        owner_assumed=not placed,
        resident_bytes=resident,
        l1_small_size=sufficient_size(verdict) if is_small else None,
        empty_banks=_empty_banks(verdict, memory, fingerprint),
        shard=shard_of(verdict, fingerprint),
        remarks=(*(region_lines(verdict) if is_small else ()), *odd_lines(verdict)),
    )


def is_fragmented(verdict: Verdict) -> bool:
    """Whether the free bytes of a bank would do in one block. Where the message lacks the largest block, no block did: the
    allocator's free bytes are multiples of what it rounds a size up to."""
    need, free, largest = verdict.bytes_per_bank, verdict.free_bytes, verdict.largest_free_bytes
    return need is not None and free is not None and need <= free and (largest is None or largest < need)


def _empty_banks(verdict: Verdict, memory: BufferType, fingerprint: Fingerprint) -> tuple[int, int] | None:
    """Returns the range of an empty bank in the known builds, where the message has no bank's size.

    Messages without it are of 2024 and 2025, when there were Grayskulls, whose L1 is smaller: only of a Wormhole's L1.
    """
    if verdict.bank_bytes is not None or memory not in (BufferType.L1, BufferType.DRAM):
        return None
    arch = fingerprint.arch
    if memory is BufferType.L1:
        bases = [match.base_bytes for match in fingerprint.matches if match.base_bytes is not None]
        banks = [L1_ENDS[arch] - base for base in bases] if arch == "wormhole_b0" else []
    else:
        banks = [bank.bank_bytes for bank in DRAM_BANKS if bank.arch == arch]
    return (min(banks), max(banks)) if banks else None
