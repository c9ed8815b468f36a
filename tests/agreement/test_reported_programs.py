"""Programs of public reports under `exec`: TTNN's own message with its figures, which `diagnose` reads back with its call."""

from __future__ import annotations

import io
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from ssinghal.core.verdict import Resource
from ssinghal.device.releases import find_release
from ssinghal.diagnose.log_reader import read_log
from ssinghal.diagnose.model import Failure, FailureKind
from ssinghal.errors import HarnessError
from tests.profile.measure import run_ssinghal

pytestmark = pytest.mark.virtual_device

OPEN = """\
import ttnn
device = ttnn.open_device(device_id=0{options})

def empty(shape, dtype=ttnn.bfloat16, layout=ttnn.TILE_LAYOUT, memory=ttnn.DRAM_MEMORY_CONFIG):
    return ttnn.empty(shape, dtype=dtype, layout=layout, device=device, memory_config=memory)

def row_of_cores(count):
    return ttnn.CoreRangeSet({{ttnn.CoreRange(ttnn.CoreCoord(0, 0), ttnn.CoreCoord(count - 1, 0))}})

"""

# tt-metal#36426: a product with stated cores, without which it fits
MATMUL = """\
grid = ttnn.CoreGrid(x=8, y=8)
ttnn.matmul(empty([8192, 11008]), empty([8192, 4096]), transpose_a=True, core_grid=grid)
"""

# tt-metal#33447: operands in float32, weights in bfloat16, all of the map in L1 at once
CONVOLUTION = """\
x = empty([1, 1, 32 * 32 * 32, 64], ttnn.float32, ttnn.ROW_MAJOR_LAYOUT, ttnn.L1_MEMORY_CONFIG)
weight = empty([128, 64, 3, 3], ttnn.float32, ttnn.ROW_MAJOR_LAYOUT)
ttnn.conv2d(input_tensor=x, weight_tensor=ttnn.from_device(weight), device=device, in_channels=64, out_channels=128,
            batch_size=32, input_height=32, input_width=32, kernel_size=(3, 3), stride=(1, 1), padding=(1, 1), dilation=(1, 1),
            groups=1, dtype=ttnn.float32, conv_config=ttnn.Conv2dConfig(weights_dtype=ttnn.bfloat16),
            slice_config=ttnn.Conv2dL1FullSliceConfig)
"""

# tt-metal#54621: into shards of DRAM, beside 10,560 tiles in L1, 96 of them in each of 110 banks
DRAM_SHARDS = """\
keep = empty([32, 32 * 10560], memory=ttnn.L1_MEMORY_CONFIG)
spec = ttnn.ShardSpec(row_of_cores(7), [2048, 320], ttnn.ShardOrientation.ROW_MAJOR)
shards = ttnn.MemoryConfig(ttnn.TensorMemoryLayout.WIDTH_SHARDED, ttnn.BufferType.DRAM, spec)
ttnn.to_memory_config(empty([2048, 7 * 320]), shards)
"""

# tt-metal#21419: eight shards for the DRAM banks of a board
EIGHT_SHARDS = """\
spec = ttnn.ShardSpec(row_of_cores(device.dram_grid_size().x), [8192, 128], ttnn.ShardOrientation.ROW_MAJOR)
shards = ttnn.MemoryConfig(ttnn.TensorMemoryLayout.WIDTH_SHARDED, ttnn.BufferType.DRAM, spec)
weight = empty([8192, 1024], ttnn.bfloat8_b, memory=shards)
"""

# tt-mlir#8044: 417,792 B of each bank stay where a larger buffer was below them
FRAGMENTED = """\
hole = empty([32 * 64, 32 * 254], memory=ttnn.L1_MEMORY_CONFIG)
keep = empty([32 * 64, 32 * 204], memory=ttnn.L1_MEMORY_CONFIG)
ttnn.deallocate(hole)
shape, grid = [1, 1, 576, 23040], ttnn.CoreGrid(x=8, y=6)
x = empty(shape, memory=ttnn.create_sharded_memory_config(shape, core_grid=grid, strategy=ttnn.ShardStrategy.WIDTH))
"""

# tt-mlir#9039: attention over pages with heads of 512
ATTENTION = """\
table, position = empty([1, 128], ttnn.int32, ttnn.ROW_MAJOR_LAYOUT), empty([1], ttnn.int32, ttnn.ROW_MAJOR_LAYOUT)
q, k, v = empty([1, 1, 8, 512]), empty([128, 2, 64, 512]), empty([128, 2, 64, 512])
ttnn.transformer.paged_scaled_dot_product_attention_decode(q, k, v, page_table_tensor=table, cur_pos_tensor=position)
"""

# tt-metal#41546: a conversion on a part of the cores, each of which takes all columns
PART_OF_THE_CORES = """\
left, right = ((1, 0), (3, 6)), ((5, 0), (6, 6))
cores = ttnn.CoreRangeSet({ttnn.CoreRange(ttnn.CoreCoord(*start), ttnn.CoreCoord(*end)) for start, end in (left, right)})
ttnn.typecast(empty([1, 4, 1024, 2048], ttnn.uint16), ttnn.uint32, sub_core_grids=cores)
"""


class Report(NamedTuple):
    """A program, where it fails, and how; ``numbers`` of TTNN's message."""

    program: str
    release: str
    resource: Resource
    function: str
    numbers: dict[str, int]
    board: str = "n150"
    l1_small_bytes: int = 0


REPORTS = {
    "tt-metal#36426": Report(
        MATMUL, "0.66.0", Resource.CIRCULAR_BUFFER, "matmul", {"program_bytes": 1_721_472, "limit_bytes": 1_499_136}
    ),
    # 937,856 in the report, by a build that reserved 1,344 B less
    "tt-metal#33447": Report(
        CONVOLUTION,
        "0.66.0",
        Resource.CLASH,
        "conv2d",
        {"tensor_address": 916_480, "program_bytes": 937_856 + 1_344},
        l1_small_bytes=32_768,
    ),
    # 1,430,656 in the report, by a build that reserved 128 B more; of 1,572,864 B the tensor takes 96 tiles
    "tt-metal#54621": Report(
        DRAM_SHARDS,
        "0.75.0",
        Resource.CLASH,
        "to_memory_config",
        {"tensor_address": 1_572_864 - 96 * 2_048, "program_bytes": 1_430_656 - 128},
        "p100",
    ),
    "tt-mlir#8044": Report(
        FRAGMENTED,
        "0.66.0",
        Resource.FRAGMENTATION,
        "empty",
        {"total_bytes": 48 * 270 * 2_048, "banks": 48, "bytes_per_bank": 270 * 2_048, "allocated_bytes": 204 * 2_048},
        l1_small_bytes=65_536,
    ),
    # 2,318,272 in the report, of another build
    "tt-mlir#9039": Report(
        ATTENTION,
        "0.66.0",
        Resource.CIRCULAR_BUFFER,
        "transformer.paged_scaled_dot_product_attention_decode",
        {"program_bytes": 2_312_576, "limit_bytes": 1_572_864},
        "p150",
    ),
    "tt-metal#41546": Report(
        PART_OF_THE_CORES,
        "0.66.0",
        Resource.CIRCULAR_BUFFER,
        "typecast",
        {"program_bytes": 3_249_280, "limit_bytes": 1_499_136},
    ),
}


def run(folder: Path, program: str, release: str, board: str, l1_small_bytes: int = 0) -> tuple[int, tuple[Failure, ...]]:
    """Returns the exit code of the program, and the failures in what it wrote to standard error."""
    try:
        version = find_release(release).version
    except HarnessError as error:
        pytest.skip(str(error))
    options = f", l1_small_size={l1_small_bytes}" if l1_small_bytes else ""
    (folder / "program.py").write_text(OPEN.format(options=options) + program)
    done = run_ssinghal(folder, "exec", "--ttnn", version, "--board", board, "--", sys.executable, "program.py")
    return done.returncode, read_log(io.BytesIO(done.stderr.encode()), "exec").failures


@pytest.mark.parametrize("report", REPORTS.values(), ids=REPORTS)
def test_failure_of_a_program(tmp_path: Path, report: Report) -> None:
    code, failures = run(tmp_path, report.program, report.release, report.board, report.l1_small_bytes)
    (failure,) = failures
    assert (code, failure.kind, failure.verdict.resource) == (1, FailureKind.MEMORY, report.resource)
    assert {name: getattr(failure.verdict, name) for name in report.numbers} == report.numbers
    assert failure.functions[0] == report.function
    assert failure.call is not None
    assert f"ttnn.{report.function}(" in failure.call.source


@pytest.mark.parametrize("ref", ["tt-metal#36426", "tt-metal#54621"])
def test_a_later_release_runs_it(tmp_path: Path, ref: str) -> None:
    report = REPORTS[ref]
    assert run(tmp_path, report.program, "0.81.1", report.board) == (0, ())


def test_shards_of_a_board_with_seven_banks(tmp_path: Path) -> None:
    code, (failure,) = run(tmp_path, EIGHT_SHARDS, "0.81.1", "p100")
    assert (code, failure.kind) == (1, FailureKind.REFUSED)
    assert "8" in failure.verdict.message
    assert "7" in failure.verdict.message
    assert run(tmp_path, EIGHT_SHARDS, "0.81.1", "p150") == (0, ())
