"""Progress of long commands on standard error: a bar on a terminal, else a line now and then."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any, TypeVar

from ssinghal.cli.streams import echo
from ssinghal.core.nouns import counted
from ssinghal.core.record import Record
from ssinghal.core.verdict import Status

T = TypeVar("T")

LINE_EVERY_S = 30.0


def track(items: Iterable[T], what: str, total: int) -> Iterable[T]:
    """Returns ``items``, whose iteration moves a bar on a terminal and prints nothing elsewhere."""
    if not _on_terminal():
        return items
    from rich.progress import track as bar

    return bar(items, what, total, console=_console())


def counting(items: Iterable[T], what: str, total: int) -> Iterator[T]:
    """Yields ``items``, of which a bar on a terminal shows how many there were; elsewhere a line before the first, at every
    tenth and every 30 s."""
    if _on_terminal():
        yield from track(items, what, total)
        return
    started = last_line = time.monotonic()
    echo(f"{what}: {counted(total, 'case')}", err=True)
    for done, item in enumerate(items, start=1):
        now = time.monotonic()
        if _is_tenth(done, total) or now - last_line >= LINE_EVERY_S:
            last_line = now
            echo(f"{what}: {done:,} of {total:,} ({100 * done // total} %) after {now - started:.0f} s", err=True)
        yield item


def _is_tenth(done: int, total: int) -> bool:
    return 10 * done // total > 10 * (done - 1) // total


@contextmanager
def doing(what: str) -> Iterator[None]:
    """Shows on a terminal what is done, and for how long, until the context ends; prints nothing elsewhere."""
    if not _on_terminal():
        yield
        return
    with _spinner(what):
        yield


class VerdictProgress:
    """Counts records by verdict, as a context manager. Without a terminal, prints a line before the first case is probed, at
    every tenth and every 30 s; answers of earlier runs get one together. ``where``: the device."""

    def __init__(self, total: int, where: str = "") -> None:
        self._total, self._where = total, where
        self._counts: Counter[str] = Counter()
        self._taken = 0
        self._started = self._last_line = time.monotonic()
        self._bar: Any = None

    def __enter__(self) -> VerdictProgress:
        if _on_terminal():
            from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

            columns = (TextColumn("{task.fields[doing]}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
            self._bar = Progress(*columns, TextColumn("{task.description}"), console=_console())
            self._task = self._bar.add_task("", total=self._total, doing="starting")
            self._bar.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._bar is not None:
            self._bar.stop()

    def probes(self) -> None:
        """What earlier runs have answered is counted; the rest is probed from now on."""
        if self._bar is not None:
            self._bar.update(self._task, doing="probing")
            return
        left, on = self._total - self._counts.total(), f" on {self._where}" if self._where else ""
        if self._taken:
            line = (
                f"probing: {left:,} of {counted(self._total, 'case')}{on}; {self._taken:,} answers are taken from earlier runs"
            )
        else:
            line = f"probing: {counted(left, 'case')}{on}"
        echo(line, err=True)

    def count(self, record: Record) -> None:
        self._counts[str(record.status) if record.status in (Status.FITS, Status.OOM) else "other"] += 1
        self._taken += bool(record.taken_from)
        done = self._counts.total()
        if self._bar is not None:
            verb = "taking" if record.taken_from else "probing"
            self._bar.update(self._task, completed=done, description=self._totals(), doing=verb)
            return
        now = time.monotonic()
        is_tenth = _is_tenth(done, self._total) and not record.taken_from
        if is_tenth or now - self._last_line >= LINE_EVERY_S:
            self._last_line = now
            percent = 100 * done // self._total
            line = f"probing: {done:,} of {self._total:,} ({percent} %) after {now - self._started:.0f} s: {self._totals()}"
            echo(line, err=True)

    def _totals(self) -> str:
        totals = ", ".join(f"{name} {self._counts[name]:,}" for name in ("fits", "oom", "other"))
        probed = self._counts.total() - self._taken
        return f"{totals}; taken {self._taken:,}, probed {probed:,}" if self._taken else totals


class TrialProgress:
    """Shows the trials of searches, one after another: on a terminal the one that is running and the verdicts before it, else
    a line for each. Ends with its context."""

    def __init__(self) -> None:
        self._started = time.monotonic()
        self._what = self._verdict = ""
        self._spinner: Any = None

    def __enter__(self) -> TrialProgress:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.stop()

    def starts(self, what: str, left: int) -> None:
        """``what`` is tried now; ``left``: how many trials are left at most, this one included."""
        self._what = what
        rest = f"runs left: at most {left:,}"
        if _on_terminal():
            self._spinner = _spinner(f"running {what} ({rest})")
            self._spinner.start()
        else:
            so_far = f"{self._verdict}; " if self._verdict else ""
            echo(f"searching: {so_far}now {what} ({rest}) after {time.monotonic() - self._started:.0f} s", err=True)

    def ended(self, verdict: str) -> None:
        """The trial has ended."""
        self.stop()
        self._verdict = f"{self._what}: {verdict}"
        if _on_terminal():
            echo(self._verdict, err=True)

    def stop(self) -> None:
        """Removes what is shown of a trial that runs."""
        if self._spinner is not None:
            self._spinner.stop()
            self._spinner = None


def _on_terminal() -> bool:
    return sys.stderr is not None and sys.stderr.isatty()


def _spinner(what: str) -> Any:
    """Returns a line of text that shows how long it is there, and is gone when it ends; a context manager."""
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn())
    spinner = Progress(*columns, console=_console(), transient=True)
    spinner.add_task(what)
    return spinner


def _console() -> Any:
    from rich.console import Console  # takes longer to import than most commands run

    return Console(stderr=True)
