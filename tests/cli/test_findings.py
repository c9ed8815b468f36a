"""Runs with findings exit alike, by the words of the help, however they came about: at once, resumed, in parts, merged, swept,
or through pytest."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ssinghal.core.verdict import Status
from tests.cli.test_run import SLOW, Run
from tests.support.processes import Suite, operator_module, read_lines

# The last one takes seconds, and its limit is one. Part 1 of 2 has some cases, and part 2 the others.
OPERATORS: dict[str, list[dict[str, Any]]] = {"relu": [{"shape": [1, 32, 32 * n]} for n in range(1, 7)], "unsqueeze": [SLOW]}
LIMITS = ("--timeout", "1", "--host-tiles", "99999999", "--workers", "1")
FINDINGS = ("error", "mismatch", "crash", "timeout", "leak")
NO_FINDINGS = sorted(set(Status) - {*FINDINGS, Status.AGREES})  # that one only without a device


def program(folder: Path, *arguments: str) -> tuple[int, str]:
    command = [sys.executable, "-m", "ssinghal", *arguments]
    done = subprocess.run(command, cwd=folder, text=True, capture_output=True, timeout=240)
    assert "Traceback" not in done.stderr
    return done.returncode, done.stdout


@pytest.mark.parametrize("command", ["run", "sweep"])
def test_the_help_names_the_findings(run, command):
    text = " ".join(run(command, "--help").out.split())
    found = re.findall(r"Exit code 0 no finding, 1 an ([a-z, ]+), 2 bad input", text)
    assert found == ["error, mismatch, crash, timeout or leak"]


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A complete run without findings."""
    run = Run(tmp_path_factory.mktemp("good"), {"relu": OPERATORS["relu"]})
    code, _, err = run()
    assert code == 0, err
    return run.folder


def with_status(folder: Path, status: str) -> None:
    """Gives the last record of the run another end; its device was open."""
    path = folder / "results" / "latest" / "records.jsonl"
    *lines, last = read_lines(path)
    last |= {"left_allocated": {"l1": 64}} if status == "leak" else {"status": status}
    path.write_text("".join(json.dumps(line) + "\n" for line in [*lines, last]))


@pytest.mark.virtual_device
@pytest.mark.parametrize("is_finished", [True, False])
@pytest.mark.parametrize("status", [*FINDINGS, *NO_FINDINGS])
def test_a_run_in_which_each_case_has_an_answer(run, good, tmp_path, status, is_finished):
    """``run --resume``, which opens no device then, and ``merge`` of that run alone."""
    shutil.copytree(good, tmp_path, symlinks=True, dirs_exist_ok=True)
    with_status(tmp_path, status)
    head = tmp_path / "results" / "latest" / "run.json"
    if not is_finished:
        head.write_text(json.dumps({**json.loads(head.read_text()), "finished": None}))
    expected = int(status in FINDINGS)
    done = run("run", "--resume", "latest")
    assert done.code == expected, done
    first = "6 of 6 selected cases recorded; resumed" if not is_finished else "is complete: 6 cases have a record"
    assert first in done.out.splitlines()[0]
    done = run("run", "--resume", "latest", "--json")
    assert done.code == expected
    found = json.loads(done.out)
    assert (found["selected"], sum(found["totals"].values()), len(found["faults"])) == (6, 6, expected)
    assert run("merge", "results/latest", "--results", "merged").code == expected


@pytest.mark.virtual_device
@pytest.mark.parametrize("has_report", [False, True])
def test_after_a_resume_the_report_of_the_run_is_older(run, good, tmp_path, has_report):
    shutil.copytree(good, tmp_path / "a b", symlinks=True, dirs_exist_ok=True)
    path = (tmp_path / "a b" / "results" / "latest").resolve()
    head = (path / "run.json").read_text()
    if has_report:
        assert run("report", str(path)).code == 0
    line = f"older than these records: {path}/report; make it again with: ssinghal report '{path}'"
    for flags in ([], ["--json"]):
        (path / "run.json").write_text(json.dumps({**json.loads(head), "finished": None}))
        done = run("run", "--resume", str(path), *flags)
        assert (done.code, done.out.count(line) + done.err.count(line)) == (0, int(has_report))
        assert line not in (path / "summary.txt").read_text()  # where it would stay after the next report
        if flags:
            json.loads(done.out)
    assert line not in run("run", "--resume", str(path)).out  # nothing was added


@pytest.mark.virtual_device
def test_a_case_that_exceeds_its_time(tmp_path):
    """One finding, in one of two parts: their runs, resumed when complete and when a line is lost, merged, swept twice."""
    run = Run(tmp_path, OPERATORS, memory="dram")
    codes = {}
    for part in ("1/2", "2/2"):
        codes[part], _, err = run(*LIMITS, "--shard", part, "--results", part[0])
        latest = tmp_path / part[0] / "latest"
        has_finding = "timeout" in {record["status"] for record in read_lines(latest / "records.jsonl")}
        assert codes[part] == int(has_finding), err
        resume = ("run", "--resume", str(latest))
        assert program(tmp_path, *resume)[0] == codes[part]
        fits = [r for r in read_lines(latest / "records.jsonl") if r["status"] == "fits"]
        rest = [r for r in read_lines(latest / "records.jsonl") if r["status"] != "fits"]
        (latest / "records.jsonl").write_text("".join(json.dumps(record) + "\n" for record in [*rest, *fits[1:]]))
        assert program(tmp_path, *resume)[0] == codes[part]
    assert sorted(codes.values()) == [0, 1]
    assert program(tmp_path, "merge", "1/latest", "2/latest")[0] == 1
    code, out = program(tmp_path, "run", "--resume", "latest")
    assert (code, out.count("\n")) == (1, 1)
    sweep = ("sweep", "catalog.yaml", *LIMITS, "--results", "swept")
    for taken in (0, 6):
        code, out = program(tmp_path, *sweep, "--json")
        rows = json.loads(out)["parts"][0]["rows"]
        assert (code, sum(row["taken"] for row in rows)) == (1, taken)


@pytest.mark.virtual_device
def test_pytest_fails_again_for_what_is_not_taken(tmp_path):
    suite = Suite(tmp_path, OPERATORS, {f"test_{name}.py": operator_module(name) for name in OPERATORS}, memory="dram")
    limits = ("--oom-timeout=1", "--oom-host-tiles=99999999", "--oom-incremental")
    for _ in range(2):
        code, output = suite.run(*limits)
        assert code == 1, output
        assert suite.info["totals"] == {"fits": 6, "timeout": 1}
