"""What a device measured of a call: the placed tensors, the peaks of memory, the values against torch's."""

from __future__ import annotations

from dataclasses import dataclass

from ssinghal.core.json_values import Bytes, Dims, LineText, Number
from ssinghal.core.tensors import BufferType


@dataclass(frozen=True)
class PlacedTensor:
    """An operand or result on the device."""

    # "input 1", …, "output", or "output 1", … where there are several.
    label: LineText
    # In elements, as placed.
    shape: Dims
    dtype: LineText
    layout: LineText
    # The kind of memory and how the tensor is sharded.
    memory: LineText
    # Of the values alone, without padding.
    logical_bytes: Bytes
    # Of all pages, padding and alignment included.
    allocated_bytes: Bytes
    # What the allocator's view grew by, per bank.
    booked_bytes: Bytes | None = None


@dataclass(frozen=True)
class Usage:
    """Peaks of one call on an empty device, operands included, and what TTNN's program cache keeps of it afterwards.

    A core is one L1 bank.
    """

    # Tensors in L1, per core.
    l1_bytes: Bytes
    # Program buffers, per core: circular buffers, dataflow buffers and scratch.
    circular_bytes: Bytes
    dataflow_bytes: Bytes
    scratch_bytes: Bytes
    # Tensors and program buffers together, per core.
    l1_total_bytes: Bytes
    # Per bank.
    l1_small_bytes: Bytes
    dram_bytes: Bytes

    @property
    def program_bytes(self) -> int:
        return self.circular_bytes + self.dataflow_bytes + self.scratch_bytes

    def of_memory(self, kind: BufferType) -> int:
        """Returns the peak of tensors in one kind of memory, per bank."""
        return {BufferType.L1: self.l1_bytes, BufferType.DRAM: self.dram_bytes, BufferType.L1_SMALL: self.l1_small_bytes}[kind]


@dataclass(frozen=True)
class Comparison:
    """TTNN against torch, on a device that computes."""

    # None where shapes or finite values differ, so that there is no correlation and no error.
    pcc: Number | None
    max_abs_error: Number | None
    min_pcc: Number
    # Why they do not agree; empty where they do.
    fault: str = ""
