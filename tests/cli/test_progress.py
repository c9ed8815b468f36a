"""What long commands show on standard error while they work."""

from __future__ import annotations

import re
import signal
import subprocess
import textwrap
from pathlib import Path

import pytest

from ssinghal.capacity.parameters import Goal
from ssinghal.cli.plan_run import _Shown
from ssinghal.cli.progress import TrialProgress
from ssinghal.core.verdict import Status
from ssinghal.plan.capacity import ModelRun
from tests.cli.test_terminal import PROGRAM
from tests.support.packages import needs_torch
from tests.support.processes import catalog_text
from tests.support.terminals import shown_on_a_terminal

MODELS = """
    import torch

    class Model(torch.nn.Module):
        def forward(self, x): return x.abs()

    def own(): return Model(), torch.empty(46, 8192, 8192)
"""
SHAPES = [{"shape": [1, size, 32]} for size in (32, 64, 96)]
SEARCH = ["plan", "mine:own", "--max", "batch", "--board", "n150"]


@pytest.fixture
def _model(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("mine.py").write_text(textwrap.dedent(MODELS))


@needs_torch
@pytest.mark.usefixtures("_model")
@pytest.mark.virtual_device
def test_a_terminal_gets_each_run_of_a_search_and_standard_output_only_the_answer():
    """47 is the largest batch that fits, see ``tests/plan/test_edges.py``; arithmetic rules out those beyond 48."""
    out, err = shown_on_a_terminal([*PROGRAM, *SEARCH])
    verdicts = re.findall(r"^port v2 n150 batch (\d+): (\w+)", err, re.MULTILINE)
    assert verdicts == [("46", "fits"), ("47", "fits"), ("48", "oom")]
    left = [int(n) for n in re.findall(r"batch 4\d \(runs left: at most (\d+)\)", err)]
    assert sorted(set(left), reverse=True) == list(dict.fromkeys(left)), "fewer with each run"
    assert left[-1] == 1
    assert out.startswith("mine:own, largest batch on n150, policy port v2: 47, not 48\n")
    assert "left" not in out


def test_without_a_terminal_each_trial_gets_a_line(monkeypatch, capsys):
    seconds = iter([100.0, 100.0, 131.0, 140.0])
    monkeypatch.setattr("ssinghal.cli.progress.time.monotonic", lambda: next(seconds))
    with TrialProgress() as progress:
        progress.starts("batch 1", 9)
        progress.ended("fits")
        progress.starts("batch 2", 8)
        progress.ended("fits, peak 3.0 %")
        progress.starts("batch 4", 7)
        progress.ended("oom")
    assert capsys.readouterr().err.splitlines() == [
        "searching: now batch 1 (runs left: at most 9) after 0 s",
        "searching: batch 1: fits; now batch 2 (runs left: at most 8) after 31 s",
        "searching: batch 2: fits, peak 3.0 %; now batch 4 (runs left: at most 7) after 40 s",
    ]


@needs_torch
@pytest.mark.virtual_device
def test_a_search_shows_lines_without_a_terminal(run, tmp_path):
    (tmp_path / "mine.py").write_text(textwrap.dedent(MODELS))
    lines = run(*SEARCH).err.splitlines()
    pattern = r"searching: (?:(.*); )?now port v2 n150 batch (\d+) \(runs left: at most \d+\) after \d+ s"
    found = [re.fullmatch(pattern, line) for line in lines]
    assert [one and one[2] for one in found] == ["46", "47", "48"]
    assert found[2] is not None
    assert found[2][1].startswith("port v2 n150 batch 47: fits, peak ")


@needs_torch
@pytest.mark.usefixtures("_model")
@pytest.mark.virtual_device
@pytest.mark.parametrize(
    ("number", "end", "more", "during", "found"),
    [
        (
            signal.SIGINT,
            "ssinghal: interrupted",
            ["-o", "runs.jsonl"],
            47,
            "46 fits; the same command continues from runs.jsonl",
        ),
        (signal.SIGTERM, "ssinghal: ended by SIGTERM", [], 48, "47 fits"),
        (signal.SIGINT, "ssinghal: interrupted", ["--json"], 46, "no run has ended"),
    ],
)
def test_a_search_that_is_interrupted_shows_its_bounds(tmp_path, number, end, more, during, found):
    """47 is the largest batch that fits, and 46 is run first."""
    process = subprocess.Popen(
        [*PROGRAM, *SEARCH, *more],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    assert process.stderr is not None
    shown = iter(process.stderr.readline, "")
    assert any(f" now port v2 n150 batch {during} " in line for line in shown)
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (128 + number, ""), err
    assert err.splitlines()[-2:] == [f"port v2 n150 batch: {found}", end]
    if "-o" in more:
        assert len((tmp_path / "runs.jsonl").read_text().splitlines()) == during - 46


def test_the_bounds_are_the_largest_that_fits_and_the_smallest_that_does_not(capsys):
    fits = {1: Status.FITS, 64: Status.OOM, 8: Status.FITS, 32: Status.OOM, 16: Status.ERROR}
    runs = [ModelRun((batch, 3, 9, 9), status, "", 0, 0.0, "") for batch, status in fits.items()]
    shown = _Shown(TrialProgress(), Goal.BATCH, "port n150", runs)
    with pytest.raises(KeyboardInterrupt), shown.bounds_if_interrupted(None):
        raise KeyboardInterrupt
    assert capsys.readouterr().err == "port n150 batch: 8 fits, 32 does not fit\n"
    with pytest.raises(ValueError, match="other"), shown.bounds_if_interrupted(None):
        raise ValueError("other")
    assert capsys.readouterr().err == ""


@pytest.mark.virtual_device
def test_a_run_shows_how_many_answers_are_taken_and_how_many_cases_are_probed(run, tmp_path):
    """Of gelu's two cases none is in the first run."""
    (tmp_path / "catalog.yaml").write_text(catalog_text({"relu": SHAPES, "gelu": SHAPES[:2]}))
    first = run("run", "catalog.yaml", "--op", "relu").err.splitlines()
    assert first[0] == "probing: 3 cases on virtual n150 in 2 processes"
    assert re.fullmatch(r"probing: 3 of 3 \(100 %\) after \d+ s: fits 3, oom 0, other 0", first[-1])

    second = run("run", "catalog.yaml", "--incremental", "--workers", "1").err.splitlines()
    assert second[0] == "probing: 2 of 5 cases on virtual n150 in 1 process; 3 answers are taken from earlier runs"
    assert re.fullmatch(r"probing: 4 of 5 \(80 %\) after \d+ s: fits 4, oom 0, other 0; taken 3, probed 1", second[1])
    assert re.fullmatch(r"probing: 5 of 5 \(100 %\) after \d+ s: fits 5, oom 0, other 0; taken 3, probed 2", second[2])

    swept = run("sweep", "catalog.yaml").err.splitlines()
    assert swept[1:] == ["probing: 0 of 5 cases on virtual n150 in 2 processes; 5 answers are taken from earlier runs"]

    command = [*PROGRAM, "run", "catalog.yaml", "--incremental", "--op", "relu"]
    _, err = shown_on_a_terminal(command, COLUMNS="150")
    assert "fits 3, oom 0, other 0; taken 3, probed 0" in err
    assert "opening virtual n150 in 2 processes" in err
    assert "selecting the cases" in err


@pytest.mark.virtual_device
def test_a_device_that_does_not_open_is_one_line(run, tmp_path):
    (tmp_path / "catalog.yaml").write_text(catalog_text({"relu": SHAPES}))
    done = run("run", "catalog.yaml", "--device", "silicon")
    assert (done.code, done.out, len(done.err.splitlines())) == (2, "", 1)
