"""One trial on the virtual board: what is judged of its results, and what its pieces leave where they are."""

from dataclasses import replace

import pytest

from ssinghal.core.boards import load_board
from ssinghal.core.case import OutputMemory, Placement
from ssinghal.core.record import Resource, Status, Verdict
from ssinghal.core.tensors import BufferType, DType, Layout, MemoryConfig, ShardKind, TensorSpec, shard_evenly
from ssinghal.device.modes import choose_device
from ssinghal.operators import make_case
from ssinghal.remedy.device_pools import DevicePools
from ssinghal.remedy.problem import Problem
from ssinghal.remedy.strategies.chunking import cuts_of
from ssinghal.remedy.trial import Trial
from ssinghal.remedy.trial_runner import judged
from ssinghal.runner.tasks import PoolOptions

L1, DRAM = MemoryConfig(BufferType.L1), MemoryConfig(BufferType.DRAM)
WANTED = TensorSpec((1, 4, 64, 64), DType.BFLOAT16, Layout.TILE, L1)


@pytest.fixture(scope="module")
def bench():
    with DevicePools(choose_device("virtual", "n150"), PoolOptions(workers=1), no_values="not asked") as opened:
        yield opened


def problem(name, shape, placement=Placement(channels_last=False), **attrs):
    return Problem.of(
        make_case(name, (shape,), attrs, placement), Verdict(Status.OOM, Resource.DRAM_BUFFER), load_board("n150")
    )


# Judged ---------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("found", "any_memory", "said"),
    [
        (WANTED, False, ""),
        (replace(WANTED, memory=DRAM), False, "memory dram; expected l1"),
        (replace(WANTED, memory=DRAM), True, ""),
        (replace(WANTED, dtype=DType.FLOAT32), True, "dtype float32; expected bfloat16"),
        (replace(WANTED, layout=Layout.ROW_MAJOR), True, "layout row_major; expected tile"),
        (replace(WANTED, shape=(4, 64, 64)), True, "shape (4, 64, 64); expected (1, 4, 64, 64)"),
    ],
)
def test_all_that_was_wanted_must_come_back(found, any_memory, said):
    verdict = judged(Trial(problem("relu", WANTED.shape).case, (WANTED,), any_memory=any_memory), [found], [False])
    assert (verdict.status is Status.FITS) == (not said)
    assert verdict.message == (f"TTNN returned {said}" if said else "")


@pytest.mark.parametrize("count", [0, 1, 3])
def test_as_many_results_as_wanted_must_come_back(count):
    trial = Trial(problem("relu", WANTED.shape).case, (WANTED, WANTED))
    verdict = judged(trial, [WANTED] * count, [False] * count)
    assert (verdict.status, verdict.message) == (Status.MISMATCH, f"TTNN returned {count} results; expected 2")


@pytest.mark.parametrize(("any_memory", "status"), [(False, Status.MISMATCH), (True, Status.FITS)])
def test_a_sharded_result_is_none_where_an_interleaved_one_was_wanted(any_memory, status):
    """Its specification as the device tells it need not name the shards."""
    trial = Trial(problem("relu", WANTED.shape).case, (WANTED,), any_memory=any_memory)
    assert judged(trial, [WANTED], [True]).status is status
    sharded = shard_evenly(WANTED, ShardKind.HEIGHT, load_board("n150"))
    assert judged(trial, [sharded], [True]).status is status


@pytest.mark.virtual_device
def test_a_result_in_another_memory_is_no_remedy(bench):
    """Of a call that TTNN was told to put into DRAM."""
    made = problem("relu", (4, 64, 64), Placement(memory=BufferType.L1, output_memory=OutputMemory.DRAM))
    trial = made.trial()
    wanted = tuple(replace(spec, memory=L1) for spec in trial.wanted)
    assert bench.run(replace(trial, any_memory=False)).works
    tried = bench.run(replace(trial, wanted=wanted, any_memory=False))
    assert (tried.verdict.status, tried.verdict.message) == (Status.MISMATCH, "TTNN returned memory dram; expected l1")


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
def test_a_piece_that_is_another_name_of_what_was_cut_is_not_freed(bench, name, shape, attrs):
    made = problem(name, shape, **attrs)
    tried = bench.run(cuts_of(made)[0].trial(made, 2))
    assert tried.works, tried.verdict
    assert not any("deallocate" in line for line in tried.code)


@pytest.mark.virtual_device
def test_pieces_are_moved_to_dram_only_from_elsewhere(bench):
    """Two pieces of 4 x 2 x 2 tiles of 2,048 B: cut, called and joined, each tensor is read and written once."""
    whole = 4 * 2 * 2 * 2048
    made = problem("relu", (4, 64, 64))
    there = bench.run(cuts_of(made)[0].trial(made, 2))
    assert (there.calls, there.moved_bytes) == (5, (2 * whole + whole) + 2 * whole + 2 * whole)
    assert not any("to_memory_config" in line for line in there.code)
    in_l1 = problem("relu", (4, 64, 64), Placement(memory=BufferType.L1, channels_last=False))
    moved = bench.run(cuts_of(in_l1)[0].trial(in_l1, 2))
    assert (moved.calls, moved.works) == (7, True)


# Devices ----------------------------------------------------------------------------------------------------------------------


@pytest.mark.virtual_device
def test_the_release_at_hand_is_the_one_that_runs(bench):
    trial = problem("relu", (4, 64, 64)).trial()
    assert bench.on(bench.ttnn, trial) == trial
    assert bench.on("0.0.1", trial).release == "0.0.1"
    assert bench.board_of(bench.ttnn) == bench.board
    assert bench.run(replace(trial, release=bench.ttnn)).works
    assert list(bench._pools) == [("", "", False)]  # no workers but those that were there
