"""Logs whose calls fail only as they were made: what diagnose carries from the text replays with the numbers of the message.

The numbers are those of the same calls in plain TTNN programs under ``exec``, with 0.81.1.
"""

from __future__ import annotations

import io
from collections.abc import Iterator

import pytest

from ssinghal.core.verdict import Status
from ssinghal.device.modes import choose_device
from ssinghal.device.releases import find_release
from ssinghal.diagnose.log_reader import read_log
from ssinghal.diagnose.pipeline import Diagnosis, diagnose_failures, with_replays
from ssinghal.remedy.device_pools import DevicePools
from ssinghal.runner.tasks import PoolOptions

pytestmark = pytest.mark.virtual_device

MAP = "(d0, d1) -> (d0, d1)"


def typed(shape: str, stored: str, memory: str = "dram") -> str:
    layout = f"#ttnn.ttnn_layout<{MAP}, <1x1>, memref<{stored}, #ttnn.buffer_type<{memory}>>, <interleaved>>"
    return f"tensor<{shape}, {layout}>"


CONFIG = (
    "matmul_program_config = #ttnn.matmul_multi_core_reuse_multi_cast_program_config<compute_with_storage_grid_size ="
    " #ttnn.core_coord<8, 8>, in0_block_w = 16, out_subblock_h = 1, out_subblock_w = 4, out_block_h = 8, out_block_w = 32,"
    " per_core_m = 8, per_core_n = 32, transpose_mcast = false, fuse_batch = true>"
)
X, W, Y = (
    typed("2048x2048xbf16", "64x64x!ttcore.tile<32x32, bf16>"),
    typed("2048x8192xbf16", "64x256x!ttcore.tile<32x32, bfp_bf8>"),
    typed("2048x8192xbf16", "64x256x!ttcore.tile<32x32, bfp_bf8>"),
)
MATMUL = f'%2 = "ttnn.linear"(%0, %1) <{{{CONFIG}, transpose_a = false, transpose_b = false}}> : ({X}, {W}) -> {Y}'
MATMUL_ERROR = "buffers on core range [0-0 - 7-7] grow to 2547040 B which is beyond max L1 size of 1499136 B"

IMAGE = typed("1x1x36864x96xf32", "36864x96xf32", "l1")
CONV = (
    '%3 = "ttnn.conv2d"(%0, %1, %2) <{batch_size = 16 : i32, conv2d_slice_config = #ttnn.conv2d_slice_config<l1_full, 0>,'
    " dilation = array<i32: 1, 1>, groups = 1 : i32, in_channels = 96 : i32, input_height = 48 : i32, input_width = 48 : i32,"
    " kernel_size = array<i32: 3, 3>, out_channels = 96 : i32, padding = array<i32: 1, 1, 1, 1>, stride = array<i32: 1, 1>}>"
    f" : ({IMAGE}, tensor<96x96x3x3xbf16>, !ttnn.device) -> tensor<1x1x36864x96xf32>"
)
CONV_ERROR = (
    "buffers in program 12 clash with L1 buffers on core range [0-0 - 7-7]. L1 buffer allocated at 755200 and static circular"
    " buffer region ends at 1488288"
)
PYTHON = """
function_args = (ttnn.Tensor([1], shape=Shape([2048, 2048]), dtype=DataType::BFLOAT16, layout=Layout::TILE), \
ttnn.Tensor([1], shape=Shape([2048, 8192]), dtype=DataType::BFLOAT8_B, layout=Layout::TILE))
function_kwargs = {'dtype': <DataType.BFLOAT8_B: 3>, 'program_config': MatmulMultiCoreReuseMultiCastProgramConfig(\
compute_with_storage_grid_size=8-8,in0_block_w=16,out_subblock_h=1,out_subblock_w=4,out_block_h=8,out_block_w=32,per_core_M=8,\
per_core_N=32,transpose_mcast=0,fused_activation=std::nullopt,fuse_batch=1,allowed_worker_cores=std::nullopt)}
"""


@pytest.fixture(scope="module")
def pools() -> Iterator[DevicePools]:
    options = PoolOptions(workers=1)
    with DevicePools(choose_device("virtual", "n150"), options, no_values="not asked") as opened:
        yield opened


def replayed(pools: DevicePools, log: str) -> Diagnosis:
    (diagnosis,) = diagnose_failures(read_log(io.BytesIO(log.encode()), "log"))
    return with_replays(diagnosis, pools, [find_release("0.81.1").version], None)


def log_of(statement: str, error: str) -> str:
    kind = "circular" if "clash" in error else "dataflow"
    return f"RuntimeTTNN |    DEBUG | Executing operation: {statement}\nTT_THROW: Statically allocated {kind} {error}\n"


@pytest.mark.parametrize(("statement", "error"), [(MATMUL, MATMUL_ERROR), (CONV, CONV_ERROR)], ids=["linear", "conv2d"])
def test_a_call_of_mlir_fails_with_the_numbers_of_its_log(pools: DevicePools, statement: str, error: str) -> None:
    (replay,) = replayed(pools, log_of(statement, error)).replays
    assert len(replay.numbers) == 3
    assert replay.same_numbers, replay.outcome()


def test_without_its_program_config_it_does_not(pools: DevicePools) -> None:
    """So that the test above shows that the config is carried."""
    (replay,) = replayed(pools, log_of(MATMUL.replace(f"{CONFIG}, ", ""), MATMUL_ERROR)).replays
    assert not replay.same_numbers
    assert replay.result.verdict.status is Status.FITS


def test_a_call_of_a_test_report_fails_with_its_numbers(pools: DevicePools) -> None:
    log = (
        "_____________________________ test_ff1 _____________________________\n"
        ">   y = ttnn.linear(x, w, dtype=ttnn.bfloat8_b, program_config=config)\n\ntest_ff.py:7: \n"
        f"{PYTHON}\nE   RuntimeError: TT_THROW @ /p/dataflow_buffer.cpp:3087: tt::exception\nE   info:\n"
        f"E   Statically allocated dataflow {MATMUL_ERROR}\n"
    )
    diagnosis = replayed(pools, log)
    assert diagnosis.candidate is not None
    assert diagnosis.candidate.left_out == ()
    assert [replay.same_numbers for replay in diagnosis.replays] == [True]
