"""The placement view of a run that placed each call in several memories: where it fits, with how much room left in a core, and
what stops it elsewhere."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from ssinghal.core.elements import DType, takes_dtype
from ssinghal.core.measured import Usage
from ssinghal.core.record import Record
from ssinghal.core.tensors import Board, BufferType, TextEnum, format_shape
from ssinghal.core.verdict import Resource, Status
from ssinghal.errors import InvalidCase, cut
from ssinghal.operators import find_operator
from ssinghal.report.bank_occupancy import board_of
from ssinghal.runs.placements import call_of
from ssinghal.runs.reader import RecordGroup, Run
from ssinghal.runs.selection import Selection

REPORTS_DATAFLOW = (0, 80)  # TTNN's release since which a capture has dataflow buffers and scratch
# TTNN chooses their programs, or the blocks of these, by the L1 that is free.
CHOOSE_BY_ROOM = {
    *("matmul", "linear", "addmm", "conv1d", "conv2d", "conv_transpose2d", "experimental.conv3d"),
    *("layer_norm", "rms_norm", "roll"),
}
REASON_CHARS = 200
_DTYPES = {dtype.value for dtype in DType}


class Stopper(TextEnum):
    """What keeps a call from a placement."""

    TENSORS = "tensors"  # operands, result or intermediates do not fit in the banks
    PROGRAM = "program buffers"  # they exceed L1 or run into a tensor, or the program's arguments exceed their region
    L1_SMALL = "L1_SMALL"  # the region for tables of pools and convolutions
    RULE = "rule"  # the operator, or the tensor's shape, has no such placement
    NO_VERDICT = "no verdict"  # an error, a crash, a wrong result, or not run


_BY_RESOURCE = {
    **dict.fromkeys((Resource.L1_BUFFER, Resource.DRAM_BUFFER, Resource.FRAGMENTATION), Stopper.TENSORS),
    **dict.fromkeys((Resource.CIRCULAR_BUFFER, Resource.CLASH, Resource.KERNEL_CONFIG), Stopper.PROGRAM),
    Resource.L1_SMALL_BUFFER: Stopper.L1_SMALL,
}


@dataclass(frozen=True)
class Placed:
    """One call in one placement."""

    record: Record
    # None where it fits.
    stopper: Stopper | None
    # Of the L1 of each core, what neither tensors nor program buffers take at the peak of the call: so much may be taken by
    # other buffers meanwhile. None: not known.
    headroom_bytes: int | None = None

    @classmethod
    def of(cls, record: Record, board: Board | None) -> Placed:
        if record.status is not Status.FITS:
            return cls(record, _stopper(record))
        if record.usage is None or board is None or not _peak_is_exact(record, record.usage):
            return cls(record, None)
        bank_bytes = board.with_l1_small(record.l1_small_size or 0).l1.bank_bytes
        return cls(record, None, bank_bytes - record.usage.l1_total_bytes)

    @property
    def fits(self) -> bool:
        return self.stopper is None

    @property
    def reason(self) -> str:
        """What stops the call, with the numbers or TTNN's sentence; empty where it fits."""
        return "" if self.stopper is None else f"{self.stopper}: {cut(self.record.sentence, REASON_CHARS)}"

    @property
    def room(self) -> str:
        """The headroom for people."""
        return "unknown" if self.headroom_bytes is None else f"{self.headroom_bytes:,} B"

    def to_json(self) -> dict[str, Any]:
        if self.stopper is None:
            return {"fits": True, "headroom_bytes": self.headroom_bytes, "key": self.record.key}
        return {"fits": False, "stopped_by": self.stopper.value, "reason": self.record.sentence, "key": self.record.key}


@dataclass(frozen=True)
class PlacedCall:
    """A call and its placements, by memory, in the order of the run's."""

    placed: dict[str, Placed]
    # Whether the run has its calls in several dtypes.
    names_dtype: bool = False

    @property
    def record(self) -> Record:
        return next(iter(self.placed.values())).record

    @property
    def text(self) -> str:
        """The call without its placement."""
        attrs = (f"{name}={json.dumps(value, separators=(',', ':'))}" for name, value in self.record.attrs.items())
        dtype = [self.record.dtype.value] if self.names_dtype else []
        return " ".join([self.record.op, *map(format_shape, self.record.inputs), *dtype, *attrs])

    def fits_in(self, memory: str) -> bool:
        return memory in self.placed and self.placed[memory].fits

    @cached_property
    def fits_sharded(self) -> bool:
        """Whether it fits in L1 in shards of any kind."""
        return any(placed.fits for memory, placed in self.placed.items() if is_sharded_l1(memory))

    @cached_property
    def fits_in_dram_alone(self) -> bool:
        fitting = {buffer_of(memory) for memory, placed in self.placed.items() if placed.fits}
        return fitting == {BufferType.DRAM} and any(buffer_of(memory) is not BufferType.DRAM for memory in self.placed)

    @property
    def reasons(self) -> str:
        """What stops it in each memory where it does not fit; equal reasons once."""
        by_reason: dict[str, list[str]] = {}
        for memory, placed in self.placed.items():
            if not placed.fits:
                by_reason.setdefault(placed.reason, []).append(memory)
        return "; ".join(f"{', '.join(memories)}: {reason}" for reason, memories in by_reason.items())


@dataclass(frozen=True)
class ModelPlacements:
    """The calls of one catalog: of a model, or of a sweep, whose calls count once each."""

    model: str
    input_size: str
    catalog: str
    # With the number of times that it is made.
    rows: tuple[tuple[PlacedCall, int], ...]
    # That of the view.
    dtype: str = ""

    @property
    def name(self) -> str:
        at = f" at {self.input_size}" if self.input_size else ""
        named = f"{self.model}{at} ({self.catalog})" if self.model else self.catalog
        return f"{named}{_in_dtype(self.dtype)}"

    @cached_property
    def calls(self) -> int:
        return sum(calls for _, calls in self.rows)

    def fitting(self, memory: str) -> int:
        """Number of calls that fit in ``memory``."""
        return sum(calls for row, calls in self.rows if row.fits_in(memory))

    def stopped(self, memory: str) -> Counter[Stopper]:
        """Number of calls that do not fit in ``memory``, by what stops them."""
        counted: Counter[Stopper] = Counter()
        for row, calls in self.rows:
            placed = row.placed.get(memory)
            if placed is not None and placed.stopper is not None:
                counted[placed.stopper] += calls
        return counted

    def least_room(self, memory: str) -> Placed | None:
        """The placement of the fitting call with the least headroom that is known."""
        known = [p for row, _ in self.rows if (p := row.placed.get(memory)) and p.fits and p.headroom_bytes is not None]
        return min(known, key=lambda placed: placed.headroom_bytes or 0, default=None)

    @cached_property
    def sharded(self) -> int:
        """Number of calls that fit in L1 in shards of any kind."""
        return sum(calls for row, calls in self.rows if row.fits_sharded)

    @cached_property
    def dram_alone(self) -> tuple[tuple[PlacedCall, int], ...]:
        """The calls that fit nowhere but in DRAM, the most frequent first."""
        return tuple(sorted(((row, calls) for row, calls in self.rows if row.fits_in_dram_alone), key=lambda pair: -pair[1]))

    @cached_property
    def unsharded(self) -> tuple[tuple[PlacedCall, int], ...]:
        """The calls that fit in L1, but not in shards, the most frequent first."""
        found = ((row, calls) for row, calls in self.rows if row.fits_in(BufferType.L1) and not row.fits_sharded)
        return tuple(sorted(found, key=lambda pair: -pair[1]))

    def to_json(self, memories: Sequence[str]) -> dict[str, Any]:
        return {
            "model": self.model,
            "input": self.input_size,
            "catalog": self.catalog,
            "calls": self.calls,
            "cases": len(self.rows),
            "fit_in_l1_sharded": self.sharded,
            "fit_in_dram_alone": sum(calls for _, calls in self.dram_alone),
            "placements": {
                memory: {
                    "fit": self.fitting(memory),
                    "stopped_by": {stopper.value: count for stopper, count in self.stopped(memory).items()},
                }
                for memory in memories
            },
            "rows": [
                {
                    "op": row.record.op,
                    "call": row.text,
                    **({"dtype": row.record.dtype.value} if self.dtype else {}),
                    "calls": calls,
                    "placements": {memory: placed.to_json() for memory, placed in row.placed.items()},
                }
                for row, calls in self.rows
            ],
        }


@dataclass(frozen=True)
class PlacementView:
    """The placements of a run's calls on one board, in one dtype.

    ``memories``: as the run's header lists them. ``dtype``: empty unless the run had each call in several.
    """

    setting: str
    memories: tuple[str, ...]
    models: tuple[ModelPlacements, ...]
    dtype: str = ""

    @classmethod
    def of(cls, group: RecordGroup, memories: Sequence[str], dtype: str = "") -> PlacementView:
        board = board_of(group)
        calls: dict[str, dict[str, Placed]] = {}
        for record in group.records:
            if record.memory in memories and (not dtype or _is_made_in(dtype, record)):
                calls.setdefault(call_of(record), {})[record.memory] = Placed.of(record, board)
        models: dict[tuple[str, str, str], list[tuple[PlacedCall, int]]] = {}
        for found in calls.values():
            row = PlacedCall({memory: found[memory] for memory in memories if memory in found}, names_dtype=bool(dtype))
            counted: Counter[tuple[str, str, str]] = Counter()
            for source in row.record.sources:
                # No model is known to make the calls of a sweep: each of them counts once.
                key = (source.model, source.input_size, source.catalog) if source.count else ("", "", source.catalog)
                counted[key] = counted[key] + source.count if source.count else 1
            for key, count in counted.items():
                models.setdefault(key, []).append((row, count))
        made = tuple(ModelPlacements(*key, tuple(rows), dtype) for key, rows in models.items())
        return cls(str(group.setting), tuple(memories), made, dtype)

    @property
    def title(self) -> str:
        return f"{self.setting}{_in_dtype(self.dtype)}"

    def to_json(self) -> dict[str, Any]:
        models = [model.to_json(self.memories) for model in self.models]
        dtype = {"dtype": self.dtype} if self.dtype else {}
        return {"setting": self.setting, **dtype, "placements": list(self.memories), "models": models}


def placement_views(run: Run) -> tuple[PlacementView, ...]:
    """Returns the view of each of the run's settings, and of each dtype if the run had its calls in several; none unless it
    placed each call in several memories."""
    selection = Selection.of(run)
    if selection is None or not selection.placements:
        return ()
    dtypes = selection.dtypes if len(selection.dtypes) > 1 else ("",)
    views = (
        PlacementView.of(group, selection.placements, dtype)
        for group in run.groups
        if group.setting.measures_memory
        for dtype in dtypes
    )
    return tuple(view for view in views if view.models)


def _is_made_in(dtype: str, record: Record) -> bool:
    """Whether a record is of a call as the run has it for ``dtype``: in it, or as the catalog has it where it cannot be."""
    if record.dtype == dtype:
        return True
    was_altered = record.altered is not None and "dtype" in record.altered
    return not was_altered and not (dtype in _DTYPES and takes_dtype(record.dtype, record.layout, DType(dtype)))


def _in_dtype(dtype: str) -> str:
    return f", operands in {dtype}" if dtype else ""


def is_sharded_l1(memory: str) -> bool:
    """Whether operands in ``memory`` are in L1 in shards."""
    return memory.startswith(f"{BufferType.L1}:")


def buffer_of(memory: str) -> BufferType:
    """Returns the kind of memory that ``memory`` is in."""
    return BufferType(memory.partition(":")[0])


def _stopper(record: Record) -> Stopper:
    if record.status in (Status.UNSUPPORTED, Status.INVALID):
        return Stopper.RULE
    if record.status is Status.OOM and record.resource is not None:
        return _BY_RESOURCE.get(record.resource, Stopper.NO_VERDICT)
    return Stopper.NO_VERDICT


def _peak_is_exact(record: Record, usage: Usage) -> bool:
    """Whether the peak of a captured call is what it takes of L1, so that the rest of the bank is free.

    Not where intermediate tensors were in L1 (the peak then exceeds operands and results), as freed ones leave holes. Not of
    operators whose programs TTNN chooses by the L1 that is free; program buffers of matrix products may also be a sharded
    tensor's own, which a capture counts twice. ``benchmarks/placements.py --headroom`` checks it on the allocator.
    """
    release = tuple(int(part) for part in record.ttnn.split(".")[:2] if part.isdigit())
    if release < REPORTS_DATAFLOW or usage.l1_bytes != record.resident.get(BufferType.L1, 0):
        return False
    try:
        functions = set(find_operator(record.operator).functions)
    except InvalidCase:  # of another version
        return False
    return not functions & CHOOSE_BY_ROOM
