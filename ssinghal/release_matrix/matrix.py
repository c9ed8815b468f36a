"""A timeline: how each case ended on each release, and what changed to the next. Imports neither torch nor ttnn.

Neighbours are compared as two runs are (``ssinghal.runs.diff``), so figures that a moved reserved base explains are no change.
Nor is the kind of program buffers, which TTNN makes dataflow buffers one operator after the other: what a core holds together
is compared. Both are told once for a pair of releases.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from itertools import pairwise
from typing import Any

from ssinghal.core.record import Outcome, Resource, Status, Verdict
from ssinghal.core.tensors import TextEnum
from ssinghal.operators.case_json import KEYS
from ssinghal.runs.change_kinds import ChangeKind
from ssinghal.runs.diff import Change, Changes
from ssinghal.runs.reader import RecordGroup, Run
from ssinghal.runs.stored_record import StoredDevice, StoredRecord

_PROGRAM_KINDS = ("circular_bytes", "dataflow_bytes", "scratch_bytes")  # of the peaks; all of them are in l1_total_bytes
_NUMBERS = tuple(field.name for field in fields(Verdict) if "int" in str(field.type))
_ROOM = ("free_bytes", "bank_bytes", "limit_bytes", "tensor_address")


class VerdictChange(TextEnum):
    """What became of a case from one release to the next. ``OTHER``: a verdict that is neither fits nor out of memory began or
    ended (an error, a crash, a call that is unsupported or was not run), or something else runs out."""

    NEWLY_FAILS = "newly-fails"
    NEWLY_FITS = "newly-fits"
    OTHER = "other"
    BYTES_CHANGED = "bytes-changed"


@dataclass(frozen=True)
class CaseChange:
    """``after``: the release with which it changed."""

    turn: VerdictChange
    before: str
    after: str
    change: Change

    def to_json(self) -> dict[str, Any]:
        figures = [figure.to_json() for figure in self.change.figures]
        return {"turn": self.turn.value, "before": self.before, "after": self.after, "figures": figures}


@dataclass(frozen=True)
class MatrixRow:
    """One case: a record for each release, oldest first, and where it changed."""

    records: tuple[StoredRecord, ...]
    turned: tuple[CaseChange, ...]

    @property
    def first(self) -> StoredRecord:
        return self.records[0]

    def to_json(self) -> dict[str, Any]:
        first = self.first
        return {
            "op": first.op,
            "key": first.key,
            "id": first.id,
            "case": first.model_dump(mode="json", include=set(KEYS)),
            "calls": first.calls,
            "models": list(first.callers),
            "releases": [_cell(record) for record in self.records],
            "changes": [turned.to_json() for turned in self.turned],
        }


@dataclass(frozen=True)
class ReleaseStep:
    """From one release to the next. Bytes are None where a device did not tell.

    ``l1_base_bytes``, ``l1_bank_bytes``, ``dram_bank_bytes``: before and after. ``alone``: cases whose figures differ by those
    moves and nothing else; ``other_kind``: cases whose program buffers are of another kind, with the same bytes in all.
    """

    before: str
    after: str
    l1_base_bytes: tuple[int | None, int | None]
    l1_bank_bytes: tuple[int | None, int | None]
    dram_bank_bytes: tuple[int | None, int | None]
    alone: int
    other_kind: int
    counts: Mapping[VerdictChange, int]

    @property
    def l1_base_moved_bytes(self) -> int | None:
        return _moved(self.l1_base_bytes)

    @property
    def dram_bank_moved_bytes(self) -> int | None:
        return _moved(self.dram_bank_bytes)

    def to_json(self) -> dict[str, Any]:
        return {
            "before": self.before,
            "after": self.after,
            "l1_base_bytes": list(self.l1_base_bytes),
            "l1_base_moved_bytes": self.l1_base_moved_bytes,
            "l1_bank_bytes": list(self.l1_bank_bytes),
            "dram_bank_bytes": list(self.dram_bank_bytes),
            "dram_bank_moved_bytes": self.dram_bank_moved_bytes,
            "differ_by_that_alone": self.alone,
            "program_buffers_of_another_kind": self.other_kind,
            "counts": {turn.value: count for turn, count in self.counts.items()},
        }


@dataclass(frozen=True)
class Timeline:
    """``groups``: the records of each release, the same cases in the same order."""

    groups: tuple[RecordGroup, ...]
    rows: tuple[MatrixRow, ...]
    steps: tuple[ReleaseStep, ...]

    @classmethod
    def of(cls, runs: Sequence[Run]) -> Timeline:
        """``runs``: one a release, oldest first, each with one group of the same cases in the same order."""
        groups = tuple(run.groups[0] for run in runs)
        turned: dict[tuple[str, str], list[CaseChange]] = {}
        steps = []
        for before, after in pairwise(runs):
            found = list(_turned(before, after))
            for turn in found:
                turned.setdefault((turn.change.op, turn.change.key), []).append(turn)
            steps.append(_step(before.groups[0], after.groups[0], found))
        listed = zip(*(group.records for group in groups), strict=True)
        rows = tuple(MatrixRow(records, tuple(turned.get((records[0].op, records[0].key), ()))) for records in listed)
        return cls(groups, rows, tuple(steps))

    @property
    def versions(self) -> list[str]:
        return [group.setting.ttnn for group in self.groups]

    @property
    def board(self) -> str:
        return self.groups[0].setting.board

    @property
    def device_mode(self) -> str:
        return self.groups[0].setting.device_mode

    @property
    def numerics(self) -> str:
        return self.groups[0].numerics

    @cached_property
    def changed(self) -> list[MatrixRow]:
        """What changed most first: what newly failed before what newly fits, bytes last."""
        order = list(VerdictChange)
        return sorted((row for row in self.rows if row.turned), key=lambda row: min(order.index(t.turn) for t in row.turned))

    @cached_property
    def outcomes(self) -> list[Counter[Outcome]]:
        """Cases by outcome, for each release."""
        return [Counter(map(outcome_of, group.records)) for group in self.groups]

    @property
    def notes(self) -> list[str]:
        """What is not known: peaks of a release whose graphs tell none."""
        silent = [(group.setting.ttnn, _why_no_peaks(group.records)) for group in self.groups]
        return [f"no peaks of ttnn {version}: {why}; tensors are compared" for version, why in silent if why]

    def count(self, turn: VerdictChange) -> int:
        return sum(step.counts[turn] for step in self.steps)

    def to_json(self) -> dict[str, Any]:
        releases = [
            {"ttnn": group.setting.ttnn, "cases": len(group.records), "outcomes": _plain(counts), **_memory(group.device)}
            for group, counts in zip(self.groups, self.outcomes, strict=True)
        ]
        return {
            "device_mode": self.device_mode,
            "board": self.board,
            "numerics": self.numerics,
            "cases": len(self.rows),
            "changed": len(self.changed),
            "releases": releases,
            "steps": [step.to_json() for step in self.steps],
            "notes": self.notes,
            "rows": [row.to_json() for row in self.rows],
        }


def outcome_of(record: StoredRecord) -> Outcome:
    return record.status.value, record.resource.value if record.is_oom and record.resource else None


def needs_bytes(record: StoredRecord) -> int | None:
    """Per bank, or of program buffers per core the address or size that they reach."""
    return record.bytes_per_bank if record.bytes_per_bank is not None else record.program_bytes


def room_bytes(record: StoredRecord) -> int | None:
    """What there is for it, as far as TTNN says: free bytes of a bank, else the bank, else the limit of program buffers."""
    return next((value for name in _ROOM if (value := getattr(record, name)) is not None), None)


def _turned(before: Run, after: Run) -> Iterable[CaseChange]:
    versions = before.groups[0].setting.ttnn, after.groups[0].setting.ttnn
    old, new = ({(r.op, r.key): r for r in run.groups[0].records} for run in (before, after))
    for change in Changes.of(_comparable(before), _comparable(after)).found:
        case = change.op, change.key
        yield CaseChange(_turn(change, old[case], new[case]), *versions, change)


def _turn(change: Change, old: StoredRecord, new: StoredRecord) -> VerdictChange:
    """Where memory of the host ran out, the device was not asked: neither fits nor out of memory."""
    if change.kind in (ChangeKind.GROWN, ChangeKind.SHRUNK):
        return VerdictChange.BYTES_CHANGED
    if change.kind is ChangeKind.NEW_OOM and old.status is Status.FITS and new.resource is not Resource.HOST:
        return VerdictChange.NEWLY_FAILS
    if change.kind is ChangeKind.NOW_FITS and old.is_oom and old.resource is not Resource.HOST:
        return VerdictChange.NEWLY_FITS
    return VerdictChange.OTHER


def _step(before: RecordGroup, after: RecordGroup, found: Sequence[CaseChange]) -> ReleaseStep:
    changed = {(turned.change.op, turned.change.key) for turned in found}
    same = [
        (old, new)
        for old, new in zip(before.records, after.records, strict=True)
        if (old.op, old.key) not in changed and old.status is new.status
    ]
    counts = Counter(turned.turn for turned in found)
    old_memory, new_memory = _memory(before.device), _memory(after.device)

    def both(name: str) -> tuple[int | None, int | None]:
        return old_memory[name], new_memory[name]

    return ReleaseStep(
        before=before.setting.ttnn,
        after=after.setting.ttnn,
        l1_base_bytes=both("l1_base_bytes"),
        l1_bank_bytes=both("l1_bank_bytes"),
        dram_bank_bytes=both("dram_bank_bytes"),
        alone=sum(_differ(_numbers(old), _numbers(new)) for old, new in same),
        other_kind=sum(_differ(old.usage or {}, new.usage or {}) for old, new in same),
        counts={turn: counts[turn] for turn in VerdictChange},
    )


def _memory(device: StoredDevice) -> dict[str, int | None]:
    return {
        "l1_base_bytes": device.l1_base_bytes,
        "l1_bank_bytes": device.l1.bank_bytes if device.l1 else None,
        "dram_bank_bytes": device.dram.bank_bytes if device.dram else None,
    }


def _moved(bytes_: tuple[int | None, int | None]) -> int | None:
    before, after = bytes_
    return None if before is None or after is None else after - before


def _comparable(run: Run) -> Run:
    """The run without the kinds of its program buffers."""
    (group,) = run.groups
    records = tuple(record.model_copy(update={"usage": _without_kinds(record.usage)}) for record in group.records)
    return Run(run.path, run.head, (RecordGroup(group.setting, records, group.device),))


def _without_kinds(usage: Mapping[str, int] | None) -> Mapping[str, int] | None:
    return None if usage is None else {name: size for name, size in usage.items() if name not in _PROGRAM_KINDS}


def _numbers(record: StoredRecord) -> dict[str, int]:
    """Of the message."""
    return {name: value for name in _NUMBERS if (value := getattr(record, name, None)) is not None}


def _differ(before: Mapping[str, int], after: Mapping[str, int]) -> bool:
    """Whether a number that both have is not the same."""
    return any(after.get(name, value) != value for name, value in before.items())


def _why_no_peaks(records: Sequence[StoredRecord]) -> str:
    """The one reason why no record of a call that fits has peaks; empty where some have."""
    fitting = [record for record in records if record.status is Status.FITS]
    reasons = {record.usage_note for record in fitting}
    return reasons.pop() if len(reasons) == 1 and all(record.usage is None for record in fitting) else ""


def _plain(counts: Mapping[Outcome, int]) -> dict[str, int]:
    return {" ".join(filter(None, outcome)): count for outcome, count in counts.items()}


def _cell(record: StoredRecord) -> dict[str, Any]:
    return {
        "ttnn": record.ttnn,
        "status": record.status.value,
        "resource": record.resource.value if record.resource else None,
        "stage": record.stage,
        "needs_bytes": needs_bytes(record),
        "room_bytes": room_bytes(record),
        **_numbers(record),
        "booked_bytes": {t.label: t.booked_bytes for t in record.tensors if t.booked_bytes is not None},
        "resident_bytes": dict(record.resident),
        "peaks": dict(record.usage) if record.usage is not None else None,
        "message": record.message,
    }
