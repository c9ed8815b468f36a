"""Arguments by name in lines of Python and in reports of tests: what the text states is carried, other names are reported."""

from __future__ import annotations

import ast
from typing import Any

import pytest

from ssinghal.core.case import OutputMemory
from ssinghal.core.tensors import DType, Layout, TensorSpec
from ssinghal.diagnose.call_arguments import CallArguments, call_arguments, keywords_of, printed_keywords
from ssinghal.diagnose.model import MlirValue, PythonCall
from ssinghal.diagnose.source_calls import arguments_in, calls_on, source_calls
from ssinghal.operators import find_operator, make_case


def of_line(source: str, operator: str) -> CallArguments:
    call = ast.parse(source, mode="eval").body
    assert isinstance(call, ast.Call)
    return call_arguments(keywords_of(call), find_operator(operator))


CARRIED: list[tuple[str, str, dict[str, Any], str | None, DType | None]] = [
    (
        "ttnn.linear(x, w, core_grid=ttnn.CoreGrid(y=6, x=8), memory_config=ttnn.L1_WIDTH_SHARDED_MEMORY_CONFIG,"
        " dtype=ttnn.bfloat8_b)",
        "linear", {"core_grid": [8, 6]}, "l1:width", DType.BFLOAT8_B,
    ),
    ("ttnn.matmul(a, b, transpose_a=True)", "matmul", {"transpose_a": True}, None, None),
    (
        "ttnn.matmul(a, b, compute_kernel_config=ttnn.WormholeComputeKernelConfig(math_fidelity=ttnn.MathFidelity.HiFi2,"
        " fp32_dest_acc_en=True), memory_config=ttnn.DRAM_MEMORY_CONFIG)",
        "matmul",
        {"compute_kernel_config": {"type": "WormholeComputeKernelConfig", "math_fidelity": "HiFi2", "fp32_dest_acc_en": True}},
        "dram", None,
    ),
    (
        "ttnn.relu(x, memory_config=ttnn.MemoryConfig(ttnn.TensorMemoryLayout.WIDTH_SHARDED, ttnn.BufferType.DRAM,"
        " ttnn.ShardSpec(ttnn.CoreRangeSet({ttnn.CoreRange(ttnn.CoreCoord(0, 0), ttnn.CoreCoord(6, 0))}), [2048, 320],"
        " ttnn.ShardOrientation.ROW_MAJOR)))",
        "relu", {}, "dram:width@7x1:2048x320", None,
    ),
    (
        "ttnn.relu(x, memory_config=ttnn.create_sharded_memory_config((1, 1, 576, 23040), core_grid=ttnn.CoreGrid(y=6, x=8),"
        " strategy=ttnn.ShardStrategy.WIDTH, orientation=ttnn.ShardOrientation.ROW_MAJOR))",
        "relu", {}, "l1:width@8x6", None,
    ),
    (
        "ttnn.relu(x, memory_config=ttnn.create_sharded_memory_config([64, 128], ttnn.CoreGrid(y=2, x=3),"
        " ttnn.ShardStrategy.BLOCK, ttnn.ShardOrientation.COL_MAJOR, use_height_and_width_as_shard_shape=True))",
        "relu", {}, "l1:block@3x2:128x64:col_major", None,
    ),
    ("ttnn.linear(x, w, activation='gelu', bias=b, program_config=None)", "linear", {"activation": "gelu"}, None, None),
    (
        "ttnn.typecast(x, ttnn.uint32, sub_core_grids=ttnn.CoreRangeSet({ttnn.CoreRange(ttnn.CoreCoord(1, 0),"
        " ttnn.CoreCoord(3, 6)), ttnn.CoreRange(ttnn.CoreCoord(5, 0), ttnn.CoreCoord(6, 6))}))",
        "_to_copy", {"sub_core_grids": "1,0-3,6+5,0-6,6"}, None, None,
    ),
]  # fmt: skip


@pytest.mark.parametrize(("source", "operator", "attrs", "memory", "dtype"), CARRIED)
def test_what_a_line_states_is_carried(
    source: str, operator: str, attrs: dict[str, Any], memory: str | None, dtype: DType | None
) -> None:
    carried = of_line(source, operator)
    stated = None if carried.memory is None else str(carried.memory)
    assert (carried.attrs, stated, carried.dtype, carried.left_out) == (attrs, memory, dtype, ())


@pytest.mark.parametrize(
    ("argument", "reason"),
    [
        ("core_grid=grid", "grid is not in the text"),
        ("program_config=self.configs['ff1']", "self is not in the text"),
        (
            "program_config=ttnn.MatmulMultiCoreReuseProgramConfig(compute_with_storage_grid_size=size)",
            "size is not in the text",
        ),
        ("memory_config=x.memory_config()", "x is not in the text"),
        ("memory_config=ttnn.get_memory_config()", "not a memory config"),
        ("dtype=dt", "dt is not in the text"),
        ("program_config=ttnn.SDPAProgramConfig(q_chunk_size=32)", "SDPAProgramConfig"),
        ("core_grid=ttnn.CoreGrid(y=0, x=8)", "at least 1"),
    ],
)
def test_what_a_line_leaves_open_is_reported_and_not_guessed(argument: str, reason: str) -> None:
    carried = of_line(f"ttnn.linear(x, w, {argument})", "linear")
    (left_out,) = carried.left_out
    assert left_out.startswith(argument.partition("=")[0])
    assert reason in left_out
    assert (carried.attrs, carried.memory, carried.dtype) == ({}, None, None)


def test_arguments_as_a_test_report_prints_them() -> None:
    """In the words of TTNN 0.81.1."""
    printed = printed_keywords(
        "{'core_grid': ttnn.CoreGrid(x=8, y=6), 'dtype': <DataType.BFLOAT8_B: 3>, 'bias': None, 'memory_config':"
        " MemoryConfig(memory_layout=TensorMemoryLayout::HEIGHT_SHARDED,buffer_type=BufferType::L1,shard_spec=ShardSpec{grid="
        '[{"start":{"x":0,"y":0},"end":{"x":7,"y":5}], shape=[64, 64], orientation=ShardOrientation::ROW_MAJOR},nd_shard_spec='
        "std::nullopt,created_with_nd_shard_spec=0,per_core_allocation=0,range_lockstep_allocation=0)}"
    )
    carried = call_arguments(printed, find_operator("linear"))
    assert (carried.attrs, str(carried.memory), carried.dtype) == (
        {"core_grid": [8, 6]},
        "l1:height@8x6:64x64",
        DType.BFLOAT8_B,
    )
    assert carried.words() == [
        *("--attr", "core_grid=8,6", "--output-memory", "l1:height@8x6:64x64", "--output-dtype", "bfloat8_b")
    ]


def test_they_are_applied_to_a_case() -> None:
    case = make_case("linear", ((32, 64), (96, 64)))
    carried = of_line("ttnn.linear(x, w, core_grid=ttnn.CoreGrid(y=1, x=2), memory_config=ttnn.L1_MEMORY_CONFIG)", "linear")
    applied = carried.applied_to(case)
    assert dict(applied.attrs) == {"core_grid": [2, 1]}
    assert (applied.placement.output_memory, applied.placement.output_dtype) == (OutputMemory.L1, None)
    assert CallArguments({}).applied_to(case) is case


def test_a_convolution_of_a_source_line_has_its_configs() -> None:
    source = (
        "ttnn.conv2d(x, w, device=d, in_channels=32, out_channels=64, batch_size=1, input_height=8, input_width=8,"
        " kernel_size=(3, 3), conv_config=ttnn.Conv2dConfig(weights_dtype=ttnn.bfloat8_b, shard_layout="
        "ttnn.TensorMemoryLayout.HEIGHT_SHARDED), slice_config=ttnn.Conv2dL1FullSliceConfig, compute_config=cfg)"
    )
    for one in source_calls(PythonCall("", source), None):
        assert one.case.attrs["conv_config"] == {
            "type": "Conv2dConfig", "weights_dtype": "bfloat8_b", "shard_layout": "HEIGHT_SHARDED",
        }  # fmt: skip
        assert one.case.attrs["slice_config"]["slice_type"] == "L1Full"
        assert one.left_out == ("compute_config=cfg (cfg is not in the text)",)


def test_a_call_on_the_tensors_of_the_text_has_the_arguments_of_its_line() -> None:
    line = PythonCall("", "y = ttnn.linear(x, w, core_grid=ttnn.CoreGrid(y=8, x=8), memory_config=mem)")
    tensors = [MlirValue("", TensorSpec(shape, DType.BFLOAT16, Layout.TILE)) for shape in ((32, 64), (64, 96))]
    (one,) = calls_on(tensors, ["ttnn.linear"], None, arguments_in(line, ["ttnn.linear"]))
    assert one.case.inputs == ((32, 64), (96, 64))
    assert (dict(one.case.attrs), one.left_out) == ({"core_grid": [8, 8]}, ("memory_config=mem (mem is not in the text)",))
