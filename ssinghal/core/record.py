"""What is known of a case after it ran: status, resource, bytes. One record is one JSON line."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from ssinghal.core.case import Case
from ssinghal.core.remedy_outcome import RemedyOutcome
from ssinghal.core.tensors import ONE_CHIP, Shape, TextEnum
from ssinghal.errors import cut

SCHEMA_VERSION = 1
L1_END_BYTES = frozenset({1_499_136, 1_572_864})  # of a Wormhole and a Blackhole core: "max L1 size" in TTNN's words


class Status(TextEnum):
    """How a case ended; every selected case has exactly one."""

    FITS = "fits"
    OOM = "oom"
    MISMATCH = "mismatch"
    UNSUPPORTED = "unsupported"
    INVALID = "invalid"
    ERROR = "error"
    CRASH = "crash"
    TIMEOUT = "timeout"
    NOT_RUN = "not_run"


class Resource(TextEnum):
    """What ran out."""

    L1_BUFFER = "l1_buffer"
    DRAM_BUFFER = "dram_buffer"
    L1_SMALL_BUFFER = "l1_small_buffer"
    TRACE_BUFFER = "trace_buffer"
    CIRCULAR_BUFFER = "circular_buffer"
    CLASH = "clash"
    KERNEL_CONFIG = "kernel_config"
    FRAGMENTATION = "fragmentation"
    HOST = "host"


@dataclass(frozen=True)
class Verdict:
    """How one call ended, by TTNN or by arithmetic, with every number of TTNN's message.

    Buffers: ``total_bytes`` over ``banks``, ``bytes_per_bank`` needed, ``bank_bytes`` available, of which
    ``allocated_bytes``/``free_bytes``/``largest_free_bytes`` per bank. Program buffers: ``program_bytes`` is the address or
    size that ``buffer_kind`` buffers reach on ``cores``, ``limit_bytes`` what they may reach, ``tensor_address`` the L1 tensor
    that they run into. Numbers that do not apply are None.

    ``status`` and ``resource``: how it ended, and what ran out. ``stage``: the operand, output or call that failed.
    ``decided_by``: ``ttnn``, ``arithmetic``, ``harness``, ``registry`` or ``torch``. ``error_type``, ``message`` and
    ``thrown_at``: the error as TTNN raised it, and the place in its source.
    """

    status: Status
    resource: Resource | None = None
    stage: str = ""
    total_bytes: int | None = None
    bytes_per_bank: int | None = None
    banks: int | None = None
    bank_bytes: int | None = None
    allocated_bytes: int | None = None
    free_bytes: int | None = None
    largest_free_bytes: int | None = None
    program_bytes: int | None = None
    limit_bytes: int | None = None
    tensor_address: int | None = None
    cores: str = ""
    buffer_kind: str = ""
    decided_by: str = "ttnn"
    error_type: str = ""
    message: str = ""
    thrown_at: str = ""

    @property
    def ends_at_address(self) -> bool:
        """Whether ``program_bytes`` is the address where program buffers end, as TTNN's own check of programs names it, and not
        their size, which operators name that check by themselves."""
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


@dataclass(frozen=True)
class PlacedTensor:
    """An operand or result on the device. ``booked_bytes`` is what the allocator's view grew by, per bank."""

    label: str
    shape: tuple[int, ...]
    dtype: str
    layout: str
    memory: str
    logical_bytes: int
    allocated_bytes: int
    booked_bytes: int | None = None


@dataclass(frozen=True)
class Comparison:
    """TTNN against torch, on a device that computes. ``fault`` says why they do not agree; empty where they do."""

    pcc: float
    max_abs_error: float
    min_pcc: float
    fault: str = ""

    def to_json(self) -> dict[str, Any]:
        """JSON has no NaN and no infinity: where shapes or finite values differ there is no PCC and no error."""
        return {k: None if isinstance(v, float) and not math.isfinite(v) else v for k, v in asdict(self).items()}


@dataclass(frozen=True)
class Record:
    """What is known of a case after it ran: one line of ``records.jsonl``.

    A virtual device never computes, so that ``comparison`` is None there, and ``fits`` is about memory alone.

    Attributes:
        case: All that decides the verdict, as ``probe --from`` reads it: operator, shapes in elements, attributes, placement.
        key: Content hash of ``case``, the operator counted under its own name.
        id: Readable text, unique for each case of an operator.
        operator: The operator's own name.
        verdict: How it ended, with the numbers of TTNN's message.
        device_mode: ``silicon``, ``simulator``, ``virtual``, or ``none`` where no device answered.
        board: Name of the board.
        ttnn: TTNN release.
        estimate: What arithmetic foresaw, as ``MemoryEstimate.to_json`` writes it.
        tensors: Operands and results with their bytes.
        usage: Peaks in bytes, per core or bank, of the call on an empty device.
        usage_note: Why there are no peaks.
        resident: Bytes per bank that operands and results held together when the call returned, by kind of memory.
        comparison: TTNN's values against torch's, on a device that computes.
        left_allocated: Bytes per bank that were still allocated after all tensors were freed, by kind of memory.
        sources: The catalogs, and for captured calls the models, that the case comes from.
        listed_shape: The shape of the catalog that the operands were built from.
        remedies: What makes the case fit, for an OOM if that was searched for.
        test: Node id of the test that ran it.
        run: Id of the run.
        duration_s: Seconds that it took.
        mesh: Rows and columns of chips, each of which holds what the numbers state.
    """

    case: Mapping[str, Any]
    key: str
    id: str
    operator: str
    verdict: Verdict
    device_mode: str
    board: str
    ttnn: str
    estimate: Mapping[str, Any] | None = None
    tensors: tuple[PlacedTensor, ...] = ()
    usage: Mapping[str, int] | None = None
    usage_note: str = ""
    resident: Mapping[str, int] = field(default_factory=dict)
    comparison: Comparison | None = None
    left_allocated: Mapping[str, int] = field(default_factory=dict)
    sources: tuple[Mapping[str, Any], ...] = ()
    listed_shape: Shape | None = None
    remedies: RemedyOutcome | None = None
    test: str = ""
    run: str = ""
    duration_s: float = 0.0
    mesh: tuple[int, int] = ONE_CHIP

    @classmethod
    def of(cls, case: Case, verdict: Verdict, *, device_mode: str, board: str, ttnn: str, **measured: Any) -> Record:
        """The record of ``case``, with whatever was ``measured`` by the names of the fields."""
        return cls(
            case.identity(),
            case.key,
            case.id,
            case.operator,
            verdict,
            device_mode,
            board,
            ttnn,
            sources=tuple(asdict(source) for source in case.sources),
            listed_shape=case.listed_shape,
            **measured,
        )

    @property
    def status(self) -> Status:
        return self.verdict.status

    @property
    def padding_ratio(self) -> float | None:
        """Allocated over logical bytes of all operands and results."""
        logical = sum(t.logical_bytes for t in self.tensors)
        return sum(t.allocated_bytes for t in self.tensors) / logical if logical else None

    def to_json(self) -> dict[str, Any]:
        """One flat object of plain values: the case's identity, then the verdict's fields, then what was measured."""
        fields = {k: v for k, v in asdict(self.verdict).items() if v not in (None, "")}
        verdict = {k: v.value if isinstance(v, TextEnum) else v for k, v in fields.items()}
        shortfall = self.verdict.shortfall_bytes
        ratio = self.padding_ratio
        return {
            "schema": SCHEMA_VERSION,
            "run": self.run,
            **self.case,
            "operator": self.operator,
            "key": self.key,
            "id": self.id,
            **({"listed_shape": list(self.listed_shape)} if self.listed_shape is not None else {}),
            **verdict,
            **({"shortfall_bytes": shortfall} if shortfall is not None else {}),
            "device_mode": self.device_mode,
            "board": self.board,
            "ttnn": self.ttnn,
            **({"mesh": list(self.mesh)} if self.mesh != ONE_CHIP else {}),
            "numerics": "compared" if self.comparison else "not run",
            "comparison": self.comparison.to_json() if self.comparison else None,
            "tensors": [asdict(t) for t in self.tensors],
            "allocated_to_logical": round(ratio, 4) if ratio is not None else None,
            "usage": dict(self.usage) if self.usage is not None else None,
            **({"usage_note": self.usage_note} if self.usage_note else {}),
            "resident": dict(self.resident),
            "estimate": self.estimate,
            **({"remedies": self.remedies.to_json()} if self.remedies is not None else {}),
            **({"left_allocated": dict(self.left_allocated)} if self.left_allocated else {}),
            "sources": list(self.sources),
            **({"test": self.test} if self.test else {}),
            "duration_s": round(self.duration_s, 6),
        }


@dataclass(frozen=True)
class RunInfo:
    """What all records of one run share; written to ``run.json`` before the first record."""

    run: str
    started: str
    command: str
    commit: str
    device: Mapping[str, Any]
    versions: Mapping[str, str]
    options: Mapping[str, Any]
    schema: int = SCHEMA_VERSION
    selected: int | None = None
    finished: str | None = None
    totals: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Usage:
    """Peaks of one call on an empty device, operands included, and what TTNN's program cache keeps of it afterwards.

    ``l1_bytes``, ``program_bytes`` (circular + dataflow buffers and scratch) and ``total_bytes`` are per core, where a core is
    an L1 bank; ``dram_bytes`` and ``l1_small_bytes`` are per bank.
    """

    l1_bytes: int
    circular_bytes: int
    dataflow_bytes: int
    scratch_bytes: int
    l1_total_bytes: int
    l1_small_bytes: int
    dram_bytes: int


FAULTS = (Status.ERROR, Status.MISMATCH, Status.CRASH, Status.TIMEOUT)


MESSAGE_LIMIT = 300  # of what TTNN wrote, in a line of ours; a record has it whole


_BUFFERS = {
    Resource.L1_BUFFER: "L1",
    Resource.DRAM_BUFFER: "DRAM",
    Resource.L1_SMALL_BUFFER: "L1_SMALL",
    Resource.TRACE_BUFFER: "trace",
    Resource.FRAGMENTATION: "a",
}


def sentence(verdict: Verdict) -> str:
    """One line: what ran out, by how much, at which step.

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
    """What a bank has for the buffer, as far as the message says: free bytes, else its size."""
    if verdict.free_bytes is None:
        return f" of a bank of {verdict.bank_bytes:,} B" if verdict.bank_bytes is not None else ""
    is_fragmented = verdict.resource is Resource.FRAGMENTATION and verdict.largest_free_bytes is not None
    return f", {verdict.free_bytes:,} B free" + (f", largest block {verdict.largest_free_bytes:,} B" if is_fragmented else "")


Outcome = tuple[str, str | None]  # a status, and the resource of an OOM
