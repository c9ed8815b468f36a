"""The index of all runs in a folder, ``store.sqlite``: how a case ended in each of them. Imports neither torch nor ttnn.

The index only repeats what the folders of the runs contain. It can be deleted or rebuilt at any time, and drops runs whose
folder is gone. An outcome is a record without everything that is not the device's answer (run, release, duration, sources,
estimate). It is stored once for all runs that have it, as most cases end as they did in the run before; ``index_rows`` reads
the lines of a run. ``known`` finds the outcomes that need no probe.

Any number of processes may read and write: a run is one transaction.
"""

from __future__ import annotations

import json
import os
import sqlite3
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from pathlib import Path

from ssinghal.core.device_facts import NOT_OPENED, DeviceFacts, DeviceMode
from ssinghal.core.json_values import plain
from ssinghal.core.locks import used_file
from ssinghal.core.record import SCHEMA_VERSION, Record
from ssinghal.core.tensors import Shape
from ssinghal.errors import HarnessError, one_line, visible
from ssinghal.runs.folders import INFO, run_folders
from ssinghal.runs.index_rows import RunRows, shape_text
from ssinghal.runs.line_files import COMPRESSED, RECORDS, blocks
from ssinghal.runs.parsing import parse_device, parse_record
from ssinghal.runs.reader import check_modes, described, missing_losses, no_record
from ssinghal.runs.setting import Setting

STORE = "store.sqlite"
APPLICATION = 0x5353494E  # in the file's header: the mark of this program
VERSION = 1000 * 3 + SCHEMA_VERSION  # of the tables; those of another version are rebuilt
BUSY_S = 600.0  # another writer takes a second for 10,000 records
SHORT_BUSY_S = 30.0  # for those who can do without
NOTED_S = 2.0  # of waiting, after which it is stated
_TRY_S = 0.5  # in which Ctrl-C has no effect
# results is clustered by case: what the history of a case needs is one range of it.
_SCHEMA = """
CREATE TABLE runs (id INTEGER PRIMARY KEY, folder TEXT NOT NULL UNIQUE, stamp TEXT NOT NULL, run TEXT NOT NULL,
  started TEXT NOT NULL, device TEXT NOT NULL, answerer TEXT NOT NULL, searcher TEXT NOT NULL, losses TEXT NOT NULL,
  refused TEXT NOT NULL);
CREATE TABLE settings (id INTEGER PRIMARY KEY, device_mode TEXT, board TEXT, ttnn TEXT, UNIQUE (device_mode, board, ttnn));
CREATE TABLE cases (id INTEGER PRIMARY KEY, op TEXT NOT NULL, key TEXT NOT NULL, UNIQUE (key, op));
CREATE TABLE shapes (operator TEXT, shape TEXT, case_id INTEGER, PRIMARY KEY (operator, shape, case_id)) WITHOUT ROWID;
CREATE TABLE outcomes (id INTEGER PRIMARY KEY, digest BLOB NOT NULL UNIQUE, case_id INTEGER NOT NULL,
  device_mode TEXT NOT NULL, board TEXT NOT NULL, stands_in INTEGER NOT NULL, body TEXT NOT NULL);
CREATE TABLE origins (id INTEGER PRIMARY KEY, run TEXT NOT NULL UNIQUE);
CREATE TABLE results (case_id INTEGER, setting INTEGER, run INTEGER, outcome INTEGER NOT NULL, duration_s REAL NOT NULL,
  origin INTEGER, retried INTEGER NOT NULL, PRIMARY KEY (case_id, setting, run)) WITHOUT ROWID;
"""

_COMPUTED = "SELECT count(*) FROM sqlite_master WHERE type NOT IN ('table', 'index') OR sql LIKE 'CREATE VIRTUAL%'"


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
    with the same outcome. ``taken_from``: the id of the run that probed it, empty if it is this one."""

    run: IndexedRun
    setting: Setting
    record: Record
    taken_from: str = ""


class Store:
    """The index at ``path``, which need not exist yet. ``wait_s``: how long to wait for other processes that use it; None:
    ``BUSY_S``.

    Raises:
        HarnessError: The file cannot be read or written.
        NotAStore: It is damaged, or belongs to another program.
    """

    def __init__(self, path: Path, wait_s: float | None = None) -> None:
        self.path = path
        self._wait_s = BUSY_S if wait_s is None else wait_s

    def exists(self) -> bool:
        """Whether there is an index of this version."""
        if not self.path.exists():
            return False
        with self.reading() as db:
            return _version(db) == VERSION

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
                _drop_orphans(db)

    def index(self, folder: Path) -> None:
        """Adds a run to the index, or replaces it. A run that cannot be read is kept with the reason."""
        stamp = _stamp(folder)
        try:
            self._put(folder, stamp)
        except Replaced:  # by a rebuild, which may have missed this run
            self._put(folder, stamp)

    def _put(self, folder: Path, stamp: str) -> None:
        with self._writing() as db:
            if _stamps(db).get(folder.name) == stamp:  # another process was faster
                return
            _forget(db, {folder.name})
            db.execute("SAVEPOINT run")
            try:
                _add_run(db, folder, stamp)
            except HarnessError as error:
                db.execute("ROLLBACK TO run")
                _add_refused(db, folder, stamp, str(error))
            _drop_orphans(db)

    def rebuild(self, results: Path, progress: Callable[[list[Path]], Iterable[Path]] = iter) -> None:
        """Rebuilds the index in a temporary file, then replaces the old one, even if that is damaged."""
        with used_file(self.path) as temporary:
            rebuilt = Store(temporary)
            with rebuilt._writing():  # an index even if there is no run
                pass
            rebuilt.sync(results, progress)
            try:
                with self._connected() as db:
                    self._waiting(db, "BEGIN IMMEDIATE")  # so that no process is writing the old one
                    temporary.replace(self.path)
            except NotAStore:
                self.path.with_name(f"{self.path.name}-journal").unlink(missing_ok=True)
                temporary.replace(self.path)

    def runs(self) -> list[IndexedRun]:
        """Returns all runs, the oldest first."""
        with self.reading() as db:
            return list(_runs(db).values())

    def shapes(self, operator: str) -> set[Shape]:
        """Returns the shapes of all cases of an operator (by its canonical name): as listed, and of each operand."""
        with self.reading() as db:
            rows = db.execute("SELECT DISTINCT shape FROM shapes WHERE operator = ?", [operator])
            return {_parsed(text) for (text,) in rows}

    def find(self, operator: str, shapes: Iterable[Shape], board: str | None, mode: str | None) -> Iterator[IndexResult]:
        """Yields the results of all cases of ``operator`` with one of ``shapes``: by case, mode and board, oldest first. Of the
        records, those of one case are in memory. Nothing can be written to the index until the last result is taken."""
        wanted = json.dumps([shape_text(shape) for shape in shapes])
        with self.reading() as db:
            runs = _runs(db)
            rows = db.execute(
                """SELECT r.case_id, r.run, s.device_mode, s.board, s.ttnn, r.outcome, g.run
                   FROM results r JOIN settings s ON s.id = r.setting JOIN cases c ON c.id = r.case_id
                     JOIN outcomes o ON o.id = r.outcome JOIN runs u ON u.id = r.run LEFT JOIN origins g ON g.id = r.origin
                   WHERE r.case_id IN (SELECT case_id FROM shapes
                                       WHERE operator = :operator AND shape IN (SELECT value FROM json_each(:wanted)))
                     AND (:board IS NULL OR s.board = :board) AND (:mode IS NULL OR s.device_mode = :mode)
                   ORDER BY c.op, json_extract(o.body, '$.id'), c.key, s.device_mode, s.board, u.started, u.folder, s.ttnn""",
                {"operator": operator, "wanted": wanted, "board": board, "mode": mode},
            )
            for _, same_case in groupby(rows, key=itemgetter(0)):
                records: dict[tuple[int, str], Record] = {}
                for _, run, of_mode, of_board, ttnn, outcome, origin in same_case:
                    if (outcome, ttnn) not in records:
                        records[outcome, ttnn] = _outcome(db, self.path, outcome, ttnn)
                    record = records[outcome, ttnn]
                    yield IndexResult(runs[run], Setting(DeviceMode(of_mode), of_board, ttnn), record, origin or "")

    def _stamps(self) -> dict[str, str]:
        """Returns the stamp of each run in the index; none if there is no index, or one of another version."""
        if not self.path.exists():
            return {}
        with self.reading() as db:
            return _stamps(db) if _version(db) == VERSION else {}

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """Opens the index for reading: one state of it, whatever is written meanwhile."""
        with self._connected("?mode=rw") as db:
            db.execute("BEGIN")
            self._waiting(db, "SELECT count(*) FROM sqlite_master")
            _check_application(db, self.path)
            try:
                yield db
            except (LookupError, TypeError, ValueError) as error:  # of what is in its rows
                raise NotAStore(_unusable(self.path, f"damaged rows: {' '.join(str(error).split())[:200]}")) from error

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        """Opens the index for one transaction, with the tables of this version."""
        with self._connected() as db:
            self._waiting(db, "BEGIN IMMEDIATE")
            _check_application(db, self.path)
            if _version(db) != VERSION:
                _make_tables(db)
            yield db
            self._waiting(db, "COMMIT")

    def _waiting(self, db: sqlite3.Connection, statement: str) -> None:
        """Executes a statement for which other processes may have to let go of the file. After ``NOTED_S`` a line on
        standard error states what it waits for."""
        start = time.monotonic()
        is_noted = False
        _set_timeout(db, min(_TRY_S, self._wait_s))
        while True:
            try:
                db.execute(statement)
                break
            except sqlite3.OperationalError as error:
                waited = time.monotonic() - start
                if "locked" not in str(error) or waited >= self._wait_s:
                    raise
                if waited >= NOTED_S and not is_noted:
                    is_noted = True
                    note_waiting(f"ssinghal: waiting up to {self._wait_s:g} s for {self.path}, which another process uses")
        _set_timeout(db, self._wait_s)

    @contextmanager
    def _connected(self, how: str = "") -> Iterator[sqlite3.Connection]:
        """Opens a connection for one transaction: what is not committed when it closes is rolled back."""
        try:
            uri = f"{self.path.absolute().as_uri()}{how}"
            with closing(sqlite3.connect(uri, timeout=self._wait_s, isolation_level=None, uri=True)) as db:
                self._waiting(db, "PRAGMA cache_size = -65536")  # KiB; the first that reads the file
                db.execute("PRAGMA trusted_schema = OFF")
                yield db
        except sqlite3.OperationalError as error:
            if "readonly" in str(error) and os.access(self.path, os.W_OK):
                raise Replaced(f"{self.path} was rebuilt meanwhile") from error
            raise HarnessError(f"cannot use {self.path}: {error}") from error
        except sqlite3.DatabaseError as error:
            raise NotAStore(_unusable(self.path, str(error))) from error


def note_waiting(text: str) -> None:
    """Writes a line to standard error, if there is one."""
    if sys.stderr is not None:
        sys.stderr.write(f"{visible(one_line(text))}\n")
        sys.stderr.flush()


def _set_timeout(db: sqlite3.Connection, wait_s: float) -> None:
    db.execute(f"PRAGMA busy_timeout = {int(1000 * wait_s)}")


def _stamp(folder: Path) -> str:
    """Returns the size and time of the files of a run, which change when the run does."""
    stamps = []
    for name in (RECORDS, COMPRESSED, INFO):
        try:
            status = (folder / name).stat()
        except FileNotFoundError:
            stamps.append("none")
        else:
            stamps.append(f"{status.st_size} {status.st_mtime_ns}")
    return ", ".join(stamps)


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
    (computed,) = db.execute(_COMPUTED).fetchone()
    if computed:  # a view of the requested name could go on forever
        raise NotAStore(_unusable(path, "it has views, triggers or virtual tables"))


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
        number: IndexedRun(
            one_line(folder), one_line(run), one_line(started), parse_device(device), _lines(losses), one_line(refused)
        )
        for number, folder, run, started, device, losses, refused in rows
    }


def _lines(losses: str) -> tuple[str, ...]:
    return tuple(map(one_line, json.loads(losses)))


def _outcome(db: sqlite3.Connection, path: Path, number: int, ttnn: str) -> Record:
    (body,) = db.execute("SELECT json_set(body, '$.ttnn', ?) FROM outcomes WHERE id = ?", [ttnn, number]).fetchone()
    try:
        return parse_record(body)
    except ValueError as error:
        raise NotAStore(_unusable(path, f"outcome {number} is not a record")) from error


def _add_run(db: sqlite3.Connection, folder: Path, stamp: str) -> None:
    """Adds a run and its records.

    Raises:
        HarnessError: It has no complete record, or was written by a newer version.
    """
    lines, head, _ = described(folder)
    run = db.execute("INSERT INTO runs VALUES (NULL, ?, ?, '', '', '', '', '', '', '')", [folder.name, stamp]).lastrowid
    rows = RunRows(db, run or 0, lines)
    for block in blocks(lines):
        rows.add(block)
    rows.end()
    losses = rows.losses
    if not rows.kept and (losses or head.selected != 0):  # an empty part of a selection is a run, too
        raise no_record(lines, losses)
    check_modes(lines, rows.answered)
    losses += missing_losses(head, rows.kept)
    if head.interruption:
        losses.append(head.interruption)
    device = json.dumps(plain(head.device))
    db.execute(
        "UPDATE runs SET run = ?, started = ?, device = ?, answerer = ?, searcher = ?, losses = ? WHERE id = ?",
        [head.run or folder.name, head.started, device, head.answerer, head.searcher, json.dumps(losses), run],
    )


def _add_refused(db: sqlite3.Connection, folder: Path, stamp: str, why: str) -> None:
    values = [folder.name, stamp, folder.name, "", json.dumps(plain(NOT_OPENED)), "", "", "[]", why]
    db.execute("INSERT INTO runs VALUES (NULL, ?, ?, ?, ?, ?, ?, ?, ?, ?)", values)


def _forget(db: sqlite3.Connection, folders: Iterable[str]) -> None:
    """Removes runs, and notes their outcomes in the table ``touched``."""
    db.execute("CREATE TEMP TABLE touched (outcome INTEGER PRIMARY KEY)")
    for folder in folders:
        for number in db.execute("DELETE FROM runs WHERE folder = ? RETURNING id", [folder]).fetchall():
            db.execute("INSERT OR IGNORE INTO touched SELECT outcome FROM results WHERE run = ?", number)
            db.execute("DELETE FROM results WHERE run = ?", number)


def _drop_orphans(db: sqlite3.Connection) -> None:
    """Removes the outcomes that were touched and that no run has any more, and what belongs to them alone."""
    db.execute(
        """CREATE TEMP TABLE orphans AS SELECT o.id, o.case_id FROM touched t JOIN outcomes o ON o.id = t.outcome
           WHERE NOT EXISTS (SELECT 1 FROM results r WHERE r.case_id = o.case_id AND r.outcome = o.id)"""
    )
    if not db.execute("DELETE FROM outcomes WHERE id IN (SELECT id FROM orphans)").rowcount:
        return
    db.execute(
        """DELETE FROM cases WHERE id IN (SELECT case_id FROM orphans)
           AND NOT EXISTS (SELECT 1 FROM results r WHERE r.case_id = cases.id)"""
    )
    db.execute("DELETE FROM shapes WHERE case_id IN (SELECT case_id FROM orphans EXCEPT SELECT id FROM cases)")
    db.execute("DELETE FROM settings WHERE NOT EXISTS (SELECT 1 FROM results r WHERE r.setting = settings.id)")
