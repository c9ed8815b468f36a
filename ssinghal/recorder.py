"""The side of the plugin that writes: one record per selected case, from reports as they arrive. Controller only."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from ssinghal.errors import HarnessError
from ssinghal.records import SCHEMA_VERSION, RunInfo, Status
from ssinghal.results import RunFolder, commit_of, new_run_id, now, package_versions
from ssinghal.text import aligned, summary_rows


class Recorder:
    """Collects records; with ``--oom-results`` each is on disk before the next test ends.

    A case that several tests select (a suite's and an OOM suite's) has one record. Cases selected but never reached
    (``-x``, Ctrl-C) get a ``not_run`` record at the end, so records and selected cases always agree in number.
    """

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._records: dict[tuple[str, str], dict[str, Any]] = {}
        self._selected: dict[tuple[str, str], dict[str, Any]] = {}
        self._folder: RunFolder | None = None
        self._lines: list[str] = []

    @property
    def _harness(self) -> Any:
        from ssinghal.plugin import HARNESS

        return self._config.stash[HARNESS]

    def _open(self, device: dict[str, Any]) -> RunFolder | None:
        settings = self._harness.settings
        parent = settings.get("results")
        if self._folder is None and parent is not None and not self._config.option.collectonly:
            info = RunInfo(
                new_run_id(),
                now(),
                " ".join(sys.argv),
                commit_of(self._config.rootpath),
                device,
                package_versions(),
                settings.given(),
            )
            self._folder = RunFolder(Path(parent), info)
        return self._folder

    def _append(self, record: dict[str, Any], device: dict[str, Any]) -> None:
        key = (record["op"], record["key"])
        if key in self._records:
            return
        self._records[key] = record
        folder = self._open(device)
        if folder is not None:
            folder.append(record)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        record = getattr(report, "ssinghal_record", None)
        if record is not None:
            self._append(record, getattr(report, "ssinghal_device", {}))

    @pytest.hookimpl(optionalhook=True)
    def pytest_handlecrashitem(self, crashitem: str) -> None:
        """An xdist process died under a test. Device calls run in processes of their own, so this is not a case's fault."""
        record = {
            "schema": SCHEMA_VERSION, "op": "", "key": crashitem, "id": crashitem, "status": Status.CRASH.value,
            "stage": "test process", "message": "the pytest process that ran this test ended", "test": crashitem,
        }  # fmt: skip
        self._append(record, {})

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """What an xdist process had selected; each one selects the same."""
        for record in getattr(node, "workeroutput", {}).get("ssinghal_selected", ()):
            self._selected[record["op"], record["key"]] = record

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if self._config.option.collectonly:
            return
        harness = self._harness
        selected = {**self._selected, **{k: harness.not_run(c) for k, c in harness.selected.items() if k not in self._records}}
        for record in [r for k, r in selected.items() if k not in self._records]:
            self._append(record, harness.device_facts())
        try:
            folder = self._open(harness.device_facts())
            self._lines = folder.finish(len(self._records)) if folder else []
        except HarnessError as error:
            self._lines = [str(error)]
            session.exitstatus = pytest.ExitCode.USAGE_ERROR

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        stale = self._harness.stale
        if stale:
            terminalreporter.section("stale known OOMs", yellow=True)
            for line in stale:
                terminalreporter.write_line(line)
        lines = self._lines
        if not lines and self._records:
            lines = aligned(summary_rows(list(self._records.values())))
        if lines:
            terminalreporter.section("memory verdicts")
            for line in lines:
                terminalreporter.write_line(line)
            if self._folder is not None:
                terminalreporter.write_line(f"records: {self._folder.path / 'records.jsonl'}")
