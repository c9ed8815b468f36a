"""Reads the folder of a run, or a ``records.jsonl`` alone, into typed records. Imports neither torch nor ttnn.

Reads all complete records and reports the rest: a killed run leaves a truncated last line or too few records. Records of
different boards, device modes or TTNN releases are kept apart and never added up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from ssinghal.core.device_facts import NOT_OPENED, DeviceFacts, DeviceMode
from ssinghal.core.record import Record
from ssinghal.core.run_info import RunInfo
from ssinghal.core.verdict import Status
from ssinghal.errors import HarnessError
from ssinghal.runs.folders import INFO, head_of
from ssinghal.runs.line_files import COMPRESSED, RECORDS, lines_file
from ssinghal.runs.parsing import stored_records
from ssinghal.runs.setting import Setting, numerics_text
from ssinghal.runs.summary import at_the_second_attempt, taken_note


@dataclass(frozen=True)
class RecordGroup:
    """The records of one setting, in the file's order, each case once. ``device``: what the run opened, if of this setting."""

    setting: Setting
    records: tuple[Record, ...]
    device: DeviceFacts = NOT_OPENED

    @classmethod
    def of(cls, setting: Setting, records: Iterable[Record], opened: DeviceFacts) -> RecordGroup:
        same = Setting(opened.mode, opened.board, opened.ttnn) == setting
        return cls(setting, tuple(records), opened if same else NOT_OPENED)

    @property
    def cases(self) -> int:
        return len(self.records)

    @cached_property
    def numerics(self) -> str:
        """Whether values were compared, for the header of every document."""
        return numerics_text(self.setting, sum(r.comparison is not None for r in self.records), len(self.records))


@dataclass(frozen=True)
class Run:
    """A run that was read back.

    Attributes:
        path: Folder of the run, or its ``records.jsonl``.
        head: What ``run.json`` holds; empty where there is none.
        groups: Records by device mode, board and TTNN release, which are not to be added up. ``records`` holds them all.
        losses: What an incomplete or interrupted run lacks, in words.
        lacks_records: Whether cases have no record. An interrupted run that ended by itself has one for each case.
        remarks: What else is odd about its files.
    """

    path: Path
    head: RunInfo
    groups: tuple[RecordGroup, ...]
    losses: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()
    lacks_records: bool = False

    @property
    def id(self) -> str:
        return id_of(self.path, self.head)

    @property
    def records(self) -> tuple[Record, ...]:
        return tuple(record for group in self.groups for record in group.records)

    @cached_property
    def catalogs(self) -> frozenset[str]:
        """The names of all catalogs that its cases come from."""
        return frozenset(source.catalog for record in self.records for source in record.sources)


def read_run(path: Path, records_of: Callable[[Path], tuple[list[Record], list[str]]] | None = None) -> Run:
    """Reads the run of a folder or of a ``records.jsonl``.

    ``records_of``: returns the complete records of a file and a text about each other line, by default ``stored_records``.

    Raises:
        HarnessError: It cannot be read, contains no complete record, or was written by a newer version.
    """
    lines, head, remarks = described(path)
    records, losses = (records_of or stored_records)(lines)
    if not records and (losses or head.selected != 0):  # an empty part of a selection is a run, too
        raise no_record(lines, losses)
    kept = _kept(records)
    remarks += repeated_remarks(lines, len(records) - len(kept))
    remarks += at_the_second_attempt(sum(bool(record.retried) for record in kept.values()))
    remarks += taken_note(sum(bool(record.taken_from) for record in kept.values()), len(kept))
    losses += missing_losses(head, len(kept))
    by_setting: dict[Setting, list[Record]] = {}
    for (setting, _, _), record in kept.items():
        by_setting.setdefault(setting, []).append(record)
    check_modes(lines, by_setting)
    largest_first = sorted(by_setting.items(), key=lambda item: (-len(item[1]), str(item[0])))
    groups = tuple(RecordGroup.of(*grouped, head.device) for grouped in largest_first)
    lacks_records = bool(losses)
    return Run(path, head, groups, (*losses, *filter(None, [head.interruption])), tuple(remarks), lacks_records)


def id_of(path: Path, head: RunInfo) -> str:
    return head.run or (path.parent.name if path.is_file() else path.name)


def described(path: Path) -> tuple[Path, RunInfo, list[str]]:
    """Returns the file with the lines of a run, what its ``run.json`` holds, and what is odd about that."""
    lines = (lines_file(path) or path / RECORDS) if path.is_dir() else path
    head, remarks = head_of(lines.parent / INFO) if lines.name in (RECORDS, COMPRESSED) else (RunInfo(), [])
    return lines, head, [*remarks, *filter(None, [head.origin])]


def no_record(lines: Path, losses: Sequence[str]) -> HarnessError:
    return HarnessError(f"{lines}: contains no complete record" + (f"; {losses[0]}" if losses else ""))


def repeated_remarks(lines: Path, repeated: int) -> list[str]:
    return [f"{lines}: {repeated:,} repeated records; the last answer for each case counts"] if repeated else []


def missing_losses(head: RunInfo, cases: int) -> list[str]:
    """Returns a text about selected cases without a record, if there are any."""
    missing = (head.selected or 0) - cases
    if missing <= 0:
        return []
    return [f"{missing:,} of {head.selected:,} selected cases have no record: the run was interrupted or is still in progress"]


def check_modes(lines: Path, settings: Iterable[Setting]) -> None:
    """Raises HarnessError for records of golden functions beside others."""
    modes = {setting.device_mode for setting in settings} - {DeviceMode.NONE}
    if DeviceMode.GOLDEN in modes and len(modes) > 1:
        raise HarnessError(
            f"{lines}: holds records of golden functions, which measure no memory, beside others ({', '.join(sorted(modes))}); "
            "expected them in runs of their own"
        )


def _kept(records: Iterable[Record]) -> dict[tuple[Setting, str, str], Record]:
    """Returns one record per case and setting: the last one that a device answered, else the last one. A case that no device
    answered belongs to the setting of its board, if there is just one."""
    listed = list(records)
    answered = {Setting.of(r) for r in listed if r.device_mode != DeviceMode.NONE}
    kept: dict[tuple[Setting, str, str], Record] = {}
    for record in listed:
        setting = Setting.of(record)
        if record.device_mode == DeviceMode.NONE:
            same_board = [s for s in answered if s.board == setting.board]
            setting = same_board[0] if len(same_board) == 1 else setting
        case = (setting, record.op, record.key)
        if case in kept and record.device_mode == DeviceMode.NONE != kept[case].device_mode:
            continue
        kept[case] = record
    return kept


def counted(records: Iterable[Record]) -> dict[str, int]:
    """Returns the number of cases per status, in the order of ``Status``, without statuses that no case has."""
    counts = dict.fromkeys(Status, 0)
    for record in records:
        counts[record.status] += 1
    return {status.value: cases for status, cases in counts.items() if cases}
