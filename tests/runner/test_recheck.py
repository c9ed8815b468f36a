"""The same cases give the same records in any order, by any number of workers, and in fresh processes."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ssinghal.catalog.expansion import expand
from ssinghal.catalog.loader import load_catalogs
from ssinghal.catalog.sampling import case_bytes, sample
from ssinghal.core.case import Case, Placement
from ssinghal.core.device_facts import DeviceMode
from ssinghal.core.record import Record
from ssinghal.core.tensors import BufferType
from ssinghal.core.verdict import Status, Verdict
from ssinghal.device.modes import choose_device
from ssinghal.operators import make_case
from ssinghal.operators.binding import bind
from ssinghal.runner.pool import Pool
from ssinghal.runner.recheck import NOT_REPEATED, Repetition, choose_repeated
from ssinghal.runner.tasks import PoolOptions
from tests.support.processes import all_ended, catalog_text, read_lines, wait_for, workers_of

PROGRAM = [sys.executable, "-m", "ssinghal"]
MAX_TILES, MAX_BYTES = 1000, 2**28  # of host work, and of operands: the test is about the order


def mixed_cases() -> list[Case]:
    """The smallest and the largest case of each operator, without those that take TTNN long."""
    cases = sample(expand(load_catalogs(None)).cases, 2)
    return [case for case in cases if bind(case).host_tiles <= MAX_TILES and case_bytes(case) <= MAX_BYTES]


def answers(cases: list[Case], workers: int) -> dict[tuple[str, str], dict[str, Any]]:
    with Pool(choose_device("virtual"), PoolOptions(workers=workers)) as pool:
        records = [replace(record, duration_s=0.0).to_json() for record in pool.map(cases)]
    return {(record["op"], record["key"]): record for record in records}


@pytest.mark.virtual_device
def test_records_do_not_depend_on_the_order_or_the_workers():
    cases = mixed_cases()
    assert len({case.name for case in cases}) > 90  # of all operators
    expected = answers(cases, 1)
    assert {"fits", "oom"} <= {record["status"] for record in expected.values()}
    shuffled = list(cases)
    random.Random(7).shuffle(shuffled)
    again = answers(shuffled, 2)
    assert {key: record for key, record in again.items() if record != expected[key]} == {}
    assert again.keys() == expected.keys()


def some_record(op: str, **changes: Any) -> Record:
    case = make_case(op, ((1, 1, 32, 32),), placement=Placement(memory=BufferType.L1))
    record = Record.of(case, Verdict(Status.FITS), device_mode=DeviceMode.VIRTUAL, board="n150", ttnn="0.81.1")
    return replace(record, **changes)


def test_a_repetition_differs_by_what_the_device_answered_alone():
    record = some_record("relu")
    indifferent = {"run": "b", "test": "t", "retried": "crash", "taken_from": "a", "duration_s": 3.0, "listed_shape": (1, 32)}
    indifferent |= {"altered": ("dtype",)}
    assert indifferent.keys() <= NOT_REPEATED
    assert Repetition(record, replace(record, **indifferent)).differences == {}
    assert Repetition(record, replace(record, resident={"l1": 64})).differences == {"resident": ({}, {"l1": 64})}
    assert Repetition(record, replace(record, usage_note="none")).differences == {"usage_note": (None, "none")}


def test_the_same_seed_chooses_the_same_cases_whatever_their_order():
    records = [some_record(op) for op in ("relu", "silu", "tanh", "sigmoid", "exp", "sqrt", "abs", "neg")]
    chosen = choose_repeated(records, 3, "night 1")
    assert choose_repeated(reversed(records), 3, "night 1") == chosen
    assert len(chosen) == 3
    nights = {tuple(r.op for r in choose_repeated(records, 3, f"night {n}")) for n in range(20)}
    assert len(nights) > 10
    assert {op for night in nights for op in night} == {r.op for r in records}
    assert len(choose_repeated(records, 99, "")) == 8


def test_of_several_records_of_a_case_the_last_answer_counts():
    """As for every reader: a record without a device replaces none, and one that timed out leaves nothing to repeat."""
    first, again, lost = (
        some_record("relu"),
        some_record("relu", duration_s=2.0),
        some_record("relu", device_mode=DeviceMode.NONE),
    )
    assert choose_repeated([first, again, lost], 3, "") == [again]
    assert choose_repeated([first, some_record("relu", status="timeout")], 3, "") == []
    assert choose_repeated([some_record("relu", status="timeout"), first], 3, "") == [first]
    other = some_record("relu", board="p150")
    assert len(choose_repeated([first, other], 3, "")) == 2, "of another board it is another case"


@pytest.mark.parametrize("status", ["not_run", "timeout"])
def test_cases_without_an_answer_are_not_repeated(status):
    assert choose_repeated([some_record("relu", status=status)], 3, "") == []


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("recheck")
    shapes = [{"shape": [1, 32, 64]}, {"shape": [1, 96, 2160, 3840]}]
    (folder / "catalog.yaml").write_text(catalog_text({"relu": shapes}))
    done = subprocess.run([*PROGRAM, "run", "catalog.yaml"], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return folder / "results"


def recheck(results: Path, *arguments: str) -> tuple[int, str, str]:
    command = [*PROGRAM, "recheck", *arguments]
    done = subprocess.run(command, cwd=results.parent, capture_output=True, text=True)
    return done.returncode, done.stdout, done.stderr


@pytest.mark.virtual_device
def test_fresh_processes_answer_as_the_run_did(results):
    code, out, err = recheck(results, "--cases", "5")
    assert (code, out) == (0, "2 cases repeated in fresh processes, 0 differ\n")
    first, *lines = err.splitlines()
    assert first == "repeating: 2 cases"
    assert [line.partition(" after ")[0] for line in lines] == ["repeating: 1 of 2 (50 %)", "repeating: 2 of 2 (100 %)"]


@pytest.mark.virtual_device
def test_a_difference_is_a_finding(results, tmp_path):
    run = tmp_path / "altered"
    run.mkdir()
    (run / "run.json").write_text((results / "latest" / "run.json").read_text())
    altered = read_lines(results / "latest" / "records.jsonl")
    for record in altered:
        if record["status"] == "oom":
            record["bytes_per_bank"] += 32
    (run / "records.jsonl").write_text("".join(json.dumps(record) + "\n" for record in altered))
    # 96 x 2160 x 3840 elements of 2 B, 1,592,524,800 B, in tiles of 2,048 B: 777,600 pages, 12,150 of them on each of 64 banks
    per_bank = 12_150 * 2048
    code, out, _ = recheck(results, str(run))
    assert code == 1
    assert f"bytes_per_bank {per_bank + 32}, again {per_bank}" in out
    assert out.endswith("2 cases repeated in fresh processes, 1 differ\n")
    code, out, _ = recheck(results, str(run), "--json")
    (different,) = json.loads(out)["different"]
    assert code == 1
    assert different["differences"].pop("bytes_per_bank") == {"recorded": per_bank + 32, "again": per_bank}
    assert set(different["differences"]) == {"shortfall_bytes"}  # computed from it


@pytest.fixture(scope="module")
def all_altered(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with a run of 40 cases, each of whose records has a note that no device gives."""
    folder = tmp_path_factory.mktemp("altered")
    (folder / "catalog.yaml").write_text(catalog_text({"relu": [{"shape": [1, 32, 32 * n]} for n in range(1, 41)]}))
    done = subprocess.run([*PROGRAM, "run", "catalog.yaml"], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    path = folder / "results" / "latest" / "records.jsonl"
    path.write_text("".join(json.dumps({**record, "usage_note": "altered"}) + "\n" for record in read_lines(path)))
    return folder


@pytest.mark.virtual_device
@pytest.mark.parametrize(
    ("number", "send", "more"),
    [
        (signal.SIGINT, os.kill, []),
        (signal.SIGINT, os.killpg, ["--json"]),
        (signal.SIGTERM, os.kill, ["--json"]),
        (signal.SIGTERM, os.killpg, []),
    ],
)
def test_what_was_found_is_shown_when_it_is_interrupted(all_altered, number, send, more):
    """Each repetition differs by the note alone: one that a signal to the group had ended would differ by its status."""
    process = subprocess.Popen(
        [*PROGRAM, "recheck", "--workers", "2", "--cases", "40", *more],
        cwd=all_altered,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    assert process.stderr is not None
    assert [process.stderr.readline().rstrip("\n").partition(" after ")[0] for _ in range(2)] == [
        "repeating: 40 cases",
        "repeating: 4 of 40 (10 %)",
    ]
    workers = workers_of(process.pid)
    send(process.pid, number)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, "Traceback" in err) == (128 + number, False), err
    if more:
        found = json.loads(out)
        count, notes = found["repeated"], [list(one["differences"]) for one in found["different"]]
        assert (found["interrupted"], notes) == (True, [["usage_note"]] * count)
    else:
        *lines, last = out.splitlines()
        count = len(lines)
        assert all(line.endswith(': usage_note "altered", again null') for line in lines)
        assert last == f"interrupted: {count} of 40 cases repeated in fresh processes, {count} differ"
    assert 3 <= count < 40
    wait_for(lambda: all_ended(workers), "the end of the device processes")


@pytest.mark.virtual_device
def test_only_what_answered_a_run_can_repeat_it(results, tmp_path):
    run = tmp_path / "other"
    run.mkdir()
    (run / "records.jsonl").write_text((results / "latest" / "records.jsonl").read_text())
    code, _, err = recheck(results, str(run))
    assert (code, err.count("\n")) == (2, 1)
    assert "its run.json names no device" in err
    head = json.loads((results / "latest" / "run.json").read_text())
    (run / "run.json").write_text(json.dumps({**head, "answerer": "0" * 64}))
    code, _, err = recheck(results, str(run))
    assert (code, err.count("\n")) == (2, 1)
    assert "answered by another device, TTNN, code or limits" in err
