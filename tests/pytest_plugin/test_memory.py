"""``--tt-memory`` and its marks in suites of real TTNN tests: figures, verdicts, budgets, leaks, expected failures."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

import pytest

pytestmark = pytest.mark.virtual_device

ROOT = Path(__file__).parents[2]
SUITES = Path(__file__).with_name("suites")
BANK = 1_393_312 - 16_384  # L1 of an N150, less the region of L1_SMALL that the suites open


class Run(NamedTuple):
    code: int
    output: str
    folder: Path

    @property
    def outcomes(self) -> dict[str, str]:
        """Of each test that the lines of ``-v`` name."""
        found = re.findall(
            r"^(?:\[gw\d\].*?)?(test_\S+::\S+) (PASSED|FAILED|ERROR|SKIPPED|XFAIL|XPASS)", self.output, re.MULTILINE
        )
        found += [
            (test, how) for how, test in re.findall(r"^\[gw\d\].* (PASSED|FAILED|ERROR|SKIPPED|XFAIL) (\S+)", self.output, re.M)
        ]
        return dict(found)

    @property
    def lines(self) -> dict[str, dict]:
        return {
            fields["test"]: fields for fields in map(json.loads, (self.folder / "out" / "tests.jsonl").read_text().splitlines())
        }

    @property
    def figures(self) -> dict[str, dict]:
        """Of each test by its name, as kept in the output folder."""
        return {test.partition("::")[2]: fields for test, fields in self.lines.items()}

    def failure(self, test: str) -> str:
        """What the report shows of a failing test."""
        found = re.search(
            rf"^_+ (?:ERROR at setup of )?{re.escape(test)} _+\n(.*?)(?=^__+ .* __+$|^=+ )",
            self.output,
            re.MULTILINE | re.DOTALL,
        )
        assert found, f"{test} does not fail:\n{self.output[-3000:]}"
        return found[1].strip()


def run_suite(folder: Path, *arguments: str, board: str = "n150", **environ: str) -> Run:
    """Runs pytest on a virtual board."""
    return run_pytest(folder, *arguments, before=("-m", "ssinghal", "exec", "--board", board, "--", sys.executable), **environ)


def run_pytest(folder: Path, *arguments: str, before: tuple[str, ...] = (), **environ: str) -> Run:
    command = [sys.executable, *before, "-m", "pytest", "-v", "-p", "no:cacheprovider", *arguments]
    environ = {**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "250", **environ}
    done = subprocess.run(command, cwd=folder, env=environ, capture_output=True, text=True, timeout=300)
    return Run(done.returncode, done.stdout + done.stderr, folder)


def suite(folder: Path, *names: str) -> Path:
    (folder / "conftest.py").write_text((SUITES / "conftest_plain.py").read_text())
    for name in names:
        (folder / f"test_{name}.py").write_text((SUITES / f"{name}.py").read_text())
    return folder


@pytest.fixture(scope="module")
def plain(tmp_path_factory) -> Run:
    folder = suite(tmp_path_factory.mktemp("plain"), "plain", "scopes")
    return run_suite(folder, "--tt-memory", "--tt-memory-output", "out", "--junitxml", "junit.xml")


@pytest.fixture(scope="module")
def budgets(tmp_path_factory) -> Run:
    return run_suite(suite(tmp_path_factory.mktemp("budgets"), "budgets"), "--tt-memory")


# Figures ------------------------------------------------------------------------------------------------------------------


def test_verdicts_are_those_of_the_plain_run(plain, tmp_path):
    """The marks of the suite count in both runs."""
    without = run_suite(suite(tmp_path, "plain", "scopes"))
    assert plain.outcomes == without.outcomes
    assert Counter(without.outcomes.values()) == {"PASSED": 17, "FAILED": 2, "SKIPPED": 2, "XFAIL": 1}
    assert "device memory" not in without.output
    assert {path.name for path in tmp_path.iterdir()} - {"__pycache__"} == {"conftest.py", "test_plain.py", "test_scopes.py"}


def test_peaks_are_those_of_the_body_and_its_fixtures(plain):
    peaks = {name: fields["peaks"] for name, fields in plain.figures.items() if "peaks" in fields}
    assert [peaks[f"test_add[{rows}]"]["l1"] for rows in (64, 1024, 4096)] == [2 * 2048, 2 * 16 * 2048, 2 * 64 * 2048]
    assert peaks["test_weights"]["l1"] == (16 + 1 + 16) * 2048  # 32 tiles of bias are one in half of the banks
    assert peaks["test_after_weights"]["l1"] == 2048
    assert peaks["test_after_failures"]["l1"] == 2048
    assert peaks["test_function_scoped[128]"]["l1"] == 2 * 2048
    assert peaks["TestClass::test_second"]["l1"] == 2048
    assert peaks["test_opens_a_device_itself"]["l1"] == 2048
    assert peaks["test_pool"]["l1_small"] > 0


def test_leaks_are_what_python_holds_when_the_body_has_ended(plain):
    leaks = {name: fields["leaks"] for name, fields in plain.figures.items() if fields.get("leaks")}
    assert leaks == {name: {"l1": 2048} for name in ("test_leaves_two_kib", "test_leaves", "TestClass::test_first")}
    assert plain.figures["test_pool"]["kept"]["l1_small"] == plain.figures["test_pool"]["peaks"]["l1_small"]


def test_every_test_has_a_line(plain):
    assert {name: fields["outcome"].upper().replace("XFAILED", "XFAIL") for name, fields in plain.figures.items()} == {
        test.partition("::")[2]: outcome for test, outcome in plain.outcomes.items()
    }
    assert "calls" not in plain.figures["test_skipped"]
    assert plain.figures["test_without_a_device"]["calls"] == 0
    assert not any(fields.get("differences") for fields in plain.figures.values())


def test_junit_has_the_figures(plain):
    cases = {case.get("name"): case for case in ElementTree.parse(plain.folder / "junit.xml").iter("testcase")}
    properties = {name: {p.get("name"): p.get("value") for p in case.iter("property")} for name, case in cases.items()}
    assert properties["test_add[1024]"]["tt_l1_peak_bytes"] == str(2 * 16 * 2048)
    assert properties["test_leaves"]["tt_l1_leak_bytes"] == "2048"
    assert properties["test_without_a_device"] == {}


def test_the_summary_shows_the_fullest_first(plain):
    lines = plain.output.partition(" device memory ==")[2].splitlines()
    rows = [line.split() for line in lines if "::" in line and "%" in line]
    assert [row[-1].partition("::")[2] for row in rows[:2]] == ["test_add[4096]", "test_weights"]
    assert len(rows) == 10
    assert rows[0][1] == "262,144"
    shares = [float(row[0].rstrip("%")) for row in rows]
    assert shares == sorted(shares, reverse=True)


def test_budgets_count_where_values_are_not_checked(tmp_path):
    """With ``--tt-virtual``, which lends the device too. 64 tiles are one in each bank."""
    (tmp_path / "test_values.py").write_text(
        "import pytest\nimport torch\nimport ttnn\n\n\n"
        "@pytest.mark.parametrize('tiles', [64, 128])\n"
        "@pytest.mark.limit_device_memory(l1_per_core='2 KiB')\n"
        "def test_values(device, tiles):\n"
        "    a = torch.ones(32 * tiles, 32)\n"
        "    placed = {'device': device, 'memory_config': ttnn.L1_MEMORY_CONFIG}\n"
        "    b = ttnn.from_torch(a, ttnn.bfloat16, layout=ttnn.TILE_LAYOUT, **placed)\n"
        "    assert torch.allclose(ttnn.to_torch(b).float(), a)\n"
    )
    baseline = ("--tt-memory-baseline", "base.jsonl", "--tt-memory-update")
    done = run_pytest(tmp_path, "--tt-virtual", "n150", "--tt-memory", *baseline)
    assert "1 failed, 1 values not checked" in done.output
    head, line = done.failure("test_values[128]").splitlines()
    assert head.startswith("limit_device_memory(l1_per_core): L1 per core took 4 KiB (4,096 B), 2,048 B over")
    assert re.search(r"1 x +ttnn.from_torch, .*test_values.py:11 \(test_values\)", line)
    _, *written = map(json.loads, (tmp_path / "base.jsonl").read_text().splitlines())
    assert [(fields["test"], fields["l1_bytes"]) for fields in written] == [("test_values.py::test_values[64]", 2048)]


def test_a_peak_is_that_of_the_test_where_the_device_is_fullest_earlier(tmp_path):
    """What another test keeps makes the device fullest before the test's own peak; it counts where the test uses it."""
    conftest = (SUITES / "conftest_plain.py").read_text()
    (tmp_path / "conftest.py").write_text(
        conftest.replace("    ttnn.close", "    KEPT.clear()\n    ttnn.close") + "\n\nKEPT = {}\n"
    )
    (tmp_path / "test_peaks.py").write_text(
        "import pytest\nimport ttnn\n\nfrom conftest import KEPT\n\n\n"
        "def empty(device, tiles):\n"
        "    return ttnn.empty([32 * tiles, 32], ttnn.bfloat16, ttnn.TILE_LAYOUT, device, ttnn.L1_MEMORY_CONFIG)\n\n\n"
        "def test_keeps(device):\n    KEPT[0] = empty(device, 6400)\n    KEPT[1] = empty(device, 6400)\n\n\n"
        "@pytest.mark.limit_device_memory(l1_per_core='20 KiB')\n"
        "def test_together(device):\n"
        "    x = empty(device, 64)\n    del KEPT[0]\n    y = empty(device, 640)\n    assert x is not y\n\n\n"
        "@pytest.mark.limit_device_memory(l1_per_core='20 KiB')\n"
        "def test_one_after_another(device):\n"
        "    x = empty(device, 640)\n    del x\n    del KEPT[1]\n    y = empty(device, 320)\n    z = empty(device, 320)\n"
        "    del y\n    ttnn.relu(z)\n\n\n"
        "def test_keeps_again(device):\n    KEPT[0] = empty(device, 1280)\n\n\n"
        "def test_uses(device):\n    x = empty(device, 64)\n    ttnn.relu(KEPT[0])\n    del x, KEPT[0]\n"
        "    empty(device, 64 * 30)\n"
    )
    done = run_suite(tmp_path, "--tt-memory", "--tt-memory-output", "out")
    peaks = {name: fields["peaks"]["l1"] for name, fields in done.figures.items()}
    assert peaks == {
        "test_keeps": 200 * 2048,
        "test_together": (1 + 10) * 2048,
        "test_one_after_another": 10 * 2048,
        "test_keeps_again": 20 * 2048,
        "test_uses": (1 + 20 + 20) * 2048,
    }
    head, *lines = done.failure("test_together").splitlines()
    assert "L1 per core took 22 KiB (22,528 B), 2,048 B over the limit of 20 KiB" in head
    assert re.search(r"22,528 B\) +2 x +ttnn.empty, .*test_peaks.py:8 \(empty\)", *lines)
    assert done.outcomes["test_peaks.py::test_one_after_another"] == "PASSED"


# Budgets and expected failures --------------------------------------------------------------------------------------------


def test_budgets(budgets):
    outcomes = {test.partition("::")[2]: outcome for test, outcome in budgets.outcomes.items()}
    assert outcomes == {
        "test_exactly": "PASSED",
        "test_over": "FAILED",
        "test_over_in_dram": "FAILED",
        "test_fails_by_itself": "FAILED",
        "TestClass::test_of_its_class": "FAILED",
        "TestClass::test_of_its_own": "PASSED",
        "test_expected": "XFAIL",
        "test_another_resource": "FAILED",
        "test_fits_now": "FAILED",
        "test_another_error": "FAILED",
        **dict.fromkeys(
            ("test_unknown_keyword", "test_unknown_unit", "test_negative", "test_unknown_resource", "test_unknown_board"),
            "ERROR",
        ),
    }


def test_a_budget_names_what_was_taken_and_the_lines_that_hold_it(budgets):
    head, *lines = budgets.failure("test_over").splitlines()
    assert head.startswith(
        "limit_device_memory(l1_per_core): L1 per core took 1.016 MiB (1,064,960 B), 16,384 B over the limit of 1 MiB"
    )
    assert len(lines) == 1
    assert re.search(r"1,064,960 B\) +2 x +ttnn.empty, .*test_budgets.py:10 \(empty\)", lines[0])
    assert "DRAM per bank took 20 KiB (20,480 B), 12,288 B over" in budgets.failure("test_over_in_dram")
    assert "2,048 B), 1,024 B over" in budgets.failure("TestClass.test_of_its_class")
    own = budgets.failure("test_fails_by_itself")
    assert "its own reason" in own
    assert "limit_device_memory" not in own.partition("assert a is None")[2]


def test_expected_failures_are_strict(budgets):
    assert "expect_oom(clash or dram_buffer): the test raised l1_buffer instead: L1 bank needs" in budgets.failure(
        "test_another_resource"
    )
    assert (
        "expect_oom(l1_buffer): no out-of-memory error ended the test (twice L1): if it fits now, remove the mark"
        in budgets.failure("test_fits_now")
    )
    assert "the test raised no out-of-memory error" in budgets.failure("test_another_error")


def test_a_budget_that_cannot_be_checked_fails(tmp_path):
    """Marks alone have ttnn followed when the tests are collected: too late for a name that a conftest took from it."""
    conftest = (SUITES / "conftest_plain.py").read_text().replace("import ttnn", "from ttnn import close_device, open_device")
    (tmp_path / "conftest.py").write_text(conftest.replace("ttnn.", ""))
    (tmp_path / "test_late.py").write_text(
        "import pytest\nimport ttnn\n\n\n@pytest.mark.limit_device_memory(l1_per_core='2 KiB')\ndef test_late(device):\n"
        "    ttnn.empty([64, 1024], ttnn.bfloat16, ttnn.TILE_LAYOUT, device, ttnn.L1_MEMORY_CONFIG)\n"
    )
    assert "cannot be checked: 1 calls on a device that was opened before ttnn" in run_suite(tmp_path).failure("test_late")
    assert run_suite(tmp_path, "--tt-memory").code == 0


@pytest.mark.parametrize(
    ("test", "text"),
    [
        ("test_unknown_keyword", "unexpected keyword argument 'l1'; expected limit_device_memory(l1_per_core=, dram_per_bank="),
        ("test_unknown_unit", "size '1 KB': expected a number of bytes, or a text in B, KiB, MiB, GiB such as '900 KiB'"),
        ("test_negative", "size -1: expected a number of bytes"),
        ("test_unknown_resource", "unknown resource 'l1_bufer'; did you mean l1_buffer"),
        ("test_unknown_board", "unknown board 'n15'; did you mean n150"),
    ],
)
def test_a_mark_that_cannot_be_used_is_one_line(budgets, test, text):
    (line,) = budgets.failure(test).splitlines()
    assert re.match(r"test_budgets.py:\d+: mark \w+: ", line)
    assert text in line


@pytest.mark.parametrize("mark", ["limit_device_memory(l1_per_core='1 MiB')", "limit_device_leaks('1 MiB')"])
def test_limits_of_what_is_not_recorded_cannot_be_checked(tmp_path, mark):
    """The device of the module is open meanwhile; a thread of one test does not count for the next."""
    suite(tmp_path)
    (tmp_path / "test_unrecorded.py").write_text(
        f"import threading\n\nimport pytest\nimport ttnn\n\npytestmark = pytest.mark.{mark}\nKEPT = []\n\n\n"
        "def empty(device):\n"
        "    return ttnn.empty([2048, 64], ttnn.bfloat16, ttnn.TILE_LAYOUT, device, ttnn.L1_MEMORY_CONFIG)\n\n\n"
        "def test_first(device):\n    empty(device)\n\n\n"
        "def test_thread(device):\n    t = threading.Thread(target=lambda: KEPT.append(empty(device)))\n"
        "    t.start()\n    t.join()\n\n\n"
        "def test_after(device):\n    empty(device)\n\n\n"
        "def test_second(device):\n    other = ttnn.open_device(device_id=0)\n    a = empty(other)\n"
        "    del a\n    ttnn.close_device(other)\n\n\n"
        "def test_last(device):\n    empty(device)\n"
    )
    done = run_suite(tmp_path, "--tt-memory")
    failed = {test.partition("::")[2] for test, outcome in done.outcomes.items() if outcome == "FAILED"}
    assert failed == {"test_thread", "test_second"}
    text = "the limits of device memory cannot be checked: 1 {} are not recorded"
    assert done.failure("test_thread") == text.format("calls of other threads")
    assert done.failure("test_second") == text.format("allocations on another device or submesh")
    assert "a fault of this profiler" not in done.output
