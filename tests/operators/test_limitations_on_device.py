"""Calls that limitations refuse are tried on the device: TTNN rejects them, or the limitation says that it takes them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from ssinghal.core.boards import load_board
from ssinghal.core.case import Case, Placement
from ssinghal.core.memory_config import Sharding
from ssinghal.core.tensors import BufferType, Cores, DType, Layout, Shape, ShardKind
from ssinghal.device.modes import choose_device
from ssinghal.errors import InvalidCase
from ssinghal.operators import families, make_case
from ssinghal.operators.binding import bind
from ssinghal.operators.operator_info import OperatorInfo
from ssinghal.runner.pool import Pool
from tests.operators.test_limits_on_device import EDGES, GRID_MODES
from tests.operators.test_port_operators import ASKED
from tests.support.bypass import CRASHED, TAKEN, BypassTask

BOARD = load_board("n150")
SHAPES = ((2, 64, 32, 64), (64, 64), (40, 48), (70,))
CALLED = {info.name: info for members in families().values() for info in members if info.call}
MAP, MATRIX = (1, 64, 20, 20), (40, 64)

# Calls whose attributes or shapes are the reason, where no sample is such a call.
SPECIAL: list[tuple[str, tuple[Shape, ...], dict[str, Any]]] = [
    ("upsample_bilinear2d", (MAP,), {"scale_factors": [2.0, 2.0], "align_corners": True}),
    ("upsample_bilinear2d", (MAP,), {"output_size": [30, 30], "align_corners": False}),
    ("upsample_bilinear2d", ((1, 48, 20, 20),), {"scale_factors": [2.0, 2.0], "align_corners": False}),
    ("grid_sampler", (MAP, (1, 30, 4, 2)), {**GRID_MODES, "interpolation_mode": 1}),
    ("native_group_norm", ((1, 48, 8, 8), (48,), (48,)), {"group": 8}),
    ("native_layer_norm", ((2, 40, 64),), {"normalized_shape": [40, 64]}),
    ("rms_norm", ((2, 40, 64),), {"normalized_shape": [40, 64]}),
    ("native_batch_norm", ((1, 64, 20), *((64,),) * 4), {}),
    ("native_batch_norm", ((1, 64, 8, 8), (64,), (64,)), {}),
    ("conv_transpose2d", ((1, 64, 20), (64, 64, 2)), {"stride": 2}),
    ("add", ((2,) * 7, (1, *(2,) * 6)), {}),
    ("mul", ((2,) * 7, (1, *(2,) * 6)), {}),
    ("eq", ((2,) * 7, (1, *(2,) * 6)), {}),
    ("addmm", ((64, 1), (64, 32), (32, 96)), {}),
    ("addmm", ((96,), (64, 32), (32, 96)), {"alpha": 2.0}),
    ("matmul", ((2, 3, 64, 32), (2, 1, 32, 64)), {}),
    ("matmul", ((2, 64, 32), (3, 2, 32, 64)), {}),
    ("linear", ((64,), (96, 64), (96,)), {}),
    ("gather", ((64,), (64,)), {"dim": 0}),
    ("scaled_dot_product_attention", ((1, 4, 64, 48),) * 3, {}),
    ("scaled_dot_product_attention", ((1, 4, 64, 64), (1, 4, 96, 64), (1, 4, 96, 64)), {"is_causal": True}),
    ("adaptive_avg_pool2d", ((1, 64, 32, 32),), {"output_size": [7, 7]}),
    ("sub", (MATRIX, MATRIX), {"alpha": 2.0}),
    ("rsub", (MATRIX,), {"other": 2, "alpha": 2.0}),
    ("arange", (), {"end": 10.5, "step": 0.5}),
    ("copy", (MATRIX, (1, 64)), {}),
    ("elu", (MATRIX,), {"scale": 2.0}),
    ("grid_sampler", (MAP, (1, 30, 4, 2)), {**GRID_MODES, "padding_mode": 1}),
    ("linalg_vector_norm", (MATRIX,), {"ord": 1.0}),
    ("rpow", (MATRIX,), {"self": -1.0}),
    ("repeat_interleave", (MATRIX,), {"repeats": 2}),
    ("scaled_dot_product_attention", ((1, 4, 64, 64),) * 3, {"dropout_p": 0.5}),
    ("scaled_dot_product_attention", ((1, 4, 64, 64), (1, 4, 64, 64), (1, 4, 64, 32)), {}),
    ("transpose", ((64,),), {"dim0": 0, "dim1": 0}),
]


# Calls of operators that no shape sweep can have.
HEADS_OF_48 = {"num_heads": 8}
PORTS: list[tuple[str, tuple[Shape, ...], dict[str, Any]]] = [
    *((asked.case.operator, asked.case.inputs, asked.attrs) for asked in ASKED.values()),
    ("fold", ((1, 3, 60, 60),), {"stride_h": 4, "stride_w": 4, "use_transpose_as_fold": True}),
    ("fold", ((1, 3, 64, 64),), {"stride_h": 2, "stride_w": 2, "use_transpose_as_fold": True, "collapse_output": True}),
    ("fold", ((1, 3, 64, 64),), {"stride_h": 2, "stride_w": 2, "use_transpose_as_fold": True}),
    ("nlp_create_qkv_heads", ((1, 1, 64, 3 * 8 * 48),), HEADS_OF_48),
    ("create_qkv_heads", ((1, 1, 64, 3 * 8 * 48),), HEADS_OF_48),
    ("create_qkv_heads_from_separate_tensors", ((1, 1, 64, 8 * 48), (1, 1, 64, 16 * 48)), HEADS_OF_48),
    ("create_qkv_heads_from_separate_tensors", ((1, 1, 64, 8 * 64), (1, 1, 64, 16 * 64)), HEADS_OF_48),
    ("split_query_key_value_and_split_heads", ((1, 64, 3 * 8 * 48),), HEADS_OF_48),
    ("concatenate_heads", ((1, 8, 64, 48),), {}),
    ("rotary_embedding_llama", ((1, 8, 64, 512), (1, 1, 64, 512), (1, 1, 64, 512), (1, 1, 32, 32)), {}),
    ("div_", ((40, 64), (40, 64)), {}),
    ("add_", ((40, 64),), {"other": 0.5}),
    ("add_", ((40, 64), (40, 64)), {}),
    ("add_", ((2,) * 7, (1, *(2,) * 6)), {}),
]
PADDED_ROWS = Placement(DType.FLOAT32, Layout.ROW_MAJOR, BufferType.L1, sharding=Sharding(ShardKind.WIDTH, Cores.grid(8, 1)))

# Reasons without a call here.
UNTRIED = {
    "TTNN has none of bool, float16, float64, int8, int16",
    "TTNN takes a factor, whose float32 product misses this size by one",
    "composed of square, sum and sqrt: ord 2 only",
    "ttnn.argmax over all dims wants row-major layout",
    "ttnn.argmax takes integers along the last dim only",
    "ttnn.group_norm takes tile layout only on Blackhole",
    "ttnn.pad pads no front in tile layout",
    "ttnn.pad pads with a constant only",
    "ttnn.slice takes no step in block floats",
}


@pytest.fixture(scope="module")
def pool() -> Iterator[Pool]:
    with Pool(choose_device("virtual", BOARD.name)) as opened:
        yield opened


def sampled(info: OperatorInfo) -> Iterator[Case]:
    for shape in SHAPES if info.sample else ():
        for dtype in DType:
            for layout in Layout:
                try:
                    sample = info.sample(shape)  # type: ignore[misc]
                    placement = Placement(dtype, layout, channels_last=sample.channels_last)
                    yield make_case(info.name, sample.inputs, sample.attrs, placement)
                except InvalidCase:
                    continue


def refused() -> Iterator[Case]:
    for info in CALLED.values():
        yield from sampled(info)
    for name, inputs, attrs in SPECIAL:
        for dtype in (DType.BFLOAT16, DType.FLOAT32):
            for layout in Layout:
                yield make_case(name, inputs, attrs, Placement(dtype, layout))
    yield from (case for _, case in EDGES)
    yield make_case("convert_to_hwc", ((1, 1, 3, 1024),), {}, PADDED_ROWS)
    for name, inputs, attrs in PORTS:
        for dtype in DType:
            for layout in Layout:
                yield make_case(name, inputs, attrs, Placement(dtype, layout))


Key = tuple[str, str]  # operator and reason


def by_limitation() -> dict[Key, list[Case]]:
    """Returns, for each limitation, calls that it alone refuses: one for each dtype and layout of an operator."""
    found: dict[Key, dict[tuple[DType, Layout, Any], Case]] = {}
    for case in refused():
        call = bind(case, BOARD)
        try:
            call.specs()
        except InvalidCase:
            continue
        limits = list(call.limitations(BOARD))
        if len(limits) == 1:
            placement = case.placement
            what = (placement.dtype, placement.layout, repr(case.attrs))
            found.setdefault((call.info.name, limits[0].reason), {}).setdefault(what, case)
    return {key: list(cases.values()) for key, cases in found.items()}


@pytest.mark.virtual_device
def test_ttnn_takes_what_is_refused_only_where_the_limitation_says_so(pool: Pool) -> None:
    tried = by_limitation()
    futures = {key: [(case.id, pool.run(BypassTask(case))) for case in cases] for key, cases in tried.items()}
    answers = {key: [(name, *future.result()) for name, future in calls] for key, calls in futures.items()}
    limits = {(name, x.reason): x for name, info in CALLED.items() for x in info.limitations}
    wrong = {
        key: found for key, found in answers.items() if limits[key].taken != any(answer == TAKEN for _, answer, _ in found)
    }
    assert wrong == {}
    assert [found for found in answers.values() if any(answer == CRASHED for _, answer, _ in found)] == []
    assert {reason for _, reason in limits} - {reason for _, reason in answers} == UNTRIED


@pytest.mark.virtual_device
@pytest.mark.parametrize("layout", list(Layout))
@pytest.mark.parametrize("name", ["eq", "ne", "gt", "ge", "lt", "le"])
@pytest.mark.parametrize("inputs", [((40, 64), (40, 64)), ((40, 64), (1, 64)), ((40, 64),)], ids=len)
def test_bytes_are_compared_to_masks_of_uint16(pool: Pool, name: str, layout: Layout, inputs: tuple[Shape, ...]) -> None:
    attrs = {} if len(inputs) > 1 else {"other": 2}
    record = pool.submit(make_case(name, inputs, attrs, Placement(DType.UINT8, layout))).result()
    assert record.status == "fits", record.verdict
    assert (record.tensors[-1].dtype, record.tensors[-1].layout) == ("uint16", layout.value)


@pytest.mark.virtual_device
@pytest.mark.parametrize("inputs", [((40, 64), (40, 64)), ((40, 64),)], ids=len)
def test_whole_numbers_are_divided_to_float32(pool: Pool, inputs: tuple[Shape, ...]) -> None:
    """As in torch."""
    attrs = {} if len(inputs) > 1 else {"other": 2}
    record = pool.submit(make_case("div", inputs, attrs, Placement(DType.INT32))).result()
    assert record.status == "fits", record.verdict
    assert record.tensors[-1].dtype == "float32"
