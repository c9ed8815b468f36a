"""The columns of a run in a database of their own, as a comparison opens those of two runs in one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ssinghal.core.record import Record
from ssinghal.runs.columns import Columns
from ssinghal.runs.duck import Duck


@contextmanager
def opened(path: Path) -> Iterator[Columns]:
    with Duck() as duck, Columns(path, duck) as columns:
        yield columns


def records_by_columns(path: Path) -> tuple[Record, ...]:
    with opened(path) as columns:
        return tuple(columns.at(range(columns.cases)))
