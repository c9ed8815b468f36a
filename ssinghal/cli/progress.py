"""Progress of long commands on standard error: a bar on a terminal, else a line now and then."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Iterable
from types import TracebackType
from typing import Any, TypeVar

import click

from ssinghal.core.record import Record, Status

T = TypeVar("T")

LINE_EVERY_S = 30.0


def track(items: Iterable[T], what: str, total: int) -> Iterable[T]:
    """Returns ``items``, whose iteration moves a bar on a terminal and prints nothing elsewhere."""
    if not _on_terminal():
        return items
    from rich.progress import track as bar

    return bar(items, what, total, console=_console())


class VerdictProgress:
    """Counts records by verdict, as a context manager. Without a terminal, prints a line at every tenth and every 30 s."""

    def __init__(self, total: int) -> None:
        self._total = total
        self._counts: Counter[str] = Counter()
        self._started = self._last_line = time.monotonic()
        self._bar: Any = None

    def __enter__(self) -> VerdictProgress:
        if _on_terminal():
            from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

            columns = (TextColumn("probing"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
            self._bar = Progress(*columns, TextColumn("{task.description}"), console=_console())
            self._task = self._bar.add_task("", total=self._total)
            self._bar.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._bar is not None:
            self._bar.stop()

    def count(self, record: Record) -> None:
        self._counts[str(record.status) if record.status in (Status.FITS, Status.OOM) else "other"] += 1
        done = self._counts.total()
        if self._bar is not None:
            self._bar.update(self._task, completed=done, description=self._totals())
            return
        now = time.monotonic()
        if 10 * done // self._total > 10 * (done - 1) // self._total or now - self._last_line >= LINE_EVERY_S:
            self._last_line = now
            percent = 100 * done // self._total
            line = f"probing: {done:,} of {self._total:,} ({percent} %) after {now - self._started:.0f} s: {self._totals()}"
            click.echo(line, err=True)

    def _totals(self) -> str:
        return ", ".join(f"{name} {self._counts[name]:,}" for name in ("fits", "oom", "other"))


def _on_terminal() -> bool:
    return sys.stderr is not None and sys.stderr.isatty()


def _console() -> Any:
    from rich.console import Console  # takes longer to import than most commands run

    return Console(stderr=True)
