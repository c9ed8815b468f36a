"""Gives each test its class: as a property of its report, and so in JUnit files, and counted at the end of the run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator
from dataclasses import replace
from time import monotonic
from typing import Any

import pytest
from _pytest.junitxml import xml_key

from ssinghal.errors import visible
from ssinghal.pytest_plugin.virtual.outcome import Judgement, Outcome, judge
from ssinghal.pytest_plugin.virtual.unskip import UNSKIPPED
from ssinghal.pytest_plugin.virtual.values import READ_BACKS

OUTCOME, REASON, RESOURCE, MISSING = "tt_outcome", "tt_reason", "tt_resource", "tt_missing_bytes"
_LISTED = (
    Outcome.MEMORY,
    Outcome.HOST_MEMORY,
    Outcome.REFUSED,
    Outcome.API_DRIFT,
    Outcome.CRASH,
    Outcome.TIMEOUT,
    Outcome.ENDED,
)
_UNCHECKED = {Outcome.VALUES: ("v", "VALUES"), Outcome.ENDED: ("v", "ENDED")}  # letter and word of a test's status
_STRICT_XPASS = "[XPASS(strict)]"  # how pytest's report of a strict xfail that passes begins


class OutcomeReporter:
    """Where tests run, it adds to reports; where reports arrive, it counts. Without xdist, both are one process.

    ``limit_s``: of a test, after which a process that ends did so for its time.
    """

    def __init__(self, config: pytest.Config, limit_s: float | None) -> None:
        self._config, self._limit_s = config, limit_s
        self._started: dict[str, float] = {}
        self._properties: dict[str, dict[str, Any]] = {}
        self._not_collected: dict[str, str] = {}  # module -> its class

    # Where tests run ----------------------------------------------------------------------------------------------------------

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Is the outermost of all plugins: each of them judges the test as it ended."""
        report = yield
        judgement = self._judged(item, call, report)
        if judgement is not None:
            if judgement.outcome in _UNCHECKED:
                _leave_unchecked(item, report, judgement)
            _set_properties(item, report, judgement)
        return report

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_make_collect_report(self) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
        """Gives a module that cannot be imported the class of its error."""
        report = yield
        call = getattr(report, "call", None)
        if report.failed and call is not None and call.excinfo is not None:
            setattr(report, OUTCOME, judge(call.excinfo.value, None, self._config.rootpath).outcome.value)
        return report

    def _judged(self, item: pytest.Item, call: pytest.CallInfo[None], report: pytest.TestReport) -> Judgement | None:
        """Returns the class of a test that ended in this phase, None for one that goes on."""
        read_backs = self._config.stash.get(READ_BACKS, None)
        if call.excinfo is not None and (call.when != "teardown" or report.failed):
            judgement = judge(call.excinfo.value, read_backs, self._config.rootpath)
            if judgement.outcome is Outcome.FAILED and report.skipped and hasattr(report, "wasxfail"):
                return replace(judgement, outcome=Outcome.XFAILED)
            return judgement
        if call.when != "call":
            return None
        if report.failed and not str(report.longrepr).startswith(_STRICT_XPASS):
            return Judgement(Outcome.FAILED)  # another plugin's reason
        if read_backs is not None and read_backs.is_used:
            return Judgement(Outcome.VALUES)
        return Judgement(Outcome.PASSED if report.passed else Outcome.FAILED)

    # Where reports arrive -----------------------------------------------------------------------------------------------------

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self._started[nodeid] = monotonic()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        properties = dict(report.user_properties)
        if OUTCOME in properties:
            self._properties[report.nodeid] = properties

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        outcome = getattr(report, OUTCOME, None)
        if outcome is not None:
            self._not_collected[report.nodeid] = outcome

    @pytest.hookimpl(optionalhook=True)
    def pytest_handlecrashitem(self, crashitem: str, report: pytest.TestReport) -> None:
        """Takes the class of a test whose xdist process died."""
        took_s = monotonic() - self._started.get(crashitem, monotonic())
        exceeded = self._limit_s is not None and took_s >= self._limit_s
        outcome = Outcome.TIMEOUT if exceeded else Outcome.CRASH
        report.user_properties.append((OUTCOME, outcome.value))
        junit = self._config.stash.get(xml_key, None)
        if junit is not None:  # which takes properties from reports of a teardown alone
            junit.node_reporter(report).add_property(OUTCOME, outcome.value)

    @pytest.hookimpl(tryfirst=True)
    def pytest_report_teststatus(self, report: pytest.CollectReport | pytest.TestReport) -> Any:
        outcome = dict(report.user_properties).get(OUTCOME)
        for unchecked, (letter, word) in _UNCHECKED.items():
            if report.when == "call" and outcome == unchecked.value and report.skipped:
                return outcome, letter, (word, {"yellow": True})
        return None

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if not self._properties and not self._not_collected:
            return
        counts = Counter(Outcome(properties[OUTCOME]) for properties in self._properties.values())
        terminalreporter.section("outcomes of TTNN tests")
        if counts:
            terminalreporter.write_line(", ".join(f"{counts[outcome]:,} {outcome}" for outcome in Outcome if counts[outcome]))
        for module, why in self._not_collected.items():
            terminalreporter.write_line(visible(f"not collected, {why}  {module}"))
        for outcome in _LISTED:
            for nodeid, properties in self._properties.items():
                if properties[OUTCOME] == outcome.value:
                    reason = f": {properties[REASON]}" if properties.get(REASON) else ""
                    terminalreporter.write_line(visible(f"{outcome}  {nodeid}{reason}"))
        unskipped = {nodeid: some for nodeid, some in self._properties.items() if UNSKIPPED in some}
        if unskipped:
            terminalreporter.section("tests skipped for lack of memory, run nevertheless")
            for nodeid, properties in unskipped.items():
                terminalreporter.write_line(visible(f"{_fits_now(properties)}  {nodeid} (skipped: {properties[UNSKIPPED]})"))


def _fits_now(properties: dict[str, Any]) -> str:
    """Returns whether a test fits, as far as it ran."""
    outcome = Outcome(properties[OUTCOME])
    if outcome in (Outcome.PASSED, Outcome.VALUES):
        return "fits now"
    return f"{'still out of memory' if outcome is Outcome.MEMORY else f'unknown, {outcome}'}: {properties.get(REASON, '')}"


def _set_properties(item: pytest.Item, report: pytest.TestReport, judgement: Judgement) -> None:
    """Sets the properties of a test that ended, in place of those that an earlier phase gave it."""
    facts: dict[str, Any] = {OUTCOME: judgement.outcome.value, REASON: judgement.text}
    if judgement.verdict is not None:
        facts[RESOURCE] = judgement.verdict.resource and judgement.verdict.resource.value
        facts[MISSING] = judgement.verdict.shortfall_bytes
    for properties in (item.user_properties, report.user_properties):
        properties[:] = [(name, value) for name, value in properties if name not in (OUTCOME, REASON, RESOURCE, MISSING)]
        properties += [(name, value) for name, value in facts.items() if value not in (None, "")]


def _leave_unchecked(item: pytest.Item, report: pytest.TestReport, judgement: Judgement) -> None:
    """Makes a report one of a test whose values were not checked, whatever it expected of them."""
    path, line, _ = item.location
    report.outcome = "skipped"
    report.longrepr = (path, (line or 0) + 1, f"Skipped: {judgement.text or judgement.outcome}")
    if hasattr(report, "wasxfail"):
        del report.wasxfail
