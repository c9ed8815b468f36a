"""The side of the plugin that writes: one record per selected case, from reports as they arrive. Controller only."""

from __future__ import annotations

from typing import Any

import pytest

from ssinghal.core.record import Status
from ssinghal.errors import HarnessError
from ssinghal.pytest_plugin.session import Harness, Identity
from ssinghal.runs.summary import Summary
from ssinghal.runs.writer import RunFolder, new_run

# Names of what travels on reports: attributes hold plain values, so that they cross from xdist's processes.
RECORD_ATTRIBUTE = "ssinghal_record"
START_ATTRIBUTE = "ssinghal_start"
STALE_PROPERTY = "stale known OOM"


class RecordCollector:
    """Collects records; with ``--oom-results`` each is on disk before the next test ends.

    A case that several tests select (a suite's and an OOM suite's) has one record. Cases selected but never reached
    (``-x``, Ctrl-C) get a ``not_run`` record at the end, so records and selected cases always agree in number.
    """

    def __init__(self, config: pytest.Config, harness: Harness) -> None:
        self._config = config
        self._harness = harness
        self._records: dict[Identity, dict[str, Any]] = {}
        self._stale: list[str] = []
        self._running = False
        self._folder: RunFolder | None = None
        self._lines: list[str] = []

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self) -> None:
        """Opens the run's folder before the first test, so that one that cannot be written stops the run there. A run without a
        case has none; with xdist, what is selected is known later."""
        distributed = self._config.pluginmanager.hasplugin("dsession")
        self._running = not self._config.option.collectonly and (distributed or self._selected() > 0)
        settings = self._harness.settings
        if settings.get("results") is None or not self._running:
            return
        info = new_run(self._config.rootpath, settings.given(), self._selected() or None, self._harness.device_facts())
        try:
            self._folder = RunFolder(settings.get("results"), info)
        except HarnessError as error:
            self._running = False
            raise pytest.UsageError(str(error)) from error

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        start = getattr(report, START_ATTRIBUTE, None)
        if start is not None:
            self._learn(**start)
        record = getattr(report, RECORD_ATTRIBUTE, None)
        if record is not None:
            self._append(record)
        if report.when == "call":
            self._stale += [str(value) for name, value in report.user_properties if name == STALE_PROPERTY]

    def _selected(self) -> int:
        return len(set(self._harness.tests.values()))

    def _learn(self, tests: dict[str, Identity], device: dict[str, Any]) -> None:
        """What an xdist process selected (each selects the same) and opened; it says so with its first report."""
        self._harness.tests.update(tests)
        if self._folder is not None and device:
            self._folder.set_device(device)

    @pytest.hookimpl(optionalhook=True)
    def pytest_handlecrashitem(self, crashitem: str) -> None:
        """An xdist process died under a test. Device calls run in processes of their own, so this is not a case's fault."""
        if crashitem in self._harness.tests:
            self._append_without_probe(crashitem, Status.CRASH, "the pytest process that ran its test ended")

    def _append(self, record: dict[str, Any]) -> None:
        key = (record["op"], record["key"])
        if key in self._records:
            return
        self._records[key] = record
        if self._folder is None:
            return
        try:
            self._folder.append(record)
        except HarnessError as error:
            self._folder = None
            pytest.exit(str(error), returncode=pytest.ExitCode.USAGE_ERROR)

    def _append_without_probe(self, nodeid: str, status: Status, message: str) -> None:
        case = self._harness.cases[self._harness.tests[nodeid]]
        self._append(self._harness.record_without_probe(case, nodeid, status, message))

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if not self._running:
            return
        for nodeid in [nodeid for nodeid, key in self._harness.tests.items() if key not in self._records]:
            self._append_without_probe(nodeid, Status.NOT_RUN, "the run ended, or its test failed, before it was run")
        if self._folder is None:
            self._lines = Summary.of(list(self._records.values())).lines() if self._records else []
            return
        notes = [f"{STALE_PROPERTY}: {line}" for line in self._stale]
        try:
            self._lines = self._folder.finish(self._selected(), notes)
            self._lines.append(f"records: {self._folder.path / 'records.jsonl'}")
        except HarnessError as error:
            self._lines = [str(error)]
            session.exitstatus = pytest.ExitCode.USAGE_ERROR

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self._stale:
            terminalreporter.section("stale known OOMs", yellow=True)
            for line in self._stale:
                terminalreporter.write_line(line)
        if self._lines:
            terminalreporter.section("memory verdicts")
            for line in self._lines:
                terminalreporter.write_line(line)
