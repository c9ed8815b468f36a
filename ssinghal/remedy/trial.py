"""What is tried, and what came of it. Data that goes to a device worker and back; imports neither torch nor ttnn."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ssinghal.core.case import Case
from ssinghal.core.record import PlacedTensor, Status, Verdict
from ssinghal.core.tensors import BufferType, TensorSpec, TextEnum


class Impact(TextEnum):
    """What a remedy asks of the code around the call, the least first.

    The same tensor: nothing but the order of things. The last three need the developer's consent; other values are no remedy.
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


@dataclass(frozen=True)
class Resident:
    """Bytes that something else holds in each bank while the call runs. ``freed``: held only while the others are placed, so
    that it leaves a hole."""

    memory: BufferType
    bytes_per_bank: int
    freed: bool = False


LiveSet = tuple[Resident, ...]


@dataclass(frozen=True)
class Trial:
    """``case`` as it is placed and called, ``rewrite`` how (``ssinghal.remedy.rewrites``), with ``params``.

    ``wanted``: what must come back; shape, dtype and layout are compared, and the memory unless ``any_memory``. ``live``: what
    lives beside it. ``trace_region_bytes``: the device is opened with. ``board`` and ``release``: others than the failing
    call's, empty for the same.
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
    """``peak_bytes``: most that was allocated per bank after any of the calls. ``moved_bytes``: allocated bytes of operands and
    results over all calls that moved any. ``code``: the calls that ran, as Python.
    ``reserved_base_bytes``: what the release keeps at the bottom of each L1. ``lines_of_live``: of the code, those at its begin
    that place what else lives."""

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

    @property
    def works(self) -> bool:
        return self.verdict.status is Status.FITS
