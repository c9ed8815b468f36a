"""Lines of ``records.jsonl`` and the head ``run.json``, as typed values. Imports neither torch nor ttnn.

A value that no run of this program writes (a negative size, an unknown status, a text where a number belongs) makes its line no
record.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import fields
from functools import cached_property
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from ssinghal.core.case import Case, OutputMemory
from ssinghal.core.record import Resource, Status, Usage, Verdict, sentence
from ssinghal.core.remedy_outcome import RemedyOutcome
from ssinghal.core.tensors import BufferType, DType, Layout, Shape, TextEnum
from ssinghal.errors import InvalidCase
from ssinghal.operators.case_json import KEYS, case_from_json

Bytes = Annotated[int, Field(ge=0, lt=2**63)]
Finite = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Dims = tuple[Bytes, ...]


class _Stored(BaseModel):
    """Fields of later versions are let through: only a new schema number changes the meaning of the old ones."""

    model_config = ConfigDict(frozen=True, extra="ignore", strict=True)


class StoredTensor(_Stored):
    """A tensor that was on the device; ``booked_bytes`` per bank, by the allocator's own view."""

    label: str
    shape: Dims
    dtype: str
    layout: str
    memory: str
    logical_bytes: Bytes
    allocated_bytes: Bytes
    booked_bytes: Bytes | None = None


class StoredAllocation(_Stored):
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
    booked_bytes_per_bank: Bytes
    padding_factor: Finite
    padding_cause: str = ""


class StoredEstimate(_Stored):
    verdict: str
    reason: str = ""
    resource: str | None = None
    stage: str = ""
    complete: bool = True
    temporaries: bool = False
    program_bytes: Bytes | None = None
    shortfall_bytes: int | None = None
    peak_bytes_per_bank: Mapping[str, Bytes] = {}
    allocations: tuple[StoredAllocation, ...] = ()


class StoredSource(_Stored):
    """``count`` 0: the model has a tensor of the shape, but is not known to make this very call."""

    catalog: str
    model: str = ""
    input_size: str = ""
    count: Bytes = 1
    module_path: str = ""


_USAGE = frozenset(f.name for f in fields(Usage))


def _whole_usage(value: Mapping[str, Bytes]) -> Mapping[str, Bytes]:
    if not value.keys() >= _USAGE:
        raise ValueError(f"needs {', '.join(sorted(_USAGE - value.keys()))}")
    return value


def _of_no_negative_size(value: RemedyOutcome | None) -> RemedyOutcome | None:
    if value is not None and min(value.sizes) < 0:
        raise ValueError("a size below 0")
    return value


def _one_of(kind: type[TextEnum]) -> AfterValidator:
    def known(value: str) -> str:
        if value not in {member.value for member in kind}:
            raise ValueError(f"no {kind.__name__}: {value}")
        return value

    return AfterValidator(known)


class StoredRecord(_Stored):
    """One line of ``records.jsonl``: the fields of ``Record.to_json`` that are read back."""

    run: str = ""
    op: str
    operator: str
    key: str
    id: str
    inputs: tuple[Dims, ...]
    attrs: Mapping[str, Any]
    dtype: Annotated[str, _one_of(DType)]
    layout: Annotated[str, _one_of(Layout)]
    memory: Annotated[str, _one_of(BufferType)]
    output_memory: Annotated[str, _one_of(OutputMemory)]
    channels_last: bool | None = None
    l1_small_size: int | None = None
    listed_shape: Dims | None = None
    status: Status
    resource: Resource | None = None
    stage: str = ""
    total_bytes: Bytes | None = None
    bytes_per_bank: Bytes | None = None
    banks: Bytes | None = None
    bank_bytes: Bytes | None = None
    allocated_bytes: Bytes | None = None
    free_bytes: Bytes | None = None
    largest_free_bytes: Bytes | None = None
    program_bytes: Bytes | None = None
    limit_bytes: Bytes | None = None
    tensor_address: Bytes | None = None
    shortfall_bytes: int | None = None
    cores: str = ""
    buffer_kind: str = ""
    decided_by: str = ""
    error_type: str = ""
    message: str = ""
    device_mode: str
    board: str
    ttnn: str
    numerics: str = "not run"
    tensors: tuple[StoredTensor, ...] = ()
    usage: Annotated[Mapping[str, Bytes], AfterValidator(_whole_usage)] | None = None
    usage_note: str = ""
    resident: Mapping[str, Bytes] = {}
    estimate: StoredEstimate | None = None
    remedies: Annotated[RemedyOutcome | None, AfterValidator(_of_no_negative_size)] = None
    left_allocated: Mapping[str, Bytes] = {}
    sources: tuple[StoredSource, ...] = ()
    duration_s: Finite = 0.0

    @property
    def is_oom(self) -> bool:
        return self.status is Status.OOM

    @property
    def verdict(self) -> Verdict:
        return Verdict(**{name: getattr(self, name) for name in _VERDICT_FIELDS})

    @property
    def sentence(self) -> str:
        """What ran out, by how much, at which step; else the status and its reason."""
        return sentence(self.verdict)

    @property
    def allocations(self) -> tuple[StoredAllocation, ...]:
        return self.estimate.allocations if self.estimate else ()

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
    def subject(self) -> StoredAllocation | None:
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
        """How often models make this very call. Of captures of one model at one input, which are the same calls at two levels,
        the one with most counts."""
        made: Counter[tuple[str, str, str]] = Counter()
        for source in self.sources:
            made[source.model, source.input_size, source.catalog] += source.count
        most: dict[tuple[str, str], int] = {}
        for (model, input_size, _), calls in made.items():
            most[model, input_size] = max(calls, most.get((model, input_size), 0))
        return sum(most.values())

    @property
    def callers(self) -> tuple[str, ...]:
        """Models that make this very call."""
        return tuple(sorted({s.model for s in self.sources if s.model and s.count}))

    @property
    def failed(self) -> StoredAllocation | None:
        """The tensor that did not fit, for an OOM of a tensor that arithmetic knows."""
        return next((a for a in self.allocations if a.label == self.stage), None) if self.is_oom else None


_VERDICT_FIELDS = tuple(f.name for f in fields(Verdict) if f.name in StoredRecord.model_fields)


def case_of(record: StoredRecord) -> Case:
    """The call of a record. InvalidCase where this version has no such operator, or no such call."""
    fields = record.model_dump(include=set(KEYS))
    return case_from_json({**fields, "inputs": [list(shape) for shape in record.inputs]})


def case_or_none(record: StoredRecord) -> Case | None:
    """The call of a record, None where this version has no such call."""
    try:
        return case_of(record)
    except InvalidCase:
        return None


class StoredRegion(_Stored):
    num_banks: Annotated[int, Field(ge=1)]
    bank_bytes: Bytes
    alignment_bytes: Annotated[int, Field(ge=1)] = 1


class StoredDevice(_Stored):
    """What a run opened; all of it is left out where none was."""

    mode: str = ""
    board: str = ""
    ttnn: str = ""
    l1: StoredRegion | None = None
    dram: StoredRegion | None = None
    l1_base_bytes: Bytes | None = None


NOT_OPENED = StoredDevice()


class StoredHead(_Stored):
    """``run.json``, as far as runs read back need it."""

    run: str = ""
    started: str = ""
    finished: str | None = None
    command: str = ""
    commit: str = ""
    versions: Mapping[str, str] = {}
    options: Mapping[str, Any] = {}
    selected: Bytes | None = None
    device: StoredDevice = NOT_OPENED
