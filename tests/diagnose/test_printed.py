"""What TTNN prints is read back: memory configs in their forms of several releases, and calls with their tensors."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from typing import Any

import pytest

from ssinghal.diagnose.log_reader import read_log
from ssinghal.diagnose.pipeline import diagnose_failures
from ssinghal.diagnose.printed import memory_in
from ssinghal.errors import InvalidCase

SHARD = "shape=[64, 32], orientation=ShardOrientation::{}"
FORMS = {
    'grid=[{"start":{"x":0,"y":0},"end":{"x":7,"y":2}}], ' + SHARD.format("ROW_MAJOR"): "l1:height@8x3:64x32",
    'grid=[{"start":{"x":0,"y":0},"end":{"x":7,"y":2}], ' + SHARD.format("ROW_MAJOR"): "l1:height@8x3:64x32",  # as TTNN prints
    "grid={[(x=0,y=0) - (x=7,y=2)]}, " + SHARD.format("COL_MAJOR"): "l1:height@8x3:64x32:col_major",
    "grid={[0-0 - 7-2], [0-3 - 2-3]}, " + SHARD.format("ROW_MAJOR"): "l1:height@0,0-7,2+0,3-2,3:64x32",
}


@pytest.mark.parametrize("shard", FORMS)
def test_shard_specs_of_several_releases(shard: str) -> None:
    text = f"memory_layout=TensorMemoryLayout::HEIGHT_SHARDED,buffer_type=BufferType::L1,shard_spec=ShardSpec{{{shard}}}"
    assert str(memory_in(f"MemoryConfig({text},nd_shard_spec=std::nullopt,created_with_nd_shard_spec=0)")) == FORMS[shard]


@pytest.mark.parametrize(
    "text", ["", "x", "MemoryConfig()", "ttnn.MemoryConfig(1)", "MemoryConfig(memory_layout=TensorMemoryLayout::"]
)
def test_other_text_is_no_memory_config(text: str) -> None:
    with pytest.raises(InvalidCase):
        memory_in(text)


CORES = "ttnn.CoreRangeSet({{ttnn.CoreRange(ttnn.CoreCoord({}), ttnn.CoreCoord({}))}})"
MADE = {
    "ttnn.DRAM_MEMORY_CONFIG": "dram",
    "ttnn.L1_BLOCK_SHARDED_MEMORY_CONFIG": "l1:block",
    f"sharded('HEIGHT', 'L1', {CORES.format('0, 0', '7, 7')}, [64, 64], 'ROW_MAJOR')": "l1:height@8x8:64x64",
    f"sharded('BLOCK', 'L1', {CORES.format('1, 2', '4, 3')}, [32, 96], 'COL_MAJOR')": "l1:block@1,2-4,3:32x96:col_major",
    f"sharded('WIDTH', 'DRAM', {CORES.format('0, 0', '11, 0')}, [2048, 320], 'ROW_MAJOR')": "dram:width@12x1:2048x320",
    f"ttnn.MemoryConfig(ttnn.BufferType.L1, ttnn.NdShardSpec([1, 1, 64, 32], {CORES.format('0, 0', '3, 1')},"
    " ttnn.ShardOrientation.ROW_MAJOR))": "l1:nd@4x2:1x1x64x32",
}
CHOSEN = "ttnn.create_sharded_memory_config({}, ttnn.CoreGrid(y=2, x=4), ttnn.ShardStrategy.{}, {})"
SPEC = f"ttnn.ShardSpec({CORES.format('0, 0', '7, 7')}, (64, 64), ttnn.ShardOrientation.ROW_MAJOR)"
ND_SPEC = f"ttnn.NdShardSpec([1, 1, 64, 32], {CORES.format('0, 0', '3, 1')}, ttnn.ShardOrientation.COL_MAJOR)"
SPREAD = "shard_distribution_strategy=ttnn.ShardDistributionStrategy.GRID_2D"
GRID_SPEC = f"ttnn.NdShardSpec(ttnn.Shape([64, 32]), {CORES.format('0, 0', '3, 1')}, {SPREAD})"
# Python of a port whose every number is stated, so that TTNN makes and prints the same memory.
PASTED = {
    "ttnn.MemoryConfig(buffer_type=ttnn.BufferType.L1)": "l1",
    "ttnn.MemoryConfig(ttnn.TensorMemoryLayout.INTERLEAVED, ttnn.BufferType.DRAM)": "dram",
    f"ttnn.MemoryConfig(ttnn.TensorMemoryLayout.HEIGHT_SHARDED, ttnn.BufferType.L1, {SPEC})": "l1:height@8x8:64x64",
    f"ttnn.MemoryConfig(ttnn.BufferType.L1, {ND_SPEC})": "l1:nd@4x2:1x1x64x32:col_major",
    f"ttnn.MemoryConfig(ttnn.BufferType.L1, {GRID_SPEC})": "l1:nd@4x2:64x32:grid_2d",
    CHOSEN.format("(1, 1, 64, 32)", "WIDTH", "use_height_and_width_as_shard_shape=True"): "l1:width@4x2:64x32",
    CHOSEN.format("(96, 32)", "BLOCK", "ttnn.ShardOrientation.COL_MAJOR, True"): "l1:block@4x2:32x96:col_major",
}
UNSTATED = (
    "self.block_sharded(rows, channels)",
    "ttnn.MemoryConfig(layout, ttnn.BufferType.L1)",
    "ttnn.MemoryConfig(ttnn.TensorMemoryLayout.HEIGHT_SHARDED, ttnn.BufferType.L1, shard)",
    "ttnn.MemoryConfig(ttnn.TensorMemoryLayout.HEIGHT_SHARDED, ttnn.BufferType.L1,"
    f" ttnn.ShardSpec({CORES.format('0, 0', '7, 7')}, [64, 64], orientation))",
    CHOSEN.format("(1, 1, 64, 32)", "HEIGHT", "orientation"),
    CHOSEN.format("(rows, 32)", "HEIGHT", "use_height_and_width_as_shard_shape=True"),
)
PROGRAM = """
import json, sys, ttnn

def sharded(kind, buffer, cores, shape, orientation):
    spec = ttnn.ShardSpec(cores, shape, getattr(ttnn.ShardOrientation, orientation))
    layout = getattr(ttnn.TensorMemoryLayout, f"{kind}_SHARDED")
    return ttnn.MemoryConfig(layout, getattr(ttnn.BufferType, buffer), spec)

print(json.dumps([repr(eval(text)) for text in sys.argv[1:]]))
"""


@pytest.mark.virtual_device
def test_memory_configs_that_this_ttnn_prints() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM, *MADE], capture_output=True, text=True, check=True)
    printed = json.loads(done.stdout.splitlines()[-1])
    assert all(text.startswith("MemoryConfig(memory_layout=") for text in printed)
    assert [str(memory_in(text)) for text in printed] == list(MADE.values())


@pytest.mark.virtual_device
def test_memory_configs_of_a_port_are_what_ttnn_makes_of_them() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM, *PASTED], capture_output=True, text=True, check=True)
    made = [str(memory_in(text)) for text in json.loads(done.stdout.splitlines()[-1])]
    assert [str(memory_in(text)) for text in PASTED] == made == list(PASTED.values())


@pytest.mark.parametrize("text", UNSTATED)
def test_a_name_without_its_value_is_never_guessed(text: str) -> None:
    with pytest.raises(InvalidCase):
        memory_in(text)


def tensor(shape: str, dtype: str, memory: str) -> str:
    """A tensor as graphs of TTNN 0.81.1 have it."""
    page = "PageConfig(config=TilePageConfig(tile=Tile(tile_shape={32, 32},face_shape={16, 16},num_faces=4)))"
    layout = f"TensorLayout(dtype=DataType::{dtype},page_config={page},memory_config={memory},alignment=Alignment([32, 32]))"
    return f"Tensor(storage=DeviceStorage(),tensor_spec=TensorSpec(logical_shape=Shape([{shape}]),tensor_layout={layout}))"


IN_DRAM = "MemoryConfig(memory_layout=TensorMemoryLayout::INTERLEAVED,buffer_type=BufferType::DRAM,shard_spec=std::nullopt)"
IN_SHARDS = (
    "MemoryConfig(memory_layout=TensorMemoryLayout::HEIGHT_SHARDED,buffer_type=BufferType::L1,shard_spec=ShardSpec{grid="
    '[{"start":{"x":0,"y":0},"end":{"x":7,"y":7}], shape=[64, 64], orientation=ShardOrientation::ROW_MAJOR},'
    "nd_shard_spec=std::nullopt,created_with_nd_shard_spec=0)"
)
RESULT = "MemoryConfig(memory_layout=TensorMemoryLayout::HEIGHT_SHARDED,buffer_type=BufferType::L1,shard_spec=std::nullopt)"
TENSORS = f"{{{tensor('1, 1, 4096, 64', 'BFLOAT16', IN_SHARDS)}, {tensor('64, 256', 'BFLOAT8_B', IN_DRAM)}}}"
ERROR = """
RuntimeError: TT_THROW @ /src/program.cpp:908: tt::exception
info:
Statically allocated circular buffers in program 8 clash with L1 buffers on core range [0-0 - 7-7]. L1 buffer allocated at \
116480 and static circular buffer region ends at 137856
"""


def diagnosed(log: str) -> Any:
    (diagnosis,) = diagnose_failures(read_log(io.BytesIO(log.encode()), "log"))
    return diagnosis


@pytest.mark.parametrize(
    "head",
    [
        f'DEBUG | Op | MatmulDeviceOperation: MatmulParams(<variant>, 1, {RESULT}, DataType::BFLOAT8_B) {TENSORS}',
        f"DEBUG | Op | ttnn::prim::matmul(output_mem_config={RESULT}) on {TENSORS}",
    ],
)  # fmt: skip
def test_a_call_that_ttnn_printed_before_its_error(head: str) -> None:
    case = diagnosed(head + ERROR).case
    assert case is not None
    identity = case.identity()
    assert (identity["op"], identity["inputs"], identity["memory"]) == (
        "matmul",
        [[1, 1, 4096, 64], [64, 256]],
        "l1:height@8x8:64x64",
    )
    assert (identity["operands"], identity["output_memory"]) == ([None, {"dtype": "bfloat8_b", "memory": "dram"}], "l1:height")


def test_a_tensor_in_part_makes_no_call() -> None:
    cut = TENSORS.replace("DataType::BFLOAT8_B", "DataType::OF_THE_FUTURE")
    assert diagnosed(f"DEBUG | Op | ttnn::prim::matmul() on {cut}{ERROR}").case is None


@pytest.mark.parametrize(
    ("whole", "cut"),
    [
        ("ShardOrientation::ROW_MAJOR", "ShardOrientation::ROW_"),
        ('"end":{"x":7,"y":7}', '"end":{"x":7,"y"'),
        ('"start":{"x":0,"y":0}', '"start":{"x":o,"y":0}'),
        ("HEIGHT_SHARDED", "HEIG_SHARDED"),
    ],
)
def test_a_damaged_print_makes_no_call_and_no_crash(whole: str, cut: str) -> None:
    assert whole in TENSORS
    assert diagnosed(f"DEBUG | Op | ttnn::prim::matmul() on {TENSORS.replace(whole, cut)}{ERROR}").case is None
