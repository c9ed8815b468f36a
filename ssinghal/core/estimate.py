"""What arithmetic predicts of a call, as records hold it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ssinghal.core.json_values import Bytes, DeviceBytes, Dims, Finite, LineText, fields_of, without_empty
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
    stage: LineText = ""
    reason: str = ""
    complete: bool = True
    temporaries: bool = False
    total_bytes: Bytes | None = None
    bytes_per_bank: Bytes | None = None
    banks: Bytes | None = None
    bank_bytes: DeviceBytes | None = None
    allocated_bytes: Bytes | None = None
    free_bytes: Bytes | None = None
    largest_free_bytes: Bytes | None = None
    program_bytes: Bytes | None = None
    program_end: Bytes | None = None
    limit_bytes: Bytes | None = None
    shortfall_bytes: int | None = None
    peak_bytes_per_bank: Mapping[LineText, Bytes] = field(default_factory=dict)
    allocations: tuple[EstimatedTensor, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Returns the verdict with the numbers that apply, then every tensor."""
        return without_empty(fields_of(self))
