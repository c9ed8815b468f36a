"""Failures explained in numbers, each worked out by hand from a message that TTNN or a user's report has."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ssinghal.core.boards import load_board
from ssinghal.core.memory_config import Sharding
from ssinghal.core.sharding import complete
from ssinghal.core.tensors import BufferType, DType, Layout, MemoryConfig, ShardKind, TensorSpec
from ssinghal.device.error_patterns import translate_error
from ssinghal.diagnose.candidates import candidates
from ssinghal.diagnose.explanation import Explanation, explain
from ssinghal.diagnose.model import Failure, MlirValue, Operation
from ssinghal.diagnose.program_buffers import ColumnShare, StoredRows, Tiles

TILE, ROWS = Layout.TILE, Layout.ROW_MAJOR


def tensor(
    *shape: int, layout: Layout = TILE, dtype: DType = DType.BFLOAT16, memory: BufferType = BufferType.DRAM
) -> MlirValue:
    return MlirValue("%0", TensorSpec(shape, dtype, layout, MemoryConfig(memory)), known_layout=True)


def failed(text: str, operation: Operation | None = None) -> Explanation:
    return explain(Failure(translate_error("RuntimeError", text), line=1, operation=operation))


def grown(end: int, cores: str = "[(x=7,y=6) - (x=7,y=6)]", limit: int = 1_499_136) -> str:
    return (
        f"Statically allocated circular buffers on core range {cores} grow to {end} B which is beyond max L1 size of {limit} B"
    )


def no_room(
    memory: str, banks: int, total: int, per_bank: int, bank: int, allocated: int, free: int, largest: int, end: str = ""
) -> str:
    return (
        f"Out of Memory: Not enough space to allocate {total} B {memory} buffer across {banks} banks, where each bank needs to"
        f" store {per_bank} B, but bank size is {bank} B (allocated: {allocated} B, free: {free} B,"
        f" largest free block: {largest} B){end}"
    )


def layout_change(source: MlirValue, target: MlirValue) -> Operation:
    return Operation("ttnn.to_layout", (target,), (source,))


MOCHI = layout_change(tensor(4, 4_884_480), tensor(4, 4_884_480, layout=ROWS))


def test_mochi_as_the_report_has_it() -> None:
    """December 2025: 9,990,400 - 102,656 = 9,887,744 = 2,414 x (2,048 + 2,048). Core (7,6) is the 63rd down the columns:
    152,640 = 62 x 2,423 + 2,414."""
    explanation = failed(grown(9_990_400), MOCHI)
    assert explanation.program is not None
    (need,) = explanation.program.needs
    assert (need.base_bytes, need.program_bytes, need.budget_bytes) == (102_656, 9_887_744, 1_499_136 - 102_656)
    assert need.made == ColumnShare(152_640, 63, 2_423, 2_414, 2_048, 2_048)
    assert explanation.program.overflow_bytes == 9_990_400 - 1_499_136 == 8_491_264
    assert explanation.program.core_count == 1
    assert explanation.fingerprint.bases == (102_656,)
    source, target = explanation.tensors
    assert (source.tiles, source.tile_row_bytes) == ((152_640, 1), 152_640 * 2_048)
    assert (source.row_bytes, target.row_bytes) == (9_768_960, 9_768_960)
    text = "\n".join(explanation.lines())
    assert "6.66 times" in text  # 9,990,400 / 1,499,136, both in bytes; 6.98 is MB against MiB
    assert "7.08 times" in text  # 9,887,744 / 1,396,480
    assert "6.98" not in text
    assert "152,640 wide, 1 high" in text
    assert "second last dim 4 padded to 32 (8x)" in text


def test_mochi_as_0_66_0_has_it() -> None:
    """9,991,296 - 103,552 = 9,887,744: the same program on another base, so the build can be identified."""
    explanation = failed(grown(9_991_296), MOCHI)
    assert explanation.program is not None
    assert [(need.base_bytes, need.program_bytes) for need in explanation.program.needs] == [(103_552, 9_887_744)]
    assert explanation.fingerprint.releases == ("0.66.0",)


def test_mochi_without_its_call_is_a_range() -> None:
    explanation = failed(grown(9_990_400))
    assert explanation.program is not None
    assert [need.program_bytes for need in explanation.program.needs] == [9_887_744, 9_886_848, 9_886_688]
    assert all(need.made is None for need in explanation.program.needs)
    line = "program buffers alone: 9,886,688 to 9,887,744 B if TTNN reserves 102,656 to 103,712 B (the builds known here)"
    assert line in explanation.lines()


# Wide changes of layout: end, core, limit, call, share. The bases are 103,712; 103,552; 104,224; and 105,280 on a Blackhole.
SHARES = {
    # 2,966,816 - 103,712 = 2,863,104 = 466 x 6,144; 32,768 = 62 x 521 + 466
    "float32 to bfloat16": (
        grown(2_966_816),
        layout_change(tensor(1, 1, 1, 1_048_576, layout=ROWS, dtype=DType.FLOAT32), tensor(1, 1, 1, 1_048_576)),
        ColumnShare(32_768, 63, 521, 466, 4_096, 2_048),
    ),
    # 10,531,968 - 103,552 = 10,428,416 = 2,546 x 4,096; 162,816 = 62 x 2,585 + 2,546
    "rows to tiles": (
        grown(10_531_968),
        layout_change(tensor(16, 5_210_112, layout=ROWS), tensor(16, 5_210_112)),
        ColumnShare(162_816, 63, 2_585, 2_546, 2_048, 2_048),
    ),
    # 5,576,480 - 104,224 = 5,472,256 = 1,336 x 4,096
    "one core": (
        grown(5_576_480, "[0-0 - 0-0]"),
        layout_change(tensor(1, 42_752, layout=ROWS), tensor(1, 42_752)),
        ColumnShare(1_336, 1, 1_336, 1_336, 2_048, 2_048),
    ),
    # measured on a virtual p150: 5,561,152 - 105,280 = 5,455,872 = 1,332 x 4,096; core (10,8) of ten rows is the 109th
    "a Blackhole": (
        grown(5_561_152, "[(x=10,y=8) - (x=10,y=8)]", 1_572_864),
        MOCHI,
        ColumnShare(152_640, 109, 1_401, 1_332, 2_048, 2_048),
    ),
}


@pytest.mark.parametrize(("text", "operation", "share"), SHARES.values(), ids=SHARES)
def test_the_last_core_of_a_wide_change_of_layout(text: str, operation: Operation, share: ColumnShare) -> None:
    explanation = failed(text, operation)
    assert explanation.program is not None
    assert [need.made for need in explanation.program.needs] == [share]


def test_program_buffers_that_are_complete_rows() -> None:
    """0.66.0: 16,053,376 - 103,552 = 15,949,824 = 2 x 1,993,728 x 4."""
    wide = tensor(3, 1_993_728, layout=ROWS, dtype=DType.INT32)
    explanation = failed(grown(16_053_376, "[(x=0,y=0) - (x=0,y=3)]"), Operation("ttnn.concat", (), (wide, wide)))
    assert explanation.program is not None
    assert [need.made for need in explanation.program.needs] == [StoredRows(2, 7_974_912, 7_974_912)]


@pytest.mark.parametrize("change", [(TILE, ROWS), (ROWS, TILE)])
def test_program_buffers_of_a_change_of_layout_that_are_complete_tiles(change: tuple[Layout, Layout]) -> None:
    """0.66.0: 1,705,088 - 103,552 = 1,601,536 = 782 x 2,048; on other bases it is not a multiple of that."""
    source, target = change
    call = layout_change(tensor(3, 786_432, layout=source), tensor(3, 786_432, layout=target))
    explanation = failed(grown(1_705_088, "[(x=0,y=0) - (x=7,y=7)]"), call)
    assert explanation.program is not None
    assert [need.made for need in explanation.program.needs] == [Tiles(782, 2_048)]
    assert explanation.fingerprint.bases == (103_552,)
    at = explanation.lines().index("they are exactly 782 tiles of 2,048 B")
    assert explanation.lines()[at + 1] == "the other reserved bases that fit give nothing as exact"


# 2,324,736 - 102,656 = 2,222,080 = 1,085 x 2,048, and 9,990,400 - 102,656 = 9,887,744 = 4,828 x 2,048.
NO_TILES = {
    "an embedding of rows": (
        grown(2_324_736, "[(x=0,y=0) - (x=3,y=7)]"),
        Operation(
            "ttnn.embedding",
            (tensor(1, 32, 1_110_463, layout=ROWS),),
            (tensor(1, 32, layout=ROWS, dtype=DType.UINT32), tensor(100, 1_110_463, layout=ROWS)),
        ),
    ),
    "an embedding of tiles": (
        grown(1_705_088, "[(x=0,y=0) - (x=7,y=7)]"),
        Operation("ttnn.embedding", (tensor(1, 3, 786_432),), (tensor(3, 786_432, layout=ROWS),)),
    ),
    "one tile": (grown(9_990_400), Operation("ttnn.relu", (tensor(32, 32),), (tensor(32, 32),))),
    "a layout that stays": (grown(9_990_400), layout_change(tensor(32, 32), tensor(32, 32, dtype=DType.FLOAT32))),
}


@pytest.mark.parametrize(("text", "operation"), NO_TILES.values(), ids=NO_TILES)
def test_a_number_that_tiles_divide_by_chance_is_none_of_tiles_and_dates_no_build(text: str, operation: Operation) -> None:
    explanation, alone = failed(text, operation), failed(text)
    assert not any("exactly" in line for line in explanation.lines())
    assert explanation.fingerprint == alone.fingerprint
    assert 103_552 in explanation.fingerprint.bases


def test_buffers_that_do_not_add_up_are_not_explained() -> None:
    explanation = failed(grown(9_990_400 + 32), MOCHI)
    assert explanation.program is not None
    assert all(need.made is None for need in explanation.program.needs)
    assert not any("exactly" in line for line in explanation.lines())


def test_a_clash_is_an_overlap() -> None:
    """296,160 - 285,312 = 10,848; from 285,312 to the end of a Wormhole's L1: 1,213,824."""
    text = (
        "Statically allocated circular buffers in program 5 clash with L1 buffers on core range [(x=0,y=0) - (x=7,y=7)]."
        " L1 buffer allocated at 285312 and static circular buffer region ends at 296160"
    )
    program = failed(text).program
    assert program is not None
    assert (program.runs_into_tensor, program.overflow_bytes, program.core_count) == (True, 10_848, 64)
    high = failed(text.replace("285312", "1563072").replace("296160", "1563264")).program
    assert high is not None
    assert (high.overflow_bytes, high.tensors_bytes) == (192, 1_572_864 - 1_563_072)  # an address that only a Blackhole has


def test_sizes_in_an_operators_message_are_not_addresses() -> None:
    explanation = failed(
        "ttnn.concat: required DFB entry size (19537920 B) exceeds per-core L1 capacity (1393440 B); op cannot fit"
    )
    assert explanation.program is not None
    assert [(need.base_bytes, need.program_bytes) for need in explanation.program.needs] == [(None, 19_537_920)]
    assert explanation.program.overflow_bytes == 19_537_920 - 1_393_440


ADD = Operation(
    "ttnn.add",
    (tensor(1, 640, 400, 64, memory=BufferType.L1),),
    (tensor(1, 640, 400, 64, memory=BufferType.L1),) * 2,
)


def test_a_result_that_does_not_fit_after_its_operands() -> None:
    """16,640 tiles of 2,048 B over 64 banks: 260 each, 532,480 B; both operands take 1,064,960 B of a bank."""
    need = failed(no_room("L1", 64, 34_078_720, 532_480, 1_362_816, 1_064_960, 297_856, 297_856), ADD).buffer
    assert need is not None
    assert (need.owner, need.resident_bytes, need.shortfall_bytes) == ("output", 0, 532_480 - 297_856)
    assert (need.fits_empty_bank, need.uneven_bytes) == (True, 0)


def test_what_else_is_allocated_is_resident() -> None:
    need = failed(no_room("L1", 64, 34_078_720, 532_480, 1_362_816, 1_264_960, 97_856, 97_856), ADD).buffer
    assert need is not None
    assert need.resident_bytes == 200_000


def test_operands_that_are_not_all_there_leave_the_owner_open() -> None:
    need = failed(no_room("L1", 64, 34_078_720, 532_480, 1_362_816, 900_000, 462_816, 462_816), ADD).buffer
    assert need is not None
    assert (need.owner, need.resident_bytes) == ("input 1 or input 2 or output", None)


def test_resident_bytes_are_unknown_where_layouts_are_assumed() -> None:
    assumed = tuple(MlirValue(value.name, value.spec) for value in ADD.operands)
    text = no_room("L1", 64, 34_078_720, 532_480, 1_362_816, 1_064_960, 297_856, 297_856)
    need = failed(text, Operation("ttnn.add", ADD.results, assumed)).buffer
    assert need is not None
    assert need.resident_bytes is None


def test_an_intermediate_has_the_bytes_of_no_tensor_of_the_call() -> None:
    explanation = failed(no_room("L1", 64, 55_386_112, 865_408, 1_330_048, 737_280, 592_768, 592_768), ADD)
    assert explanation.buffer is not None
    assert (explanation.buffer.owner, explanation.buffer.owner_sought) == ("", True)
    assert any("temporary tensor of TTNN" in line for line in explanation.lines())


def test_padding_and_the_dim_that_causes_it() -> None:
    """[…,106,2]: 2 -> 32 is 16 times, 106 -> 128 1.2075 times; 12,079,595,520 / 625,213,440 = 19.32."""
    result = tensor(1, 512, 8, 3, 60, 2, 106, 2)
    call = Operation("ttnn.permute", (result,), (tensor(1, 512, 2, 2, 8, 3, 60, 106),))
    text = no_room("DRAM", 12, 12_079_595_520, 1_006_632_960, 1_073_741_792, 805_306_368, 268_435_424, 268_435_424)
    explanation = failed(text, call)
    assert explanation.buffer is not None
    assert explanation.buffer.owner == "output"
    padding = [line for line in explanation.lines() if "19.32 times" in line]
    assert len(padding) == 1
    assert padding[0].endswith("last dim 2 padded to 32 (16x), second last dim 106 padded to 128 (1.208x)")


def test_fragmentation_has_holes() -> None:
    """Free 379,425,056, of which at most 167,335,424 together: at least 3 holes; 314,572,800 - 167,335,424 = 147,237,376."""
    need = failed(no_room("DRAM", 12, 3_774_873_600, 314_572_800, 1_071_821_792, 692_396_736, 379_425_056, 167_335_424)).buffer
    assert need is not None
    assert (need.fragmented, need.least_holes, need.shortfall_bytes) == (True, 3, 147_237_376)


def test_a_buffer_that_no_bank_holds() -> None:
    """4,454,400 / 1,330,048 = 3.35."""
    explanation = failed(no_room("L1", 64, 285_081_600, 4_454_400, 1_330_048, 0, 1_330_048, 1_330_048))
    assert explanation.buffer is not None
    assert explanation.buffer.fits_empty_bank is False
    assert any("3.35 times its size" in line for line in explanation.lines())


def test_a_size_that_no_core_has_was_computed_wrongly() -> None:
    (need, problem, *_) = failed(
        "Out of Memory: Not enough space to allocate 1032763878400 B L1 buffer across 50 banks, where each bank needs to store"
        " 20655277568 B"
    ).lines()
    assert "20,655,277,568 B" in need
    assert problem == "no core has that much: an L1 ends at 1,572,864 B at most"


def test_pages_that_do_not_divide_over_the_banks() -> None:
    """167,772,160 B over 12 banks: 81,920 tiles, 6,826.7 a bank; 12 x 13,983,744 - 167,772,160 = 32,768."""
    need = failed(no_room("DRAM", 12, 167_772_160, 13_983_744, 1_071_821_792, 1_016_636_448, 55_185_344, 8_713_184)).buffer
    assert need is not None
    assert need.uneven_bytes == 32_768


@pytest.mark.parametrize(("allocated", "per_bank", "size"), [(64, 64, 128), (0, 16, 32), (32_768, 33_792, 66_560)])
def test_the_l1_small_size_that_would_do_is_the_sum(allocated: int, per_bank: int, size: int) -> None:
    need = failed(no_room("L1_SMALL", 64, 64 * per_bank, per_bank, allocated, allocated, 0, 0)).buffer
    assert need is not None
    assert need.l1_small_size == size


OTHERS = {
    "trace": (
        "Creating trace buffers of size 237371392B on MeshDevice 0, but only 235929600B is allocated for trace region",
        "trace_region_size 237,371,392",
    ),
    "kernel config": ("Program size (79760) too large for kernel config buffer (70656) on TENSIX", "(9,104 B)"),
    "host": ("std::bad_alloc", "memory of the host"),
    "no sizes": ("Workload exceeds L1 capacity", "has no sizes"),
}


@pytest.mark.parametrize(("text", "expected"), OTHERS.values(), ids=OTHERS)
def test_other_resources(text: str, expected: str) -> None:
    assert any(expected in line for line in failed(text).lines())


def test_what_is_not_about_memory_is_named_as_such() -> None:
    (line,) = failed("TT_FATAL @ /a/b.cpp:1: false\ninfo:\nthe shapes do not match").lines()
    assert line == "not a memory failure: the shapes do not match"


def test_tensors_of_unknown_type_and_shards_on_cores_that_the_board_lacks_are_left_out() -> None:
    spec = complete(
        TensorSpec((1, 64, 640, 64)), BufferType.L1, Sharding(ShardKind.HEIGHT), load_board("p150")
    )  # on 11 x 10 cores, not 8 x 8
    call = Operation("ttnn.add", (tensor(64, 64),), (MlirValue("%1", spec, known_layout=True), MlirValue("%2")))
    explanation = failed(no_room("L1", 64, 34_078_720, 532_480, 1_362_816, 0, 1_362_816, 0), call)
    assert [tensor.allocation.label for tensor in explanation.tensors] == ["output"]


def test_the_same_numbers_as_json() -> None:
    document = failed(grown(9_991_296), MOCHI).to_json()
    assert document["program"]["overflow_bytes"] == 8_492_160
    assert document["program"]["needs"][0]["made"]["tiles_here"] == 2_414
    assert document["tensors"][0]["tiles"] == (152_640, 1)
    assert document["boards"] == ["n150", "n300", "n300_8x7", "wh_galaxy_8x9"]


NUMBERS = st.integers(0, 2**34) | st.sampled_from([0, 1, 8, 12, 56, 64, 110, 130, 2_048, 1_499_136, 1_572_864, 10**19])
CORES = st.sampled_from(["[(x=7,y=6) - (x=7,y=6)]", "[0-0 - 12-9]", "[0-0 - 0-0]", "[99-99 - 0-0]"])
TEXTS = st.one_of(
    st.builds(
        no_room,
        st.sampled_from(["L1", "DRAM", "L1_SMALL", "TRACE"]),
        *[NUMBERS] * 7,
        end=st.sampled_from(["", ".", ". The L1_SMALL region is 0 B"]),
    ),
    st.builds(grown, NUMBERS, CORES, NUMBERS),
    st.builds(
        "Statically allocated dataflow buffers in program 1 clash with L1 buffers on core range {}. L1 buffer allocated at {}"
        " and static dataflow buffer region ends at {}".format,
        CORES,
        NUMBERS,
        NUMBERS,
    ),
    st.builds("ttnn::slice: required CB size {} B exceeds per-core L1 budget {} B".format, NUMBERS, NUMBERS),
    st.builds(
        "Creating trace buffers of size {}B on device 0, but only {}B is allocated for trace region".format, NUMBERS, NUMBERS
    ),
    st.builds("Program size ({}) too large for kernel config buffer ({}) on TENSIX".format, NUMBERS, NUMBERS),
)


@example(no_room("DRAM", 0, 0, 0, 0, 0, 0, 0), MOCHI)
@example(no_room("DRAM", 12, 12 * 2**60, 2**60, 2**30, 0, 2**30, 2**30), None)
@example(no_room("L1", 56, 34_078_720, 609_280, 1_362_816, 0, 1_362_816, 0), ADD)
@example(no_room("L1", 64, 0, 0, 1_362_816, 0, 0, 0), ADD)
@given(TEXTS, st.sampled_from([None, MOCHI, ADD]))
@settings(max_examples=400, deadline=None)
def test_any_numbers_are_explained_in_lines(text: str, operation: Operation | None) -> None:
    """Also those that no device has: a message may be mutated, or of another kind of board."""
    explanation = failed(text, operation)
    assert explanation.verdict.resource is not None
    assert explanation.lines() == explanation.to_json()["lines"]
    assert explanation.lines()
    assert all(line and "\n" not in line and "None" not in line for line in explanation.lines())
    assert len(candidates(explanation.verdict, explanation.fingerprint, 3, [])) <= 3
