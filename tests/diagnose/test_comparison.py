"""The numbers of a replay beside those reported: equal, or apart by the bytes that another build reserves in each L1."""

from __future__ import annotations

import pytest

from ssinghal.core.boards import load_board
from ssinghal.core.verdict import Resource, Status, Verdict
from ssinghal.diagnose.comparison import BaseShift, base_shift, compared

N150 = load_board("n150")
BASE_066 = 103_552  # reserved by 0.66.0 in each L1 of a Wormhole


def clash(program: int, tensor: int) -> Verdict:
    return Verdict(Status.OOM, Resource.CLASH, program_bytes=program, tensor_address=tensor, cores="0-0..7-7")


def no_room(bank: int, allocated: int = 200_000, need: int = 780_800) -> Verdict:
    free = bank - allocated
    return Verdict(
        Status.OOM, Resource.L1_BUFFER, total_bytes=64 * need, banks=64, bytes_per_bank=need, bank_bytes=bank,
        allocated_bytes=allocated, free_bytes=free, largest_free_bytes=free,
    )  # fmt: skip


def shift(reported: Verdict, replayed: Verdict, here: int | None = BASE_066, bases: tuple[int, ...] = ()) -> BaseShift | None:
    return base_shift(reported, tuple(compared(reported, replayed)), here, N150, bases)


def test_a_base_between_two_known_builds_is_implied() -> None:
    """The convolution of a build of early January 2026: the tensor where it was, the program 320 B lower."""
    found = shift(clash(1_348_480, 963_584), clash(1_348_800, 963_584))
    assert found is not None
    assert (found.here_bytes, found.there_bytes, found.is_known) == (BASE_066, 103_232, False)
    assert "103,232 B there, between what builds of December 2025 (102,656 B) and 0.66.0 (103,552 B) reserve" in found.line()


@pytest.mark.parametrize(("bank", "there"), [(1_393_312, 105_824), (1_395_424, 103_712), (1_395_232, 103_904)])
def test_all_numbers_of_a_bank_differ_alike(bank: int, there: int) -> None:
    """Less reserved by a build is more of the bank, free and in the largest block; what is allocated stays."""
    found = shift(no_room(bank), no_room(1_499_136 - BASE_066))
    assert found is not None
    assert found.there_bytes == there == 1_499_136 - bank


def test_numbers_of_the_call_and_of_what_else_was_allocated_do_not_depend_on_a_base() -> None:
    here = 1_499_136 - BASE_066
    assert shift(no_room(here + 160), no_room(here, need=780_960)) is None
    assert shift(no_room(here + 160), no_room(here, allocated=200_160)) is None


@pytest.mark.parametrize(
    ("replayed", "why"),
    [
        (clash(1_348_480, 963_584), "nothing differs"),
        (clash(1_348_800, 963_904 + 32), "two differences"),
        (clash(1_348_480 + 2_048, 963_584), "one tile more"),
        (clash(1_348_480 + 1_088, 963_584), "one tile of bfloat8_b more"),
        (clash(1_348_480 + 40_000, 963_584), "a base of 63,552 B, far below any known"),
        (clash(1_348_480 - 40_000, 963_584), "a base of 143,552 B, far above any known"),
        (Verdict(Status.OOM, Resource.CLASH, program_bytes=1_348_800, tensor_address=963_584, cores="0-0..7-6"), "other cores"),
    ],
)
def test_what_is_no_difference_of_bases(replayed: Verdict, why: str) -> None:
    assert shift(clash(1_348_480, 963_584), replayed) is None, why


def test_complete_tiles_are_a_difference_of_bases_only_where_the_report_points_to_that_base() -> None:
    reported, replayed = clash(1_348_480, 963_584), clash(1_348_480 + 1_024, 963_584)
    assert shift(reported, replayed, bases=(103_552,)) is None
    found = shift(reported, replayed, bases=(BASE_066 - 1_024,))
    assert found is not None
    assert found.is_known


def test_what_a_base_does_not_reach() -> None:
    """A size of program buffers is no address, a DRAM bank has no reserved base, and without a board here none is known."""
    sized = Verdict(Status.OOM, Resource.CIRCULAR_BUFFER, program_bytes=1_400_320, limit_bytes=1_393_312)
    assert shift(sized, Verdict(Status.OOM, Resource.CIRCULAR_BUFFER, program_bytes=1_400_640, limit_bytes=1_393_312)) is None
    dram = Verdict(Status.OOM, Resource.DRAM_BUFFER, bank_bytes=1_071_821_792)
    assert shift(dram, Verdict(Status.OOM, Resource.DRAM_BUFFER, bank_bytes=1_071_821_472)) is None
    assert shift(clash(1_348_480, 963_584), clash(1_348_800, 963_584), here=None) is None
