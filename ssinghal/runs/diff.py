"""Compares two runs: verdicts, bytes, cases. Imports neither torch nor ttnn.

Cases are matched by operator and key, within groups of one device mode and board; the TTNN release may differ. A reserved base
that moved shifts every number that is counted from it: that is one note, and only numbers that moved by another amount are
changes. Estimates are not compared: they come from this program, not from the device.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol, TypeVar

from ssinghal.core.device_facts import DeviceFacts
from ssinghal.core.record import Record
from ssinghal.core.run_info import RunInfo
from ssinghal.core.verdict import Status
from ssinghal.errors import HarnessError
from ssinghal.runs.change_kinds import ChangeKind
from ssinghal.runs.judging import BankMove, ByteChange, Judge, bank_moves, shifts_of, words
from ssinghal.runs.placements import PlacedCall, by_memories, placed_pairs
from ssinghal.runs.reader import RecordGroup, Run
from ssinghal.runs.selection import Selection, Unselected
from ssinghal.runs.setting import Setting

Group_co = TypeVar("Group_co", covariant=True)


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
        return changes_between(before, after, lambda one, other: MatchedRecords(one, other, before, after), across)

    @property
    def counts(self) -> dict[ChangeKind, int]:
        """The number of changes of every kind, including 0."""
        counted = Counter(change.kind for change in self.found)
        return {kind: counted[kind] for kind in ChangeKind}

    @property
    def compared_nothing(self) -> bool:
        """Whether the runs have no case and no call in common."""
        return not self.cases and not self.placements

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


def changes_between(
    before: RunLike[Group], after: RunLike[Group], match: Callable[[Group, Group], Matched], across: bool
) -> Changes:
    """Compares two runs whose groups ``match`` matches; see ``Changes.of``."""
    pairs = _paired(before.groups, after.groups, across)
    if not pairs:
        have = [f"{run.id} has {'; '.join(str(g.setting) for g in run.groups) or 'no record'}" for run in (before, after)]
        golden = any(not g.setting.measures_memory for run in (before, after) for g in run.groups)
        has_none = not (before.groups and after.groups)
        hint = "" if across or has_none else "; --across compares other boards and device modes"
        if golden:
            hint = "; golden functions measure no memory, so that their runs are compared with each other only"
        raise HarnessError(f"nothing to compare: {', '.join(have)}{hint}")
    compared = [_GroupDiff(*pair, match(*pair), before, after) for pair in pairs]
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
    cases = sum(comparison.cases for comparison in compared)
    headers = tuple(comparison.header for comparison in compared)
    placements = tuple(call for comparison in compared for call in comparison.placements)
    return Changes(before.id, after.id, settings, headers, tuple(dict.fromkeys(notes)), tuple(changes), cases, placements)


def _cases(count: int) -> str:
    return f"{count:,} case{'' if count == 1 else 's'}"


def _paired(before: Iterable[Group], after: Iterable[Group], across: bool) -> list[tuple[Group, Group]]:
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


def _left_out(run: RunLike[Group], compared: Iterable[Group]) -> Iterator[str]:
    settings = {group.setting for group in compared}
    for group in run.groups:
        if group.setting not in settings:
            yield f"{run.id}: {_cases(group.cases)} of {group.setting} without a counterpart, not compared"


class GroupLike(Protocol):
    """The records of one setting, as ``reader.RecordGroup`` or ``columns.ColumnGroup`` has them."""

    @property
    def setting(self) -> Setting: ...
    @property
    def device(self) -> DeviceFacts: ...
    @property
    def cases(self) -> int: ...
    @property
    def numerics(self) -> str: ...


Group = TypeVar("Group", bound=GroupLike)


class RunLike(Protocol[Group_co]):
    """A run, as ``reader.Run`` or ``columns.Columns`` has it."""

    @property
    def id(self) -> str: ...
    @property
    def head(self) -> RunInfo: ...
    @property
    def losses(self) -> tuple[str, ...]: ...
    @property
    def lacks_records(self) -> bool: ...
    @property
    def groups(self) -> tuple[Group_co, ...]: ...
    @property
    def catalogs(self) -> frozenset[str]: ...


class Matched(Protocol):
    """The records of two groups, matched by operator and key; all in the order of their runs."""

    # How many cases both have.
    common: int

    def bank_moves(self) -> Iterable[BankMove]:
        """Yields the banks of the cases that both have, in the order of the earlier run."""

    def pairs(self) -> Iterable[tuple[Record, Record]]:
        """Yields the cases that both have, but for some whose ``judging.compared_values`` are equal."""

    def placed(self) -> Sequence[tuple[Record, Record]]:
        """Returns the calls that each run has in one memory alone, and in another one than the other run has it in."""

    def gone(self, but_placed: bool) -> Iterable[Record]:
        """Yields the records that the later run lacks. ``but_placed``: those in ``placed`` left out."""

    def new(self, but_placed: bool) -> Iterable[Record]:
        """Yields the records that the earlier run lacks."""


class _GroupDiff:
    """Compares one group with another."""

    def __init__(self, one: GroupLike, other: GroupLike, matched: Matched, before: RunLike[Any], after: RunLike[Any]) -> None:
        self.one, self.other = one, other
        self.before, self.after = before, after
        self.cases = matched.common
        self._matched = matched
        selected = Selection.of(before), Selection.of(after)
        self._by_placement = bool(selected[0] and selected[1] and selected[0].memory != selected[1].memory)
        calls = matched.placed() if self._by_placement else ()
        self.placements = [PlacedCall(other.setting, *call) for call in calls]
        per_bank = one.setting.board == other.setting.board
        self._judge = Judge(per_bank, shifts_of(matched.bank_moves(), one.device, other.device) if per_bank else {})
        self._shifted: Counter[str] = Counter()
        self._vanished, self._added = _Missing(after, before), _Missing(before, after)

    @property
    def header(self) -> str:
        one, other = self.one, self.other
        setting = str(one.setting) if one.setting == other.setting else f"{one.setting} → {other.setting}"
        numerics = one.numerics if one.numerics == other.numerics else f"{one.numerics} → {other.numerics}"
        return f"{setting}: {_cases(self.cases)} in both; {numerics}"

    def changes(self) -> Iterator[Change]:
        """Yields them, and counts what ``notes`` are about."""
        for old, new in self._matched.pairs():
            kind, numbers = self._judge.judged(old, new)
            self._shifted.update(memory for memory in self._judge.shifts if self._judge.only_shifted(memory, old, new))
            if kind:
                yield self._change(kind, new, words(old), words(new), numbers)
        for record in self._vanished.of(self._matched.gone(self._by_placement)):
            if record.status is Status.FITS:
                reason = f"no record: {self.after.id} is incomplete" if self.after.lacks_records else "no record"
                yield self._change(ChangeKind.LOST_FIT, record, words(record), reason)
            elif not self.after.lacks_records:
                yield self._change(ChangeKind.VANISHED, record, words(record), "")
        for record in self._added.of(self._matched.new(self._by_placement)):
            if not self.before.lacks_records:
                yield self._change(ChangeKind.NEW_CASE, record, "", words(record))

    def across_notes(self) -> Iterator[str]:
        one, other = self.one.setting, self.other.setting
        if one.board != other.board:
            yield f"across: {one} → {other}; bytes per bank are not compared across boards"
        elif one.device_mode != other.device_mode:
            yield f"across: {one} → {other}"

    def notes(self) -> Iterator[str]:
        for memory, (old_bytes, new_bytes) in self._judge.shifts.items():
            lost = old_bytes - new_bytes
            part, grew = ("the reserved base", lost > 0) if memory == "L1" else ("a bank", lost < 0)
            reason = f"{part} {'grew' if grew else 'shrank'} by {abs(lost):,} B"
            yield f"{memory} banks {old_bytes:,} → {new_bytes:,} B on {_cases(self._shifted[memory])}: {reason}"
        yield from self._vanished.unselected.notes()
        yield from self._added.unselected.notes()
        for run, missing, not_counted in (
            (self.after, self._vanished.missing, "vanished"),
            (self.before, self._added.missing, "new"),
        ):
            if run.lacks_records and missing:
                yield f"{_cases(missing)} without a record in {run.id}, which is incomplete: not counted as {not_counted}"

    def _change(
        self, kind: ChangeKind, record: Record, before: str, after: str, numbers: tuple[ByteChange, ...] = ()
    ) -> Change:
        setting = self.one.setting if kind is ChangeKind.VANISHED else self.other.setting
        case = (record.op, record.key, record.id)
        return Change(kind, setting, *case, before, after, numbers, record.calls, record.callers)


class _Missing:
    """Separates the records that ``run`` lacks from those that it did not select; counts both."""

    def __init__(self, run: RunLike[Any], other: RunLike[Any]) -> None:
        self.unselected = Unselected(run, other)
        self.missing = 0

    def of(self, records: Iterable[Record]) -> Iterator[Record]:
        for record in records:
            if not self.unselected.left_out(record):
                self.missing += 1
                yield record


class MatchedRecords:
    """The records of two groups of runs that were read as objects."""

    def __init__(self, one: RecordGroup, other: RecordGroup, before: Run, after: Run) -> None:
        old, new = ({(r.op, r.key): r for r in group.records} for group in (one, other))
        elsewhere = _cases_elsewhere(after, other), _cases_elsewhere(before, one)
        self._gone = [record for case, record in old.items() if case not in new and case not in elsewhere[0]]
        self._new = [record for case, record in new.items() if case not in old and case not in elsewhere[1]]
        self._common = [(record, new[case]) for case, record in old.items() if case in new]
        self.common = len(self._common)

    def bank_moves(self) -> Iterator[BankMove]:
        return bank_moves(self._common)

    def pairs(self) -> list[tuple[Record, Record]]:
        return self._common

    @cached_property
    def _placed(self) -> list[tuple[Record, Record]]:
        return placed_pairs(self._gone, self._new)

    def placed(self) -> list[tuple[Record, Record]]:
        return self._placed

    def gone(self, but_placed: bool) -> list[Record]:
        return self._but_placed(self._gone, but_placed)

    def new(self, but_placed: bool) -> list[Record]:
        return self._but_placed(self._new, but_placed)

    def _but_placed(self, records: list[Record], but_placed: bool) -> list[Record]:
        placed = {id(record) for call in self._placed for record in call} if but_placed else set()
        return [record for record in records if id(record) not in placed]


def _cases_elsewhere(run: Run, group: RecordGroup) -> set[tuple[str, str]]:
    """Returns the cases of the run on the group's board and mode under another release: not compared, but not gone either."""
    same = (group.setting.device_mode, group.setting.board)
    others = [g for g in run.groups if g is not group and (g.setting.device_mode, g.setting.board) == same]
    return {(record.op, record.key) for other in others for record in other.records}
