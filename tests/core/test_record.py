"""Records, run folders and their texts: plain values, complete lines, totals that add up."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import MISSING, fields, replace
from enum import Enum

import pytest

from ssinghal.core.boards import load_board
from ssinghal.core.case import Case, ModuleCalls, OperandPlacement, OutputMemory, Placement, Source
from ssinghal.core.device_facts import DeviceFacts, DeviceMode
from ssinghal.core.estimate import Estimate, Prediction
from ssinghal.core.json_values import plain
from ssinghal.core.measured import Comparison, PlacedTensor, Usage
from ssinghal.core.record import Record
from ssinghal.core.remedy_outcome import RemedyOutcome, StrategyRejection
from ssinghal.core.run_info import RunInfo
from ssinghal.core.tensors import BufferType, DType, Layout, MemoryRegion
from ssinghal.core.verdict import DecidedBy, Resource, Status, Verdict, sentence
from ssinghal.core.versions import commit_of, new_run_id
from ssinghal.errors import HarnessError
from ssinghal.estimation.estimator import estimate
from ssinghal.operators import make_case
from ssinghal.render.tables import OutcomeCounts, aligned
from ssinghal.runs.parsing import parse_device, parse_record
from ssinghal.runs.writer import RunFolder
from tests.support.processes import read_lines

# The message of a real card: 3 x 532,480 B requested from banks of 1,393,312 B.
CARD_OOM = Verdict(
    Status.OOM,
    Resource.L1_BUFFER,
    "output",
    total_bytes=34_078_720,
    bytes_per_bank=532_480,
    banks=64,
    bank_bytes=1_393_312,
    allocated_bytes=1_064_960,
    free_bytes=328_352,
    largest_free_bytes=328_352,
)


def record(op: str = "add", verdict: Verdict = CARD_OOM, **changes: object) -> Record:
    tensor = PlacedTensor("input 1", (1, 640, 400, 64), "bfloat16", "tile", "l1", 32_768_000, 34_078_720, 532_480)
    case = Case(op, op, ((1, 64, 640, 400),))
    fields = {"device_mode": DeviceMode.VIRTUAL, "board": "n150", "ttnn": "0.81.1", "tensors": (tensor, tensor)}
    return Record.of(case, verdict, **{**fields, **changes})


def info(**changes: object) -> RunInfo:
    fields = {"run": new_run_id(), "started": "", "command": "", "commit": "", "versions": {}, "options": {}}
    return RunInfo(**{**fields, **changes})


def leaves(value: object) -> list[object]:
    if isinstance(value, dict):
        return [leaf for item in value.items() for leaf in leaves(item)]
    if isinstance(value, (list, tuple)):
        return [leaf for item in value for leaf in leaves(item)]
    return [value]


# Records -------------------------------------------------------------------------------------------------------------------


def test_a_record_is_one_flat_object_of_plain_values():
    line = record(comparison=Comparison(0.9999, 0.1, 0.999), usage=Usage(*range(7)), left_allocated={"l1": 32}).to_json()
    assert not [leaf for leaf in leaves(line) if isinstance(leaf, Enum)]  # xdist sends none
    again = json.loads(json.dumps(line))
    assert (again["op"], again["status"], again["resource"], again["stage"]) == ("add", "oom", "l1_buffer", "output")
    assert (again["total_bytes"], again["bytes_per_bank"], again["banks"]) == (34_078_720, 532_480, 64)
    assert again["shortfall_bytes"] == 532_480 - 328_352
    assert again["allocated_to_logical"] == 1.04  # 400 rows padded to 416
    assert again["numerics"] == "compared"


def test_a_comparison_without_numbers_is_json():
    line = record(comparison=Comparison(None, None, 0.999, "shape [1]; torch gives [2]")).to_json()
    again = json.loads(json.dumps(line, allow_nan=False))
    assert again["comparison"] == {"pcc": None, "max_abs_error": None, "min_pcc": 0.999, "fault": "shape [1]; torch gives [2]"}


def test_a_virtual_device_has_no_numerics():
    line = record(verdict=Verdict(Status.FITS)).to_json()
    assert (line["numerics"], line["comparison"]) == ("not run", None)
    assert "resource" not in line
    assert "shortfall_bytes" not in line


@pytest.mark.parametrize(
    ("verdict", "missing"),
    [
        (CARD_OOM, 204_128),
        (Verdict(Status.OOM, Resource.FRAGMENTATION, bytes_per_bank=500, free_bytes=600, largest_free_bytes=400), 100),
        (Verdict(Status.OOM, Resource.CIRCULAR_BUFFER, program_bytes=2_000, limit_bytes=1_500), 500),
        (Verdict(Status.OOM, Resource.CLASH, program_bytes=785_184, tensor_address=469_632), 315_552),
        (Verdict(Status.OOM, Resource.HOST), None),
        (Verdict(Status.FITS), None),
    ],
)
def test_shortfall(verdict, missing):
    assert verdict.shortfall_bytes == missing


def test_a_record_is_read_as_it_was_written():
    """Every field, none at its default."""
    case = make_case(
        "add",
        ((1, 64, 640, 400), (1, 64, 640, 400)),
        {"alpha": 2},
        Placement(
            memory=BufferType.L1,
            output_memory=OutputMemory.DRAM,
            output_dtype=DType.BFLOAT8_B,
            operands=(OperandPlacement(layout=Layout.TILE),),
        ),
    )
    written = Record.of(
        replace(
            case,
            sources=(Source("catalog", "model", "1x3x640x400", 3, (ModuleCalls("block.0", 2),), 1, 1),),
            listed_shape=(1, 64, 640, 400),
            altered=("memory",),
        ),
        replace(CARD_OOM, decided_by=DecidedBy.ARITHMETIC, cores="0-0..7-7", error_type="RuntimeError", thrown_at="file.cpp:1"),
        device_mode=DeviceMode.SILICON,
        board="n300",
        ttnn="0.81.1",
        mesh=(1, 2),
        comparison=Comparison(None, 0.5, 0.999, "shape"),
        tensors=(PlacedTensor("input 1", (1, 2), "bfloat16", "tile", "l1", 4, 2048, 2048),),
        usage=Usage(1, 2, 3, 4, 5, 6, 7),
        usage_note="a note",
        resident={"l1": 32},
        estimate=estimate(case, load_board("n150")).stored(),
        remedies=RemedyOutcome(refused=(StrategyRejection("chunked", "pieces", "no", 1),), probes=1, budget_spent=True),
        left_allocated={"dram": 64},
        test="tests/test_add.py::test",
        retried="crash: SIGSEGV",
        taken_from="20260101T030405.000000Z",
        run="20260102T030405.000000Z",
        duration_s=0.25,
    )
    line = json.dumps(written.to_json())
    read = parse_record(line)
    assert read == written
    assert json.dumps(read.to_json()) == line
    defaults = {f.name for f in fields(Record) if f.default is not MISSING and getattr(written, f.name) == f.default}
    assert defaults == {"buffer_kind", "message", "program_bytes", "limit_bytes", "tensor_address"}  # of other resources


def test_records_are_written_without_pydantic():
    """It takes longer to import than all that writes records."""
    code = "import sys, ssinghal.estimation.estimator, ssinghal.core.record; print('pydantic' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def test_a_run_is_described_as_it_is_read():
    device = DeviceFacts(
        DeviceMode.VIRTUAL, "n150", "wormhole_b0", "N150", (8, 8), "0.81.1", MemoryRegion(64, 1_393_312, 16),
        MemoryRegion(12, 1_072_693_184, 32), 105_824, 32, (1, 1), "ab", "asked for", "read-back returned zeros",
    )  # fmt: skip
    assert parse_device(json.dumps(device.to_json())) == device
    assert (DeviceFacts().to_json(), parse_device("{}")) == ({}, DeviceFacts())
    assert list(plain(info())) == [
        "run", "started", "command", "folder", "commit", "device", "versions", "options", "schema", "selected", "finished",
        "totals", "unreached", "answerer", "searcher", "shard", "selected_of_all", "selection_sha256", "merged", "resumed",
    ]  # fmt: skip


# In words ------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("verdict", "text"),
    [
        (CARD_OOM, "L1 bank needs 532,480 B, 328,352 B free (output)"),
        (
            Verdict(Status.OOM, Resource.DRAM_BUFFER, "input 1", bytes_per_bank=1_398_102_016, bank_bytes=1_072_693_184),
            "DRAM bank needs 1,398,102,016 B of a bank of 1,072,693,184 B (input 1)",
        ),
        (Verdict(Status.OOM, Resource.L1_BUFFER, bytes_per_bank=500), "L1 bank needs 500 B"),
        (
            Verdict(Status.OOM, Resource.FRAGMENTATION, "output", bytes_per_bank=500, free_bytes=600, largest_free_bytes=400),
            "a bank needs 500 B, 600 B free, largest block 400 B (output)",
        ),
        (
            Verdict(
                Status.OOM,
                Resource.CIRCULAR_BUFFER,
                "program",
                program_bytes=9_991_296,
                limit_bytes=1_499_136,
                buffer_kind="circular",
            ),
            "circular buffers end at 9,991,296 B, L1 at 1,499,136 B (program)",
        ),
        (
            Verdict(
                Status.OOM, Resource.CLASH, "program", program_bytes=785_184, tensor_address=469_632, buffer_kind="dataflow"
            ),
            "dataflow buffers end at 785,184 B, an L1 tensor begins at 469,632 B (program)",
        ),
        (Verdict(Status.OOM, Resource.HOST, "call", message="std::bad_alloc"), "host: std::bad_alloc (call)"),
        (Verdict(Status.ERROR, message="shapes differ"), "shapes differ"),
        (Verdict(Status.FITS), "fits"),
    ],
)
def test_a_verdict_in_one_line(verdict, text):
    assert sentence(verdict) == text


def test_the_summary_counts_every_record_once():
    verdicts = {
        "add": [CARD_OOM, Verdict(Status.OOM, Resource.CLASH), Verdict(Status.FITS)],
        "mm": [Verdict(Status.FITS), Verdict(Status.FITS), Verdict(Status.CRASH), Verdict(Status.NOT_RUN)],
    }
    records = [record(op, verdict).to_json() for op, listed in verdicts.items() for verdict in listed]
    counts = OutcomeCounts()
    for one in records:
        counts.add(one)
    assert counts.totals == {"fits": 3, "oom": 2, "crash": 1, "not_run": 1}
    assert counts.rows() == [
        ["operator", "cases", "fits", "oom l1_buffer", "oom clash", "crash", "not_run"],
        ["add", "3", "1", "1", "1", "", ""],
        ["mm", "4", "2", "", "", "1", "1"],
        ["total", "7", "3", "1", "1", "1", "1"],
    ]


def test_a_table_is_aligned_without_trailing_blanks():
    assert aligned([["operator", "cases", "oom"], ["add", "12", "3"], ["mm", "1", ""]]) == [
        "operator  cases  oom",
        "add          12    3",
        "mm            1",
    ]


def test_the_named_columns_of_a_table_are_left_aligned_and_nothing_is_cut():
    long = "[1, 64]\t" + "x" * 500
    assert aligned([["call", "bytes", "why"], ["mm", "2,048", long], ["a", "1", "[b]"]], left=(0, 2)) == [
        "call  bytes  why",
        f"mm    2,048  {long}",
        "a         1  [b]",
    ]


# Files ---------------------------------------------------------------------------------------------------------------------


def test_the_folder_of_a_run(tmp_path):
    parent = tmp_path / "deep" / "results"
    first = RunFolder(parent, info())
    assert json.loads((first.path / "run.json").read_text())["finished"] is None  # there before the first record
    first.append(record("add").to_json())
    assert [r["op"] for r in read_lines(first.path / "records.jsonl")] == ["add"]  # on disk when append returns
    first.set_device(DeviceFacts(DeviceMode.VIRTUAL, "n150"))
    first.append(record("mm", Verdict(Status.FITS)).to_json())
    lines = first.finish(3, ["a note"])

    written = json.loads((first.path / "run.json").read_text())
    assert (written["selected"], written["totals"], written["device"]["board"]) == (3, {"fits": 1, "oom": 1}, "n150")
    assert {r["run"] for r in read_lines(first.path / "records.jsonl")} == {written["run"]}
    assert "2 of 3 selected cases recorded" in lines[0]
    assert "numerics not run" in lines[1]
    assert (first.path / "summary.txt").read_text().splitlines() == [*lines, "a note"]

    second = RunFolder(parent, info())
    assert (parent / "latest").resolve() == second.path.resolve() != first.path.resolve()
    assert {p.name for p in parent.iterdir()} == {first.info.run, second.info.run, "latest", "store.sqlite"}


def test_the_summary_of_a_silicon_run_does_not_mention_missing_numerics(tmp_path):
    folder = RunFolder(tmp_path, info(device=DeviceFacts(DeviceMode.SILICON, "n150"), versions={"ttnn": "0.81.1"}))
    assert folder.finish(0)[1:] == ["silicon n150, ttnn 0.81.1"]


def test_a_folder_that_cannot_be_written_is_one_line(tmp_path):
    file = tmp_path / "file"
    file.write_text("")
    with pytest.raises(HarnessError, match=rf"^cannot write results to {file}/.*: Not a directory$"):
        RunFolder(file, info())


def test_run_ids_sort_by_time():
    ids = [new_run_id() for _ in range(50)]
    assert ids == sorted(ids)


def test_commit(tmp_path):
    assert commit_of(tmp_path) == ""
    environ = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull}

    def git(*arguments: str) -> None:
        author = ("-c", "user.name=test", "-c", "user.email=test@localhost")
        subprocess.run(["git", *author, *arguments], cwd=tmp_path, env=environ, check=True, capture_output=True)

    git("init", "-q")
    (tmp_path / "file").write_text("one")
    git("add", "file")
    git("commit", "-qm", "first")
    clean = commit_of(tmp_path)
    assert len(clean) >= 12
    assert int(clean, 16) > 0
    (tmp_path / "file").write_text("two")
    assert commit_of(tmp_path) == f"{clean}-dirty"


OTHERS = ("circular_bytes", "dataflow_bytes", "scratch_bytes", "l1_total_bytes", "l1_small_bytes", "dram_bytes")


@pytest.mark.parametrize(
    ("numbers", "peak", "arithmetic", "missing"),
    [
        # An operand of 600 B in a bank of 1,000 B beside 500 B; the result of 300 B was never tried: 600 + 500 + 300 - 1,000.
        ({"bytes_per_bank": 600, "largest_free_bytes": 500, "bank_bytes": 1_000}, 1_400, 1_100, 400),
        ({"bytes_per_bank": 600, "largest_free_bytes": 500, "bank_bytes": 1_000}, None, 1_400, 400),
        # The capture lacks what the message counts: the message has the last word.
        ({"bytes_per_bank": 600, "largest_free_bytes": 500, "bank_bytes": 1_000}, 1_050, 1_400, 100),
        ({"bytes_per_bank": 600, "largest_free_bytes": 500}, 1_400, 1_400, 100),
        ({"resource": Resource.CLASH, "program_bytes": 900, "tensor_address": 700, "bank_bytes": 1_000}, 1_400, 1_400, 200),
        ({"bytes_per_bank": 600}, 1_400, 1_400, None),
    ],
)
def test_the_shortfall_of_the_whole_call(numbers, peak, arithmetic, missing):
    known = record(
        verdict=Verdict(Status.OOM, **{"resource": Resource.L1_BUFFER, **numbers}),
        usage=None if peak is None else Usage(l1_bytes=peak, **dict.fromkeys(OTHERS, 0)),
        estimate=Estimate(Prediction.EXCEEDS, peak_bytes_per_bank={"l1": arithmetic}),
    )
    assert known.call_shortfall_bytes == missing
