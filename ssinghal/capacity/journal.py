"""The journal of edge searches: one record per line, so that an interrupted search continues where it stopped.

The format is that of ``probe -o``. Verdicts that the file already holds are reused, whichever command wrote them.
"""

from __future__ import annotations

import json
from pathlib import Path

from ssinghal.core.case import Case
from ssinghal.core.closing import Closing
from ssinghal.core.files import GrowingFile
from ssinghal.core.record import SCHEMA_VERSION, Record
from ssinghal.core.verdict import DecidedBy, Resource, Status, Verdict
from ssinghal.errors import HarnessError
from ssinghal.runs.folders import INFO
from ssinghal.runs.line_files import RECORDS
from ssinghal.runs.parsing import stored_records
from ssinghal.runs.setting import Setting

_OPENING = f'{{"schema": {SCHEMA_VERSION}, '.encode()  # of each line, as ``Record.to_json`` orders its keys
_CALL_STATUSES = (Status.FITS, Status.OOM, Status.UNSUPPORTED, Status.INVALID, Status.MISMATCH, Status.ERROR)


class Journal(Closing):
    """A file of known verdicts, to which new ones are added. A context manager.

    Raises:
        HarnessError: the file is not a journal, belongs to a run, or cannot be read or written.
    """

    def __init__(self, path: Path) -> None:
        if path.name == RECORDS and (path.parent / INFO).exists():
            raise HarnessError(f"{path}: holds the records of a run; name another file for the journal")
        if path.exists():
            _check_records(path)
        self._file = GrowingFile(path)
        self._known = {
            (Setting.of(record), record.key): record.verdict
            for record in stored_records(path)[0]
            if _is_of_the_call(record.verdict)
        }

    def close(self) -> None:
        self._file.close()

    def known(self, case: Case, setting: Setting) -> Verdict | None:
        """Returns None if the case was not run, or ended in a host failure (timeout, crash)."""
        return self._known.get((setting, case.key))

    def add(self, record: Record) -> None:
        self._file.write(json.dumps(record.to_json()))


def _is_of_the_call(verdict: Verdict) -> bool:
    by_the_harness = verdict.status is Status.ERROR and verdict.decided_by is DecidedBy.HARNESS
    return verdict.status in _CALL_STATUSES and verdict.resource is not Resource.HOST and not by_the_harness


def _check_records(path: Path) -> None:
    """Raises HarnessError unless each complete line is a record; the last line may be truncated."""
    _, losses = stored_records(path)
    *lines, last = path.read_bytes().split(b"\n")
    is_truncated = bool(last) and (last.startswith(_OPENING) or _OPENING.startswith(last))
    is_other = any(line and not line.startswith(_OPENING) for line in lines)
    if is_other or len(losses) > is_truncated or (last and not is_truncated):
        raise HarnessError(f"{path}: expected one record per line, as an edge search or probe writes them; name another file")
