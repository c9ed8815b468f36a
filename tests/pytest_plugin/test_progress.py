"""``--oom-progress``: one line instead of a letter for each test, and the same results."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.processes import Suite, oom_module

LINE = re.compile(r"(\d+) of (\d+) tests \((\d+) %\), about \d+ (?:s|min) left: (.*)")
SHAPES = [{"shape": [1, size, 32]} for size in range(1, 31)]
ARGUMENTS = ("-k", "memory_estimation", "-o", "console_output_style=classic")


@pytest.fixture
def suite(tmp_path: Path) -> Suite:
    failing = "\n\ndef test_other():\n    assert False\n"
    return Suite(tmp_path, {"add": SHAPES}, {"test_oom_add.py": oom_module("add"), "test_memory_estimation_other.py": failing})


@pytest.mark.parametrize("workers", [(), ("-n", "2")], ids=["one process", "xdist"])
def test_lines_count_tests_and_outcomes(suite: Suite, workers: tuple[str, ...]) -> None:
    code, output = suite.run(*ARGUMENTS, *workers, "--oom-progress")
    lines = [(*(int(found[n]) for n in (1, 2, 3)), found[4]) for found in LINE.finditer(output)]
    assert code == 1
    tenths = [(done, 31, 100 * done // 31) for done in (4, 7, 10, 13, 16, 19, 22, 25, 28, 31)]
    assert [line[:3] for line in lines if line[:3] in tenths] == tenths  # on a busy machine there are those of every 30 s, too
    assert [line[0] for line in lines] == sorted({line[0] for line in lines})
    assert lines[-1][3] == "30 skipped, 1 failed"
    assert "1 failed, 30 skipped" in output
    assert not re.search(r"^\.+|\.py [.F]", output, re.MULTILINE)


@pytest.mark.parametrize("verbosity", ["-v", "-q"])
def test_other_verbosities_choose_their_own_form(suite: Suite, verbosity: str) -> None:
    _, output = suite.run(*ARGUMENTS, "--oom-progress", verbosity)
    assert not LINE.search(output)


def test_a_terminal_has_one_line_that_is_redrawn(suite: Suite) -> None:
    controller, terminal = pty.openpty()
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *ARGUMENTS, "--oom-progress"]
    command += ["--oom-catalog", str(suite.catalog)]
    environ = {**os.environ, "TERM": "xterm", "COLUMNS": "120"}
    with subprocess.Popen(command, cwd=suite.folder, stdout=terminal, stderr=terminal, env=environ) as process:
        os.close(terminal)
        output = b""
        while True:
            try:
                chunk = os.read(controller, 65536)
            except OSError:  # the terminal was closed
                break
            if not chunk:
                break
            output += chunk
        assert process.wait(60) == 1
    os.close(controller)
    shown = [part for part in output.decode().split("\r") if LINE.match(part)]
    assert len(shown) >= 10
    assert shown[-1].startswith("31 of 31 tests (100 %), about 0 s left: 30 skipped, 1 failed")
    assert all("\n" not in part for part in shown[:-1])
