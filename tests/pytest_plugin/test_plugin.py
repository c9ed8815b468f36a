"""The pytest plugin in real runs: one record per selected case whatever happens, and what each test's outcome shows."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import ssinghal
from tests.support.processes import (
    BLOCKED,
    CONFTEST,
    UNMAPPED,
    Suite,
    all_ended,
    catalog_text,
    module,
    oom_module,
    operator_module,
    wait_for,
)

pytest_plugins = ["pytester"]

SMALL = [1, 32, 64]
OTHER = [1, 64, 96]
LARGE = [1, 64, 640, 400]
# LARGE goes to the device as [1, 640, 400, 64], its 400 rows padded to 416: 640 * 13 * 2 = 16,640 tiles of 2,048 B, 260 of
# them in each of 64 banks. Two operands leave 1,393,312 - 2 * 532,480 = 328,352 B of an N150's bank.
LARGE_BYTES = {"total_bytes": 34_078_720, "bytes_per_bank": 532_480, "banks": 64}
EXPECTED_OOM = "Expected OOM: L1 bank needs 532,480 B, 328,352 B free (output)"
# A reshape whose map of 2,097,152 tiles keeps TTNN busy on the host for seconds: time to interrupt it.
SLOW = {"in": [[1, 8192, 8192]], "args": {"dim": -1}}
REPOSITORY = str(Path(__file__).parents[2])

add_small, add_large = "add 1x32x64+1x32x64-l1-nhwc", "add 1x64x640x400+1x64x640x400-l1-nhwc"
relu_small, relu_other = "relu 1x32x64-l1-nhwc", "relu 1x64x96-l1-nhwc"


def lines_of(output: str) -> list[str]:
    return [line.rstrip() for line in output.splitlines() if line.strip()]


# On a virtual device ------------------------------------------------------------------------------------------------------


@pytest.mark.virtual_device
def test_one_record_per_selected_case(tmp_path):
    operators = {
        "add": [{"shape": SMALL}, {"shape": LARGE, "oom": {"run": "R1", "stage": "output", **LARGE_BYTES}}],
        "relu": [{"shape": OTHER, "oom": {"run": "R1"}}],
        "as_strided": [{"in": [SMALL], "args": {"size": [32], "stride": [1]}}],
    }
    modules = {f"test_{name}.py": operator_module(name) for name in operators}
    modules |= {f"test_oom_{name}.py": oom_module(name) for name in ("add", "relu")}
    suite = Suite(tmp_path, operators, modules)
    (tmp_path / "conftest.py").write_text(
        CONFTEST
        + "import sys\n\n\ndef pytest_terminal_summary(terminalreporter):\n"
        + "    terminalreporter.write_line(f\"imported here: {sorted({'torch', 'ttnn'} & set(sys.modules))}\")\n"
    )
    before = {p.name for p in tmp_path.iterdir()}

    code, output = suite.run()

    assert code == 0, output
    assert suite.statuses() == {
        add_small: "fits",
        add_large: "oom",
        relu_other: "fits",
        "as_strided 1x32x64-size=32-stride=1-l1-nhwc": "unsupported",
    }
    lines = lines_of(output)
    assert f"SKIPPED [1] test_add.py:8: {EXPECTED_OOM}" in lines
    assert f"SKIPPED [1] test_oom_add.py:8: {EXPECTED_OOM}" in lines
    assert any(line.startswith("XFAIL test_as_strided.py") and "no strides" in line for line in lines)
    assert "relu 1x64x96-l1-nhwc: now fits on ttnn" in output
    assert "imported here: []" in lines
    assert "NOTSET" not in output

    info = suite.info
    assert info["selected"] == 4
    assert info["totals"] == {"fits": 2, "oom": 1, "unsupported": 1}
    assert info["finished"] >= info["started"]
    assert (info["device"]["mode"], info["device"]["board"], info["device"]["l1"]["num_banks"]) == ("virtual", "n150", 64)
    assert info["options"]["catalog"] == [str(suite.catalog)]
    assert not {"keyword", "markers"} & set(info["options"])
    assert suite.latest.is_symlink()
    assert suite.latest.resolve().name == info["run"]
    assert {r["run"] for r in suite.records} == {info["run"]}
    assert {p.name for p in suite.latest.iterdir()} == {"run.json", "records.jsonl", "summary.txt"}
    summary = lines_of((suite.latest / "summary.txt").read_text())
    assert "4 of 4 selected cases recorded" in summary[0]
    total = next(line for line in summary if line.startswith("total"))
    assert total.split() == ["total", "4", "2", "1", "1"]
    missing = "L1 bank needs 532,480 B, 328,352 B free (output); short by 199.3 KiB (204,128 B) per bank"
    assert [line.endswith(missing) for line in summary if line.startswith("oom: add ")] == [True]
    assert any(line.startswith("all cases out of memory: ssinghal report ") for line in lines)
    assert summary[-1].startswith("stale known OOM: relu 1x64x96-l1-nhwc: now fits")
    assert {p.name for p in tmp_path.iterdir()} == before | {"results"}

    record = next(r for r in suite.records if r["status"] == "oom")
    assert {k: record[k] for k in LARGE_BYTES} == LARGE_BYTES
    assert (record["resource"], record["stage"], record["free_bytes"]) == ("l1_buffer", "output", 328_352)
    assert (record["device_mode"], record["numerics"], record["comparison"]) == ("virtual", "not run", None)
    assert record["estimate"]["verdict"] == "exceeds"
    assert record["test"].startswith("test_add.py::test_add[")


@pytest.mark.virtual_device
def test_after_a_failure_with_x_the_rest_is_not_run(tmp_path):
    wrong = {**LARGE_BYTES, "bytes_per_bank": 532_481}
    operators = {"add": [{"shape": LARGE, "oom": {"run": "R7", "stage": "output", **wrong}}], "relu": [{"shape": SMALL}]}
    suite = Suite(tmp_path, operators, {"test_a.py": oom_module("add"), "test_b.py": operator_module("relu")})

    code, output = suite.run("-x", "-k", "not memory_estimation")

    assert code == 1
    assert "R7 requested (34078720, 532481) B (total, per bank), TTNN now requests (34078720, 532480) B" in output
    assert suite.statuses() == {add_large: "oom", relu_small: "not_run"}
    assert (suite.info["totals"], suite.info["unreached"]) == ({"oom": 1, "not_run": 1}, 1)
    assert "1 of 2 selected cases were run; interrupted: 1 of 2 cases were not run" in output
    assert suite.info["options"]["keyword"] == "not memory_estimation"
    assert "before it was run" in next(r for r in suite.records if r["op"] == "relu")["message"]


def test_a_case_whose_test_failed_first_was_reached(tmp_path):
    operators = {"add": [{"shape": SMALL}], "relu": [{"shape": SMALL}]}
    modules = {"test_a.py": operator_module("add") + BROKEN_FIXTURE, "test_b.py": operator_module("relu") + BROKEN_FIXTURE}
    suite = Suite(tmp_path, operators, modules)
    code, output = suite.run()
    assert (code, suite.statuses()) == (1, {add_small: "not_run", relu_small: "not_run"}), output
    assert (suite.info["unreached"], "interrupted" in output) == (0, False)

    code, output = suite.run("-x")
    assert suite.statuses() == {add_small: "not_run", relu_small: "not_run"}
    assert suite.info["unreached"] == 1
    assert [r["message"] for r in suite.records] == ["its test ended before it was run", "the run ended before it was run"]
    assert "interrupted: 1 of 2 cases were not run" in output


BROKEN_FIXTURE = """

import pytest


@pytest.fixture(autouse=True)
def broken():
    raise RuntimeError("broken")
"""


# A conftest whose estimates of mul contradict arithmetic.
CONTRARY = """
from dataclasses import replace

import ssinghal.pytest_plugin.session
from ssinghal.core.estimate import Prediction
from ssinghal.estimation.estimator import estimate

def contrary(case, board):
    result = estimate(case, board)
    exceeds = result.verdict is Prediction.EXCEEDS
    return replace(result, verdict=Prediction.FITS if exceeds else Prediction.EXCEEDS) if case.name == "mul" else result

ssinghal.pytest_plugin.session.estimate = contrary
"""


@pytest.mark.virtual_device
def test_strict_fails_what_was_not_foreseen(tmp_path):
    operators = {
        "add": [{"shape": LARGE}],
        "mul": [{"shape": LARGE}, {"shape": SMALL}],
        "relu": [{"shape": OTHER, "oom": {"run": "R1"}}],
    }
    modules = {"test_a.py": operator_module("add"), "test_m.py": operator_module("mul"), "test_r.py": oom_module("relu")}
    suite = Suite(tmp_path, operators, modules)
    (tmp_path / "conftest.py").write_text(CONFTEST + CONTRARY)
    (tmp_path / "pytest.ini").write_text("[pytest]\noom_policy = strict\noom_results = results\noom_workers = 1\n")

    code, output = suite.run("-k", "not memory_estimation", results=False)

    assert code == 1
    lines = lines_of(output)
    assert f"SKIPPED [1] test_a.py:8: {EXPECTED_OOM}" in lines
    assert "OOM although the estimate predicts a fit: L1 bank needs 532,480 B, 328,352 B free (output)" in lines
    assert "it fits although the estimate predicts an OOM" in lines
    assert any(re.fullmatch(r"stale known OOM: relu 1x64x96-l1-nhwc: now fits on ttnn [\d.]+", line) for line in lines)
    assert "3 failed, 1 skipped" in lines[-1]
    assert (suite.info["options"]["policy"], suite.info["options"]["workers"]) == ("strict", 1)
    assert suite.info["totals"] == {"fits": 2, "oom": 2}


LEAKING = """
from concurrent.futures import Future
from dataclasses import replace

from ssinghal.runner.pool import Pool

submit = Pool.submit

def leaking(self, case):
    future = Future()
    future.set_result(replace(submit(self, case).result(), left_allocated={"l1": 2048} if case.name == "add" else {}))
    return future

Pool.submit = leaking
"""


@pytest.mark.virtual_device
def test_a_call_that_leaves_memory_allocated_fails_its_test(tmp_path):
    operators = {"add": [{"shape": SMALL}], "relu": [{"shape": SMALL}]}
    suite = Suite(tmp_path, operators, {f"test_{name}.py": operator_module(name) for name in operators})
    (tmp_path / "conftest.py").write_text(CONFTEST + LEAKING)

    code, output = suite.run()

    assert code == 1
    lines = lines_of(output)
    assert "1 failed, 1 passed" in lines[-1]
    assert "the call left device memory allocated: {'l1': 2048} B per bank" in lines
    assert "leak: add 1x32x64+1x32x64-l1-nhwc: left allocated {'l1': 2048}" in lines
    assert suite.statuses() == {add_small: "fits", relu_small: "fits"}
    assert [r["left_allocated"] for r in suite.records if r["op"] == "add"] == [{"l1": 2048}]


@pytest.mark.virtual_device
def test_under_xdist_a_dying_test_process_costs_its_own_case(tmp_path):
    operators = {"add": [{"shape": SMALL}], "relu": [{"shape": SMALL}, {"shape": OTHER, "oom": {"run": "R1"}}]}
    deadly = "def test_relu(case, compare):\n    os.kill(os.getpid(), signal.SIGSEGV)"
    modules = {"test_add.py": operator_module("add"), "test_relu.py": module("relu", deadly), "test_oom.py": oom_module("relu")}
    suite = Suite(tmp_path, operators, modules)

    code, output = suite.run("-n", "2", "--oom-memory", "l1", "-k", "not estimation and not test_relu[1x64x96")

    assert code == 1, output
    assert suite.statuses() == {add_small: "fits", relu_small: "crash", relu_other: "fits"}
    assert suite.info["selected"] == 3
    assert suite.info["totals"] == {"crash": 1, "fits": 2}
    assert suite.info["device"]["board"] == "n150"
    crash = next(r for r in suite.records if r["status"] == "crash")
    assert crash["test"] == "test_relu.py::test_relu[1x32x64-l1-nhwc]"
    assert "relu 1x64x96-l1-nhwc: now fits on ttnn" in output
    assert "INTERNALERROR" not in output


@pytest.mark.virtual_device
def test_a_dying_device_process_costs_its_own_case(tmp_path):
    deadly = """
from tests.support.processes import workers_of

def test_unsqueeze(case, compare):
    for worker in workers_of(os.getpid()):
        os.kill(worker, signal.SIGSEGV)
    compare(case)
"""
    operators = {"unsqueeze": [SLOW], "relu": [{"shape": SMALL}]}
    modules = {"test_1.py": module("unsqueeze", deadly), "test_2.py": operator_module("relu")}
    suite = Suite(tmp_path, operators, modules, memory="dram")

    code, output = suite.run("--oom-workers", "1", "--oom-host-tiles", "9999999", PYTHONPATH=REPOSITORY)

    assert code == 0, output
    assert list(suite.statuses().values()) == ["fits", "fits"]  # the lost one is repeated alone
    assert suite.info["totals"] == {"fits": 2}
    retried = [record.get("retried", "") for record in suite.records]
    assert [text.partition(";")[0] for text in retried] == ["crash: the process that ran the call ended with SIGSEGV", ""]
    assert "1 case answered at the second attempt, alone: the process of the first was lost" in output
    assert "Traceback" not in output


@pytest.mark.virtual_device
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_a_run_that_is_ended_keeps_what_it_had(tmp_path, number):
    waiting = """
import os, pathlib, time
from tests.support.processes import workers_of

def test_wait():
    workers = " ".join(map(str, workers_of(os.getpid())))
    pathlib.Path("waiting.tmp").write_text(workers)
    pathlib.Path("waiting.tmp").rename("waiting")
    time.sleep(120)
"""
    operators = {"relu": [{"shape": SMALL}], "add": [{"shape": SMALL}]}
    modules = {"test_1.py": operator_module("relu"), "test_2.py": waiting, "test_3.py": operator_module("add")}
    suite = Suite(tmp_path, operators, modules)
    process = suite.start(PYTHONPATH=REPOSITORY)
    wait_for(lambda: (tmp_path / "waiting").exists() or process.poll() is not None, "the second test")

    process.send_signal(number)
    output, _ = process.communicate(timeout=60)

    info = suite.info
    if number == signal.SIGINT:
        assert process.returncode == 2, output
        assert suite.statuses() == {relu_small: "fits", add_small: "not_run"}
        assert info["totals"] == {"fits": 1, "not_run": 1}
        assert info["unreached"] == 1
        assert "1 of 2 selected cases were run; interrupted: 1 of 2 cases were not run" in output
    else:
        assert suite.statuses() == {relu_small: "fits"}
        assert (info["selected"], info["finished"], info["totals"]) == (2, None, {})
    workers = [int(pid) for pid in (tmp_path / "waiting").read_text().split()]
    assert workers
    wait_for(lambda: all_ended(workers), "the end of the device processes")


@pytest.mark.parametrize("place", ["before", "after"])
@pytest.mark.parametrize("results", [True, False])
def test_ctrl_c_at_a_record_loses_none_and_writes_none_twice(tmp_path, place, results):
    """The third of five records is being written, or has just been, when the signal comes."""
    suite = Suite(tmp_path, {"add": [{"shape": [1, 32, 32 * n]} for n in range(1, 6)]}, {"test_1.py": oom_module("add")})
    with (tmp_path / "conftest.py").open("a") as conftest:
        conftest.write(INTERRUPTED)
    code, output = suite.run("-k", "memory_estimation", results=results, PLACE=place)
    assert code == 2, output
    assert "interrupted: 2 of 5 cases were not run" in output
    if results:
        assert sorted(r["id"] for r in suite.records) == sorted({r["id"] for r in suite.records})
        assert (len(suite.records), suite.info["totals"], suite.info["unreached"]) == (5, {"not_run": 5}, 2)
    else:
        assert re.search(r"^total +5 +5$", output, re.MULTILINE)


INTERRUPTED = """
import os, signal

from ssinghal.runs.summary import SummaryCounts

add, seen = SummaryCounts.add, []


def interrupted(self, record):
    seen.append(record)
    if len(seen) == 3 and os.environ["PLACE"] == "before":
        os.kill(os.getpid(), signal.SIGINT)
    add(self, record)
    if len(seen) == 3 and os.environ["PLACE"] == "after":
        os.kill(os.getpid(), signal.SIGINT)


SummaryCounts.add = interrupted
"""


# Without a device -----------------------------------------------------------------------------------------------------------


def test_estimates_need_neither_torch_nor_ttnn(tmp_path):
    suite = Suite(tmp_path, {"add": [{"shape": SMALL}, {"shape": LARGE}]}, {"test_oom_add.py": oom_module("add")})
    (tmp_path / "blocked.py").write_text(BLOCKED)

    code, output = suite.run("-p", "blocked", "-k", "memory_estimation", PYTHONPATH=str(tmp_path))

    assert code == 0, output
    assert suite.statuses() == {add_small: "not_run", add_large: "not_run"}
    assert suite.info["device"] == {}
    assert "ttnn" not in suite.info["versions"]
    large = suite.records[1]
    assert (large["estimate"]["verdict"], large["estimate"]["bytes_per_bank"]) == ("exceeds", 532_480)
    assert (large["device_mode"], large["decided_by"]) == ("none", "harness")

    code, output = suite.run("-p", "blocked", PYTHONPATH=str(tmp_path))
    assert code == 4
    message = "ERROR: ttnn is not installed in this environment; install it with: pip install"
    assert any(line.startswith(message) for line in lines_of(output))


def test_built_in_estimates_pass_without_torch_and_ttnn(tmp_path):
    (tmp_path / "blocked.py").write_text(BLOCKED)
    module_path = Path(ssinghal.__file__).parent / "oom_tests" / "test_oom_add.py"
    suite = Suite(tmp_path, {"add": [{"shape": SMALL}]}, {})

    code, output = suite.run(
        "-p", "blocked", "--oom-catalog", "1280-class", "-k", "memory_estimation", str(module_path), PYTHONPATH=str(tmp_path)
    )

    assert code == 0, output
    assert re.search(r"\b\d+ passed", output)


@pytest.fixture
def run(pytester, monkeypatch):
    """pytest in this process, on modules for add, addmm and relu; no device may open."""
    monkeypatch.setattr("ssinghal.pytest_plugin.session.Pool", lambda *_: pytest.fail("a device is opened"))
    pytester.makeconftest(CONFTEST)
    operators = {
        "add": [{"shape": SMALL}, {"shape": LARGE, "oom": {"run": "R1", "stage": "output", **LARGE_BYTES}}],
        "addmm": [{"in": [[64, 64], [64, 64], [64, 64]]}],
        "relu": [{"shape": SMALL}, {"shape": OTHER, "oom": {"run": "R1"}}],
    }
    pytester.path.joinpath("catalog.yaml").write_text(catalog_text(operators))
    for name in (*operators, "tanh"):
        pytester.path.joinpath(f"test_{name}.py").write_text(operator_module(name))
    pytester.path.joinpath("test_oom_add.py").write_text(oom_module("add"))

    def run(*arguments: str) -> pytest.RunResult:
        catalog = () if "--oom-catalog" in arguments else ("--oom-catalog", "catalog.yaml")
        return pytester.runpytest_inprocess("-p", "no:cacheprovider", *catalog, *arguments)

    return run


def collected(result: pytest.RunResult) -> list[str]:
    """``module[case id]`` of each test, as ``--collect-only -q`` lists them."""
    return [re.sub(r"^test_(\w+)\.py::test_\w+", r"\1", line) for line in result.outlines if "::" in line]


ADD_TESTS = ["add[1x32x64+1x32x64-l1-nhwc]", "add[1x64x640x400+1x64x640x400-l1-nhwc]"]
OOM_ADD_TESTS = ["oom_" + ADD_TESTS[1], *("oom_" + test for test in ADD_TESTS)]
ADDMM_TESTS = ["addmm[64x64+64x64+64x64-l1-nhwc]"]
RELU_TESTS = ["relu[1x32x64-l1-nhwc]", "relu[1x64x96-l1-nhwc]"]


@pytest.mark.parametrize(
    ("arguments", "tests"),
    [
        ((), ADD_TESTS + ADDMM_TESTS + OOM_ADD_TESTS + RELU_TESTS),
        (("-k", "add"), ADD_TESTS + ADDMM_TESTS + OOM_ADD_TESTS),
        (("-m", "op(name='add')"), ADD_TESTS + OOM_ADD_TESTS),
        (("--oom-op", "add"), ADD_TESTS + OOM_ADD_TESTS),
        (("--oom-op", "add", "--oom-op", "relu", "test_relu.py"), RELU_TESTS),
        (("--oom-op", "ReLU"), RELU_TESTS),  # a name without a separate suite is its operator
        # 32 * 64 bf16 elements are 4,096 B, 64 * 96 are 12,288 B
        (("--oom-max-bytes", "4096"), ["add[1x32x64+1x32x64-l1-nhwc]", "oom_add[1x32x64+1x32x64-l1-nhwc]", RELU_TESTS[0]]),
        (("--oom-sample", "1"), [ADD_TESTS[0], *ADDMM_TESTS, "oom_" + ADD_TESTS[0], RELU_TESTS[0]]),
        (("--oom-memory", "dram", "test_relu.py"), ["relu[1x32x64-dram-nhwc]", "relu[1x64x96-dram-nhwc]"]),
        (
            ("--oom-placements", "l1,block@4x4", "--oom-sample", "1", "test_relu.py"),
            ["relu[1x32x64-l1-nhwc]", "relu[1x32x64-l1:block@4x4-nhwc]"],
        ),
        (
            ("--oom-dtypes", "bf16, bfloat8_b,bfloat16", "--oom-sample", "1", "test_relu.py"),
            ["relu[1x32x64-l1-nhwc]", "relu[1x32x64-bfloat8_b-l1-nhwc]"],
        ),
    ],
)
def test_selection(run, pytester, arguments, tests):
    before = {p.name for p in pytester.path.iterdir()}
    result = run("--collect-only", "-q", "--oom-results", "results", *arguments)
    assert result.ret == 0
    assert collected(result) == tests
    assert "NOTSET" not in str(result.stdout)
    assert {p.name for p in pytester.path.iterdir()} - {"__pycache__"} == before  # nothing ran, so nothing is written


def test_a_wormhole_cards_oom_says_nothing_of_a_blackhole(run):
    """On a P150 LARGE takes ceil(16,640 / 110) = 152 tiles per bank, three times 311,296 B of 1,461,120: it fits."""
    listed = run("--collect-only", "-q", "--oom-board", "p150", "test_oom_add.py")
    assert collected(listed) == ["oom_" + test for test in ADD_TESTS]  # both are estimates; no OOM is expected
    checked = run("--oom-board", "p150", "-k", "memory_estimation")
    checked.assert_outcomes(skipped=2)  # no allocator bytes are on file for these cases, and no card's apply


def test_captured_calls_that_no_operator_makes_are_reported(run, pytester):
    pytester.path.joinpath("captured.yaml").write_text(UNMAPPED)
    header = str(run("--collect-only", "--oom-catalog", "captured.yaml").stdout)
    assert "ssinghal: left out: 5 captured calls in 2 catalog lines without an operator" in header
    assert "left out" not in str(run("--collect-only").stdout)


def test_nothing_is_written_without_results(run, pytester):
    before = {p.name for p in pytester.path.iterdir()}
    result = run("-k", "memory_estimation")
    result.assert_outcomes(passed=1, skipped=1)
    assert {p.name for p in pytester.path.iterdir()} - {"__pycache__"} == before


def test_ini_options_are_read_and_the_command_line_overrides_them(run, pytester):
    pytester.makeini("[pytest]\noom_op = add relu\noom_board = p150\noom_memory = dram\n")
    assert collected(run("--collect-only", "-q")) == [
        test.replace("-l1-", "-dram-") for test in ADD_TESTS + ["oom_" + t for t in ADD_TESTS] + RELU_TESTS
    ]
    assert "virtual p150" in str(run("--collect-only").stdout)
    assert collected(run("--collect-only", "-q", "--oom-op", "relu", "--oom-memory", "l1")) == RELU_TESTS


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (("--oom-board", "n15"), "--oom-board: unknown board 'n15'; did you mean n150, p150?"),
        (("--oom-policy", "strct"), "--oom-policy: unknown policy 'strct'; did you mean strict?"),
        (("--oom-memory", "l1_small"), "--oom-memory: unknown memory 'l1_small'; known: dram, l1"),
        (("--oom-device", "virtal"), "unknown device mode 'virtal'; did you mean virtual?"),
        (("--oom-op", "rleu"), "unknown operator 'rleu'; did you mean"),
        (("--oom-catalog", "mochee"), "unknown catalog 'mochee'; did you mean mochi?"),
        (("--oom-workers", "0"), "--oom-workers: expected a whole number from 1, got '0'"),
        (("--oom-placements", "dram,l2"), "--oom-placements: unknown placement 'l2'"),
        (("--oom-weights", "bf9"), "--oom-weights: unknown dtype 'bf9'"),
        (("--oom-dtypes", "bf16,bf9"), "--oom-dtypes: unknown dtype 'bf9'"),
        (("--oom-placements", "dram", "--oom-memory", "l1"), "--oom-memory and --oom-placements both place the operands"),
        (("--oom-sample", "0"), "--oom-sample: expected a whole number from 1, got '0'"),
        (("--oom-max-bytes", "1.5"), "--oom-max-bytes: expected a whole number from 1, got '1.5'"),
        (("--oom-timeout", "nan"), "--oom-timeout: expected a number of seconds above 0 and up to 1,000,000, got 'nan'"),
        (("-c", "bad.ini"), "oom_workers in {folder}/bad.ini: expected a whole number from 1, got 'many'"),
        (("--oom-results", "catalog.yaml", "-k", "estimation"), "cannot write results to catalog.yaml/"),
    ],
)
def test_a_value_that_cannot_be_used_is_one_line(run, pytester, arguments, line):
    pytester.path.joinpath("bad.ini").write_text("[pytest]\noom_workers = many\n")
    result = run(*arguments)
    errors = [text for text in (*result.outlines, *result.errlines) if text.startswith("ERROR: ")]
    assert result.ret == 4
    assert len(errors) == 1
    assert errors[0].startswith("ERROR: " + line.format(folder=pytester.path))
    assert "Traceback" not in str(result.stdout) + str(result.stderr)


def test_every_fault_of_a_catalog_is_reported_at_once(run, pytester):
    text = catalog_text({"add": [{"shape": SMALL}], "rleu": [{"shape": [1, 0]}]})
    pytester.path.joinpath("broken.yaml").write_text(text.replace(', "oper', ',\n"oper').replace(', "rleu', ',\n"rleu'))
    result = run("--oom-catalog", "broken.yaml")
    errors = [text for text in result.errlines if text.startswith("ERROR: ")]
    assert result.ret == 4
    assert len(errors) >= 2
    assert all(line.startswith("ERROR: broken.yaml:") for line in errors)


def test_a_run_without_a_case_leaves_no_folder(run, pytester):
    """The last run stays the last one."""
    pytester.path.joinpath("test_relu.py").write_text(operator_module("relu"))
    result = run("--oom-results", "results", "-k", "nosuchcase")
    assert result.ret == 5
    assert not pytester.path.joinpath("results").exists()


def test_a_module_without_a_usable_mark_is_named(run, pytester):
    unmarked = "def test_it(case, compare):\n    compare(case)\n"
    pytester.path.joinpath("test_x1.py").write_text(operator_module("rleu"))
    pytester.path.joinpath("test_x2.py").write_text("import pytest\n\npytestmark = pytest.mark.operator()\n" + unmarked)
    pytester.path.joinpath("test_x3.py").write_text(unmarked)
    result = run("--oom-results", "results")
    errors = [text for text in result.errlines if text.startswith("ERROR: ")]
    assert result.ret == 4
    assert [line.split("::")[0] for line in errors] == [f"ERROR: test_x{i}.py" for i in (1, 2, 3)]
    assert "unknown operator 'rleu'" in errors[0]
    assert not pytester.path.joinpath("results").exists()


def test_every_option_has_help_an_ini_twin_and_no_default(run, pytester):
    text = str(run("--help").stdout)
    options = set(re.findall(r"--(oom-[a-z-]+)", text))
    twins = set(re.findall(r"^  (oom_[a-z_]+) \(", text, re.MULTILINE))
    assert {"oom-board", "oom-catalog", "oom-ttnn-log"} <= options
    assert {option.replace("-", "_") for option in options} == twins
    config = pytester.parseconfig("-p", "ssinghal.plugin")
    assert {config.getoption(name) for name in twins} == {None}
    assert {bool(config.getini(name)) for name in twins} == {False}


def test_records_are_written_before_the_next_test(tmp_path):
    """The second test reads the run's folder: the first one's record is in it."""
    look = "def test_look():\n    print((pathlib.Path('results') / 'latest' / 'records.jsonl').read_text())\n    assert False"
    operators = {"add": [{"shape": SMALL}]}
    modules = {"test_1.py": oom_module("add"), "test_2.py": "import pathlib\n\n\n" + look}
    suite = Suite(tmp_path, operators, modules)
    code, output = suite.run("-k", "memory_estimation or look")
    assert code == 1
    seen = [json.loads(line) for line in lines_of(output) if line.startswith('{"schema"')]
    assert [(r["op"], r["status"]) for r in seen] == [("add", "not_run")]


def test_records_that_are_removed_during_a_run_are_missed(tmp_path):
    remove = "def test_remove():\n    pathlib.Path('results', 'latest', 'records.jsonl').unlink()"
    modules = {"test_1.py": oom_module("add"), "test_2.py": "import pathlib\n\n\n" + remove}
    suite = Suite(tmp_path, {"add": [{"shape": SMALL}]}, modules)
    code, output = suite.run("-k", "memory_estimation or remove")
    assert code == 4
    assert f"{suite.latest.resolve().relative_to(tmp_path)}/records.jsonl was removed or replaced" in output
    assert suite.info["totals"] == {"not_run": 1}


def test_the_garbage_collector_skips_cases_and_tests_until_they_ended(tmp_path: Path) -> None:
    """It stays on, for what tests make; nothing remains frozen in the process of another run, and nothing that others froze is
    thawed where no test is of ours."""
    module = "import gc\n\n\ndef test_collector():\n    assert gc.isenabled()\n    assert gc.get_freeze_count() > 10_000\n"
    Suite(tmp_path, {"relu": [{"shape": [1, 32, 32]}]}, {"test_collector.py": module})
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "test_other.py").write_text(
        "import gc\n\n\ndef test_other():\n    assert gc.get_freeze_count() > 0\n"
    )
    run = (
        "import gc, pytest\n"
        "code = pytest.main(['-q', 'test_collector.py'])\n"
        "print(f'collector {gc.isenabled()}, frozen {gc.get_freeze_count()}, exit {code:d}')\n"
        "gc.freeze()\n"
        "code = pytest.main(['-q', '--rootdir=other', '--confcutdir=other', 'other'])\n"
        "print(f'others frozen {gc.get_freeze_count() > 0}, exit {code:d}')\n"
    )
    done = subprocess.run([sys.executable, "-c", run], cwd=tmp_path, capture_output=True, text=True, timeout=300)
    lines = done.stdout.splitlines()
    assert "collector True, frozen 0, exit 0" in lines, done.stdout + done.stderr
    assert "others frozen True, exit 0" in lines, done.stdout + done.stderr
