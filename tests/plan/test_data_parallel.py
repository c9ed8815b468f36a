"""A batch that is split over the chips of a mesh, and what the command line refuses of it and of steering."""

import json

import pytest

from ssinghal.device.releases import Release
from ssinghal.errors import InvalidCase
from ssinghal.plan.data_parallel import chips_of, part_of_batch
from ssinghal.plan.planner import check_policy
from ssinghal.plan.policy import POLICIES
from tests.support.packages import needs_torch

MODULE = "import torch\ndef net(*shape): return torch.nn.Sequential(torch.nn.ReLU()), torch.empty(shape)\n"


@pytest.fixture
def plan_of(run, tmp_path):
    """``plan_of(shape, ...)``: a plan of a module that keeps its input's shape."""
    (tmp_path / "mine.py").write_text(MODULE)
    return lambda shape, *arguments: run("plan", "mine:net", "--input", shape, *arguments)


@pytest.mark.parametrize(("boards", "chips"), [(["n300_1x2"], 2), (["t3k_1x8", "t3k_2x4"], 8)])
def test_every_chip_gets_an_equal_part(boards, chips):
    assert chips_of(boards) == chips
    assert part_of_batch((8 * chips, 3, 224, 224), chips) == (8, 3, 224, 224)


@pytest.mark.parametrize(
    ("boards", "message"),
    [
        (["n150"], "n150 is one chip; expected n300_1x2 or "),
        (["n300_1x2", "n300"], "n300 is one chip; expected n300_1x2 or "),
        (["n300_1x2", "t3k_1x8"], "expected boards of equally many chips; n300_1x2 has 2, t3k_1x8 has 8"),
    ],
)
def test_other_boards_are_refused(boards, message):
    with pytest.raises(InvalidCase, match=f"--data-parallel: {message}"):
        chips_of(boards)


@needs_torch
@pytest.mark.parametrize(
    ("shape", "arguments", "message"),
    [
        ("3,32,32", ("--board", "n300_1x2", "--data-parallel"), "the batch of an input [3,32,32] does not divide over 2 chips"),
        ("2,32,32", ("--board", "n150,n300_1x2", "--data-parallel"), "n150 is one chip; expected n300_1x2"),
        ("2,32,32", ("--board", "n300_1x2", "--data-parallel", "--max", "batch"), "N times that of one"),
        ("2,32,32", ("--policy", "l1", "--pin", "1=height"), "pin 1=height: no call is made in such a module; nearest: 0"),
        ("2,32,32", ("--policy", "l1", "--headroom", "100%"), "--headroom 100%: expected a share below 100%"),
        ("2,32,32", ("--headroom", "10%"), "a headroom is for policy l1"),
        ("2,32,32", ("--policy", "both", "--pin", "0=l1"), "a pin is for policy l1"),
        ("2,32,32", ("--activations", "bfloat4_b"), "unknown --activations 'bfloat4_b'"),
    ],
)
def test_what_is_refused_is_one_line_before_a_device_opens(plan_of, monkeypatch, shape, arguments, message):
    monkeypatch.setattr("ssinghal.plan.planner.Pool", lambda *arguments: pytest.fail("a device was opened"))
    done = plan_of(shape, *arguments)
    assert (done.code, done.out, len(done.err.splitlines())) == (2, "", 1)
    assert message in done.err


@needs_torch
@pytest.mark.virtual_device
def test_a_batch_is_split_over_the_chips_of_a_mesh(plan_of):
    """Each chip of an n300 has a batch of 2, and the bytes of that: 32 x 32 tiles of 2,048 B over its 12 banks, 86 in the
    fullest."""
    done = plan_of("4,512,1024", "--board", "n300_1x2", "--data-parallel", "--json")
    assert done.code == 0, done.err
    ((plan,),) = [[one["plan"] for one in json.loads(done.out)]]
    assert plan["input_shapes"] == [[2, 512, 1024]]
    assert {value["bytes_per_bank"] for value in plan["alive"]} == {86 * 2048}
    assert plan["notes"] == ["data parallel: a batch of 4 over 2 chips, 2 on each; all figures are those of each chip"]


@pytest.mark.parametrize(("version", "runs"), [("0.66.0", False), ("0.75.0", True), ("0.81.1", True)])
def test_releases_without_buffers_in_their_graphs_are_refused(version, runs, tmp_path):
    """Up to 0.66 a graph has no memory of each buffer, so that neither traffic nor peaks of L1 could be known."""
    release = Release(version, tmp_path)
    for name in ("port", "eager"):
        check_policy(POLICIES[name], release=release)
    if runs:
        check_policy(POLICIES["l1"], release=release)
    else:
        with pytest.raises(InvalidCase, match=f"policy l1 needs graphs .* which ttnn {version} does not give; it runs with "):
            check_policy(POLICIES["l1"], release=release)
