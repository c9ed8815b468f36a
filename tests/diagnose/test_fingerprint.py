"""What the numbers of a message point to. Reserved base of a Wormhole: 1,499,136 less the bank, less the L1_SMALL region."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest

from ssinghal.core.boards import board_names, load_board
from ssinghal.core.tensors import ONE_CHIP
from ssinghal.core.verdict import Resource, Status, Verdict
from ssinghal.device.error_patterns import translate_error
from ssinghal.diagnose.builds import BUILDS
from ssinghal.diagnose.chips import CHIPS, L1_ENDS, arch_named, boards_named, core_ranges
from ssinghal.diagnose.explanation import explain
from ssinghal.diagnose.fingerprint import Fingerprint, fingerprint_of
from ssinghal.diagnose.log_reader import read_log
from ssinghal.diagnose.stated_versions import versions_stated


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


WORMHOLES = ("n150", "n300", "n300_8x7", "wh_galaxy_8x9")

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


@pytest.mark.parametrize(
    ("banks", "grid", "boards"),
    [(56, (8, 7), ("n300_8x7",)), (72, (8, 9), ("wh_galaxy_8x9",)), (70, (7, 10), ()), (120, (12, 10), ("p150_12x10",))],
)
def test_l1_banks_are_the_cores_of_a_grid(banks: int, grid: tuple[int, int], boards: tuple[str, ...]) -> None:
    fingerprint = buffer("L1", banks, 1_395_584)
    assert [chip.grid for chip in fingerprint.chips] == [grid]
    assert (fingerprint.boards, bool(fingerprint.why_not_replayable)) == (boards, not boards)


@pytest.mark.parametrize(
    ("banks", "bank", "arch"),
    [
        (20, 1_437_056, "blackhole"),  # 1,499,136 - 1,437,056 = 62,080: less than the 70,656 B for arguments and code alone
        (100, 1_395_968, "blackhole"),  # no Wormhole has 100 cores, but 80
        (48, 1_329_888, "wormhole_b0"),  # - 103,712 - 65,536; a Blackhole would have 242,976 left, which no build leaves
    ],
)
def test_banks_of_no_grid_are_shards_and_never_judged_on_a_complete_board(banks: int, bank: int, arch: str) -> None:
    fingerprint = buffer("L1", banks, bank)
    assert (fingerprint.arch, fingerprint.sharded) == (arch, True)
    assert "banks" in fingerprint.why_not_replayable


def test_a_bank_that_no_build_leaves_stays_unknown() -> None:
    """1,499,136 - 1,350,592 = 148,544: with any L1_SMALL region of 8 KiB steps a base below 100,000 or above 106,500."""
    fingerprint = buffer("L1", 64, 1_350_592)
    assert (fingerprint.matches, fingerprint.unexplained_bytes) == ((), 148_544)
    assert fingerprint.nearest_release == ""
    assert any("unknown" in line and "148,544" in line for line in fingerprint.lines())
    assert fingerprint.contradictions == ()


FIRST = "below 102,656 B, the smallest that is known (builds of December 2025)"


@pytest.mark.parametrize(
    ("banks", "bank", "base", "l1_small", "where"),
    [
        (64, 1_364_928, 101_440, 32_768, FIRST),  # 1,499,136 - 32,768 - 101,440
        (64, 1_331_936, 101_664, 65_536, FIRST),
        (64, 1_395_904, 103_232, 0, "between those of builds of December 2025 and 0.66.0 (or builds of January 2026)"),
    ],
)
def test_a_base_between_known_ones_is_of_an_unknown_build(banks: int, bank: int, base: int, l1_small: int, where: str) -> None:
    fingerprint = buffer("L1", banks, bank)
    assert (fingerprint.bases, fingerprint.l1_small_bytes) == ((base,), l1_small)
    (line,) = [line for line in fingerprint.lines() if line.startswith("release: ")]
    assert line == f"release: unknown; its L1 would have a reserved base of {base:,} B with l1_small_size {l1_small:,}, {where}"
    assert fingerprint.nearest_release == "0.66.0"


def test_several_bases_that_an_unknown_build_may_have_are_all_named() -> None:
    """1,572,864 - 1,461,888 = 110,976 = 102,784 + 8,192: a base of either may be one of a Blackhole."""
    fingerprint = buffer("L1", 110, 1_461_888)
    assert (fingerprint.bases, fingerprint.l1_small_bytes) == ((102_784, 110_976), None)
    assert "110,976 B with l1_small_size 0, between those of 0.66.0" in "".join(fingerprint.lines())


@pytest.mark.parametrize(
    ("banks", "bank", "region", "boards"),
    [
        (12, 1_073_741_792, 0, WORMHOLES),
        (12, 1_071_821_792, 1_920_000, WORMHOLES),  # 1,073,741,792 - 1,920,000
        (12, 1_046_181_792, 27_560_000, WORMHOLES),
        (8, 4_273_390_016, 4_800_000, ("p150", "p150_12x10", "p150_13x10")),  # 4,278,190,016 - 4,800,000
        (7, 4_277_141_376, 0, ("p100",)),
        (12, 1_072_693_184, 0, WORMHOLES),
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


@pytest.mark.parametrize("cores", ["[0-0 - 7-7]", "[1-0 - 3-6]", "[2-3 - 2-3]"])
def test_any_range_of_cores_dates_a_build(cores: str) -> None:
    assert min(programs(cores, 9_990_400, 1_499_136).bases) == 103_744


@pytest.mark.parametrize(("line", "base"), [(2509, 105_664), (2690, 105_696), (3087, 105_824)])
def test_dataflow_buffers_have_lines_of_their_own(line: int, base: int) -> None:
    header = f"TT_THROW @ /src/tt_metal/impl/dataflow_buffer/dataflow_buffer.cpp:{line}: tt::exception\ninfo:\n"
    text = BEYOND.format("[0-0 - 7-7]").replace("circular", "dataflow")
    assert fingerprint_of(translate_error("RuntimeError", header + text)).bases == (base,)


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
    "x and y": (programs("[(x=7,y=6) - (x=7,y=6)]", 9_990_400, 1_499_136), "up to 0.70.1, by its"),
    "hyphens": (programs("[0-0 - 7-7]", 9_990_400, 1_499_136), "from builds of May 2026 on, by its"),
    "DFB": (programs("[0-0 - 7-7]", 9_990_400, 1_499_136, "dataflow"), "from 0.76.0 on, by its"),
    "no period": (buffer("L1_SMALL", 64, 64), "up to 0.80.0, by its"),
    "a DRAM bank": (buffer("DRAM", 12, 1_071_821_792), "up to 0.70.1, by the size of a DRAM bank"),
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
    assert line.startswith(f"board: points to {expected}, by ")


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
        assert BUILDS[-2].base_bytes(board.arch) == board.reserved_base_bytes
        assert L1_ENDS[board.arch] == board.l1_end_bytes


def test_core_ranges() -> None:
    assert core_ranges("") == []
    assert core_ranges("1-2") == [((1, 2), (1, 2))]
    assert core_ranges("0-0..7-6 0-7..3-7") == [((0, 0), (7, 6)), ((0, 7), (3, 7))]


def thrown(text: str, dated: str = "", names: str = "") -> Fingerprint:
    return fingerprint_of(translate_error("RuntimeError", text), boards_named(names), dated)


def release_of(fingerprint: Fingerprint) -> str:
    return next(line for line in fingerprint.lines() if line.startswith("release: "))


BEYOND = "Statically allocated circular buffers on core range {} grow to 2463520 B which is beyond max L1 size of 1499136 B"
CLASH = (
    "Statically allocated circular buffers in program 9 clash with L1 buffers on core range {}. L1 buffer allocated at {} and"
    " static circular buffer region ends at {}"
)
HEADER = "TT_THROW @ /src/tt_metal/impl/program/program.cpp:{}: tt::exception\ninfo:\n"
OLD, NEW = "[(x=0,y=0) - (x=0,y=0)]", "[0-0 - 0-0]"


@pytest.mark.parametrize(
    ("line", "text", "bases"),
    [
        (782, BEYOND.format(OLD), {102_656}),  # 0.66.0 throws it at 908: an older build
        (908, BEYOND.format(OLD), {102_656, 103_552, 103_712}),
        (1492, BEYOND.format(NEW), {103_744, 103_840, 104_224}),  # 0.75.0 throws it at 1555
        (1555, BEYOND.format(NEW), {103_744, 103_840, 104_224, 105_536}),
        (2001, BEYOND.format(NEW), {105_696}),  # 1875 of 0.78.0 to 2470 of 0.80.0
        (2567, BEYOND.format(NEW), {105_824}),
        (2900, BEYOND.format(NEW), set()),  # a newer build than all known ones
        (897, CLASH.format(OLD, 916_480, 937_856), {102_656}),  # 0.66.0 throws it at 917
        (1913, CLASH.format("[1-0 - 3-6]", 916_480, 937_856), {105_664, 105_696}),  # 1763 of 0.76.0, 1932 of 0.78.0
    ],
)
def test_the_line_of_source_dates_a_build(line: int, text: str, bases: set[int]) -> None:
    fingerprint = thrown(HEADER.format(line) + text, names="test_a[wormhole_b0]")
    assert set(fingerprint.bases) == bases
    assert f"program.cpp:{line}" in release_of(fingerprint)


def test_a_line_of_source_that_contradicts_the_numbers_is_stated() -> None:
    """A base of 105,824 is that of 0.81.1, which throws from line 514."""
    text = (
        "TT_FATAL @ /src/tt_metal/impl/allocator/bank_manager.cpp:462: false\ninfo:\nOut of Memory: Not enough space to"
        " allocate 34078720 B L1 buffer across 64 banks, where each bank needs to store 532480 B, but bank size is 1393312 B"
    )
    assert thrown(text).bases == (105_824,)
    assert any(line.startswith("contradicts that: bank_manager.cpp:462, the line of 0.75.0") for line in thrown(text).lines())


@pytest.mark.parametrize(
    ("dated", "first", "last"),
    [("2025-08", "before December 2025", "before December 2025"), ("2025-11", "", "December 2025"), ("2026-11", "", "0.70.1")],
)
def test_no_build_is_newer_than_its_log(dated: str, first: str, last: str) -> None:
    line = release_of(thrown(BEYOND.format(OLD), dated))
    assert first in line
    assert last in line.split(", by")[0]
    assert (dated in line) == (dated < "2026")


def test_a_log_that_is_older_than_the_build_of_its_numbers_contradicts_them() -> None:
    text = (
        "Out of Memory: Not enough space to allocate 8192000 B L1 buffer across 64 banks, where each bank needs to store 128000"
    )
    fingerprint = thrown(f"{text} B, but bank size is 1393312 B", "2025-08")
    assert fingerprint.bases == (105_824,)
    assert "contradicts that: the date of the log, 2025-08" in fingerprint.lines()


def test_a_tensor_lies_above_what_a_build_reserves() -> None:
    """104,448 is less than the 105,280 of the first known Blackhole, and than the 105,536 of 0.75.0."""
    fingerprint = thrown(CLASH.format("[0-0 - 7-7]", 104_448, 107_936))
    assert (fingerprint.arch, fingerprint.bases) == ("wormhole_b0", (103_744, 103_840, 104_224))


def test_what_a_blackhole_of_2025_reserves_is_not_known() -> None:
    """The only known base of this wording is 0.66.0's; it dates no build by itself."""
    fingerprint = programs("[(x=0,y=0) - (x=12,y=9)]", 2_101_768, 1_572_864)
    assert fingerprint.boards == ("p150_13x10",)
    assert fingerprint.unknown_bases[0] == "builds before December 2025"
    assert release_of(fingerprint).startswith("release: up to 0.70.1")


def test_cores_that_begin_elsewhere_are_a_sub_device() -> None:
    galaxy = thrown(CLASH.format("[(x=1,y=0) - (x=3,y=9)]", 567_488, 754_528))
    assert [chip.grid for chip in galaxy.chips] == [(7, 10), (11, 10), (11, 10), (12, 10), (13, 10)]
    assert any("sub-device" in line for line in galaxy.lines())
    assert "7x10" in galaxy.why_not_replayable
    other = thrown(CLASH.format("[0-2 - 5-6]", 567_488, 754_528))
    assert any("do not begin at (0,0)" in line for line in other.lines())


@pytest.mark.parametrize(
    ("cores", "limit", "board"),
    [
        ("[(x=0,y=0) - (x=7,y=6)]", 1_499_136, "n150"),  # all cores of another, but as well some of this one
        ("[0-0 - 7-8]", 1_499_136, "wh_galaxy_8x9"),
        ("[0-0 - 11-9]", 1_572_864, "p150_12x10"),
        ("[0-0 - 7-7]", 1_499_136, "n150"),
    ],
)
def test_the_usual_board_that_has_the_cores_comes_first(cores: str, limit: int, board: str) -> None:
    assert programs(cores, 2_463_520, limit).boards[0] == board


def test_a_core_that_no_known_grid_has() -> None:
    lines = programs("[0-0 - 7-9]", 2_463_520, 1_499_136).lines()
    assert "no known grid of such a chip has core (7,9)" in lines


@pytest.mark.parametrize(
    ("text", "arch"),
    [
        ("tests/t.py::test_block[wormhole_b0-4x8]", "wormhole_b0"),
        ("tests/t.py::test_block[p150-True]", "blackhole"),
        ("2026-01-01 | info | UMD | Opened a P150b", "blackhole"),
        ("runs on n150 and p150", ""),
        ("test_en1500 of n1500", ""),
    ],
)
def test_a_name_in_the_text_chooses_among_the_boards_that_fit(text: str, arch: str) -> None:
    assert arch_named(boards_named(text)) == arch
    fingerprint = thrown(CLASH.format("[0-0 - 7-7]", 709_760, 1_364_672), names=text)
    assert fingerprint.arch == arch
    assert "the boards that the text names" in fingerprint.board_evidence or not arch


def test_a_name_chooses_among_chips_of_one_grid_and_contradicts_no_number() -> None:
    of_110 = CLASH.format("[0-0 - 10-9]", 1_520_000, 1_560_000)
    assert thrown(of_110, names="on p100a").boards == ("p100",)
    assert thrown(of_110, names="on n150").boards == thrown(of_110).boards
    assert thrown(of_110, names="on n150").contradictions == ()


def test_a_name_chooses_the_boards_for_a_buffer_on_the_banks_of_none() -> None:
    """60 of 64 banks, of 1,393,312 B: the size is any Wormhole's."""
    text = (
        "Out of Memory: Not enough space to allocate 39321600 B L1 buffer across 60 banks, where each bank needs to store"
        " 655360 B, but bank size is 1393312 B (allocated: 1000000 B, free: 393312 B, largest free block: 393312 B)"
    )
    boards = {}
    for first in ("", "on an n150\n", "on a p150\n"):
        (failure,) = read_log(io.BytesIO(f"{first}RuntimeError: {text}\n".encode()), "log").failures
        boards[first] = explain(failure).fingerprint.boards
    assert boards == {"": WORMHOLES, "on an n150\n": ("n150", "n300"), "on a p150\n": ("p150", "p150_12x10", "p150_13x10")}


def test_banks_of_dram_that_no_board_has_are_shards() -> None:
    fingerprint = buffer("DRAM", 8, 1_073_741_792, total=8 * 357_916_672, per_bank=357_916_672)
    assert (fingerprint.arch, fingerprint.sharded) == ("wormhole_b0", True)
    assert fingerprint.why_not_replayable


def test_a_grayskull_is_named_and_never_replayed() -> None:
    fingerprint = programs("[(x=0,y=0) - (x=11,y=8)]", 1_100_000, 1_048_576)
    assert (fingerprint.arch, fingerprint.boards) == ("grayskull", ())
    assert "Grayskull" in fingerprint.why_not_replayable


def test_the_region_of_an_l1_small_buffer_is_that_of_the_message() -> None:
    fingerprint = buffer("L1_SMALL", 64, 65_536, total=1_267_712, per_bank=19_808)
    assert (fingerprint.l1_small_bytes, fingerprint.boards) == (65_536, ("n150", "n300"))


@pytest.mark.parametrize(
    ("text", "arches"),
    [
        ("98304000 B L1 buffer across 100 banks, where each bank needs to store 983040 B", ("blackhole", "grayskull")),
        (
            "4571136 B L1 buffer across 8 banks, where each bank needs to store 571392 B",
            ("wormhole_b0", "blackhole", "grayskull"),
        ),
        ("53477376 B L1 buffer across 64 banks, where each bank needs to store 835584 B", ("wormhole_b0",)),
    ],
)
def test_a_message_without_the_size_of_a_bank_may_be_of_a_grayskull(text: str, arches: tuple[str, ...]) -> None:
    """A Wormhole Galaxy has 72 cores at most; the wording without a bank's size is of the time when there were Grayskulls."""
    fingerprint = thrown(f"Out of Memory: Not enough space to allocate {text}")
    assert fingerprint.arches == arches
    assert fingerprint.arch == (arches[0] if len(arches) == 1 else "")
    assert any(line.startswith("board: not shown") for line in fingerprint.lines()) == (len(arches) > 1)


def test_old_cores_beyond_a_wormhole_may_be_a_grayskulls() -> None:
    old = thrown(CLASH.format("[(x=0,y=0) - (x=11,y=8)]", 567_488, 754_528))
    assert old.arches == ("blackhole", "grayskull")
    assert thrown(CLASH.format("[0-0 - 11-8]", 567_488, 754_528)).arches == ("blackhole",)


@pytest.mark.parametrize(
    ("text", "bases"),
    [
        ("ttnn==0.66.0", {103_552}),
        ("tt-metal: v0.68.1", {103_712}),
        ("**tt-metal version**: `0.71.0`", {103_712, 103_744, 103_840}),  # between 0.70.1 and 0.72.0
        ("| ttnn | 0.64.2 |", {102_656}),  # before 0.66.0
        ("ttnn 0.66.0 works, ttnn 0.75.0 does not", {103_552, 105_536}),
        ("torch==0.66.0, ttnn==1.0.66.0", set(range(102_656, 105_825, 32)) & {build.wormhole_base for build in BUILDS}),
    ],
)
def test_a_version_that_the_text_states_dates_the_build(text: str, bases: set[int]) -> None:
    """The message has no words that date it."""
    verdict = Verdict(Status.OOM, Resource.CIRCULAR_BUFFER, program_bytes=2_463_520, limit_bytes=1_499_136)
    fingerprint = fingerprint_of(verdict, versions=versions_stated(text))
    assert set(fingerprint.bases) == bases


def test_a_stated_version_that_contradicts_the_base_is_said() -> None:
    """1,499,136 - 1,393,312 = 105,824, as 0.81.1 reserves."""
    verdict = Verdict(Status.OOM, Resource.L1_BUFFER, total_bytes=64 * 2_048_000, banks=64, bytes_per_bank=2_048_000)
    verdict = replace(verdict, bank_bytes=1_393_312)
    assert fingerprint_of(verdict, versions={"0.66.0"}).contradictions == ("the version that the text states, 0.66.0",)
    assert fingerprint_of(verdict, versions={"0.81.1"}).contradictions == ()
    assert fingerprint_of(verdict, versions={"0.82.0"}).contradictions != ()
    assert fingerprint_of(verdict, versions={"0.66.0", "0.75.0"}).contradictions == ()


def test_stated_versions_reach_the_explanation() -> None:
    text = b"Environment: ttnn 0.75.0, one p150\n" + CLASH.format("[0-0 - 0-0]", 1_378_048, 1_430_656).encode()
    (failure,) = read_log(io.BytesIO(text), "log").failures
    assert (failure.versions, failure.boards) == ({"0.75.0"}, {"p150"})
    fingerprint = explain(failure).fingerprint
    assert (fingerprint.arch, fingerprint.releases) == ("blackhole", ("0.75.0",))
