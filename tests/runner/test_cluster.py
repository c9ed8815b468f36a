"""Runs on a Dask cluster: the records of a local run, whatever happens to workers, and nothing is left over."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import psutil
import pytest

from ssinghal.core.verdict import Status
from ssinghal.errors import HarnessError
from ssinghal.runner.cluster.link import Link, local_cluster
from tests.support.cluster_runs import answers, cases, descendants, prober_on
from tests.support.deadly_submit import deadly
from tests.support.processes import all_ended, catalog_text, read_lines, wait_for

pytestmark = pytest.mark.virtual_device

OPERATORS = {
    "add": [{"shape": [1, 32, 64]}, {"shape": [1, 64, 640, 400]}],  # the second does not fit into L1
    "relu": [{"shape": [1, 32, 32 * n]} for n in range(1, 6)],
    "as_strided": [{"in": [[1, 32, 64]], "args": {"size": [32], "stride": [1]}}],
}


# A cluster of this machine --------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def local() -> Iterator[Link]:
    with local_cluster(2) as link:
        yield link


def dask_workers(pid: int | None = None) -> list[int]:
    """The workers of the cluster that the process has started, by default this one."""
    children = psutil.Process(pid).children()
    return [child.pid for child in children if "spawn_main" in " ".join(child.cmdline())]


def test_a_lost_worker_costs_nothing(local):
    given, notes = cases(300), []
    with prober_on(local, note=notes.append) as prober:
        found = answers(prober, given, after_first=lambda: os.kill(dask_workers()[0], signal.SIGKILL))
    assert sorted(found) == list(range(300))
    assert {record.status for record in found.values()} == {Status.FITS}
    assert notes == ["lost workers: 1; their chunks were repeated"]


def test_a_case_that_kills_workers_gets_a_crash_record_and_the_others_theirs(local):
    given = cases(12)
    with prober_on(local, partial(deadly, key=given[5].key)) as prober:
        found = answers(prober, given)
    statuses = [found[number].status for number in range(12)]
    assert statuses == [Status.CRASH if number == 5 else Status.FITS for number in range(12)]
    assert found[5].message == "2 workers of the cluster were lost while they had this case alone"
    assert (found[5].board, found[5].ttnn, str(found[5].device_mode)) == ("n150", found[0].ttnn, "virtual")


def raising(error: BaseException) -> None:
    raise error


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (OSError(28, "No space left on device"), "OSError: [Errno 28] No space left on device"),
        (PermissionError(13, "Permission denied", "cache"), "PermissionError: [Errno 13] Permission denied: 'cache'"),
        (ConnectionResetError(104, "reset"), "ConnectionResetError: [Errno 104] reset"),
        (TimeoutError("too slow"), "TimeoutError: too slow"),
        (MemoryError(), "MemoryError: "),
        (HarnessError("no board"), "no board"),
    ],
)
def test_what_a_task_raises_is_a_line_and_no_lost_worker(local, error, line):
    """A disk that is full, say: its worker is there, and is not used any more."""
    wait_for(lambda: bool(local.workers()), "the workers that replace those of the test before")
    ended: SimpleQueue[Any] = SimpleQueue()
    local.submit(min(local.workers()), ended.put, raising, error)
    with pytest.raises(HarnessError) as stated:
        local.result(ended.get(timeout=30))
    assert str(stated.value) == line


def test_a_run_that_is_stopped_ends_its_device_processes(local):
    """Its cases are no crashes, and the cluster remains for the next run."""
    given, found = cases(400), []
    with prober_on(local) as prober:
        devices = [pid for worker in dask_workers() for pid in descendants(worker)]
        for number, record in prober.answers(enumerate(given), lambda: len(found) > 20):
            found.append((number, record))
    assert devices
    assert {record.status for _, record in found} == {Status.FITS}
    assert len(found) < 400
    wait_for(lambda: all_ended(devices), "the end of the device processes")
    with prober_on(local) as prober:
        assert len(answers(prober, given[:3])) == 3


# The command ----------------------------------------------------------------------------------------------------------------


def start(folder: Path, *arguments: str, command: str = "run") -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "ssinghal", command, "catalog.yaml", *arguments],
        cwd=folder,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )


def records(folder: Path, run: str) -> dict[str, dict[str, Any]]:
    lines = read_lines(folder / run / "latest" / "records.jsonl")
    found = {f"{r['op']} {r['id']}": {k: v for k, v in r.items() if k not in ("run", "duration_s")} for r in lines}
    assert len(found) == len(lines), "a case has two records"
    return found


def without_times(record: dict[str, Any]) -> dict[str, Any]:
    return record | {"remedies": {k: v for k, v in record.get("remedies", {}).items() if k != "seconds"}}


def test_the_records_are_those_of_a_local_run_with_remedies_too(tmp_path):
    (tmp_path / "catalog.yaml").write_text(catalog_text(OPERATORS))
    for name, more in {"here": ["--workers", "1"], "cluster": ["--cluster", "local:1"]}.items():
        out, err = (process := start(tmp_path, "--remedies", "--results", name, *more)).communicate(timeout=120)
        assert (process.returncode, "Traceback" in err) == (0, False), err
        assert "8 of 8 selected cases recorded" in out
    here, cluster = records(tmp_path, "here"), records(tmp_path, "cluster")
    assert {key: without_times(record) for key, record in cluster.items()} == {
        key: without_times(record) for key, record in here.items()
    }
    assert [record["remedies"]["found"] != [] for record in here.values() if record["status"] == "oom"] == [True]


def test_ctrl_c_accounts_for_every_case_and_leaves_no_process(tmp_path):
    (tmp_path / "catalog.yaml").write_text(catalog_text({"relu": [{"shape": [1, 32, 32 * n]} for n in range(1, 2001)]}))
    process = start(tmp_path, "--cluster", "local:1")
    written = tmp_path / "results" / "latest" / "records.jsonl"
    wait_for(lambda: written.exists() and len(written.read_text().splitlines()) > 10, "first records")
    started = descendants(process.pid)
    assert len(started) >= 2, "a Dask worker and its device process"
    os.killpg(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=120)
    assert (process.returncode, "Traceback" in err) == (130, False), err
    assert "the run ended before it: SIGINT" in out
    found = records(tmp_path, "results")
    assert (len(found), {record["status"] for record in found.values()}) == (2000, {"fits", "not_run"})
    wait_for(lambda: all_ended(started), "the end of all processes")


def test_the_summary_of_the_board_of_a_sweep_that_lost_a_worker_counts_it(tmp_path):
    (tmp_path / "catalog.yaml").write_text(catalog_text({"relu": [{"shape": [1, 32, 32 * n]} for n in range(1, 401)]}))
    process = start(tmp_path, "--cluster", "local:2", "--board", "n150,p150", command="sweep")
    written = tmp_path / "results" / "latest" / "records.jsonl"
    wait_for(lambda: written.exists() and len(written.read_text().splitlines()) > 2, "first records")
    os.kill(dask_workers(process.pid)[0], signal.SIGKILL)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    line = "lost workers: 1; their chunks were repeated"
    summaries = [path.read_text().splitlines() for path in sorted(tmp_path.glob("results/2*/summary.txt"))]
    assert [summary.count(line) for summary in summaries] == [1, 0]
    assert out.splitlines().count(line) == 1


def test_a_command_that_is_killed_warns_of_nothing(tmp_path):
    """The process that frees its semaphores afterwards belongs to Python, and would print a warning."""
    (tmp_path / "catalog.yaml").write_text(catalog_text({"relu": [{"shape": [1, 32, 32 * n]} for n in range(1, 2001)]}))
    process = start(tmp_path, "--cluster", "local:1")
    written = tmp_path / "results" / "latest" / "records.jsonl"
    wait_for(lambda: written.exists() and len(written.read_text().splitlines()) > 10, "first records")
    started = descendants(process.pid)
    process.kill()
    _, err = process.communicate(timeout=120)
    assert [line for line in err.splitlines() if not line.startswith("probing: ")] == []
    wait_for(lambda: all_ended(started), "the end of all processes")
