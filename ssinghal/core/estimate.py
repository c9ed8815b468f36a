"""What arithmetic predicts of a call, as records hold it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ssinghal.core.json_values import Bytes, Dims, Finite, LineText, RequestedBytes, fields_of, without_empty
from ssinghal.core.tensors import TextEnum
from ssinghal.core.verdict import Resource


class Prediction(TextEnum):
    """The verdict of an estimate. ``unknown``: all that arithmetic can size fits, but TTNN allocates more in the call."""

    FITS = "fits"
    EXCEEDS = "exceeds"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class EstimatedTensor:
    """A tensor of the call by arithmetic, whether or not it was ever placed."""

    label: LineText
    shape: Dims
    padded_shape: Dims
    dtype: LineText
    layout: LineText
    memory: LineText
    logical_bytes: RequestedBytes
    allocated_bytes: RequestedBytes
    bytes_per_bank: RequestedBytes
    # What the allocator's view grows by, per bank.
    booked_bytes_per_bank: RequestedBytes
    # Allocated over logical bytes.
    padding_factor: Finite
    # Every padded dim in words, the most expensive first.
    padding_cause: str = ""


@dataclass(frozen=True)
class Estimate:
    """What arithmetic predicts of a case, without a device (``estimation.estimator.MemoryEstimate`` explains the numbers)."""

    verdict: Prediction
    resource: Resource | None = None
    stage: LineText = ""
    reason: str = ""
    complete: bool = True
    temporaries: bool = False
    total_bytes: RequestedBytes | None = None
    bytes_per_bank: RequestedBytes | None = None
    banks: Bytes | None = None
    bank_bytes: Bytes | None = None
    allocated_bytes: RequestedBytes | None = None
    free_bytes: RequestedBytes | None = None
    largest_free_bytes: RequestedBytes | None = None
    program_bytes: RequestedBytes | None = None
    program_end: RequestedBytes | None = None
    limit_bytes: RequestedBytes | None = None
    shortfall_bytes: int | None = None
    peak_bytes_per_bank: Mapping[LineText, RequestedBytes] = field(default_factory=dict)
    allocations: tuple[EstimatedTensor, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Returns the verdict with the numbers that apply, then every tensor."""
        return without_empty(fields_of(self))
