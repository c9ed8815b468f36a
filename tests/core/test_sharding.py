"""How a memory config is written, and what is rejected before a device is opened."""

from __future__ import annotations

import re

import pytest

from ssinghal.core.boards import load_board
from ssinghal.core.memory_config import Cores, Distribution, Orientation, Sharding, ShardKind
from ssinghal.core.sharding import complete, memory_request
from ssinghal.core.tensors import BufferType, DType, Layout, TensorSpec
from ssinghal.errors import InvalidCase

N150, P100, P150 = map(load_board, ("n150", "p100", "p150"))


@pytest.mark.parametrize(
    ("text", "sharding"),
    [
        ("l1:height", Sharding(ShardKind.HEIGHT)),
        ("l1:block@8x4", Sharding(ShardKind.BLOCK, Cores.grid(8, 4))),
        ("dram:width@12", Sharding(ShardKind.WIDTH, 12)),
        ("l1:width@8x6:576x480", Sharding(ShardKind.WIDTH, Cores.grid(8, 6), (576, 480))),
        ("l1:height:64x32", Sharding(ShardKind.HEIGHT, None, (64, 32))),
        ("l1:block:col_major", Sharding(ShardKind.BLOCK, orientation=Orientation.COL_MAJOR)),
        ("l1:height@3,4", Sharding(ShardKind.HEIGHT, Cores((((3, 4), (3, 4)),)))),
        ("l1:height@0,0-7,2+0,3-2,3", Sharding(ShardKind.HEIGHT, Cores((((0, 0), (7, 2)), ((0, 3), (2, 3)))))),
        ("l1:block@1,0-4,3", Sharding(ShardKind.BLOCK, Cores((((1, 0), (4, 3)),)))),
        ("l1:nd@2x2:1x32x64", Sharding(ShardKind.ND, Cores.grid(2, 2), (1, 32, 64))),
        ("l1:nd:64", Sharding(ShardKind.ND, None, (64,))),
        (
            "l1:nd@8x8:32x32:col_major:grid_2d",
            Sharding(ShardKind.ND, Cores.grid(8, 8), (32, 32), Orientation.COL_MAJOR, Distribution.GRID_2D),
        ),
    ],
)
def test_a_memory_reads_and_writes_as_the_same_text(text: str, sharding: Sharding) -> None:
    request = memory_request(text)
    assert (request.sharding, str(request)) == (sharding, text)


@pytest.mark.parametrize(
    ("long", "short"),
    [
        ("l1:height@0,0-7,3", "l1:height@8x4"),
        ("l1:height@0,0", "l1:height@1x1"),
        ("l1:height:row_major", "l1:height"),
        ("l1:nd:grid_2d:col_major:32x32", "l1:nd:32x32:col_major:grid_2d"),
        ("l1:nd:32x32:round_robin_1d", "l1:nd:32x32"),
    ],
)
def test_texts_of_the_same_memory_have_one_form(long: str, short: str) -> None:
    assert str(memory_request(long)) == short


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "expected dram, l1, or"),
        ("L1", "did you mean l1"),
        ("l1_small:height", "l1_small is for TTNN's own tables"),
        ("l1_small", "l1_small is for TTNN's own tables"),
        ("l1:", "no shard kind"),
        ("l1:@8x8", "no shard kind"),
        ("l1:heigth", "did you mean height"),
        ("l1:col_major", "col_major is for shards, and this memory is interleaved"),
        ("dram:row_major", "row_major is for shards"),
        ("l1:grid_2d", "grid_2d is for shards"),
        ("l1:height@", "cores ''; expected 8x8"),
        ("l1:height@0", "cores '0'; expected 8x8"),
        ("l1:height@-1", "cores '-1'"),
        ("l1:height@8x", "cores '8x'"),
        ("l1:height@x8", "cores 'x8'"),
        ("l1:height@0x8", "cores '0x8'"),
        ("l1:height@8x8x8", "cores '8x8x8'"),
        ("l1:height@８x8", "cores '８x8'"),  # a full-width digit
        ("l1:height@٣", "cores"),  # an Arabic one
        ("l1:height@ 8x8", "cores ' 8x8'"),
        ("l1:height@8X8", "cores '8X8'"),
        ("l1:height@1e2", "cores '1e2'"),
        ("l1:height@999999999999", "cores '999999999999'"),
        ("l1:height@8x8@8x8", "cores '8x8@8x8'"),
        ("l1:height@0,0-3,3+", "cores '0,0-3,3+'"),
        ("l1:height@3,3-0,0", "expected the first core, then the last one"),
        ("l1:height@0,0-3,3+3,3-4,4", "core ranges 0,0-3,3 and 3,3-4,4 overlap"),
        ("l1:height@0,0+0,0", "overlap"),
        ("l1:height@" + "+".join(f"{n},0" for n in range(2000)), "2000 core ranges; expected at most 1024"),
        ("l1:block@0,0-3,3+4,0-7,3", "needs one rectangle of cores"),
        ("l1:height:0x32", "'0x32' is no shard shape"),
        ("l1:height:-32x32", "'-32x32' is no shard shape"),
        ("l1:height:32x", "'32x' is no shard shape"),
        ("l1:height:", "'' is no shard shape"),
        ("l1:height:３２x32", "is no shard shape"),
        ("l1:height:32x99999999999", "is no shard shape"),
        ("l1:height:32x9999999999", "shard size 9999999999 is more than 4294967295"),
        ("l1:height:32", "expected a shard of height x width"),
        ("l1:height:1x32x32", "expected a shard of height x width"),
        ("l1:height:32x32:32x32", "two of shape"),
        ("l1:height:col_major:row_major", "two of orientation"),
        ("l1:height:grid_2d", "grid_2d is for nd shards"),
        ("l1:nd@8x8", "nd shards need a shape"),
        ("l1:nd:32x32:grid_2d:contiguous_1d", "two of distribution"),
        ("l1:nd@0,0-3,3+4,0-7,3:32x32:grid_2d", "needs one rectangle of cores"),
    ],
)
def test_what_is_no_memory_is_rejected_in_one_line(text: str, why: str) -> None:
    with pytest.raises(InvalidCase, match=re.escape(why)) as raised:
        memory_request(text)
    assert "\n" not in str(raised.value)


def chosen(text: str, shape: tuple[int, ...], board=N150, **fields) -> str:
    request = memory_request(text)
    return str(complete(TensorSpec(shape, **fields), request.buffer, request.sharding, board).memory)


@pytest.mark.parametrize(
    ("text", "shape", "layout", "expected"),
    [
        # 98 tile rows over 64 cores: two each, on 49 cores
        ("l1:height", (1, 1, 3136, 64), Layout.TILE, "l1:height@0,0-7,5+0,6:64x64"),
        ("l1:height:col_major", (1, 1, 3136, 64), Layout.TILE, "l1:height@0,0-5,7+6,0:64x64:col_major"),
        ("l1:height@12", (1, 1, 3136, 64), Layout.TILE, "l1:height@0,0-7,0+0,1-3,1:288x64"),
        ("l1:block", (1, 1, 3136, 64), Layout.TILE, "l1:block@2x8:416x32"),
        ("l1:block:col_major", (1, 1, 3136, 64), Layout.TILE, "l1:block@8x2:416x32:col_major"),
        ("l1:width", (1, 1, 32, 4096), Layout.TILE, "l1:width@8x8:32x64"),
        # 4096 columns are padded to 12 banks of 11 tiles, as DRAM-sharded weights are
        ("dram:width", (1024, 4096), Layout.TILE, "dram:width@12x1:1024x352"),
        ("dram:width@12", (1024, 4096), Layout.TILE, "dram:width@12x1:1024x352"),
        ("dram:height", (1024, 64), Layout.TILE, "dram:height@12x1:96x64"),
        # all banks, though 11 of them have data
        ("dram:width", (64, 1024), Layout.TILE, "dram:width@12x1:64x96"),
        ("l1:height", (1, 1, 100, 24), Layout.ROW_MAJOR, "l1:height@0,0-7,5+0,6-1,6:2x24"),
        # 10 columns over 4 cores: 3, and with rows of 16 B 8
        ("l1:width@4", (2, 10), Layout.ROW_MAJOR, "l1:width@4x1:2x8"),
        ("l1:width@4", (2, 12), Layout.ROW_MAJOR, "l1:width@4x1:2x3"),
        ("l1:nd:1x32x64", (3, 96, 128), Layout.TILE, "l1:nd@0,0-7,1+0,2-1,2:1x32x64"),
        ("l1:nd:1x32x64", (300, 96, 128), Layout.TILE, "l1:nd@8x8:1x32x64"),
        ("l1:nd:32x32:grid_2d", (96, 128), Layout.TILE, "l1:nd@4x3:32x32:grid_2d"),
    ],
)
def test_what_is_left_out_is_chosen(text: str, shape: tuple[int, ...], layout: Layout, expected: str) -> None:
    assert chosen(text, shape, layout=layout) == expected


@pytest.mark.parametrize(("board", "expected"), [(P100, "dram:width@7x1:1024x608"), (P150, "dram:width@8x1:1024x512")])
def test_dram_shards_use_the_banks_of_the_board(board, expected: str) -> None:
    assert chosen("dram:width", (1024, 4096), board) == expected


@pytest.mark.parametrize(
    ("text", "shape", "why"),
    [
        ("l1:height@65", (64, 64), "65 cores for shards; n150 has 64 for l1"),
        ("l1:height@9x8", (64, 64), "they reach over 9x8 cores; n150 has 8x8 for l1"),
        ("l1:block@9x9", (32, 32), "they reach over 9x9 cores; n150 has 8x8 for l1"),
        ("l1:block@7,0-8,0:32x32", (32, 32), "they reach over 9x1 cores; n150 has 8x8 for l1"),
        ("dram:width@13", (64, 64), "13 cores for shards; n150 has 12 for dram"),
        ("dram:height@6x2", (64, 64), "DRAM banks form one row"),
        ("l1:block@12", (128, 128), "needs one rectangle of cores"),
        ("l1:height@2x1:32x64", (128, 64), "has 4 shards, but there are 2 cores"),
        ("l1:height:16x64", (64, 64), "multiples of 32"),
        ("l1:height:32x32", (64, 64), "as wide as the padded tensor, 64"),
        ("l1:width:32x32", (64, 64), "as high as the padded tensor, 64"),
        ("l1:height:32x64", (4096, 64), "has 128 shards, but there are 64 cores"),
        ("l1:block:32x32", (4096, 64), "128 shards down and 2 across need 2x128 cores; the grid has 2x8"),
        ("l1:block@2x4:32x32", (64, 128), "need 4x2 cores; the grid has 2x4"),
        ("l1:block@4x2:32x32:col_major", (64, 128), "need 2x4 cores, turned by col_major; the grid has 4x2"),
        ("l1:nd:1x1x32x32", (64, 64), "the shard has 4 dims, the tensor 2"),
        ("l1:nd:2x32x32:grid_2d", (2, 64, 64), "grid_2d is for shards of 1 or 2 dims"),
        ("l1:nd:32", (64, 64), "multiples of 32"),
    ],
)
def test_shards_that_no_tensor_or_board_can_have_are_rejected(text: str, shape: tuple[int, ...], why: str) -> None:
    with pytest.raises(InvalidCase, match=re.escape(why)):
        chosen(text, shape)


def test_block_floats_are_sharded_in_tiles() -> None:
    request = memory_request("dram:width@12")
    spec = complete(TensorSpec((1024, 4096), DType.BFLOAT8_B), BufferType.DRAM, request.sharding, N150)
    assert spec.bytes_per_bank(N150) == 32 * 11 * 1088
    assert spec.num_banks(N150) == 12
