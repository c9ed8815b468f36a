"""Runs read back: a run's folder, or a bare ``records.jsonl``, as typed records. Imports neither torch nor ttnn.

What is whole is read, and what is not is told: a run that was killed leaves a last line cut short, or fewer records than it
selected. Records of different boards, device modes or TTNN releases are kept apart, never added up.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, ValidationError

from ssinghal.device.usage import Usage
from ssinghal.errors import HarnessError
from ssinghal.records import SCHEMA_VERSION, Resource, Status, Verdict
from ssinghal.specs import Shape
from ssinghal.text import sentence

LATEST = "latest"
RECORDS = "records.jsonl"
INFO = "run.json"
NO_DEVICE = "none"  # the device mode of a record that no device answered
MAX_LOSSES_TOLD = 20


class _Stored(BaseModel):
    """Fields of later versions are let through: only a new schema number changes the meaning of the old ones."""

    model_config = ConfigDict(frozen=True, extra="ignore", strict=True)


class StoredTensor(_Stored):
    """A tensor that was on the device; ``booked_bytes`` per bank, by the allocator's own view."""

    label: str
    shape: Shape
    dtype: str
    layout: str
    memory: str
    logical_bytes: int
    allocated_bytes: int
    booked_bytes: int | None = None


class StoredAllocation(_Stored):
    """A tensor of the call by arithmetic, whether or not it was ever placed."""

    label: str
    shape: Shape
    padded_shape: Shape
    dtype: str
    layout: str
    memory: str
    logical_bytes: int
    allocated_bytes: int
    bytes_per_bank: int
    booked_bytes_per_bank: int
    padding_factor: float
    padding_cause: str = ""


class StoredEstimate(_Stored):
    verdict: str
    reason: str = ""
    resource: str | None = None
    stage: str = ""
    complete: bool = True
    temporaries: bool = False
    program_bytes: int | None = None
    shortfall_bytes: int | None = None
    peak_bytes_per_bank: Mapping[str, int] = {}
    allocations: tuple[StoredAllocation, ...] = ()


class StoredSource(_Stored):
    """``count`` 0: the model has a tensor of the shape, but is not known to make this very call."""

    catalog: str
    model: str = ""
    input_size: str = ""
    count: int = 1
    module_path: str = ""


_USAGE = frozenset(f.name for f in fields(Usage))


def _whole_usage(value: Mapping[str, int]) -> Mapping[str, int]:
    if not value.keys() >= _USAGE:
        raise ValueError(f"needs {', '.join(sorted(_USAGE - value.keys()))}")
    return value


class StoredRecord(_Stored):
    """One line of ``records.jsonl``. Fields are those of ``Record.to_json``."""

    run: str = ""
    op: str
    operator: str
    key: str
    id: str
    inputs: tuple[Shape, ...]
    attrs: Mapping[str, Any]
    dtype: str
    layout: str
    memory: str
    output_memory: str
    channels_last: bool | None = None
    l1_small_size: int | None = None
    listed_shape: Shape | None = None
    status: Status
    resource: Resource | None = None
    stage: str = ""
    total_bytes: int | None = None
    bytes_per_bank: int | None = None
    banks: int | None = None
    bank_bytes: int | None = None
    allocated_bytes: int | None = None
    free_bytes: int | None = None
    largest_free_bytes: int | None = None
    program_bytes: int | None = None
    limit_bytes: int | None = None
    tensor_address: int | None = None
    shortfall_bytes: int | None = None
    cores: str = ""
    buffer_kind: str = ""
    decided_by: str = ""
    error_type: str = ""
    message: str = ""
    device_mode: str
    board: str
    ttnn: str
    numerics: str = "not run"
    tensors: tuple[StoredTensor, ...] = ()
    usage: Annotated[Mapping[str, int], AfterValidator(_whole_usage)] | None = None
    usage_note: str = ""
    resident: Mapping[str, int] = {}
    estimate: StoredEstimate | None = None
    left_allocated: Mapping[str, int] = {}
    sources: tuple[StoredSource, ...] = ()
    duration_s: float = 0.0

    @property
    def is_oom(self) -> bool:
        return self.status is Status.OOM

    @property
    def verdict(self) -> Verdict:
        return Verdict(**{name: getattr(self, name) for name in _VERDICT_FIELDS})

    @property
    def sentence(self) -> str:
        """What ran out, by how much, at which step; else the status and its reason."""
        return sentence(self.verdict)

    @property
    def allocations(self) -> tuple[StoredAllocation, ...]:
        return self.estimate.allocations if self.estimate else ()

    @cached_property
    def shape(self) -> Shape:
        """The shape that the case is known by: the catalog's, else its largest operand's, else its largest result's, else ().

        As a catalog or model has it (NCHW), not as it is placed.
        """
        if self.listed_shape is not None:
            return self.listed_shape
        shapes = self.inputs or tuple(a.shape for a in self.allocations)
        return max(shapes, key=math.prod, default=())

    @cached_property
    def subject(self) -> StoredAllocation | None:
        """The tensor that has ``shape``, as placed; where the call makes another from it, the largest of as many elements."""
        last = (self.shape[0], *self.shape[2:], self.shape[1]) if len(self.shape) == 4 else self.shape
        count = math.prod(self.shape)
        alike = [a for a in self.allocations if math.prod(a.shape) == count]
        for wanted in (last, self.shape) if self.channels_last is not False else (self.shape, last):
            for allocation in alike:
                if allocation.shape == wanted:
                    return allocation
        return max(alike, key=lambda a: a.allocated_bytes, default=None)

    @cached_property
    def calls(self) -> int:
        """How often models make this very call. Of captures of one model at one input, which are the same calls at two levels,
        the one with most counts."""
        made: Counter[tuple[str, str, str]] = Counter()
        for source in self.sources:
            made[source.model, source.input_size, source.catalog] += source.count
        most: dict[tuple[str, str], int] = {}
        for (model, input_size, _), calls in made.items():
            most[model, input_size] = max(calls, most.get((model, input_size), 0))
        return sum(most.values())

    @property
    def callers(self) -> tuple[str, ...]:
        """Models that make this very call."""
        return tuple(sorted({s.model for s in self.sources if s.model and s.count}))

    @property
    def failed(self) -> StoredAllocation | None:
        """The tensor that did not fit, for an OOM of a tensor that arithmetic knows."""
        return next((a for a in self.allocations if a.label == self.stage), None) if self.is_oom else None


_VERDICT_FIELDS = tuple(f.name for f in fields(Verdict) if f.name in StoredRecord.model_fields)


@dataclass(frozen=True)
class Setting:
    """What records must share to be added up."""

    device_mode: str
    board: str
    ttnn: str

    def __str__(self) -> str:
        on = f"no device, {self.board}" if self.device_mode == NO_DEVICE else f"{self.device_mode} {self.board}"
        return f"{on}, ttnn {self.ttnn or 'not installed'}"


@dataclass(frozen=True)
class Group:
    """Records of one setting, in the file's order, each case once. ``device``: what the run opened, as ``run.json`` says."""

    setting: Setting
    records: tuple[StoredRecord, ...]
    device: Mapping[str, Any] = field(default_factory=dict)

    @property
    def computes(self) -> bool:
        """Whether values were looked at; on a virtual device they never are."""
        return any(r.numerics == "compared" for r in self.records)

    @property
    def numerics(self) -> str:
        """For the head of every page."""
        compared = sum(r.numerics == "compared" for r in self.records)
        if not compared:
            return "numerics not run: memory verdicts only"
        return f"numerics compared for {compared:,} of {len(self.records):,} cases"


@dataclass(frozen=True)
class Run:
    """``losses``: what the folder does not have, in words. ``info``: ``run.json``, {} where there is none."""

    path: Path
    info: Mapping[str, Any]
    groups: tuple[Group, ...]
    losses: tuple[str, ...] = ()

    @property
    def id(self) -> str:
        return str(self.info.get("run", "")) or (self.path.parent.name if self.path.is_file() else self.path.name)

    @property
    def records(self) -> tuple[StoredRecord, ...]:
        return tuple(record for group in self.groups for record in group.records)


def find_run(text: str | None, results: Path) -> Path:
    """The folder or file that ``text`` names: a path, or a run below ``results`` by its id or what that begins with; None
    and ``latest``: the last.

    Raises:
        HarnessError: there is none, or several begin so.
    """
    if text in (None, LATEST):
        latest = results / LATEST
        if not (latest / RECORDS).is_file():
            raise HarnessError(f"no run in {results}: expected {latest}; name a run, or begin with: ssinghal run")
        return latest.resolve()
    if text and Path(text).exists():
        path = Path(text).resolve()
        if path.is_dir() and not (path / RECORDS).is_file():
            raise HarnessError(f"{text}: expected a run's folder, with {RECORDS} in it")
        return path
    known = [path for path in run_folders(results) if path.name.startswith(text)] if text else []
    exact = [path for path in known if path.name == text]
    if len(known) == 1 or exact:
        return (exact or known)[0]
    if known:
        raise HarnessError(f"run {text!r}: {len(known)} runs in {results} begin so: {', '.join(p.name for p in known[:5])}")
    raise HarnessError(f"no run {text!r}: expected a run's folder, a {RECORDS}, or the id of a run in {results}")


def run_folders(results: Path) -> list[Path]:
    """Folders of runs below ``results``, oldest first."""
    if not results.is_dir():
        return []
    return sorted(p for p in results.iterdir() if not p.is_symlink() and (p / RECORDS).is_file())


def previous_run(path: Path) -> Path | None:
    """The run before that of the folder ``path``, beside it, with the same options on the same board in the same device mode.

    None where there is none, or where ``path`` has no ``run.json``.
    """
    if not path.is_dir():
        return None
    wanted = _selection(path)
    earlier = [other for other in run_folders(path.parent) if other.name < path.name]
    return next((other for other in reversed(earlier) if wanted and _selection(other) == wanted), None)


def _selection(folder: Path) -> dict[str, Any]:
    """What decided which cases were run and on what; {} if that is not known. Where results went does not count."""
    info, _ = _info(folder / INFO)
    options = info.get("options")
    if not isinstance(options, dict):
        return {}
    device = info.get("device", {})
    return {**options, "results": None, "opened": [device.get("mode"), device.get("board")]}


def read_run(path: Path) -> Run:
    """The run of a folder or of a ``records.jsonl``.

    Raises:
        HarnessError: it cannot be read, holds no whole record, or was written by a newer version.
    """
    lines = path / RECORDS if path.is_dir() else path
    info, losses = _info(lines.parent / INFO)
    kept: dict[tuple[Setting, str, str], StoredRecord] = {}
    repeated = 0
    read, lost = stored_records(lines)
    for record in read:
        identity = (Setting(record.device_mode, record.board, record.ttnn), record.op, record.key)
        repeated += identity in kept
        kept[identity] = record
    losses += lost
    if not kept:
        raise HarnessError(f"{lines}: no whole record in it" + (f"; {losses[0]}" if losses else ""))
    if repeated:
        losses.append(f"{lines}: {repeated:,} records of cases that have a later one; the last of each counts")
    missing = (info.get("selected") or 0) - len(kept)
    if missing > 0:
        losses.append(f"{missing:,} of {info['selected']:,} selected cases have no record: the run was killed, or goes on")
    return Run(path, info, _groups(kept, info.get("device") or {}), tuple(losses))


def _info(path: Path) -> tuple[dict[str, Any], list[str]]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}, []
    except (OSError, ValueError) as error:
        return {}, [f"{path}: not read ({error}); the run's options and device are not known"]
    if not isinstance(found, dict) or not isinstance(found.get("device", {}), dict):
        return {}, [f"{path}: not a run's description; its options and device are not known"]
    _refuse_newer(found.get("schema"), path)
    if not isinstance(found.get("selected"), int):
        found["selected"] = None
    return found, []


def stored_records(path: Path) -> tuple[list[StoredRecord], list[str]]:
    """Whole records of a file, and a word on every line that is none.

    Raises:
        HarnessError: it cannot be read, or was written by a newer version.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise HarnessError(f"cannot read {path}: {error.strerror}") from error
    found, lost = [], []
    lines = data.split(b"\n")
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            found.append(StoredRecord.model_validate_json(line))
        except ValidationError as error:
            _refuse_newer(_schema_of(line), path, number)
            cut_short = number == len(lines) and error.errors()[0]["type"] == "json_invalid"
            what = f"cut short after {len(line):,} B; was the run killed?" if cut_short else _fault(error)
            lost.append(f"{path}:{number}: not a whole record, left out: {what}")
        else:
            if b'"schema": 1,' not in line[:16]:  # as this version writes it; else the number is looked at
                _refuse_newer(_schema_of(line), path, number)
    more = len(lost) - MAX_LOSSES_TOLD
    return found, [*lost[:MAX_LOSSES_TOLD], *([f"{path}: {more:,} more lines are no whole records"] if more > 0 else [])]


def _schema_of(line: bytes) -> Any:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return value.get("schema") if isinstance(value, dict) else None


def _refuse_newer(schema: Any, path: Path, number: int | None = None) -> None:
    if isinstance(schema, int) and schema > SCHEMA_VERSION:
        where = path if number is None else f"{path}:{number}"
        raise HarnessError(f"{where}: records of schema {schema}; this ssinghal reads up to {SCHEMA_VERSION}: use a newer one")


def _fault(error: ValidationError) -> str:
    first = error.errors()[0]
    where = ".".join(map(str, first["loc"]))
    return f"{where}: {first['msg']}" if where else str(first["msg"])


def _groups(kept: Mapping[tuple[Setting, str, str], StoredRecord], device: Mapping[str, Any]) -> tuple[Group, ...]:
    """By setting, largest first. Cases that no device answered join the setting of their board, where there is just one."""
    answered = {setting for setting, _, _ in kept if setting.device_mode != NO_DEVICE}
    by_setting: dict[Setting, list[StoredRecord]] = {}
    for (setting, _, _), record in kept.items():
        if setting.device_mode == NO_DEVICE:
            homes = [s for s in answered if s.board == setting.board]
            setting = homes[0] if len(homes) == 1 else setting
        by_setting.setdefault(setting, []).append(record)

    def opened(setting: Setting) -> Mapping[str, Any]:
        same = (device.get("mode"), device.get("board"), device.get("ttnn")) == (
            setting.device_mode,
            setting.board,
            setting.ttnn,
        )
        return device if same else {}

    ordered = sorted(by_setting.items(), key=lambda item: (-len(item[1]), str(item[0])))
    return tuple(Group(setting, tuple(records), opened(setting)) for setting, records in ordered)


def counted(records: Iterable[StoredRecord]) -> dict[str, int]:
    """Cases by status, in the order of ``Status``; statuses without a case are left out. The values add up."""
    found = dict.fromkeys(Status, 0)
    for record in records:
        found[record.status] += 1
    return {status.value: cases for status, cases in found.items() if cases}


__all__ = [
    "Group",
    "Run",
    "Setting",
    "StoredAllocation",
    "StoredEstimate",
    "StoredRecord",
    "StoredSource",
    "StoredTensor",
    "counted",
    "find_run",
    "previous_run",
    "read_run",
    "run_folders",
    "stored_records",
]
