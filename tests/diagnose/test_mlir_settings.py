"""Settings in MLIR of the TTNN dialect: each becomes TTNN's own argument, by its class and the names of its fields."""

from __future__ import annotations

from typing import Any

import pytest

from ssinghal.diagnose.mlir_settings import settings_in
from ssinghal.diagnose.mlir_to_case import case_of
from ssinghal.diagnose.model import Operation
from ssinghal.diagnose.parse.mlir import parse_operation
from ssinghal.operators import find_operator
from ssinghal.operators.operator_info import OperatorInfo

CORE_RANGES = "#ttnn.core_range_set<[#ttnn.core_range<(0,0), (7,2)>, #ttnn.core_range<(0,3), (2,3)>]>"
MULTICAST_1D = {
    "type": "MatmulMultiCoreReuseMultiCast1DProgramConfig", "compute_with_storage_grid_size": [8, 7], "in0_block_w": 2,
    "out_subblock_h": 1, "out_subblock_w": 4, "per_core_M": 1, "per_core_N": 8, "fuse_batch": True, "mcast_in0": False,
}  # fmt: skip
FIELDS_1D = (
    "compute_with_storage_grid_size = #ttnn.core_coord<8, 7>, in0_block_w = 2, out_subblock_h = 1, out_subblock_w = 4,"
    " per_core_m = 1, per_core_n = 8, fuse_batch = true, mcast_in0 = false"
)

# operator, attribute as printed, and the setting
SETTINGS: list[tuple[str, str, str, Any]] = [
    (
        "matmul",
        f"matmul_program_config = #ttnn.matmul_multi_core_reuse_multi_cast_1d_program_config<{FIELDS_1D}>",
        "program_config",
        MULTICAST_1D,
    ),
    (
        "linear",
        f"program_config = #ttnn.matmul_multi_core_reuse_multi_cast_1d_program_config<{FIELDS_1D}, fused_activation ="
        " #ttnn.unary_with_param<op_type = gelu, params = [1.0]>>",
        "program_config",
        {**MULTICAST_1D, "fused_activation": {"type": "UnaryWithParam", "op_type": "GELU", "params": [1.0]}},
    ),
    (
        "matmul",
        "matmul_program_config = #ttnn.matmul_multi_core_reuse_program_config<compute_with_storage_grid_size ="
        " #ttnn.core_coord<4, 2>, in0_block_w = 1, out_subblock_h = 1, out_subblock_w = 1, per_core_m = 3, per_core_n = 5>",
        "program_config",
        {
            "type": "MatmulMultiCoreReuseProgramConfig", "compute_with_storage_grid_size": [4, 2], "in0_block_w": 1,
            "out_subblock_h": 1, "out_subblock_w": 1, "per_core_M": 3, "per_core_N": 5,
        },
    ),
    (
        "matmul",
        "compute_config = #ttnn.device_compute_kernel_config<math_fidelity = hifi4, fp32_dest_acc_en = true>",
        "compute_kernel_config",
        {"type": "WormholeComputeKernelConfig", "math_fidelity": "HiFi4", "fp32_dest_acc_en": True},
    ),
    (
        "convolution",
        "compute_config = #ttnn.device_compute_kernel_config<math_fidelity = lofi, packer_l1_acc = true>",
        "compute_config",
        {"type": "WormholeComputeKernelConfig", "math_fidelity": "LoFi", "packer_l1_acc": True},
    ),
    (
        "convolution",
        "conv2d_config = #ttnn.conv2d_config<weights_dtype = bfp_bf8, activation = <op_type = relu>, act_block_h_override = 64,"
        " shard_layout = #ttnn.tensor_memory_layout<block_sharded>, core_grid = " + CORE_RANGES + ", output_layout = tile>",
        "conv_config",
        {
            "type": "Conv2dConfig", "weights_dtype": "bfloat8_b", "activation": {"type": "UnaryWithParam", "op_type": "RELU"},
            "act_block_h_override": 64, "shard_layout": "BLOCK_SHARDED", "core_grid": "0,0-7,2+0,3-2,3",
            "output_layout": "TILE",
        },
    ),
    (
        "convolution",
        "conv2d_config = #ttnn.conv2d_config<weights_dtype = bf16, shard_layout = height_sharded>",
        "conv_config",
        {"type": "Conv2dConfig", "weights_dtype": "bfloat16", "shard_layout": "HEIGHT_SHARDED"},
    ),
    (
        "convolution",
        "conv2d_slice_config = #ttnn.conv2d_slice_config<l1_full, 0>",
        "slice_config",
        {"type": "Conv2dSliceConfig", "slice_type": "L1Full", "num_slices": 0},
    ),
    (
        "convolution",
        "conv2d_slice_config = #ttnn.conv2d_slice_config<dram_width, 4>",
        "slice_config",
        {"type": "Conv2dSliceConfig", "slice_type": "DRAMSliceWidth", "num_slices": 4},
    ),
    (
        "conv_transpose2d",
        "conv2d_slice_config = #ttnn.conv2d_slice_config<dram_height, 2>",
        "dram_slice_config",
        {"type": "Conv2dSliceConfig", "slice_type": "DRAMSliceHeight", "num_slices": 2},
    ),
    ("linear", 'activation = "gelu"', "activation", "gelu"),
    ("matmul", "transpose_a = true", "transpose_a", True),
    ("_to_copy", f"sub_core_grids = {CORE_RANGES}", "sub_core_grids", "0,0-7,2+0,3-2,3"),
    ("max_pool2d", "applied_shard_scheme = #ttnn.x<height_sharded>", "applied_shard_scheme", "HEIGHT_SHARDED"),
]  # fmt: skip


def operation(operator: str, attributes: str) -> tuple[Operation, OperatorInfo]:
    name = {"convolution": "conv2d", "_to_copy": "typecast"}.get(operator, operator)
    parsed = parse_operation(f'%1 = "ttnn.{name}"(%0) <{{{attributes}}}> : (!ttnn.device) -> ()', {})
    assert parsed is not None
    return parsed, find_operator(operator)


@pytest.mark.parametrize(("operator", "printed", "name", "expected"), SETTINGS)
def test_a_setting(operator: str, printed: str, name: str, expected: Any) -> None:
    settings = settings_in(*operation(operator, f"{printed}, flag = false"))
    assert (dict(settings.attrs), settings.left_out) == ({name: expected}, ())


LEFT_OUT = [
    ("softmax", "conv2d_config = #ttnn.conv2d_config<weights_dtype = bf16>", "conv2d_config"),
    ("convolution", "conv2d_config = #ttnn.conv2d_config<weights_dtype = bf16, no_such = 7>", "conv2d_config: no_such = 7"),
    ("matmul", "matmul_program_config = #ttnn.of_the_future_program_config<a = 1>", "matmul_program_config ("),
    ("matmul", "matmul_program_config = #ttnn.conv2d_config<weights_dtype = bf16>", "matmul_program_config ("),
]


@pytest.mark.parametrize(("operator", "printed", "expected"), LEFT_OUT)
def test_what_no_call_takes_is_reported(operator: str, printed: str, expected: str) -> None:
    (left_out,) = settings_in(*operation(operator, printed)).left_out
    assert left_out.startswith(expected)
    assert "\n" not in left_out


@pytest.mark.parametrize(
    ("flags", "a", "b", "inputs"),
    [
        ("transpose_a = true", "64x32", "64x96", [(64, 32), (64, 96)]),
        ("transpose_a = false, transpose_b = true", "32x64", "96x64", [(32, 64), (96, 64)]),
    ],
)
def test_a_product_that_transposes(flags: str, a: str, b: str, inputs: list[tuple[int, ...]]) -> None:
    """[32, 64] x [64, 96], each matrix in turn stored the other way."""
    types = f"(tensor<{a}xbf16>, tensor<{b}xbf16>) -> tensor<32x96xbf16>"
    for name in ("matmul", "linear"):
        parsed = parse_operation(f'%2 = "ttnn.{name}"(%0, %1) <{{{flags}}}> : {types}', {})
        assert parsed is not None
        case = case_of(parsed)
        as_layer = [inputs[0], inputs[1] if "transpose_b = true" in flags else inputs[1][::-1]]  # torch's weight is [out, in]
        assert list(case.inputs) == (inputs if name == "matmul" else as_layer)
