"""Operations in MLIR: attributes, types, layouts, shards and locations of several releases, and as people write them."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest

from ssinghal.core.tensors import BufferType, Cores, DType, Layout, ShardKind, ShardSpec
from ssinghal.diagnose.model import MlirValue
from ssinghal.diagnose.parse.brackets import split
from ssinghal.diagnose.parse.mlir import parse_operation, read_module

MODULE = Path(__file__).parents[1] / "data" / "logs" / "mochi_module.mlir"
MAP = "(d0, d1) -> (d0, d1)"


def value(of_type: str, aliases: dict[str, str] | None = None) -> MlirValue:
    operation = parse_operation(f'%1 = "ttnn.relu"(%0) : ({of_type}) -> {of_type} loc("x")', aliases or {})
    assert operation is not None
    assert operation.operands[0].spec == operation.results[0].spec
    return operation.operands[0]


def test_module_in_its_order() -> None:
    with MODULE.open("rb") as file:
        module = read_module(file, MODULE.name).operations
    names = ["get_device", "constant", "get_device", "to_layout", "permute", "deallocate", "reshape", "to_layout", "embedding",
             "reshape", "permute", "permute", "conv3d", "to_layout"]  # fmt: skip
    assert [op.name.removeprefix("ttnn.") for op in module] == names
    assert [op.line for op in module] == [21, 22, 26, 27, 28, 29, 30, 33, 34, 35, 36, 37, 38, 39]
    untilize = module[7]
    assert [v.name for v in (*untilize.operands, *untilize.results)] == ["%8", "%9"]
    assert (untilize.attributes, untilize.location) == ({"layout": "row_major"}, "5|.../aten__index_workaround")
    tiles, rows = untilize.operands[0], untilize.results[0]
    assert tiles.spec is not None
    assert rows.spec is not None
    assert (tiles.spec.shape, tiles.spec.layout, rows.spec.layout) == ((4, 4884480), Layout.TILE, Layout.ROW_MAJOR)
    assert (tiles.spec.dtype, tiles.spec.memory.buffer, tiles.grid) == (DType.BFLOAT16, BufferType.DRAM, (1, 1))
    assert tiles.known_layout
    assert rows.known_layout
    assert module[6].location == "aten__index_reshapeInput"
    assert module[1].location == "model.py:116:12"


@pytest.mark.parametrize("columns", [80, 100])
def test_module_broken_by_a_terminal_or_windows(columns: int) -> None:
    lines = MODULE.read_text().split("\n")
    broken = "\r\n".join(line[i : i + columns] for line in lines for i in range(0, max(1, len(line)), columns))
    with MODULE.open("rb") as file:
        expected = read_module(file, MODULE.name)
    module = read_module(io.BytesIO(broken.encode()), MODULE.name)
    assert module.remarks == expected.remarks == ()
    assert [(op.name, op.operands, op.results) for op in module.operations] == [
        (op.name, op.operands, op.results) for op in expected.operations
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("4 : i32", 4),
        ("-1 : si32", -1),
        ("7", 7),
        ("1.000000e-05 : f32", 1e-05),
        ("true", True),
        ("false", False),
        ('"zeros, a=b"', "zeros, a=b"),
        ("[4 : i32, 4884480 : i32]", [4, 4884480]),
        ("array<i64: 4, 1, 0>", [4, 1, 0]),
        ("array<i32>", []),
        ("#ttnn.layout<row_major>", "row_major"),
        ("#ttnn.buffer_type<dram>", "dram"),
        ("#ttcore.supportedDataTypes<bf16>", "bf16"),
        ("#tt.supportedDataTypes<bf16>", "bf16"),
        ("#ttnn.shape<1x32x64>", [1, 32, 64]),
        ("#dram", "dram"),
        ("#ttnn.memory_config<#dram, <interleaved>>", "#ttnn.memory_config<#dram, <interleaved>>"),
        ("dense<[[0, 1]]> : tensor<1x2xui32>", "dense<[[0, 1]]> : tensor<1x2xui32>"),
    ],
)
@pytest.mark.parametrize("brackets", [("<{", "}>"), ("{", "}")], ids=["properties", "attributes"])
def test_attributes(text: str, expected: Any, brackets: tuple[str, str]) -> None:
    statement = f'%1 = "ttnn.x"(%0) {brackets[0]}first = {text}, flag, last = 1 : i32{brackets[1]} : (!ttnn.device) -> ()'
    operation = parse_operation(statement, {"#dram": "#ttnn.buffer_type<dram>"})
    assert operation is not None
    assert operation.attributes == {"first": expected, "flag": True, "last": 1}


@pytest.mark.parametrize(
    ("printed", "dtype"),
    [("bf16", DType.BFLOAT16), ("f32", DType.FLOAT32), ("si32", DType.INT32), ("i32", DType.INT32), ("ui32", DType.UINT32),
     ("ui8", DType.UINT8), ("ui16", DType.UINT16), ("!ttcore.tile<32x32, bfp_bf8>", DType.BFLOAT8_B),
     ("!ttcore.tile<32x32, bfp_bf4>", DType.BFLOAT4_B), ("!tt.tile<32x32, bf16>", DType.BFLOAT16)],
)  # fmt: skip
@pytest.mark.parametrize("layout", ["", "#layout", f"#ttnn.ttnn_layout<{MAP}, <1x1>, memref<2x4x{{}}, #dram>, <interleaved>>"])
def test_dtypes(printed: str, dtype: DType, layout: str) -> None:
    parsed = value(f"tensor<64x128x{printed}{', ' if layout else ''}{layout.format(printed)}>")
    assert parsed.spec is not None
    assert (parsed.spec.shape, parsed.spec.dtype) == ((64, 128), dtype)
    assert parsed.known_layout == ("memref" in layout)


@pytest.mark.parametrize(
    "text",
    ["tensor<bf16>", "tensor<?x32xbf16>", "tensor<32x32xf64>", "tensor<0x32xbf16>", "tensor<1x1x1x1x1x1x1x1x2xbf16>",
     "!ttnn.device", "tensor<99999999999999999999x1xbf16>", "tensor<>", "tensor<4x32x!ttcore.tile<32x32, bf16>", "()",
     "tensor<4x32xf64, #ttnn.ttnn_layout<>>", "tensor<4x32xi1, #ttnn.ttnn_layout<memref<>>>", "tensor<4x32xbf1"],
)  # fmt: skip
def test_types_that_ttnn_lacks_have_no_spec(text: str) -> None:
    assert value(text).spec is None


@pytest.mark.parametrize("grid", ["0x0", f"{'9' * 5000}x1", "1x1, (d0) -> (d0 floordiv 0)", "8x8, d0 mod " + "9" * 5000])
@pytest.mark.parametrize("kind", ["interleaved", "block_sharded", "height_sharded"])
def test_impossible_grids_give_no_shards(grid: str, kind: str) -> None:
    parsed = value(f"tensor<64x128xbf16, #ttnn.ttnn_layout<{MAP}, <{grid}>, memref<99x1xbf16, #l1>, <{kind}>>>")
    assert parsed.spec is not None
    assert parsed.spec.memory.shard is None


def test_the_layout_has_the_stored_element() -> None:
    stored = f"#ttnn.ttnn_layout<{MAP}, <1x1>, memref<2x4x!ttcore.tile<32x32, bfp_bf8>, #dram>, <interleaved>>"
    spec = value(f"tensor<64x128xbf16, {stored}>").spec
    assert spec is not None
    assert spec.dtype is DType.BFLOAT8_B


@pytest.mark.parametrize(
    ("memory", "buffer", "known"),
    [("#dram", BufferType.DRAM, True), ("#l1", BufferType.L1, True), ("#l1_", BufferType.L1, True),
     ("#ttnn.buffer_type<l1>", BufferType.L1, True), ("#system_memory", BufferType.DRAM, False),
     ("#else", BufferType.DRAM, False)],
)  # fmt: skip
def test_memory_by_alias_or_spelled_out(memory: str, buffer: BufferType, known: bool) -> None:
    parsed = value(f"tensor<32x32xbf16, #ttnn.ttnn_layout<{MAP}, <1x1>, memref<32x32xbf16, {memory}>, <interleaved>>>")
    assert parsed.spec is not None
    assert (parsed.spec.memory.buffer, parsed.spec.layout, parsed.known_layout) == (buffer, Layout.ROW_MAJOR, known)


MAPPED = ", (d0, d1) -> (0, d0 floordiv 8, d0 mod 8)"


@pytest.mark.parametrize(
    ("grid", "memref", "kind", "expected"),
    [
        # 2048 x 512: 8 rows and 4 columns of blocks; 64 slices of 32 rows; 16 slices of 32 columns
        ("8x4", "8x4x!ttcore.tile<32x32, bf16>", "block", ShardSpec(ShardKind.BLOCK, (256, 128), Cores.grid(4, 8))),
        ("8x4", "256x128xbf16", "block", ShardSpec(ShardKind.BLOCK, (256, 128), Cores.grid(4, 8))),
        (f"64x1{MAPPED}", "1x16x!ttcore.tile<32x32, bf16>", "height", ShardSpec(ShardKind.HEIGHT, (32, 512), Cores.grid(8, 8))),
        (f"1x16{MAPPED}", "64x1x!ttcore.tile<32x32, bf16>", "width", ShardSpec(ShardKind.WIDTH, (2048, 32), Cores.grid(8, 2))),
        ("8x8", "1x16x!ttcore.tile<32x32, bf16>", "height", ShardSpec(ShardKind.HEIGHT, (32, 512), Cores.grid(8, 8))),
        ("64x1", "1x16x!ttcore.tile<32x32, bf16>", "height", None),  # on which cores?
        # 60 slices: 7 rows of 8 cores, and 4 cores more
        (
            f"60x1{MAPPED}",
            "2x16x!ttcore.tile<32x32, bf16>",
            "height",
            ShardSpec(ShardKind.HEIGHT, (64, 512), Cores((((0, 0), (7, 6)), ((0, 7), (3, 7))))),
        ),
        ("8x4", "1x1x!ttcore.tile<32x32, bf16>", "block", None),  # too small for the tensor
    ],
)
def test_shards(grid: str, memref: str, kind: str, expected: ShardSpec | None) -> None:
    parsed = value(f"tensor<1x1x2048x512xbf16, #ttnn.ttnn_layout<{MAP}, <{grid}>, memref<{memref}, #l1>, <{kind}_sharded>>>")
    assert parsed.spec is not None
    assert (parsed.spec.memory.shard, parsed.known_layout) == (expected, expected is not None)
    assert parsed.spec.memory.buffer is BufferType.L1


@pytest.mark.parametrize(("written", "layout"), [("tile", Layout.TILE), ("row_major", Layout.ROW_MAJOR)])
def test_layouts_as_people_write_them(written: str, layout: Layout) -> None:
    parsed = value(f"tensor<4x4884480xbf16, {written}>")
    assert parsed.spec is not None
    assert (parsed.spec.shape, parsed.spec.layout, parsed.known_layout) == ((4, 4884480), layout, False)


@pytest.mark.parametrize(
    ("printed", "location"),
    [
        ('loc("5|.../aten__index_workaround"(...))', "5|.../aten__index_workaround"),
        ('loc("a(b"("m.py":1:2))', "a(b"),
        ('loc("m.py":1:2)', "m.py:1:2"),
        ("loc(#loc2)", "named"),
        ("loc(#loc9)", "#loc9"),
        ("loc(#round)", "#round"),
        ("loc(unknown)", ""),
        ("", ""),
    ],
)
def test_locations(printed: str, location: str) -> None:
    aliases = {"#loc1": 'loc("m.py":1:2)', "#loc2": "loc(#loc3)", "#loc3": 'loc("named"(#loc1))', "#round": "loc(#round)"}
    operation = parse_operation(f'"ttnn.deallocate"(%1) : (tensor<4xbf16>) -> () {printed}', aliases)
    assert operation is not None
    assert operation.location == location


def test_several_results_and_operands() -> None:
    operation = parse_operation(
        '%2:2 = "ttnn.sort"(%0, %arg1) : (tensor<4xbf16>, tensor<8xf32>) -> (tensor<4xbf16>, tensor<4xui16>)', {}
    )
    assert operation is not None
    assert [v.name for v in operation.results] == ["%2#0", "%2#1"]
    shapes = [v.spec.shape for v in (*operation.operands, *operation.results) if v.spec]
    assert shapes == [(4,), (8,), (4,), (4,)]


@pytest.mark.parametrize(
    "text", ["", "}", "return %1", "%1 = ", '"', "%1 = arith.constant 1", "func.func @main() {", "<<<<", "%1 = x("]
)
def test_other_text_is_not_an_operation(text: str) -> None:
    assert parse_operation(text, {}) is None
    assert read_module(io.BytesIO(text.encode()), "m").operations == ()


@pytest.mark.parametrize(
    ("attributes", "layout", "dtype", "buffer"),
    [
        ("layout = #ttnn.layout<row_major>", Layout.ROW_MAJOR, DType.FLOAT32, BufferType.DRAM),
        ("layout = #ttnn.layout<tile>", Layout.TILE, DType.FLOAT32, BufferType.DRAM),
        ("dtype = #ttcore.supportedDataTypes<bf16>", Layout.TILE, DType.BFLOAT16, BufferType.DRAM),
        ("memory_config = #ttnn.memory_config<#l1, <interleaved>>", Layout.TILE, DType.FLOAT32, BufferType.L1),
        (
            "memory_config = #ttnn.memory_config<#ttnn.buffer_type<l1>, <interleaved>>",
            Layout.TILE,
            DType.FLOAT32,
            BufferType.L1,
        ),
        ("layout = 7, dtype = x, memory_config = #m", Layout.TILE, DType.FLOAT32, BufferType.DRAM),
    ],
)
def test_attributes_complete_the_type_of_the_result(attributes: str, layout: Layout, dtype: DType, buffer: BufferType) -> None:
    for type_text in ("tensor<32x64xf32, #unknown>", "tensor<32x64xf32>"):
        operation = parse_operation(f'%1 = "ttnn.x"(%0) <{{{attributes}}}> : ({type_text}) -> {type_text}', {})
        assert operation is not None
        (operand,), (result,) = operation.operands, operation.results
        assert operand.spec is not None
        assert result.spec is not None
        assert (operand.spec.layout, operand.spec.dtype, operand.spec.memory.buffer) == (
            Layout.TILE,
            DType.FLOAT32,
            BufferType.DRAM,
        )
        assert (result.spec.layout, result.spec.dtype, result.spec.memory.buffer) == (layout, dtype, buffer)
        assert not result.known_layout


def test_a_type_with_its_layout_is_trusted_more_than_attributes() -> None:
    known = f"tensor<32x32xf32, #ttnn.ttnn_layout<{MAP}, <1x1>, memref<1x1x!ttcore.tile<32x32, f32>, #dram>, <interleaved>>>"
    text = f'%1 = "ttnn.to_layout"(%0) <{{layout = #ttnn.layout<row_major>}}> : ({known}) -> {known}'
    operation = parse_operation(text, {})
    assert operation is not None
    assert operation.results[0].spec == operation.operands[0].spec


def test_split_minds_brackets_quotes_and_arrows() -> None:
    assert split('a<b, c>, (d) -> (e, f), "g, h", [i, {j, k}]') == ["a<b, c>", "(d) -> (e, f)", '"g, h"', "[i, {j, k}]"]
    assert split("") == []
    assert split("a>, b") == ["a>", "b"]
