"""The folder of a run: what its summary states about the device, and records that disappear while it is written."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys

import pytest

from ssinghal.core.device_facts import NOT_OPENED, DeviceFacts, DeviceMode
from ssinghal.errors import HarnessError
from ssinghal.runs import writer
from ssinghal.runs.latest import NewFolder, hidden_until_complete
from ssinghal.runs.writer import RunFolder, new_run


def folder(parent, device):
    return RunFolder(parent, new_run(parent, {}, 1, device))


@pytest.mark.parametrize(
    ("device", "states_it"),
    [
        (DeviceFacts(DeviceMode.SILICON, "n150"), False),
        (DeviceFacts(DeviceMode.SIMULATOR, "n150"), False),
        (DeviceFacts(DeviceMode.VIRTUAL, "n150"), True),
        (NOT_OPENED, True),
    ],
)
def test_the_summary_states_where_numerics_did_not_run(tmp_path, device, states_it):
    line = folder(tmp_path, device).finish(0)[1]
    assert line.endswith("; numerics not run: memory verdicts only") == states_it
    assert line.startswith(f"{device.mode} n150, ttnn " if device.board else "no device, ttnn ")


@pytest.mark.parametrize("replaced", [False, True])
def test_removed_records_are_an_error_at_the_end(tmp_path, replaced):
    run = folder(tmp_path, NOT_OPENED)
    run.append({"op": "add", "id": "a", "status": "fits", "duration_s": 0.0})
    path = run.path / "records.jsonl"
    path.rename(tmp_path / "aside.jsonl")
    if replaced:
        path.write_text("")
    with pytest.raises(HarnessError, match=r"records\.jsonl was removed or replaced while it was written: its lines are lost"):
        run.finish(1)
    assert json.loads((run.path / "run.json").read_text())["totals"] == {"fits": 1}


@pytest.mark.parametrize("file", ["run.json", "records.jsonl", "latest"])
def test_of_a_folder_that_cannot_be_completed_nothing_stays(tmp_path, monkeypatch, file):
    """Also not the folder of the results, where it was made for the run."""

    def failing(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(
        writer, {"run.json": "write_whole", "records.jsonl": "LineFile", "latest": "link_latest"}[file], failing
    )
    with pytest.raises(HarnessError, match=r"^cannot write results to .*: No space left on device$"):
        folder(tmp_path / "deep" / "results", NOT_OPENED)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("what", ["folder", "file"])
@pytest.mark.parametrize("make", [lambda results: folder(results, NOT_OPENED), lambda results: merge_into(results)])
def test_what_is_no_link_stays_where_latest_should_be(tmp_path, make, what):
    latest = tmp_path / "latest"
    latest.mkdir() if what == "folder" else latest.write_text("mine")
    text = f"{latest}: is a {what}; expected a link to the last run, or nothing: move it away"
    with pytest.raises(HarnessError) as refused:
        make(tmp_path)
    assert str(refused.value) == text
    assert list(tmp_path.iterdir()) == [latest]
    assert latest.is_dir() if what == "folder" else latest.read_text() == "mine"


def merge_into(results):
    with hidden_until_complete(results, "2026Z") as hidden:
        (hidden / "2026Z").mkdir()


def test_a_run_whose_id_another_one_has_leaves_that_as_it_is(tmp_path):
    """As after a clock that was set back: its folder belongs to the earlier run."""
    first = folder(tmp_path, NOT_OPENED)
    first.append({"op": "add", "id": "a", "status": "fits", "duration_s": 0.0})
    first.finish(1)
    before = {path: path.read_bytes() for path in first.path.iterdir()}
    with pytest.raises(HarnessError, match=r": File exists$"):
        RunFolder(tmp_path, first.info)
    assert {path: path.read_bytes() for path in first.path.iterdir()} == before
    assert (tmp_path / "latest").resolve() == first.path


def test_of_two_processes_that_make_one_folder_at_once_one_has_it(tmp_path):
    """The other has seen none a moment before, and may have made the folder of the results."""
    results = tmp_path / "deep" / "results"
    first = NewFolder(results, "2026Z")
    with pytest.raises(FileExistsError):
        NewFolder(results, "2026Z")
    assert [path.name for path in results.iterdir()] == ["2026Z"]
    with pytest.raises(ZeroDivisionError), first.removed_after_failure():
        raise ZeroDivisionError
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_made_leaves_none_on_the_way_to_it(tmp_path):
    with pytest.raises(OSError, match="File name too long"):
        NewFolder(tmp_path / "deep" / "results", "r" * 300)
    assert list(tmp_path.iterdir()) == []


LIMITED = """
import json, resource, signal, sys
from pathlib import Path
from ssinghal.errors import HarnessError
from ssinghal.runs.writer import RunFolder, new_run

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
run = RunFolder(Path(sys.argv[1]), new_run(Path("."), {"catalogs": []}, 2))
record = {"op": "relu", "id": "i", "key": "k", "status": "fits", "duration_s": 0.0}
resource.setrlimit(resource.RLIMIT_FSIZE, (3_000, resource.RLIM_INFINITY))
try:
    run.append({**record, "message": "x" * 5_000})
except HarnessError as error:
    print(str(error).rpartition(": ")[2])
run.append_unreached({**record, "status": "not_run"})
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
print(*run.finish(2), sep="\\n")
"""


def test_a_run_that_lacks_a_record_has_not_ended_whatever_else_was_written(tmp_path):
    """A line of 5,000 B meets a limit of 3,000; the next one is short. The reason is the system's own."""
    done = subprocess.run([sys.executable, "-c", LIMITED, tmp_path], capture_output=True, text=True, timeout=60)
    reason, *lines = done.stdout.splitlines()
    assert reason == "File too large", done.stderr
    info = json.loads((tmp_path / "latest" / "run.json").read_text())
    assert (info["finished"], info["totals"]) == (None, {"not_run": 1})
    assert any(line.startswith("complete it with: ssinghal run --resume ") for line in lines)
    assert [json.loads(line)["status"] for line in (tmp_path / "latest" / "records.jsonl").open()] == ["not_run"]
