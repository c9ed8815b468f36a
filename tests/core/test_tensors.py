"""The arithmetic of ``specs`` without a device: numbers of real cards, and sums written out."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ssinghal.core.boards import load_board
from ssinghal.core.tensors import (
    BufferType,
    Cores,
    DType,
    Layout,
    MemoryConfig,
    Shape,
    ShardKind,
    ShardSpec,
    TensorSpec,
    check_shape,
    format_bytes,
    format_shape,
)
from ssinghal.errors import InvalidCase

N150 = load_board("n150")
P150 = load_board("p150")
L1 = MemoryConfig(BufferType.L1)
DRAM = MemoryConfig(BufferType.DRAM)
MIB = 2**20


def sharded(kind: ShardKind, shape: tuple[int, int], grid: tuple[int, int], buffer: BufferType = BufferType.L1) -> MemoryConfig:
    return MemoryConfig(buffer, ShardSpec(kind, shape, Cores.grid(*grid)))


TWO_DRAM_BANKS = sharded(ShardKind.WIDTH, (111, 51), (2, 1), BufferType.DRAM)

# Operands that Wormhole cards (64 L1 banks, bf16, tile layout) refused in August 2025: shape on the device, total bytes and
# bytes per bank as the card's messages gave them.
REFUSED_BY_CARDS = [
    ((345, 49, 49, 8), 69242880, 1083392),
    ((4, 80, 50, 32, 1, 1), 1048576000, 16384000),
    ((1, 4, 80, 50, 80, 1), 98304000, 1536000),
    ((2, 160, 100, 32, 1, 1), 2097152000, 32768000),
    ((1, 2, 160, 100, 80, 1), 196608000, 3072000),
    ((8, 40, 25, 32, 1, 1), 524288000, 8192000),
    ((160, 100, 512, 1, 1), 16777216000, 262144000),
    ((1, 80, 160, 100, 1), 104857600, 1638400),
    ((1, 64000, 1000, 1), 4194304000, 65536000),
    ((1334, 49, 49, 4), 267739136, 4184064),
    ((1000, 64, 64, 4), 262144000, 4096000),
    ((4, 80, 50, 1, 1, 80), 98304000, 1536000),
    ((1, 512, 80, 50, 1), 167772160, 2621440),
    ((1, 64000, 32, 1), 131072000, 2048000),
    ((1, 640, 400, 128), 68157440, 1064960),
    ((1, 64000, 1000), 131072000, 2048000),
    ((1334, 32, 49, 4), 174850048, 2732032),
    ((1334, 49, 32, 4), 133869568, 2093056),
    ((1, 16000, 1000, 2), 1048576000, 16384000),
    ((1000, 64, 1, 4), 131072000, 2048000),
    ((64000, 512), 65536000, 1024000),
    ((16000, 1024), 32768000, 512000),
    ((1, 1280, 800, 64), 131072000, 2048000),
    ((1, 4000, 1000, 5), 262144000, 4096000),
    ((1, 2176, 3840, 3), 534773760, 8355840),
    ((1, 2176, 1920, 96), 802160640, 12533760),
    ((1, 2176, 3840, 96), 1604321280, 25067520),
]


@pytest.mark.parametrize(
    ("shape", "total", "per_bank"), REFUSED_BY_CARDS, ids=lambda v: format_shape(v) if isinstance(v, tuple) else ""
)
def test_bytes_of_real_cards(shape: Shape, total: int, per_bank: int) -> None:
    spec = TensorSpec(shape, memory=L1)
    assert (spec.allocated_bytes(N150), spec.num_banks(N150), spec.bytes_per_bank(N150)) == (total, 64, per_bank)


def test_a_map_of_three_channels_takes_ten_times_its_size() -> None:
    spec = TensorSpec((1, 2176, 3840, 3), memory=L1)
    assert spec.logical_bytes == 2176 * 3840 * 3 * 2 == 50_135_040
    assert spec.padded_shape == (1, 2176, 3840, 32)
    assert spec.num_pages == 2176 * (3840 // 32)
    assert spec.allocated_bytes(N150) == 510 * MIB


def test_two_trailing_ones_take_a_thousand_times_their_size() -> None:
    spec = TensorSpec((160, 100, 512, 1, 1), memory=L1)
    assert spec.allocated_bytes(N150) == 1024 * spec.logical_bytes == 16_000 * MIB


@pytest.mark.parametrize(
    ("dtype", "tile", "row_of_100"),
    [
        (DType.BFLOAT16, 2048, 200),
        (DType.FLOAT32, 4096, 400),
        (DType.BFLOAT8_B, 1024 + 64, None),  # a byte per value, and one exponent for 16 of them
        (DType.BFLOAT4_B, 512 + 64, None),
        (DType.UINT8, 1024, 100),
        (DType.UINT16, 2048, 200),
        (DType.UINT32, 4096, 400),
        (DType.INT32, 4096, 400),
    ],
)
def test_pages(dtype: DType, tile: int, row_of_100: int | None) -> None:
    shape = (3, 37, 100)
    tiled = TensorSpec(shape, dtype, memory=L1)
    assert (tiled.page_bytes, tiled.num_pages, tiled.padded_shape) == (tile, 3 * 2 * 4, (3, 64, 128))
    assert tiled.allocated_bytes(N150) == 24 * tile
    assert tiled.bytes_per_bank(N150) == tile
    if row_of_100 is None:
        with pytest.raises(InvalidCase, match="tile layout only"):
            TensorSpec(shape, dtype, Layout.ROW_MAJOR)
    else:
        rows = TensorSpec(shape, dtype, Layout.ROW_MAJOR, L1)
        assert (rows.page_bytes, rows.num_pages, rows.padded_shape) == (row_of_100, 3 * 37, shape)


@pytest.mark.parametrize(
    ("board", "memory", "banks", "row"),
    [(N150, L1, 64, 208), (N150, DRAM, 12, 224), (P150, L1, 110, 208), (P150, DRAM, 8, 256)],
    ids=["n150-l1", "n150-dram", "p150-l1", "p150-dram"],
)
def test_rows_are_stored_at_the_alignment_of_the_memory(board, memory, banks, row) -> None:
    """111 rows of 200 B: L1 aligns to 16 B, Wormhole's DRAM to 32, Blackhole's to 64."""
    spec = TensorSpec((3, 37, 100), layout=Layout.ROW_MAJOR, memory=memory)
    assert spec.allocated_bytes(board) == 111 * row
    assert spec.bytes_per_bank(board) == -(-111 // banks) * row


@pytest.mark.parametrize(("board", "granule"), [(N150, 32), (P150, 64)], ids=["n150", "p150"])
def test_the_allocator_books_multiples_of_a_granule(board, granule) -> None:
    spec = TensorSpec((1, 5), layout=Layout.ROW_MAJOR, memory=L1)
    assert spec.bytes_per_bank(board) == 16
    assert spec.booked_bytes_per_bank(board) == granule


def test_the_last_round_of_pages_counts_for_every_bank() -> None:
    spec = TensorSpec((32, 65 * 32), memory=L1)
    assert spec.allocated_bytes(N150) == 65 * 2048
    assert spec.bytes_per_bank(N150) == 2 * 2048


def test_rank_one_is_a_row_of_tiles() -> None:
    assert TensorSpec((40,)).padded_shape == (32, 64)
    assert TensorSpec((40,)).num_pages == 2
    assert TensorSpec((40,), layout=Layout.ROW_MAJOR).num_pages == 1


@pytest.mark.parametrize(
    ("spec", "padded", "pages", "shards", "per_bank"),
    [
        # 3 * 64 padded rows in shards of 64: three shards of 2 x 3 tiles
        (TensorSpec((3, 37, 70), memory=sharded(ShardKind.HEIGHT, (64, 96), (8, 2))), (3, 64, 96), 18, 3, 6 * 2048),
        # shards of 160 columns over 128: one, stored whole
        (TensorSpec((2, 64, 128), memory=sharded(ShardKind.WIDTH, (128, 160), (8, 8))), (2, 64, 128), 16, 1, 20 * 2048),
        # 4 x 4 tiles in shards of 3 x 3: two by two of them
        (TensorSpec((1, 1, 128, 128), memory=sharded(ShardKind.BLOCK, (96, 96), (2, 2))), (1, 1, 128, 128), 16, 4, 9 * 2048),
        # row-major: 111 rows in shards of 50, each row of 140 B stored as 144
        (
            TensorSpec((3, 37, 70), layout=Layout.ROW_MAJOR, memory=sharded(ShardKind.HEIGHT, (50, 70), (8, 2))),
            (3, 37, 70), 111, 3, 50 * 144,
        ),
        # 128 columns in shards of 50 are padded to 150; a page is one row of a shard, 100 B stored as 112
        (
            TensorSpec((2, 64, 128), layout=Layout.ROW_MAJOR, memory=sharded(ShardKind.BLOCK, (50, 50), (3, 3))),
            (2, 64, 150), 128 * 3, 9, 50 * 112,
        ),
        # DRAM: two banks, rows of 51 bf16 = 102 B stored as 128
        (
            TensorSpec((3, 37, 100), layout=Layout.ROW_MAJOR, memory=TWO_DRAM_BANKS),
            (3, 37, 102), 222, 2, 111 * 128,
        ),
    ],
    ids=["height-tile", "width-tile", "block-tile", "height-rows", "block-rows", "width-dram"],
)  # fmt: skip
def test_shards(spec: TensorSpec, padded: Shape, pages: int, shards: int, per_bank: int) -> None:
    """Every bank in use holds one complete shard, even if the tensor fills little of it; the total counts them all."""
    assert (spec.padded_shape, spec.num_pages, spec.num_banks(N150)) == (padded, pages, shards)
    assert spec.bytes_per_bank(N150) == per_bank
    assert spec.allocated_bytes(N150) == shards * per_bank


@pytest.mark.parametrize(
    ("shape", "layout", "memory", "why"),
    [
        ((32, 32), Layout.TILE, MemoryConfig(BufferType.L1_SMALL), "sharded tensors only"),
        ((64, 64), Layout.TILE, sharded(ShardKind.BLOCK, (64, 48), (2, 2)), "multiples of 32"),
        ((64, 64), Layout.TILE, sharded(ShardKind.HEIGHT, (32, 32), (2, 2)), "as wide as the padded tensor, 64"),
        ((64, 64), Layout.ROW_MAJOR, sharded(ShardKind.HEIGHT, (32, 48), (2, 2)), "as wide as the padded tensor, 96"),
        ((64, 64), Layout.TILE, sharded(ShardKind.WIDTH, (32, 32), (2, 2)), "as high as the padded tensor, 64"),
        ((64, 64), Layout.TILE, sharded(ShardKind.HEIGHT, (32, 64), (1, 1)), "has 2 shards, but there are 1 cores"),
        ((64, 64), Layout.TILE, sharded(ShardKind.BLOCK, (32, 32), (4, 1)), "2 shards down and 2 across"),
        ((64, 64), Layout.TILE, sharded(ShardKind.HEIGHT, (32, 64), (1, 2), BufferType.DRAM), "DRAM banks form one row"),
        ((5,), Layout.ROW_MAJOR, sharded(ShardKind.HEIGHT, (2, 5), (1, 1)), "shards of height 1"),
        ((64, 64), Layout.TILE, sharded(ShardKind.BLOCK, (0, 32), (2, 2)), "at least 1"),
    ],
)
def test_a_spec_that_ttnn_rejects_is_invalid(shape: Shape, layout: Layout, memory: MemoryConfig, why: str) -> None:
    with pytest.raises(InvalidCase, match=why):
        TensorSpec(shape, layout=layout, memory=memory)


def test_shards_need_cores_of_the_board() -> None:
    wide = TensorSpec((32, 32 * 9), memory=sharded(ShardKind.WIDTH, (32, 32), (9, 1)))
    assert wide.num_banks(P150) == 9
    with pytest.raises(InvalidCase, match="9x1 cores; n150 has 8x8 for l1"):
        wide.num_banks(N150)
    in_dram = replace(wide, memory=sharded(ShardKind.WIDTH, (32, 32), (9, 1), BufferType.DRAM))
    assert in_dram.num_banks(N150) == 9
    with pytest.raises(InvalidCase, match="9x1 cores; p150 has 8x1 for dram"):
        in_dram.num_banks(P150)


def test_a_grid_may_reach_beyond_the_board_only_for_block_shards() -> None:
    """TTNN checks the complete grid of height and width shards, but only at the cores that get a block shard."""
    tall = TensorSpec((32, 32), memory=sharded(ShardKind.HEIGHT, (32, 32), (1, 9)))
    assert tall.num_banks(P150) == 1
    with pytest.raises(InvalidCase, match="1x9 cores; n150 has 8x8 for l1"):
        tall.num_banks(N150)
    block = TensorSpec((32, 96), memory=sharded(ShardKind.BLOCK, (32, 32), (9, 12), BufferType.DRAM))
    assert block.num_banks(N150) == 3


@pytest.mark.parametrize(
    ("shape", "dtype", "layout", "wraps"),
    [
        ((65536, 65536, 16), DType.BFLOAT16, Layout.ROW_MAJOR, True),  # 2^32 rows
        ((65536, 65535, 16), DType.BFLOAT16, Layout.ROW_MAJOR, False),
        ((65536, 65536, 1, 1), DType.BFLOAT16, Layout.TILE, True),  # 2^32 tiles
        ((65536, 65535, 1, 1), DType.BFLOAT16, Layout.TILE, False),
        ((2**31, 2**31), DType.FLOAT32, Layout.ROW_MAJOR, True),  # 2^31 rows of 2^33 B
        ((2**32 - 1, 2**30), DType.FLOAT32, Layout.ROW_MAJOR, False),
        ((1, 2**32 - 1), DType.FLOAT32, Layout.ROW_MAJOR, False),
    ],
)
def test_counters_that_wrap(shape: Shape, dtype: DType, layout: Layout, wraps: bool) -> None:
    assert TensorSpec(shape, dtype, layout).wraps_page_count is wraps


def test_ttnn_would_count_128_gib_as_32_bytes() -> None:
    spec = TensorSpec((65536, 65536, 16), layout=Layout.ROW_MAJOR, memory=L1)
    assert spec.allocated_bytes(N150) == 128 * 2**30
    assert spec.bytes_per_bank(N150) == 2 * 2**30


def test_l1_small_is_cut_from_every_bank() -> None:
    """Opened with l1_small_size 32768 a virtual n150 shows L1 banks of 1,360,544 B, with 100 (rounded to 128) 1,393,184 B."""
    small = N150.with_l1_small(32768)
    assert (small.l1.bank_bytes, small.region(BufferType.L1_SMALL).bank_bytes) == (1_360_544, 32768)
    odd = N150.with_l1_small(100)
    assert (odd.l1.bank_bytes, odd.region(BufferType.L1_SMALL).bank_bytes) == (1_393_184, 128)
    assert small.reserved_base_bytes == N150.reserved_base_bytes == 105_824
    assert small.with_l1_small(0) == N150
    shards = TensorSpec(
        (640000, 10), layout=Layout.ROW_MAJOR, memory=sharded(ShardKind.HEIGHT, (80000, 10), (8, 1), BufferType.L1_SMALL)
    )
    assert (shards.allocated_bytes(small), shards.num_banks(small), shards.bytes_per_bank(small)) == (20480000, 8, 2560000)


@pytest.mark.parametrize("size", [-1, 1_393_312, 2**40])
def test_l1_small_must_leave_l1(size: int) -> None:
    with pytest.raises(InvalidCase, match=r"outside 0\.\.1393311"):
        N150.with_l1_small(size)


@pytest.mark.parametrize(
    ("shape", "why"),
    [
        ((), "rank 0"),
        ((1,) * 9, "rank 9"),
        ((3, 0), "size 0 is outside"),
        ((3, -1), "size -1 is outside"),
        ((2**32,), "outside"),
        ((3, 2.0), "not a whole number"),
        ((True, 3), "not a whole number"),
    ],
)
def test_impossible_shapes(shape: Shape, why: str) -> None:
    with pytest.raises(InvalidCase, match=why):
        check_shape(shape)
    with pytest.raises(InvalidCase, match=why):
        TensorSpec(shape)


def test_sizes_in_words() -> None:
    assert format_bytes(1023) == "1,023 B"
    assert format_bytes(34_078_720) == "32.5 MiB (34,078,720 B)"
    assert format_bytes(16_384_000) == "15.63 MiB (16,384,000 B)"  # 15.625: half is rounded up, as the page does
    assert format_bytes(3 * 2**50) == "3,072 TiB (3,377,699,720,527,872 B)"
    assert format_shape((1, 64)) == "[1,64]"


# Properties --------------------------------------------------------------------------------------------------------------

shapes = st.lists(st.integers(1, 300), min_size=1, max_size=8).map(tuple)
exact = settings(max_examples=200, derandomize=True, deadline=None, database=None)


@given(shape=shapes, dtype=st.sampled_from(list(DType)), memory=st.sampled_from([L1, DRAM]))
@exact
def test_allocated_is_never_less_than_logical(shape: Shape, dtype: DType, memory: MemoryConfig) -> None:
    for layout in Layout if not dtype.is_block_float else [Layout.TILE]:
        spec = TensorSpec(shape, dtype, layout, memory)
        per_bank, banks = spec.bytes_per_bank(N150), spec.num_banks(N150)
        assert spec.logical_bytes <= spec.allocated_bytes(N150) <= per_bank * banks
        assert per_bank <= spec.booked_bytes_per_bank(N150) < per_bank + 32


@given(shape=shapes, dim=st.integers(0, 7), more=st.integers(1, 64))
@exact
def test_a_longer_dim_never_takes_less(shape: Shape, dim: int, more: int) -> None:
    longer = list(shape)
    longer[dim % len(shape)] += more
    for layout in Layout:
        short, long = (TensorSpec(s, layout=layout, memory=L1) for s in (shape, tuple(longer)))
        assert short.bytes_per_bank(N150) <= long.bytes_per_bank(N150)


@given(leading=st.lists(st.integers(1, 20), max_size=6), tiles=st.tuples(st.integers(1, 20), st.integers(1, 20)))
@exact
def test_complete_tiles_are_not_padded(leading: list[int], tiles: tuple[int, int]) -> None:
    spec = TensorSpec((*leading, 32 * tiles[0], 32 * tiles[1]), memory=L1)
    assert spec.padded_shape == spec.shape
    assert spec.allocated_bytes(N150) == spec.logical_bytes
