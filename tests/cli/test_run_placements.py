"""``ssinghal run --placements``: a record per call and placement, TTNN's rules as ``unsupported``, and the view at the end."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from ssinghal.cli import cli
from ssinghal.errors import InvalidCase
from ssinghal.runs.reader import read_run
from ssinghal.runs.selection import Selection
from tests.support.processes import catalog_text

pytestmark = pytest.mark.virtual_device

# [1, 32, 64] in tiles is one tile by two; [4096, 4096] in bfloat16 is 32 MiB, 512 KiB to each of 64 cores.
OPERATORS: dict[str, list[dict[str, Any]]] = {
    "relu": [{"in": [[1, 32, 64]]}, {"in": [[8192, 8192]]}],
    "cumsum": [{"in": [[1, 32, 64]], "args": {"dim": -1}}],
    "linear": [{"in": [[128, 128], [256, 128]]}],
}


def run(folder: Path, *arguments: str) -> Result:
    (folder / "catalog.yaml").write_text(catalog_text(OPERATORS, memory="dram"))
    return CliRunner().invoke(cli, ["run", str(folder / "catalog.yaml"), "--results", str(folder / "results"), *arguments])


@pytest.fixture(scope="module")
def placed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Result]:
    folder = tmp_path_factory.mktemp("placements")
    return folder, run(folder, "--placements", "dram,l1,height,block@4x4", "--weights", "bf8", "--json")


def test_each_call_has_a_record_in_each_placement(placed):
    folder, result = placed
    assert result.exit_code == 0, result.output  # no rule is a failure
    records = read_run(folder / "results" / "latest").groups[0].records
    assert sorted((r.op, r.memory) for r in records) == sorted(
        (op, memory) for op in ("relu", "relu", "cumsum", "linear") for memory in ("dram", "l1", "l1:height", "l1:block@4x4")
    )
    linear = {r.memory: r for r in records if r.op == "linear"}
    assert [r.operands for r in linear.values()] == [(None, {"dtype": "bfloat8_b"})] * 4
    weight = next(t for t in linear["l1:height"].tensors if t.label == "input 2")
    assert (weight.memory, weight.dtype) == ("dram", "bfloat8_b")


def test_a_rule_of_ttnn_is_unsupported_with_its_sentence(placed):
    folder, _ = placed
    cumsum = {r.memory: r for r in read_run(folder / "results" / "latest").groups[0].records if r.op == "cumsum"}
    assert {memory: str(r.status) for memory, r in cumsum.items()} == {
        "dram": "fits", "l1": "fits", "l1:height": "unsupported", "l1:block@4x4": "unsupported",
    }  # fmt: skip
    assert cumsum["l1:height"].decided_by == "ttnn"
    assert cumsum["l1:height"].message == "ttnn accumulation operations (cumprod, cumsum) do not support sharded input tensors."


def test_the_header_and_the_selection_know_the_placements(placed):
    folder, _ = placed
    selection = Selection.of(read_run(folder / "results" / "latest"))
    assert (selection.placements, selection.weights) == (("dram", "l1", "l1:height", "l1:block@4x4"), "bfloat8_b")
    summary = (folder / "results" / "latest" / "summary.txt").read_text()
    assert "each call in dram, l1, l1:height, l1:block@4x4; weights in bfloat8_b" in summary


# relu of [8192, 8192]: 65,536 tiles of 2,048 B, 1,024 in each of 64 banks, 2,097,152 B of a bank of 1,393,312 B.
def test_the_view_counts_the_calls(placed):
    _, result = placed
    (view,) = json.loads(result.stdout)["placements"]
    (model,) = view["models"]
    assert (model["calls"], model["fit_in_l1_sharded"], model["fit_in_dram_alone"]) == (4, 2, 1)
    assert {memory: counts["fit"] for memory, counts in model["placements"].items()}["dram"] == 4
    large = next(row for row in model["rows"] if "8192" in row["call"])["placements"]
    assert large["l1"]["stopped_by"] == "tensors"
    assert "2,097,152 B" in large["l1"]["reason"]
    small = next(row for row in model["rows"] if row["op"] == "relu" and "8192" not in row["call"])["placements"]
    # Two tiles in, two tiles out, each tile alone on a bank or core; program buffers may take more.
    assert 0 < small["l1"]["headroom_bytes"] <= 1_393_312 - 2 * 2048


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--placements", "dram,heigth"), "unknown placement 'heigth'; did you mean height"),
        (("--placements", "l1:hight"), "unknown shard kind 'hight'; did you mean height"),
        (("--placements", "l1", "--memory", "dram"), "--memory and --placements both place the operands"),
        (("--weights", "bf9"), "unknown dtype 'bf9'"),
    ],
)
def test_bad_input_is_one_line(tmp_path, arguments, message):
    result = run(tmp_path, *arguments)
    text = result.output or str(result.exception)
    assert result.exit_code != 0
    assert message in text
    assert not (tmp_path / "results").exists()


@pytest.mark.parametrize(
    ("board", "placements", "fault"),
    [
        ("n150", "dram,block@9x8", "shards l1:block@9x8: they reach over 9x8 cores; n150 has 8x8 for l1"),
        ("n150", "height@65", "65 cores for shards; n150 has 64 for l1"),
        ("p100", "dram:width@8", "8 cores for shards; p100 has 7 for dram"),
    ],
)
def test_cores_that_the_board_lacks_are_one_error_before_the_run(tmp_path, board, placements, fault):
    result = run(tmp_path, "--placements", placements, "--board", board)
    assert isinstance(result.exception, InvalidCase)
    assert str(result.exception) == fault
    assert not (tmp_path / "results").exists()
