"""The Parquet file with the columns of a run: made from its lines by the reader's rules, kept beside them where that pays.

One record is kept per case and setting, as ``runs.reader`` keeps it. The file's name holds a digest of the size, times
and inode of the lines, so that a file made of others, or one that came with a folder from elsewhere, is never opened. It
also holds a digest of the columns, so that a damaged file is made anew: DuckDB writes no checksums, and changed bytes would be
other figures.
"""

from __future__ import annotations

import json
import os
import shutil
import stat
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from hashlib import blake2b, sha256
from pathlib import Path
from typing import Any, BinaryIO

from ssinghal.core.code_digest import code_digest
from ssinghal.core.device_facts import DeviceMode
from ssinghal.core.locks import remove_left, temporaries, used_file
from ssinghal.core.record import SCHEMA_VERSION
from ssinghal.errors import HarnessError
from ssinghal.runs.column_layout import LINE, TYPES, VERSION
from ssinghal.runs.column_parts import BlockContents, write_parts
from ssinghal.runs.duck import Duck, text
from ssinghal.runs.line_files import blocks
from ssinghal.runs.parsing import MAX_LOSSES, loss_text, more_losses
from ssinghal.runs.reader import check_modes, no_record, repeated_remarks
from ssinghal.runs.setting import Setting

CACHED_BYTES = 16 * 1024 * 1024  # of lines; those of less are counted anew in about two seconds
PARALLEL_BYTES = 64 * 1024 * 1024
MAX_PROCESSES = 8
GROUP, RANK = "setting", "rank"  # the number of the setting in ``Contents.groups``; the place among all records of the run
_PREFIX, _SUFFIX = ".records-", ".parquet"
_BLOCK = 2**20
_NOTE = "ssinghal"
_READING = ("core", "operators", "runs")  # the code that reads lines
_NOTHING = ", ".join(f"NULL::{kind} AS {name}" for name, kind in TYPES.items())


@dataclass(frozen=True)
class CountedSetting:
    """How many records of a setting there are, and in how many the values were compared."""

    setting: Setting
    cases: int
    compared: int


@dataclass(frozen=True)
class Contents:
    """What the columns of a run hold besides its records.

    Attributes:
        groups: The settings in the order of ``Run.groups``.
        repeated: Records that a later answer replaced.
        losses: Numbers of lines that are no records, and why.
        more: How many more there are.
    """

    groups: tuple[CountedSetting, ...]
    repeated: int
    losses: tuple[tuple[int, str], ...]
    more: int

    def loss_texts(self, lines: Path) -> list[str]:
        return [*(loss_text(lines, number, why) for number, why in self.losses), *more_losses(lines, self.more)]

    def remarks(self, lines: Path) -> list[str]:
        return repeated_remarks(lines, self.repeated)

    def to_json(self) -> dict[str, Any]:
        groups = [[*g.setting.to_json().values(), g.cases, g.compared] for g in self.groups]
        return {"groups": groups, "repeated": self.repeated, "losses": [list(loss) for loss in self.losses], "more": self.more}

    @classmethod
    def of_json(cls, text: str) -> Contents:
        stored = json.loads(text)
        groups = (
            CountedSetting(Setting(DeviceMode(m), b, t), cases, compared) for m, b, t, cases, compared in stored["groups"]
        )
        return cls(tuple(groups), stored["repeated"], tuple((n, why) for n, why in stored["losses"]), stored["more"])


def open_columns(duck: Duck, lines: Path, table: str, may_be_empty: bool) -> Contents:
    """Opens the columns of a file of lines as ``table``. Makes them first where they are not kept beside it.

    Raises:
        HarnessError: The lines cannot be read, contain no complete record (unless they ``may_be_empty``), or were written by a
            newer version.
    """
    status = _status(lines)
    start = f"{_PREFIX}{_stamp(status)}-"
    file = duck.folder / f"{table}{_SUFFIX}"
    if not any(_brought(kept, file) for kept in lines.parent.glob(f"{start}*{_SUFFIX}")):
        _make(duck, lines, file, status.st_size, may_be_empty)
        if status.st_size >= CACHED_BYTES and _stamp(_status(lines)) == _stamp(status):
            with file.open("rb") as content:
                _keep(file, lines.with_name(f"{start}{_digest(content)}{_SUFFIX}"))
    duck.run(f"CREATE VIEW {table} AS SELECT * FROM read_parquet({text(str(file))})")
    (note,) = duck.row(f"SELECT value FROM parquet_kv_metadata({text(str(file))}) WHERE key = '{_NOTE}'")
    return Contents.of_json(note.decode())


def _status(path: Path) -> os.stat_result:
    try:
        return path.stat()
    except OSError as error:
        raise HarnessError(f"cannot read {path}: {error.strerror}") from error


def _stamp(status: os.stat_result) -> str:
    """Returns a digest that is another one as soon as the lines are other ones, or this program reads them in another way."""
    of_file = status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns
    return sha256(repr((VERSION, SCHEMA_VERSION, code_digest(_READING), of_file)).encode()).hexdigest()[:32]


def _brought(kept: Path, file: Path) -> bool:
    """Links or copies a file with columns to the private ``file``, where no other process replaces it, if there is one that is
    the user's own, nobody else may write, and that holds the bytes that it was written with.
    DuckDB takes names with ``*`` for patterns, and opens none elsewhere."""
    try:
        with os.fdopen(os.open(kept, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as content:
            status = os.fstat(content.fileno())
            if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid() or status.st_mode & 0o022:
                return False
            if not kept.stem.endswith(f"-{_digest(content)}"):
                return False
            with suppress(OSError):  # of another file system
                os.link(kept, file, follow_symlinks=False)
                if os.path.samestat(file.lstat(), status):
                    return True
            file.unlink(missing_ok=True)
            content.seek(0)
            with file.open("xb") as to:
                shutil.copyfileobj(content, to)
    except OSError:
        return False
    return True


def _digest(content: BinaryIO) -> str:
    digest = blake2b(digest_size=16)
    while block := content.read(_BLOCK):
        digest.update(block)
    return digest.hexdigest()


def _keep(file: Path, kept: Path) -> None:
    """Copies a file with columns to its place beside the lines, in one step, and removes those of earlier lines. A folder that
    cannot be written stays as it is."""
    with suppress(OSError):
        with used_file(kept) as temporary:
            descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW, 0o600)
            with os.fdopen(descriptor, "wb") as to, file.open("rb") as content:
                os.fchmod(descriptor, 0o600)
                shutil.copyfileobj(content, to)
            temporary.replace(kept)
        forget_columns(kept.parent, kept)


def forget_columns(folder: Path, kept: Path | None = None) -> None:
    """Removes the files with columns in a folder, but for ``kept``, and parts of them that killed processes left."""
    for other in folder.glob(f"{_PREFIX}*{_SUFFIX}"):
        if other != kept:
            with suppress(OSError):
                other.unlink()
    for part, _ in temporaries(folder, f"{_PREFIX}*{_SUFFIX}"):
        remove_left(part)


def _make(duck: Duck, lines: Path, file: Path, size: int, may_be_empty: bool) -> None:
    parts = duck.folder / "parts"
    parts.mkdir()
    processes = min(MAX_PROCESSES, len(os.sched_getaffinity(0))) if size >= PARALLEL_BYTES else 1
    read, losses, more = _collected(write_parts(blocks(lines), lines, parts, processes))
    if not read and (losses or not may_be_empty):
        raise no_record(lines, [loss_text(lines, *loss) for loss in losses])
    source = f"read_parquet({text(str(parts / 'part-*.parquet'))})" if read else f"(SELECT {_NOTHING}) WHERE false"
    duck.run(f"CREATE VIEW raw AS SELECT * FROM {source}")
    for statement in _KEPT:
        duck.run(statement)
    groups = _groups(duck)
    check_modes(lines, [group.setting for group in groups])
    contents = Contents(groups, read - sum(group.cases for group in groups), losses, more)
    for number, group in enumerate(groups):
        duck.run("INSERT INTO numbered VALUES (?, ?, ?, ?)", [number, *group.setting.to_json().values()])
    duck.run(
        f"COPY ({_RANKED}) TO {text(str(file))} (FORMAT parquet, COMPRESSION zstd, ROW_GROUP_SIZE 65536, "
        f"KV_METADATA {{{_NOTE}: {text(json.dumps(contents.to_json()))}}})"
    )
    for table in ("kept", "numbered"):
        duck.run(f"DROP TABLE {table}")
    duck.run("DROP VIEW raw")
    shutil.rmtree(parts)


def _collected(parts: Iterable[BlockContents]) -> tuple[int, tuple[tuple[int, str], ...], int]:
    read = more = 0
    losses: list[tuple[int, str]] = []
    for part in parts:
        read += part.records
        losses += part.losses
        more += part.more + len(losses[MAX_LOSSES:])
        del losses[MAX_LOSSES:]
    return read, tuple(losses), more


# ``runs.reader`` keeps the last record that a device answered, else the last; one that no device answered belongs to the
# setting of its board, if there is just one. ``place``: the line where the case stands first, as in a dict.
_KEPT = (
    f"""CREATE TEMP TABLE kept AS
    WITH answered AS (SELECT DISTINCT device_mode, board, ttnn FROM raw WHERE device_mode <> '{DeviceMode.NONE.value}'),
    alone AS (SELECT board, min(device_mode) AS mode, min(ttnn) AS ttnn FROM answered GROUP BY board HAVING count(*) = 1),
    settled AS (
      SELECT raw.{LINE} AS line, raw.op, raw.key, raw.compared, raw.device_mode <> '{DeviceMode.NONE.value}' AS is_answer,
        coalesce(alone.mode, raw.device_mode) AS of_mode, raw.board AS of_board, coalesce(alone.ttnn, raw.ttnn) AS of_ttnn
      FROM raw LEFT JOIN alone ON raw.device_mode = '{DeviceMode.NONE.value}' AND alone.board = raw.board)
    SELECT of_mode, of_board, of_ttnn, coalesce(max(line) FILTER (is_answer), max(line)) AS line, min(line) AS place
    FROM settled GROUP BY of_mode, of_board, of_ttnn, op, key""",
    "CREATE TEMP TABLE numbered (number INTEGER, mode VARCHAR, board VARCHAR, ttnn VARCHAR)",
)
_RANKED = f"""SELECT ranked.number AS {GROUP}, ranked.rank AS {RANK}, raw.*
  FROM raw JOIN (
    SELECT kept.line, numbered.number, row_number() OVER (ORDER BY numbered.number, kept.place) - 1 AS rank
    FROM kept JOIN numbered ON kept.of_mode = numbered.mode AND kept.of_board = numbered.board AND kept.of_ttnn = numbered.ttnn
  ) ranked ON raw.{LINE} = ranked.line"""


def _groups(duck: Duck) -> tuple[CountedSetting, ...]:
    rows = duck.rows(
        f"""SELECT kept.of_mode, kept.of_board, kept.of_ttnn, count(*), count(*) FILTER (raw.compared)
        FROM kept JOIN raw ON raw.{LINE} = kept.line GROUP BY ALL"""
    )
    groups = [CountedSetting(Setting(DeviceMode(mode), board, ttnn), *counts) for mode, board, ttnn, *counts in rows]
    return tuple(sorted(groups, key=lambda group: (-group.cases, str(group.setting))))
