"""What is known of a case after it ran: status, resource, bytes. One record is one JSON line."""

from __future__ import annotations

import errno
import math
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from ssinghal.cases import Case
from ssinghal.errors import HarnessError
from ssinghal.searched import Searched
from ssinghal.specs import ONE_CHIP, Shape, TextEnum

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
    """One case, one record.

    ``device_mode`` and ``numerics`` say what the verdict may be used for: a virtual device never computes, so ``numerics`` is
    "not run" there and a ``fits`` is about memory alone. ``mesh``: rows and columns of chips, each of which holds what the
    figures say. ``resident``: bytes per bank that operands and results held together when the call returned, by kind of memory.
    ``listed_shape``: the catalog's, which the operands were made from. ``remedies``: of an OOM that they were searched for.
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
    remedies: Searched | None = None
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


class LineFile:
    """A text file that grows by whole lines: each is one write to the system, so a killed process cuts the last one at most.

    Raises:
        HarnessError: the file cannot be opened or written.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        with self._writing():
            self._file = path.open("wb", buffering=0)

    def __enter__(self) -> LineFile:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def write(self, line: str) -> None:
        data = (line + "\n").encode()
        with self._writing():
            if self._file.write(data) != len(data):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def close(self) -> None:
        """HarnessError where the file is no longer at its path: what was written is gone with it."""
        with self._file:
            written = os.fstat(self._file.fileno())
        if not self._path.exists() or not os.path.samestat(written, self._path.stat()):
            raise HarnessError(f"{self._path} was removed or replaced while it was written: its lines are lost")

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise HarnessError(f"cannot write {self._path}: {error.strerror}") from error


class GrowingFile(LineFile):
    """Lines that join those of earlier sessions; a last one that was cut short is cut off."""

    def __init__(self, path: Path) -> None:
        self._path = path
        with self._writing():
            self._file = path.open("ab", buffering=0)
            self._file.truncate(path.read_bytes().rfind(b"\n") + 1)
