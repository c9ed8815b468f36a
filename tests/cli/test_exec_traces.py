"""Programs that crash the virtual device under ``ssinghal exec``: where, and traces that are left out."""

from __future__ import annotations

import signal
from importlib.metadata import version

import pytest

from tests.cli.test_exec_report import OPENED, executed, report

pytestmark = pytest.mark.virtual_device

TRACED = """
x = tensor(1)
ttnn.relu(x)
trace = ttnn.begin_trace_capture(device, cq_id=0)
y = ttnn.relu(x)
ttnn.end_trace_capture(device, trace, cq_id=0)
ttnn.execute_trace(device, trace, cq_id=0, blocking=True)
ttnn.release_trace(device, trace)
print("ran", held())
"""
CRASHED = f"native code ended the program by SIGSEGV of ttnn {version('ttnn')}: no memory verdict"
SEGMENTATION_FAULT = 128 + signal.SIGSEGV


def test_a_captured_trace(tmp_path):
    path = tmp_path / "program.py"
    done = executed(tmp_path, OPENED + TRACED)
    assert done.returncode == SEGMENTATION_FAULT
    lines = report(done.stderr)
    assert lines[:2] == [
        CRASHED,
        f"  in ttnn.relu, {path}:12 (<module>): y = ttnn.relu(x)",
    ]
    assert lines[2].startswith(f"  ttnn.begin_trace_capture of {path}:11 (<module>) began a trace")
    assert "--no-trace" in lines[-1]
    without = executed(tmp_path, OPENED + TRACED, "--no-trace")
    assert (without.returncode, without.stdout) == (0, f"ran {2 * 2048}\n")


def test_memory_that_runs_out_in_a_trace_that_is_left_out(tmp_path):
    source = OPENED + TRACED.replace("y = ttnn.relu(x)", "y = tensor(1000)")
    done = executed(tmp_path, source, "--no-trace")
    assert done.returncode == 1
    assert report(done.stderr)[0].startswith("ttnn.empty ran out of memory: L1 bank needs 2,048,000 B")


def test_an_empty_trace_is_captured_and_what_it_takes_is_not_known(tmp_path):
    source = OPENED + TRACED[: TRACED.index("ttnn.execute_trace")].replace("y = ttnn.relu(x)\n", "")
    done = executed(tmp_path, source)
    assert done.returncode == 0
    (line,) = report(done.stderr)
    assert "whether that fits trace_region_size is not known" in line


def test_another_crash_has_its_line_and_no_trace(tmp_path):
    crash = "import ctypes\ndef crash():\n    ctypes.string_at(0)\ncrash()\n"
    done = executed(tmp_path, OPENED + crash)
    assert done.returncode == SEGMENTATION_FAULT
    path = tmp_path / "program.py"
    head, line, caller = report(done.stderr)
    assert head == CRASHED
    assert line == f"  at {path}:10 (crash): ctypes.string_at(0)"
    assert caller == f"    called from {path}:11 (<module>): crash()"


def test_a_program_that_asks_python_for_the_stack_has_it(tmp_path):
    crash = "import faulthandler, ctypes\nfaulthandler.enable()\nctypes.string_at(0)\n"
    done = executed(tmp_path, OPENED + crash)
    assert "Fatal Python error: Segmentation fault" in done.stderr
    assert report(done.stderr)[0] == CRASHED


def test_the_environment_alone_excludes_traces_that_are_left_out(tmp_path):
    done = executed(tmp_path, OPENED, "--plain", "--no-trace")
    assert done.returncode == 2
    assert "--plain" in done.stderr
