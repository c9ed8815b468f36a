"""Limits of operators: neighbouring calls of which TTNN accepts one and rejects the other, and calls without a meaning."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from ssinghal.core.boards import load_board
from ssinghal.core.case import Case, Placement
from ssinghal.core.tensors import BufferType, DType, Layout, Shape
from ssinghal.core.verdict import Status
from ssinghal.device.modes import choose_device
from ssinghal.errors import InvalidCase
from ssinghal.estimation.estimator import estimate
from ssinghal.operators import make_case
from ssinghal.operators.binding import specs_of
from ssinghal.runner.pool import Pool
from tests.estimation.test_estimator import contradictions

INT32, UINT8, UINT16, UINT32 = DType.INT32, DType.UINT8, DType.UINT16, DType.UINT32
TILE, ROW_MAJOR = Layout.TILE, Layout.ROW_MAJOR
MATRIX = ((40, 64),)
FITS, UNSUPPORTED = Status.FITS, Status.UNSUPPORTED


CONV = ((1, 32, 16, 16), (32, 32, 3, 3))
WRONGLY_TUNED = {
    "no count of slices": ("conv2d", CONV, {"slices": "width:0"}),
    "no direction": ("conv2d", CONV, {"slices": "4"}),
    "no shard layout": ("conv2d", CONV, {"shard_layout": "rows"}),
    "no whole tiles": ("conv2d", CONV, {"act_block_h": 20}),
    "transposed": ("conv_transpose2d", CONV, {"slices": "width:2"}),
    "one dim": ("conv1d", ((1, 32, 16), (32, 32, 3)), {"act_block_h": 32}),
}


def l1_case(name: str, inputs: tuple[Shape, ...], attrs: dict[str, Any], dtype: DType, layout: Layout = TILE) -> Case:
    return make_case(name, inputs, attrs, Placement(dtype, layout, BufferType.L1, channels_last=False))


EDGES = [
    (FITS, l1_case("clamp", MATRIX, {"min": 0, "max": 6}, INT32)),
    (FITS, l1_case("clamp", MATRIX, {"max": 6}, INT32, ROW_MAJOR)),
    (UNSUPPORTED, l1_case("clamp", MATRIX, {"min": 0.0, "max": 6}, INT32)),
    (UNSUPPORTED, l1_case("clamp", MATRIX, {"min": 0, "max": 6}, UINT32)),
    (FITS, l1_case("clamp_min", MATRIX, {"min": 0}, INT32)),
    (FITS, l1_case("pow", MATRIX, {"exponent": 3}, INT32)),
    (FITS, l1_case("pow", MATRIX, {"exponent": 2.0}, UINT16)),
    (FITS, l1_case("pow", MATRIX, {"exponent": 1}, INT32, ROW_MAJOR)),
    (FITS, l1_case("pow", MATRIX, {"exponent": 1}, UINT8)),
    (UNSUPPORTED, l1_case("pow", MATRIX, {"exponent": 2}, INT32, ROW_MAJOR)),
    (UNSUPPORTED, l1_case("pow", MATRIX, {"exponent": 2}, UINT8)),
    (UNSUPPORTED, l1_case("pow", MATRIX, {"exponent": -1}, INT32)),
    (UNSUPPORTED, l1_case("pow", MATRIX, {"exponent": 0.5}, INT32)),
    (FITS, l1_case("floor_divide", MATRIX, {"other": 80}, INT32)),
    (UNSUPPORTED, l1_case("floor_divide", MATRIX, {"other": 80}, UINT32)),
    (FITS, l1_case("maximum", MATRIX * 2, {}, UINT32)),
    (UNSUPPORTED, l1_case("maximum", MATRIX * 2, {}, UINT16)),
    (FITS, l1_case("logical_and", MATRIX * 2, {}, UINT16)),
    (UNSUPPORTED, l1_case("logical_and", MATRIX * 2, {}, UINT8)),
    (FITS, l1_case("constant_pad_nd", ((70,),), {"pad": [0, 0]}, DType.BFLOAT16)),
    (FITS, l1_case("constant_pad_nd", MATRIX, {"pad": [0, 0, 0, 0]}, UINT8)),
    (FITS, l1_case("constant_pad_nd", MATRIX, {"pad": [0, 0]}, DType.BFLOAT4_B)),
    (UNSUPPORTED, l1_case("constant_pad_nd", ((70,),), {"pad": [0, 1]}, DType.BFLOAT16)),
    (UNSUPPORTED, l1_case("constant_pad_nd", MATRIX, {"pad": [0, 1]}, UINT8)),
    (FITS, l1_case("prod", ((3, 40),), {"dim": 0}, DType.BFLOAT16, ROW_MAJOR)),
    (UNSUPPORTED, l1_case("prod", ((70,),), {"dim": 0, "keepdim": True}, DType.BFLOAT16, ROW_MAJOR)),
    (FITS, l1_case("upsample_nearest3d", ((1, 4, 3, 5, 40),), {"output_size": [6, 5, 80]}, DType.BFLOAT16)),
    (UNSUPPORTED, l1_case("upsample_nearest3d", ((1, 4, 3, 5, 40),), {"output_size": [6, 5, 60]}, DType.BFLOAT16)),
]


@pytest.fixture(scope="module")
def pool() -> Iterator[Pool]:
    with Pool(choose_device("virtual", "n150")) as opened:
        yield opened


@pytest.mark.virtual_device
@pytest.mark.parametrize(("status", "call"), EDGES, ids=lambda v: f"{v.name}-{v.id}" if isinstance(v, Case) else "")
def test_edge(pool: Pool, status: Status, call: Case) -> None:
    """The rejected call is declared; TTNN runs the neighbour that fits, and its bytes are those of the estimate."""
    record = pool.submit(call).result()
    assert record.status is status, record.verdict
    assert contradictions(estimate(call, load_board("n150")), record) == []


GRID_MODES = {"interpolation_mode": 0, "padding_mode": 0, "align_corners": False}


@pytest.mark.virtual_device
@pytest.mark.parametrize(
    ("status", "channels", "changes"),
    [
        (FITS, 64, {}),
        (FITS, 64, {"align_corners": True}),
        (UNSUPPORTED, 48, {}),
        (UNSUPPORTED, 64, {"interpolation_mode": 1}),
        (UNSUPPORTED, 64, {"padding_mode": 1}),
    ],
)
def test_edges_of_grid_sampler(pool: Pool, status: Status, channels: int, changes: dict[str, Any]) -> None:
    """Maps of 20 x 20 at 300 x 4 points: [8, 300, 4, C] in rows."""
    for memory in (BufferType.L1, BufferType.DRAM):
        case = make_case(
            "grid_sampler", ((8, channels, 20, 20), (8, 300, 4, 2)), {**GRID_MODES, **changes}, Placement(memory=memory)
        )
        record = pool.submit(case).result()
        assert record.status is status, record.verdict
        assert contradictions(estimate(case, load_board("n150")), record) == []


@pytest.mark.virtual_device
def test_programs_of_two_operands(pool: Pool) -> None:
    """Equal shapes, broadcast rows, columns and scalars, numbers; floats and integers, tiles and rows."""
    pairs = [((40, 64), (40, 64)), ((40, 64), (40, 1)), ((40, 64), (1,)), ((2, 40, 64), (40, 64)), ((40, 1), (1, 64))]
    cases = []
    for dtype, layout in ((DType.BFLOAT16, TILE), (DType.FLOAT32, TILE), (INT32, TILE), (INT32, ROW_MAJOR)):
        for name in ("add", "mul", "eq", "lt", "maximum", "logical_and"):
            cases += [l1_case(name, pair, {}, dtype, layout) for pair in pairs]
        cases += [l1_case(name, MATRIX, {"other": 2}, dtype, layout) for name in ("add", "eq")]
        cases += [l1_case(name, MATRIX, {}, dtype, layout) for name in ("zero_", "square", "logical_not", "abs")]
        cases += [l1_case("_to_copy", MATRIX, {"dtype": name}, dtype, layout) for name in ("float32", "int64")]
    found = [
        text
        for case, r in zip(cases, pool.map(cases), strict=True)
        for text in contradictions(estimate(case, load_board("n150")), r)
    ]
    assert found == []


@pytest.mark.parametrize(
    ("name", "attrs"),
    [
        ("gelu", {"approximate": "tan"}),
        ("dropout", {"p": 1.5}),
        ("dropout", {"p": -0.1}),
        ("clamp", {}),
        ("floor_divide", {"other": 2, "rounding_mode": "ceil"}),
        ("floor_divide", {}),
        ("flatten", {"start_dim": 1, "end_dim": 0}),
        ("unflatten", {"dim": 0, "sizes": [7, -1]}),
        ("movedim", {"source": [0, 1], "destination": [0]}),
        ("unbind", {"dim": 2}),
    ],
    ids=str,
)
def test_what_means_nothing(name: str, attrs: dict[str, Any]) -> None:
    with pytest.raises(InvalidCase):
        specs_of(make_case(name, MATRIX, attrs))


@pytest.mark.parametrize(("name", "inputs", "attrs"), WRONGLY_TUNED.values(), ids=list(WRONGLY_TUNED))
def test_convolution_tuned_in_a_way_that_is_none(name: str, inputs: tuple[Shape, ...], attrs: dict[str, Any]) -> None:
    with pytest.raises(InvalidCase, match="convolution: "):
        specs_of(make_case(name, inputs, attrs, Placement()))
