"""What else must have been allocated for the numbers of a message, and a replay with that."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

import pytest

from ssinghal.core.boards import load_board
from ssinghal.core.case import Case, Placement
from ssinghal.core.tensors import BufferType
from ssinghal.core.verdict import Resource, Status, Verdict
from ssinghal.device.modes import choose_device
from ssinghal.diagnose.comparison import ComparedNumber
from ssinghal.diagnose.live_sets import implied_live_sets
from ssinghal.diagnose.replay import LiveSource, Replay, replay
from ssinghal.operators import make_case
from ssinghal.operators.dims import as_placed
from ssinghal.remedy.device_pools import DevicePools
from ssinghal.remedy.problem import Problem
from ssinghal.remedy.trial import Resident, Trial, TrialResult
from ssinghal.runner.tasks import PoolOptions

BANK = 1_393_312  # of L1, of an n150 under ttnn 0.81.1
L1 = Placement(memory=BufferType.L1)
# Each map goes to the device as [1, 640, 400, 64]: 640 x 13 x 2 tiles of 2,048 B, 260 of them in each of 64 banks.
MAP = 260 * 2_048
SUM = make_case("add", ((1, 64, 640, 400),) * 2, {}, Placement(memory=BufferType.L1, channels_last=True))
POOL = make_case("max_pool2d", ((1, 64, 400, 640),), {"kernel_size": 3, "stride": 1, "padding": 1}, L1)


def no_room(allocated: int, need: int = MAP, bank: int = BANK) -> Verdict:
    free = bank - allocated
    return Verdict(
        Status.OOM, Resource.L1_BUFFER, total_bytes=64 * need, banks=64, bytes_per_bank=need, bank_bytes=bank,
        allocated_bytes=allocated, free_bytes=free, largest_free_bytes=free,
    )  # fmt: skip


def implied_bytes(reported: Verdict, case: Case, alone: Verdict) -> list[int]:
    lives = implied_live_sets(reported, as_placed(case), load_board("n150"), alone)
    return [sum(resident.bytes_per_bank for resident in residents) for residents in lives]


def test_all_numbers_must_be_equal() -> None:
    """One of three numbers differs by a byte, or none does; or they are of another kind of memory."""
    reported = no_room(MAP)
    result = TrialResult(Trial(SUM, ()), reported, "n150", "0", "none")
    equal = (ComparedNumber("banks", 64, 64), ComparedNumber("bytes_per_bank", MAP, MAP), ComparedNumber("cores", "0-0", "0-0"))
    assert Replay(result, reported, (), equal).same_numbers
    for at, number in enumerate(equal):
        numbers = list(equal)
        numbers[at] = replace(number, replayed=MAP + 1)
        assert not Replay(result, reported, (), tuple(numbers)).same_numbers
    assert not Replay(result, replace(reported, resource=Resource.DRAM_BUFFER), (), equal).same_numbers


def test_an_operand_may_be_what_failed() -> None:
    """A sum of two maps: its result is as large as each of them, so the message does not show which one failed. Alone it is
    the result, after both; the second comes after the first alone, which leaves 434,848 B; nothing comes before the first."""
    alone = no_room(2 * MAP)
    assert implied_bytes(no_room(434_848 + MAP), SUM, alone) == [434_848 + MAP, 434_848]
    assert implied_bytes(no_room(200_000 + 2 * MAP), SUM, alone) == [200_000, 200_000 + 2 * MAP, 200_000 + MAP]


def test_temporary_tensors_of_a_call_were_not_allocated_before() -> None:
    """A buffer of no tensor of the call: alone it fails after the operand, 250 tiles in a bank, and as much again."""
    operand = 400 * 640 * 2 // 32 // 64 * 2_048
    assert operand == 512_000
    alone = no_room(2 * operand, need=678_144)
    assert implied_bytes(no_room(2 * operand + 100_000, need=678_144), POOL, alone) == [100_000, operand + 100_000]
    other = replace(alone, bytes_per_bank=MAP, total_bytes=64 * MAP)  # alone it does not get as far
    assert implied_bytes(no_room(2 * operand + 100_000, need=678_144), POOL, other) == [operand + 100_000]


@pytest.fixture(scope="module")
def pools() -> Iterator[DevicePools]:
    with DevicePools(choose_device("virtual", "n150"), PoolOptions(workers=1), no_values="not asked") as opened:
        yield opened


@pytest.mark.virtual_device
@pytest.mark.parametrize(
    ("call", "live", "stage", "implied"),
    [(SUM, 434_848, "input 2", 434_848 + MAP), (SUM, 200_000, "call", 200_000), (POOL, 100_000, "call", 100_000)],
    ids=["second operand", "result", "temporary tensor"],
)
def test_a_failure_with_other_tensors_is_replayed(pools: DevicePools, call: Case, live: int, stage: str, implied: int) -> None:
    """All seven numbers. The second operand's are also the first's, after as much more: either may have failed."""
    problem = Problem.of(call, Verdict(Status.OOM, Resource.L1_BUFFER), pools.board)
    reported = pools.run(problem.trial(live=(Resident(BufferType.L1, live),))).verdict
    assert (reported.status, reported.stage) == (Status.OOM, stage)
    replayed = replay(call, reported, pools)
    assert (replayed.same_numbers, len(replayed.numbers)) == (True, 7)
    assert sum(resident.bytes_per_bank for resident in replayed.live) == implied


# Fragmented banks -------------------------------------------------------------------------------------------------------------

DRAM_BANK = 1_072_693_184  # of an n150 under ttnn 0.81.1
MATMUL = make_case("matmul", ((32, 2_048, 2_048), (2_048, 6_144)))
# Tiles over 12 banks: 32 x 64 x 64 of the first operand, 64 x 192 of the second, 32 x 64 x 192 of the result.
FIRST, SECOND, RESULT = 10_923 * 2_048, 1_024 * 2_048, 32_768 * 2_048
assert (32 * 64 * 64, 64 * 192, 32 * 64 * 192) == (131_072, 12_288, 393_216)
assert (-(-131_072 // 12), 12_288 // 12, 393_216 // 12) == (10_923, 1_024, 32_768)


def fragmented(allocated: int, largest: int | None) -> Verdict:
    return Verdict(
        Status.OOM, Resource.FRAGMENTATION, total_bytes=393_216 * 2_048, banks=12, bytes_per_bank=RESULT,
        bank_bytes=DRAM_BANK, allocated_bytes=allocated, free_bytes=DRAM_BANK - allocated, largest_free_bytes=largest,
    )  # fmt: skip


@pytest.mark.parametrize(("largest", "holes"), [(64_000_000, 3), (None, 3)])
def test_blocks_that_are_free_in_a_fragmented_bank(largest: int | None, holes: int) -> None:
    """200,000,000 B are free, in 4 blocks at most of 64,000,000 B each. Without the largest block in the message it may be any
    that is too small for 67,108,864 B: 3 blocks, one of which is the end of the bank. Each operand gets a block of its own."""
    reported = fragmented(DRAM_BANK - 200_000_000, largest)
    (live,) = implied_live_sets(reported, as_placed(MATMUL), load_board("n150"), Verdict(Status.FITS))
    freed = [resident.bytes_per_bank for resident in live if resident.freed]
    assert freed[:2] == [FIRST, SECOND]
    assert len(freed) - 2 == (holes if largest else holes - 1)
    assert all(block < RESULT for block in freed)
    assert sum(r.bytes_per_bank for r in live if not r.freed) == DRAM_BANK - 200_000_000 - FIRST - SECOND


@pytest.mark.virtual_device
@pytest.mark.parametrize("largest", [64_000_000, None])
def test_a_fragmented_bank_is_replayed_with_its_free_bytes(pools: DevicePools, largest: int | None) -> None:
    """Free in sum are three times the result's bytes; it fails all the same, and where the message names it with that block."""
    bank = pools.board.dram.bank_bytes
    reported = replace(fragmented(bank - 200_000_000, largest), bank_bytes=bank)
    replayed = replay(MATMUL, reported, pools)
    assert replayed.result.verdict.resource is Resource.FRAGMENTATION
    assert replayed.same_numbers, replayed.outcome()
    assert replayed.live_from is LiveSource.IMPLIED
    assert len(replayed.numbers) == (7 if largest else 6)


# Where the buffers before the call come from ---------------------------------------------------------------------------------


@pytest.mark.virtual_device
def test_buffers_are_implied_only_where_the_call_alone_has_other_numbers(pools: DevicePools) -> None:
    alone = pools.run(Problem.of(SUM, no_room(0), pools.board).trial()).verdict
    assert (replay(SUM, alone, pools).live, replay(SUM, alone, pools).live_from) == ((), LiveSource.NONE)
    more = pools.run(Problem.of(SUM, no_room(0), pools.board).trial(live=(Resident(BufferType.L1, 64_000),))).verdict
    assert replay(SUM, more, pools).live_from is LiveSource.IMPLIED
    given = replay(SUM, more, pools, live=(Resident(BufferType.L1, 64_000),))
    assert (given.same_numbers, given.live_from) == (True, LiveSource.GIVEN)


@pytest.mark.virtual_device
def test_a_bank_that_another_build_left_larger_implies_no_buffers(pools: DevicePools) -> None:
    """All figures of a build that reserves 352 B less in each L1: a base of 105,472 B, which no known build has."""
    here = pools.run(Problem.of(SUM, no_room(0), pools.board).trial()).verdict
    larger = {name: getattr(here, name) + 352 for name in ("bank_bytes", "free_bytes", "largest_free_bytes")}
    replayed = replay(SUM, replace(here, **larger), pools)
    assert (replayed.same_numbers, replayed.is_exact, replayed.live) == (False, True, ())
    assert replayed.shift is not None
    assert replayed.shift.there_bytes == pools.board.reserved_base_bytes - 352
    assert "one difference explains it" in replayed.outcome()


@pytest.mark.virtual_device
@pytest.mark.parametrize(
    ("call", "source"), [(POOL, LiveSource.ASSUMED), (SUM, LiveSource.IMPLIED)], ids=["temporary tensors", "none"]
)
def test_buffers_of_a_call_with_temporary_tensors_are_assumed(pools: DevicePools, call: Case, source: LiveSource) -> None:
    """The message's buffer, 17 tiles in each of 64 banks, is none that the call makes: a pool may have made some of what was
    allocated by then, which the numbers do not show; a sum makes its result alone."""
    replayed = replay(call, no_room(1_380_000 // 2_048 * 2_048, need=17 * 2_048), pools)
    assert (replayed.explains, replayed.live_from) == (False, source)


@pytest.mark.virtual_device
@pytest.mark.parametrize("shape", [(65536, 65536, 65536, 32768), (2**32 - 1, 2**31 - 1), (3_037_000_500, 3_037_000_500)])
def test_a_call_that_wraps_ttnns_counters_does_not_fit_in_a_replay(pools, shape):
    """TTNN itself would take the first two for nothing, as 2^64 B are 0 in 64 bits, and the last for 136 GiB."""
    tiles = math.prod(shape[:-2]) * -(-shape[-2] // 32) * -(-shape[-1] // 32)
    assert tiles * 2_048 >= 2**64
    replayed = replay(make_case("relu", (shape,)), Verdict(Status.OOM, Resource.DRAM_BUFFER), pools)
    verdict = replayed.result.verdict
    assert (verdict.status, verdict.resource, verdict.stage) == (Status.OOM, Resource.DRAM_BUFFER, "input 1")
    assert verdict.total_bytes == tiles * 2_048
