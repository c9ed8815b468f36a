"""What the numbers of a message point to. Reserved base of a Wormhole: 1,499,136 less the bank, less the L1_SMALL region."""

from __future__ import annotations

import pytest

from ssinghal.core.boards import board_names, load_board
from ssinghal.core.record import Resource, Status, Verdict
from ssinghal.core.tensors import ONE_CHIP
from ssinghal.device.error_patterns import translate_error
from ssinghal.diagnose.fingerprint import BUILDS, CHIPS, L1_ENDS, Fingerprint, core_ranges, fingerprint_of


def buffer(
    memory: str, banks: int, bank: int, *, total: int = 285_081_600, per_bank: int = 4_454_400, end: str = ""
) -> Fingerprint:
    text = (
        f"Out of Memory: Not enough space to allocate {total} B {memory} buffer across {banks} banks, where each bank needs to"
        f" store {per_bank} B, but bank size is {bank} B (allocated: 0 B, free: {bank} B, largest free block: {bank} B){end}"
    )
    return fingerprint_of(translate_error("RuntimeError", text))


def programs(cores: str, end: int, limit: int, kind: str = "circular") -> Fingerprint:
    text = f"Statically allocated {kind} buffers on core range {cores} grow to {end} B which is beyond max L1 size of {limit} B"
    return fingerprint_of(translate_error("RuntimeError", text))


# The bank of the message, the base it leaves, the L1_SMALL region that must have been requested, and the build.
L1_BANKS = [
    (1_395_584, 103_552, 0, "0.66.0"),  # 1,499,136 - 103,552
    (1_330_048, 103_552, 65_536, "0.66.0"),  # - 65,536
    (1_362_816, 103_552, 32_768, "0.66.0"),  # - 32,768
    (1_396_480, 102_656, 0, "December 2025"),
    (1_330_944, 102_656, 65_536, "December 2025"),
    (1_363_712, 102_656, 32_768, "December 2025"),
    (1_362_656, 103_712, 32_768, "0.70.1"),
    (1_393_312, 105_824, 0, "0.81.1"),
    (1_360_544, 105_824, 32_768, "0.81.1"),
    (1_393_440, 105_696, 0, "0.80.0"),
]


@pytest.mark.parametrize(("bank", "base", "l1_small", "build"), L1_BANKS)
def test_an_l1_bank_of_64_shows_board_build_and_l1_small(bank: int, base: int, l1_small: int, build: str) -> None:
    fingerprint = buffer("L1", 64, bank)
    assert bank + base + l1_small == 1_499_136
    assert (fingerprint.arch, fingerprint.bases, fingerprint.l1_small_bytes) == ("wormhole_b0", (base,), l1_small)
    assert fingerprint.boards == ("n150", "n300")
    assert [build in match.build.name for match in fingerprint.matches] == [True]


@pytest.mark.parametrize(("bank", "build"), [(1_467_584, "0.66.0"), (1_461_504, "0.75.0"), (1_461_120, "0.81.1")])
def test_an_l1_bank_of_110_is_a_blackhole(bank: int, build: str) -> None:
    fingerprint = buffer("L1", 110, bank)
    assert (fingerprint.arch, fingerprint.boards) == ("blackhole", ("p100", "p150"))
    assert [build in match.build.name for match in fingerprint.matches] == [True]


def test_the_same_bank_on_few_cores_is_sharded_and_may_be_either_board() -> None:
    """1,572,864 - 111,744 - 65,536 = 1,499,136 - 103,552 = 1,395,584."""
    fingerprint = buffer("L1", 8, 1_395_584, total=8 * 4_454_400, end=" …")  # its end is not as TTNN wrote it
    assert fingerprint.sharded
    assert {(match.arch, match.l1_small_bytes) for match in fingerprint.matches} == {("wormhole_b0", 0), ("blackhole", 65_536)}
    assert fingerprint.arch == ""


def test_an_n300_that_lacks_a_row_has_56_banks() -> None:
    fingerprint = buffer("L1", 56, 1_395_584)
    assert [chip.grid for chip in fingerprint.chips] == [(8, 7)]


def test_a_bank_that_no_build_leaves_stays_unknown() -> None:
    """1,499,136 - 1,364,928 = 134,208, which is 28,672 more than 105,536 and not a size that anyone requests."""
    fingerprint = buffer("L1", 64, 1_364_928)
    assert (fingerprint.matches, fingerprint.unexplained_bytes) == ((), 134_208)
    assert fingerprint.nearest_release == ""
    assert any("unknown" in line and "134,208" in line for line in fingerprint.lines())


@pytest.mark.parametrize(
    ("banks", "bank", "region", "boards"),
    [
        (12, 1_073_741_792, 0, ("n150", "n300")),
        (12, 1_071_821_792, 1_920_000, ("n150", "n300")),  # 1,073,741,792 - 1,920,000
        (12, 1_046_181_792, 27_560_000, ("n150", "n300")),
        (8, 4_273_390_016, 4_800_000, ("p150", "p150_12x10", "p150_13x10")),  # 4,278,190,016 - 4,800,000
        (7, 4_277_141_376, 0, ("p100",)),
        (12, 1_072_693_184, 0, ("n150", "n300")),
    ],
)
def test_a_dram_bank_shows_the_trace_region(banks: int, bank: int, region: int, boards: tuple[str, ...]) -> None:
    fingerprint = buffer("DRAM", banks, bank, total=4_294_967_296, per_bank=357_916_672)
    assert ([trace.region_bytes for trace in fingerprint.trace_regions], fingerprint.boards) == ([region], boards)


def test_a_dram_bank_of_1920000_less_shows_an_old_build() -> None:
    """From 0.74 on the region is a total: 12 x 871,392 = 10,456,704 is not a size that anyone requests."""
    fingerprint = buffer("DRAM", 12, 1_071_821_792, total=4_294_967_296, per_bank=357_916_672)
    assert max(fingerprint.bases) == 103_712
    assert fingerprint.nearest_release == "0.66.0"


def test_wording_dates_a_build() -> None:
    assert max(programs("[(x=7,y=6) - (x=7,y=6)]", 9_990_400, 1_499_136).bases) == 103_712
    assert min(programs("[0-0 - 7-7]", 9_990_400, 1_499_136).bases) == 103_744
    assert min(programs("[0-0 - 7-7]", 9_990_400, 1_499_136, "dataflow").bases) == 105_664
    assert buffer("L1_SMALL", 64, 64, end=". The L1_SMALL region is sized at device open").releases == ("0.81.1",)


def test_numbers_outweigh_words() -> None:
    """A message of 0.81.1, its period cut off by whoever pasted it."""
    assert buffer("L1", 64, 1_360_544).releases == ("0.81.1",)


def test_the_build_next_to_one_without_a_wheel() -> None:
    assert (buffer("L1", 64, 1_396_480).releases, buffer("L1", 64, 1_396_480).nearest_release) == ((), "0.66.0")


@pytest.mark.parametrize(
    ("cores", "limit", "grids"),
    [
        ("[(x=7,y=7) - (x=7,y=7)]", 1_499_136, {(8, 8), (8, 9)}),
        ("[(x=0,y=8) - (x=7,y=8)]", 1_499_136, {(8, 9)}),
        ("[(x=0,y=0) - (x=12,y=6)]", 1_572_864, {(13, 10)}),
        ("[0-0 - 10-9]", 1_572_864, {(11, 10), (12, 10), (13, 10)}),
    ],
)
def test_cores_show_the_grid(cores: str, limit: int, grids: set[tuple[int, int]]) -> None:
    assert {chip.grid for chip in programs(cores, 1_588_224, limit).chips} == grids


# A range of builds has one first and one last, however many they are and whatever they are called.
RANGES = {
    "x and y": (programs("[(x=7,y=6) - (x=7,y=6)]", 9_990_400, 1_499_136), "from builds of December 2025 to 0.70.1, by its"),
    "hyphens": (programs("[0-0 - 7-7]", 9_990_400, 1_499_136), "from builds of May 2026 to 0.81.1, by its"),
    "DFB": (programs("[0-0 - 7-7]", 9_990_400, 1_499_136, "dataflow"), "from 0.76.0 to 0.81.1, by its"),
    "no period": (buffer("L1_SMALL", 64, 64), "from builds of December 2025 to 0.80.0, by its"),
    "a DRAM bank": (buffer("DRAM", 12, 1_071_821_792), "from builds of December 2025 to 0.70.1, by the size of a DRAM bank"),
    "an L1 bank": (
        buffer("L1", 64, 1_395_584),
        "a reserved base of 103,552 B with l1_small_size 0 points to 0.66.0 (or builds",
    ),
}


@pytest.mark.parametrize(("fingerprint", "expected"), RANGES.values(), ids=RANGES)
def test_releases_are_named_by_the_first_and_the_last(fingerprint: Fingerprint, expected: str) -> None:
    (line,) = [line for line in fingerprint.lines() if line.startswith("release: ")]
    assert line.startswith(f"release: {expected}")


@pytest.mark.parametrize(
    ("fingerprint", "expected"),
    [
        (buffer("DRAM", 8, 4_273_390_016), "a p150 or p300 (grid unknown)"),
        (programs("[0-0 - 11-9]", 1_588_224, 1_572_864), "a p150 or p300 (12 or 13 columns of cores)"),
        (programs("[0-0 - 12-9]", 1_588_224, 1_572_864), "a p150 with firmware before 19.5.0"),
        (buffer("L1", 110, 1_467_584), "a p100, or a p150 with firmware 19.5.0 or later"),
        (programs("[(x=7,y=7) - (x=7,y=7)]", 9_990_400, 1_499_136),
         "an n150 or one chip of an n300 or T3000, or one chip of a Wormhole Galaxy (or slow dispatch)"),
    ],
)  # fmt: skip
def test_chips_of_one_kind_of_board_are_named_once(fingerprint: Fingerprint, expected: str) -> None:
    (line,) = [line for line in fingerprint.lines() if line.startswith("board: ")]
    assert line == f"board: points to {expected}"


def test_an_operators_own_limit_is_a_bank() -> None:
    """1,499,136 - 105,696 = 1,393,440; with an L1_SMALL region of 32,768: 1,360,672."""
    text = "ttnn.concat: required DFB entry size (19537920 B) exceeds per-core L1 capacity (1393440 B); op cannot fit"
    assert fingerprint_of(translate_error("RuntimeError", text)).bases == (105_696,)
    small = Verdict(Status.OOM, Resource.CIRCULAR_BUFFER, program_bytes=19_537_920, limit_bytes=1_360_672)
    assert (fingerprint_of(small).bases, fingerprint_of(small).l1_small_bytes) == ((105_696,), 32_768)


def test_a_tensor_above_the_end_of_a_wormholes_l1_is_on_a_blackhole() -> None:
    clash = Verdict(Status.OOM, Resource.CLASH, program_bytes=1_563_264, tensor_address=1_563_072)
    assert fingerprint_of(clash).arch == "blackhole"


def test_a_failure_without_numbers_points_to_nothing() -> None:
    for verdict in (Verdict(Status.ERROR), Verdict(Status.OOM, Resource.HOST), Verdict(Status.OOM, Resource.CIRCULAR_BUFFER)):
        assert fingerprint_of(verdict).lines() == []


def test_built_in_boards_are_among_the_chips_and_the_builds() -> None:
    """Board files are measured by another command; the newest build is theirs."""
    for board in map(load_board, board_names()):
        if board.mesh != ONE_CHIP:
            continue
        name = board.name
        (chip,) = (chip for chip in CHIPS if name in chip.boards)
        assert (chip.arch, chip.grid, chip.l1_banks) == (board.arch, board.grid, board.l1.num_banks)
        assert chip.dram_banks == board.dram.num_banks
        assert BUILDS[-1].base_bytes(board.arch) == board.reserved_base_bytes
        assert L1_ENDS[board.arch] == board.l1_end_bytes


def test_core_ranges() -> None:
    assert core_ranges("") == []
    assert core_ranges("1-2") == [((1, 2), (1, 2))]
    assert core_ranges("0-0..7-6 0-7..3-7") == [((0, 0), (7, 6)), ((0, 7), (3, 7))]
