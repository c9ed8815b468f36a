"""Compares two runs: verdicts, bytes, cases. Imports neither torch nor ttnn.

Cases are matched by operator and key, within groups of one device mode and board; the TTNN release may differ. A reserved base
that moved shifts every number that is counted from it: that is one note, and only numbers that moved by another amount are
changes. Estimates are not compared: they come from this program, not from the device.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ssinghal.core.json_values import fields_of
from ssinghal.core.record import FAULTS, Record, Resource, Status
from ssinghal.errors import HarnessError
from ssinghal.runs.change_kinds import ChangeKind
from ssinghal.runs.placements import PlacedCall, by_memories, placed_calls
from ssinghal.runs.reader import RecordGroup, Run, Setting
from ssinghal.runs.selection import Selection, Unselected


@dataclass(frozen=True)
class ByteChange:
    """A number of bytes, or an address, that differs between the runs."""

    name: str
    before_bytes: int
    after_bytes: int

    def __str__(self) -> str:
        return f"{self.name} {self.before_bytes:,} → {self.after_bytes:,} B"

    def to_json(self) -> dict[str, Any]:
        return {"name": self.name, "before_bytes": self.before_bytes, "after_bytes": self.after_bytes}


@dataclass(frozen=True)
class Change:
    """A case that differs between the runs."""

    kind: ChangeKind
    setting: Setting
    op: str
    key: str
    id: str
    # The verdicts in words, empty if there is no record.
    before: str
    after: str
    # The numbers that differ.
    figures: tuple[ByteChange, ...] = ()
    # How often ``models`` make the call; 0 if only a shape sweep has it.
    calls: int = 0
    models: tuple[str, ...] = ()

    def numbers_text(self, limit: int) -> str:
        """Returns the first numbers in words, and how many more there are."""
        shown = [str(number) for number in self.figures[:limit]]
        more = len(self.figures) - len(shown)
        return ", ".join([*shown, *([f"and {more} more"] if more else [])])

    def to_json(self) -> dict[str, Any]:
        setting = self.setting.to_json()
        case = {"op": self.op, "key": self.key, "id": self.id}
        verdicts = {"before": self.before, "after": self.after}
        callers = {"calls": self.calls, "models": list(self.models)}
        numbers = [number.to_json() for number in self.figures]
        return {"kind": self.kind.value, **setting, **case, **verdicts, **callers, "figures": numbers}


@dataclass(frozen=True)
class Changes:
    """What differs between two runs.

    Attributes:
        before: Id of the earlier run.
        after: Id of the later run.
        settings: The compared pairs of device mode, board and TTNN release.
        heads: A line on each pair.
        notes: What is true of more than one case.
        found: One change for each case that differs.
        placements: The calls that only one run has in each memory, and the other run has in another one.
        cases: Number of cases that both runs have.
    """

    before: str
    after: str
    settings: tuple[tuple[Setting, Setting], ...]
    heads: tuple[str, ...]
    notes: tuple[str, ...]
    found: tuple[Change, ...]
    cases: int
    placements: tuple[PlacedCall, ...] = ()

    @classmethod
    def of(cls, before: Run, after: Run, *, across: bool = False) -> Changes:
        """Compares two runs. ``across``: also groups of different boards and device modes, which the first note states.

        Raises:
            HarnessError: No groups of the runs can be compared.
        """
        pairs = _paired(before.groups, after.groups, across)
        if not pairs:
            have = [f"{run.id} has {'; '.join(str(g.setting) for g in run.groups)}" for run in (before, after)]
            golden = any(not g.setting.measures_memory for run in (before, after) for g in run.groups)
            hint = "" if across else "; --across compares other boards and device modes"
            if golden:
                hint = "; golden functions measure no memory, so that their runs are compared with each other only"
            raise HarnessError(f"nothing to compare: {', '.join(have)}{hint}")
        compared = [_GroupDiff(*pair, before, after) for pair in pairs]
        changes = [change for comparison in compared for change in comparison.changes()]
        order = list(ChangeKind)
        changes.sort(key=lambda c: (order.index(c.kind), c.op, c.id, str(c.setting)))
        notes = [
            *(note for comparison in compared for note in comparison.across_notes()),
            *_left_out(before, [pair[0] for pair in pairs]),
            *_left_out(after, [pair[1] for pair in pairs]),
            *(f"{run.id}: {loss}" for run in (before, after) for loss in run.losses),
            *(note for comparison in compared for note in comparison.notes()),
        ]
        settings = tuple((one.setting, other.setting) for one, other in pairs)
        cases = sum(len(comparison.common) for comparison in compared)
        headers = tuple(comparison.header for comparison in compared)
        placements = tuple(call for comparison in compared for call in comparison.placements)
        return cls(before.id, after.id, settings, headers, tuple(notes), tuple(changes), cases, placements)

    @property
    def counts(self) -> dict[ChangeKind, int]:
        """The number of changes of every kind, including 0."""
        counted = Counter(change.kind for change in self.found)
        return {kind: counted[kind] for kind in ChangeKind}

    def to_json(self) -> dict[str, Any]:
        return {
            "before": self.before,
            "after": self.after,
            "settings": [[str(one), str(other)] for one, other in self.settings],
            "heads": list(self.heads),
            "cases": self.cases,
            "counts": {kind.value: count for kind, count in self.counts.items()},
            "notes": list(self.notes),
            "changes": [change.to_json() for change in self.found],
            "placements": [comparison.to_json() for comparison in by_memories(self.placements)],
        }


def _cases(count: int) -> str:
    return f"{count:,} case{'' if count == 1 else 's'}"


def _paired(before: Iterable[RecordGroup], after: Iterable[RecordGroup], across: bool) -> list[tuple[RecordGroup, RecordGroup]]:
    """Pairs groups of the same setting first, then those of the same board and mode if each run has just one of them.
    ``across``: then by board, then by mode, then the one that is left in each run."""
    keys: list[Callable[[Setting], Any]] = [lambda s: s, lambda s: (s.device_mode, s.board)]
    if across:
        keys += [lambda s: (s.board, s.measures_memory), lambda s: s.device_mode]
    ones, others = list(before), list(after)
    pairs = []
    for key in keys:
        counted = [Counter(key(g.setting) for g in groups) for groups in (before, after)]
        for one in list(ones):
            same = [other for other in others if key(other.setting) == key(one.setting)]
            if same and all(counts[key(one.setting)] == 1 for counts in counted):
                pairs.append((one, same[0]))
                ones.remove(one)
                others.remove(same[0])
    if across and len(ones) == len(others) == 1 and ones[0].setting.measures_memory == others[0].setting.measures_memory:
        pairs.append((ones[0], others[0]))
    return pairs


def _left_out(run: Run, compared: Iterable[RecordGroup]) -> Iterator[str]:
    settings = {group.setting for group in compared}
    for group in run.groups:
        if group.setting not in settings:
            yield f"{run.id}: {_cases(len(group.records))} of {group.setting} without a counterpart, not compared"


# Numbers of a message that move with the reserved base of a memory: by how many bytes for each byte that a bank grows. Room is
# counted from the base. A limit is such room, or the fixed end of L1. Program buffers have a size, or the address where they
# end, which the base shifts the other way. Tensors are placed from the end of L1 down: they stay.
_MOVES: Mapping[str, tuple[int, ...]] = {
    "bank_bytes": (1,),
    "free_bytes": (1,),
    "largest_free_bytes": (1,),
    "limit_bytes": (0, 1),
    "program_bytes": (0, -1),
}
_MESSAGE = ("total_bytes", "bytes_per_bank", "allocated_bytes", "tensor_address", *_MOVES)
_ROOM = {"bank_bytes", "free_bytes", "largest_free_bytes", "limit_bytes", "tensor_address"}  # the less, the worse
_MEMORIES: Mapping[Resource, tuple[str, ...]] = {
    Resource.L1_BUFFER: ("L1",),
    Resource.CIRCULAR_BUFFER: ("L1",),
    Resource.CLASH: ("L1",),
    Resource.DRAM_BUFFER: ("DRAM",),
    Resource.L1_SMALL_BUFFER: ("L1_SMALL",),
    Resource.TRACE_BUFFER: ("trace",),
    Resource.FRAGMENTATION: ("L1", "DRAM"),  # either
}
_NO_TRIAL = (Status.NOT_RUN, Status.UNSUPPORTED, Status.INVALID)
_Pair = tuple[Record, Record]


def _cases_elsewhere(run: Run, group: RecordGroup) -> set[tuple[str, str]]:
    """Returns the cases of the run on the group's board and mode under another release: not compared, but not gone either."""
    same = (group.setting.device_mode, group.setting.board)
    others = [g for g in run.groups if g is not group and (g.setting.device_mode, g.setting.board) == same]
    return {(record.op, record.key) for other in others for record in other.records}


class _GroupDiff:
    """Compares one group with another."""

    def __init__(self, one: RecordGroup, other: RecordGroup, before: Run, after: Run) -> None:
        self.one, self.other = one, other
        self.before, self.after = before, after
        self._old = {(r.op, r.key): r for r in one.records}
        self._new = {(r.op, r.key): r for r in other.records}
        elsewhere = _cases_elsewhere(after, other), _cases_elsewhere(before, one)
        gone = [record for case, record in self._old.items() if case not in self._new and case not in elsewhere[0]]
        new = [record for case, record in self._new.items() if case not in self._old and case not in elsewhere[1]]
        self.placements = _placements(gone, new, before, after, other.setting)
        placed = {id(record) for call in self.placements for record in (call.before, call.after)}
        self._unselected = Unselected(after, before), Unselected(before, after)
        self._vanished, self._left_out = _split(gone, placed, self._unselected[0])
        self._added, self._not_yet = _split(new, placed, self._unselected[1])
        self.common = [(record, self._new[case]) for case, record in self._old.items() if case in self._new]
        self.per_bank = one.setting.board == other.setting.board
        self.shifts = _shifts(self.common, one, other) if self.per_bank else {}

    @property
    def header(self) -> str:
        one, other = self.one, self.other
        setting = str(one.setting) if one.setting == other.setting else f"{one.setting} → {other.setting}"
        numerics = one.numerics if one.numerics == other.numerics else f"{one.numerics} → {other.numerics}"
        return f"{setting}: {_cases(len(self.common))} in both; {numerics}"

    def changes(self) -> Iterator[Change]:
        for old, new in self.common:
            kind, numbers = self._judged(old, new)
            if kind:
                yield self._change(kind, new, _words(old), _words(new), numbers)
        for record in self._vanished:
            if record.status is Status.FITS:
                reason = f"no record: {self.after.id} is incomplete" if self.after.lacks_records else "no record"
                yield self._change(ChangeKind.LOST_FIT, record, _words(record), reason)
            elif not self.after.lacks_records:
                yield self._change(ChangeKind.VANISHED, record, _words(record), "")
        for record in self._added if not self.before.lacks_records else ():
            yield self._change(ChangeKind.NEW_CASE, record, "", _words(record))

    def across_notes(self) -> Iterator[str]:
        one, other = self.one.setting, self.other.setting
        if one.board != other.board:
            yield f"across: {one} → {other}; bytes per bank are not compared across boards"
        elif one.device_mode != other.device_mode:
            yield f"across: {one} → {other}"

    def notes(self) -> Iterator[str]:
        for memory, (old_bytes, new_bytes) in self.shifts.items():
            shifted = sum(self._only_shifted(memory, *pair) for pair in self.common)
            lost = old_bytes - new_bytes
            part, grew = ("the reserved base", lost > 0) if memory == "L1" else ("a bank", lost < 0)
            reason = f"{part} {'grew' if grew else 'shrank'} by {abs(lost):,} B"
            yield f"{memory} banks {old_bytes:,} → {new_bytes:,} B on {_cases(shifted)}: {reason}"
        yield from self._unselected[0].notes(self._left_out)
        yield from self._unselected[1].notes(self._not_yet)
        for run, missing, not_counted in ((self.after, self._vanished, "vanished"), (self.before, self._added, "new")):
            if run.lacks_records and missing:
                yield f"{_cases(len(missing))} without a record in {run.id}, which is incomplete: not counted as {not_counted}"

    def _change(
        self, kind: ChangeKind, record: Record, before: str, after: str, numbers: tuple[ByteChange, ...] = ()
    ) -> Change:
        setting = self.one.setting if kind is ChangeKind.VANISHED else self.other.setting
        case = (record.op, record.key, record.id)
        return Change(kind, setting, *case, before, after, numbers, record.calls, record.callers)

    def _judged(self, old: Record, new: Record) -> tuple[ChangeKind | None, tuple[ByteChange, ...]]:
        worse, moved = self._moved(old, new)
        kind = _verdict_kind(old, new)
        if kind is ChangeKind.CHANGED:
            moved = (*_message_changes(old, new), *moved)
        elif kind is None and moved:
            kind = ChangeKind.GROWN if worse else ChangeKind.SHRUNK
        return kind, moved

    def _moved(self, old: Record, new: Record) -> tuple[bool, tuple[ByteChange, ...]]:
        """Returns the numbers that moved by more or less than their memory, and whether one of them moved for the worse."""
        numbers = list(_numbers(old, new, self.per_bank))
        by_shift = [[(number, _excess(number, shift)) for number in numbers] for shift in [0, *self._shifts_of(new)]]
        best = min(by_shift, key=lambda excesses: sum(excess != 0 for _, excess in excesses))
        moved = [(number, excess) for number, excess in best if excess]
        worse = any((excess > 0) != (number.name in _ROOM) for number, excess in moved)
        return worse, tuple(number for number, _ in moved)

    def _shifts_of(self, record: Record) -> list[int]:
        memories = _MEMORIES.get(record.resource, ()) if record.resource else ()
        return [self.shifts[m][1] - self.shifts[m][0] for m in memories if m in self.shifts]

    def _only_shifted(self, memory: str, old: Record, new: Record) -> bool:
        counts = new.resource is not None and memory in _MEMORIES.get(new.resource, ())
        return counts and not self._moved(old, new)[1] and any(True for _ in _numbers(old, new, self.per_bank))


def _placements(gone: Sequence[Record], new: Sequence[Record], before: Run, after: Run, setting: Setting) -> list[PlacedCall]:
    """Returns the calls that one run placed elsewhere because of its options."""
    one, other = Selection.of(before), Selection.of(after)
    return placed_calls(gone, new, setting) if one and other and one.memory != other.memory else []


def _split(records: Iterable[Record], placed: Container[int], unselected: Unselected) -> tuple[list[Record], list[Record]]:
    """Returns the records that the other run lacks, and those that it did not select; not those that are ``placed``."""
    sides: tuple[list[Record], list[Record]] = [], []
    for record in records:
        if id(record) not in placed:
            sides[bool(unselected.reason(record))].append(record)
    return sides


def _words(record: Record) -> str:
    """Returns the status with what ran out or the reason, and a leak if there is one."""
    status = record.status.value
    text = status if record.sentence == status else f"{status}: {record.sentence}"
    return f"{text}; left allocated on the device" if record.left_allocated else text


def _verdict_kind(old: Record, new: Record) -> ChangeKind | None:
    """Returns None for the same verdict. A case that was not run has none: it neither newly fails nor newly fits, but losing a
    verdict is a change."""
    if bool(new.left_allocated) and not old.left_allocated:
        return ChangeKind.NEW_FAULT
    if _verdict(old) == _verdict(new):
        return None
    if new.status in FAULTS:
        return ChangeKind.NEW_FAULT
    if old.status is Status.FITS and new.status in _NO_TRIAL:
        return ChangeKind.LOST_FIT
    if Status.NOT_RUN in (old.status, new.status):
        return ChangeKind.OTHER_VERDICT
    if new.is_oom:
        return ChangeKind.CHANGED if old.is_oom else ChangeKind.NEW_OOM
    return ChangeKind.NOW_FITS if new.status is Status.FITS else ChangeKind.OTHER_VERDICT


def _verdict(record: Record) -> tuple[Status, Resource | None, str]:
    return record.status, record.resource, record.stage if record.is_oom else ""


def _numbers(old: Record, new: Record, per_bank: bool) -> Iterator[ByteChange]:
    """Yields the numbers that both records have and that differ; those of messages only for the same memory and stage."""
    comparable = _verdict(old) == _verdict(new)
    after = _sizes(new, per_bank, comparable)
    for name, before_bytes in _sizes(old, per_bank, comparable).items():
        if name in after and after[name] != before_bytes:
            yield ByteChange(name, before_bytes, after[name])


def _message_changes(old: Record, new: Record) -> Iterator[ByteChange]:
    """Yields the numbers of two messages about different memories or steps, as they are."""
    for name in _MESSAGE:
        before_bytes, after_bytes = getattr(old, name), getattr(new, name)
        if before_bytes is not None and after_bytes is not None and before_bytes != after_bytes:
            yield ByteChange(name, before_bytes, after_bytes)


def _sizes(record: Record, per_bank: bool, message: bool) -> dict[str, int]:
    names = (_MESSAGE if per_bank else ("total_bytes",)) if message else ()
    sizes = {name: value for name in names if (value := getattr(record, name)) is not None}
    for tensor in record.tensors:
        sizes[f"{tensor.label}: allocated_bytes"] = tensor.allocated_bytes
        if per_bank and tensor.booked_bytes is not None:
            sizes[f"{tensor.label}: booked_bytes"] = tensor.booked_bytes
    if per_bank:
        sizes.update({f"peak {name}": value for name, value in fields_of(record.usage).items()} if record.usage else {})
        sizes.update({f"resident {name}": value for name, value in record.resident.items()})
    return sizes


def _excess(number: ByteChange, shift: int) -> int:
    """Returns how far a number moved beyond what a bank that grew by ``shift`` explains."""
    moved = number.after_bytes - number.before_bytes
    return min((moved - times * shift for times in _MOVES.get(number.name, (0,))), key=abs)


def _shifts(pairs: Iterable[_Pair], one: RecordGroup, other: RecordGroup) -> dict[str, tuple[int, int]]:
    """Returns the bytes of a bank before and after, by memory: as most of its cases have them, else as the device has them."""
    moves: dict[str, Counter[tuple[int, int]]] = {}
    for old, new in pairs:
        if new.resource is None or old.resource is not new.resource or old.bank_bytes is None or new.bank_bytes is None:
            continue
        memories = _MEMORIES.get(new.resource, ())
        if len(memories) == 1:
            moves.setdefault(memories[0], Counter())[old.bank_bytes, new.bank_bytes] += 1
    devices = one.device, other.device
    for memory, regions in {"L1": [d.l1 for d in devices], "DRAM": [d.dram for d in devices]}.items():
        banks = regions[0].bank_bytes, regions[1].bank_bytes
        if memory not in moves and all(banks):
            moves[memory] = Counter([banks])
    shifted = {}
    for memory, counted in moves.items():
        shifts: Counter[int] = Counter()
        for (old_bytes, new_bytes), cases in counted.items():
            shifts[new_bytes - old_bytes] += cases
        (shift, _), *_ = shifts.most_common(1)
        if shift:
            shifted[memory] = next(banks for banks, _ in counted.most_common() if banks[1] - banks[0] == shift)
    return shifted
