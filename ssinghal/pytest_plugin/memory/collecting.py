"""The part of the plugin in the process that reports: the summary of all tests, and the baseline file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from ssinghal.core.files import write_whole
from ssinghal.errors import HarnessError, visible
from ssinghal.pytest_plugin.memory.baseline import Baseline
from ssinghal.pytest_plugin.memory.figures import Figures
from ssinghal.pytest_plugin.memory.journal import read_journals
from ssinghal.pytest_plugin.memory.running import FIGURES_ATTRIBUTE, PASSED_ATTRIBUTE
from ssinghal.pytest_plugin.memory.settings import MemorySettings

RESULT = "tests.jsonl"  # of all processes, in the order of the tests' ids


class Collector:
    """Takes figures from reports as they arrive, and those of killed processes from their journals."""

    def __init__(self, settings: MemorySettings, folder: Path, baseline: Baseline | None, *, keeps: bool) -> None:
        self._settings, self._folder, self._baseline = settings, folder, baseline
        self._keeps = keeps  # the folder
        self._figures: dict[str, Figures] = {}
        self._passed: set[str] = set()
        self._crashed: list[str] = []
        self._notes: list[str] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        fields = getattr(report, FIGURES_ATTRIBUTE, None)
        if fields is None:
            if report.failed:
                self._passed.discard(report.nodeid)
            return
        figures = self._figures[report.nodeid] = Figures.from_json(fields)
        if getattr(report, PASSED_ATTRIBUTE):
            self._passed.add(report.nodeid)
        why = self._baseline.contradiction(figures) if self._baseline is not None else ""
        if why:
            self._baseline = None
            pytest.exit(why, returncode=pytest.ExitCode.USAGE_ERROR)

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        outcomes: dict[str, str] = {}
        for ended in read_journals(self._folder):
            outcomes[ended.test] = ended.outcome
            if ended.outcome == "crash":
                self._crashed.append(ended.test)
            elif ended.figures is not None:
                self._figures.setdefault(ended.test, ended.figures)
        if self._keeps:
            lines = [
                {"test": test, "outcome": outcome, **(_known(self._figures.get(test)))}
                for test, outcome in sorted(outcomes.items())
            ]
            write_whole(self._folder / RESULT, "\n".join(map(json.dumps, lines)))
        if self._baseline is None:
            return
        measured = {test: figures for test, figures in self._figures.items() if figures.calls and test in self._passed}
        if not self._settings.update:
            new = measured.keys() - self._baseline.tests.keys()
            moved = self._baseline.elsewhere(new) if new == measured.keys() else ""
            if moved:
                self._notes.append(moved)
                session.exitstatus = pytest.ExitCode.USAGE_ERROR
            elif new:
                self._notes.append(f"{len(new)} tests are not in {self._baseline.path}; --tt-memory-update adds them")
            lacking = {test: figures.unrecorded for test, figures in measured.items() if figures.unrecorded}
            for test in sorted(lacking.keys() & self._baseline.tests.keys()):
                self._notes.append(f"growth not checked: {test}: {lacking[test]}")
            return
        try:
            self._baseline.write(measured)
            self._notes.append(f"{len(measured)} tests written to {self._baseline.path}")
        except HarnessError as error:
            self._notes.append(str(error))
            session.exitstatus = pytest.ExitCode.USAGE_ERROR

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        terminalreporter.section("device memory")
        for line in [*summary(self._figures, self._settings.top), *self._crashes(), *self._notes]:
            terminalreporter.write_line(visible(line))
        if self._keeps:
            terminalreporter.write_line(f"recorded in {self._folder}")

    def _crashes(self) -> list[str]:
        return [f"crash: the process ended within {test}" for test in self._crashed]


def _known(figures: Figures | None) -> dict[str, object]:
    return {} if figures is None else figures.to_json()


def summary(tests: Mapping[str, Figures], top: int) -> list[str]:
    """Returns the tests that take most of a memory, those first that ran out of it, and what is not known."""
    measured = {test: figures for test, figures in tests.items() if figures.calls}
    if not measured:
        lines = ["no test made a TTNN call on an open device"]
    else:
        shown = sorted(measured.items(), key=lambda pair: (not pair[1].ran_out, -pair[1].share, pair[0]))[:top]
        lines = [
            f"{len(shown)} of {len(measured)} tests with TTNN calls, first those that ran out, then by the share of a memory;"
        ]
        lines.append("bytes per core (L1, program buffers, headroom, L1_SMALL) or per bank (DRAM)")
        if any(figures.unknown_programs for _, figures in shown):
            lines.append("headroom: at most, where program buffers are not known")
        columns = ("L1", "program", "headroom", "DRAM", "L1_SMALL", "leak")
        lines.append(" ".join(f"{name:>13}" for name in ("fullest", *columns)) + "  test")
        for test, figures in shown:
            peaks = (figures.peaks.get(name) for name in ("l1", "program", "dram", "l1_small"))
            l1, program, dram, l1_small = (f"{size:,}" if size is not None else "-" for size in peaks)
            headroom = "-" if figures.headroom_bytes is None else f"{figures.headroom_bytes:,}"
            leak = f"{sum(figures.leaks.values()):,}" if figures.leaks else "-"
            values = ("ran out" if figures.ran_out else f"{figures.share:.1%}", l1, program, headroom, dram, l1_small, leak)
            lines.append(" ".join(f"{value:>13}" for value in values) + f"  {test}")
    return lines + _unknown(tests)


def _unknown(tests: Mapping[str, Figures]) -> list[str]:
    lines = []
    programs = sum(figures.unknown_programs for figures in tests.values())
    if programs:
        lines.append(f"program buffers of {programs:,} runs of programs are not known: TTNN did not report them")
    others = sum(figures.other_calls for figures in tests.values())
    if others:
        lines.append(f"{others:,} calls of other threads are not recorded")
    elsewhere = sum(figures.elsewhere for figures in tests.values())
    if elsewhere:
        lines.append(f"{elsewhere:,} allocations on another device or submesh are not recorded")
    reasons = [figures.unknown for figures in tests.values() if figures.unknown]
    if reasons:
        lines.append(f"not measured: {len(reasons)} tests, first: {reasons[0]}")
    wrong = [test for test, figures in tests.items() if figures.differences]
    if wrong:
        lines.append(f"a fault of this profiler: the allocator's own view differs in {len(wrong)} tests, first {wrong[0]}")
    return lines
