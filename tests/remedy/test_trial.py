"""One trial on the virtual board: how its results are judged, and which buffers its pieces free."""

from dataclasses import replace

import pytest

from ssinghal.core.boards import load_board
from ssinghal.core.case import OutputMemory, Placement
from ssinghal.core.memory_config import Sharding
from ssinghal.core.sharding import complete
from ssinghal.core.tensors import BufferType, DType, Layout, MemoryConfig, ShardKind, TensorSpec
from ssinghal.core.verdict import Resource, Status, Verdict
from ssinghal.device.modes import choose_device
from ssinghal.operators import make_case
from ssinghal.remedy.device_pools import DevicePools
from ssinghal.remedy.problem import Problem
from ssinghal.remedy.strategies.chunking import cuts_of
from ssinghal.remedy.trial import Trial
from ssinghal.remedy.trial_runner import caution_of, judged
from ssinghal.runner.tasks import PoolOptions

L1, DRAM = MemoryConfig(BufferType.L1), MemoryConfig(BufferType.DRAM)
WANTED = TensorSpec((1, 4, 64, 64), DType.BFLOAT16, Layout.TILE, L1)


@pytest.fixture(scope="module")
def pools():
    with DevicePools(choose_device("virtual", "n150"), PoolOptions(workers=1), no_values="not asked") as opened:
        yield opened


def problem(name, shape, placement=Placement(channels_last=False), **attrs):
    return Problem.of(
        make_case(name, (shape,), attrs, placement), Verdict(Status.OOM, Resource.DRAM_BUFFER), load_board("n150")
    )


# Judged ---------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("specs", "any_memory", "message"),
    [
        (WANTED, False, ""),
        (replace(WANTED, memory=DRAM), False, "memory dram; expected l1"),
        (replace(WANTED, memory=DRAM), True, ""),
        (replace(WANTED, dtype=DType.FLOAT32), True, "dtype float32; expected bfloat16"),
        (replace(WANTED, layout=Layout.ROW_MAJOR), True, "layout row_major; expected tile"),
        (replace(WANTED, shape=(4, 64, 64)), True, "shape (4, 64, 64); expected (1, 4, 64, 64)"),
    ],
)
def test_results_must_have_the_wanted_specs(specs, any_memory, message):
    verdict = judged(Trial(problem("relu", WANTED.shape).case, (WANTED,), any_memory=any_memory), [specs])
    assert (verdict.status is Status.FITS) == (not message)
    assert verdict.message == (f"TTNN returned {message}" if message else "")


@pytest.mark.parametrize("count", [0, 1, 3])
def test_the_number_of_results_must_be_the_wanted_one(count):
    trial = Trial(problem("relu", WANTED.shape).case, (WANTED, WANTED))
    verdict = judged(trial, [WANTED] * count)
    assert (verdict.status, verdict.message) == (Status.MISMATCH, f"TTNN returned {count} results; expected 2")


@pytest.mark.parametrize(("any_memory", "status"), [(False, Status.MISMATCH), (True, Status.FITS)])
def test_a_sharded_result_is_rejected_where_an_interleaved_one_is_wanted(any_memory, status):
    trial = Trial(problem("relu", WANTED.shape).case, (WANTED,), any_memory=any_memory)
    sharded = complete(WANTED, BufferType.L1, Sharding(ShardKind.HEIGHT), load_board("n150"))
    assert judged(trial, [sharded]).status is status


def test_other_shards_than_the_call_requests_are_a_caution():
    board = load_board("n150")
    height, width = (complete(WANTED, BufferType.L1, Sharding(kind), board) for kind in (ShardKind.HEIGHT, ShardKind.WIDTH))
    trial = Trial(problem("relu", WANTED.shape).case, (height,))
    assert (judged(trial, [height]).status, caution_of(trial, [height])) == (Status.FITS, "")
    for other in (width, WANTED):
        assert judged(trial, [other]).status is Status.FITS
        assert caution_of(trial, [other]) == f"caution: the result is in {other.memory}, not {height.memory}"
    assert judged(trial, [replace(WANTED, memory=DRAM)]).status is Status.MISMATCH


@pytest.mark.virtual_device
def test_a_result_in_another_memory_is_no_remedy(pools):
    """The call asks TTNN for DRAM."""
    failing = problem("relu", (4, 64, 64), Placement(memory=BufferType.L1, output_memory=OutputMemory.DRAM))
    trial = failing.trial()
    wanted = tuple(replace(spec, memory=L1) for spec in trial.wanted)
    assert pools.run(replace(trial, any_memory=False)).works
    result = pools.run(replace(trial, wanted=wanted, any_memory=False))
    assert (result.verdict.status, result.verdict.message) == (Status.MISMATCH, "TTNN returned memory dram; expected l1")


# Pieces -----------------------------------------------------------------------------------------------------------------------


@pytest.mark.virtual_device
@pytest.mark.parametrize(
    ("name", "shape", "attrs"),
    [
        ("view", (4, 64, 64), {"size": [4, 1, 64, 64]}),
        ("unsqueeze", (4, 64, 64), {"dim": 0}),
        ("squeeze", (4, 1, 64, 64), {"dim": 1}),
    ],
)
def test_a_result_that_shares_the_buffer_of_its_piece_is_not_freed(pools, name, shape, attrs):
    failing = problem(name, shape, **attrs)
    result = pools.run(cuts_of(failing)[0].trial(failing, 2))
    assert result.works, result.verdict
    assert not any("deallocate" in line for line in result.code)


@pytest.mark.virtual_device
def test_pieces_are_moved_to_dram_only_from_elsewhere(pools):
    """Two pieces of 4 x 2 x 2 tiles of 2,048 B: cut, called and joined, each tensor is read and written once."""
    whole = 4 * 2 * 2 * 2048
    failing = problem("relu", (4, 64, 64))
    there = pools.run(cuts_of(failing)[0].trial(failing, 2))
    assert (there.calls, there.moved_bytes) == (5, (2 * whole + whole) + 2 * whole + 2 * whole)
    assert not any("to_memory_config" in line for line in there.code)
    in_l1 = problem("relu", (4, 64, 64), Placement(memory=BufferType.L1, channels_last=False))
    moved = pools.run(cuts_of(in_l1)[0].trial(in_l1, 2))
    assert (moved.calls, moved.works) == (7, True)


# Devices ----------------------------------------------------------------------------------------------------------------------


@pytest.mark.virtual_device
def test_the_pools_release_is_not_opened_again(pools):
    trial = problem("relu", (4, 64, 64)).trial()
    assert pools.on(pools.ttnn, trial) == trial
    assert pools.on("0.0.1", trial).release == "0.0.1"
    assert pools.board_of(pools.ttnn) == pools.board
    assert pools.run(replace(trial, release=pools.ttnn)).works
    assert list(pools._pools) == [("", "", False)]  # no workers but those that were there
