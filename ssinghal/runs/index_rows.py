"""Adds the records of one run to the tables of the index, block by block: memory does not grow with the run.

A line whose outcome the index has is not parsed. The rules are those of ``runs.reader``: of several records of a case the last
one that a device answered counts, and a case that no device answered belongs to the setting of its board, if there is just one.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import NamedTuple

from ssinghal.core.batches import batches
from ssinghal.core.device_facts import DeviceMode
from ssinghal.core.record import Record
from ssinghal.core.tensors import Shape
from ssinghal.core.verdict import DecidedBy, Resource, Status
from ssinghal.runs.line_files import Block
from ssinghal.runs.outcome_lines import DIGEST_BYTES, OutcomeLine, outcome_line
from ssinghal.runs.parsing import MAX_LOSSES, loss_text, more_losses, record_or_loss, record_text
from ssinghal.runs.setting import Setting

_NOT_OUTCOME = {"run", "ttnn", "duration_s", "sources", "estimate", "altered", "test", "retried", "taken_from"}
_AT_ONCE = 1000  # rows of one statement; SQLite takes 32,766 values
# Whether an outcome may stand in for a probe of the same case: never, always, or where the same remedies are wanted.
NEVER, ALWAYS, FOR_REMEDIES = range(3)
_DETERMINISTIC = {Status.FITS, Status.AGREES, Status.MISMATCH, Status.UNSUPPORTED, Status.INVALID}


def stands_in(record: Record) -> int:
    """Returns whether the outcome may be taken for its case again: the same device, code and limits must repeat it."""
    if record.device_mode == DeviceMode.NONE or record.left_allocated:
        return NEVER
    if record.status is Status.OOM:
        return NEVER if record.resource is Resource.HOST else FOR_REMEDIES
    by_limit = record.status is Status.NOT_RUN and record.decided_by is DecidedBy.ARITHMETIC  # of the host's work
    return ALWAYS if by_limit or record.status in _DETERMINISTIC else NEVER


class _Known(NamedTuple):
    """An outcome in the index."""

    id: int
    case: int
    mode: str
    board: str


class _Row(NamedTuple):
    """A result to write."""

    outcome: _Known
    ttnn: str
    duration_s: float
    taken_from: str
    retried: bool


@dataclass(frozen=True)
class _New:
    """A record whose outcome the index does not have, as far as is known."""

    digest: bytes
    record: Record


class RunRows:
    """Adds the records of the run ``number``, whose lines are in ``path``, within a transaction of ``db``,
    whose table ``touched`` gets the outcomes that may have no result in the end.

    ``kept``: how many cases have a record. ``answered``: the settings of those that a device answered.
    """

    def __init__(self, db: sqlite3.Connection, number: int, path: Path) -> None:
        self.kept = 0
        self._db, self._number, self._path = db, number, path
        self._losses: list[str] = []
        self._more = 0
        self.answered: set[Setting] = set()
        self._settings: dict[tuple[str, ...], int] = {}
        self._unanswered: set[tuple[str, str]] = set()
        self._origins: dict[str, int | None] = {"": None}
        db.execute(
            "CREATE TEMP TABLE unanswered (case_id, board, ttnn, outcome, duration_s, PRIMARY KEY (case_id, board, ttnn))"
        )

    @property
    def losses(self) -> list[str]:
        """A text about each line that is no record."""
        return [*self._losses, *more_losses(self._path, self._more)]

    def add(self, block: Block) -> None:
        """Adds complete lines.

        Raises:
            HarnessError: A line was written by a newer version.
        """
        lines = [(number, line) for number, _, line in block.lines() if line.strip()]
        last = block.number + block.data.count(b"\n")
        short = [outcome_line(line) for _, line in lines]
        known = self._known(one.digest for one in short if one is not None)
        new: dict[int, _New] = {}
        for place, ((number, line), found) in enumerate(zip(lines, short, strict=True)):
            if found is not None and found.digest in known:
                continue
            read = self._read(line, found, number, last=number == last)
            if read is not None:
                new[place] = read
        self._add_outcomes(list(new.values()))
        known |= self._known(one.digest for one in new.values())
        self._add_results(list(_rows(short, new, known)))

    def end(self) -> None:
        """Adds the cases that no device answered and that have no other record."""
        for board, ttnn in sorted(self._unanswered):
            same_board = [setting for setting in self.answered if setting.board == board]
            setting = same_board[0] if len(same_board) == 1 else Setting(DeviceMode.NONE, board, ttnn)
            added = self._db.execute(
                """INSERT OR IGNORE INTO results
                   SELECT case_id, ?, ?, outcome, duration_s, NULL, 0 FROM unanswered WHERE board = ? AND ttnn = ?""",
                [self._setting(setting.device_mode.value, board, setting.ttnn), self._number, board, ttnn],
            )
            self.kept += added.rowcount

    def _known(self, digests: Iterable[bytes]) -> dict[bytes, _Known]:
        """Returns those outcomes that the index has."""
        found: dict[bytes, _Known] = {}
        for some in batches(dict.fromkeys(digests), _AT_ONCE):
            marks = ", ".join("?" * len(some))
            rows = self._db.execute(
                f"SELECT digest, id, case_id, device_mode, board FROM outcomes WHERE digest IN ({marks})", some
            )
            found |= {digest: _Known(*row) for digest, *row in rows}
        return found

    def _read(self, line: bytes, short: OutcomeLine | None, number: int, *, last: bool) -> _New | None:
        """Returns the record of a line without its estimate and sources, or None after noting the loss."""
        read = record_or_loss(line if short is None else short.short(line), self._path, number, last=last)
        if isinstance(read, Record) and short is not None and not read.inputs and read.listed_shape is None:
            read = record_or_loss(line, self._path, number, last=last)  # its shape is that of the estimated result
        if isinstance(read, str):
            if len(self._losses) < MAX_LOSSES:
                self._losses.append(loss_text(self._path, number, read))
            else:
                self._more += 1
            return None
        return _New(short.digest if short else _digest_of(read), read)

    def _add_outcomes(self, new: Sequence[_New]) -> None:
        cases = [(one.record.op, one.record.key) for one in new]
        self._db.executemany("INSERT OR IGNORE INTO cases (op, key) VALUES (?, ?)", cases)
        self._db.executemany(
            """INSERT OR IGNORE INTO outcomes (digest, case_id, device_mode, board, stands_in, body)
               SELECT ?, id, ?, ?, ?, ? FROM cases WHERE op = ? AND key = ?""",
            (
                (one.digest, r.device_mode.value, r.board, stands_in(r), record_text(r, _NOT_OUTCOME), r.op, r.key)
                for one in new
                for r in [one.record]
            ),
        )
        self._db.executemany(
            "INSERT OR IGNORE INTO shapes SELECT ?, ?, id FROM cases WHERE op = ? AND key = ?",
            (
                (one.record.operator, shape_text(shape), *case)
                for one, case in zip(new, cases, strict=True)
                for shape in dict.fromkeys([one.record.shape, *one.record.inputs])
            ),
        )

    def _add_results(self, rows: Sequence[_Row]) -> None:
        values: list[tuple[int | float | str | None, ...]] = []
        unanswered: list[tuple[int | float | str | None, ...]] = []
        for row in rows:
            case, board = row.outcome.case, row.outcome.board
            if row.outcome.mode == DeviceMode.NONE:
                self._unanswered.add((board, row.ttnn))
                unanswered.append((case, board, row.ttnn, row.outcome.id, row.duration_s))
                continue
            setting = self._setting(row.outcome.mode, board, row.ttnn)
            origin = self._origin(row.taken_from)
            values.append((case, setting, self._number, row.outcome.id, row.duration_s, origin, row.retried))
        self._db.executemany("INSERT OR REPLACE INTO unanswered VALUES (?, ?, ?, ?, ?)", unanswered)
        added = self._db.executemany("INSERT OR IGNORE INTO results VALUES (?, ?, ?, ?, ?, ?, ?)", values).rowcount
        self.kept += max(added, 0)  # -1 without values
        if 0 <= added < len(values):  # repeated records, of which the last counts
            self._db.executemany(
                "INSERT OR IGNORE INTO touched SELECT outcome FROM results WHERE case_id = ? AND setting = ? AND run = ?",
                (value[:3] for value in values),
            )
            self._db.executemany("INSERT OR REPLACE INTO results VALUES (?, ?, ?, ?, ?, ?, ?)", values)
            unanswered += values  # of which some were replaced, too
        self._db.executemany("INSERT OR IGNORE INTO touched VALUES (?)", ((value[3],) for value in unanswered))

    def _setting(self, *key: str) -> int:
        """Returns the number of a setting: device mode, board and release."""
        if key not in self._settings:
            mode, board, ttnn = key
            if mode != DeviceMode.NONE:
                self.answered.add(Setting(DeviceMode(mode), board, ttnn))
            self._db.execute("INSERT OR IGNORE INTO settings (device_mode, board, ttnn) VALUES (?, ?, ?)", key)
            (self._settings[key],) = self._db.execute(
                "SELECT id FROM settings WHERE device_mode = ? AND board = ? AND ttnn = ?", key
            ).fetchone()
        return self._settings[key]

    def _origin(self, run: str) -> int | None:
        if run not in self._origins:
            self._db.execute("INSERT OR IGNORE INTO origins (run) VALUES (?)", [run])
            (self._origins[run],) = self._db.execute("SELECT id FROM origins WHERE run = ?", [run]).fetchone()
        return self._origins[run]


def _rows(short: Sequence[OutcomeLine | None], new: dict[int, _New], known: dict[bytes, _Known]) -> Iterator[_Row]:
    """Yields the results in the order of the lines."""
    for place, line in enumerate(short):
        if line is not None and line.digest in known:
            yield _Row(known[line.digest], line.ttnn, line.duration_s, line.taken_from, line.retried)
        elif (read := new.get(place)) is not None:
            r = read.record
            yield _Row(known[read.digest], r.ttnn, r.duration_s, r.taken_from, bool(r.retried))


def shape_text(shape: Shape) -> str:
    return ",".join(map(str, shape))


def _digest_of(record: Record) -> bytes:
    return blake2b(record_text(record, _NOT_OUTCOME).encode(), digest_size=DIGEST_BYTES).digest()
