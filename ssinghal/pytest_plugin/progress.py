"""One line of progress in place of pytest's letters: tests done, their outcomes, and the time that the rest takes."""

from __future__ import annotations

import time
from collections.abc import Generator
from typing import Any

import pytest

LINE_EVERY_S = 30.0  # where the output is no terminal
REDRAW_EVERY_S = 0.2
OUTCOMES = ("passed", "skipped", "failed", "error", "xfailed", "xpassed")
Status = tuple[str, str, Any]


class ProgressLine:
    """On a terminal the line is redrawn; elsewhere it is printed at every tenth of the tests and every 30 s."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._total = self._done = 0
        self._started = self._shown = time.monotonic()

    @pytest.hookimpl(wrapper=True)
    def pytest_report_teststatus(self) -> Generator[None, Status, Status]:
        category, _, _ = yield
        return category, "", ""

    @property
    def _reporter(self) -> Any:
        return self._config.pluginmanager.get_plugin("terminalreporter")

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self._reporter.showfspath = False
        self._total = len(session.items)
        self._started = self._shown = time.monotonic()

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, ids: list[str]) -> None:
        self._total = len(ids)  # each process collects the same

    def pytest_runtest_logfinish(self) -> None:
        self._done += 1
        now, terminal = time.monotonic(), self._reporter.isatty
        since_s = now - self._shown
        if self._done == self._total or since_s >= (REDRAW_EVERY_S if terminal else LINE_EVERY_S) or self._is_tenth():
            self._shown = now
            text = self.text(now - self._started)
            if terminal:
                self._reporter.rewrite(text, erase=True)
            else:
                self._reporter.write_line(text)

    def _is_tenth(self) -> bool:
        return bool(self._total) and 10 * self._done // self._total > 10 * (self._done - 1) // self._total

    def text(self, elapsed_s: float) -> str:
        """Returns the line after ``elapsed_s`` seconds of tests."""
        left_s = elapsed_s * (self._total - self._done) / max(self._done, 1)
        outcomes = ((name, len(self._reporter.stats.get(name, ()))) for name in OUTCOMES)
        counts = ", ".join(f"{count:,} {name}" for name, count in outcomes if count)
        percent = 100 * self._done // self._total if self._total else 100
        return f"{self._done:,} of {self._total:,} tests ({percent} %), about {_duration(left_s)} left: {counts}"


def _duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 100 else f"{seconds / 60:.0f} min"
