"""Runs tests with the mark ``fits`` on virtual boards: a process opens one board alone, so that each has its own pytest."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from ssinghal.core.device_facts import DeviceMode
from ssinghal.device.modes import choose_device
from ssinghal.device.virtual import apply_environment, environment_for
from ssinghal.device.virtual_cache import scratch_folder
from ssinghal.errors import LINE_LIMIT, HarnessError, cut
from ssinghal.pytest_plugin.memory.journal import Ended, Journal, read_journals
from ssinghal.pytest_plugin.memory.options import MEMORY, OUTPUT, SHARED
from ssinghal.pytest_plugin.virtual.options import VIRTUAL
from ssinghal.tracker import FOLDER_VARIABLE

CHILD = "SSINGHAL_TT_FITS"  # set in the processes below: there the mark has no effect
_POLL_S = 0.1
_FITS = {"passed", "values not checked", "ended at a value", "xfailed"}
_NOT_INHERITED = (
    SHARED,
    FOLDER_VARIABLE,
    "PYTEST_ADDOPTS",
    "PYTEST_CURRENT_TEST",
    "PYTEST_XDIST_WORKER",
    "PYTEST_XDIST_TESTRUNUID",
)


class BoardRuns:
    """One pytest per board runs all tests that have the mark for it, when the first of them is due. Whatever ends its process
    costs one test: the rest runs in another one. xdist's processes share the results.
    """

    def __init__(self, config: pytest.Config, folder: Path, timeout_s: float) -> None:
        self._config, self._folder, self._timeout_s = config, folder / "fits", timeout_s
        self._ended: dict[str, dict[str, Ended]] = {}  # per board and test

    def on(self, board: str, test: str, tests: Callable[[], Mapping[str, str]]) -> Ended:
        """Returns how a test ended on a board. ``tests``: paths and names of all tests for this board, by node id."""
        if test not in self._ended.get(board, {}):
            with self._alone(board):
                self._ended[board] = self._run(board, tests())
        return self._ended[board].get(test, Ended(test, "error", "its process did not run it"))

    @contextmanager
    def _alone(self, board: str) -> Iterator[None]:
        """Others that need the board wait here, and find the results."""
        (self._folder / board).mkdir(parents=True, exist_ok=True)
        with (self._folder / board / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def _run(self, board: str, tests: Mapping[str, str]) -> dict[str, Ended]:
        while True:
            ended = self._results(board)
            due = [test for test in tests if test not in ended]
            if not due:
                return ended
            folder = self._folder / board / f"{len(self._folders(board)):04}"
            folder.mkdir()
            output = self._start(board, folder, [tests[test] for test in due])
            if not self._results(board).keys() - ended.keys():
                return {**ended, **{test: Ended(test, "error", output) for test in due}}

    def _folders(self, board: str) -> list[Path]:
        return sorted(path for path in (self._folder / board).iterdir() if path.is_dir())

    def _results(self, board: str) -> dict[str, Ended]:
        results: dict[str, Ended] = {}
        for folder in self._folders(board):
            for ended in read_journals(folder / "records"):
                if ended.outcome != "crash" or ended.test not in results:  # one that was killed for its time is both
                    results[ended.test] = ended
        return results

    def _start(self, board: str, folder: Path, names: Sequence[str]) -> str:
        """Runs tests in a process until it ends, or one test takes too long. Returns the end of its output."""
        (folder / "names").write_text("".join(f"{name}\n" for name in names))
        (folder / "records").mkdir()
        with scratch_folder() as scratch, (folder / "output").open("wb") as output:
            environ = {name: value for name, value in os.environ.items() if name not in _NOT_INHERITED}
            apply_environment(environment_for(choose_device(DeviceMode.VIRTUAL, board), scratch, environ), environ)
            environ[CHILD] = board
            child = subprocess.Popen(
                self._command(board, folder),
                cwd=self._config.invocation_params.dir,
                env=environ,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            try:
                self._wait(child, folder / "records")
            finally:
                child.kill()
                child.wait()
        lines = (folder / "output").read_text(errors="replace").split("\n")
        return cut(next((line for line in reversed(lines) if line.strip()), ""), LINE_LIMIT)

    def _wait(self, child: subprocess.Popen[bytes], records: Path) -> None:
        size, since = 0, time.monotonic()
        while child.poll() is None:
            time.sleep(_POLL_S)
            written = sum(path.stat().st_size for path in records.glob("tests-*.jsonl"))
            if written != size:
                size, since = written, time.monotonic()
            elif time.monotonic() - since > self._timeout_s:
                child.kill()
                child.wait()
                for ended in read_journals(records):
                    if ended.outcome == "crash":
                        with Journal(records) as journal:
                            journal.end(ended.test, "timeout", f"more than {self._timeout_s:g} s", None)
                return

    def _command(self, board: str, folder: Path) -> list[str]:
        """The options of this run that decide what a test is; none of those that select, distribute or report."""
        config = self._config
        command = [sys.executable, "-m", "pytest", f"--rootdir={config.rootpath}", f"@{folder / 'names'}"]
        command += [f"{VIRTUAL.flag}={board}", MEMORY.flag, f"{OUTPUT.flag}={folder / 'records'}"]
        command += [f"--import-mode={config.getoption('importmode')}", "-p", "no:cacheprovider", "-o", "addopts="]
        command += [f"-c{config.inipath}"] if config.inipath is not None else []
        command += [word for name in config.getoption("plugins") for word in ("-p", name) if name != "no:terminal"]
        command += [word for value in config.getoption("override_ini") or () for word in ("-o", value)]
        return command


def run_on_boards(
    item: pytest.Item, boards: Sequence[str], runs: BoardRuns, tests_of: Callable[[str], Mapping[str, str]]
) -> None:
    """Takes the place of a test: passes if the test does on each board.

    Raises:
        Failed: it does not; one line per board.
        Skipped: it was skipped on each board.
        XFailed: its mark expects it to fail, and it does on some board.
    """
    __tracebackhide__ = True
    ended = {}
    for board in boards:
        try:
            ended[board] = runs.on(board, item.nodeid, lambda board=board: tests_of(board))  # type: ignore[misc]
        except HarnessError as error:
            ended[board] = Ended(item.nodeid, "error", str(error))
        item.user_properties.append((f"tt_fits_{board}", ended[board].outcome))
    lines = [f"{board}: {one.outcome}{f': {one.message}' if one.message else ''}" for board, one in ended.items()]
    outcomes = {one.outcome for one in ended.values()}
    if outcomes == {"skipped"}:
        pytest.skip("; ".join(lines))
    if "ended at a value" in outcomes:  # as far as it ran, it fits
        warnings.warn(pytest.PytestWarning("\n".join(["fits: not checked to the end of the test", *lines])), stacklevel=2)
    if "xfailed" in outcomes and outcomes <= _FITS and item.get_closest_marker("xfail") is not None:
        pytest.xfail("; ".join(lines))
    if not outcomes <= _FITS:
        pytest.fail("\n".join(["fits: not on each board", *lines]), pytrace=False)


def with_marks_of_boards(
    item: pytest.Item, report: pytest.TestReport, excinfo: pytest.ExceptionInfo[BaseException] | None
) -> None:
    """Undoes what pytest makes of the mark ``xfail`` where boards were summed up: it has had its effect on each of them."""
    if excinfo is not None and isinstance(excinfo.value, (pytest.skip.Exception, pytest.xfail.Exception)):
        return
    if hasattr(report, "wasxfail"):
        del report.wasxfail
    report.outcome = "passed" if excinfo is None else "failed"
    report.longrepr = None if excinfo is None else item.repr_failure(excinfo)
