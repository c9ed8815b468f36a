"""How a call ended: status, resource, bytes; and the one line that states it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ssinghal.core.json_values import Bytes, LineText, RequestedBytes, fields_of, without_empty
from ssinghal.core.tensors import TextEnum
from ssinghal.errors import cut

# Of a Grayskull, a Wormhole and a Blackhole core: "max L1 size" in TTNN's words.
L1_END_BYTES = frozenset({1_048_576, 1_499_136, 1_572_864})
MESSAGE_LIMIT = 300  # of TTNN's text, in one line of output; a record has it in full

Outcome = tuple[str, str | None]  # a status, and the resource of an OOM


class Status(TextEnum):
    """How a case ended; every selected case has exactly one."""

    FITS = "fits"  # it ran, and its results are as they should be
    AGREES = "agrees"  # its values are as they should be, but no memory was measured: only in device mode golden
    OOM = "oom"  # a memory ran out: see ``resource``
    MISMATCH = "mismatch"  # it returned another shape, dtype, layout, memory or (on a card) other values
    UNSUPPORTED = "unsupported"  # a known limitation of TTNN or of the operator
    INVALID = "invalid"  # a call that makes no sense, such as a missing argument
    ERROR = "error"  # an error text with no known meaning
    CRASH = "crash"  # the process died
    TIMEOUT = "timeout"  # it took longer than it may
    NOT_RUN = "not_run"  # interrupted, no device, or too much work for the host


FAULTS = (Status.ERROR, Status.MISMATCH, Status.CRASH, Status.TIMEOUT)


class Resource(TextEnum):
    """What ran out."""

    L1_BUFFER = "l1_buffer"  # a buffer finds no room in the banks of L1
    DRAM_BUFFER = "dram_buffer"  # the same in DRAM
    L1_SMALL_BUFFER = "l1_small_buffer"  # the same in the region for tables of pools and convolutions
    TRACE_BUFFER = "trace_buffer"  # the same in the region of trace mode
    CIRCULAR_BUFFER = "circular_buffer"  # program buffers are larger than L1
    CLASH = "clash"  # program buffers reach into an L1 tensor
    KERNEL_CONFIG = "kernel_config"  # arguments and semaphores of kernels exceed their region
    FRAGMENTATION = "fragmentation"  # enough bytes are free, but in no single block
    HOST = "host"  # memory of the host


def memory_verdict(status: Status, resource: Resource | None = None) -> bool | None:
    """Returns whether a call or a model fits. None if its run decides neither: it was invalid, unsupported, timed out, crashed,
    or the host ran out of memory."""
    if status is Status.FITS:
        return True
    return False if status is Status.OOM and resource is not Resource.HOST else None


class DecidedBy(TextEnum):
    """Who gave a verdict."""

    TTNN = "ttnn"
    ARITHMETIC = "arithmetic"
    HARNESS = "harness"
    REGISTRY = "registry"  # a known limitation of the operator
    TORCH = "torch"  # by the values that it expects


@dataclass(frozen=True)
class Verdict:
    """How one call ended, by TTNN or by arithmetic, with every number of TTNN's message. Numbers that do not apply are None."""

    # How the call ended.
    status: Status
    # What ran out, for an OOM.
    resource: Resource | None = None
    # Where the call stopped: "input 2", "output", "program", "call" … No enum: operands are numbered, plans name steps.
    stage: LineText = ""
    # What the buffer needs in all its banks together.
    total_bytes: RequestedBytes | None = None
    # What the fullest bank needs for the buffer.
    bytes_per_bank: RequestedBytes | None = None
    # How many banks the buffer is spread over.
    banks: Bytes | None = None
    # The size of one bank.
    bank_bytes: Bytes | None = None
    # Of the bank, what other buffers take.
    allocated_bytes: RequestedBytes | None = None
    # Of the bank, what is free, in all blocks together.
    free_bytes: RequestedBytes | None = None
    # Of the bank, the largest free block.
    largest_free_bytes: RequestedBytes | None = None
    # The address or size that program buffers reach on ``cores``.
    program_bytes: RequestedBytes | None = None
    # The address or size that program buffers may reach.
    limit_bytes: RequestedBytes | None = None
    # The L1 tensor that program buffers run into.
    tensor_address: RequestedBytes | None = None
    # The range of cores that program buffers are on, as TTNN prints it.
    cores: LineText = ""
    # "circular", "dataflow" …: the program buffers that TTNN names.
    buffer_kind: LineText = ""
    # Who gave the verdict.
    decided_by: DecidedBy = DecidedBy.TTNN
    # The class of the Python exception.
    error_type: LineText = ""
    # TTNN's own text, or the reason of whoever decided.
    message: str = ""
    # TTNN's source file and line.
    thrown_at: LineText = ""

    @property
    def stopped_at_operand(self) -> bool:
        """Whether an operand could not be placed, so that the call itself was never tried."""
        return self.stage.startswith("input")

    @property
    def ends_at_address(self) -> bool:
        """Whether ``program_bytes`` is the address where program buffers end, as TTNN's own check of programs names it, and not
        their size, as operators that check it themselves name it."""
        return self.resource is Resource.CLASH or self.limit_bytes in L1_END_BYTES

    @property
    def shortfall_bytes(self) -> int | None:
        """Missing bytes: per bank for a buffer (against the largest free block), per core for program buffers."""
        if self.program_bytes is not None and self.limit_bytes is not None:
            return self.program_bytes - self.limit_bytes
        if self.program_bytes is not None and self.tensor_address is not None:
            return self.program_bytes - self.tensor_address
        if self.bytes_per_bank is not None and self.largest_free_bytes is not None:
            return self.bytes_per_bank - self.largest_free_bytes
        return None

    def to_json(self) -> dict[str, Any]:
        """Returns the fields that hold something."""
        return without_empty(fields_of(self))


_BUFFERS = {
    Resource.L1_BUFFER: "L1",
    Resource.DRAM_BUFFER: "DRAM",
    Resource.L1_SMALL_BUFFER: "L1_SMALL",
    Resource.TRACE_BUFFER: "trace",
    Resource.FRAGMENTATION: "a",
}


def sentence(verdict: Verdict) -> str:
    """Returns one line: what ran out, by how much, at which step.

    >>> sentence(Verdict(Status.OOM, Resource.L1_BUFFER, "output", bytes_per_bank=532480, free_bytes=328352))
    'L1 bank needs 532,480 B, 328,352 B free (output)'
    """
    if verdict.status is not Status.OOM or verdict.resource is None:
        return cut(verdict.message, MESSAGE_LIMIT) or verdict.status.value
    at = f" ({verdict.stage})" if verdict.stage else ""
    if verdict.resource in _BUFFERS and verdict.bytes_per_bank is not None:
        return f"{_BUFFERS[verdict.resource]} bank needs {verdict.bytes_per_bank:,} B{_room(verdict)}{at}"
    if verdict.resource is Resource.CIRCULAR_BUFFER and verdict.program_bytes is not None:
        if verdict.ends_at_address:
            ends = f"end at {verdict.program_bytes:,} B, L1 at {verdict.limit_bytes:,} B"
            return f"{verdict.buffer_kind or 'program'} buffers {ends}{at}"
        limit = f" of {verdict.limit_bytes:,} B" if verdict.limit_bytes is not None else ""
        return f"{verdict.buffer_kind or 'program'} buffers need {verdict.program_bytes:,} B{limit} per core{at}"
    if verdict.resource is Resource.CLASH and verdict.program_bytes is not None:
        tensor = f", an L1 tensor begins at {verdict.tensor_address:,} B" if verdict.tensor_address is not None else ""
        return f"{verdict.buffer_kind or 'program'} buffers end at {verdict.program_bytes:,} B{tensor}{at}"
    return f"{verdict.resource.value}: {cut(verdict.message, MESSAGE_LIMIT)}{at}"


def _room(verdict: Verdict) -> str:
    """Returns what a bank has for the buffer, if the message states it: free bytes, else its size."""
    if verdict.free_bytes is None:
        return f" of a bank of {verdict.bank_bytes:,} B" if verdict.bank_bytes is not None else ""
    is_fragmented = verdict.resource is Resource.FRAGMENTATION and verdict.largest_free_bytes is not None
    return f", {verdict.free_bytes:,} B free" + (f", largest block {verdict.largest_free_bytes:,} B" if is_fragmented else "")
