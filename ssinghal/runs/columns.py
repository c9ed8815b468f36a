"""A run of any size by columns: what a comparison asks of each record, and the complete records of some. Memory stays flat.

Every figure is that of ``runs.reader`` on the same lines. The first use of a large run reads each line once and keeps the
columns beside them in a hidden Parquet file.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from ssinghal.core.closing import Closing
from ssinghal.core.device_facts import NOT_OPENED, DeviceFacts
from ssinghal.core.record import Record
from ssinghal.errors import HarnessError
from ssinghal.runs.column_file import RANK, open_columns
from ssinghal.runs.column_layout import SIZE, START
from ssinghal.runs.duck import Duck
from ssinghal.runs.parsing import parse_record
from ssinghal.runs.reader import described, id_of, missing_losses
from ssinghal.runs.record_lines import LineReader
from ssinghal.runs.setting import Setting, numerics_text
from ssinghal.runs.summary import at_the_second_attempt, taken_note


@dataclass(frozen=True)
class ColumnGroup:
    """The records of one setting: ``number``: its place in ``Columns.groups``. ``device``: what the run opened, if of it."""

    number: int
    setting: Setting
    cases: int
    compared: int
    device: DeviceFacts = NOT_OPENED

    @property
    def numerics(self) -> str:
        return numerics_text(self.setting, self.compared, self.cases)


class Columns(Closing):
    """The columns of a run. ``path``, ``head``, ``losses``, ``remarks`` and ``lacks_records`` are those of ``reader.Run``.

    Raises:
        HarnessError: As ``reader.read_run``.
    """

    def __init__(self, path: Path, duck: Duck, table: str = "records") -> None:
        """Opens them as a table of ``duck``, which is the caller's. ``path``: a run's folder, or its file of records."""
        self.path, self.table = path, table
        self.lines, self.head, head_remarks = described(path)
        self._duck = duck
        contents = open_columns(duck, self.lines, table, self.head.selected == 0)
        self._reader = LineReader(self.lines, duck.folder / f"{table}.jsonl")
        opened = self.head.device
        self.groups = tuple(
            ColumnGroup(
                number,
                group.setting,
                group.cases,
                group.compared,
                opened if Setting(opened.mode, opened.board, opened.ttnn) == group.setting else NOT_OPENED,
            )
            for number, group in enumerate(contents.groups)
        )
        retried, taken = duck.row(f"SELECT count(*) FILTER (retried), count(*) FILTER (taken) FROM {table}")
        self.remarks: tuple[str, ...] = (
            *head_remarks,
            *contents.remarks(self.lines),
            *at_the_second_attempt(retried),
            *taken_note(taken, self.cases),
        )
        losses = [*contents.loss_texts(self.lines), *missing_losses(self.head, self.cases)]
        self.lacks_records = bool(losses)
        self.losses: tuple[str, ...] = (*losses, *filter(None, [self.head.interruption]))

    def close(self) -> None:
        self._reader.close()

    @property
    def id(self) -> str:
        return id_of(self.path, self.head)

    @property
    def cases(self) -> int:
        return sum(group.cases for group in self.groups)

    @property
    def catalogs(self) -> frozenset[str]:
        """The names of all catalogs that its cases come from."""
        return frozenset(name for (name,) in self._duck.rows(f"SELECT DISTINCT unnest(catalogs) FROM {self.table}"))

    def at(self, ranks: Sequence[int]) -> list[Record]:
        """Returns the records with these numbers, 0 for the first of the run, in the order of the numbers."""
        found = self._duck.rows(
            f"SELECT {START}, {SIZE}, {RANK} FROM {self.table} WHERE {RANK} IN (SELECT unnest(?::BIGINT[]))", [list(ranks)]
        )
        by_rank = {rank: (start, size) for start, size, rank in found}
        return list(self.parsed([by_rank[rank] for rank in ranks]))

    def parsed(self, places: Sequence[tuple[int, int]]) -> Iterator[Record]:
        """Yields the records whose lines start at these bytes and have these sizes."""
        for line in self._reader.read(places):
            try:
                yield parse_record(line)
            except ValueError as error:
                raise HarnessError(f"{self.lines} was changed while it was read: start again") from error
