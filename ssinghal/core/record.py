"""What is known of a case after it ran. One record is one line of JSON.

These dataclasses, and those of their fields, are what is written and what is read back (``runs.parsing``): the annotations hold
the bounds of a valid line.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from hashlib import blake2b
from typing import Annotated, Any

from ssinghal.core.case import Case, Source
from ssinghal.core.device_facts import DeviceMode
from ssinghal.core.estimate import Estimate, EstimatedTensor
from ssinghal.core.json_values import Bounds, Bytes, Dims, Finite, LineText, plain_values
from ssinghal.core.measured import Comparison, PlacedTensor, Usage
from ssinghal.core.remedy_outcome import RemedyOutcome
from ssinghal.core.tensors import ONE_CHIP, BufferType, DType, Layout, Shape
from ssinghal.core.verdict import Resource, Status, Verdict, sentence

SCHEMA_VERSION = 1

_MEMORY = r"(dram|l1)(:(height|width|block|nd)(@[0-9x,+-]+)?(:[0-9]+(x[0-9]+)*)?(:col_major)?)?"
MemoryText = Annotated[str, Bounds(pattern=f"^{_MEMORY}$")]
OutputMemoryText = Annotated[str, Bounds(pattern=f"^(same|ttnn|{_MEMORY})$")]


@dataclass(frozen=True, kw_only=True)
class RecordedCase:
    """The call of a record, as ``Case.identity`` has it, and what names it."""

    # The id of the run that the record belongs to.
    run: LineText = ""
    # The name it was selected by, which may be an alias.
    op: LineText
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
    operator: LineText
    # A hash of the fields above, by the canonical name.
    key: LineText
    # The same in readable form, unique for each case of an operator.
    id: LineText
    # The catalog's shape that the operands were built from.
    listed_shape: Dims | None = None


@dataclass(frozen=True, kw_only=True)
class Record(Verdict, RecordedCase):
    """What is known of a case after it ran: the fields of a line of ``records.jsonl``, in its order."""

    # What answered: a virtual device never computes, so there a ``fits`` is about memory alone.
    device_mode: DeviceMode
    # The board's name.
    board: LineText
    # The TTNN release, empty where none is installed.
    ttnn: LineText
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
    resident: Mapping[LineText, Bytes] = field(default_factory=dict)
    # What arithmetic predicts, without a device.
    estimate: Estimate | None = None
    # What a search for remedies found, if the case ran out of memory and one was made.
    remedies: RemedyOutcome | None = None
    # Bytes per bank that the call left allocated (a leak), by kind of memory.
    left_allocated: Mapping[LineText, Bytes] = field(default_factory=dict)
    # The catalog lines that the case comes from.
    sources: tuple[Source, ...] = ()
    # In what the options of the run altered the call of the catalogs: ``Case.altered``.
    altered: tuple[LineText, ...] | None = None
    # Node id of the test that ran it.
    test: LineText = ""
    # How the first attempt ended, where the process was lost and the case was repeated alone: this is its second answer.
    retried: str = ""
    # The id of the earlier run that this answer was taken from; empty where the case was run.
    taken_from: LineText = ""
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
            altered=case.altered,
            **measured,
        )

    def standing_for(self, case: Case, **changes: Any) -> Record:
        """Returns the record of a case with the same key: an equal call, which may have another name and other sources.
        ``changes``: of further fields."""
        own = {
            "op": case.name,
            "id": case.id,
            "listed_shape": case.listed_shape,
            "sources": case.sources,
            "altered": case.altered,
        }
        return replace(self, **{**own, **changes})

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
    def was_searched(self) -> bool:
        """Whether remedies were searched for."""
        return self.remedies is not None

    @property
    def allocations(self) -> tuple[EstimatedTensor, ...]:
        return self.estimate.allocations if self.estimate else ()

    @property
    def placed_bytes(self) -> int:
        """Allocated bytes of all operands and results that were placed."""
        return sum(tensor.allocated_bytes for tensor in self.tensors)

    @property
    def largest_bytes(self) -> int:
        """Allocated bytes of the largest tensor that arithmetic knows."""
        return max((tensor.allocated_bytes for tensor in self.allocations), default=0)

    @property
    def call_digest(self) -> bytes:
        """A digest of the call without its placement."""
        call = json.dumps([self.operator, self.inputs, dict(self.attrs)], sort_keys=True)
        return blake2b(call.encode(), digest_size=16).digest()

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
        values = plain_values(self, _KEYS)
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
_OPTIONAL = {
    *_VERDICT,
    "shortfall_bytes",
    "listed_shape",
    "usage_note",
    "remedies",
    "left_allocated",
    "test",
    "altered",
    "retried",
    "taken_from",
}
