"""Skips and records that name their remedy: ``--oom-remedies`` under pytest, ``ssinghal run --remedies``."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys

import pytest

from ssinghal.core.json_values import plain
from ssinghal.core.remedy_outcome import ValueComparison
from ssinghal.runs.reader import read_run
from tests.support.processes import CONFTEST, Suite, catalog_text, operator_module, wait_for

SMALL, LARGE = [1, 32, 64], [1, 64, 640, 400]
# LARGE goes to the device as [1, 640, 400, 64], its 400 rows padded to 416: 640 * 13 * 2 = 16,640 tiles of 2,048 B, 260 of them
# in each of 64 banks.
TENSOR = 260 * 2048
PIECE = 320 * 13 * 2 // 64 * 2048  # of 320 of its 640 maps
DRAM_TENSOR = -(-16_640 // 12) * 2048
LACKS = "Expected OOM: L1 bank needs 532,480 B, 328,352 B free (output)"
IN_PLACE = "remedy, same tensor: in place (the first operand is overwritten: only where nothing needs it afterwards)"
# 48 * 32,400 * 32,400 elements in bfloat16 are 101 GB, in an N150's 12 GiB of DRAM: no change of placement helps.
HOPELESS = {"in": [[48, 32400, 32400]], "args": {"dim": -1}}
ADD = {"add": [{"shape": SMALL}, {"shape": LARGE}]}


def of_large(records):
    return next(r for r in records if r["inputs"][0] == LARGE)


def imported(suite):
    """Has the suite's process print, at its end, which modules of the remedy package it has imported."""
    text = "import sys\n\n\ndef pytest_terminal_summary(terminalreporter):\n"
    text += "    found = {name for name in sys.modules if name.startswith('ssinghal.remedy.')} - {'ssinghal.remedy.probing'}\n"
    text += "    terminalreporter.write_line(f'of remedies: {len(found)}')\n"
    (suite.folder / "conftest.py").write_text(CONFTEST + text)


@pytest.mark.virtual_device
@pytest.mark.parametrize("how", [["--oom-remedies"], ["--oom-remedies", "-n", "2"], []], ids=["option", "xdist", "ini"])
def test_a_skip_and_its_record_name_what_fits(tmp_path, how):
    suite = Suite(tmp_path, ADD, {"test_add.py": operator_module("add")})
    if not how:
        (tmp_path / "pytest.ini").write_text("[pytest]\noom_remedies = true\n")

    code, output = suite.run(*how)

    assert code == 0, output
    assert f"SKIPPED [1] test_add.py:8: {LACKS}; {IN_PLACE}" in output.splitlines()
    assert "1 case out of memory, by the first remedy that fits: same tensor 1" in output
    assert suite.info["options"]["remedies"] is True
    assert sum("remedies" in r for r in suite.records) == 1
    kept = of_large(suite.records)["remedies"]
    in_place, dram, pieces = kept["found"]
    assert (in_place["contract"], in_place["lever"]) == ("same tensor", "in place")
    assert in_place["peak_bytes_per_bank"] == {"l1": 2 * TENSOR}
    assert in_place["moved_bytes"] == 3 * 64 * TENSOR  # two operands read, one written
    assert (dram["contract"], dram["peak_bytes_per_bank"]) == ("other memory", {"dram": 3 * DRAM_TENSOR})
    assert (pieces["contract"], pieces["peak_bytes_per_bank"]["l1"]) == ("chunked", 3 * PIECE)
    assert "2 pieces" in pieces["note"]
    assert [found["values"] for found in kept["found"]] == ["the same call", "the same call", "values not compared"]
    assert kept["probes"] == sum(found["probes"] for found in (*kept["found"], *kept["refused"]))


@pytest.mark.virtual_device
def test_without_the_option_nothing_of_it_is_imported(tmp_path):
    suite = Suite(tmp_path, ADD, {"test_add.py": operator_module("add")})
    imported(suite)

    code, output = suite.run()

    assert code == 0, output
    assert "of remedies: 0" in output.splitlines()
    assert f"SKIPPED [1] test_add.py:8: {LACKS}" in output.splitlines()
    assert not any("remedies" in record for record in suite.records)
    assert suite.info["options"]["remedies"] is False


@pytest.mark.virtual_device
def test_a_call_without_a_remedy_is_reported(tmp_path):
    suite = Suite(tmp_path, {"softmax": [HOPELESS]}, {"test_softmax.py": operator_module("softmax")}, memory="dram")

    code, output = suite.run("--oom-remedies")

    assert code == 0, output
    (record,) = suite.records
    assert record["remedies"]["found"] == []
    assert all(refused["reason"] for refused in record["remedies"]["refused"])
    assert all(refused["probes"] == 0 for refused in record["remedies"]["refused"])
    ruled_out = len(record["remedies"]["refused"])
    assert f"(input 1); no remedy: {ruled_out} not tried (impossible by arithmetic, or too slow here)" in output
    assert "by the first remedy that fits: none found 1" in output


# A conftest by which the workers of this process die, instead of running a trial in place.
DEADLY = """
import os, signal
from dataclasses import dataclass

import ssinghal.remedy.device_pools
from ssinghal.remedy.trial_runner import TrialTask

@dataclass(frozen=True)
class Deadly(TrialTask):
    def run(self, session, options):
        if self.trial.rewrite == "in place":
            os.kill(os.getpid(), signal.SIGSEGV)
        return super().run(session, options)

ssinghal.remedy.device_pools.TrialTask = Deadly
"""


@pytest.mark.virtual_device
def test_a_trial_that_crashes_costs_itself(tmp_path):
    suite = Suite(tmp_path, {**ADD, "relu": [{"shape": SMALL}]}, {f"test_{n}.py": operator_module(n) for n in ("add", "relu")})
    (tmp_path / "deadly.py").write_text(DEADLY)
    (tmp_path / "conftest.py").write_text(CONFTEST + "import deadly\n")

    code, output = suite.run("--oom-remedies", "--oom-workers", "1", PYTHONPATH=str(tmp_path))

    assert code == 0, output
    kept = of_large(suite.records)["remedies"]
    crashed = next(refused for refused in kept["refused"] if refused["lever"] == "in place")
    assert "SIGSEGV" in crashed["reason"]
    assert kept["found"][0]["lever"] == "operands from DRAM"
    assert f"{LACKS}; remedy, same tensor: operands from DRAM" in output
    assert [r["status"] for r in suite.records] == ["fits", "oom", "fits"]


def run_catalog(folder, *arguments):
    (folder / "catalog.yaml").write_text(catalog_text(ADD))
    command = [sys.executable, "-m", "ssinghal", "run", "catalog.yaml", *arguments]
    return subprocess.Popen(command, cwd=folder, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


@pytest.mark.virtual_device
def test_a_run_outside_pytest_keeps_the_same(tmp_path):
    process = run_catalog(tmp_path, "--remedies")
    out, err = process.communicate(timeout=180)

    assert process.returncode == 0, err
    assert "1 case out of memory, by the first remedy that fits: same tensor 1" in out
    run = read_run(tmp_path / "results" / "latest")
    assert run.losses == ()
    failing = next(r for r in run.records if r.is_oom)
    assert failing.remedies is not None
    assert str(failing.remedies) == IN_PLACE
    assert [working.values for working in failing.remedies.found] == [
        ValueComparison.SAME_CALL,
        ValueComparison.SAME_CALL,
        ValueComparison.NOT_COMPARED,
    ]
    written = json.loads((tmp_path / "results" / "latest" / "run.json").read_text())
    assert written["options"]["remedies"] is True
    kept = of_large(map(json.loads, (run.path / "records.jsonl").read_text().splitlines()))["remedies"]
    assert json.loads(json.dumps(plain(failing.remedies))) == kept


@pytest.mark.virtual_device
def test_an_interrupted_run_still_has_a_record_for_each_case(tmp_path):
    process = run_catalog(tmp_path, "--remedies")
    wait_for(lambda: bool(list(tmp_path.glob("results/*/records.jsonl"))), "the run's folder")
    os.kill(process.pid, signal.SIGINT)
    process.communicate(timeout=60)

    assert process.returncode == 130
    assert len(read_run(tmp_path / "results" / "latest").records) == 2
