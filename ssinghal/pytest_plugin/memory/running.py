"""The part of the plugin in the process that runs the tests: it measures each, and applies its marks."""

from __future__ import annotations

import os
import traceback
from collections.abc import Generator
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from ssinghal.errors import InvalidCase
from ssinghal.pytest_plugin.memory.baseline import Baseline
from ssinghal.pytest_plugin.memory.boards import CHILD, BoardRuns, run_on_boards, with_marks_of_boards
from ssinghal.pytest_plugin.memory.figures import Figures
from ssinghal.pytest_plugin.memory.journal import Journal
from ssinghal.pytest_plugin.memory.judging import excesses, fail, judge_expected
from ssinghal.pytest_plugin.memory.marks import Marks, marks_of
from ssinghal.pytest_plugin.memory.recording import Owner, Recording
from ssinghal.tracker.inject.sitecustomize import TtnnFinder

# Names of attributes on reports. They hold plain values, so that they cross from xdist's processes.
FIGURES_ATTRIBUTE = "ssinghal_memory"
PASSED_ATTRIBUTE = "ssinghal_memory_passed"  # whether the test ran to its end, values that are not checked aside
MARKS = pytest.StashKey[Marks]()
FAULT = pytest.StashKey[str]()  # of a mark
# Classes of --tt-virtual: the test did all that it does to memory, or it ended before.
UNCHECKED = ("values not checked", "ended at a value")


class Runner:
    """Measures tests and judges them by their marks and, where there is one, by the baseline."""

    def __init__(self, config: pytest.Config, finder: TtnnFinder, baseline: Baseline | None, timeout_s: float) -> None:
        self._is_debugged = bool(config.getoption("usepdb"))
        self._recording = Recording(finder)
        self._folder = Path(finder.folder)
        self._journal: Journal | None = None
        self._baseline = baseline
        self._boards = None if CHILD in os.environ else BoardRuns(config, self._folder, timeout_s)
        self._outcome, self._message = "passed", ""
        self._figures: Figures | None = None

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, Any, Any]:
        if self._journal is None:
            self._journal = Journal(self._folder)
        self._outcome, self._message, self._figures = "passed", "", None
        self._journal.start(item.nodeid)
        self._prepare(item)
        result = yield
        self._journal.end(item.nodeid, self._outcome, self._message, self._figures)
        return result

    def _prepare(self, item: pytest.Item) -> None:
        """Reads the marks. A test that runs on boards of its own has neither fixtures nor a body here."""
        try:
            marks = marks_of(item)
        except InvalidCase as error:
            item.stash[FAULT] = str(error)
            return
        if marks.boards and self._boards is not None:
            run = partial(run_on_boards, item, marks.boards, self._boards, partial(_tests_on, item.session))
            item.setup, item.runtest = _nothing, run  # type: ignore[method-assign]
            marks = Marks(boards=marks.boards)  # the others have their effect on the boards
        item.stash[MARKS] = marks

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        if FAULT in item.stash:
            pytest.fail(item.stash[FAULT], pytrace=False)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_fixture_setup(
        self, fixturedef: pytest.FixtureDef[Any], request: pytest.FixtureRequest
    ) -> Generator[None, Any, Any]:
        with self._recording.made_by(fixturedef):
            return (yield)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_call(self) -> Generator[None, None, None]:
        self._recording.begin()
        yield

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Is not the outermost: what classes outcomes sees the test as it ended by its marks."""
        report = yield
        marks = item.stash.get(MARKS, Marks())
        error = call.excinfo.value if call.excinfo is not None else None
        if marks.expected is not None and report.when != "teardown":
            judge_expected(item, report, marks.expected, error)
        if report.when == "call" and marks.boards and self._boards is not None:
            with_marks_of_boards(item, report, call.excinfo)
        if report.when == "call":
            if error is not None and not self._is_debugged:
                release_frames(error)
            self._measure(item, report, marks)
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Takes the outcome of a test, after all plugins."""
        if report.when == "call" or not report.passed:
            properties = dict(report.user_properties)
            outcome = "xfailed" if hasattr(report, "wasxfail") else report.outcome
            unchecked = properties.get("tt_outcome")
            self._outcome = unchecked if unchecked in UNCHECKED else outcome
            self._message = "" if report.passed else str(properties.get("tt_reason") or _last_line(report))

    def _measure(self, item: pytest.Item, report: pytest.TestReport, marks: Marks) -> None:
        figures = self._figures = self._recording.end(_owners(item), item.nodeid)
        properties = figures.properties()
        item.user_properties += properties
        report.user_properties += properties
        setattr(report, FIGURES_ATTRIBUTE, figures.to_json())
        lines = self._judged(item, marks, figures) if report.passed else []
        if lines:
            fail(item, report, lines)
        setattr(report, PASSED_ATTRIBUTE, report.passed)

    def _judged(self, item: pytest.Item, marks: Marks, figures: Figures) -> list[str]:
        lines = excesses(marks, figures)
        if self._baseline is not None:
            lines += self._baseline.growth(item.nodeid, figures)
        return lines


def _tests_on(session: pytest.Session, board: str) -> dict[str, str]:
    """Returns the tests that are to run on a board, by node id: as pytest takes them on its command line."""
    tests = {}
    for item in session.items:
        try:
            if board in marks_of(item).boards:
                tests[item.nodeid] = f"{item.path}::{item.nodeid.partition('::')[2]}"
        except InvalidCase:
            continue
    return tests


def _nothing() -> None:
    """The setup of a test that runs elsewhere."""


def _owners(item: pytest.Item) -> set[Owner]:
    """Returns whose buffers are a test's: its own, those of its fixtures, and those that no test made."""
    fixtures = item._fixtureinfo.name2fixturedefs.values() if isinstance(item, pytest.Function) else ()
    return {"", item.nodeid, *(fixture for versions in fixtures for fixture in versions)}


def release_frames(error: BaseException) -> None:
    """Frees what the frames of an exception hold. Its report is made; pytest keeps it, and with it every tensor of the test,
    until another test fails."""
    seen: set[int] = set()
    pending: list[BaseException | None] = [error]
    while pending:
        current = pending.pop()
        if current is None or id(current) in seen:
            continue
        seen.add(id(current))
        for frame, _ in traceback.walk_tb(current.__traceback__):
            _clear(frame)
        pending += [current.__cause__, current.__context__]


def _clear(frame: FrameType) -> None:
    try:
        frame.clear()
    except RuntimeError:  # it is still running: one of pytest's
        return
    frame.f_locals  # noqa: B018 (up to Python 3.12 the copy that pytest's report made of them is emptied only when it is read)


def _last_line(report: pytest.TestReport) -> str:
    crash = getattr(report.longrepr, "reprcrash", None)
    text = crash.message if crash is not None else report.longreprtext
    return next((line for line in text.splitlines() if line.strip()), "").removeprefix("Failed: ")
