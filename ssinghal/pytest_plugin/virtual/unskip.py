"""Runs tests that are skipped for lack of memory: by a mark, or by a call of ``pytest.skip``."""

from __future__ import annotations

import sys
from typing import Any

import pytest
from _pytest.skipping import evaluate_skip_marks

from ssinghal.core.verdict import Status
from ssinghal.device.error_patterns import translate_error
from ssinghal.errors import visible
from ssinghal.pytest_plugin.virtual.skip_reasons import speaks_of_memory

UNSKIPPED = "tt_unskipped"  # property of a test's report: the reason for which it would be skipped


class Unskipper:
    """Keeps skips with such a reason from being effective, and notes the reason with the test."""

    def __init__(self, config: pytest.Config) -> None:
        self._reasons: dict[str, str] = {}  # of the tests whose marks were removed, by node id
        self._item: pytest.Item | None = None
        self._modules: dict[str, str] = {}  # that stay skipped, with their reasons
        original = pytest.skip
        pytest.skip = _SkipUnlessForMemory(original, self)  # type: ignore[assignment]
        config.add_cleanup(lambda: setattr(pytest, "skip", original))

    @pytest.hookimpl(trylast=True)
    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Removes the marks; other ones still skip a test."""
        marked = [item for item in session.items if any(map(_skips_for_memory, item.iter_markers()))]
        before = {item.nodeid: _reason(item) for item in marked}
        for node in {node for item in marked for node in item.listchain()}:
            node.own_markers[:] = [mark for mark in node.own_markers if not _skips_for_memory(mark)]
        for item in marked:
            reason = before[item.nodeid]
            if reason is not None and _reason(item) is None:
                self._reasons[item.nodeid] = reason

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        self._item = item
        if item.nodeid in self._reasons:
            self.note(self._reasons[item.nodeid])

    def pytest_runtest_teardown(self) -> None:
        self._item = None

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Takes the modules that skip themselves: what follows in them was not imported, so that they have no tests."""
        if report.skipped:
            reason = str(report.longrepr[-1]) if isinstance(report.longrepr, (tuple, list)) else str(report.longrepr)
            reason = reason.removeprefix("Skipped: ")
            if speaks_of_memory(reason):
                self._modules[report.nodeid] = reason

    @pytest.hookimpl(trylast=True)
    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self._modules:
            count = f"{len(self._modules):,} module{'s' if len(self._modules) > 1 else ''}"
            terminalreporter.write_line(
                f"{count} skipped by pytest.skip(…, allow_module_level=True) for lack of memory: not run"
            )
        for module, reason in self._modules.items():
            terminalreporter.write_line(visible(f"a module stays skipped for lack of memory: {reason}  {module}"))

    def note(self, reason: str) -> None:
        """Adds the reason to the report of the test that runs."""
        if self._item is not None:
            self._item.user_properties.append((UNSKIPPED, reason))


def _reason(item: pytest.Item) -> str | None:
    """Returns why marks skip a test, None if they do not."""
    try:
        skipped = evaluate_skip_marks(item)
    except pytest.fail.Exception:
        return None  # a condition that cannot be evaluated: the test's set-up will report it
    return None if skipped is None else skipped.reason


def _skips_for_memory(mark: pytest.Mark) -> bool:
    reason = mark.kwargs.get("reason", mark.args[0] if mark.name == "skip" and mark.args else "")
    return mark.name in ("skip", "skipif") and speaks_of_memory(str(reason))


class _SkipUnlessForMemory:
    """Stands in for ``pytest.skip``; a skip of a whole module stays."""

    def __init__(self, original: Any, unskipper: Unskipper) -> None:
        self._original, self._unskipper = original, unskipper
        self.Exception = original.Exception

    def __call__(self, reason: str = "", **kwargs: Any) -> None:
        __tracebackhide__ = True
        if kwargs.get("allow_module_level") or not speaks_of_memory(str(kwargs.get("msg", reason))):
            self._original(reason, **kwargs)
        self._unskipper.note(str(kwargs.get("msg", reason)))
        error = sys.exc_info()[1]
        if error is not None and translate_error(type(error).__name__, str(error)).status is Status.OOM:
            raise error  # the skip was the answer to it
