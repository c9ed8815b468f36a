"""Records of a large run that stay in their file: in memory is of each only what tables count, sort and group by."""

from __future__ import annotations

import weakref
from array import array
from collections import OrderedDict
from collections.abc import Hashable
from copy import copy
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar, cast

from pydantic import ValidationError

from ssinghal.core.measured import Usage
from ssinghal.core.record import Record
from ssinghal.core.temporary_folder import TemporaryFolder
from ssinghal.core.verdict import Status
from ssinghal.errors import HarnessError
from ssinghal.runs.line_files import blocks, is_compressed
from ssinghal.runs.parsing import complete_records, parse_record
from ssinghal.runs.reader import Run, described, read_run
from ssinghal.runs.record_lines import LineReader

LARGE_CASES = 20_000  # records of which a run is large
LOADED = 2048  # records that are in memory completely, at most
_T = TypeVar("_T", bound=Hashable)

# Equal values of these are one object: most records share them with others.
_SHARED = (
    "op", "operator", "status", "resource", "stage", "retried", "taken_from", "device_mode", "board", "ttnn", "dtype", "memory",
    "error_type", "shape", "subject", "usage", "was_searched",
    "total_bytes", "bytes_per_bank", "shortfall_bytes", "call_shortfall_bytes", "placed_bytes", "largest_bytes", "calls",
)  # fmt: skip
_OWN = ("key", "id", "call_digest", "comparison")
# Of cases that ran out of memory alone, for which several documents read them.
_OF_OOM = ("failed", "sentence")
_KEPT = frozenset(("_lines", "_number", "sources", *_SHARED, *_OWN))


class StoredRecord:
    """Reads like a ``Record``: what is not kept here is loaded from the file when it is read."""

    __slots__ = ("_lines", "_number", "sources", *_SHARED, *_OWN, *_OF_OOM)

    def __init__(self, record: Record, lines: Lines, number: int) -> None:
        """``number``: the place of the record in ``lines``."""
        self._lines, self._number = lines, number
        for name in _SHARED:
            setattr(self, name, lines.shared(getattr(record, name)))
        self.sources = lines.shared(tuple(map(lines.shared, record.sources)))
        for name in _OWN:
            setattr(self, name, getattr(record, name))
        if record.is_oom:
            self.failed, self.sentence = lines.shared(record.failed), record.sentence

    def complete(self) -> Record:
        """Returns the record with all that it has, which is not to be kept."""
        return self._lines.record(self._number)

    @property
    def is_oom(self) -> bool:
        return getattr(self, "status", None) is Status.OOM

    def __getattr__(self, name: str) -> Any:
        if name in _KEPT or name.startswith("__"):  # wanted before __init__, as by copy
            raise AttributeError(name)
        return getattr(self.complete(), name)


def complete(record: Record) -> Record:
    """Returns the record itself, loaded if it stayed in its file: for a function that reads much of it."""
    return record.complete() if isinstance(record, StoredRecord) else record


def with_usage(record: Record, usage: Usage | None) -> Record:
    """Returns the record with another ``usage``; what stays in its file stays there."""
    if not isinstance(record, StoredRecord):
        return replace(record, usage=usage)
    changed: Any = copy(record)
    changed.usage = usage
    return cast(Record, changed)


class Lines:
    """The lines of a file that are complete records, by number."""

    def __init__(self, path: Path) -> None:
        self._path = path
        unpacked = TemporaryFolder() if is_compressed(path) else None
        self._reader = LineReader(path, (unpacked.path if unpacked is not None else path.parent) / "lines")
        weakref.finalize(self, _close, self._reader, unpacked)
        self._offsets = array("Q")
        self._lengths = array("Q")
        self._loaded: OrderedDict[int, Record] = OrderedDict()
        self._known: dict[Any, Any] = {}

    def add(self, offset: int, length: int, record: Record) -> StoredRecord:
        self._offsets.append(offset)
        self._lengths.append(length)
        return StoredRecord(record, self, len(self._offsets) - 1)

    def shared(self, value: _T) -> _T:
        """Returns the first of all equal values that were given."""
        known: _T = self._known.setdefault((type(value), value), value)
        return known

    def complete(self) -> None:
        """Forgets the shared values: no further record is added."""
        self._known = {}

    def record(self, number: int) -> Record:
        """Returns a complete record, which is kept for a while.

        Raises:
            HarnessError: The file has changed since its lines were added.
        """
        record = self._loaded.get(number)
        if record is not None:
            return record
        (line,) = self._reader.read([(self._offsets[number], self._lengths[number])])
        try:
            record = parse_record(line)
        except ValidationError as error:
            raise HarnessError(f"{self._path} was changed while it was read: read it again") from error
        if len(self._loaded) >= LOADED:
            self._loaded.popitem(last=False)
        self._loaded[number] = record
        return record


def _close(reader: LineReader, unpacked: TemporaryFolder | None) -> None:
    reader.close()
    if unpacked is not None:
        unpacked.close()


def stored_records(path: Path) -> tuple[list[Record], list[str]]:
    """Returns the complete records of a file, which stay there, and a text about each other line.

    Raises:
        HarnessError: It cannot be read, or was written by a newer version.
    """
    losses: list[str] = []
    lines = Lines(path)
    records = [lines.add(*place, record) for place, record in complete_records(path, losses)]
    lines.complete()
    return cast(list[Record], records), losses


def read_run_of_any_size(path: Path) -> Run:
    """Reads a run as ``read_run`` does. Above ``LARGE_CASES`` lines, the records stay in their file.

    Raises:
        HarnessError: It cannot be read, contains no complete record, or was written by a newer version.
    """
    lines, _, _ = described(path)
    count = sum(block.data.count(b"\n") for block in blocks(lines))
    return read_run(path, stored_records if count > LARGE_CASES else None)
