"""``ssinghal run``: every selected case has its record, in the plugin's form, however the run ends."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.support.processes import (
    UNMAPPED,
    Suite,
    all_ended,
    as_in_the_foreground,
    catalog_text,
    operator_module,
    read_lines,
    wait_for,
    workers_of,
)
from tests.support.run_builder import write_run

PROGRAM = [sys.executable, "-m", "ssinghal"]

SMALL, LARGE = [1, 32, 64], [1, 64, 640, 400]
# TTNN maps 2,097,152 tiles on the host for it: seconds of work.
SLOW = {"in": [[1, 8192, 8192]], "args": {"dim": -1}}
OPERATORS = {
    "add": [{"shape": SMALL}, {"shape": LARGE}],
    "relu": [{"shape": SMALL}, {"shape": LARGE}, {"shape": [1, 32, 96]}],
    "as_strided": [{"in": [SMALL], "args": {"size": [32], "stride": [1]}}],
}


class Run:
    """``ssinghal run`` on one catalog, in a separate folder."""

    def __init__(self, folder: Path, operators: dict[str, list[dict[str, Any]]], memory: str = "l1") -> None:
        self.folder = folder
        (folder / "catalog.yaml").write_text(catalog_text(operators, memory=memory))

    def start(self, *arguments: str, **environ: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [*PROGRAM, "run", "catalog.yaml", *arguments],
            cwd=self.folder,
            env={**os.environ, **environ},
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
            preexec_fn=as_in_the_foreground,
        )

    def __call__(self, *arguments: str, **environ: str) -> tuple[int, str, str]:
        process = self.start(*arguments, **environ)
        out, err = process.communicate(timeout=180)
        assert "Traceback" not in err
        return process.returncode, out, err

    @property
    def latest(self) -> Path:
        return self.folder / "results" / "latest"

    @property
    def records(self) -> list[dict[str, Any]]:
        return read_lines(self.latest / "records.jsonl")

    @property
    def info(self) -> dict[str, Any]:
        return dict(json.loads((self.latest / "run.json").read_text()))

    def statuses(self) -> Counter[str]:
        records = self.records
        assert len({(r["op"], r["key"]) for r in records}) == len(records), "a case has two records"
        return Counter(r["status"] for r in records)


@pytest.mark.virtual_device
def test_a_run_and_its_folder(tmp_path):
    run = Run(tmp_path, OPERATORS)
    code, out, err = run("--workers", "1")

    assert code == 0, err
    assert run.statuses() == {"fits": 4, "oom": 1, "unsupported": 1}
    info = run.info
    assert (info["selected"], info["totals"], info["unreached"]) == (6, {"fits": 4, "oom": 1, "unsupported": 1}, 0)
    assert info["finished"] >= info["started"]
    assert (info["device"]["mode"], info["device"]["board"]) == ("virtual", "n150")
    assert (info["options"]["catalogs"], info["options"]["workers"]) == (["catalog.yaml"], 1)
    assert {r["run"] for r in run.records} == {info["run"]} == {run.latest.resolve().name}
    assert {p.name for p in run.latest.iterdir()} == {"run.json", "records.jsonl", "summary.txt"}

    lines = out.splitlines()
    assert lines[:-1] == (run.latest / "summary.txt").read_text().splitlines()
    assert lines[0] == f"run {info['run']}: 6 of 6 selected cases recorded"
    assert lines[-1] == f"records: results/{info['run']}/records.jsonl"
    # 532,480 - 328,352 B, as probe states them
    words = "L1 bank needs 532,480 B, 328,352 B free (output); short by 199.3 KiB (204,128 B) per bank"
    assert f"oom: add {next(r['id'] for r in run.records if r['status'] == 'oom')}: {words}" in lines
    path = f"results/{info['run']}"
    assert f"all cases out of memory: ssinghal report {path}; what makes them fit: ssinghal remedy --run {path}" in lines
    assert err.splitlines()[-1].startswith("probing: 6 of 6 (100 %) after ")
    assert err.splitlines()[-1].endswith(" s: fits 4, oom 1, other 1")
    # the largest goes first: three tensors of [1, 640, 400, 64], then two of them
    assert [(r["op"], r["inputs"][0]) for r in run.records[:2]] == [("add", LARGE), ("relu", LARGE)]


@pytest.mark.virtual_device
def test_on_a_terminal_a_bar_counts_verdicts(tmp_path):
    Run(tmp_path, OPERATORS)
    terminal, theirs = pty.openpty()
    with subprocess.Popen([*PROGRAM, "run", "catalog.yaml"], cwd=tmp_path, stderr=theirs, stdout=subprocess.PIPE) as process:
        os.close(theirs)
        shown = b""
        with contextlib.suppress(OSError):  # how a terminal ends that nobody has open any more
            while chunk := os.read(terminal, 4096):
                shown += chunk
        assert process.stdout is not None
        assert b"6 of 6 selected cases recorded" in process.stdout.read()
    os.close(terminal)
    assert process.returncode == 0
    assert b"6/6" in shown
    assert b"fits 4, oom 1, other 1" in shown
    assert b"after" not in shown  # no plain lines as well


@pytest.mark.virtual_device
def test_records_have_the_form_of_the_plugins(tmp_path):
    """The same cases through pytest: records differ in run, test and time only."""
    (tmp_path / "suite").mkdir()
    suite = Suite(tmp_path / "suite", OPERATORS, {f"test_{name}.py": operator_module(name) for name in OPERATORS})
    code, output = suite.run()
    assert code == 0, output
    run = Run(tmp_path, OPERATORS)
    run()
    (tmp_path / "catalog.yaml").rename(tmp_path / "other.yaml")  # sources name the catalog, not its folder

    def comparable(records: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
        own = ("run", "test", "duration_s")
        return {f"{r['op']} {r['id']}": {k: v for k, v in r.items() if k not in own} for r in records}

    assert comparable(run.records) == comparable(suite.records)
    assert all("test" not in r for r in run.records)


@pytest.mark.virtual_device
@pytest.mark.parametrize(
    ("arguments", "selected"),
    [
        (["--op", "add", "--op", "ReLU", "--max-bytes", "4096"], {"add 1x32x64+1x32x64", "relu 1x32x64"}),  # 32 * 64 bf16
        (["--op", "relu", "--sample", "2"], {"relu 1x32x64", "relu 1x64x640x400"}),
        (["--memory", "dram", "--op", "as_strided"], {"as_strided 1x32x64-size=32-stride=1"}),
    ],
)
def test_selection_and_json(tmp_path, arguments, selected):
    run = Run(tmp_path, OPERATORS)
    code, out, err = run("--json", *arguments)
    summary = json.loads(out)
    memory = "dram" if "--memory" in arguments else "l1"
    assert code == 0, err
    assert {f"{r['op']} {r['id']}" for r in run.records} == {f"{name}-{memory}-nhwc" for name in selected}
    assert (summary["selected"], sum(summary["totals"].values())) == (len(selected), len(selected))
    assert (summary["run"], summary["folder"]) == (run.info["run"], f"results/{run.info['run']}")
    assert (summary["faults"], summary["left_out"]) == ([], {"lines": 0, "calls": 0})


@pytest.mark.virtual_device
def test_calls_without_an_operator_are_counted(tmp_path):
    run = Run(tmp_path, OPERATORS)
    (tmp_path / "catalog.yaml").write_text(UNMAPPED)
    code, out, _ = run()
    assert code == 0
    note = "left out: 5 captured calls in 2 catalog lines without an operator (ssinghal operators --missing)"
    assert note in out.splitlines()
    assert note in (run.latest / "summary.txt").read_text().splitlines()
    assert json.loads(run("--json")[1])["left_out"] == {"lines": 2, "calls": 5}


@pytest.mark.virtual_device
def test_a_slow_case_costs_its_time_and_a_dying_worker_its_case(tmp_path):
    """One call takes seconds of host work and may take two; the worker of another one is killed. Both are named with the
    cause, the rest runs."""
    slow = [{**SLOW, "in": [[1, 8192, 10240 + 32 * n]]} for n in range(2)]
    run = Run(tmp_path, {"unsqueeze": slow, "relu": OPERATORS["relu"]}, memory="dram")
    process = run.start("--host-tiles", "99999999", "--timeout", "2", "--workers", "2")
    wait_for(lambda: len(workers_of(process.pid)) == 2, "two workers")
    os.kill(workers_of(process.pid)[0], signal.SIGSEGV)
    out, err = process.communicate(timeout=120)

    assert process.returncode == 1, err
    assert run.info["totals"] == run.statuses() == {"fits": 3, "timeout": 2}  # each lost case is repeated alone
    lines = out.splitlines()
    late = "no answer within 2 s of processor time"
    assert len([x for x in lines if x.startswith("timeout: unsqueeze 1x8192x") and x.endswith(f": {late}")]) == 2
    first = sorted(record["retried"].partition(";")[0] for record in run.records if record["status"] == "timeout")
    assert first == ["crash: the process that ran the call ended with SIGSEGV", f"timeout: {late}"]
    assert "2 cases answered at the second attempt, alone: the process of the first was lost" in lines
    assert "Traceback" not in err


@pytest.mark.virtual_device
def test_costly_host_work_is_not_run_and_the_reason_is_given(tmp_path):
    run = Run(tmp_path, {"unsqueeze": [SLOW], "relu": [{"shape": SMALL}]}, memory="dram")
    code, out, _ = run()
    assert code == 0
    assert run.statuses() == {"fits": 1, "not_run": 1}
    assert (run.info["unreached"], "interrupted" in out) == (0, False), "the run reached the case"
    # a tile for each of the values' rows: 8192 * 8192 / 32
    reason = "TTNN maps 2,097,152 tiles on the host for this call; more than 200,000 are not tried"
    assert f"not_run: unsqueeze 1x8192x8192-dim=-1-dram-nhwc: {reason}" in out.splitlines()


@pytest.mark.virtual_device
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_run_that_is_ended_accounts_for_every_case(tmp_path, number):
    run = Run(tmp_path, {"relu": OPERATORS["relu"], "unsqueeze": [SLOW]}, memory="dram")
    process = run.start("--host-tiles", "99999999", "--workers", "2")
    records = run.latest / "records.jsonl"
    wait_for(lambda: records.exists() and len(records.read_text().splitlines()) == 3, "the quick cases")
    workers = workers_of(process.pid)
    assert len(workers) == 2

    os.killpg(process.pid, number)  # as a terminal does: the workers get it too
    out, err = process.communicate(timeout=60)

    if number == signal.SIGKILL:
        assert run.statuses() == {"fits": 3}
        assert (run.info["selected"], run.info["finished"]) == (4, None)
    else:
        assert process.returncode == 128 + number
        assert run.statuses() == {"fits": 3, "not_run": 1}
        assert (run.info["totals"], run.info["unreached"]) == ({"fits": 3, "not_run": 1}, 1)
        interruption = "interrupted: 1 of 4 cases were not run"
        assert out.splitlines()[0] == f"run {run.info['run']}: 3 of 4 selected cases were run; {interruption}"
        assert f"not_run: unsqueeze 1x8192x8192-dim=-1-dram-nhwc: the run ended before it: {number.name}" in out.splitlines()
        assert "Traceback" not in err
        assert f"complete it with: ssinghal run --resume results/{run.info['run']}" in out.splitlines()
        assert "of 4 (75 %)" in err.splitlines()[-1], "cases that were not run are no progress"
        assert err.splitlines()[-1].endswith("fits 3, oom 0, other 0")
        for path in documents_of(run):
            assert interruption in path.read_text(), path.name
        complete = write_run(tmp_path, [{**r, "status": "fits", "message": ""} for r in run.records])
        compared = subprocess.run(
            [*PROGRAM, "compare", str(complete), str(run.latest)], cwd=tmp_path, text=True, capture_output=True, check=False
        )
        assert f"{run.info['run']}: {interruption}" in compared.stdout
        assert "lost-fit" in compared.stdout
    wait_for(lambda: all_ended(workers), "the end of the device processes")


def documents_of(run: Run) -> list[Path]:
    """All files of its report but the table of failures, and the text of its summary."""
    subprocess.run([*PROGRAM, "report", "latest"], cwd=run.folder, check=True, capture_output=True)
    documents = [path for path in (run.latest / "report").rglob("*") if path.suffix in (".md", ".html", ".json")]
    assert {path.suffix for path in documents} == {".md", ".html", ".json"}
    return [*documents, run.latest / "summary.txt"]


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["--op", "rleu"], "ssinghal: unknown operator 'rleu'; did you mean"),
        (["--op", "silu"], "ssinghal: no case is selected from catalog.yaml by --op silu"),
        (["--op", "add", "--max-bytes", "1"], "ssinghal: no case is selected from catalog.yaml by --op add --max-bytes 1"),
        (["--memory", "dam"], "ssinghal: unknown memory 'dam'; did you mean dram?"),
        (["--board", "n15"], "ssinghal: unknown board 'n15'; did you mean n150, p150?"),
        (["mochee"], "ssinghal: unknown catalog 'mochee'; did you mean mochi?"),
        (["--sample", "0"], "ssinghal: Invalid value for '--sample': 0 is not in the range x>=1."),
        (
            ["--timeout", "1e300"],
            "ssinghal: Invalid value for '--timeout': expected a number of seconds above 0 and up to 1,000,000",
        ),
        (["--results", "catalog.yaml/x"], "ssinghal: cannot write results to catalog.yaml/x/"),
    ],
)
def test_bad_use_is_one_line_and_writes_nothing(tmp_path, arguments, line):
    run = Run(tmp_path, OPERATORS)
    code, out, err = run(*arguments)
    assert (code, out) == (2, "")
    assert err.splitlines()[-1].startswith(line)
    assert not (tmp_path / "results").exists()
