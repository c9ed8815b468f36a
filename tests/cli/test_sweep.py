"""``ssinghal sweep``: a run for each board and release, whose counts add up, and which the same command completes."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing

import pytest

from ssinghal.catalog.choosing import Chosen
from ssinghal.catalog.placements import in_placements
from ssinghal.core.tensors import DType
from ssinghal.device.modes import DeviceChoice, DeviceMode
from ssinghal.operators.case_json import case_from_json
from ssinghal.runner.tasks import PoolOptions
from ssinghal.runs.index import STORE
from ssinghal.sweeps.parts import Sweep as SweepOf
from ssinghal.sweeps.parts import SweepPart
from tests.support.processes import as_in_the_foreground, catalog_text, read_lines, wait_for

PROGRAM = [sys.executable, "-m", "ssinghal", "sweep", "catalog.yaml"]
# 64 x 1280 x 800 elements of 2 B are 131,072,000 B; no board has as much L1 in 64 or 110 or 130 banks of at most 1,572,864 B
# but the last one, with 204,472,320 B.
OPERATORS = {"relu": [{"shape": [1, 32, 64]}, {"shape": [1, 64, 1280, 800]}], "gelu": [{"shape": [1, 32, 64]}]}
COUNTS = ("cases", "fits", "oom", "other", "taken", "probed", "unreached")


class Sweep:
    def __init__(self, folder):
        self.folder = folder
        (folder / "catalog.yaml").write_text(catalog_text(OPERATORS, memory="l1"))

    def start(self, *arguments):
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        return subprocess.Popen(
            [*PROGRAM, *arguments], cwd=self.folder, start_new_session=True, preexec_fn=as_in_the_foreground, **pipes
        )

    def __call__(self, *arguments):
        process = self.start("--json", *arguments)
        out, err = process.communicate(timeout=240)
        assert "Traceback" not in err
        return process.returncode, json.loads(out), err

    def records(self, part):
        return read_lines(self.folder / "results" / part["run"] / "records.jsonl")


@pytest.fixture
def sweep(tmp_path):
    return Sweep(tmp_path)


def sums(part):
    return {name: sum(row[name] for row in part["rows"]) for name in COUNTS}


@pytest.mark.virtual_device
def test_the_table_adds_up_and_a_second_sweep_takes_all(sweep):
    arguments = ("--board", "n150,p150", "--placements", "dram,l1", "--dtypes", "bfloat16,bfloat8_b")
    code, found, _ = sweep(*arguments)
    assert (code, found["selected"], [p["board"] for p in found["parts"]]) == (0, 3 * 4, ["n150", "p150"])
    assert found["cases"] == 2 * 3 * 4  # on both boards
    for part in found["parts"]:
        assert [(row["placement"], row["dtype"], row["cases"]) for row in part["rows"]] == [
            (memory, dtype, 3) for dtype in ("bfloat16", "bfloat8_b") for memory in ("dram", "l1")
        ]
        records = sweep.records(part)
        assert {r["board"] for r in records} == {part["board"]}
        for row in part["rows"]:
            own = [r["status"] for r in records if (r["memory"], r["dtype"]) == (row["placement"], row["dtype"])]
            assert [row["fits"], row["oom"], row["other"]] == [own.count("fits"), own.count("oom"), 0]
            assert [row["taken"], row["probed"], row["unreached"]] == [0, 3, 0]
    n150_l1 = found["parts"][0]["rows"][1]
    assert (n150_l1["fits"], n150_l1["oom"]) == (2, 1)

    code, again, _ = sweep(*arguments)
    assert [sums(p)["taken"] for p in again["parts"]] == [12, 12]
    same = ("cases", "fits", "oom", "other")
    assert [[sums(p)[n] for n in same] for p in again["parts"]] == [[sums(p)[n] for n in same] for p in found["parts"]]
    _, fresh, _ = sweep("--board", "n150", "--fresh", "--op", "gelu")
    assert sums(fresh["parts"][0])["probed"] == 1


@pytest.mark.parametrize("backwards", [False, True])
@pytest.mark.parametrize(
    ("typed", "rows"),
    [
        (
            {"dtypes": ["float32", "bfloat16"], "placements": ["l1:height", "dram"]},
            [("l1:height", "float32"), ("dram", "float32"), ("l1:height", "bfloat16"), ("dram", "bfloat16")],
        ),
        ({}, [("dram", "bfloat16"), ("l1:height", "bfloat16"), ("dram", "float32"), ("l1:height", "float32")]),
        (
            {"dtypes": ["float32"], "placements": []},
            [("dram", "float32"), ("l1:height", "float32"), ("dram", "bfloat16"), ("l1:height", "bfloat16")],
        ),
    ],
)
def test_the_order_of_the_rows_does_not_depend_on_that_of_the_cases(tmp_path, typed, rows, backwards):
    made = [
        case_from_json({"op": "relu", "inputs": [[1, 32, 64]], "memory": memory, "dtype": dtype})
        for memory in ("l1:height", "dram")
        for dtype in ("float32", "bfloat16")
    ]
    chosen = Chosen(made[::-1] if backwards else made, (), 4, "")
    part = SweepPart(DeviceChoice(DeviceMode.VIRTUAL, "n150", "chosen"), PoolOptions())
    assert list(SweepOf(chosen, tmp_path, typed).not_started(part).rows) == rows


@pytest.mark.virtual_device
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("more", [(), ("--fresh",), ("--json",)])
def test_the_same_command_completes_what_was_interrupted(sweep, number, more):
    """The second board is not started, and has all its cases to run: the 200 of the catalog."""
    shapes = [{"shape": [1, 32, 32 * n]} for n in range(1, 201)]
    (sweep.folder / "catalog.yaml").write_text(catalog_text({"relu": shapes}))
    process = sweep.start("--board", "n150,p150", "--workers", "1", *more)
    written = sweep.folder / "results" / "latest" / "records.jsonl"
    wait_for(lambda: written.exists() and written.read_bytes().count(b"\n") >= 1, "a record")
    os.kill(process.pid, number)
    out, err = process.communicate(timeout=120)
    assert (process.returncode, "Traceback" in err) == (128 + number, False)
    left = [record["status"] for record in read_lines(written)].count("not_run")
    assert 0 < left < 200
    command = "the same command without --fresh" if more == ("--fresh",) else "the same command"
    last = f"interrupted: {left + 200} of 400 cases were not run; {command} completes it"
    if more == ("--json",):
        stopped = json.loads(out)
        assert (stopped["interrupted"], stopped["notes"]) == (True, [last])
        assert [sums(part)["unreached"] for part in stopped["parts"]] == [left, 200]
        assert [part["run"] for part in stopped["parts"]] == [written.parent.resolve().name, ""]
    else:
        assert out.splitlines()[-1] == last
        rows = [line.split() for line in out.splitlines()[1:-1]]
        assert [row[0] for row in rows] == ["n150", "p150"]
        assert rows[1][4:] == ["200", "0", "0", "0", "0", "0", "200", "not", "started"]
    code, found, _ = sweep("--board", "n150,p150")
    assert (code, found["interrupted"]) == (0, False)
    assert [sums(part)["unreached"] for part in found["parts"]] == [0, 0]
    assert sums(found["parts"][0])["taken"] == 200 - left


@pytest.mark.virtual_device
def test_ctrl_c_while_a_later_device_opens_is_in_the_table(sweep):
    """Where it comes while the first one opens, there is no table: see test_no_device.py."""
    process = sweep.start("--board", "n150,p150", "--op", "gelu")
    assert process.stderr is not None
    while not (line := process.stderr.readline()).startswith("p150, ttnn "):
        assert line, "the second board was not started"
    os.kill(process.pid, signal.SIGINT)
    out, _ = process.communicate(timeout=120)
    assert process.returncode == 130
    rows = [line.split() for line in out.splitlines()[1:-1]]
    assert [(row[0], *row[4:11]) for row in rows] == [
        ("n150", "1", "1", "0", "0", "0", "1", "0"),
        ("p150", "1", "0", "0", "0", "0", "0", "1"),
    ]
    assert rows[1][11:] == ["not", "started"]
    assert out.splitlines()[-1] == "interrupted: 1 of 2 cases were not run; the same command completes it"


@pytest.mark.virtual_device
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_while_a_board_is_indexed_is_in_the_table(sweep, number):
    """Another process has the index, so that the end of the first board's run waits for it."""
    sweep("--board", "n150", "--op", "gelu")
    with closing(sqlite3.connect(sweep.folder / "results" / STORE, isolation_level=None)) as held:
        held.execute("BEGIN IMMEDIATE")
        process = sweep.start("--board", "n150,p150", "--op", "relu", "--fresh")
        latest = sweep.folder / "results" / "latest"
        wait_for(lambda: (latest / "summary.txt").exists() and len(read_lines(latest / "records.jsonl")) == 2, "its summary")
        process.send_signal(number)
        out, err = process.communicate(timeout=120)
    assert (process.returncode, "Traceback" in err) == (128 + number, False)
    rows = [line.split() for line in out.splitlines()[1:-1]]
    assert [(row[0], *row[4:11]) for row in rows] == [
        ("n150", "2", "1", "1", "0", "0", "2", "0"),
        ("p150", "2", "0", "0", "0", "0", "0", "2"),
    ]
    assert out.splitlines()[-1] == "interrupted: 2 of 4 cases were not run; the same command without --fresh completes it"


@pytest.mark.virtual_device
def test_an_error_of_one_board_is_a_line_and_the_next_one_is_tried(sweep):
    """Their folders cannot be written, as a file is in the way."""
    code, found, _ = sweep("--board", "n150,p150", "--op", "gelu", "--results", "catalog.yaml/results", "--fresh")
    assert (code, [part["board"] for part in found["parts"]]) == (2, ["n150", "p150"])
    for part in found["parts"]:
        assert part["fault"].startswith("cannot write results to catalog.yaml/results/")
        assert sums(part)["unreached"] == 1


@pytest.mark.virtual_device
def test_a_run_that_is_not_indexed_is_a_line(sweep):
    (sweep.folder / "results" / "store.sqlite").mkdir(parents=True)
    code, found, _ = sweep("--board", "n150,p150", "--op", "gelu", "--fresh")
    assert (code, [sums(part)["fits"] for part in found["parts"]]) == (0, [1, 1])
    assert len(found["notes"]) == 2
    assert all(note.startswith("not indexed: cannot use results/store.sqlite: ") for note in found["notes"])


def test_a_placement_that_a_board_lacks_is_named_before_anything_is_opened(sweep):
    process = sweep.start("--board", "n150,p150", "--placements", "l1:block@13x10")
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (2, "")
    assert "n150" in err
    assert not (sweep.folder / "results").exists()


def test_a_release_that_is_not_here_is_one_line(sweep):
    process = sweep.start("--ttnn", "0.1.0")
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out, len(err.splitlines())) == (2, "", 1)


def test_dtypes_of_the_operands_change_floats_alone():
    def a_case(**fields):
        return case_from_json({"op": "relu", "inputs": [[32, 64]], **fields})

    both = (DType.BFLOAT16, DType.BFLOAT8_B)
    cases = [a_case(), a_case(dtype="float32"), a_case(dtype="int32"), a_case(layout="row_major")]
    found = [(str(c.placement.dtype), str(c.placement.layout)) for c in in_placements(cases, (), None, both)]
    assert found == [("bfloat16", "tile"), ("bfloat8_b", "tile"), ("int32", "tile"), ("bfloat16", "row_major")]
    assert in_placements(cases, ()) == cases
