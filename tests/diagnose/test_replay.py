"""What else must have been allocated for the numbers of a message, and a replay with that."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from ssinghal.core.boards import load_board
from ssinghal.core.case import Case, Placement
from ssinghal.core.record import Resource, Status, Verdict
from ssinghal.core.tensors import BufferType
from ssinghal.device.modes import choose_device
from ssinghal.diagnose.comparison import ComparedNumber
from ssinghal.diagnose.live_sets import implied_live_sets
from ssinghal.diagnose.replay import Replay, replay
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
