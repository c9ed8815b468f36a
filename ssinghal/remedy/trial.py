"""Trials and their results: data that goes to a device worker and back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ssinghal.core.case import Case
from ssinghal.core.measured import PlacedTensor
from ssinghal.core.tensors import BufferType, TensorSpec, TextEnum
from ssinghal.core.verdict import Status, Verdict


class Impact(TextEnum):
    """What a remedy changes for the code around the call, the least first.

    With the same tensor, at most the order of operations changes. The last three need the developer's consent; a change with
    other values is no remedy.
    """

    SAME = "same tensor"
    MEMORY = "other memory"
    LAYOUT = "other layout"
    REARRANGED = "re-arranged"
    CHUNKED = "chunked"
    DTYPE = "other dtype"
    ELSEWHERE = "other release or board"
    VALUES = "other values"


class RewriteName(TextEnum):
    """How a trial makes the call: the keys of ``ssinghal.remedy.strategies.registry.REWRITES``."""

    CALL = "call"
    IN_PLACE = "in place"
    PIECES = "pieces"
    PIECES_APART = "pieces apart"
    ONE_PIECE = "one piece"
    SPILLED = "spilled"
    REALLOCATED = "reallocated"
    TURNED = "turned"
    POOLED_ROWS = "pooled rows"
    INTERPOLATED_ROWS = "interpolated rows"
    LINEAR = "linear"


@dataclass(frozen=True)
class Resident:
    """Bytes of other buffers in each bank while the call runs. ``freed``: they exist only while the others are placed, so that
    they leave a hole."""

    memory: BufferType
    bytes_per_bank: int
    freed: bool = False


LiveSet = tuple[Resident, ...]


@dataclass(frozen=True)
class Trial:
    """``case``, called by ``rewrite`` (see ``ssinghal.remedy.rewrites``) with ``params``.

    ``wanted``: the expected results; shape, dtype and layout are compared, and the memory unless ``any_memory``. ``live``:
    other buffers that stay allocated. ``trace_region_bytes``: the device is opened with it. ``board`` and ``release``: where
    they differ from those of the failing call, else empty.
    """

    case: Case
    wanted: tuple[TensorSpec, ...]
    rewrite: RewriteName = RewriteName.CALL
    params: Mapping[str, Any] = field(default_factory=dict)
    live: LiveSet = ()
    trace_region_bytes: int = 0
    any_memory: bool = False
    board: str = ""
    release: str = ""


@dataclass(frozen=True)
class TrialResult:
    """``peak_bytes``: the most that was allocated per bank after any of the calls. ``moved_bytes``: allocated bytes of operands
    and results of all calls that move data. ``code``: the calls that ran, as Python. ``reserved_base_bytes``: what the release
    reserves at the bottom of each L1. ``lines_of_live``: the number of lines at the start of the code that place ``live``.
    ``caution``: where results have other shards than the call requested."""

    trial: Trial
    verdict: Verdict
    board: str
    ttnn: str
    device_mode: str
    results: tuple[PlacedTensor, ...] = ()
    peak_bytes: Mapping[BufferType, int] = field(default_factory=dict)
    moved_bytes: int = 0
    calls: int = 0
    code: tuple[str, ...] = ()
    reserved_base_bytes: int | None = None
    lines_of_live: int = 0
    caution: str = ""

    @property
    def works(self) -> bool:
        return self.verdict.status is Status.FITS
