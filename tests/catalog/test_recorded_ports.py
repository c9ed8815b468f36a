"""A port of a model is recorded, and each of its calls that is a case is made again by itself: with the same result in the same
shards, and the same program buffers where TTNN reported those."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ssinghal.catalog.recorded.calls import RecordedCall
from ssinghal.catalog.recorded.cases import case_of
from ssinghal.catalog.recorded.profile_records import entries
from ssinghal.core.boards import load_board
from ssinghal.errors import InvalidCase
from tests.profile.measure import ROOT, run_ssinghal

pytestmark = pytest.mark.virtual_device

PORT = "unet"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("port")
    for words in (
        ("profile", "--board", "n150", "-o", PORT, "--", "python", ROOT / "examples" / "ports" / f"{PORT}.py"),
        ("catalog", "import", PORT),
        ("run", f"{PORT}.yaml", "--board", "n150"),
    ):
        done = run_ssinghal(made, *words)
        assert done.returncode == 0, done.stderr[-2000:]
    return made


def read_lines(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text().splitlines()]


def test_each_call_of_a_port_by_itself_is_as_it_was_recorded(folder):
    records = {record["key"]: record for record in read_lines(next((folder / "results").glob("*/records.jsonl")))}
    assert {record["status"] for record in records.values()} == {"fits"}
    (file,) = (folder / PORT).glob("records-*.jsonl")
    lines, board = read_lines(file), load_board("n150")
    compared = with_programs = 0
    for entry in entries(file):
        if not isinstance(entry, RecordedCall):
            continue
        try:
            record = records[case_of(entry, [board]).key]
        except InvalidCase:
            continue
        output = next(tensor for tensor in record["tensors"] if tensor["label"].startswith("output"))
        (result, *_) = entry.results
        assert (output["dtype"], output["layout"], output["memory"]) == (result.dtype, result.layout, str(result.memory))
        compared += 1
        call = lines[int(entry.where.rpartition(":")[2]) - 1]
        programs = [event[2] for event in call["ev"] if event[0] == "p"]
        if programs and None not in programs:
            usage = record["usage"]
            assert usage["circular_bytes"] + usage["dataflow_bytes"] + usage["scratch_bytes"] == max(programs), entry.where
            with_programs += 1
    assert compared >= 50
    assert with_programs >= 20
