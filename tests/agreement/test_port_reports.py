"""Reports whose calls have shards, several dtypes, configs, core grids or several chips: each is one command, with its value.

The values are those of the reports' messages, or of the same call in a plain TTNN program under ``exec``; so are those of the
other calls of each kind, which no report has.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from ssinghal.cli.diagnose import _case_of
from ssinghal.core.boards import load_board
from ssinghal.core.tensors import BufferType
from ssinghal.core.verdict import Status, Verdict
from ssinghal.device.modes import choose_device
from ssinghal.device.releases import find_release
from ssinghal.errors import HarnessError, InvalidCase
from ssinghal.estimation.estimator import estimate
from ssinghal.operators.binding import bind
from ssinghal.remedy.device_pools import DevicePools
from ssinghal.remedy.problem import Problem
from ssinghal.remedy.trial import LiveSet, Resident
from ssinghal.runner.pool_cache import PoolCache
from ssinghal.runner.tasks import PoolOptions

pytestmark = pytest.mark.virtual_device

FACTS = Path(__file__).parents[3] / "shared" / "reports2" / "expected.csv"
FITS: dict[str, Any] = {}
OLD, MIDDLE, NEW = "0.66.0", "0.75.0", "0.81.1"


class Row(NamedTuple):
    """A call in the words of ``probe``, and numbers of its verdict; none where it fits. ``live``: other bytes per L1 bank."""

    report: str
    call: str
    numbers: dict[str, Any]
    release: str = NEW
    board: str = "n150"
    live: int = 0


CONV = "--attr padding=1,1 --dtype float32 --layout row_major --memory l1 --l1-small 32768"
CONV_33447 = f"convolution 32,64,32,32 128,64,3,3{{}} --attr slices={{}} {CONV}"
CONV_5771 = "convolution 1,64,480,640 32,64,3,3 32 --attr padding=1,1 --layout row_major --l1-small 65536"
TURNED = "matmul 8192,11008 8192,4096 --attr transpose_a=true"
CAST = "_to_copy 1,4,1024,2048 --dtype uint16 --attr dtype=uint32"
PART = "--attr sub_core_grids=1,0-3,6+5,0-6,6"
WIDE = "silu 1,1,576,23040/l1:width@8x6"
DEPTHWISE = "conv1d 1,{1},{0} {1},1,12 --attr stride={2} --attr groups={1} --dtype float32 --layout row_major --l1-small 16384"
DEPTHWISE_SIZES = ((1641, 768, 1), (1611, 768, 2), (3241, 384, 1), (3211, 384, 2), (6441, 192, 1))
# the weights of 50 blocks of a transformer: their columns on two chips, or all on one
BLOCKS = " ".join(["3072,9216{0} 3072,3072{0} 3072,12288{0} 12288,3072{0}"] * 50)
PER_BANK_5169 = {"total_bytes": 150_994_944, "banks": 12, "bytes_per_bank": 12_582_912}
PER_BANK_5440 = {"total_bytes": 48_742_400, "banks": 100, "bytes_per_bank": 487_424}
GATHER = "all_gather 128,201088/shard=1 --attr dim=1 --dtype float32"
TO_DRAM_SHARDS = "to_memory_config 2048,2240 --output-memory dram:width@7:2048x320"
TO_EIGHT_BANKS = "to_memory_config 2048,2560 --output-memory dram:width@8:2048x320"
CLASH_54621 = {"tensor_address": 1_376_256, "program_bytes": 1_430_528}
DECODE = "paged_scaled_dot_product_attention_decode 1,1,{0},{2} 128,{1},64,{2} 128,{1},64,{2} 1,128 1"
EXPLICIT = (
    "--attr 'program_config=ttnn.SDPAProgramConfig(compute_with_storage_grid_size=(11, 10), q_chunk_size=0, k_chunk_size=0)'"
)
PER_BANK_8044 = {"total_bytes": 26_542_080, "banks": 48, "bytes_per_bank": 552_960}
PROGRAM_36426 = {"program_bytes": 1_721_472, "limit_bytes": 1_499_136, "cores": "0-0..7-7"}

ROWS = (
    Row("tt-metal#36426", f"{TURNED} --attr core_grid=8x8", PROGRAM_36426, OLD),
    Row("tt-metal#36426", f"{TURNED} --attr 'core_grid=ttnn.CoreGrid(y=8, x=8)'", PROGRAM_36426, OLD),
    Row("tt-metal#36426", TURNED, FITS, OLD),
    Row("tt-metal#36426", f"{TURNED} --attr core_grid=8x8", FITS, MIDDLE),
    Row("tt-metal#33447", CONV_33447.format("/bfloat16", "l1"), {"tensor_address": 916_480, "program_bytes": 939_200}, OLD),
    Row("tt-metal#33447", CONV_33447.format("/bfloat16", "auto"), {"tensor_address": 916_480, "program_bytes": 939_200}, OLD),
    Row("tt-metal#33447", CONV_33447.format("", "l1"), {"tensor_address": 916_480, "program_bytes": 988_352}, OLD),
    Row(
        "tt-mlir#5771",
        f"{CONV_5771} --attr slice_config=ttnn.Conv2dL1FullSliceConfig",
        {"total_bytes": 49_971_200, "banks": 64, "bytes_per_bank": 780_800},
        OLD,
    ),
    Row("tt-mlir#8044 (tt-xla#4394)", f"{WIDE} --l1-small 65536", PER_BANK_8044, OLD, live=827_392),
    Row("tt-metal#54621", TO_DRAM_SHARDS, CLASH_54621, MIDDLE, "p100", 196_608),
    Row("tt-metal#54621", TO_DRAM_SHARDS, FITS, NEW, "p100", 196_608),
    # on eight banks a shard of the same matrix is 288 wide, and one of 320 clashes too, also in the plain program
    Row("tt-metal#54621", "to_memory_config 2048,2240 --output-memory dram:width@8", FITS, MIDDLE, "p150", 196_608),
    Row("tt-metal#54621", TO_EIGHT_BANKS, CLASH_54621, MIDDLE, "p150", 196_608),
    Row("tt-mlir#9039 / tt-metal#44311", DECODE.format(8, 2, 512), {"program_bytes": 2_312_576}, OLD, "p150"),
    Row("tt-mlir#9039 / tt-metal#44311", f"{DECODE.format(8, 2, 512)} {EXPLICIT}", {"program_bytes": 1_593_728}, OLD, "p150"),
    Row("tt-mlir#9039 / tt-metal#44311", DECODE.format(32, 4, 512), {"program_bytes": 2_403_712}, OLD, "p150"),
    Row("tt-mlir#9039 / tt-metal#44311", DECODE.format(32, 8, 128), FITS, OLD, "p150"),
    Row("tt-mlir#9039 / tt-metal#44311", DECODE.format(8, 2, 512), FITS, NEW, "p150"),
    Row("tt-metal#41546", f"{CAST} {PART}", {"program_bytes": 3_249_280}, OLD),
    Row("tt-metal#41546", CAST, FITS, OLD),
    Row("tt-metal#41546", f"{CAST} {PART}", FITS),
    Row("tt-metal#42635", GATHER, FITS, board="t3k_1x8"),
    *(Row("tt-metal#46025", DEPTHWISE.format(*sizes), FITS, MIDDLE) for sizes in DEPTHWISE_SIZES),
    # 14 x 17 tiles of 2,048 B on each of 100 cores, as the report's figures have them
    Row("tt-xla#5440", "place 44800,544/l1:height@10x10:448x544", PER_BANK_5440, board="p150", live=1_001_472),
    Row("tt-xla#5169", f"place {BLOCKS.format('/shard=1')} --dtype float32", FITS, board="n300_1x2"),
    Row("tt-xla#5169", f"place {BLOCKS.format('')} --dtype float32", PER_BANK_5169),
    Row('tt-metal#21419 (#17911, #19910)', "place 8192,1024/bfloat8_b/dram:width@8:8192x128", FITS),
    Row('tt-metal#21419 (#17911, #19910)', "place 8192,1024/bfloat8_b/dram:width@8:8192x128", FITS, board="p150"),
)  # fmt: skip

OTHERS = (
    # the same programs of plain TTNN under exec: 3,249,280; fits; 2,544,768; 755,200 and 1,486,016
    Row("sub_core_grids", "_to_copy 1,2,2048,1024 --dtype uint16 --attr dtype=uint32 --attr sub_core_grids=4x4",
        {"program_bytes": 3_249_280, "cores": "0-0..3-3"}, OLD),
    Row("core_grid", "mm 4096,8192 4096,8192 --attr transpose_a=true --attr core_grid=6x7", FITS, OLD),
    Row(
        "program_config",
        "linear 2048,2048 8192,2048/bfloat8_b --output-dtype bfloat8_b --attr"
        " 'program_config=MatmulMultiCoreReuseMultiCastProgramConfig(compute_with_storage_grid_size=8-8, in0_block_w=16,"
        " out_subblock_h=1, out_subblock_w=4, per_core_M=8, per_core_N=32, transpose_mcast=0, fused_activation=std::nullopt)'",
        {"program_bytes": 2_544_768}, OLD,
    ),
    Row("dtypes", f"convolution 16,96,48,48 96,96,3,3/bfloat16 --attr slices=l1 {CONV}",
        {"tensor_address": 755_200, "program_bytes": 1_486_016}, OLD),
    # 1024 x 512 bfloat16 on each of 64 cores, for the operand and for the result
    Row("shards", "silu 1024,32768/l1:width@8x8", {"total_bytes": 2**26, "banks": 64, "bytes_per_bank": 2**20}),
    # 4 x 8 blocks of 128 x 512, and 8 x 8 of 1,024 x 1,024, which are 4 MiB each
    Row("shards", "place 512,4096/l1:block@8x4:128x512 --dtype float32", FITS),
    Row("shards", "place 8192,8192/l1:block@8x8 --dtype float32", {"total_bytes": 2**28, "banks": 64, "bytes_per_bank": 2**22}),
    Row("DRAM shards", "place 1024,1536/dram:width@12:1024x128", FITS),
    Row("collectives", "all_gather 64,4096/shard=0 --attr dim=0 --dtype bfloat8_b", FITS, board="n300_1x2"),
)  # fmt: skip


class ReleasePools(PoolCache[DevicePools]):
    def of(self, row: Row) -> DevicePools:
        try:
            release = find_release(row.release)
        except HarnessError as error:
            pytest.skip(str(error))
        choice = choose_device("virtual", row.board)
        options = PoolOptions.of(choice, workers=1, release=release)
        return self.pool((choice.board, row.release), lambda: DevicePools(choice, options, no_values="not asked"))


@pytest.fixture(scope="module")
def benches() -> Iterator[ReleasePools]:
    with ReleasePools() as pools:
        yield pools


@pytest.mark.parametrize("row", [*ROWS, *OTHERS], ids=lambda row: f"{row.report}-{row.call[:60]}-{row.release}-{row.board}")
def test_the_command_has_the_value_of_the_report(benches: ReleasePools, row: Row) -> None:
    pools = benches.of(row)
    problem = Problem.of(_case_of(row.call), Verdict(Status.FITS), pools.board)
    live: LiveSet = (Resident(BufferType.L1, row.live),) if row.live else ()
    verdict = pools.run(problem.trial(live=live)).verdict
    assert verdict.status is (Status.OOM if row.numbers else Status.FITS), verdict
    assert {name: getattr(verdict, name) for name in row.numbers} == row.numbers


@pytest.mark.parametrize(
    ("call", "board", "rule"),
    [
        ("place 8192,1024/bfloat8_b/dram:width@8:8192x128", "p100", "8 cores for shards; p100 has 7 for dram"),
        ("place 8192,1024/bfloat8_b/dram:width@7:8192x128", "p100", "8 shards, but there are 7"),
        ("place 8192,64/l1:height@8x8:64x64", "n150", "128 shards, but there are 64 cores"),  # tt-metal#17911
        ("place 1024,1536/dram:width@12:1024x128", "p150", "12 cores for shards; p150 has 8 for dram"),
    ],
)
def test_more_shards_than_banks_or_cores_are_refused_with_the_rule(call: str, board: str, rule: str) -> None:
    with pytest.raises(InvalidCase, match=rule):
        bind(_case_of(call), load_board(board)).specs()


def test_shards_of_tt_mlir_8044_by_arithmetic() -> None:
    """[576, 23040] over 48 cores: 18 x 15 tiles of 2,048 B on each."""
    for allocation in estimate(_case_of(WIDE), load_board("n150")).allocations:
        assert allocation.bytes_per_bank == 18 * 15 * 2_048 == 552_960
        assert allocation.allocated_bytes == 48 * 552_960


@pytest.mark.skipif(not FACTS.exists(), reason="the reports' facts are not here")
def test_every_report_of_these_kinds_is_in_the_table() -> None:
    with FACTS.open() as file:
        known = {row["report"] for row in csv.DictReader(file)}
    assert {row.report for row in ROWS} <= known
