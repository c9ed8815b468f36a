"""Reads the folder of a run, or a ``records.jsonl`` alone, into typed records. Imports neither torch nor ttnn.

Reads all complete records and reports the rest: a killed run leaves a truncated last line or too few records. Records of
different boards, device modes or TTNN releases are kept apart and never added up. This is the only module that validates
records, so that those that write them need not import pydantic.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from ssinghal.core.case import Case, Source
from ssinghal.core.device_facts import NOT_OPENED, DeviceFacts, DeviceMode
from ssinghal.core.json_values import fields_of, plain
from ssinghal.core.record import SCHEMA_VERSION, Record, RunInfo, Status
from ssinghal.errors import HarnessError, InvalidCase
from ssinghal.operators.case_json import KEYS, MIXED_KEYS, case_from_json

_RECORD = TypeAdapter(Record)
_HEAD = TypeAdapter(RunInfo)
_DEVICE = TypeAdapter(DeviceFacts)
_ORDER: Mapping[str | int, int] = {field.name: place for place, field in enumerate(fields(Record))}

LATEST = "latest"
RECORDS = "records.jsonl"
INFO = "run.json"
MAX_LOSSES = 20
# Options of run and pytest that decide no verdict.
# What earlier versions wrote of a source, with the defaults.
_FIRST_MODULE: Mapping[str, Any] = {"catalog": "", "model": "", "input_size": "", "count": 1, "module_path": ""}
_INDIFFERENT = {"results", "workers", "as_json", "ttnn_log", "ttnn-log", "policy", "remedies"}


@dataclass(frozen=True)
class Setting:
    """The device mode, board and TTNN release of a record. Only records with the same ones are added up."""

    device_mode: DeviceMode
    board: str
    ttnn: str

    @classmethod
    def of(cls, record: Record) -> Setting:
        return cls(record.device_mode, record.board, record.ttnn)

    @property
    def measures_memory(self) -> bool:
        """Golden functions give values alone."""
        return self.device_mode is not DeviceMode.GOLDEN

    def to_json(self) -> dict[str, str]:
        return {"device_mode": self.device_mode.value, "board": self.board, "ttnn": self.ttnn}

    def __str__(self) -> str:
        device = "no device," if self.device_mode is DeviceMode.NONE else self.device_mode
        return f"{device} {self.board}, ttnn {self.ttnn or 'not installed'}"


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
    def numerics(self) -> str:
        """Whether values were compared, for the header of every page."""
        compared = sum(r.comparison is not None for r in self.records)
        if not self.setting.measures_memory:
            return (
                f"no device: TTNN's golden functions compared with torch for {compared:,} of {len(self.records):,} cases; "
                "no memory was measured, and no kernel ran"
            )
        if not compared:
            return "numerics not run: memory verdicts only"
        return f"numerics compared for {compared:,} of {len(self.records):,} cases"


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
        return self.head.run or (self.path.parent.name if self.path.is_file() else self.path.name)

    @property
    def records(self) -> tuple[Record, ...]:
        return tuple(record for group in self.groups for record in group.records)


def find_run(text: str | None, results: Path) -> Path:
    """Returns the folder or file of a run.

    Args:
        text: A path, the id of a run in ``results`` or the start of one, or ``latest`` (None too) for the last run.
        results: The folder of the runs.

    Raises:
        HarnessError: There is no such run, or several ids start with the text.
    """
    if text in (None, LATEST):
        latest = results / LATEST
        if not (latest / RECORDS).is_file():
            raise HarnessError(f"no run in {results}: expected {latest}; name a run, or start with: ssinghal run")
        return latest.resolve()
    if text and Path(text).exists():
        path = Path(text).resolve()
        if path.name == RECORDS and (path.parent / INFO).is_file():
            return path.parent
        if path.is_dir() and not (path / RECORDS).is_file():
            raise HarnessError(f"{text}: expected a run's folder, with {RECORDS} in it")
        return path
    known = [path for path in run_folders(results) if path.name.startswith(text)] if text else []
    exact = [path for path in known if path.name == text]
    if len(known) == 1 or exact:
        return (exact or known)[0]
    if known:
        raise HarnessError(
            f"run {text!r}: {len(known)} ids of runs in {results} start with it: {', '.join(p.name for p in known[:5])}"
        )
    raise HarnessError(f"no run {text!r}: expected a run's folder, a {RECORDS}, or the id of a run in {results}")


def run_folders(results: Path) -> list[Path]:
    """Returns the folders of the runs in ``results``, the oldest first."""
    if not results.is_dir():
        return []
    return sorted(p for p in results.iterdir() if not p.is_symlink() and (p / RECORDS).is_file())


def earlier_runs(path: Path) -> Iterator[Path]:
    """Yields earlier runs next to the folder ``path``, the last one first: those with the same options, board and device mode.
    There are none if ``path`` has no ``run.json``."""
    selection = _selection(path) if path.is_dir() else {}
    for other in reversed(run_folders(path.parent)):
        if selection and other.name < path.name and _selection(other) == selection:
            yield other


def _selection(folder: Path) -> dict[str, Any]:
    """Returns what decided which cases were run, and on which device; {} if that is not known."""
    try:
        head, _ = _head(folder / INFO)
    except HarnessError:  # of a newer version
        return {}
    deciding = {name: value for name, value in head.options.items() if name not in _INDIFFERENT}
    return {**deciding, "opened": [head.device.mode, head.device.board]} if head.options else {}


def read_run(path: Path) -> Run:
    """Reads the run of a folder or of a ``records.jsonl``.

    Raises:
        HarnessError: It cannot be read, contains no complete record, or was written by a newer version.
    """
    lines = path / RECORDS if path.is_dir() else path
    head, remarks = _head(lines.parent / INFO) if lines.name == RECORDS else (RunInfo(), [])
    records, losses = stored_records(lines)
    if not records:
        raise HarnessError(f"{lines}: contains no complete record" + (f"; {losses[0]}" if losses else ""))
    kept = _kept(records)
    if repeated := len(records) - len(kept):
        remarks.append(f"{lines}: {repeated:,} repeated records; the last answer for each case counts")
    missing = (head.selected or 0) - len(kept)
    if missing > 0:
        losses.append(
            f"{missing:,} of {head.selected:,} selected cases have no record: the run was interrupted or is still in progress"
        )
    lacks_records = bool(losses)
    if head.interruption:
        losses.append(head.interruption)
    by_setting: dict[Setting, list[Record]] = {}
    for (setting, _, _), record in kept.items():
        by_setting.setdefault(setting, []).append(record)
    modes = {setting.device_mode for setting in by_setting} - {DeviceMode.NONE}
    if DeviceMode.GOLDEN in modes and len(modes) > 1:
        raise HarnessError(
            f"{lines}: holds records of golden functions, which measure no memory, beside others ({', '.join(sorted(modes))}); "
            "expected them in runs of their own"
        )
    largest_first = sorted(by_setting.items(), key=lambda item: (-len(item[1]), str(item[0])))
    groups = tuple(RecordGroup.of(*grouped, head.device) for grouped in largest_first)
    return Run(path, head, groups, tuple(losses), tuple(remarks), lacks_records)


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


def _head(path: Path) -> tuple[RunInfo, list[str]]:
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return RunInfo(), []
    except OSError as error:
        raise HarnessError(f"cannot read {path}: {error.strerror}") from error
    _check_schema(_schema_of(data), path)
    try:
        return _HEAD.validate_json(data, strict=True), []
    except ValidationError as error:
        return RunInfo(), [f"{path}: not a run's header ({_problem(error)}); the run's options and device are not known"]


def parse_record(text: str | bytes) -> Record:
    """Reads one line of ``records.jsonl``. Fields of later versions are ignored: only a new schema number changes the meaning
    of the old ones.

    Raises:
        ValueError: It is not a record.
    """
    return _RECORD.validate_json(_with_modules(text), strict=True)


def _with_modules(text: str | bytes) -> str | bytes:
    """Returns a line as this version writes it: earlier ones recorded only the first module of each source, its
    ``module_path``."""
    line = text.encode() if isinstance(text, str) else text
    if b'"module_path"' not in line or b'"modules"' in line:
        return text
    try:
        record = json.loads(line)
        for source in record["sources"]:
            fields = [source.get(name, default) for name, default in _FIRST_MODULE.items()]
            source |= plain(fields_of(Source.of_first(*fields)))
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return text  # no record: the reader states why
    return json.dumps(record)


def parse_device(text: str | bytes) -> DeviceFacts:
    """Reads what ``DeviceFacts.to_json`` writes.

    Raises:
        ValueError: It is something else.
    """
    return _DEVICE.validate_json(text, strict=True)


def record_text(record: Record, without: set[str]) -> str:
    """Returns the record as JSON that ``parse_record`` reads, without the fields ``without`` and those at their defaults."""
    return _RECORD.dump_json(record, exclude=without, exclude_defaults=True).decode()


def identity_of(record: Record) -> dict[str, Any]:
    """Returns what ``Case.identity`` returns of the record's case."""
    fields = {key: plain(getattr(record, key)) for key in KEYS}
    return {key: value for key, value in fields.items() if value or key not in MIXED_KEYS}


def case_of(record: Record) -> Case:
    """Returns the call of a record.

    Raises:
        InvalidCase: This version has no such operator or call.
    """
    return case_from_json(identity_of(record))


def case_or_none(record: Record) -> Case | None:
    """Returns the call of a record, or None if this version has no such call."""
    try:
        return case_of(record)
    except InvalidCase:
        return None


def stored_records(path: Path) -> tuple[list[Record], list[str]]:
    """Returns the complete records of a file, and a text about each other line.

    Raises:
        HarnessError: It cannot be read, or was written by a newer version.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise HarnessError(f"cannot read {path}: {error.strerror}") from error
    records, losses = [], []
    lines = data.split(b"\n")
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            records.append(parse_record(line))
        except ValidationError as error:
            _check_schema(_schema_of(line), path, number)
            is_truncated = number == len(lines) and error.errors()[0]["type"] == "json_invalid"
            what = f"truncated after {len(line):,} B; was the run killed?" if is_truncated else _problem(error)
            losses.append(f"{path}:{number}: not a complete record, skipped: {what}")
        else:
            if b'"schema": 1,' not in line[:16]:  # as this version writes it; else the number is checked
                _check_schema(_schema_of(line), path, number)
    more = len(losses) - MAX_LOSSES
    return records, [*losses[:MAX_LOSSES], *([f"{path}: {more:,} more lines are not complete records"] if more > 0 else [])]


def _schema_of(line: bytes) -> Any:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return value.get("schema") if isinstance(value, dict) else None


def _check_schema(schema: Any, path: Path, number: int | None = None) -> None:
    if isinstance(schema, int) and schema > SCHEMA_VERSION:
        where = path if number is None else f"{path}:{number}"
        raise HarnessError(
            f"{where}: records of schema {schema}; this ssinghal reads up to {SCHEMA_VERSION}: use a newer version"
        )


def _problem(error: ValidationError) -> str:
    first = min(error.errors(), key=lambda one: _ORDER.get(one["loc"][0], 0) if one["loc"] else 0)
    where = ".".join(map(str, first["loc"]))
    return f"{where}: {first['msg']}" if where else str(first["msg"])


def counted(records: Iterable[Record]) -> dict[str, int]:
    """Returns the number of cases per status, in the order of ``Status``, without statuses that no case has."""
    counts = dict.fromkeys(Status, 0)
    for record in records:
        counts[record.status] += 1
    return {status.value: cases for status, cases in counts.items() if cases}
