"""What is known of a case after it ran: status, resource, bytes. One record is one line of JSON.

These dataclasses are what is written and what is read back (``runs.reader``): the annotations hold the bounds of a valid line.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Annotated, Any

from ssinghal.core.case import Case, Source
from ssinghal.core.device_facts import NOT_OPENED, DeviceFacts, DeviceMode
from ssinghal.core.json_values import Bounds, Bytes, Dims, Finite, fields_of, plain, without_empty
from ssinghal.core.remedy_outcome import RemedyOutcome
from ssinghal.core.tensors import ONE_CHIP, BufferType, DType, Layout, Shape, TextEnum
from ssinghal.errors import cut

SCHEMA_VERSION = 1
# Of a Grayskull, a Wormhole and a Blackhole core: "max L1 size" in TTNN's words.
L1_END_BYTES = frozenset({1_048_576, 1_499_136, 1_572_864})

_MEMORY = r"(dram|l1)(:(height|width|block|nd)(@[0-9x,+-]+)?(:[0-9]+(x[0-9]+)*)?(:col_major)?)?"
MemoryText = Annotated[str, Bounds(pattern=f"^{_MEMORY}$")]
OutputMemoryText = Annotated[str, Bounds(pattern=f"^(same|ttnn|{_MEMORY})$")]


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


class Prediction(TextEnum):
    """The verdict of an estimate. ``unknown``: all that arithmetic can size fits, but TTNN allocates more in the call."""

    FITS = "fits"
    EXCEEDS = "exceeds"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Verdict:
    """How one call ended, by TTNN or by arithmetic, with every number of TTNN's message. Numbers that do not apply are None."""

    # How the call ended.
    status: Status
    # What ran out, for an OOM.
    resource: Resource | None = None
    # Where the call stopped: "input 2", "output", "program", "call" … No enum: operands are numbered, plans name steps.
    stage: str = ""
    # What the buffer needs in all its banks together.
    total_bytes: Bytes | None = None
    # What the fullest bank needs for the buffer.
    bytes_per_bank: Bytes | None = None
    # How many banks the buffer is spread over.
    banks: Bytes | None = None
    # The size of one bank.
    bank_bytes: Bytes | None = None
    # Of the bank, what other buffers take.
    allocated_bytes: Bytes | None = None
    # Of the bank, what is free, in all blocks together.
    free_bytes: Bytes | None = None
    # Of the bank, the largest free block.
    largest_free_bytes: Bytes | None = None
    # The address or size that program buffers reach on ``cores``.
    program_bytes: Bytes | None = None
    # The address or size that program buffers may reach.
    limit_bytes: Bytes | None = None
    # The L1 tensor that program buffers run into.
    tensor_address: Bytes | None = None
    # The range of cores that program buffers are on, as TTNN prints it.
    cores: str = ""
    # "circular", "dataflow" …: the program buffers that TTNN names.
    buffer_kind: str = ""
    # Who gave the verdict.
    decided_by: DecidedBy = DecidedBy.TTNN
    # The class of the Python exception.
    error_type: str = ""
    # TTNN's own text, or the reason of whoever decided.
    message: str = ""
    # TTNN's source file and line.
    thrown_at: str = ""

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


@dataclass(frozen=True)
class PlacedTensor:
    """An operand or result on the device."""

    # "input 1", …, "output", or "output 1", … where there are several.
    label: str
    # In elements, as placed.
    shape: Dims
    dtype: str
    layout: str
    # The kind of memory and how the tensor is sharded.
    memory: str
    # Of the values alone, without padding.
    logical_bytes: Bytes
    # Of all pages, padding and alignment included.
    allocated_bytes: Bytes
    # What the allocator's view grew by, per bank.
    booked_bytes: Bytes | None = None


@dataclass(frozen=True)
class EstimatedTensor:
    """A tensor of the call by arithmetic, whether or not it was ever placed."""

    label: str
    shape: Dims
    padded_shape: Dims
    dtype: str
    layout: str
    memory: str
    logical_bytes: Bytes
    allocated_bytes: Bytes
    bytes_per_bank: Bytes
    # What the allocator's view grows by, per bank.
    booked_bytes_per_bank: Bytes
    # Allocated over logical bytes.
    padding_factor: Finite
    # Every padded dim in words, the most expensive first.
    padding_cause: str = ""


@dataclass(frozen=True)
class Estimate:
    """What arithmetic predicts of a case, without a device (``estimation.estimator.MemoryEstimate`` explains the numbers)."""

    verdict: Prediction
    resource: Resource | None = None
    stage: str = ""
    reason: str = ""
    complete: bool = True
    temporaries: bool = False
    total_bytes: Bytes | None = None
    bytes_per_bank: Bytes | None = None
    banks: Bytes | None = None
    bank_bytes: Bytes | None = None
    allocated_bytes: Bytes | None = None
    free_bytes: Bytes | None = None
    largest_free_bytes: Bytes | None = None
    program_bytes: Bytes | None = None
    program_end: Bytes | None = None
    limit_bytes: Bytes | None = None
    shortfall_bytes: int | None = None
    peak_bytes_per_bank: Mapping[str, Bytes] = field(default_factory=dict)
    allocations: tuple[EstimatedTensor, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Returns the verdict with the numbers that apply, then every tensor."""
        return without_empty(fields_of(self))


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
    pcc: float | None
    max_abs_error: float | None
    min_pcc: float
    # Why they do not agree; empty where they do.
    fault: str = ""


@dataclass(frozen=True, kw_only=True)
class RecordedCase:
    """The call of a record, as ``Case.identity`` has it, and what names it."""

    # The id of the run that the record belongs to.
    run: str = ""
    # The name it was selected by, which may be an alias.
    op: str
    # Shapes of the tensor arguments, in elements.
    inputs: tuple[Dims, ...]
    # The other arguments by name.
    attrs: Mapping[str, Any]
    # The placement: type of the elements, tiles or rows, memory of the operands and of the result, as ``l1:height@8x8``.
    dtype: DType
    layout: Layout
    memory: MemoryText
    output_memory: OutputMemoryText
    # Whether rank-4 inputs, written NCHW, are placed as NHWC.
    channels_last: bool | None = None
    # Bytes of each core's L1_SMALL region.
    l1_small_size: int | None = None
    # Type of the result, where the call was given one.
    output_dtype: DType | None = None
    # What differs in the placement of each operand: dtype, layout, memory, shard_dim; None: nothing.
    operands: tuple[Mapping[str, Any] | None, ...] = ()
    # The operator's canonical name.
    operator: str
    # A hash of the fields above, by the canonical name.
    key: str
    # The same in readable form, unique for each case of an operator.
    id: str
    # The catalog's shape that the operands were built from.
    listed_shape: Dims | None = None


@dataclass(frozen=True, kw_only=True)
class Record(Verdict, RecordedCase):
    """What is known of a case after it ran: the fields of a line of ``records.jsonl``, in its order."""

    # What answered: a virtual device never computes, so there a ``fits`` is about memory alone.
    device_mode: DeviceMode
    # The board's name.
    board: str
    # The TTNN release, empty where none is installed.
    ttnn: str
    # Rows and columns of chips, each of which holds what the numbers report.
    mesh: tuple[int, int] = ONE_CHIP
    # TTNN's values against torch's; None where they were not compared.
    comparison: Comparison | None = None
    # Operands and results that were placed.
    tensors: tuple[PlacedTensor, ...] = ()
    # Peaks of the call on an empty device; None where there was no capture.
    usage: Usage | None = None
    # Why there are no peaks.
    usage_note: str = ""
    # Bytes per bank that operands and results took together when the call returned, by kind of memory.
    resident: Mapping[str, Bytes] = field(default_factory=dict)
    # What arithmetic predicts, without a device.
    estimate: Estimate | None = None
    # What a search for remedies found, if the case ran out of memory and one was made.
    remedies: RemedyOutcome | None = None
    # Bytes per bank that the call left allocated (a leak), by kind of memory.
    left_allocated: Mapping[str, Bytes] = field(default_factory=dict)
    # The catalog lines that the case comes from.
    sources: tuple[Source, ...] = ()
    # Node id of the test that ran it.
    test: str = ""
    # Seconds that it took.
    duration_s: Finite = 0.0

    def __post_init__(self) -> None:
        """Raises ValueError for a verdict on memory where none was measured, or the contrary."""
        golden = self.device_mode == DeviceMode.GOLDEN
        if self.status in ((Status.FITS, Status.OOM) if golden else (Status.AGREES,)):
            raise ValueError(f"status {self.status} in device mode {self.device_mode}: golden functions measure no memory")

    @classmethod
    def of(cls, case: Case, verdict: Verdict, *, device_mode: DeviceMode, board: str, ttnn: str, **measured: Any) -> Record:
        """Returns the record of ``case``, with whatever was ``measured`` by the names of the fields."""
        placement = case.placement
        return cls(
            **{name: getattr(verdict, name) for name in _VERDICT},
            op=case.name,
            inputs=case.inputs,
            attrs=case.attrs,
            dtype=placement.dtype,
            layout=placement.layout,
            memory=placement.memory_text,
            output_memory=placement.output_text,
            channels_last=placement.channels_last,
            l1_small_size=placement.l1_small_bytes,
            output_dtype=placement.output_dtype,
            operands=tuple(operand.to_json() for operand in placement.operands),
            operator=case.operator,
            key=case.key,
            id=case.id,
            listed_shape=case.listed_shape,
            device_mode=device_mode,
            board=board,
            ttnn=ttnn,
            sources=case.sources,
            **measured,
        )

    @property
    def verdict(self) -> Verdict:
        return Verdict(*(getattr(self, name) for name in _VERDICT))

    @property
    def is_oom(self) -> bool:
        return self.status is Status.OOM

    @property
    def sentence(self) -> str:
        """What ran out, by how much, at which step; else the status and its reason."""
        return sentence(self)

    @property
    def numerics(self) -> str:
        return "compared" if self.comparison else "not run"

    @property
    def allocated_to_logical(self) -> float | None:
        """Allocated over logical bytes of all operands and results that were placed."""
        logical = sum(t.logical_bytes for t in self.tensors)
        return round(sum(t.allocated_bytes for t in self.tensors) / logical, 4) if logical else None

    @property
    def allocations(self) -> tuple[EstimatedTensor, ...]:
        return self.estimate.allocations if self.estimate else ()

    @property
    def failed(self) -> EstimatedTensor | None:
        """The tensor that did not fit, for an OOM of a tensor that arithmetic knows."""
        return next((a for a in self.allocations if a.label == self.stage), None) if self.is_oom else None

    @property
    def call_shortfall_bytes(self) -> int | None:
        """Missing bytes of the whole call, where ``shortfall_bytes`` are those of the buffer that it stopped at: as many as
        operands and results together exceed a bank by, in TTNN's own capture of the call or, without one, by arithmetic. At
        least ``shortfall_bytes``, and these alone for program buffers."""
        missing = self.shortfall_bytes
        kind = _BANKS.get(self.resource) if self.resource else None
        if missing is None or kind is None or self.bank_bytes is None:
            return missing
        if self.usage is not None:
            needed = self.usage.of_memory(kind)
        else:
            needed = self.estimate.peak_bytes_per_bank.get(kind.value, 0) if self.estimate else 0
        return max(missing, needed - self.bank_bytes)

    @cached_property
    def shape(self) -> Shape:
        """The shape that the case is known by: the catalog's, else its largest operand's, else its largest result's, else ().

        As a catalog or model has it (NCHW), not as it is placed.
        """
        if self.listed_shape is not None:
            return self.listed_shape
        shapes = self.inputs or tuple(a.shape for a in self.allocations)
        return max(shapes, key=math.prod, default=())

    @cached_property
    def subject(self) -> EstimatedTensor | None:
        """The tensor that has ``shape``, as placed; where the call makes another from it, the largest of as many elements."""
        last = (self.shape[0], *self.shape[2:], self.shape[1]) if len(self.shape) == 4 else self.shape
        count = math.prod(self.shape)
        alike = [a for a in self.allocations if math.prod(a.shape) == count]
        for wanted in (last, self.shape) if self.channels_last is not False else (self.shape, last):
            for allocation in alike:
                if allocation.shape == wanted:
                    return allocation
        return max(alike, key=lambda a: a.allocated_bytes, default=None)

    @cached_property
    def calls(self) -> int:
        """How often models make this very call. Of two captures of one model at one input (the same calls at two levels)
        the one with more calls counts."""
        counts: Counter[tuple[str, str, str]] = Counter()
        for source in self.sources:
            counts[source.model, source.input_size, source.catalog] += source.count
        most: dict[tuple[str, str], int] = {}
        for (model, input_size, _), calls in counts.items():
            most[model, input_size] = max(calls, most.get((model, input_size), 0))
        return sum(most.values())

    @property
    def callers(self) -> tuple[str, ...]:
        """Models that make this very call."""
        return tuple(sorted({s.model for s in self.sources if s.model and s.count}))

    def to_json(self) -> dict[str, Any]:
        """Returns one flat object of plain values: the case's identity, then the verdict's fields, then what was measured."""
        values = {key: plain(getattr(self, key)) for key in _KEYS}
        if self.mesh == ONE_CHIP:
            del values["mesh"]
        held = {key: value for key, value in values.items() if key not in _OPTIONAL or value not in (None, "", {})}
        return {"schema": SCHEMA_VERSION, **held}


_BANKS = {
    Resource.L1_BUFFER: BufferType.L1,
    Resource.DRAM_BUFFER: BufferType.DRAM,
    Resource.L1_SMALL_BUFFER: BufferType.L1_SMALL,
}
_VERDICT = tuple(f.name for f in fields(Verdict))
# The keys of a line: the fields, and what is computed from them, each ahead of a field.
_COMPUTED = {"device_mode": "shortfall_bytes", "comparison": "numerics", "usage": "allocated_to_logical"}
_KEYS = [key for f in fields(Record) for key in (_COMPUTED.get(f.name), f.name) if key]
# Left out of a line where there is nothing to report.
_OPTIONAL = {*_VERDICT, "shortfall_bytes", "listed_shape", "usage_note", "remedies", "left_allocated", "test"}


@dataclass(frozen=True)
class RunInfo:
    """What all records of one run share; written to ``run.json`` before the first record."""

    # The run's id, which sorts by the time that it started.
    run: str = ""
    # When it started.
    started: str = ""
    # The command line.
    command: str = ""
    # The checked-out commit, with "-dirty" where files differ.
    commit: str = ""
    # What it opened.
    device: DeviceFacts = NOT_OPENED
    # Versions of the packages that decide a verdict.
    versions: Mapping[str, str] = field(default_factory=dict)
    # The options that were given.
    options: Mapping[str, Any] = field(default_factory=dict)
    # Changes when old fields change their meaning.
    schema: int = SCHEMA_VERSION
    # How many cases were selected; None while that is not known.
    selected: Bytes | None = None
    # When it ended; None while it goes on.
    finished: str | None = None
    # Cases by status.
    totals: Mapping[str, Bytes] = field(default_factory=dict)
    # How many cases it ended before; each has a ``not_run`` record. 0 in runs of versions that did not count them.
    unreached: Bytes = 0

    @property
    def interruption(self) -> str:
        """A line on the cases that the run did not reach; empty if there are none."""
        return f"interrupted: {self.unreached:,} of {self.selected or 0:,} cases were not run" if self.unreached else ""


FAULTS = (Status.ERROR, Status.MISMATCH, Status.CRASH, Status.TIMEOUT)


MESSAGE_LIMIT = 300  # of TTNN's text, in one line of output; a record has it in full


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


Outcome = tuple[str, str | None]  # a status, and the resource of an OOM
