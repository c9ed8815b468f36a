"""A timeline: the verdict of each case on each release, and the changes from one release to the next.

Neighbouring releases are compared like two runs (``ssinghal.runs.diff``), so numbers that differ only by a moved reserved base
are no change. Neither is another kind of program buffers, since TTNN turns circular into dataflow buffers operator by operator:
their sum per core is compared. Both are reported once for a pair of releases.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any

from ssinghal.core.device_facts import DeviceFacts
from ssinghal.core.json_values import fields_of, plain
from ssinghal.core.measured import Usage
from ssinghal.core.record import Record
from ssinghal.core.tensors import TextEnum
from ssinghal.core.verdict import Outcome, Resource, Status
from ssinghal.runs.change_kinds import ChangeKind
from ssinghal.runs.diff import Change, Changes
from ssinghal.runs.parsing import identity_of
from ssinghal.runs.reader import RecordGroup, Run
from ssinghal.runs.stored import with_usage

_ROOM = ("free_bytes", "bank_bytes", "limit_bytes", "tensor_address")


class VerdictChange(TextEnum):
    """How a verdict changed from one release to the next. ``OTHER``: the verdict on either side is neither fits nor out of
    memory (an error, a crash, an unsupported call, a call that was not run), or another resource runs out."""

    NEWLY_FAILS = "newly-fails"
    NEWLY_FITS = "newly-fits"
    OTHER = "other"
    BYTES_CHANGED = "bytes-changed"


@dataclass(frozen=True)
class CaseChange:
    """A change of one case between the releases ``before`` and ``after``."""

    kind: VerdictChange
    before: str
    after: str
    change: Change

    def to_json(self) -> dict[str, Any]:
        figures = [figure.to_json() for figure in self.change.figures]
        return {"turn": self.kind.value, "before": self.before, "after": self.after, "figures": figures}


@dataclass(frozen=True)
class MatrixRow:
    """One case: its record on each release, oldest first, and its changes."""

    records: tuple[Record, ...]
    changes: tuple[CaseChange, ...]

    @property
    def first(self) -> Record:
        return self.records[0]

    def to_json(self) -> dict[str, Any]:
        first = self.first
        return {
            "op": first.op,
            "key": first.key,
            "id": first.id,
            "case": identity_of(first),
            "calls": first.calls,
            "models": list(first.callers),
            "releases": [_cell(record) for record in self.records],
            "changes": [change.to_json() for change in self.changes],
        }


@dataclass(frozen=True)
class ReleaseStep:
    """The differences between two neighbouring releases. Bytes are None if a device did not report them.

    ``l1_base_bytes``, ``l1_bank_bytes``, ``dram_bank_bytes``: before and after. ``alone``: the number of cases whose numbers
    differ by these moves only. ``other_kind``: that of cases with another kind of program buffers, but the same total bytes.
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
            "counts": {kind.value: count for kind, count in self.counts.items()},
        }


@dataclass(frozen=True)
class Timeline:
    """The same cases on several releases. ``groups``: the records of each release, in the same order of cases."""

    groups: tuple[RecordGroup, ...]
    rows: tuple[MatrixRow, ...]
    steps: tuple[ReleaseStep, ...]

    @classmethod
    def of(cls, runs: Sequence[Run]) -> Timeline:
        """``runs``: one per release, oldest first, each with one group of the same cases in the same order."""
        groups = tuple(run.groups[0] for run in runs)
        by_case: dict[tuple[str, str], list[CaseChange]] = {}
        steps = []
        for before, after in pairwise(runs):
            changes = list(_changes(before, after))
            for change in changes:
                by_case.setdefault((change.change.op, change.change.key), []).append(change)
            steps.append(_step(before.groups[0], after.groups[0], changes))
        cases = zip(*(group.records for group in groups), strict=True)
        rows = tuple(MatrixRow(records, tuple(by_case.get((records[0].op, records[0].key), ()))) for records in cases)
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
        """Rows with changes, in the order of ``VerdictChange``."""
        order = list(VerdictChange)
        return sorted((row for row in self.rows if row.changes), key=lambda row: min(order.index(c.kind) for c in row.changes))

    @cached_property
    def outcomes(self) -> list[Counter[Outcome]]:
        """The number of cases by outcome, for each release."""
        return [Counter(map(outcome_of, group.records)) for group in self.groups]

    @property
    def notes(self) -> list[str]:
        """Releases that report no peaks."""
        reasons = [(group.setting.ttnn, _why_no_peaks(group.records)) for group in self.groups]
        return [f"ttnn {version} reports no peaks ({why}): tensors are compared" for version, why in reasons if why]

    def count(self, kind: VerdictChange) -> int:
        return sum(step.counts[kind] for step in self.steps)

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


def outcome_of(record: Record) -> Outcome:
    return record.status.value, record.resource.value if record.is_oom and record.resource else None


def needs_bytes(record: Record) -> int | None:
    """Returns the bytes needed per bank; for program buffers, the size or end address per core."""
    return record.bytes_per_bank if record.bytes_per_bank is not None else record.program_bytes


def room_bytes(record: Record) -> int | None:
    """Returns the free bytes of a bank, else the size of a bank, else the limit of program buffers, as reported by TTNN."""
    return next((value for name in _ROOM if (value := getattr(record, name)) is not None), None)


def _changes(before: Run, after: Run) -> Iterable[CaseChange]:
    versions = before.groups[0].setting.ttnn, after.groups[0].setting.ttnn
    old, new = ({(r.op, r.key): r for r in run.groups[0].records} for run in (before, after))
    for change in Changes.of(_comparable(before), _comparable(after)).found:
        case = change.op, change.key
        yield CaseChange(_kind(change, old[case], new[case]), *versions, change)


def _kind(change: Change, old: Record, new: Record) -> VerdictChange:
    """Classifies a change. If memory of the host ran out, nothing is known about the device: neither fits nor out of memory."""
    if change.kind in (ChangeKind.GROWN, ChangeKind.SHRUNK):
        return VerdictChange.BYTES_CHANGED
    if change.kind is ChangeKind.NEW_OOM and old.status is Status.FITS and new.resource is not Resource.HOST:
        return VerdictChange.NEWLY_FAILS
    if change.kind is ChangeKind.NOW_FITS and old.is_oom and old.resource is not Resource.HOST:
        return VerdictChange.NEWLY_FITS
    return VerdictChange.OTHER


def _step(before: RecordGroup, after: RecordGroup, changes: Sequence[CaseChange]) -> ReleaseStep:
    changed = {(change.change.op, change.change.key) for change in changes}
    same = [
        (old, new)
        for old, new in zip(before.records, after.records, strict=True)
        if (old.op, old.key) not in changed and old.status is new.status
    ]
    counts = Counter(change.kind for change in changes)
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
        other_kind=sum(bool(old.usage and new.usage) and old.usage != new.usage for old, new in same),
        counts={kind: counts[kind] for kind in VerdictChange},
    )


def _memory(device: DeviceFacts) -> dict[str, int | None]:
    return {
        "l1_base_bytes": device.l1_base_bytes or None,
        "l1_bank_bytes": device.l1.bank_bytes or None,
        "dram_bank_bytes": device.dram.bank_bytes or None,
    }


def _moved(bytes_: tuple[int | None, int | None]) -> int | None:
    before, after = bytes_
    return None if before is None or after is None else after - before


def _comparable(run: Run) -> Run:
    """Returns the run without the kinds of its program buffers; all of them are in ``l1_total_bytes``."""
    (group,) = run.groups
    records = tuple(with_usage(record, _without_kinds(record.usage)) for record in group.records)
    return Run(run.path, run.head, (RecordGroup(group.setting, records, group.device),))


def _without_kinds(usage: Usage | None) -> Usage | None:
    return None if usage is None else replace(usage, circular_bytes=0, dataflow_bytes=0, scratch_bytes=0)


def _numbers(record: Record) -> dict[str, int]:
    """Returns the numbers of the message."""
    return {name: value for name, value in fields_of(record.verdict).items() if isinstance(value, int)}


def _differ(before: Mapping[str, int], after: Mapping[str, int]) -> bool:
    """Returns whether a number that both have differs."""
    return any(after.get(name, value) != value for name, value in before.items())


def _why_no_peaks(records: Sequence[Record]) -> str:
    """Returns the one reason why no record of a fitting call has peaks; empty if some have."""
    fitting = [record for record in records if record.status is Status.FITS]
    reasons = {record.usage_note for record in fitting}
    return reasons.pop() if len(reasons) == 1 and all(record.usage is None for record in fitting) else ""


def _plain(counts: Mapping[Outcome, int]) -> dict[str, int]:
    return {" ".join(filter(None, outcome)): count for outcome, count in counts.items()}


def _cell(record: Record) -> dict[str, Any]:
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
        "peaks": plain(record.usage),
        "message": record.message,
    }
