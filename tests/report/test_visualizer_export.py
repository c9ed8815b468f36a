"""``ssinghal export-visualizer``: TTNN's reports of a run's cases, as ttnn-visualizer reads them."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ssinghal.core.device_facts import DeviceMode
from ssinghal.core.record import Record
from ssinghal.core.verdict import Resource, Status, Verdict
from ssinghal.device.modes import choose_device
from ssinghal.errors import HarnessError
from ssinghal.report.visualizer_export import REPORTS, ExportResult, export, named_run, was_run
from ssinghal.runs.parsing import case_of
from ssinghal.runs.reader import read_run
from tests.support.processes import BLOCKED, wait_for, workers_of
from tests.support.run_builder import a_record, write_run
from tests.support.visualizer import Served, serving

ROOT = Path(__file__).resolve().parents[2]
MAP = (1, 64, 640, 400)
# Placed as [1, 640, 400, 64]: 640 x 13 x 2 tiles of 2,048 B, 260 on each of 64 banks.
MAP_BANK_BYTES = 640 * 13 * 2 // 64 * 2048
# Buffers are allocated from the top of L1 downwards.
L1_TOP_BYTES = 105_824 + 1_393_312
OUT_OF_OUTPUT = {"op": "add", "inputs": [MAP, MAP], "channels_last": True, "status": "oom"}
OUT_OF_INPUT = {"op": "relu", "shape": (1, 96, 2160, 3840), "status": "oom"}
POOLED = {
    "op": "max_pool2d",
    "shape": (1, 64, 80, 80),
    "memory": "dram",
    "attrs": {"kernel_size": [3, 3], "stride": [2, 2], "padding": [1, 1]},
}
SMALL = {"op": "relu", "shape": (1, 32, 64)}
# TTNN lists the windows of 1,382,400 rows on the host, which takes seconds.
SLOW = {
    "op": "convolution",
    "inputs": [(16, 256, 240, 360), (256, 256, 3, 3), (256,)],
    "memory": "dram",
    "attrs": {"stride": [1, 1], "padding": [1, 1]},
    "status": "oom",
}


def export_of(folder: Path, *arguments: str, cases: list[dict[str, Any]], **environ: str) -> subprocess.CompletedProcess[str]:
    """Runs the command on a run of these cases in ``folder / results``."""
    if not (folder / "results").exists():
        write_run(folder / "results", [a_record(**case) for case in cases])
    run = next((folder / "results").iterdir())
    return subprocess.run(
        [sys.executable, "-m", "ssinghal", "export-visualizer", str(run), "-o", "out", *arguments],
        cwd=folder,
        env={**os.environ, **environ},
        capture_output=True,
        text=True,
        timeout=180,
    )


def rows(report: Path, query: str) -> list[tuple[Any, ...]]:
    with sqlite3.connect(f"file:{report / 'db.sqlite'}?mode=ro", uri=True) as database:
        return database.execute(query).fetchall()


def reports_of(folder: Path) -> dict[str, Path]:
    """Returns the reports of ``folder`` by operator."""
    return {path.name.partition("-")[0]: path for path in (folder / REPORTS).iterdir()}


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The output folder of an export of four cases; two of them fail."""
    folder = tmp_path_factory.mktemp("export")
    done = export_of(folder, "--all", cases=[OUT_OF_OUTPUT, {**OUT_OF_INPUT, "op": "silu"}, POOLED, SMALL])
    assert done.returncode == 0, done.stdout + done.stderr
    assert "4 of 4 reports" in done.stdout
    return folder / "out"


@pytest.mark.virtual_device
def test_a_report_has_the_calls_buffers_and_ttnns_error(exported: Path) -> None:
    report = reports_of(exported)["add"]
    assert rows(report, "select operation_id, name from operations") == [(1, "ttnn.empty"), (2, "ttnn.empty"), (3, "ttnn.add")]
    placed = rows(report, "select address, max_size_per_bank from buffers where operation_id = 2 order by address desc")
    assert placed == [(L1_TOP_BYTES - n * MAP_BANK_BYTES, MAP_BANK_BYTES) for n in (1, 2)]
    ((operation, kind, text),) = rows(report, "select operation_id, error_type, error_message from errors")
    assert (operation, kind) == (3, "RuntimeError")
    assert f"each bank needs to store {MAP_BANK_BYTES} B" in text


@pytest.mark.virtual_device
def test_a_report_has_the_device_even_if_nothing_could_be_allocated(exported: Path) -> None:
    report = reports_of(exported)["silu"]
    assert rows(report, "select name from operations") == [("ttnn.empty",)]
    assert rows(report, "select count(*) from buffers") == [(0,)]
    assert rows(report, "select l1_num_banks, l1_bank_size from devices") == [(64, 1_393_312)]


@pytest.mark.virtual_device
def test_a_reports_device_has_the_l1_small_region_of_its_case(exported: Path) -> None:
    sizes = rows(reports_of(exported)["max_pool2d"], "select distinct l1_bank_size from devices")
    assert sizes == [(1_393_312 - 32_768,)]


@pytest.mark.virtual_device
def test_every_report_names_its_device(exported: Path) -> None:
    listed = (exported / "README.md").read_text()
    for report in reports_of(exported).values():
        facts = dict(rows(report, "select key, value from report_metadata"))
        assert (facts["device"], facts["numerics"]) == ("virtual n150", "not run: memory verdicts only")
        assert json.loads(facts["case"])["op"] == report.name.partition("-")[0]
        title = json.loads((report / "config.json").read_text())["report_name"]
        assert "(virtual n150, numerics not run)" in title
        assert f"| {report.name} | {title} |" in listed
        assert sorted(path.name for path in report.iterdir()) == ["cluster_descriptor.yaml", "config.json", "db.sqlite"]


@pytest.mark.virtual_device
def test_an_export_leaves_the_caches_of_real_boards_alone(tmp_path: Path) -> None:
    """Kernels of a virtual device do nothing, and must not be run on a card."""
    caches = {name: tmp_path / name for name in ("TT_METAL_CACHE", "TTNN_CACHE", "HOME")}
    for path in caches.values():
        path.mkdir()
    ours = {"XDG_CACHE_HOME": os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")}
    done = export_of(tmp_path, "--all", cases=[SMALL], **ours, **{name: str(path) for name, path in caches.items()})
    assert done.returncode == 0, done.stderr
    assert [path for folder in caches.values() for path in folder.rglob("*")] == []


@pytest.mark.virtual_device
def test_a_second_export_replaces_the_first(tmp_path: Path) -> None:
    assert export_of(tmp_path, cases=[OUT_OF_OUTPUT]).returncode == 0
    (report,) = reports_of(tmp_path / "out").values()
    (report / "db.sqlite").write_bytes(b"")
    assert export_of(tmp_path, "--case", report.name.split("-")[1], cases=[]).returncode == 0
    assert len(rows(report, "select * from errors")) == 1
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["README.md", "generated"]


@pytest.mark.virtual_device
def test_another_verdict_than_the_record_is_a_finding(tmp_path: Path) -> None:
    done = export_of(tmp_path, cases=[{**SMALL, "status": "oom", "verdict": {"bytes_per_bank": 2048, "free_bytes": 0}}])
    assert done.returncode == 1
    assert "1 of 1 reports" in done.stdout
    assert "differs: relu 1x32x64-l1" in done.stdout
    assert "the record has L1 bank needs 2,048 B, 0 B free (output)" in done.stdout


@pytest.mark.virtual_device
def test_a_hang_costs_one_report_and_leaves_no_partial_one(tmp_path: Path) -> None:
    done = export_of(tmp_path, "--timeout", "1", "--workers", "1", cases=[SLOW, OUT_OF_INPUT])
    assert done.returncode == 1
    assert "1 of 2 reports" in done.stdout
    assert "no report: convolution 16x256x240x360" in done.stdout
    assert "timeout: no answer within 1 s" in done.stdout
    assert list(reports_of(tmp_path / "out")) == ["relu"]
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["README.md", "generated"]


@pytest.mark.virtual_device
def test_a_call_whose_process_crashed_is_repeated_for_its_report(tmp_path: Path) -> None:
    """Of the first attempt there is a part of a report."""
    run = read_run(write_run(tmp_path, [a_record(**case) for case in (OUT_OF_INPUT, SLOW, OUT_OF_OUTPUT)]))
    killer = threading.Thread(target=kill_the_worker_of, args=("convolution", tmp_path))
    killer.start()
    ended = list(export(run.records, choose_device("virtual"), tmp_path, timeout_s=60, workers=1))
    killer.join()
    assert [one.folder is not None for one in ended] == [True, True, True]


def kill_the_worker_of(operator: str, folder: Path) -> None:
    """Ends the worker of this process with a segmentation fault while it captures ``operator``."""
    wait_for(lambda: any(folder.glob(f".making-*/{operator}-*")), f"a report of {operator}")
    time.sleep(0.3)
    for pid in workers_of(os.getpid()):
        os.kill(pid, signal.SIGSEGV)


@pytest.mark.parametrize(
    ("status", "decided_by", "ran"),
    [
        ("fits", "ttnn", True),
        ("oom", "ttnn", True),
        ("crash", "harness", True),
        ("timeout", "harness", True),
        ("unsupported", "registry", False),
        ("not_run", "arithmetic", False),
    ],
)
def test_ttnn_was_called_for_crashes_and_hangs(tmp_path: Path, status: str, decided_by: str, ran: bool) -> None:
    (record,) = read_run(write_run(tmp_path, [a_record(status=status) | {"decided_by": decided_by}])).records
    assert was_run(record) is ran


@pytest.mark.parametrize(
    ("verdict", "differs"),
    [
        (Verdict(Status.OOM, Resource.L1_BUFFER, bytes_per_bank=1), False),
        (Verdict(Status.OOM, Resource.DRAM_BUFFER), True),
        (Verdict(Status.FITS), True),
    ],
)
def test_another_status_or_resource_differs_from_the_record(tmp_path: Path, verdict: Verdict, differs: bool) -> None:
    (stored,) = read_run(write_run(tmp_path, [a_record(status="oom")])).records
    again = Record.of(case_of(stored), verdict, device_mode=DeviceMode.VIRTUAL, board="n150", ttnn="0.81.1")
    assert ExportResult(stored, again, None).differs is differs


def test_without_torch_there_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(BLOCKED)
    done = export_of(tmp_path, cases=[OUT_OF_INPUT], PYTHONPATH=str(tmp_path))
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert "torch" in done.stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("arguments", "cases", "message"),
    [
        (["--case", "ffff"], [OUT_OF_INPUT], "no case 'ffff' in this run"),
        (["--case", ""], [OUT_OF_INPUT], "no case '' in this run"),
        ([], [SMALL], "no failing case"),
        (["--device", "silicon"], [OUT_OF_INPUT], "no silicon here"),
        (["--device", "card"], [OUT_OF_INPUT], "unknown device mode 'card'"),
    ],
)
def test_bad_input_costs_one_line(tmp_path: Path, arguments: list[str], cases: list[dict[str, Any]], message: str) -> None:
    done = export_of(tmp_path, *arguments, cases=cases)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert message in done.stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.virtual_device
def test_a_case_is_found_by_its_key_and_left_out_cases_and_lines_are_reported(tmp_path: Path) -> None:
    """The key is searched for in the last run."""
    records = [a_record("relu", (1, 96, 2160, width), status="oom") for width in (3840, 3872, 3904)]
    run = write_run(tmp_path / "results", records)
    (tmp_path / "results" / "latest").symlink_to(run.name)
    with (run / "records.jsonl").open("a") as lines:
        lines.write('{"schema": 1, "op": "rel')
    command = [sys.executable, "-m", "ssinghal", "export-visualizer"]
    one = subprocess.run([*command, records[1]["key"]], cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert (one.returncode, one.stderr) == (0, "")
    (report,) = (tmp_path / "results" / "latest" / "visualizer" / REPORTS).iterdir()
    assert report.name == f"relu-{records[1]['key']}-n150"
    some = subprocess.run([*command, "--sample", "2"], cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert "2 of 2 reports" in some.stdout
    assert "left out: 1 of 3 cases, beyond --sample 2" in some.stdout
    assert "records.jsonl:4: not a complete record" in some.stdout


def test_a_word_that_names_no_run_is_a_case_only_if_it_looks_like_a_key(tmp_path: Path) -> None:
    run = write_run(tmp_path, [a_record("relu")], run="20261128T000000.000000Z")
    (tmp_path / "latest").symlink_to(run.name)
    assert named_run("latest", tmp_path) == (run, ())
    assert named_run("20261128", tmp_path) == (run, ())
    assert named_run("5aee08b2", tmp_path) == (run, ("5aee08b2",))
    for text in ("nosuchrun", "abc", "5aee08b2b5612"):
        with pytest.raises(HarnessError, match=f"no run '{text}'"):
            named_run(text, tmp_path)
    write_run(tmp_path, [a_record("relu")], run="20261129T000000.000000Z")
    with pytest.raises(HarnessError, match="2 ids of runs in"):
        named_run("202611", tmp_path)


# ttnn-visualizer ------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def served(exported: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(exported, tmp_path_factory.mktemp("home")) as server:
        yield server


@pytest.mark.virtual_device
def test_the_visualizer_lists_the_reports_by_case_and_device(served: Served, exported: Path) -> None:
    listed = {report["path"]: report["reportName"] for report in served.get("profiler")}
    assert set(listed) == {path.name for path in reports_of(exported).values()}
    assert all("(virtual n150, numerics not run)" in title for title in listed.values())


@pytest.mark.virtual_device
def test_the_visualizer_shows_the_oom_in_its_error_list_and_the_memory_before_it(served: Served, exported: Path) -> None:
    served.select(reports_of(exported)["add"].name)
    (error,) = served.get("errors")
    assert error["operation_name"] == "ttnn.add"
    assert f"Not enough space to allocate {64 * MAP_BANK_BYTES} B L1 buffer across 64 banks" in error["error_message"]
    assert [operation["name"] for operation in served.get("operations")] == ["ttnn.empty", "ttnn.empty", "ttnn.add"]
    (device,) = served.get("devices")
    assert (device["l1_num_banks"], device["worker_l1_size"]) == (64, L1_TOP_BYTES)
    before = next(entry for entry in served.get("operation-buffers") if entry["id"] == 2)["buffers"]
    assert [buffer["size"] for buffer in before] == [MAP_BANK_BYTES] * 2
    assert {tensor["shape"] for tensor in served.get("tensors")} == {"Shape([1, 640, 400, 64])"}
    assert served.get("report-metadata")["device"] == "virtual n150"


@pytest.mark.virtual_device
@pytest.mark.parametrize(("operator", "failed"), [("silu", ["ttnn.empty"]), ("max_pool2d", []), ("relu", [])])
def test_the_visualizer_opens_every_report(served: Served, exported: Path, operator: str, failed: list[str]) -> None:
    served.select(reports_of(exported)[operator].name)
    assert [error["operation_name"] for error in served.get("errors")] == failed
    for path in (
        "operations",
        "operations/1",
        "devices",
        "tensors",
        "buffers",
        "operation-buffers",
        "config",
        "cluster-descriptor",
    ):
        served.get(path)
