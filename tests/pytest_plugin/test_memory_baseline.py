"""``--tt-memory-baseline``, and ``--tt-memory`` under xdist."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from tests.pytest_plugin.test_memory import Run, run_pytest, run_suite, suite

pytestmark = pytest.mark.virtual_device

HEADER = {"format": 1, "device": "wormhole_b0 8x8", "ttnn": "0.81.1"}
USED = ("--tt-memory", "--tt-memory-baseline", "base.jsonl")


@pytest.fixture(scope="module")
def written(tmp_path_factory) -> Run:
    """The baseline of a run in one process."""
    return run_suite(suite(tmp_path_factory.mktemp("written"), "growing"), *USED, "--tt-memory-update")


@pytest.fixture
def folder(written, tmp_path) -> Path:
    shutil.copytree(written.folder, tmp_path, dirs_exist_ok=True)
    return tmp_path


def lines_of(folder: Path) -> list[dict]:
    return [json.loads(line) for line in (folder / "base.jsonl").read_text().splitlines()]


def test_the_file_has_a_line_per_test_that_passed(written):
    assert written.code == 0, written.output
    header, *lines = lines_of(written.folder)
    assert header == HEADER
    tests = [line["test"].partition("::")[2] for line in lines]
    assert tests == sorted(tests)
    assert len(tests) == 10
    sizes = {line["test"].partition("::")[2]: line for line in lines}
    assert {sizes[f"test_weights[{n}]"]["l1_bytes"] for n in range(4)} == {20 * 2048}
    assert sizes["test_grows"] == {"test": "test_growing.py::test_grows", "l1_bytes": 2048}
    assert "l1_small_bytes" not in sizes["test_pool[0]"]  # TTNN's own, and its first test's alone


def test_growth_fails_and_names_before_after_and_line(folder, written):
    done = run_suite(folder, *USED, TILES="128", NEW="1")
    assert {test for test, outcome in done.outcomes.items() if outcome == "FAILED"} == {"test_growing.py::test_grows"}
    head, line = done.failure("test_grows").splitlines()
    assert head.startswith("L1 per core: 2 KiB (2,048 B) -> 4 KiB (4,096 B), 2,048 B more than in ")
    assert re.search(r"1 x +ttnn.empty, .*test_growing.py:\d+ \(test_grows\)", line)
    assert "1 tests are not in " in done.output
    assert lines_of(folder) == lines_of(written.folder)
    assert run_suite(folder, *USED, "--tt-memory-tolerance", "100%", "-k", "grows", TILES="128").code == 0


def test_a_baseline_of_another_root_folder_is_refused(folder):
    """With a space, pytest takes the file above for a path of tests, so that the root folder is the one above."""
    inner = folder / "inner"
    inner.mkdir()
    for path in [*folder.glob("test_*.py"), folder / "conftest.py"]:
        shutil.move(path, inner)
    used = ("--tt-memory", "-k", "grows", "--tt-memory-baseline")
    done = run_suite(inner, *used, "../base.jsonl", TILES="128")
    assert done.code == 4
    assert "base.jsonl has test_growing.py::test_grows, and none of these tests, such as inner/test_growing.py" in done.output
    done = run_suite(inner, *used[:-1], "--tt-memory-baseline=../base.jsonl", "--rootdir=.", TILES="128")
    assert done.outcomes == {"test_growing.py::test_grows": "FAILED"}


def test_update_keeps_tests_that_were_not_selected(folder):
    before = lines_of(folder)
    done = run_suite(folder, *USED, "--tt-memory-update", "-k", "grows or new", TILES="256", NEW="1")
    assert done.code == 0, done.output
    changed = [line for line in lines_of(folder) if line not in before]
    assert changed == [
        {"test": "test_growing.py::test_grows", "l1_bytes": 4 * 2048},
        {"test": "test_growing.py::test_new", "dram_bytes": 2048},
    ]
    assert len(lines_of(folder)) == len(before) + 1


def test_xdist_agrees_with_one_process_and_a_killed_worker_loses_nothing(folder):
    done = run_suite(folder, *USED, "-n", "2", "--tt-memory-output", "out", KILL="1")
    outcomes = {test.partition("::")[2]: fields["outcome"] for test, fields in done.lines.items()}
    assert outcomes.pop("test_killed") == "crash"
    assert outcomes.pop("test_new") == "skipped"
    assert len(outcomes) == 10
    assert set(outcomes.values()) == {"passed"}
    assert "crash: the process ended within test_growing.py::test_killed" in done.output
    assert "10 of 10 tests with TTNN calls" in done.output
    assert {name: fields["peaks"]["l1"] for name, fields in done.figures.items() if name.startswith("test_weights")} == {
        f"test_weights[{n}]": 20 * 2048 for n in range(4)
    }


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("--tt-memory-update",), "--tt-memory-update: needs --tt-memory"),
        (("--tt-memory", "--tt-memory-update"), "--tt-memory-update: needs --tt-memory-baseline FILE"),
        (("--tt-memory", "--tt-memory-baseline", "none"), "none; --tt-memory-update creates it"),
        (("--tt-memory", "--tt-memory-baseline", "conftest.py"), "conftest.py:1: expected a line of a baseline"),
        (("--tt-memory", "--tt-memory-top", "0"), "--tt-memory-top: expected a whole number from 1, got '0'"),
        (
            ("--tt-memory", "--tt-memory-tolerance", "3"),
            "--tt-memory-tolerance: expected a percentage from 0%, such as 1%, got '3'",
        ),
        (("--tt-memory", "--tt-memory-output", "."), "is not empty; expected a new folder"),
    ],
)
def test_bad_options_are_one_line(tmp_path, arguments, text):
    (tmp_path / "conftest.py").write_text("no = 1\n")
    one_usage_error(run_pytest(tmp_path, *arguments), text)
    assert {path.name for path in tmp_path.iterdir()} <= {"conftest.py", "__pycache__"}


def test_a_baseline_of_another_board_is_a_usage_error(tmp_path):
    """It is known before a test opens a device."""
    (tmp_path / "base.jsonl").write_text(json.dumps({**HEADER, "device": "blackhole 11x10"}) + "\n")
    text = "is of blackhole 11x10 with ttnn 0.81.1, and the tests run on wormhole_b0 8x8 with ttnn 0.81.1: use another"
    one_usage_error(run_suite(tmp_path, *USED), text)


def one_usage_error(done: Run, text: str) -> None:
    assert done.code == 4
    (line,) = [line for line in done.output.splitlines() if line.startswith("ERROR: ")]
    assert text in line
