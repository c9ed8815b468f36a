"""The side of the plugin that writes: one record per selected case, from reports as they arrive. Controller only.

Every run of pytest imports this module where ssinghal is installed, so that it imports next to nothing.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NoReturn

import pytest

from ssinghal.errors import HarnessError, visible
from ssinghal.pytest_plugin.state import activate, active

if TYPE_CHECKING:
    from ssinghal.core.case_sets import Identity
    from ssinghal.core.verdict import Status
    from ssinghal.pytest_plugin.session import Harness
    from ssinghal.runs.summary import SummaryCounts
    from ssinghal.runs.writer import RunFolder

# Names of attributes on reports. They hold plain values, so that they cross from xdist's processes.
RECORD_ATTRIBUTE = "ssinghal_record"
START_ATTRIBUTE = "ssinghal_start"
STALE_PROPERTY = "stale known OOM"


class RecordCollector:
    """Collects records; with ``--oom-results`` each is on disk before the next test ends.

    A case that several tests select (a suite's and an OOM suite's) has one record. Cases selected but never reached
    (``-x``, Ctrl-C) get a ``not_run`` record at the end, so records and selected cases always agree in number.
    """

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._recorded: set[Identity] = set()
        self._counts: SummaryCounts | None = None  # of what is not written
        self._stale: list[str] = []
        self._ended: set[str] = set()
        self._running = self._has_begun = False
        self._folder: RunFolder | None = None
        self._lines: list[str] = []

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self) -> None:
        """Makes the run's folder before the first test, so that one that cannot be written stops the run there.

        A run without a case has none. With xdist it is made when the first process has opened a device: one that does not
        open stops the run, which leaves nothing.
        """
        harness = active(self._config)
        is_distributed = self._config.pluginmanager.hasplugin("dsession")
        self._running = not self._config.option.collectonly and (is_distributed or self._selected(harness) > 0)
        if harness is None or not self._running or is_distributed:
            return
        try:
            self._begin(harness)
            self._describe(**harness.start_json())
        except HarnessError as error:
            self._running = False
            raise pytest.UsageError(str(error)) from error

    def _begin(self, harness: Harness) -> None:
        """Makes the folder of the run, where one is wanted.

        Raises:
            HarnessError: It cannot be written.
        """
        if self._has_begun or harness.settings.get("results") is None:
            self._has_begun = True
            return
        from ssinghal.runs.writer import RunFolder, new_run

        info = new_run(self._config.rootpath, harness.settings.to_json(), self._selected(harness) or None)
        info = replace(info, shard=str(harness.settings.shard or ""))
        self._folder = RunFolder(harness.settings.get("results"), info)
        self._has_begun = True

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        start = getattr(report, START_ATTRIBUTE, None)
        if start is not None:
            self._learn(**start)
            delattr(report, START_ATTRIBUTE)  # pytest keeps all reports
        record = getattr(report, RECORD_ATTRIBUTE, None)
        if record is not None:
            self._append(record)
            delattr(report, RECORD_ATTRIBUTE)
        if report.when == "call" or not report.passed:
            self._ended.add(report.nodeid)  # not a test that Ctrl-C stopped after its setup
        if report.when == "call":
            self._stale += [str(value) for name, value in report.user_properties if name == STALE_PROPERTY]

    def _selected(self, harness: Harness | None) -> int:
        return len(set(harness.tests.values())) if harness is not None else 0

    def _learn(self, tests: dict[str, Identity], fault: str, **start: Any) -> None:
        """Takes what an xdist process selected (each selects the same) and opened, which its first report brings. ``fault``:
        why its device did not open."""
        harness = activate(self._config)
        harness.tests.update(tests)
        try:
            if fault and not self._has_begun:
                raise HarnessError(fault)
            self._begin(harness)
            self._describe(**start)
        except HarnessError as error:
            self._running = False
            self._stop(error)

    def _stop(self, why: HarnessError) -> NoReturn:
        self._folder = None
        pytest.exit(str(why), returncode=pytest.ExitCode.USAGE_ERROR)

    def _describe(self, device: dict[str, Any], answerers: list[str], selection: tuple[int, str]) -> None:
        """Adds to ``run.json`` what is known once tests are collected."""
        if self._folder is None:
            return
        from ssinghal.runs.parsing import parse_device

        self._folder.set_selection(*selection)
        if device:
            self._folder.set_device(parse_device(json.dumps(device)), *answerers)

    @pytest.hookimpl(optionalhook=True)
    def pytest_handlecrashitem(self, crashitem: str) -> None:
        """Records that an xdist process died under a test: not the case's fault, as device calls run in other processes."""
        from ssinghal.core.verdict import Status

        harness = active(self._config)
        if harness is not None and crashitem in harness.tests:
            self._append_without_probe(harness, crashitem, Status.CRASH, "the pytest process that ran its test ended")

    def _append(self, record: dict[str, Any], *, reached: bool = True) -> None:
        key = (record["op"], record["key"])
        if key in self._recorded:
            return
        from ssinghal.tracker.interrupts import HeldSignals

        try:
            with HeldSignals().held():  # Ctrl-C comes before a record is written, or once it is known that it is
                self._write(record, reached=reached)
                self._recorded.add(key)
        except HarnessError as error:
            self._stop(error)

    def _write(self, record: dict[str, Any], *, reached: bool) -> None:
        if self._folder is None:
            self._count(record)
        else:
            (self._folder.append if reached else self._folder.append_unreached)(record)

    def _count(self, record: dict[str, Any]) -> None:
        from ssinghal.runs.summary import SummaryCounts

        self._counts = self._counts or SummaryCounts()
        self._counts.add(record)

    def _append_without_probe(
        self, harness: Harness, nodeid: str, status: Status, message: str, *, reached: bool = True
    ) -> None:
        case = harness.cases[harness.tests[nodeid]]
        self._append(harness.record_without_probe(case, nodeid, status, message), reached=reached)

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        harness = active(self._config)
        if harness is None or not self._running:
            return
        from ssinghal.core.run_info import RunInfo
        from ssinghal.core.verdict import Status

        selected = self._selected(harness)
        ended = {harness.tests[nodeid] for nodeid in self._ended if nodeid in harness.tests}
        left = [(nodeid, key) for nodeid, key in harness.tests.items() if key not in self._recorded]
        for nodeid, key in left:
            message = f"{'its test' if key in ended else 'the run'} ended before it was run"
            self._append_without_probe(harness, nodeid, Status.NOT_RUN, message, reached=key in ended)
        if self._folder is None:
            interruption = RunInfo(selected=selected, unreached=len({key for _, key in left} - ended)).interruption
            lines = self._counts.summary().lines() if self._counts is not None else []
            self._lines = [*([interruption] if interruption else []), *lines]
            return
        notes = [f"{STALE_PROPERTY}: {line}" for line in self._stale]
        try:
            self._lines = self._folder.finish(selected, notes)
            self._lines.append(f"records: {self._folder.path / 'records.jsonl'}")
        except HarnessError as error:
            self._lines = [str(error)]
            session.exitstatus = pytest.ExitCode.USAGE_ERROR

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self._stale:
            terminalreporter.section("stale known OOMs", yellow=True)
            for line in self._stale:
                terminalreporter.write_line(visible(line))
        if self._lines:
            terminalreporter.section("memory verdicts")
            for line in self._lines:
                terminalreporter.write_line(visible(line))
