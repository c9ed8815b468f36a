"""An index over the runs of a folder, ``store.sqlite``: how a case ended in each of them. Imports neither torch nor ttnn.

The runs' folders are the truth. The index can be deleted or rebuilt at any time; a run whose folder is gone leaves it. An
outcome is a record without what is not the device's answer (run, release, duration, sources, estimate). It is kept once,
however many runs have it: most runs say of most cases what the run before said.

Any number of processes may read and write: a run is one transaction.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any

from ssinghal.core.device_facts import DeviceFacts
from ssinghal.core.json_values import plain
from ssinghal.core.record import SCHEMA_VERSION, Record, RunInfo
from ssinghal.core.tensors import Shape
from ssinghal.errors import HarnessError
from ssinghal.runs.reader import INFO, RECORDS, Run, Setting, parse_device, parse_record, read_run, record_text, run_folders

STORE = "store.sqlite"
APPLICATION = 0x5353494E  # in the file's head: made by this program
VERSION = 1000 * 2 + SCHEMA_VERSION  # of the tables; another one is not read but made anew
BUSY_S = 60.0  # another writer takes a second or two for a run
_NOT_OUTCOME = {"run", "ttnn", "duration_s", "sources", "estimate", "test"}
# results is clustered by case: what history asks for is one range of it for each case.
_SCHEMA = """
CREATE TABLE runs (id INTEGER PRIMARY KEY, folder TEXT NOT NULL UNIQUE, stamp TEXT NOT NULL, run TEXT NOT NULL,
  started TEXT NOT NULL, device TEXT NOT NULL, losses TEXT NOT NULL, refused TEXT NOT NULL);
CREATE TABLE settings (id INTEGER PRIMARY KEY, device_mode TEXT, board TEXT, ttnn TEXT, UNIQUE (device_mode, board, ttnn));
CREATE TABLE cases (id INTEGER PRIMARY KEY, op TEXT NOT NULL, key TEXT NOT NULL, UNIQUE (op, key));
CREATE TABLE shapes (operator TEXT, shape TEXT, case_id INTEGER, PRIMARY KEY (operator, shape, case_id)) WITHOUT ROWID;
CREATE TABLE outcomes (id INTEGER PRIMARY KEY, digest BLOB NOT NULL UNIQUE, body TEXT NOT NULL);
CREATE TABLE results (case_id INTEGER, setting INTEGER, run INTEGER, outcome INTEGER NOT NULL,
  PRIMARY KEY (case_id, setting, run)) WITHOUT ROWID;
"""


class NotAStore(HarnessError):
    """A file that is damaged, or not this program's."""


class Replaced(HarnessError):
    """Another process put a new index in the place of the one that was open."""


@dataclass(frozen=True)
class IndexedRun:
    """``refused``: why nothing of the run is indexed; empty for all others. ``device``: what it opened."""

    folder: str
    id: str
    started: str
    device: DeviceFacts
    losses: tuple[str, ...]
    refused: str


@dataclass(frozen=True)
class IndexResult:
    """How one case ended in one run. ``record`` has no run, duration, sources or estimate; one that several runs have is one
    object."""

    run: IndexedRun
    setting: Setting
    record: Record


class Store:
    """The index at ``path``, which need not be there yet.

    Raises:
        HarnessError: the file cannot be read or written. NotAStore: it is damaged, or another program's.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def sync(self, results: Path, progress: Callable[[list[Path]], Iterable[Path]] = iter) -> None:
        """Indexes what is new or changed below ``results``, and drops runs whose folder is gone. Writes nothing where the
        index is up to date."""
        known = self._stamps()
        folders = run_folders(results)
        for folder in progress([folder for folder in folders if known.get(folder.name) != _stamp(folder)]):
            self.index(folder)
        if gone := known.keys() - {folder.name for folder in folders}:
            with self._writing() as db:
                _forget(db, gone)

    def index(self, folder: Path) -> None:
        """Puts one run into the index, in place of what it had of it. A run that cannot be read is kept with the reason."""
        stamp = _stamp(folder)
        run, refused = _read(folder)
        try:
            self._put(folder, stamp, run, refused)
        except Replaced:  # by a rebuild, which need not have seen this run
            self._put(folder, stamp, run, refused)

    def _put(self, folder: Path, stamp: str, run: Run | None, refused: str) -> None:
        rows = [_IndexRow.of(setting, record) for setting, record in _settled(run)] if run else []
        with self._writing() as db:
            if _stamps(db).get(folder.name) == stamp:  # another process was faster
                return
            _forget(db, {folder.name})
            run_id = _add_run(db, folder, stamp, run, refused)
            _add_rows(db, run_id, rows)

    def rebuild(self, results: Path, progress: Callable[[list[Path]], Iterable[Path]] = iter) -> None:
        """The index made anew from the folders, beside the old one, which it replaces at the end, whatever that was."""
        aside = self.path.with_name(f".{self.path.name}-{os.getpid()}")
        try:
            made = Store(aside)
            with made._writing():  # an index also where there is no run
                pass
            made.sync(results, progress)
            try:
                with self._connected() as db:
                    db.execute("BEGIN IMMEDIATE")  # so that nobody is in the middle of writing the old one
                    aside.replace(self.path)
            except NotAStore:
                self.path.with_name(f"{self.path.name}-journal").unlink(missing_ok=True)
                aside.replace(self.path)
        finally:
            aside.unlink(missing_ok=True)

    def runs(self) -> list[IndexedRun]:
        """Oldest first."""
        with self._reading() as db:
            return list(_runs(db).values())

    def shapes(self, operator: str) -> set[Shape]:
        """Of all cases of an operator, by its canonical name: as listed, and of each operand."""
        with self._reading() as db:
            found = db.execute("SELECT DISTINCT shape FROM shapes WHERE operator = ?", [operator])
            return {_parsed(text) for (text,) in found}

    def find(self, operator: str, shapes: Iterable[Shape], board: str | None, mode: str | None) -> list[IndexResult]:
        """Every record of a case of ``operator`` that has one of ``shapes``: by case, mode and board; then oldest run first."""
        wanted = json.dumps([_text(shape) for shape in shapes])
        with self._reading() as db:
            runs = _runs(db)
            found = db.execute(
                """SELECT r.run, s.device_mode, s.board, s.ttnn, r.outcome
                   FROM results r JOIN settings s ON s.id = r.setting
                   WHERE r.case_id IN (SELECT case_id FROM shapes
                                       WHERE operator = :operator AND shape IN (SELECT value FROM json_each(:wanted)))
                     AND (:board IS NULL OR s.board = :board) AND (:mode IS NULL OR s.device_mode = :mode)""",
                {"operator": operator, "wanted": wanted, "board": board, "mode": mode},
            ).fetchall()
            outcomes = {pair: _outcome(db, self.path, *pair) for pair in {(outcome, ttnn) for *_, ttnn, outcome in found}}
        indexed = [
            IndexResult(runs[run], Setting(*setting), outcomes[outcome, setting[-1]]) for run, *setting, outcome in found
        ]
        order = {run.folder: place for place, run in enumerate(runs.values())}

        def place(one: IndexResult) -> tuple[Any, ...]:
            record, setting = one.record, one.setting
            return record.op, record.id, record.key, setting.device_mode, setting.board, order[one.run.folder], setting.ttnn

        return sorted(indexed, key=place)

    def _stamps(self) -> dict[str, str]:
        """Of the runs in the index; none where there is no index, or one of another version."""
        if not self.path.exists():
            return {}
        with self._reading() as db:
            return _stamps(db) if _version(db) == VERSION else {}

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        """One state of the index, whatever is written meanwhile."""
        with self._connected("?mode=rw") as db:
            db.execute("BEGIN")
            _refuse_foreign(db, self.path)
            yield db

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        """A transaction: all of it or nothing. The tables are there, and of this version."""
        with self._connected() as db:
            db.execute("BEGIN IMMEDIATE")
            _refuse_foreign(db, self.path)
            if _version(db) != VERSION:
                _make_tables(db)
            yield db
            db.execute("COMMIT")

    @contextmanager
    def _connected(self, how: str = "") -> Iterator[sqlite3.Connection]:
        """A connection for one transaction: what is not committed when it closes is rolled back."""
        try:
            uri = f"{self.path.absolute().as_uri()}{how}"
            with closing(sqlite3.connect(uri, timeout=BUSY_S, isolation_level=None, uri=True)) as db:
                db.execute("PRAGMA cache_size = -65536")  # KiB
                yield db
        except sqlite3.OperationalError as error:
            if "readonly" in str(error) and os.access(self.path, os.W_OK):
                raise Replaced(f"{self.path} was made anew meanwhile") from error
            raise HarnessError(f"cannot use {self.path}: {error}") from error
        except sqlite3.DatabaseError as error:
            raise NotAStore(_unusable(self.path, str(error))) from error


@dataclass(frozen=True)
class _IndexRow:
    setting: tuple[str, str, str]
    operator: str
    case: tuple[str, str]
    shapes: tuple[str, ...]
    digest: bytes
    body: str

    @classmethod
    def of(cls, setting: Setting, record: Record) -> _IndexRow:
        body = record_text(record, _NOT_OUTCOME)
        shapes = dict.fromkeys([record.shape, *record.inputs])
        return cls(
            (setting.device_mode, setting.board, setting.ttnn),
            record.operator,
            (record.op, record.key),
            tuple(map(_text, shapes)),
            blake2b(body.encode(), digest_size=16).digest(),
            body,
        )


def _settled(run: Run) -> Iterator[tuple[Setting, Record]]:
    for group in run.groups:
        for record in group.records:
            yield group.setting, record


def _read(folder: Path) -> tuple[Run | None, str]:
    """The run, or why there is none: no whole record, or a newer schema."""
    try:
        return read_run(folder), ""
    except HarnessError as error:
        return None, str(error)


def _stamp(folder: Path) -> str:
    """Changes when the run does: size and time of its two files."""
    stamps = []
    for name in (RECORDS, INFO):
        try:
            found = (folder / name).stat()
        except FileNotFoundError:
            stamps.append("none")
        else:
            stamps.append(f"{found.st_size} {found.st_mtime_ns}")
    return ", ".join(stamps)


def _text(shape: Shape) -> str:
    return ",".join(map(str, shape))


def _parsed(text: str) -> Shape:
    return tuple(int(size) for size in text.split(",") if size)


def _unusable(path: Path, why: str) -> str:
    return f"{path} is no index of runs ({why}): move it away, or make the index anew with: ssinghal history --rebuild"


def _version(db: sqlite3.Connection) -> int:
    return int(db.execute("PRAGMA user_version").fetchone()[0])


def _refuse_foreign(db: sqlite3.Connection, path: Path) -> None:
    (application,) = db.execute("PRAGMA application_id").fetchone()
    (tables,) = db.execute("SELECT count(*) FROM sqlite_master").fetchone()
    if tables and application != APPLICATION:
        raise NotAStore(_unusable(path, "a database of another program"))


def _make_tables(db: sqlite3.Connection) -> None:
    for (table,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
        db.execute(f'DROP TABLE "{table}"')
    for statement in _SCHEMA.strip().split(";\n"):
        db.execute(statement)
    db.execute(f"PRAGMA application_id = {APPLICATION}")
    db.execute(f"PRAGMA user_version = {VERSION}")


def _stamps(db: sqlite3.Connection) -> dict[str, str]:
    return dict(db.execute("SELECT folder, stamp FROM runs").fetchall())


def _runs(db: sqlite3.Connection) -> dict[int, IndexedRun]:
    found = db.execute("SELECT id, folder, run, started, device, losses, refused FROM runs ORDER BY started, folder")
    return {
        number: IndexedRun(folder, run, started, parse_device(device), tuple(json.loads(losses)), refused)
        for number, folder, run, started, device, losses, refused in found
    }


def _outcome(db: sqlite3.Connection, path: Path, number: int, ttnn: str) -> Record:
    (body,) = db.execute("SELECT json_set(body, '$.ttnn', ?) FROM outcomes WHERE id = ?", [ttnn, number]).fetchone()
    try:
        return parse_record(body)
    except ValueError as error:
        raise NotAStore(_unusable(path, f"outcome {number} is no record")) from error


def _add_run(db: sqlite3.Connection, folder: Path, stamp: str, run: Run | None, refused: str) -> int | None:
    head = run.head if run else RunInfo()
    values = (
        folder.name,
        stamp,
        run.id if run else folder.name,
        head.started,
        json.dumps(plain(head.device)),
        json.dumps(run.losses if run else ()),
        refused,
    )
    return db.execute(
        "INSERT INTO runs (folder, stamp, run, started, device, losses, refused) VALUES (?, ?, ?, ?, ?, ?, ?)", values
    ).lastrowid


def _add_rows(db: sqlite3.Connection, run: int | None, rows: list[_IndexRow]) -> None:
    db.executemany("INSERT OR IGNORE INTO settings (device_mode, board, ttnn) VALUES (?, ?, ?)", {row.setting for row in rows})
    db.executemany("INSERT OR IGNORE INTO cases (op, key) VALUES (?, ?)", (row.case for row in rows))
    db.executemany("INSERT OR IGNORE INTO outcomes (digest, body) VALUES (?, ?)", ((row.digest, row.body) for row in rows))
    db.executemany(
        "INSERT OR IGNORE INTO shapes SELECT ?, ?, id FROM cases WHERE op = ? AND key = ?",
        ((row.operator, shape, *row.case) for row in rows for shape in row.shapes),
    )
    db.executemany(
        """INSERT INTO results SELECT c.id, s.id, ?, o.id FROM cases c, settings s, outcomes o
           WHERE c.op = ? AND c.key = ? AND s.device_mode = ? AND s.board = ? AND s.ttnn = ? AND o.digest = ?""",
        ((run, *row.case, *row.setting, row.digest) for row in rows),
    )


def _forget(db: sqlite3.Connection, folders: Iterable[str]) -> None:
    """Runs with all that only they have."""
    numbers = []
    for folder in folders:
        numbers += db.execute("DELETE FROM runs WHERE folder = ? RETURNING id", [folder]).fetchall()
    if not numbers:
        return
    db.executemany("DELETE FROM results WHERE run = ?", numbers)
    db.execute("DELETE FROM outcomes WHERE id NOT IN (SELECT outcome FROM results)")
    db.execute("DELETE FROM cases WHERE id NOT IN (SELECT case_id FROM results)")
    db.execute("DELETE FROM shapes WHERE case_id NOT IN (SELECT id FROM cases)")
    db.execute("DELETE FROM settings WHERE id NOT IN (SELECT setting FROM results)")
