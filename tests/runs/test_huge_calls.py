"""Calls of more bytes than 64 bits count: the record of each is one that every reader takes."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ssinghal.core.boards import load_board
from ssinghal.core.case import Placement
from ssinghal.core.device_facts import DeviceMode
from ssinghal.core.record import Record
from ssinghal.core.tensors import BufferType, DType, Layout
from ssinghal.core.verdict import Resource, Status, Verdict
from ssinghal.errors import InvalidCase
from ssinghal.estimation.estimator import estimate
from ssinghal.operators import make_case
from ssinghal.runs.parsing import parse_record
from ssinghal.runs.reader import read_run
from ssinghal.runs.writer import unprobed
from tests.support.processes import catalog_text

MAX = 2**32 - 1  # the largest size of a dim
SIZES = st.one_of(st.integers(1, MAX), st.integers(MAX - 64, MAX), st.sampled_from([2**k for k in range(32)]))
SHAPES = st.lists(SIZES, min_size=1, max_size=8).map(tuple)
BOARD = load_board("n150")


@settings(max_examples=300)
@given(
    shape=SHAPES,
    operator=st.sampled_from(["relu", "add", "matmul"]),
    dtype=st.sampled_from(list(DType)),
    layout=st.sampled_from(list(Layout)),
    memory=st.sampled_from([BufferType.DRAM, BufferType.L1]),
)
def test_every_estimate_is_read_as_it_was_written(shape, operator, dtype, layout, memory):
    shapes = (shape,) if operator == "relu" else (shape, shape)
    if operator == "matmul" and len(shape) > 1:
        shapes = (shape, (*shape[:-2], shape[-1], shape[-2]))
    try:
        case = make_case(operator, shapes, {}, Placement(dtype=dtype, layout=layout, memory=memory))
        estimated = estimate(case, BOARD).stored()
    except InvalidCase:
        return
    record = replace(unprobed(case, Status.NOT_RUN, "made here", "n150"), estimate=estimated)
    assert parse_record(json.dumps(record.to_json())) == record


@pytest.mark.parametrize("name", ["allocated_bytes", "free_bytes", "largest_free_bytes", "program_bytes", "limit_bytes"])
def test_a_number_of_ttnn_that_wrapped_is_read(name):
    """As 2,048 B less than nothing, which are 2^64 - 2,048 in 64 bits."""
    case = make_case("relu", ((1, 1, 32, 32),))
    verdict = Verdict(Status.OOM, Resource.L1_BUFFER, total_bytes=2_048, **{name: 2**64 - 2_048})
    record = Record.of(case, verdict, device_mode=DeviceMode.VIRTUAL, board="n150", ttnn="0.81.1")
    assert parse_record(json.dumps(record.to_json())) == record


HUGE = {
    "relu": [{"shape": [65536, 65536, 65536, 32768]}, {"shape": [MAX] * 8}, {"shape": [1, 1, 32, 32]}],
    "matmul": [{"in": [[4_000_000_000, 32], [32, 4_000_000_000]]}],
}
# 65536 = 2^16 and 32768 = 2^15; MAX is padded to a multiple of 32, that is 2^32, in the last two dims of a tensor in tiles.
# The matmul fails by its first operand; its estimate has the result, of 2 B * (4 * 10^9)^2.
TOTALS = {2 * 2**63, 2 * MAX**6 * 2**64, 2 * 4_000_000_000 * 32, None}


def command(folder: Path, *arguments: str, code: int = 0) -> str:
    line = [sys.executable, "-m", "ssinghal", *arguments]
    done = subprocess.run(line, cwd=folder, capture_output=True, text=True, timeout=240, check=False)
    assert (done.returncode, "Traceback" in done.stderr) == (code, False), done.stderr
    return done.stdout


@pytest.mark.virtual_device
def test_every_command_takes_the_record_of_a_huge_call(tmp_path):
    (tmp_path / "catalog.yaml").write_text(catalog_text(HUGE, memory="dram"))
    command(tmp_path, "run", "catalog.yaml", "--workers", "1")
    run = read_run(tmp_path / "results" / "latest")
    assert (run.losses, {record.total_bytes for record in run.records}) == ((), TOTALS)
    assert [record.status for record in run.records].count(Status.OOM) == 3

    counts = "4 cases: fits 1, oom 3"
    assert counts in command(tmp_path, "report", "latest")
    assert "4 cases in both" in command(tmp_path, "compare", "latest", "latest")
    assert "is complete: 4 cases have a record" in command(tmp_path, "run", "--resume", "latest")
    command(tmp_path, "run", "catalog.yaml", "--workers", "1", "--incremental")
    again = read_run(tmp_path / "results" / "latest")
    assert {record.taken_from for record in again.records} == {run.id}
    assert {record.key: record.total_bytes for record in again.records} == {r.key: r.total_bytes for r in run.records}
    assert "oom" in command(tmp_path, "history", "relu", "65536,65536,65536,32768")
    assert "4 of 4 selected cases recorded" in command(tmp_path, "merge", "results/latest", "--results", "merged")
    command(tmp_path, "compress", "latest")
    assert read_run(tmp_path / "results" / "latest").losses == ()


@pytest.mark.virtual_device
def test_a_release_has_a_verdict_of_a_huge_call(tmp_path):
    cases = [{"op": "relu", "inputs": [line["shape"]]} for line in HUGE["relu"]]
    (tmp_path / "cases.jsonl").write_text("".join(f"{json.dumps(case)}\n" for case in cases))
    out = command(tmp_path, "releases", "run", "cases.jsonl", "-o", "out", "--workers", "1", "--json")
    assert math.prod(HUGE["relu"][0]["shape"]) == 2**63
    assert out.count('"oom"') >= 2
