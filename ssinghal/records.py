"""What is known of a case after it ran: status, resource, bytes. One record is one JSON line."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from ssinghal.errors import HarnessError
from ssinghal.specs import TextEnum

SCHEMA_VERSION = 1


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
    """What TTNN (or arithmetic) said of one call, with every number of its message.

    Buffers: ``total_bytes`` over ``banks``, ``bytes_per_bank`` needed, ``bank_bytes`` there, of which
    ``allocated_bytes``/``free_bytes``/``largest_free_bytes`` per bank. Program buffers: ``program_bytes`` is the address or
    size they reach on ``cores``, ``limit_bytes`` what they may reach, ``tensor_address`` the L1 tensor they run into.
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
    def shortfall_bytes(self) -> int | None:
        """Missing bytes: per bank for a buffer (against the largest free block), per core for program buffers."""
        if self.program_bytes is not None and self.limit_bytes is not None:
            return self.program_bytes - self.limit_bytes
        if self.program_bytes is not None and self.tensor_address is not None:
            return self.program_bytes - self.tensor_address
        if self.bytes_per_bank is not None and self.largest_free_bytes is not None:
            return self.bytes_per_bank - self.largest_free_bytes
        return None
