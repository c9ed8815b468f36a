"""Runs of edge searches on disk: records, one a line, so that an interrupted search goes on where it was.

The file is that of ``probe -o`` and is read like it; verdicts that are in it already, whoever had them made, are not asked for
again. Imports neither torch nor ttnn.
"""

from __future__ import annotations

import json
from pathlib import Path
from types import TracebackType

from ssinghal.core.case import Case
from ssinghal.core.record import SCHEMA_VERSION, Record, Resource, Status, Verdict
from ssinghal.errors import HarnessError
from ssinghal.runs.files import GrowingFile
from ssinghal.runs.reader import INFO, RECORDS, Setting, stored_records

_OPENING = f'{{"schema": {SCHEMA_VERSION}, '.encode()  # of each line, as ``Record.to_json`` orders its keys
_OF_THE_CALL = (Status.FITS, Status.OOM, Status.UNSUPPORTED, Status.INVALID, Status.MISMATCH, Status.ERROR)


class Journal:
    """``known`` verdicts and where new ones go. A context manager.

    Raises:
        HarnessError: the file is none of this program's, belongs to a run, or cannot be read or written.
    """

    def __init__(self, path: Path) -> None:
        if path.name == RECORDS and (path.parent / INFO).exists():
            raise HarnessError(f"{path}: holds the records of a run; name another file for the runs of a search")
        if path.exists():
            _refuse_other(path)
        self._file = GrowingFile(path)
        self._known = {
            (Setting.of(record), record.key): record.verdict
            for record in stored_records(path)[0]
            if _is_of_the_call(record.verdict)
        }

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._file.close()

    def known(self, case: Case, setting: Setting) -> Verdict | None:
        """None for what was not run, and for what ended for the host's sake, as a time limit or a crash does."""
        return self._known.get((setting, case.key))

    def add(self, record: Record) -> None:
        self._file.write(json.dumps(record.to_json()))


def _is_of_the_call(verdict: Verdict) -> bool:
    by_the_harness = verdict.status is Status.ERROR and verdict.decided_by == "harness"
    return verdict.status in _OF_THE_CALL and verdict.resource is not Resource.HOST and not by_the_harness


def _refuse_other(path: Path) -> None:
    """HarnessError unless each whole line is a record; the last line may have been cut short."""
    _, losses = stored_records(path)
    *lines, last = path.read_bytes().split(b"\n")
    torn = bool(last) and (last.startswith(_OPENING) or _OPENING.startswith(last))
    if len(losses) > torn or (last and not torn) or any(line and not line.startswith(_OPENING) for line in lines):
        raise HarnessError(f"{path}: expected records, one a line, as an edge search or probe writes them; name another file")
