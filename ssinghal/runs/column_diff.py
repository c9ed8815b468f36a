"""Compares two large runs: their columns find the cases that differ, and records are made of these alone.

``runs.diff`` judges them as it judges those of small runs, so that both find the same changes.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from pathlib import Path

from ssinghal.core.record import Record
from ssinghal.core.verdict import Resource
from ssinghal.runs.column_file import GROUP, RANK
from ssinghal.runs.column_layout import ANSWER, CALL, SIZE, START
from ssinghal.runs.columns import ColumnGroup, Columns
from ssinghal.runs.diff import Changes, changes_between
from ssinghal.runs.duck import Duck
from ssinghal.runs.judging import BankMove
from ssinghal.runs.line_files import is_compressed, lines_file
from ssinghal.runs.reader import read_run

LARGE_BYTES = 96 * 1024 * 1024  # of a run's lines: some 30,000 records, which take half a GiB as objects
_RATIO = 10  # of compressed lines, at least
_AT_ONCE = 50_000
_BEFORE, _AFTER = "earlier", "later"


def is_large(run: Path) -> bool:
    """Returns whether a run's folder or file is better read by columns than as objects."""
    lines = lines_file(run) if run.is_dir() else run
    if lines is None or not lines.is_file():
        return False
    return lines.stat().st_size * (_RATIO if is_compressed(lines) else 1) >= LARGE_BYTES


def compare_runs(before: Path, after: Path, *, across: bool = False) -> Changes:
    """Compares the runs of two folders or files: large ones by columns, others as objects.

    Raises:
        HarnessError: A run cannot be read, or no groups of them can be compared.
    """
    if is_large(before) or is_large(after):
        return compare_columns(before, after, across=across)
    return Changes.of(read_run(before), read_run(after), across=across)


def compare_columns(before: Path, after: Path, *, across: bool = False) -> Changes:
    """Returns what ``Changes.of`` finds of the two runs.

    Raises:
        HarnessError: A run cannot be read, or no groups of them can be compared.
    """
    with Duck() as duck, Columns(before, duck, _BEFORE) as one, Columns(after, duck, _AFTER) as other:
        numbers = count()
        return changes_between(
            one, other, lambda *groups: _MatchedColumns(duck, (one, other), groups, f"m{next(numbers)}"), across
        )


class _MatchedColumns:
    """The records of two groups, matched in a table: a row for each case with the ranks and places of its two records."""

    def __init__(self, duck: Duck, runs: tuple[Columns, Columns], groups: tuple[ColumnGroup, ColumnGroup], name: str) -> None:
        self._duck, self._runs, self._name = duck, runs, name
        mine, theirs = groups[0].number, groups[1].number
        duck.run(
            f"""CREATE TEMP TABLE {name} AS
            SELECT a.{RANK} AS rank, a.{START} AS start, a.{SIZE} AS size, b.{START} AS start_after, b.{SIZE} AS size_after,
              a.{ANSWER} <> b.{ANSWER} AS differs, CASE WHEN a.resource = b.resource THEN a.resource ELSE '' END AS resource,
              a.bank_bytes AS bank, b.bank_bytes AS bank_after
            FROM {_BEFORE} a JOIN {_AFTER} b ON a.op = b.op AND a.key = b.key WHERE a.{GROUP} = ? AND b.{GROUP} = ?""",
            [mine, theirs],
        )
        self.common: int = duck.row(f"SELECT count(*) FROM {name}")[0]
        self._missing("gone", (_BEFORE, mine), (_AFTER, [theirs, *_elsewhere(runs[1], groups[1])]))
        self._missing("new", (_AFTER, theirs), (_BEFORE, [mine, *_elsewhere(runs[0], groups[0])]))

    def bank_moves(self) -> Iterator[BankMove]:
        rows = self._duck.rows(
            f"""SELECT resource, bank, bank_after, count(*) FROM {self._name}
            WHERE resource <> '' AND bank IS NOT NULL AND bank_after IS NOT NULL
            GROUP BY resource, bank, bank_after ORDER BY min(rank)"""
        )
        for resource, *moved in rows:
            yield BankMove(Resource(resource), *moved)

    def pairs(self) -> Iterator[tuple[Record, Record]]:
        for first in range(0, self._runs[0].cases, _AT_ONCE):
            places = self._duck.rows(
                f"""SELECT start, size, start_after, size_after FROM {self._name}
                WHERE differs AND rank >= ? AND rank < ? ORDER BY rank""",
                [first, first + _AT_ONCE],
            )
            old = self._runs[0].parsed([place[:2] for place in places])
            new = self._runs[1].parsed([place[2:] for place in places])
            yield from zip(old, new, strict=True)

    def placed(self) -> list[tuple[Record, Record]]:
        """Marks the records that are in these pairs."""
        self._duck.run(
            f"""CREATE TEMP TABLE {self._name}_placed AS
            WITH one AS (SELECT call, min(rank) AS rank, any_value(memory) AS memory FROM {self._name}_gone
                GROUP BY call HAVING count(*) = 1),
              other AS (SELECT call, min(rank) AS rank, any_value(memory) AS memory FROM {self._name}_new
                GROUP BY call HAVING count(*) = 1)
            SELECT one.rank AS gone, other.rank AS new FROM one JOIN other ON one.call = other.call
            WHERE one.memory <> other.memory"""
        )
        pairs = self._duck.rows(f"SELECT gone, new FROM {self._name}_placed ORDER BY gone")
        sides = (run.at(list(ranks)) for run, ranks in zip(self._runs, zip(*pairs, strict=True), strict=True)) if pairs else ()
        return list(zip(*sides, strict=True))

    def gone(self, but_placed: bool) -> Iterator[Record]:
        return self._records("gone", self._runs[0], but_placed)

    def new(self, but_placed: bool) -> Iterator[Record]:
        return self._records("new", self._runs[1], but_placed)

    def _missing(self, what: str, mine: tuple[str, int], theirs: tuple[str, list[int]]) -> None:
        """Makes a table of the records of a group whose cases no listed group of the other run has."""
        self._duck.run(
            f"""CREATE TEMP TABLE {self._name}_{what} AS
            SELECT {RANK} AS rank, {START} AS start, {SIZE} AS size, {CALL} AS call, memory FROM {mine[0]} a
            WHERE {GROUP} = ? AND NOT EXISTS (SELECT 1 FROM {theirs[0]} b WHERE b.op = a.op AND b.key = a.key
              AND list_contains(?::INTEGER[], b.{GROUP}))""",
            [mine[1], theirs[1]],
        )

    def _records(self, what: str, run: Columns, but_placed: bool) -> Iterator[Record]:
        left = f"AND rank NOT IN (SELECT {what} FROM {self._name}_placed)" if but_placed else ""
        for first in range(0, run.cases, _AT_ONCE):
            yield from run.parsed(
                self._duck.rows(
                    f"SELECT start, size FROM {self._name}_{what} WHERE rank >= ? AND rank < ? {left} ORDER BY rank",
                    [first, first + _AT_ONCE],
                )
            )


def _elsewhere(run: Columns, group: ColumnGroup) -> list[int]:
    """Returns the groups of the run on a group's board and mode under another release."""
    same = (group.setting.device_mode, group.setting.board)
    return [g.number for g in run.groups if g is not group and (g.setting.device_mode, g.setting.board) == same]
