"""``ssinghal run --resume``: a run that was killed, interrupted or out of disk becomes what it would have been."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ssinghal.runs.compressing import repack
from tests.cli.test_run import LARGE, SLOW, SMALL, Run
from tests.support.processes import as_in_the_foreground, catalog_text, read_lines, wait_for, workers_of

RELU = {"relu": [{"shape": [1, 32, 32 * n]} for n in range(1, 41)], "add": [{"shape": SMALL}, {"shape": LARGE}]}
CASES = 42
# So many that a run is in their middle when it is ended, however late that is noticed.
MANY = {**RELU, "relu": [{"shape": [1, 32, 32 * n]} for n in range(1, 601)]}
ALL = 602
OWN = ("run", "duration_s")


def answers(path: Path) -> dict[tuple[str, str], dict[str, Any]]:
    records = read_lines(path / "records.jsonl")
    found = {(r["op"], r["key"]): {k: v for k, v in r.items() if k not in OWN} for r in records}
    assert len(found) == len(records), "a case has two records"
    return found


@pytest.fixture(scope="module")
def uninterrupted_many(tmp_path_factory) -> Run:
    run = Run(tmp_path_factory.mktemp("uninterrupted_many"), MANY)
    code, _, err = run()
    assert code == 0, err
    return run


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory) -> Run:
    run = Run(tmp_path_factory.mktemp("uninterrupted"), RELU)
    code, _, err = run()
    assert code == 0, err
    return run


def same(run: Run, uninterrupted: Run) -> None:
    """But for its times it is the run that was never interrupted."""
    assert answers(run.latest) == answers(uninterrupted.latest)
    one, other = run.info, uninterrupted.info
    assert {name for name in one if one[name] != other[name]} <= {
        "run", "started", "finished", "resumed", "command", "options", "folder",
    }  # fmt: skip
    assert {r["run"] for r in run.records} == {one["run"]} == {run.latest.resolve().name}
    assert len(list((run.folder / "results").glob("2*Z"))) == 1


def answered_of(records: Path) -> int:
    return records.read_text().count('"device_mode": "virtual"') if records.exists() else 0


@pytest.mark.virtual_device
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT, signal.SIGHUP])
def test_a_run_that_was_ended_in_the_middle_twice(tmp_path, uninterrupted_many, number):
    run = Run(tmp_path, MANY)
    records = run.latest / "records.jsonl"
    process = run.start("--workers", "1")
    had = 0
    for _ in range(2):
        wait_for(lambda had=had: answered_of(records) > had + 2, "some new answers")
        os.killpg(process.pid, number)
        out, err = process.communicate(timeout=60)
        assert process.returncode == (-number if number == signal.SIGKILL else 128 + number), err
        assert had < answered_of(records) < ALL
        had = answered_of(records)
        process = subprocess.Popen(
            [sys.executable, "-m", "ssinghal", "run", "--resume", "latest"],
            cwd=tmp_path,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
            preexec_fn=as_in_the_foreground,
        )
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    same(run, uninterrupted_many)
    resumed = run.info["resumed"]
    assert len(resumed) == 2
    assert out.splitlines()[0] == f"run {run.info['run']}: 602 of 602 selected cases recorded; resumed {', '.join(resumed)}"
    assert out.splitlines()[:-1] == (run.latest / "summary.txt").read_text().splitlines()
    assert (run.info["totals"], run.info["unreached"]) == ({"fits": 601, "oom": 1}, 0)
    assert f"of {ALL - had} (100 %)" in err.splitlines()[-1], "only what was left was run"

    before = {path.name: path.read_bytes() for path in run.latest.iterdir()}
    again = subprocess.run(
        [sys.executable, "-m", "ssinghal", "run", "--resume", run.info["run"][:12]],
        cwd=tmp_path,
        text=True,
        capture_output=True,
    )
    assert (again.returncode, again.stdout) == (
        0,
        f"run {run.info['run']}, started {run.info['started']}, is complete: 602 cases have a record\n",
    ), again.stderr
    assert {path.name: path.read_bytes() for path in run.latest.iterdir()} == before


@pytest.mark.virtual_device
def test_a_run_whose_disk_was_full(tmp_path, uninterrupted):
    """The file may not grow beyond the limit, in the middle of a record, as records have about 2 KB."""
    limit = 20_000
    run = Run(tmp_path, RELU)
    done = subprocess.run(
        [sys.executable, "-m", "ssinghal", "run", "catalog.yaml"],
        cwd=tmp_path,
        text=True,
        capture_output=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY)),
    )
    assert done.returncode == 2, done.stderr
    assert [x for x in done.stderr.splitlines() if not x.startswith("probing: ")] == [
        f"ssinghal: cannot write results/{run.info['run']}/records.jsonl: File too large"
    ]
    read_lines(run.latest / "records.jsonl")  # complete lines
    assert len((run.latest / "records.jsonl").read_bytes()) <= limit

    code, _, err = run_resume(run)
    assert code == 0, err
    same(run, uninterrupted)


def run_resume(run: Run, *arguments: str, which: str = "latest") -> tuple[int, str, str]:
    done = subprocess.run(
        [sys.executable, "-m", "ssinghal", "run", "--resume", which, *arguments], cwd=run.folder, text=True, capture_output=True
    )
    assert "Traceback" not in done.stderr
    return done.returncode, done.stdout, done.stderr


@pytest.fixture
def killed(tmp_path, uninterrupted) -> Run:
    """The first twenty records of the run, which lost the rest."""
    run = Run(tmp_path, RELU)
    original = uninterrupted.latest
    path = tmp_path / "results" / original.resolve().name
    path.mkdir(parents=True)
    (path.parent / "latest").symlink_to(path.name)
    lines = (original / "records.jsonl").read_bytes().splitlines(keepends=True)
    (path / "records.jsonl").write_bytes(b"".join(lines[:20]) + lines[20][:100])
    head = {**uninterrupted.info, "finished": None, "totals": {}, "folder": str(tmp_path)}
    (path / "run.json").write_text(json.dumps(head))
    return run


def unchanged(run: Run, before: dict[str, bytes]) -> bool:
    return {path.name: path.read_bytes() for path in run.latest.iterdir()} == before


@pytest.mark.virtual_device
def test_a_killed_run_with_other_workers_and_another_timeout(killed, uninterrupted):
    code, out, err = run_resume(killed, "--workers", "1", "--timeout", "60", "--json")
    assert code == 0, err
    same(killed, uninterrupted)
    summary = json.loads(out)
    assert (summary["selected"], summary["totals"]) == (42, {"fits": 41, "oom": 1})


@pytest.mark.virtual_device
def test_a_killed_run_that_was_compressed(killed, uninterrupted):
    repack(killed.latest.resolve())
    code, _, err = run_resume(killed)
    assert code == 0, err
    same(killed, uninterrupted)
    assert sorted(path.name for path in killed.latest.iterdir()) == ["records.jsonl", "run.json", "summary.txt"]
    repack(killed.latest.resolve())
    code, out, err = run_resume(killed)
    assert (code, out) == (
        0,
        f"run {killed.info['run']}, started {killed.info['started']}, is complete: 42 cases have a record\n",
    ), err


@pytest.mark.virtual_device
def test_a_killed_run_is_completed_from_any_folder(killed, uninterrupted, tmp_path_factory):
    assert uninterrupted.info["folder"] == str(uninterrupted.folder), "as the command writes it"
    elsewhere = Run(tmp_path_factory.mktemp("elsewhere"), {"relu": [{"shape": SMALL}]})  # another catalog of that name
    code, _, err = run_resume(elsewhere, which=str(killed.latest))
    assert code == 0, err
    same(killed, uninterrupted)
    assert not (elsewhere.folder / "results").exists()


@pytest.mark.virtual_device
def test_a_run_of_which_only_the_end_is_missing_opens_no_device(killed, uninterrupted):
    (killed.latest / "records.jsonl").write_bytes((uninterrupted.latest / "records.jsonl").read_bytes())
    code, out, err = run_resume(killed)
    assert (code, err) == (0, "")
    assert out.splitlines()[0].startswith(f"run {killed.info['run']}: 42 of 42 selected cases recorded; resumed ")
    assert "host memory" not in out + (killed.latest / "summary.txt").read_text()
    assert "host memory of the largest device process: " in (uninterrupted.latest / "summary.txt").read_text()
    same(killed, uninterrupted)


@pytest.mark.virtual_device
def test_a_run_that_was_killed_before_its_first_record(killed, uninterrupted):
    """Between run.json, which states no device yet, and records.jsonl; the link to it comes later."""
    folder = killed.latest.resolve()
    killed.latest.unlink()
    (folder / "records.jsonl").unlink()
    head = json.loads((folder / "run.json").read_text())
    (folder / "run.json").write_text(json.dumps({**head, "device": {}, "answerer": ""}))
    code, _, err = run_resume(killed, which=folder.name)
    assert code == 0, err
    same(killed, uninterrupted)


@pytest.mark.virtual_device
def test_records_of_a_device_that_did_not_open_are_replaced(killed, uninterrupted):
    lost = {**json.loads(killed_lines(killed)[0]), "status": "error", "stage": "device", "decided_by": "harness"}
    (killed.latest / "records.jsonl").write_text("".join([json.dumps(lost) + "\n", *killed_lines(killed)[1:20]]))
    code, _, err = run_resume(killed)
    assert code == 0, err
    same(killed, uninterrupted)


def killed_lines(run: Run) -> list[str]:
    return (run.latest / "records.jsonl").read_text().splitlines(keepends=True)


@pytest.mark.virtual_device
def test_what_differs_is_named_and_nothing_is_changed(killed):
    original, lines = killed.info, (killed.latest / "records.jsonl").read_text()
    for changes, text in (
        ({"answerer": "0" * 64}, "it was answered by the same device, but other code or limits (ssinghal "),
        (
            {"answerer": "0" * 64, "device": {**original["device"], "ttnn": "0.0.1"}},
            f"it was answered by ttnn 0.0.1, and here {original['device']['ttnn']}",
        ),
    ):
        (killed.latest / "run.json").write_text(json.dumps({**original, **changes}))
        then, here = (f'"ttnn": "{one["device"]["ttnn"]}"' for one in (killed.info, original))
        (killed.latest / "records.jsonl").write_text(lines.replace(here, then))
        before = {path.name: path.read_bytes() for path in killed.latest.iterdir()}
        code, out, err = run_resume(killed)
        assert (code, out, err.count("\n")) == (2, "", 1)
        assert err.startswith(f"ssinghal: run {original['run']} cannot be resumed here: {text}")
        assert unchanged(killed, before)


@pytest.mark.virtual_device
def test_changed_catalogs_are_refused(killed, run):
    before = {path.name: path.read_bytes() for path in killed.latest.iterdir()}
    lines = {**RELU, "add": RELU["add"][:1]}
    (killed.folder / "catalog.yaml").write_text(catalog_text(lines))
    code, out, err = run("run", "--resume", "latest")
    line = "its catalogs have changed; it selected 42 cases, and its options now select 41 cases"
    assert (code, out, err) == (2, "", f"ssinghal: run {killed.info['run']} cannot be resumed: {line}\n")
    (killed.folder / "catalog.yaml").unlink()
    code, out, err = run("run", "--resume", "latest")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert unchanged(killed, before)


@pytest.mark.virtual_device
@pytest.mark.parametrize(
    ("arguments", "left_out"),
    [
        (["catalog.yaml"], "a catalog"),
        (["--op", "add"], "--op"),
        (["--board", "n150"], "--board"),
        (["--shard", "1/1"], "--shard"),
        (["--host-tiles", "9"], "--host-tiles"),
        (["--remedies"], "--remedies"),
        (["--device", "auto"], "--device"),
    ],
)
def test_another_option_is_refused(killed, run, arguments, left_out):
    line = (
        f"--resume takes the options of the run, except --scheduler, --cluster, --timeout and --workers: leave out {left_out}"
    )
    assert run("run", "--resume", "latest", *arguments) == (2, "", f"ssinghal: {line}\n")


@pytest.mark.virtual_device
def test_a_run_in_progress_is_refused(tmp_path):
    run = Run(tmp_path, {"unsqueeze": [SLOW]}, memory="dram")
    process = run.start("--host-tiles", "99999999")
    wait_for(lambda: bool(workers_of(process.pid)) and run.latest.exists(), "the run")
    code, out, err = run_resume(run)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    path = run.latest.resolve()
    assert (code, out, err) == (2, "", f"ssinghal: {path}: the run is still in progress in another process\n")


@pytest.mark.virtual_device
def test_options_of_every_kind_are_taken_from_the_run(tmp_path):
    """Placements, weights, samples, limits and a shard: the same cases as in the run, whose records are lost."""
    run = Run(tmp_path, {"add": RELU["add"], "relu": RELU["relu"][:9]})
    options = ["--placements", "dram,l1:block@2x2", "--weights", "bf8", "--sample", "5", "--max-bytes", "8192", "--op", "relu"]
    code, _, err = run(
        *options, "--shard", "2/2", "--board", "p150", "--host-tiles", "1000", "--device", "virtual", "--remedies"
    )
    assert code == 0, err
    before = answers(run.latest)
    assert 0 < len(before) < 10
    (run.latest / "records.jsonl").write_text("")
    code, _, err = run_resume(run)
    assert code == 0, err
    assert answers(run.latest) == before
