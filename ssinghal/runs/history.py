"""The history of a case over runs, boards and releases: how it ended, and when that changed. Imports neither torch nor ttnn."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise, starmap
from pathlib import Path
from typing import Any

from ssinghal.core.device_facts import DeviceMode
from ssinghal.core.record import Record
from ssinghal.core.run_info import RunInfo
from ssinghal.core.shape_pattern import Pattern, fits_pattern, nearest
from ssinghal.core.tensors import Shape, format_shape
from ssinghal.core.verdict import Resource, Status
from ssinghal.errors import cut
from ssinghal.render.tables import aligned
from ssinghal.runs.change_kinds import ChangeKind
from ssinghal.runs.diff import Change, Changes
from ssinghal.runs.index import IndexedRun, IndexResult, Store
from ssinghal.runs.reader import RecordGroup, Run

MAX_NOTES = 10
MAX_NUMBERS = 3  # of one change
_ROOM = ("free_bytes", "bank_bytes", "limit_bytes", "tensor_address")
_NUMBERS = ("total_bytes", "bytes_per_bank", "largest_free_bytes", "program_bytes", *_ROOM, "shortfall_bytes")
_HEADER = ("started", "run", "ttnn", "status", "resource", "stage", "needs B", "of B", "short B", "taken from", "change")


@dataclass(frozen=True, slots=True)
class Ending:
    """What a history shows of a record, which has much more."""

    status: Status
    resource: Resource | None
    stage: str
    message: str
    numbers: tuple[int | None, ...]

    @classmethod
    def of(cls, record: Record) -> Ending:
        numbers = tuple(getattr(record, name) for name in _NUMBERS)
        return cls(record.status, record.resource, record.stage, record.message, numbers)

    @property
    def cells(self) -> list[str]:
        """The cells of a table. Bytes are per bank, or per core for program buffers: needed (or the end address), available."""
        known = dict(zip(_NUMBERS, self.numbers, strict=True))
        needs = known["bytes_per_bank"] if known["bytes_per_bank"] is not None else known["program_bytes"]
        room = next((known[name] for name in _ROOM if known[name] is not None), None)
        numbers = ("" if n is None else f"{n:,}" for n in (needs, room, known["shortfall_bytes"]))
        return [str(self.status), str(self.resource or ""), self.stage, *numbers]

    def to_json(self) -> dict[str, Any]:
        return {
            "status": self.status.value,
            "resource": self.resource.value if self.resource else None,
            "stage": self.stage,
            **dict(zip(_NUMBERS, self.numbers, strict=True)),
            "message": self.message,
        }


@dataclass(frozen=True, slots=True)
class HistoryEntry:
    """A case in one run. ``change``: from the entry before, if any. ``taken_from``: the id of the earlier run that answered, as
    ``Record.taken_from``: no probe was made in this one."""

    run: IndexedRun
    ttnn: str
    ending: Ending
    change: Change | None = None
    taken_from: str = ""

    @property
    def row(self) -> list[str]:
        started = self.run.started[:19].replace("T", " ")
        return [started, self.run.id, self.ttnn, *self.ending.cells, self.taken_from, self.change_text]

    @property
    def change_text(self) -> str:
        if self.change is None:
            return ""
        numbers = self.change.numbers_text(MAX_NUMBERS)
        return f"{self.change.kind}: {numbers}" if numbers else str(self.change.kind)

    def to_json(self) -> dict[str, Any]:
        return {
            "run": self.run.id,
            "folder": self.run.folder,
            "started": self.run.started,
            "ttnn": self.ttnn,
            "taken_from": self.taken_from,
            **self.ending.to_json(),
            "change": self.change.to_json() if self.change else None,
        }


@dataclass(frozen=True, slots=True)
class CaseHistory:
    """One case on one board in one device mode: an entry per run, the oldest first."""

    op: str
    key: str
    id: str
    device_mode: DeviceMode
    board: str
    numerics: str
    entries: tuple[HistoryEntry, ...]

    @classmethod
    def of(cls, results: Sequence[IndexResult]) -> CaseHistory:
        record, setting = results[0].record, results[0].setting
        numerics = "/".join(sorted({one.record.numerics for one in results}))
        entries = tuple(_entries(results))
        return cls(record.op, record.key, record.id, setting.device_mode, setting.board, numerics, entries)

    def to_json(self) -> dict[str, Any]:
        return {
            "op": self.op,
            "key": self.key,
            "id": self.id,
            "device_mode": self.device_mode,
            "board": self.board,
            "numerics": self.numerics,
            "runs": [entry.to_json() for entry in self.entries],
        }

    def lines(self) -> Iterator[str]:
        yield f"{self.op} {cut(self.id, 150)}  on {self.device_mode} {self.board}, numerics {self.numerics}"
        yield from (f"  {line}" for line in _table([list(_HEADER), *(entry.row for entry in self.entries)]))


@dataclass(frozen=True)
class History:
    """The history of all cases of an operator at a shape. ``near``: similar shapes, if no case has this one. ``notes``: which
    runs lack records, and why."""

    operator: str
    shape: Pattern
    cases: tuple[CaseHistory, ...]
    near: tuple[Shape, ...]
    notes: tuple[str, ...]

    @classmethod
    def of(
        cls,
        store: Store,
        operator: str,
        shape: Pattern,
        *,
        board: str | None = None,
        mode: str | None = None,
        memories: Collection[str] = (),
        dtypes: Collection[str] = (),
    ) -> History:
        """Returns the history of every case that is listed with the shape, or has it as an operand.

        ``operator``: its canonical name. ``memories``, ``dtypes``: those of the operands; empty for all.
        """
        known = store.shapes(operator)
        results = (
            one
            for one in store.find(operator, [s for s in known if fits_pattern(s, shape)], board, mode)
            if (not memories or one.record.memory in memories) and (not dtypes or one.record.dtype in dtypes)
        )
        cases = tuple(CaseHistory.of(list(same)) for _, same in groupby(results, _table_key))
        near = () if cases else nearest(known, shape)
        return cls(operator, shape, cases, near, tuple(_notes(store)))

    def to_json(self) -> dict[str, Any]:
        return {
            "operator": self.operator,
            "shape": list(self.shape),
            "cases": [case.to_json() for case in self.cases],
            "near": [list(shape) for shape in self.near],
            "notes": list(self.notes),
        }

    def lines(self) -> Iterator[str]:
        """Yields a table for each case, board and device mode."""
        pattern = "[" + ",".join("*" if size is None else str(size) for size in self.shape) + "]"
        if not self.cases:
            near = f"; near: {' '.join(map(format_shape, self.near))}" if self.near else ""
            yield f"no record of {self.operator} {pattern}{near}"
        for case in self.cases:
            yield from case.lines()
        yield from (f"note: {note}" for note in self.notes[:MAX_NOTES])
        if more := len(self.notes) - len(self.notes[:MAX_NOTES]):
            yield f"note: … and {more:,} more runs that lack records"


def _table_key(indexed: IndexResult) -> tuple[str, str, str, str]:
    """Returns what the rows of one table share; their releases may differ."""
    return indexed.record.op, indexed.record.key, indexed.setting.device_mode, indexed.setting.board


def _entries(results: Sequence[IndexResult]) -> Iterator[HistoryEntry]:
    endings = {id(one.record): Ending.of(one.record) for one in results}
    changes = (None, *starmap(_change, pairwise(results)))
    for one, change in zip(results, changes, strict=True):
        yield HistoryEntry(one.run, one.setting.ttnn, endings[id(one.record)], change, one.taken_from)


def _change(before: IndexResult, after: IndexResult) -> Change | None:
    """Returns the change as a comparison of two runs with only this case has it. A case that was not run has no verdict that
    another one could differ from."""
    if before.record is after.record:
        return None
    change = next(iter(Changes.of(_alone(before), _alone(after)).found), None)
    was_run = Status.NOT_RUN not in (before.record.status, after.record.status)
    return change if was_run or change is None or change.kind is not ChangeKind.OTHER_VERDICT else None


def _alone(indexed: IndexResult) -> Run:
    group = RecordGroup.of(indexed.setting, [indexed.record], indexed.run.device)
    return Run(Path(indexed.run.folder), RunInfo(indexed.run.id), (group,))


def _notes(store: Store) -> Iterator[str]:
    for run in store.runs():
        if run.refused:
            yield f"run {run.folder} is not indexed: {run.refused.splitlines()[0]}"
        elif run.losses:
            more = f" (and {len(run.losses) - 1} more)" if len(run.losses) > 1 else ""
            yield f"run {run.folder}: {run.losses[0]}{more}"


def _table(rows: Sequence[Sequence[str]]) -> list[str]:
    """Leaves out columns without a value and aligns those of bytes to the right."""
    columns = [column for column in zip(*rows, strict=True) if any(column[1:])]
    left = [i for i, column in enumerate(columns) if not column[0].endswith(" B")]
    return aligned(list(zip(*columns, strict=True)), left)
