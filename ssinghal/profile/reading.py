"""Reads the files of records that trackers wrote."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ssinghal.core.files import bounded_lines
from ssinghal.core.json_text import read_json
from ssinghal.errors import HarnessError
from ssinghal.profile.model import Profile
from ssinghal.profile.replay import replay
from ssinghal.tracker.records import VERSION

RECORDS = "records-*.jsonl"
_NOT_FOLLOWED = (
    "If it did, nothing was recorded: Python with -I, -E or -S, or without the PYTHONPATH that it was given, is not followed"
)


def read_profiles(path: Path) -> list[Profile]:
    """Reads the profile of each process that opened a device, from their folder, or from the file of one of them.

    Raises:
        HarnessError: there are no records, or a line of them is damaged.
    """
    return [_replayed(file) for file in record_files(path)]


def record_files(path: Path) -> list[Path]:
    """Returns the file of each process, as ``read_profiles``.

    Raises:
        HarnessError: there are none.
    """
    if not path.exists():
        raise HarnessError(f"{path}: no such file or folder: expected a profile")
    files = [path] if path.is_file() else sorted(path.glob(RECORDS))
    if not files:
        below = sorted({file.parent.name for file in path.glob(f"*/{RECORDS}")})
        why = f"name one of its profiles: {', '.join(below)}" if below else f"did the program open a device? {_NOT_FOLLOWED}"
        raise HarnessError(f"{path}: no {RECORDS}: {why}")
    return files


def _replayed(file: Path) -> Profile:
    line, first = 0, dict[str, Any]()

    def counted() -> Iterator[dict[str, Any]]:
        nonlocal line, first
        for line, record in enumerate(_records(file), 1):
            first = first or record
            if first["k"] != "program" or (record["k"] == "program" and record.get("pid") != first.get("pid")):
                raise HarnessError(f"{file}:{line}: expected the records of one process, which begin with the program")
            yield record

    try:
        profile = replay(counted())
    except (ArithmeticError, LookupError, TypeError, ValueError, AttributeError) as error:
        raise HarnessError(f"{file}:{line}: not a complete record of a profile ({error!r})") from error
    if not line:
        raise HarnessError(f"{file}: no records")
    return profile


def _records(file: Path) -> Iterator[dict[str, Any]]:
    """Yields the records of a file. A last line without an end was cut off when its process was killed, and is left out."""
    number = 0
    try:
        for number, line in enumerate(bounded_lines(file), 1):
            if not line.endswith(b"\n"):
                return
            try:
                record = read_json(line.decode())
            except ValueError:
                record = None
            if not isinstance(record, dict) or "k" not in record:
                raise HarnessError(f"{file}:{number}: expected a record of a profile")
            if record["k"] == "program" and record.get("version") != VERSION:
                raise HarnessError(f"{file}:{number}: a profile of version {record.get('version')}; expected {VERSION}")
            yield record
    except OSError as error:
        raise HarnessError(f"cannot read {file}: {error.strerror}") from error
    except ValueError as error:
        raise HarnessError(f"{file}:{number + 1}: {error}") from error
