"""Dtypes of weights and block floats in convolutions and matrix products, held against TTNN's allocator."""

from __future__ import annotations

import math
from collections.abc import Iterator

import pytest

from ssinghal.core.case import Case, Placement
from ssinghal.core.parsing import dtype_named
from ssinghal.core.record import Record
from ssinghal.core.tensors import BufferType, DType, Layout, Shape
from ssinghal.core.verdict import Status
from ssinghal.device.modes import choose_device
from ssinghal.errors import InvalidCase
from ssinghal.operators import make_case
from ssinghal.operators.binding import specs_of
from ssinghal.runner.pool import Pool

BF16, FP32, BF8, BF4 = DType.BFLOAT16, DType.FLOAT32, DType.BFLOAT8_B, DType.BFLOAT4_B
TILE_BYTES = {BF16: 2048, FP32: 4096, BF8: 1088, BF4: 576}
DRAM_BANKS = 12  # of an n150

# name, input, weight, attributes, (rows, columns) of the prepared weight: kernel positions x channels of all groups, outputs
CONVOLUTIONS = {
    "dense": ("conv2d", (1, 64, 64, 64), (64, 64, 3, 3), {"padding": 1}, (576, 64)),
    "two maps": ("conv2d", (2, 64, 32, 32), (96, 64, 3, 3), {"padding": 1}, (576, 96)),
    "strided": ("conv2d", (1, 64, 64, 64), (128, 64, 2, 2), {"stride": 2}, (256, 128)),
    "one by one": ("conv2d", (1, 128, 40, 40), (64, 128, 1, 1), {}, (128, 64)),
    "grouped": ("conv2d", (1, 64, 32, 32), (64, 16, 3, 3), {"padding": 1, "groups": 4}, (576, 64)),
    "depthwise": ("conv2d", (1, 64, 64, 64), (64, 1, 3, 3), {"padding": 1, "groups": 64}, (576, 64)),
    "over rows": ("conv1d", (1, 64, 128), (64, 64, 3), {"padding": 1}, (192, 64)),
    "over rows of two": ("conv1d", (2, 64, 128), (256, 64, 3), {"padding": 1}, (192, 256)),
    "transposed": ("conv_transpose2d", (1, 64, 16, 16), (64, 256, 2, 2), {"stride": 2}, (256, 256)),
}
PRODUCTS = {
    "linear": ("linear", ((1, 128, 256), (512, 256), (512,)), 1),
    "mm": ("mm", ((128, 256), (256, 512)), 1),
    "matmul": ("matmul", ((1, 4, 128, 256), (256, 512)), 1),
    "addmm": ("addmm", ((512,), (128, 256), (256, 512)), 2),
}


@pytest.fixture(scope="module")
def pool() -> Iterator[Pool]:
    with Pool(choose_device("virtual", "n150")) as opened:
        yield opened


def convolution(kind: str, dtype: DType, *, bias: bool = True, memory: BufferType = BufferType.DRAM, **changes: object) -> Case:
    name, image, weight, attrs, (_, outputs) = CONVOLUTIONS[kind]
    inputs: tuple[Shape, ...] = (image, weight, (outputs,)) if bias else (image, weight)
    return make_case(name, inputs, {**attrs, **changes}, Placement(dtype, memory=memory))


def per_bank(rows: int, columns: int, dtype: DType) -> int:
    """Returns the DRAM of one bank that a matrix in tiles takes."""
    return math.ceil(math.ceil(rows / 32) * math.ceil(columns / 32) / DRAM_BANKS) * TILE_BYTES[dtype]


def dram_peak(record: Record) -> int:
    assert record.verdict.status is Status.FITS, record.verdict
    assert record.usage is not None
    return record.usage.dram_bytes


@pytest.mark.virtual_device
@pytest.mark.parametrize("kind", CONVOLUTIONS)
@pytest.mark.parametrize("bias", [True, False])
def test_the_prepared_weight_has_the_requested_dtype(pool: Pool, kind: str, bias: bool) -> None:
    """Calls that differ in ``weights_dtype`` alone differ by the prepared weight, and by a bias of one row of tiles.

    Maps of block floats are in tiles already: a map in rows is tilized meanwhile, which may be the peak.
    """
    records = {w: pool.submit(convolution(kind, BF8, bias=bias, weights_dtype=w.value)).result() for w in (BF16, BF8, BF4)}
    rows, columns = CONVOLUTIONS[kind][-1]

    def prepared(dtype: DType) -> int:
        return per_bank(rows, columns, dtype) + (per_bank(1, columns, dtype) if bias else 0)

    for dtype in (BF8, BF4):
        saved = dram_peak(records[BF16]) - dram_peak(records[dtype])
        assert saved == prepared(BF16) - prepared(dtype), dtype


@pytest.mark.virtual_device
@pytest.mark.parametrize("kind", CONVOLUTIONS)
@pytest.mark.parametrize("weights", [BF16, BF8, BF4])
@pytest.mark.parametrize("dtype", [BF16, FP32])
def test_weights_of_another_dtype_leave_the_result_alone(pool: Pool, kind: str, dtype: DType, weights: DType) -> None:
    record = pool.submit(convolution(kind, dtype, weights_dtype=weights.value)).result()
    assert record.verdict.status is Status.FITS, record.verdict
    assert [(t.dtype, t.layout) for t in record.tensors if t.label == "output"] == [(dtype.value, "tile")]


@pytest.mark.virtual_device
@pytest.mark.parametrize("kind", CONVOLUTIONS)
@pytest.mark.parametrize("memory", [BufferType.DRAM, BufferType.L1])
def test_maps_of_block_floats_come_and_go_in_flat_tiles(pool: Pool, kind: str, memory: BufferType) -> None:
    """[N, C, ...] comes as N * ... rows of C in tiles: each tile 1,088 B."""
    record = pool.submit(convolution(kind, BF8, memory=memory)).result()
    assert record.verdict.status is Status.FITS, record.verdict
    batch, channels, *sizes = CONVOLUTIONS[kind][1]
    rows = batch * math.prod(sizes)
    image, output = record.tensors[0], record.tensors[-1]
    assert (image.shape, image.dtype, image.layout, image.memory) == ((1, 1, rows, channels), "bfloat8_b", "tile", memory.value)
    assert image.allocated_bytes == math.ceil(rows / 32) * (channels // 32) * 1088
    assert (output.dtype, output.layout, output.memory) == ("bfloat8_b", "tile", memory.value)
    assert [t.dtype for t in record.tensors[1:3]] == ["bfloat16", "bfloat16"]


@pytest.mark.virtual_device
@pytest.mark.parametrize(("size", "status"), [(32, Status.FITS), (256, Status.UNSUPPORTED)])
def test_what_ttnn_takes_of_bfloat4_b_is_its_own_decision(pool: Pool, size: int, status: Status) -> None:
    """TTNN convolves small maps; for larger ones it must choose among its programs, and has no estimate for such results."""
    case = make_case("conv2d", ((1, 64, size, size), (64, 64, 3, 3)), {"padding": 1}, Placement(BF4))
    verdict = pool.submit(case).result().verdict
    assert verdict.status is status, verdict
    assert verdict.decided_by == "ttnn"


@pytest.mark.virtual_device
@pytest.mark.parametrize("kind", PRODUCTS)
@pytest.mark.parametrize("dtype", [BF16, FP32, BF8])
@pytest.mark.parametrize("weights", [BF16, BF8, BF4])
def test_products_take_a_second_matrix_of_another_dtype(pool: Pool, kind: str, dtype: DType, weights: DType) -> None:
    name, shapes, second = PRODUCTS[kind]
    record = pool.submit(make_case(name, shapes, {"weights_dtype": weights.value}, Placement(dtype))).result()
    assert record.verdict.status is Status.FITS, record.verdict
    placed = record.tensors[second]
    assert (placed.dtype, placed.allocated_bytes) == (weights.value, (256 // 32) * (512 // 32) * TILE_BYTES[weights])
    assert record.tensors[-1].dtype == dtype.value


@pytest.mark.virtual_device
def test_what_ttnn_rejects_of_a_product_is_its_own_error(pool: Pool) -> None:
    """Of ttnn.addmm, which adds a matrix; with a row of biases ttnn.linear takes the same weight."""
    case = make_case("addmm", ((128, 512), (128, 256), (256, 512)), {"weights_dtype": "bfloat4_b"})
    verdict = pool.submit(case).result().verdict
    assert (verdict.decided_by, verdict.status is Status.FITS) == ("ttnn", False)
    assert "supported for mat2_tensor" in verdict.message


@pytest.mark.parametrize(
    ("name", "shapes", "attrs", "placement", "message"),
    [
        ("conv2d", ((1, 64, 8, 8), (64, 64, 3, 3)), {"weights_dtype": "int32"}, Placement(), "unknown weights_dtype 'int32'"),
        ("linear", ((8, 64), (64, 64)), {"weights_dtype": "bfloat8"}, Placement(), "did you mean bfloat8_b"),
        ("conv3d", ((1, 32, 4, 8, 8), (32, 32, 3, 3, 3)), {"weights_dtype": "bf8"}, Placement(), "no effect in .*conv3d"),
        ("conv3d", ((1, 32, 4, 8, 8), (32, 32, 3, 3, 3)), {}, Placement(BF8), "row_major volumes"),
        ("conv2d", ((1, 64, 8, 8), (64, 64, 3, 3)), {}, Placement(BF8, Layout.ROW_MAJOR), "tile layout only"),
    ],
)
def test_dtypes_that_mean_nothing(
    name: str, shapes: tuple[Shape, ...], attrs: dict[str, str], placement: Placement, message: str
) -> None:
    with pytest.raises(InvalidCase, match=message):
        specs_of(make_case(name, shapes, attrs, placement))


@pytest.mark.parametrize(("short", "dtype"), [("bf16", BF16), ("fp32", FP32), ("bf8", BF8), ("bf4", BF4)])
def test_short_names_of_dtypes(short: str, dtype: DType) -> None:
    assert dtype_named(short) is dtype_named(dtype.value) is dtype
    assert DType(short) is dtype  # as the fields of catalogs are read
    assert specs_of(make_case("linear", ((8, 64), (64, 64)), {"weights_dtype": short}))[0][1].dtype is dtype


@pytest.mark.parametrize("name", ["f16", "BF8", "", None, 8, ["bf8"]])
def test_other_names_are_no_dtypes(name: object) -> None:
    with pytest.raises(InvalidCase, match="unknown dtype"):
        dtype_named(name)
