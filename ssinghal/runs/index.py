"""The index of all runs in a folder, ``store.sqlite``: how a case ended in each of them. Imports neither torch nor ttnn.

The index only repeats what the folders of the runs contain. It can be deleted or rebuilt at any time, and drops runs whose
folder is gone. An outcome is a record without everything that is not the device's answer (run, release, duration, sources,
estimate). It is stored once for all runs that have it, as most cases end as they did in the run before.

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

from ssinghal.core.device_facts import DeviceFacts, DeviceMode
from ssinghal.core.json_values import plain
from ssinghal.core.record import SCHEMA_VERSION, Record, RunInfo
from ssinghal.core.tensors import Shape
from ssinghal.errors import HarnessError
from ssinghal.runs.reader import INFO, RECORDS, Run, Setting, parse_device, parse_record, read_run, record_text, run_folders

STORE = "store.sqlite"
APPLICATION = 0x5353494E  # in the file's header: the mark of this program
VERSION = 1000 * 2 + SCHEMA_VERSION  # of the tables; those of another version are rebuilt
BUSY_S = 60.0  # another writer takes a second or two for a run
_NOT_OUTCOME = {"run", "ttnn", "duration_s", "sources", "estimate", "test"}
# results is clustered by case: what the history of a case needs is one range of it.
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
    """The file is damaged, or belongs to another program."""


class Replaced(HarnessError):
    """Another process replaced the index while it was open."""


@dataclass(frozen=True)
class IndexedRun:
    """A run in the index."""

    # The name of its folder.
    folder: str
    id: str
    started: str
    # What it opened.
    device: DeviceFacts
    # What it lacks, in words.
    losses: tuple[str, ...]
    # Why nothing of it is indexed; empty for all others.
    refused: str


@dataclass(frozen=True)
class IndexResult:
    """How one case ended in one run. ``record`` has no run, duration, sources or estimate, and is the same object for all runs
    with the same outcome."""

    run: IndexedRun
    setting: Setting
    record: Record


class Store:
    """The index at ``path``, which need not exist yet.

    Raises:
        HarnessError: The file cannot be read or written.
        NotAStore: It is damaged, or belongs to another program.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def sync(self, results: Path, progress: Callable[[list[Path]], Iterable[Path]] = iter) -> None:
        """Indexes the new and changed runs in ``results``, and drops those whose folder is gone. Writes nothing if the index is
        up to date."""
        known = self._stamps()
        folders = run_folders(results)
        for folder in progress([folder for folder in folders if known.get(folder.name) != _stamp(folder)]):
            self.index(folder)
        if gone := known.keys() - {folder.name for folder in folders}:
            with self._writing() as db:
                _forget(db, gone)

    def index(self, folder: Path) -> None:
        """Adds a run to the index, or replaces it. A run that cannot be read is kept with the reason."""
        stamp = _stamp(folder)
        run, refused = _read(folder)
        try:
            self._put(folder, stamp, run, refused)
        except Replaced:  # by a rebuild, which may have missed this run
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
        """Rebuilds the index in a temporary file, then replaces the old one, even if that is damaged."""
        temporary = self.path.with_name(f".{self.path.name}-{os.getpid()}")
        try:
            rebuilt = Store(temporary)
            with rebuilt._writing():  # an index even if there is no run
                pass
            rebuilt.sync(results, progress)
            try:
                with self._connected() as db:
                    db.execute("BEGIN IMMEDIATE")  # so that no process is writing the old one
                    temporary.replace(self.path)
            except NotAStore:
                self.path.with_name(f"{self.path.name}-journal").unlink(missing_ok=True)
                temporary.replace(self.path)
        finally:
            temporary.unlink(missing_ok=True)

    def runs(self) -> list[IndexedRun]:
        """Returns all runs, the oldest first."""
        with self._reading() as db:
            return list(_runs(db).values())

    def shapes(self, operator: str) -> set[Shape]:
        """Returns the shapes of all cases of an operator (by its canonical name): as listed, and of each operand."""
        with self._reading() as db:
            rows = db.execute("SELECT DISTINCT shape FROM shapes WHERE operator = ?", [operator])
            return {_parsed(text) for (text,) in rows}

    def find(self, operator: str, shapes: Iterable[Shape], board: str | None, mode: str | None) -> list[IndexResult]:
        """Returns the results of all cases of ``operator`` with one of ``shapes``: by case, mode and board, oldest first."""
        wanted = json.dumps([_text(shape) for shape in shapes])
        with self._reading() as db:
            runs = _runs(db)
            rows = db.execute(
                """SELECT r.run, s.device_mode, s.board, s.ttnn, r.outcome
                   FROM results r JOIN settings s ON s.id = r.setting
                   WHERE r.case_id IN (SELECT case_id FROM shapes
                                       WHERE operator = :operator AND shape IN (SELECT value FROM json_each(:wanted)))
                     AND (:board IS NULL OR s.board = :board) AND (:mode IS NULL OR s.device_mode = :mode)""",
                {"operator": operator, "wanted": wanted, "board": board, "mode": mode},
            ).fetchall()
            outcomes = {pair: _outcome(db, self.path, *pair) for pair in {(outcome, ttnn) for *_, ttnn, outcome in rows}}
        results = [
            IndexResult(runs[run], Setting(DeviceMode(mode), board, ttnn), outcomes[outcome, ttnn])
            for run, mode, board, ttnn, outcome in rows
        ]
        order = {run.folder: place for place, run in enumerate(runs.values())}

        def place(result: IndexResult) -> tuple[Any, ...]:
            record, setting = result.record, result.setting
            return record.op, record.id, record.key, setting.device_mode, setting.board, order[result.run.folder], setting.ttnn

        return sorted(results, key=place)

    def _stamps(self) -> dict[str, str]:
        """Returns the stamp of each run in the index; none if there is no index, or one of another version."""
        if not self.path.exists():
            return {}
        with self._reading() as db:
            return _stamps(db) if _version(db) == VERSION else {}

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        """Opens the index for reading: one state of it, whatever is written meanwhile."""
        with self._connected("?mode=rw") as db:
            db.execute("BEGIN")
            _check_application(db, self.path)
            yield db

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        """Opens the index for one transaction, with the tables of this version."""
        with self._connected() as db:
            db.execute("BEGIN IMMEDIATE")
            _check_application(db, self.path)
            if _version(db) != VERSION:
                _make_tables(db)
            yield db
            db.execute("COMMIT")

    @contextmanager
    def _connected(self, how: str = "") -> Iterator[sqlite3.Connection]:
        """Opens a connection for one transaction: what is not committed when it closes is rolled back."""
        try:
            uri = f"{self.path.absolute().as_uri()}{how}"
            with closing(sqlite3.connect(uri, timeout=BUSY_S, isolation_level=None, uri=True)) as db:
                db.execute("PRAGMA cache_size = -65536")  # KiB
                yield db
        except sqlite3.OperationalError as error:
            if "readonly" in str(error) and os.access(self.path, os.W_OK):
                raise Replaced(f"{self.path} was rebuilt meanwhile") from error
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
    """Returns the run, or why there is none: no complete record, or a newer schema."""
    try:
        return read_run(folder), ""
    except HarnessError as error:
        return None, str(error)


def _stamp(folder: Path) -> str:
    """Returns the size and time of the two files of a run, which change when the run does."""
    stamps = []
    for name in (RECORDS, INFO):
        try:
            status = (folder / name).stat()
        except FileNotFoundError:
            stamps.append("none")
        else:
            stamps.append(f"{status.st_size} {status.st_mtime_ns}")
    return ", ".join(stamps)


def _text(shape: Shape) -> str:
    return ",".join(map(str, shape))


def _parsed(text: str) -> Shape:
    return tuple(int(size) for size in text.split(",") if size)


def _unusable(path: Path, why: str) -> str:
    return f"{path} is not an index of runs ({why}): move it away, or rebuild it with: ssinghal history --rebuild"


def _version(db: sqlite3.Connection) -> int:
    return int(db.execute("PRAGMA user_version").fetchone()[0])


def _check_application(db: sqlite3.Connection, path: Path) -> None:
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
    rows = db.execute("SELECT id, folder, run, started, device, losses, refused FROM runs ORDER BY started, folder")
    return {
        number: IndexedRun(folder, run, started, parse_device(device), tuple(json.loads(losses)), refused)
        for number, folder, run, started, device, losses, refused in rows
    }


def _outcome(db: sqlite3.Connection, path: Path, number: int, ttnn: str) -> Record:
    (body,) = db.execute("SELECT json_set(body, '$.ttnn', ?) FROM outcomes WHERE id = ?", [ttnn, number]).fetchone()
    try:
        return parse_record(body)
    except ValueError as error:
        raise NotAStore(_unusable(path, f"outcome {number} is not a record")) from error


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
    """Removes runs, and all that no other run has."""
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
