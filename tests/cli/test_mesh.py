"""Commands on meshes: bad input, and what their output states of parts and chips."""

from __future__ import annotations

import json

import pytest

from tests.support.run_builder import a_record, write_run

pytestmark = pytest.mark.virtual_device

TILE = 2048


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (("relu", "64,64/shard=1"), "relu has an operand that is cut over chips; n150 is one chip, expected n300_1x2 or"),
        (("all_gather", "64,64", "--attr", "dim=1"), "all_gather runs on a mesh of chips; n150 is one chip, expected"),
        (("relu", "64,100/shard=1", "--board", "t3k_2x4"), "relu: input 1: shard=1: 100 does not divide over 8 chips"),
        (("add", "8,8", "8,8/shard=1", "--board", "n300_1x2"), "shapes [8, 8] and [8, 4] do not broadcast"),
        (("all_gather", "64,64", "--attr", "dim=2", "--board", "n300_1x2"), "dim 2 is outside -2..1"),
        (("all_reduce", "64,64", "--attr", "cluster_axis=2", "--board", "n300_1x2"), "cluster_axis 2: a mesh has axis 0"),
        (
            ("all_reduce", "64,64", "--attr", "topology=ring", "--board", "n300_1x2"),
            "unknown topology 'ring'; did you mean Ring?",
        ),
        (("all_reduce", "64,64", "--attr", "fabric_config=1D", "--board", "n300_1x2"), "unknown fabric_config '1D'"),
        (("reduce_scatter", "64,63", "--attr", "dim=1", "--board", "n300_1x2"), "a dim of 63 does not divide over 2 chips"),
        (("broadcast", "64,64", "--attr", "sender_coord=1,0", "--board", "n300_1x2"), "sender_coord [1, 0]: the mesh has 1x2"),
        (("all_gather", "64,64", "--attr", "mesh=1", "--attr", "dim=1"), "unknown attribute of all_gather 'mesh'"),
    ],
)
def test_bad_input_is_one_line(run, words, line):
    result = run("probe", *words)
    assert (result.code, result.out, result.err.count("\n")) == (2, "", 1)
    assert result.err.startswith(f"ssinghal: {line}")


def test_a_wrong_line_of_a_file_is_named(run, tmp_path):
    fields = {"op": "relu", "inputs": [[64, 64]], "operands": [{"shard_dim": 1}]}
    (tmp_path / "cases.jsonl").write_text(json.dumps(fields) + "\n")
    result = run("probe", "--from", "cases.jsonl")
    assert (result.code, result.out) == (2, "")
    assert result.err.startswith("cases.jsonl:1: relu has an operand that is cut over chips")
    assert run("probe", "--from", "cases.jsonl", "--board", "n300_1x2").code == 0


def test_output_states_of_what_the_sizes_are(run):
    result = run("probe", "relu", "64,128/shard=1", "--board", "n300_1x2")
    assert "relu [64,128]/shard=1  on virtual n300_1x2" in result.out
    assert ", of each of 1x2 chips" in result.out.splitlines()[0]
    estimated = run("estimate", "relu", "64,128/shard=1", "--board", "n300_1x2").out.splitlines()
    assert estimated[:2] == ["of each of 1x2 chips:", "input 1: [64,64] bfloat16 tile dram"]


def test_golden_functions_know_no_chips(run):
    result = run("probe", "relu", "64,128/shard=1", "--board", "n300_1x2", "--device", "golden")
    assert result.code == 1
    assert "UNSUPPORTED: golden functions run on the host, not on the chips of a mesh" in result.out


def test_an_edge_steps_by_whole_parts(run):
    """A [1024,1024] map is 16 tiles of each bank; each chip has half of the maps, as operand and as result."""
    result = run(
        "edge", "softmax", "8,1024,1024/shard=0", "--attr", "dim=-1", "--memory", "l1", "--board", "n300_1x2", "--max", "batch"
    )
    assert result.code == 0
    assert "dim 0 of [8,1024,1024] in steps of 2" in result.out
    (fits,) = (int(line.split()[0]) for line in result.out.splitlines() if " fits: " in line)
    assert fits % 2 == 0
    assert f"{fits} fits: [{fits},1024,1024]/shard=0" in result.out
    assert 2 * (fits // 2) * 16 * TILE < 1_393_312


def test_remedies_are_of_the_call_that_each_chip_makes(run, tmp_path):
    """32 MiB on each chip, gathered 64 MiB: 1.5 MiB of an L1 bank."""
    words = ("all_gather", "1,1,16384,2048/shard=3", "--attr", "dim=3", "--memory", "l1", "--board", "n300_1x2")
    result = run("remedy", *words, "--script", "gather.py")
    assert result.code == 0
    assert result.out.startswith("all_gather [1,1,16384,1024] dim=3 (bfloat16, tile, l1)  on n300_1x2, of each of 1x2 chips\n")
    assert "other memory: all in DRAM" in result.out
    script = (tmp_path / "gather.py").read_text()
    assert "ttnn.set_fabric_config(ttnn.FabricConfig.FABRIC_1D)\ndevice = ttnn.open_mesh_device(ttnn.MeshShape(1, 2)" in script
    assert script.endswith("ttnn.close_mesh_device(device)\n")
    assert run("exec", "--board", "n300_1x2", "python", "gather.py").code == 0


def test_precision_plans_parts(run):
    result = run("precision", "matmul", "32,4096", "4096,8192/shard=1", "--board", "n300_1x2", "--bytes-only")
    assert result.code == 0
    assert "[4096,8192]" not in result.out.split("\n", 1)[1]
    assert f"{4096 * 4096 * 2:,}" in result.out


def test_reports_and_comparisons_keep_calls_on_parts_apart(run, tmp_path):
    shapes = [[1, 1, 32, 4096], [4096, 14336]]
    measured = {"board": "t3k_2x4", "measured": {"mesh": (2, 4)}}
    copied = a_record("matmul", inputs=shapes, **measured)
    cut = a_record("matmul", inputs=shapes, operands=[None, {"shard_dim": 1}], **measured)
    before = write_run(tmp_path / "runs", [copied], "20260102T030405.000000Z")
    after = write_run(tmp_path / "runs", [cut], "20260103T030405.000000Z")
    assert run("report", str(after), "-o", "report").code == 0
    assert "4096x14336-l1-in2=shard=1" in (tmp_path / "report" / "per_operator" / "matmul.md").read_text()
    assert "no change" not in run("compare", str(before), str(after)).out
    assert "no change" in run("compare", str(after), str(after)).out
