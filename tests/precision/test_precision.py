"""Precision planning: bytes worked out by hand, and TTNN's host packing against the rule of block floats, bit by bit."""

from __future__ import annotations

import json
import math
import pickle
import struct
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

import pytest

from ssinghal.catalog.loader import load_catalog
from ssinghal.core.boards import load_board
from ssinghal.core.case import Placement
from ssinghal.core.estimate import Prediction
from ssinghal.core.memory_config import MemoryRequest
from ssinghal.core.sharding import memory_request
from ssinghal.core.tensors import BufferType, DType, Layout, TensorSpec
from ssinghal.core.verdict import Status
from ssinghal.device.modes import choose_device
from ssinghal.errors import InvalidCase
from ssinghal.operators import make_case
from ssinghal.operators.case_json import case_from_json
from ssinghal.precision.footprint import PLAN_DTYPES, Role, plan_bytes, plan_call
from ssinghal.precision.model_footprint import plan_model
from ssinghal.precision.sample_data import PLAN_SAMPLES
from ssinghal.precision.storage_error import MeasuredLoss, StorageTask, storage_loss
from ssinghal.precision.text import NUMERICS, plan_json, plan_lines, storage_lines
from ssinghal.runner.pool import Pool
from ssinghal.runner.tasks import PoolOptions, Task

torch = pytest.importorskip("torch")
virtual = pytest.mark.virtual_device

N150 = load_board("n150")
BF16, BF8, BF4 = PLAN_DTYPES
TILE_BYTES = {BF16: 32 * 32 * 2, BF8: 32 * 32 + 64, BF4: 32 * 32 // 2 + 64}  # one exponent byte for each 16 of 1,024 values
DOCS = Path(__file__).parents[2] / "docs" / "precision.md"


# Bytes of tensors and calls ----------------------------------------------------------------------------------------------


def test_bytes_of_tensors_in_each_dtype():
    """A weight of 3 x 5 tiles and an activation of 2 x 1 (33 rows take two), both in DRAM; a tile is a multiple of 32 B."""
    weight, activation = TensorSpec((96, 160)), TensorSpec((33, 32))
    sizes = plan_bytes([(weight, True), (activation, False)], N150)
    for dtype, tile_bytes in TILE_BYTES.items():
        assert sizes[dtype].weight_bytes == 15 * tile_bytes
        assert sizes[dtype].activation_bytes == 2 * tile_bytes
        assert sizes[dtype].total_bytes == 17 * tile_bytes
    assert sizes[BF16].activation_logical_bytes == 33 * 32 * 2


def test_only_floats_in_tiles_change():
    """Block floats do not exist in row-major; float32 becomes the plan's dtype; indices stay."""
    rows = TensorSpec((10, 64), DType.FLOAT32, Layout.ROW_MAJOR)
    indices = TensorSpec((32, 32), DType.UINT32)
    sizes = plan_bytes([(rows, False), (indices, False)], N150)
    assert {planned.total_bytes for planned in sizes.values()} == {10 * 64 * 2 + 32 * 32 * 4}


def test_a_call_in_each_dtype():
    """[4,12,8160,8160] are 48 x 255 x 255 = 3,121,200 tiles, 260,100 in each of 12 banks. ttnn.softmax takes no bfloat4_b."""
    plan = plan_call(make_case("softmax", ((4, 12, 8160, 8160),), {"dim": -1}), N150)
    for dtype in (BF16, BF8):
        planned = plan.plans[dtype]
        assert planned.dtype is dtype
        assert not planned.unsaved
        assert [t.allocation.bytes_per_bank for t in planned.tensors] == [260_100 * TILE_BYTES[dtype]] * 2
        assert planned.allocated_bytes == 2 * 3_121_200 * TILE_BYTES[dtype]
    kept = plan.plans[BF4]
    assert (kept.wanted, kept.dtype) == (BF4, BF16)
    assert kept.kept == "ttnn.softmax takes floating-point dtypes but bfloat4_b"
    assert kept.allocated_bytes == plan.plans[BF16].allocated_bytes
    assert f"stays bfloat16: {kept.kept}" in "\n".join(plan_lines(plan))


@pytest.mark.parametrize(
    ("name", "shapes", "attrs", "reason"),
    [
        ("convolution", ((1, 32, 8, 8, 8), (32, 32, 3, 3, 3)), {}, "takes row_major volumes"),
        ("native_batch_norm", ((1, 64, 8, 8), *((64,),) * 4), {"eps": 1e-5}, "takes bfloat16 and float32 only"),
        ("max_pool2d", ((1, 64, 56, 56),), {"kernel_size": 3}, "TTNN takes it, but gives bfloat16"),
        ("embedding", ((1000, 64), (1, 32)), {}, "not all in tiles"),
    ],
)
def test_rejected_dtypes_have_a_reason_and_no_savings(name, shapes, attrs, reason):
    plan = plan_call(make_case(name, shapes, attrs), N150)
    for dtype in (BF8, BF4):
        planned, base = plan.plans[dtype], plan.plans[BF16]
        assert reason in planned.unsaved
        results = [[t.allocation.allocated_bytes for t in p.tensors if t.role is Role.RESULT] for p in (planned, base)]
        assert results[0] == results[1]


@pytest.mark.parametrize(
    ("groups", "weight"),
    [(1, (64, 64, 3, 3)), (4, (64, 16, 3, 3)), (64, (64, 1, 3, 3))],
    ids=["dense", "grouped", "depthwise"],
)
def test_weights_of_convolutions_are_those_that_ttnn_prepares(groups, weight):
    """9 positions x 64 channels of all groups are 18 x 2 tiles for 64 outputs, and a bias of 2. The map of 56 x 56 in flat
    tiles is 98 x 2; TTNN convolves few maps to bfloat4_b, so it stays bfloat8_b there, with weights in bfloat4_b."""
    case = make_case("conv2d", ((1, 64, 56, 56), weight, (64,)), {"padding": 1, "groups": groups})
    plan = plan_call(case, N150, [False, True, True])
    for dtype, map_dtype in ((BF16, BF16), (BF8, BF8), (BF4, BF8)):
        sizes = plan.plans[dtype].footprint(N150)
        assert (sizes.weight_bytes, sizes.activation_bytes) == (38 * TILE_BYTES[dtype], 196 * TILE_BYTES[map_dtype])
    assert (plan.plans[BF8].unsaved, "small maps" in plan.plans[BF4].unsaved) == ("", True)


def test_the_reason_belongs_to_the_dtype():
    """A batch norm of volumes is rejected in bfloat16 too, for another reason."""
    plan = plan_call(make_case("native_batch_norm", ((1, 64, 2, 7, 7), *((64,),) * 4), {"eps": 1e-5}), N150)
    assert plan.plans[BF16].kept == "ttnn.batch_norm takes rank 4 only"
    assert plan.plans[BF8].kept == "ttnn.batch_norm takes bfloat16 and float32 only"
    assert plan.plans[BF8].case == plan.case


def test_calls_on_whole_numbers_keep_their_dtype():
    plan = plan_call(make_case("add", ((32, 32), (32, 32)), {}, Placement(dtype=DType.INT32)), N150)
    assert {planned.dtype for planned in plan.plans.values()} == {DType.INT32}
    assert "whole numbers" in plan.plans[BF16].kept


def test_a_row_major_call_is_planned_in_tiles_for_block_floats():
    """Ten rows of 20 values: 20 rows of 64 B stored (40 B aligned to 32); or one tile."""
    plan = plan_call(make_case("relu", ((10, 20),), {}, Placement(layout=Layout.ROW_MAJOR)), N150)
    assert [planned.allocated_bytes for planned in plan.plans.values()] == [
        2 * 10 * 64,
        2 * TILE_BYTES[BF8],
        2 * TILE_BYTES[BF4],
    ]


def test_a_view_takes_no_memory():
    plan = plan_call(make_case("view", ((4, 32, 64),), {"size": [1, 4, 32, 64]}), N150)
    assert [t.role for t in plan.plans[BF8].tensors] == [Role.OPERAND, Role.VIEW]
    assert plan.plans[BF8].allocated_bytes == 8 * TILE_BYTES[BF8]
    assert plan.plans[BF8].footprint(N150).total_bytes == 0


def test_weights_and_results_are_what_a_call_adds():
    """A layer of 64 to 96 features over 32 rows, twice: [64,96] and a bias row of 3 tiles as weights, [32,96] as result."""
    case = make_case("linear", ((32, 64), (96, 64), (96,)))
    planned = plan_call(case, N150, [False, True, True]).plans[BF8].footprint(N150, calls=2)
    assert (planned.weight_bytes, planned.activation_bytes) == (2 * 9 * TILE_BYTES[BF8], 2 * 3 * TILE_BYTES[BF8])


def test_an_invalid_call_is_rejected():
    with pytest.raises(InvalidCase, match="do not broadcast"):
        plan_call(make_case("add", ((3, 32), (2, 32))), N150)


def relu_of(tiles_per_bank: int):
    """In L1, over 64 banks."""
    return make_case("relu", ((tiles_per_bank * 64, 32, 32),), {}, Placement(memory=BufferType.L1))


def test_dtypes_that_make_a_call_fit():
    """400 tiles in each bank, twice: 1,638,400 B in bfloat16, more than a bank; 870,400 and 460,800 B in block floats.
    1,000 tiles: 4,096,000, 2,176,000 and 1,152,000 B. 2,000: none."""
    bank = N150.l1.bank_bytes
    assert 800 * TILE_BYTES[BF8] < bank < 800 * TILE_BYTES[BF16]
    assert 2000 * TILE_BYTES[BF4] < bank < 2000 * TILE_BYTES[BF8]
    plans = {tiles: plan_call(relu_of(tiles), N150) for tiles in (100, 400, 1000, 2000)}
    assert {tiles: [p.wanted for p in plan.fixed_by] for tiles, plan in plans.items()} == {
        100: [],
        400: [BF8, BF4],
        1000: [BF4],
        2000: [],
    }
    assert [plan.exceeds for plan in plans.values()] == [False, True, True, True]
    assert [plan.always_exceeds for plan in plans.values()] == [False, False, False, True]
    assert plan_lines(plans[400])[-1] == "made to fit by bfloat8_b or bfloat4_b"
    assert plan_lines(plans[2000])[-1] == "no dtype makes it fit"
    assert plan_json(plans[1000])["made_to_fit_by"] == ["bfloat4_b"]


# Models ------------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def resnet():
    return plan_model(load_catalog("torchvision-resnet50-224x224"), N150)


def test_the_weights_are_the_models(resnet):
    """Its parameters, and mean and variance of 53 batch norms over 26,560 channels in all."""
    assert resnet.params == 25_557_032
    assert resnet.footprint(BF16).batch_norm_bytes == 4 * 26_560 * TILE_BYTES[BF16]  # each channel in a separate tile
    assert resnet.weight_values == resnet.params + 2 * 26_560


def test_an_operators_bytes(resnet):
    """The classifier: 2048 x 1000 is 64 x 32 tiles, its bias 32 and its result 32; ttnn.addmm takes no bfloat4_b."""
    (addmm,) = [o for o in resnet.operators if o.operator == "addmm"]
    for dtype, tile in ((BF16, TILE_BYTES[BF16]), (BF8, TILE_BYTES[BF8]), (BF4, TILE_BYTES[BF16])):
        planned = addmm.footprints[dtype]
        assert (planned.weight_bytes, planned.activation_bytes) == ((64 * 32 + 32) * tile, 32 * tile)
    assert addmm.saved_bytes(BF8) == (64 * 32 + 64) * (TILE_BYTES[BF16] - TILE_BYTES[BF8])
    assert addmm.saved_bytes(BF4) == 0
    assert dict(addmm.unsaved(BF4)) == {"ttnn.addmm does not take bfloat4_b": 1}


def test_sums_and_order(resnet):
    """Every call is counted once; operators are ordered by what bfloat8_b saves; nothing grows."""
    assert sum(o.calls for o in resnet.operators) == load_catalog(resnet.catalog).head.counts.calls
    for dtype in PLAN_DTYPES:
        assert resnet.footprint(dtype).total_bytes == sum(o.footprints[dtype].total_bytes for o in resnet.operators)
        assert all(o.saved_bytes(dtype) >= 0 for o in resnet.operators)
    saved = [o.saved_bytes(BF8) for o in resnet.operators]
    assert saved == sorted(saved, reverse=True)
    lines = plan_lines(resnet)
    assert any("native_batch_norm, 12 of 12 cases: ttnn.batch_norm takes bfloat16 and float32 only" in x for x in lines)
    answer = json.loads(json.dumps(plan_json(resnet)))
    assert answer["plans"]["bfloat8_b"]["total_bytes"] == resnet.footprint(BF8).total_bytes


OWN = """
schema: 1
kind: captured
model: {name: mine, package: mine==1, config: "mine.py:Net", params: 12544, fused: false}
input: {shapes: [[32, 64]], dtype: bfloat16}
capture: {torch: 2.14.1, level: aten, device: meta, guessed: 0}
counts: {calls: 8, cases: 5, left_out: {}}
placement: {dtype: bfloat16, layout: tile, memory: dram, output_memory: same}
ops:
  aten.index.Tensor:
  - {n: 1, in: {self: [100, 64], indices: [[32]]}, w: [self], dtypes: {indices: int64}, out: [32, 64], at: table}
  aten.linear.default:
  - {n: 3, in: {input: [32, 64], weight: [96, 64]}, w: [weight], out: [32, 96], at: fc}
  aten.expand_as.default:
  - {n: 1, in: {self: [1, 96], other: [32, 96]}, w: [other], out: [32, 96], at: fc}
  aten.relu.default:
  - {n: 2, in: {self: [32, 96]}, out: [32, 96], at: act}
  aten.nonzero.default:
  - {n: 1, in: {self: [32, 96]}, out: [10, 2], at: pick}
"""


def test_a_users_catalog(tmp_path):
    """Weights stay weights where the call is run as another one. The table's 100 rows of 128 B stay bfloat16, as do the rows
    looked up, 2 tiles. A layer has 2 x 3 tiles and gives 3, thrice; expand gives 3, relu 3, twice. One call has no shape."""
    (tmp_path / "mine.yaml").write_text(OWN)
    plan = plan_model(load_catalog(str(tmp_path / "mine.yaml")), N150)
    for dtype, tile in TILE_BYTES.items():
        planned = plan.footprint(dtype)
        assert planned.weight_bytes == 100 * 128 + 3 * 6 * tile
        assert planned.activation_bytes == 2 * TILE_BYTES[BF16] + (3 * 3 + 3 + 2 * 3) * tile
    assert plan.weight_values == 100 * 64 + 3 * 96 * 64
    assert sum(plan.unmapped.values()) == 1
    assert "not counted, calls without a case: 1" in plan_lines(plan)


def test_cases_that_a_dtype_makes_fit():
    """Mochi's [1,128,24,1,240,2,424,2]: 424 x 2 pads to 14 x 1 tiles, 1,474,560 times, 1,720,320 in each bank of n150: 3.5 GB,
    1.9 GB, and in bfloat4_b 990,904,320 of 1,072,693,184 B."""
    plan = plan_model(load_catalog("diffusers-mochi-decoder-4x60x106-torch"), N150)
    assert 1_720_320 * TILE_BYTES[BF4] < N150.dram.bank_bytes < 1_720_320 * TILE_BYTES[BF8]
    (view,) = [
        x for x in plan.failing if x.plan.case.inputs == ((1, 128, 24, 1, 240, 2, 424, 2),) and x.plan.case.operator == "view"
    ]
    assert [planned.tensors[0].allocation.bytes_per_bank for planned in view.plan.plans.values()] == [
        1_720_320 * tile for tile in TILE_BYTES.values()
    ]
    assert [planned.wanted for planned in view.plan.fixed_by] == [BF4]
    assert [plan.exceeding(dtype) for dtype in PLAN_DTYPES] == [6, 4, 1]
    assert plan.always_exceeds  # the copy of that view: twice as much
    assert any("no dtype makes it fit" in line for line in plan_lines(plan))


def test_float32_of_a_model_is_bfloat16_in_the_plan():
    plan = plan_model(load_catalog("torchvision-vit_b_16-224x224"), N150)
    assert plan.given.activation_bytes > plan.footprint(BF16).activation_bytes
    assert plan.given.weight_bytes == plan.footprint(BF16).weight_bytes
    assert any(line.startswith("as captured, with its float32: ") for line in plan_lines(plan))


def test_memory_of_a_models_calls():
    """A map of 2176x3840 fits in DRAM and exceeds L1."""
    catalog = load_catalog("torchvision-resnet50-2176x3840")
    assert plan_model(catalog, N150).exceeding(BF16) == 0
    in_l1 = plan_model(catalog, N150, MemoryRequest(BufferType.L1))
    assert in_l1.exceeding(BF16) > in_l1.exceeding(BF8) > in_l1.exceeding(BF4) > 0


def test_a_catalog_without_weights_is_rejected():
    with pytest.raises(InvalidCase, match="mochi is a crossed catalog; expected a captured one"):
        plan_model(load_catalog("crossed/mochi"), N150)


# TTNN's host packing -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class RoundTrip(Task[list[list[float]]]):
    """Rows of values, packed and unpacked on the host."""

    rows: tuple[tuple[float, ...], ...]
    dtype: DType

    def run(self, session, options):
        torch, ttnn = import_module("torch"), session.ttnn
        packed = ttnn.from_torch(torch.tensor(self.rows), dtype=getattr(ttnn, self.dtype.value), layout=ttnn.TILE_LAYOUT)
        return ttnn.to_torch(packed).tolist()

    def lost(self, verdict, facts):
        raise AssertionError(verdict.message)


@pytest.fixture(scope="module")
def pool():
    with Pool(choose_device("virtual", "n150"), PoolOptions(torch=True)) as opened:
        yield opened


def stored(pool: Pool, dtype: DType, *rows: list[float]) -> list[list[float]]:
    return pool.run(RoundTrip(tuple(map(tuple, rows)), dtype)).result()


def by_hand(block: list[float], dtype: DType) -> list[float]:
    """16 float32 values that share the exponent of the largest: a sign, and a magnitude of 7 bits or of 3 counted from there.

    A float32 has 24 bits; the low ones are lost when it is shifted to the shared exponent. The rest is rounded, half to even,
    and a magnitude that is too large becomes the largest possible.
    """
    bits = {BF8: 7, BF4: 3}[dtype]
    shared = max(math.frexp(value)[1] for value in block if value)
    values = []
    for value in block:
        fraction, exponent = math.frexp(abs(value))
        aligned = int(fraction * 2**24) >> (shared - exponent)
        magnitude = min(round(aligned / 2 ** (24 - bits)), 2**bits - 1)
        values.append(math.copysign(magnitude * 2.0 ** (shared - bits), value) if magnitude else 0.0)
    return values


# Beside 1.0: the value, and what it comes back as. bfloat8_b counts in 64ths (7 bits: 1.0 is 64), bfloat4_b in quarters.
BESIDE_ONE = [
    (BF8, 2**-6, 2**-6),
    (BF8, 2**-7, 0.0),  # half of a 64th: to even
    (BF8, 2**-10, 0.0),
    (BF8, 0.51 / 64, 1 / 64),
    (BF8, 1.5 / 64, 2 / 64),
    (BF8, 2.5 / 64, 2 / 64),
    (BF8, 2.51 / 64, 3 / 64),
    (BF8, -0.3, -19 / 64),
    (BF8, 127.9 / 64, 127 / 64),  # 128 has eight bits
    (BF4, 2**-2, 2**-2),
    (BF4, 2**-3, 0.0),
    (BF4, 0.126, 0.25),
    (BF4, 0.375, 0.5),
    (BF4, 0.625, 0.5),
    (BF4, -0.63, -0.75),
    (BF4, 1.9, 1.75),
]


@virtual
@pytest.mark.parametrize("dtype", [BF8, BF4])
def test_values_next_to_one(pool, dtype):
    table = [(value, back) for of, value, back in BESIDE_ONE if of is dtype]
    rows = stored(pool, dtype, *([1.0, value] + [0.0] * 14 for value, _ in table))
    assert [row[:2] for row in rows] == [[1.0, back] for _, back in table]
    assert [by_hand([1.0, value], dtype) for value, _ in table] == [[1.0, back] for _, back in table]


@virtual
@pytest.mark.parametrize("dtype", [BF8, BF4])
@pytest.mark.parametrize("spread", [0.0, 3.0])
def test_packing_is_the_rule_bit_by_bit(pool, dtype, spread):
    """4,096 values of equal and of very different scale, in 256 blocks."""
    generator = torch.Generator().manual_seed(7)
    values = torch.randn(64, 64, generator=generator) * (spread * torch.randn(64, 64, generator=generator)).exp()
    expected = [[x for i in range(0, 64, 16) for x in by_hand(row[i : i + 16], dtype)] for row in values.tolist()]
    assert stored(pool, dtype, *values.tolist()) == expected


@virtual
def test_sixteen_neighbours_of_a_row_share_an_exponent(pool):
    """2^-10 becomes zero in the first 16 of the row, which contain 1.0; it stays in the next 16, and in the row below."""
    small = 2**-10
    above, below = stored(pool, BF8, [1.0, *[small] * 31], [small] * 32)
    assert above == [1.0, *[0.0] * 15, *[small] * 16]
    assert below == [small] * 32


@virtual
def test_an_infinity_destroys_its_neighbours(pool):
    (row,) = stored(pool, BF8, [1.0, math.inf, *[1.0] * 30])
    assert row == [0.0, math.inf, *[0.0] * 14, *[1.0] * 16]


@virtual
def test_ttnn_and_arithmetic_have_the_same_verdicts(pool):
    """On TTNN's allocator: the call that bfloat8_b makes fit, and one that no dtype does."""
    for tiles, expected in ((400, [Status.OOM, Status.FITS, Status.FITS]), (2000, [Status.OOM] * 3)):
        plans = plan_call(relu_of(tiles), N150).plans
        assert [pool.submit(planned.case).result().status for planned in plans.values()] == expected
        fits = [planned.estimate.verdict is not Prediction.EXCEEDS for planned in plans.values()]
        assert fits == [status is Status.FITS for status in expected]


@virtual
@pytest.mark.parametrize("dtype", [BF8, BF4])
def test_results_that_stay_bfloat16(pool, dtype):
    """TTNN's pools take block floats and return bfloat16; a sum keeps the dtype."""
    pool2d, add = make_case("max_pool2d", ((1, 64, 32, 32),), {"kernel_size": 2}), make_case("add", ((64, 64), (64, 64)))
    for case, given in ((pool2d, BF16), (add, dtype)):
        planned = plan_call(case, N150).plans[dtype]
        assert planned.dtype is dtype
        record = pool.submit(planned.case).result()
        assert record.status is Status.FITS
        (output,) = [t for t in record.tensors if t.label == "output"]
        assert output.dtype == planned.tensors[-1].allocation.spec.dtype == given


# Figures of losses -------------------------------------------------------------------------------------------------------


def loss_of(given: list[float], back: list[float]):
    return storage_loss(
        torch, "some", BF8, torch.tensor([given], dtype=torch.float64), torch.tensor([back], dtype=torch.float64)
    )


def test_loss_of_eight_values():
    """Of eight values two are zero. Of the other six one became zero (relative error 1), and 4 became 5 (a quarter)."""
    loss = loss_of([0, 0, 1, 2, 3, 4, 8, 1e-9], [0, 0, 1, 2, 3, 5, 8, 0])
    assert loss.flushed == 1 / 6
    assert loss.median_relative == 0  # the third of 0 0 0 0 0.25 1
    assert loss.p95_relative == 1
    assert (loss.largest_error, loss.largest_value) == (1, 8)
    a, b = [0, 0, 1, 2, 3, 4, 8, 1e-9], [0, 0, 1, 2, 3, 5, 8, 0]
    mean_a, mean_b = sum(a) / 8, sum(b) / 8
    covered = sum((x - mean_a) * (y - mean_b) for x, y in zip(a, b, strict=True))
    spread = math.sqrt(sum((x - mean_a) ** 2 for x in a) * sum((y - mean_b) ** 2 for y in b))
    assert loss.pcc == pytest.approx(covered / spread, rel=1e-12)
    assert loss.ruin_hidden == (loss.pcc > 0.99)


def test_losses_that_the_correlation_hides():
    """One large value is kept, a hundred small ones become zero."""
    loss = loss_of([1000.0, *[1.0, 2.0] * 50], [1000.0, *[0.0] * 100])
    assert loss.pcc > 0.9999
    assert loss.flushed == 100 / 101
    assert loss.ruin_hidden


def test_losses_of_constants_and_zeros():
    constant = loss_of([2.0, 2.0], [2.0, 2.0])
    assert (constant.pcc, constant.median_relative, constant.flushed) == (None, 0.0, 0.0)
    zeros = loss_of([0.0, 0.0], [0.0, 0.0])
    assert (zeros.pcc, zeros.median_relative, zeros.p95_relative, zeros.flushed) == (None, None, None, 0.0)
    all_gone = loss_of([1e-3, 2e-3], [0.0, 0.0])
    assert (all_gone.pcc, all_gone.flushed, all_gone.ruin_hidden) == (None, 1.0, False)
    assert "100.00%" in "\n".join(storage_lines(MeasuredLoss("0", (all_gone,))))
    nothing = loss_of([math.nan], [math.nan])
    assert (nothing.not_finite, nothing.pcc, nothing.largest_error) == (1, None, 0.0)


def test_values_that_are_not_finite_are_counted_separately():
    loss = loss_of([math.inf, math.nan, 1.0, 2.0, 3e38], [math.inf, math.nan, 1.0, 2.0, math.inf])
    assert (loss.not_finite, loss.overflowed, loss.largest_error, loss.largest_value) == (2, 1, 0, 2)
    text = "\n".join(storage_lines(MeasuredLoss("0", (loss,))))
    assert "1 values came back infinite" in text


@pytest.fixture(scope="module")
def measured(pool):
    return pool.run(StorageTask()).result()


@virtual
def test_samples(measured):
    """Seven kinds of values in three dtypes, compared with numbers that another program measured (normal values) and with the
    rule: bfloat16 makes no value zero and has an error of at most 2^-8 (8 bits, half to even)."""
    assert not measured.fault
    by = {(loss.data, loss.dtype): loss for loss in measured.losses}
    assert list(by) == [(name, dtype) for name in PLAN_SAMPLES for dtype in PLAN_DTYPES]
    for name in PLAN_SAMPLES:
        assert by[name, BF16].flushed == 0
        assert by[name, BF16].p95_relative <= 2**-8
        assert by[name, BF16].pcc > by[name, BF8].pcc > by[name, BF4].pcc
        assert by[name, BF8].flushed < by[name, BF4].flushed
    normal = by["normal", BF8]
    assert normal.pcc == pytest.approx(0.99997, abs=1e-5)
    assert normal.flushed == pytest.approx(0.009, abs=0.001)
    assert by["normal", BF4].pcc == pytest.approx(0.9932, abs=1e-4)
    assert by["normal", BF4].flushed == pytest.approx(0.15, abs=0.003)


@virtual
def test_pcc_alone_hides_large_losses(measured):
    by = {(loss.data, loss.dtype): loss for loss in measured.losses}
    peaked = by["softmax, scores of deviation 3", BF8]
    assert peaked.pcc > 0.9999
    assert peaked.flushed > 0.45
    assert peaked.median_relative > 0.5
    assert peaked.ruin_hidden
    assert by["one in 1,000 is 100 times larger", BF8].ruin_hidden
    assert not by["normal", BF8].ruin_hidden
    text = "\n".join(storage_lines(measured))
    assert text.endswith(NUMERICS)
    assert "numerics not run" in text


@virtual
def test_the_order_in_which_a_weight_is_stored_matters(measured):
    """Adjacent channels of different scale share exponents; in torch's order each row has one scale."""
    by = {(loss.data, loss.dtype): loss for loss in measured.losses}
    as_stored, as_in_torch = by["linear weight as stored, [in, out]", BF8], by["the same in torch's order, [out, in]", BF8]
    assert as_stored.flushed > 4 * as_in_torch.flushed
    assert as_in_torch.flushed == pytest.approx(by["normal", BF8].flushed, abs=0.002)


@virtual
def test_samples_are_the_same_in_every_run(pool, measured):
    assert pool.run(StorageTask()).result() == measured


@virtual
def test_the_table_in_the_docs(measured):
    """It is what the command prints, line by line."""
    text = DOCS.read_text()
    assert "ssinghal precision\n" in text
    assert "\n".join(storage_lines(measured)) in text


# The user's own values ---------------------------------------------------------------------------------------------------


def losses_of(pool: Pool, path: Path, *, as_weights: bool = False) -> MeasuredLoss:
    return pool.run(StorageTask(path, as_weights)).result()


@virtual
def test_values_that_are_repeated_are_not_made(pool, tmp_path):
    """A file of a thousand bytes can hold a tensor of 10^12 values that are one: 10^12 x 4 B do not fit the host's memory."""
    torch = import_module("torch")
    torch.save({"a": torch.zeros(1).expand(10**12), "b": torch.ones(2, 32)}, tmp_path / "a.pt")
    losses = losses_of(pool, tmp_path / "a.pt")
    assert losses.skipped == ("a: 1,000,000,000,000 values of which 4 B are stored, repeated",)
    assert {loss.data for loss in losses.losses} == {"b"}


def write_safetensors(path: Path, **tensors) -> None:
    import_module("safetensors.torch").save_file(tensors, path)


@virtual
def test_files(pool, tmp_path):
    """The same weight in each kind of file; every other output channel is 10,000 times smaller."""
    weight = torch.randn(64, 32, generator=torch.Generator().manual_seed(1)) * torch.tensor([1.0, 1e-4]).repeat(32)[:, None]
    torch.save({"model": {"fc.weight": weight, "steps": torch.tensor(3)}, "epoch": 7}, tmp_path / "a.pt")
    import_module("numpy").save(tmp_path / "b.npy", weight.numpy())
    pytest.importorskip("safetensors")
    write_safetensors(tmp_path / "c.safetensors", **{"fc.weight": weight})
    found = {name: losses_of(pool, tmp_path / name) for name in ("a.pt", "b.npy", "c.safetensors")}
    assert [measured.losses[0].data for measured in found.values()] == ["model.fc.weight", "b", "fc.weight"]
    figures = {tuple((x.dtype, x.shape, x.pcc, x.flushed) for x in measured.losses) for measured in found.values()}
    assert len(figures) == 1  # the same in all three
    assert found["a.pt"].skipped == ("model.steps: values of int64, which plans do not change",)
    assert found["b.npy"].losses[1].flushed < 0.02
    as_weights = losses_of(pool, tmp_path / "b.npy", as_weights=True)
    assert as_weights.losses[1].shape == (32, 64)
    assert as_weights.losses[1].flushed > 0.49  # stored as [in, out], the small channels lie beside the large ones


@virtual
def test_weights_of_convolutions_are_measured_with_their_output_channels_last(pool, tmp_path):
    """[out 4, in 2, 3, 3] is stored as [18, 4]; vectors stay. One channel of four is large, so the other three become zero."""
    weight = torch.full((4, 2, 3, 3), 1e-3)
    weight[0] = 1.0
    torch.save([weight, torch.ones(5)], tmp_path / "conv.pt")
    conv, vector = (losses_of(pool, tmp_path / "conv.pt", as_weights=True).losses[i] for i in (1, 4))
    assert (conv.data, conv.shape, conv.flushed) == ("0", (18, 4), 3 / 4)
    assert (vector.data, vector.shape, vector.flushed) == ("1", (1, 5), 0)
    assert losses_of(pool, tmp_path / "conv.pt").losses[1].flushed == 0


@virtual
def test_only_the_first_rows_of_a_large_tensor_are_measured(pool, tmp_path):
    """Rows of 3 values take 32 with their padding: 2^24 / 32 = 524,288 of them."""
    import_module("numpy").save(tmp_path / "long.npy", torch.ones(600_000, 3, dtype=torch.float16).numpy())
    (loss, *_) = losses_of(pool, tmp_path / "long.npy").losses
    assert loss.data == "long, first 524,288 of 600,000 rows"
    assert loss.shape == (524_288, 3)


class Trap:
    """Runs code when it is unpickled."""

    def __reduce__(self):
        return Path.touch, (Path(self.path),)

    def __init__(self, path):
        self.path = str(path)


@virtual
def test_files_that_cannot_be_read(pool, tmp_path):
    """The error is one line that names the file; no code in the file runs; the worker survives."""
    numpy = import_module("numpy")
    (tmp_path / "garbage.pt").write_bytes(b"\x00garbage" * 9)
    (tmp_path / "empty.pt").write_bytes(b"")
    (tmp_path / "trap.pt").write_bytes(pickle.dumps(Trap(tmp_path / "sprung")))
    torch.save({"x": Trap(tmp_path / "sprung")}, tmp_path / "trap2.pt")
    torch.save({"epoch": 3}, tmp_path / "none.pt")
    torch.save({"x": torch.ones(3, dtype=torch.int64)}, tmp_path / "ints.pt")
    numpy.save(tmp_path / "objects.npy", numpy.array([Trap(tmp_path / "sprung")], dtype=object), allow_pickle=True)
    (tmp_path / "garbage.npy").write_bytes(b"\x93NUMPY\x01\x00\xff\xff")
    (tmp_path / "empty.npy").write_bytes(b"")
    numpy.savez(tmp_path / "several.npz", a=numpy.ones(3))
    (tmp_path / "several.npz").rename(tmp_path / "several.npy")
    (tmp_path / "cut.safetensors").write_bytes(struct.pack("<Q", 2**40) + b"{}")
    (tmp_path / "empty.safetensors").write_bytes(b"")
    files = sorted(path for path in tmp_path.iterdir())
    assert len(files) == 12
    for path in files:
        measured = losses_of(pool, path)
        assert measured.fault.startswith(f"{path}: "), path
        assert "\n" not in measured.fault
        assert "ended with" not in measured.fault, path
        assert not measured.losses
    assert not (tmp_path / "sprung").exists()


@virtual
def test_truncated_and_corrupt_files(pool, tmp_path):
    """Losses or an error, and no crash of the worker: every file truncated at several places, and with flipped bits."""
    torch.save({"w": torch.ones(40, 40)}, tmp_path / "a.pt")
    import_module("numpy").save(tmp_path / "a.npy", torch.ones(40, 40).numpy())
    pytest.importorskip("safetensors")
    write_safetensors(tmp_path / "a.safetensors", w=torch.ones(40, 40))
    faults = 0
    for suffix in (".pt", ".npy", ".safetensors"):
        whole = (tmp_path / f"a{suffix}").read_bytes()
        variants = [whole[: len(whole) * i // 8] for i in range(8)]
        for i in range(24):
            changed = bytearray(whole)
            changed[i * 7 % 160] ^= 0xFF >> (i % 3)
            variants.append(bytes(changed))
        for content in variants:
            path = tmp_path / f"b{suffix}"
            path.write_bytes(content)
            measured = losses_of(pool, path)
            assert "ended with" not in measured.fault, (suffix, content[:200], measured.fault)
            assert bool(measured.fault) != bool(measured.losses)
            faults += bool(measured.fault)
    assert faults > 24


# The command -------------------------------------------------------------------------------------------------------------


def test_bytes_only(run):
    """By arithmetic, without a device. Exit code 1: it fits in none of the three dtypes."""
    done = run("precision", "relu", "25600,32,32", "--memory", "l1", "--bytes-only")
    assert done.code == 0
    assert done.out.splitlines()[-1] == "made to fit by bfloat8_b or bfloat4_b"
    assert "storage error" not in done.out
    assert run("precision", "relu", "128000,32,32", "--memory", "l1", "--bytes-only").code == 1


def test_a_catalog_as_json(run):
    done = run("precision", "torchvision-resnet50-2176x3840", "--board", "p150", "--memory", "l1", "--bytes-only", "--json")
    answer = json.loads(done.out)
    assert done.code == 1
    assert (answer["board"], answer["catalog"]) == ("p150", "torchvision-resnet50-2176x3840")
    assert answer["plans"]["bfloat16"]["exceeding_cases"] == len(answer["failing"]) > 0
    assert {call["memory"] for call in answer["failing"]} == {"l1"}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("precision", "--bytes-only"), "--bytes-only measures nothing"),
        (("precision", "relu", "1,32", "--bytes-only", "--values", "x.pt"), "--bytes-only measures nothing"),
        (("precision", "--as-weights"), "--as-weights requires --values"),
        (("precision", "rellu", "1,32", "--bytes-only"), "did you mean relu"),
        (("precision", "no-such-model", "--bytes-only"), "unknown operator or catalog 'no-such-model'"),
        (("precision", "sofmax", "--bytes-only"), "did you mean softmax"),
        (("precision", "ContrastiveHead", "--bytes-only"), "'ContrastiveHead' is not an operator"),
        (("precision", "./nothing.yaml", "--bytes-only"), "nothing.yaml"),
        (("precision", "crossed/mochi", "--bytes-only"), "expected a captured one"),
        (("precision", "resnet50", "--bytes-only"), "names of catalogs, expected one"),
        (
            ("precision", "torchvision-resnet50-224x224", "--dtype", "float32", "--bytes-only"),
            "sets all of its calls except --memory",
        ),
        (("precision", "relu", "1,32", "--board", "n1500", "--bytes-only"), "unknown board 'n1500'"),
        (("precision", "--values", "x.bin"), "expected a file of tensors that ends in .pt, .pth, .npy, .safetensors"),
        (("precision", "--values", "x.pt"), "x.pt: no such file"),
    ],
)
def test_bad_input(run, arguments, said):
    done = run(*arguments)
    assert done.code == 2
    assert said in done.err
    assert not done.out


@virtual
def test_the_error_of_sample_values_is_summarised_under_a_call(run, measured):
    """The smallest and the largest of each column, in a line for each block float; the table is there without a call."""
    lines = run("precision", "relu", "1,1,32,32").out.splitlines()
    for dtype in (BF8, BF4):
        losses = [loss for loss in measured.losses if loss.dtype is dtype]
        shares = [f"{loss.flushed:.2%}" for loss in sorted(losses, key=lambda loss: loss.flushed)]
        (line,) = [line for line in lines if line.startswith(f"  {dtype}: median")]
        assert f"{shares[0]} to {shares[-1]} of the values become zero" in line
    assert not any(line.startswith("normal [256,256]") for line in lines)
    assert any(line.startswith("normal [256,256]") for line in run("precision").out.splitlines())


@virtual
def test_the_whole_command(run, tmp_path):
    """A call together with the user's values."""
    values = tmp_path / "mine.npy"
    import_module("numpy").save(values, torch.tensor([[1.0, 2**-10]]).numpy())
    done = run("precision", "relu", "1,1,32,32", "--values", str(values), "--json")
    answer = json.loads(done.out)
    assert done.code == 0
    assert answer["plans"]["bfloat4_b"]["allocated_bytes"] == 2 * TILE_BYTES[BF4]
    assert answer["storage"]["numerics"] == NUMERICS
    flushed = {loss["dtype"]: loss["flushed"] for loss in answer["storage"]["losses"]}
    assert flushed == {"bfloat16": 0.0, "bfloat8_b": 0.5, "bfloat4_b": 0.5}


def test_shards_and_dtypes_of_single_operands():
    """14 shards of 448 x 32 hold the activation; the weight keeps its dtype in every plan."""
    fields = {"op": "matmul", "inputs": [[1, 1, 3136, 64], [64, 256]], "output_memory": "l1:height"}
    case = case_from_json({**fields, "operands": [{"memory": "l1:block@2x7"}, {"dtype": "bfloat8_b"}]})
    plan = plan_call(case, N150)
    for dtype, tile in ((BF16, 2048), (BF8, 1088), (BF4, 576)):
        activation, weight, result = (tensor.allocation for tensor in plan.plans[dtype].tensors)
        assert (str(activation.spec.memory), activation.bytes_per_bank) == ("l1:block@2x7:448x32", 14 * tile)
        assert (weight.spec.dtype, weight.allocated_bytes) == (BF8, 2 * 8 * 1088)
        assert (str(result.spec.memory), result.bytes_per_bank) == ("l1:height@0,0-7,5+0,6:64x256", 2 * 8 * tile)


def test_block_floats_that_rows_in_shards_do_not_take_stay_with_a_reason():
    fields = {"op": "relu", "inputs": [[1, 1, 3136, 64]], "layout": "row_major", "memory": "l1:height@8x8:49x64"}
    plan = plan_call(case_from_json(fields), N150)
    assert {dtype: p.dtype for dtype, p in plan.plans.items()} == dict.fromkeys((BF16, BF8, BF4), BF16)
    assert "both edges must be multiples of 32" in plan.plans[BF8].kept


def test_a_models_calls_in_shards():
    """Weights stay in DRAM."""
    catalog = load_catalog("torchvision-vit_b_16-224x224")
    plan = plan_model(catalog, N150, memory_request("l1:height"))
    products = next(operator for operator in plan.operators if operator.operator == "addmm")
    for line in products.lines:
        memories = [str(tensor.allocation.spec.memory) for tensor in line.plan.given.tensors if tensor.role is not Role.RESULT]
        assert (memories[0], memories[2]) == ("dram", "dram")
        assert memories[1].startswith("l1:height@")
