"""Estimates against the messages of real cards, sums worked out by hand, and TTNN on a virtual device."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest

from ssinghal.core.boards import load_board
from ssinghal.core.case import Case, OutputMemory, Placement
from ssinghal.core.device_facts import DeviceMode
from ssinghal.core.estimate import Prediction
from ssinghal.core.memory_config import Sharding
from ssinghal.core.record import Record
from ssinghal.core.tensors import BufferType, DType, Layout, Shape, ShardKind
from ssinghal.core.verdict import Resource, Status
from ssinghal.device.modes import DeviceChoice
from ssinghal.errors import InvalidCase
from ssinghal.estimation.estimator import MemoryEstimate, estimate, explain
from ssinghal.operators import FAMILIES, families, make_case
from ssinghal.runner.pool import Pool
from tests.agreement.test_hardware import KNOWN_DIFFERENCES, case_of, rows

N150 = load_board("n150")
P150 = load_board("p150")
MIB = 2**20

# One bf16 tile in each of the 64 L1 banks of an n150.
TILE_PER_BANK = 64 * 32


def l1_case(name: str, *inputs: Shape, l1_small: int | None = None, **attrs: Any) -> Case:
    """Returns a call as the cards ran it: bf16, tile layout, L1, shapes as on the device."""
    placement = Placement(memory=BufferType.L1, channels_last=False, l1_small_bytes=l1_small)
    return make_case(name, inputs, attrs, placement)


def tiles(per_bank: int) -> Shape:
    """Returns a shape that takes ``per_bank`` tiles of every L1 bank of an n150."""
    return (32, per_bank * TILE_PER_BANK)


# Real cards --------------------------------------------------------------------------------------------------------------


def test_no_verdict_of_a_real_card_is_contradicted() -> None:
    """For every row of the cards' logs: an OOM exceeds, at the logged stage and bytes; no other call does."""
    stages = {"input1": "input 1", "input2": "input 2", "input3": "input 3", "op": "output"}
    differ = set()
    for row in rows():
        predicted = estimate(case_of(row), N150)
        agrees = (predicted.verdict is Prediction.EXCEEDS) == (row["hardware_outcome"] == "oom")
        if row["total_bytes"]:
            logged = (stages[row["stage"]], int(row["total_bytes"]), int(row["bytes_per_bank"]), int(row["banks"]))
            agrees = agrees and logged == (predicted.stage, predicted.total_bytes, predicted.bytes_per_bank, predicted.banks)
        if not agrees:
            differ.add((row["run"], row["operator"], row["listed_shape"]))
    assert differ == set(KNOWN_DIFFERENCES)


# Calls that lack an argument, or whose operands do not go together: the cards had placed their operands all the same.
# Name, inputs on the device, then from the card's message: stage, total bytes, bytes per bank.
INCOMPLETE: list[tuple[str, tuple[Shape, ...], str, int, int]] = [
    ("addmm", ((64000, 512),) * 3, "input 2", 65536000, 1024000),
    ("addmm", ((16000, 1024),) * 3, "input 3", 32768000, 512000),
    ("expand", ((1, 16000, 1000, 2),), "input 1", 1048576000, 16384000),
    ("maxpool2d", ((1, 1280, 800, 64),), "input 1", 131072000, 2048000),
]


@pytest.mark.parametrize(("name", "inputs", "stage", "total", "per_bank"), INCOMPLETE)
def test_operands_of_incomplete_calls_exceed_as_on_cards(
    name: str, inputs: tuple[Shape, ...], stage: str, total: int, per_bank: int
) -> None:
    predicted = estimate(l1_case(name, *inputs, l1_small=0), N150)
    assert (predicted.verdict, predicted.resource, predicted.stage) == (Prediction.EXCEEDS, Resource.L1_BUFFER, stage)
    assert (predicted.total_bytes, predicted.bytes_per_bank, predicted.banks) == (total, per_bank, 64)
    assert not predicted.complete


# Written sums ------------------------------------------------------------------------------------------------------------


def test_every_number_of_ttnn_s_message() -> None:
    """640 * 13 * 2 = 16,640 tiles over 64 banks: 260 in each, 532,480 B; two are placed, the third is not."""
    predicted = estimate(l1_case("add", (1, 640, 400, 64), (1, 640, 400, 64)), N150)
    assert predicted.total_bytes == 16640 * 2048 == 34_078_720
    assert predicted.bytes_per_bank == 260 * 2048 == 532_480
    assert predicted.bank_bytes == 1_393_312
    assert predicted.allocated_bytes == 2 * 532_480
    assert predicted.free_bytes == predicted.largest_free_bytes == 1_393_312 - 2 * 532_480 == 328_352
    assert predicted.shortfall_bytes == 532_480 - 328_352
    assert predicted.peak_bytes_per_bank == {BufferType.L1: 3 * 532_480}
    assert [a.label for a in predicted.allocations] == ["input 1", "input 2", "output"]
    assert [a.booked_bytes_per_bank for a in predicted.allocations] == [532_480] * 3


@pytest.mark.parametrize(
    ("per_bank", "verdict", "resource"),
    [
        (338, Prediction.FITS, None),  # 1,393,312 - 2 * 338 * 2,048 = 8,864 B left for program buffers of 4 tiles = 8,192 B
        (339, Prediction.EXCEEDS, Resource.CLASH),  # 4,768 B left
        (340, Prediction.EXCEEDS, Resource.CLASH),  # 672 B left
        (341, Prediction.EXCEEDS, Resource.L1_BUFFER),
    ],
)
def test_the_edge_between_fitting_clashing_and_not_fitting(
    per_bank: int, verdict: Prediction, resource: Resource | None
) -> None:
    predicted = estimate(l1_case("relu", tiles(per_bank)), N150)
    assert (predicted.verdict, predicted.resource) == (verdict, resource)


def test_a_clash_has_the_addresses_of_ttnn_s_message() -> None:
    """TTNN 0.81.1: "L1 buffer allocated at 106496 and static dataflow buffer region ends at 114016"."""
    predicted = estimate(l1_case("relu", tiles(340)), N150)
    assert predicted.stage == "program"
    assert predicted.program_bytes == 2 * 2 * 2048
    assert (predicted.limit_bytes, predicted.program_end) == (106_496, 114_016)
    assert predicted.shortfall_bytes == 114_016 - 106_496
    assert predicted.total_bytes is None


@pytest.mark.parametrize(("width", "verdict"), [(692_560, Prediction.FITS), (692_576, Prediction.EXCEEDS)])
def test_program_buffers_may_touch_the_lowest_tensor(width: int, verdict: Prediction) -> None:
    """64 rows of 2 * 692,560 B, one in each bank, leave 1,393,312 - 1,385,120 = 8,192 B: the 4 tiles of relu's program."""
    placement = Placement(layout=Layout.ROW_MAJOR, memory=BufferType.DRAM, output_memory=OutputMemory.L1)
    assert estimate(make_case("relu", ((64, width),), {}, placement), N150).verdict is verdict


@pytest.mark.parametrize(("width", "verdict"), [(536_346_592, Prediction.FITS), (536_346_593, Prediction.EXCEEDS)])
def test_a_bank_can_be_filled_to_the_last_byte(width: int, verdict: Prediction) -> None:
    """12 rows of 2 * 536,346,592 = 1,072,693,184 B, one in each DRAM bank of that size."""
    placement = Placement(layout=Layout.ROW_MAJOR, memory=BufferType.DRAM)
    assert estimate(make_case("place", ((12, width),), {}, placement), N150).verdict is verdict


def test_earlier_tensors_count_in_whole_granules() -> None:
    """A row of 5 bf16 needs 16 B and books 32; 4,000,000 of them need 62,500 * 16 B in each of 64 banks."""
    placement = Placement(layout=Layout.ROW_MAJOR, memory=BufferType.L1)
    predicted = estimate(make_case("add", ((1, 5), (4_000_000, 5)), {}, placement), N150)
    assert (predicted.stage, predicted.bytes_per_bank, predicted.allocated_bytes) == ("output", 1_000_000, 32 + 1_000_000)


def test_program_buffers_beyond_l1_by_themselves() -> None:
    """A copy holds a row twice in one core: 2 * 2 MiB on the 105,824 B that TTNN reserves, in 1,499,136 B."""
    placement = Placement(layout=Layout.ROW_MAJOR, memory=BufferType.DRAM)
    predicted = estimate(make_case("clone", ((1, 2**20),), {}, placement), N150)
    assert (predicted.verdict, predicted.resource, predicted.stage) == (Prediction.EXCEEDS, Resource.CIRCULAR_BUFFER, "program")
    assert (predicted.program_end, predicted.limit_bytes) == (105_824 + 4 * MIB, 1_499_136)


def test_in_place_results_take_no_memory() -> None:
    fits = estimate(l1_case("silu_", tiles(400)), N150)
    assert (fits.verdict, [a.label for a in fits.allocations]) == (Prediction.FITS, ["input 1"])
    assert estimate(l1_case("silu", tiles(400)), N150).stage == "output"


def test_a_view_takes_no_memory() -> None:
    view = estimate(l1_case("view", (64, 32, 400 * 32), size=[1, 64, 32, 400 * 32]), N150)
    assert (view.verdict, view.program_bytes) == (Prediction.FITS, 0)
    assert view.peak_bytes_per_bank == {BufferType.L1: 400 * 2048}


def test_padding_within_a_tile_needs_only_a_program() -> None:
    """TTNN rejects this one: its fill program reaches address 118,112, and the tensor starts at 106,496."""
    predicted = estimate(l1_case("constant_pad_nd", (31, 680 * TILE_PER_BANK - 8), pad=[0, 8]), N150)
    assert predicted.peak_bytes_per_bank == {BufferType.L1: 680 * 2048}
    assert (predicted.verdict, predicted.program_bytes) == (Prediction.UNKNOWN, None)


def test_memories_are_counted_separately() -> None:
    """Input in L1, output in DRAM: 600 tiles a bank (of 680) would not fit twice into L1."""
    placement = Placement(memory=BufferType.L1, output_memory=OutputMemory.DRAM)
    predicted = estimate(make_case("relu", (tiles(600),), {}, placement), N150)
    assert predicted.verdict is Prediction.FITS
    assert predicted.peak_bytes_per_bank == {BufferType.L1: 600 * 2048, BufferType.DRAM: 600 * 64 * 2048 // 12}


def test_dram_runs_out_too() -> None:
    """32 * 120 * 2160 tiles over 12 banks are more than one bank holds; the 8 banks of a p150 are four times as large."""
    shape = (32, 3840, 2160 * 32)
    predicted = estimate(make_case("add", (shape, shape), {}, Placement()), N150)
    per_bank = 32 * 120 * 2160 * 2048 // 12
    assert per_bank == 1_415_577_600
    assert (predicted.resource, predicted.stage, predicted.banks) == (Resource.DRAM_BUFFER, "input 1", 12)
    assert (predicted.bytes_per_bank, predicted.bank_bytes) == (per_bank, 1_072_693_184)
    assert estimate(make_case("relu", (shape,), {}, Placement()), P150).verdict is Prediction.FITS


def test_l1_small_lowers_the_bank() -> None:
    predicted = estimate(l1_case("relu", tiles(700), l1_small=32768), N150)
    assert (predicted.bank_bytes, predicted.free_bytes) == (1_360_544, 1_360_544)
    almost = estimate(l1_case("relu", tiles(332), l1_small=32768), N150)
    assert (almost.resource, almost.limit_bytes) == (Resource.CLASH, 1_499_136 - 32768 - 2 * 332 * 2048)
    assert estimate(l1_case("relu", tiles(332)), N150).verdict is Prediction.FITS


def test_page_counts_that_wrap_exceed_by_arithmetic() -> None:
    """TTNN counts 2^32 rows of 32 B as 0."""
    placement = Placement(layout=Layout.ROW_MAJOR, memory=BufferType.L1)
    predicted = estimate(make_case("relu", ((65536, 65536, 16),), {}, placement), N150)
    assert (predicted.verdict, predicted.resource, predicted.stage) == (Prediction.EXCEEDS, Resource.L1_BUFFER, "input 1")
    assert (predicted.total_bytes, predicted.bytes_per_bank) == (128 * 2**30, 2 * 2**30)
    assert "4,294,967,296 pages of 32 B" in predicted.reason


@pytest.mark.parametrize(
    ("call", "missing"),
    [
        (l1_case("max_pool2d", (1, 64, 80, 80)), "attribute kernel_size is missing"),
        (l1_case("expand", (1, 64, 80, 80)), "attribute size is missing"),
        (l1_case("mm", (64, 64)), "takes 2 tensor operands"),
        (l1_case("add", (64, 64), (64, 63)), "do not broadcast"),
    ],
    ids=lambda v: v.name if isinstance(v, Case) else "",
)
def test_an_incomplete_call_is_unknown(call: Case, missing: str) -> None:
    predicted = estimate(call, N150)
    assert predicted.verdict is Prediction.UNKNOWN
    assert missing in predicted.reason
    assert not predicted.complete
    assert [a.label for a in predicted.allocations] == [f"input {n}" for n in range(1, len(call.inputs) + 1)]


def test_hidden_allocations_are_not_estimated() -> None:
    predicted = estimate(l1_case("mean", (64, 64), dim=[-1]), N150)
    assert (predicted.verdict, predicted.program_bytes) == (Prediction.UNKNOWN, None)
    assert predicted.reason == "its tensors fit, but TTNN's temporaries and program buffers are known only from a probe"
    assert predicted.temporaries


def test_a_result_whose_place_ttnn_decides_is_unknown() -> None:
    placement = Placement(memory=BufferType.L1, output_memory=OutputMemory.TTNN)
    predicted = estimate(make_case("max_pool2d", ((1, 64, 80, 80),), {"kernel_size": [3, 3]}, placement), N150)
    assert (predicted.verdict, predicted.complete, [a.label for a in predicted.allocations]) == (
        Prediction.UNKNOWN,
        False,
        ["input 1"],
    )
    assert predicted.reason == "its operands fit, but where TTNN puts the result is known only from a probe"


def test_a_call_that_ttnn_lacks_is_unknown() -> None:
    predicted = estimate(make_case("silu", ((64, 64),), {}, Placement(DType.INT32)), N150)
    assert (predicted.verdict, predicted.complete) == (Prediction.UNKNOWN, False)
    assert predicted.reason.startswith("its operands fit, but TTNN cannot make the call: TTNN computes it on floating-point")


def test_an_impossible_operand_has_no_estimate() -> None:
    placement = Placement(DType.BFLOAT8_B, Layout.ROW_MAJOR)
    with pytest.raises(InvalidCase, match="bfloat8_b exists in tile layout only"):
        estimate(make_case("relu", ((64, 64),), {}, placement), N150)


# In words ----------------------------------------------------------------------------------------------------------------


def test_explained() -> None:
    predicted = estimate(l1_case("relu", (1, 2176, 3840, 3)), N150)
    assert explain(predicted).splitlines() == [
        "input 1: [1,2176,3840,3] bfloat16 tile l1",
        "  logical 47.81 MiB (50,135,040 B), allocated 510 MiB (534,773,760 B)",
        "  per bank 7.969 MiB (8,355,840 B), 599.7% of a bank of 1.329 MiB (1,393,312 B)",
        "  padding 10.67x, mostly last dim 3 padded to 32 (10.67x)",
        "output: [1,2176,3840,3] bfloat16 tile l1",
        "  logical 47.81 MiB (50,135,040 B), allocated 510 MiB (534,773,760 B)",
        "  per bank 7.969 MiB (8,355,840 B), 599.7% of a bank of 1.329 MiB (1,393,312 B)",
        "  padding 10.67x, mostly last dim 3 padded to 32 (10.67x)",
        "program buffers: 8 KiB (8,192 B) per core",
        "exceeds (l1_buffer): input 1 needs 8,355,840 B in each L1 bank, where 1,393,312 of 1,393,312 B are free; "
        "6.64 MiB (6,962,528 B) too many",
    ]


@pytest.mark.parametrize(
    ("shape", "layout", "cause"),
    [
        ((1, 640, 400, 64), Layout.TILE, "second last dim 400 padded to 416 (1.04x)"),
        ((1, 80, 160, 100, 1), Layout.TILE, "last dim 1 padded to 32 (32x), second last dim 100 padded to 128 (1.28x)"),
        ((40,), Layout.TILE, "rank 1, height 1 padded to 32 (32x), last dim 40 padded to 64 (1.6x)"),
        ((64, 64), Layout.TILE, ""),
        ((64, 5), Layout.ROW_MAJOR, "rows of 10 B stored as 16 B (1.6x)"),
        ((64, 8), Layout.ROW_MAJOR, ""),
    ],
)
def test_every_padded_dim_is_named(shape: Shape, layout: Layout, cause: str) -> None:
    placement = Placement(layout=layout, memory=BufferType.L1)
    assert estimate(make_case("relu", (shape,), {}, placement), N150).allocations[0].padding_cause == cause


def test_json_holds_the_numbers_that_apply() -> None:
    predicted = json.loads(json.dumps(estimate(l1_case("relu", (1, 2176, 3840, 3)), N150).to_json()))
    assert predicted.pop("allocations")[0] == {
        "label": "input 1",
        "shape": [1, 2176, 3840, 3],
        "padded_shape": [1, 2176, 3840, 32],
        "dtype": "bfloat16",
        "layout": "tile",
        "memory": "l1",
        "logical_bytes": 50135040,
        "allocated_bytes": 534773760,
        "bytes_per_bank": 8355840,
        "booked_bytes_per_bank": 8355840,
        "padding_factor": 10.6667,
        "padding_cause": "last dim 3 padded to 32 (10.67x)",
    }
    assert predicted == {
        "verdict": "exceeds",
        "resource": "l1_buffer",
        "stage": "input 1",
        "reason": "input 1 needs 8,355,840 B in each L1 bank, where 1,393,312 of 1,393,312 B are free",
        "complete": True,
        "temporaries": False,
        "total_bytes": 534773760,
        "bytes_per_bank": 8355840,
        "banks": 64,
        "bank_bytes": 1393312,
        "allocated_bytes": 0,
        "free_bytes": 1393312,
        "largest_free_bytes": 1393312,
        "program_bytes": 8192,
        "shortfall_bytes": 6962528,
        "peak_bytes_per_bank": {"l1": 2 * 8355840},
    }


# TTNN's own verdicts -----------------------------------------------------------------------------------------------------

PLACEMENTS = [
    Placement(memory=BufferType.L1, channels_last=True),
    Placement(memory=BufferType.L1, channels_last=False),
    Placement(memory=BufferType.L1, output_memory=OutputMemory.TTNN, channels_last=True),
    Placement(memory=BufferType.L1, output_memory=OutputMemory.DRAM, channels_last=False),
    Placement(memory=BufferType.DRAM, output_memory=OutputMemory.L1, channels_last=True),
    Placement(layout=Layout.ROW_MAJOR, memory=BufferType.L1, channels_last=False),
    Placement(layout=Layout.ROW_MAJOR, memory=BufferType.DRAM, channels_last=True),
    Placement(DType.FLOAT32, memory=BufferType.L1, channels_last=False),
    Placement(DType.BFLOAT8_B, memory=BufferType.L1, channels_last=True),
]
SHAPES = [
    (5,), (3, 5), (1, 100000), (2, 3, 4, 5, 6, 7), (1, 64, 80, 80), (1, 64, 640, 400), (1, 80, 640, 400), (1, 144, 640, 400),
    (345, 8, 49, 49), (12, 32640, 96), (1, 3, 1088, 1920), (1, 96, 2160, 3840),
]  # fmt: skip


@pytest.fixture(scope="module", params=["n150", "p150"])
def pool(request: pytest.FixtureRequest) -> Iterator[Pool]:
    with Pool(DeviceChoice(DeviceMode.VIRTUAL, request.param, "asked for")) as opened:
        yield opened


def sampled(family: str, shapes: Sequence[Shape], placements: Sequence[Placement]) -> Iterator[Case]:
    """Yields each operator of the family that has samples, at each shape, with alternating placements."""
    for turn, info in enumerate(families()[family]):
        if info.sample is None:
            continue
        for index, shape in enumerate(shapes):
            placement = placements[(turn + index) % len(placements)]
            with suppress(InvalidCase):  # not every operator takes every shape
                inputs, attrs, channels_last = info.sample(shape)
                if channels_last is not None:
                    placement = replace(placement, channels_last=channels_last)
                yield make_case(info.name, inputs, attrs, placement)


def contradictions(claim: MemoryEstimate, record: Record) -> list[str]:
    """Returns where arithmetic and TTNN differ; where TTNN may have failed in a temporary before, only the verdict counts."""
    verdict, differences = record.verdict, []
    exceeds = claim.verdict is Prediction.EXCEEDS
    if exceeds and verdict.status is not Status.OOM:
        differences.append(f"estimated: {claim.reason}; TTNN: {verdict.status} {verdict.message}")
    elif exceeds and not (claim.temporaries and claim.stage.startswith("output")):
        wanted = {
            name: getattr(claim, name)
            for name in (
                *("resource", "stage", "total_bytes", "banks", "bytes_per_bank"),
                *("bank_bytes", "allocated_bytes", "free_bytes", "largest_free_bytes"),
            )
        }
        wanted["program_bytes"] = claim.program_end
        limit = "tensor_address" if claim.resource is Resource.CLASH else "limit_bytes"
        wanted[limit] = claim.limit_bytes
        differences += [
            f"{name}: estimated {value}, TTNN {getattr(verdict, name)}"
            for name, value in wanted.items()
            if getattr(verdict, name) != value
        ]
    elif claim.verdict is Prediction.FITS and verdict.status is not Status.FITS:
        differences.append(f"estimated to fit; TTNN: {verdict.status} {verdict.resource or ''} {verdict.message}")
    if verdict.status is Status.FITS and claim.complete:
        peak = {kind.value: size for kind, size in claim.peak_bytes_per_bank.items()}
        if peak != dict(record.resident):
            differences.append(f"estimated peak {peak}, TTNN booked {dict(record.resident)}")
    if record.usage is not None and claim.program_bytes is not None:
        used = record.usage.program_bytes
        if used != claim.program_bytes:
            differences.append(f"estimated program buffers {claim.program_bytes}, TTNN {used}")
    return [f"{record.op} {record.id}: {text}" for text in differences]


def compare(pool: Pool, cases: Sequence[Case]) -> tuple[list[str], Counter[Prediction]]:
    board = load_board(pool.choice.board)
    predicted = [estimate(case, board) for case in cases]
    found = [text for m, record in zip(predicted, pool.map(cases), strict=True) for text in contradictions(m, record)]
    return found, Counter(m.verdict for m in predicted)


@pytest.mark.virtual_device
def test_elementwise_operators_are_exact(pool: Pool) -> None:
    cases = list(sampled("elementwise", SHAPES, PLACEMENTS))
    found, verdicts = compare(pool, cases)
    assert found == []
    assert verdicts[Prediction.FITS] > 100
    assert verdicts[Prediction.EXCEEDS] > 50


@pytest.mark.virtual_device
def test_edges_of_l1(pool: Pool) -> None:
    """One tile per bank more or less, around fitting, clashing and exceeding; with broadcasting and a number as operand."""
    board = load_board(pool.choice.board)
    placement = Placement(memory=BufferType.L1)
    bank_tiles = board.l1.bank_bytes // 2048
    cases = []
    for less in range(8):
        for name, held, attrs in [
            ("relu", 2, {}),
            ("add", 3, {}),
            ("silu_", 1, {}),
            ("clone", 2, {}),
            ("mul", 2, {"other": 2.0}),
        ]:
            shape = (32, (bank_tiles - less) // held * 32 * board.l1.num_banks)
            cases.append(make_case(name, (shape,) * (2 if name == "add" else 1), attrs, placement))
        repeated = (1, (bank_tiles - less) // 2 * 32 * board.l1.num_banks)
        cases.append(make_case("add", ((32, repeated[1]), (32, 1)), {}, placement))
    for more in (0, 16):
        width = (board.l1.bank_bytes - 4 * 2048) // 2 + more  # one row a bank, beside just the program buffers of relu
        rows = Placement(layout=Layout.ROW_MAJOR, memory=BufferType.DRAM, output_memory=OutputMemory.L1)
        cases.append(make_case("relu", ((board.l1.num_banks, width),), {}, rows))
    found, verdicts = compare(pool, cases)
    assert found == []
    assert min(verdicts[Prediction.FITS], verdicts[Prediction.EXCEEDS]) > 5


@pytest.mark.virtual_device
@pytest.mark.parametrize("family", [f for f in FAMILIES if f != "elementwise"])
def test_no_operator_contradicts_its_estimate(family: str, pool: Pool) -> None:
    found, _ = compare(pool, list(sampled(family, [(96, 64), (1, 64, 80, 80), (1, 64, 640, 400), (12, 3264, 96)], PLACEMENTS)))
    assert found == []


@pytest.mark.virtual_device
@pytest.mark.parametrize(("channels", "row_bytes"), [(3, 64), (16, 64), (32, 64), (33, 128), (40, 128)])
def test_volumes_come_in_rows_of_whole_tiles_of_channels(channels: int, row_bytes: int, pool: Pool) -> None:
    """512 rows over 12 DRAM banks are 43 in the fullest; next to them lie 86 rows of 64 B, the weight and the bias.

    A weight [C, 32, 3, 3, 3] has 32 * 3 * 3 * C rows of 3 elements, each in 32 B; a bias is C / 32 tiles of 2,048 B.
    """
    inputs = ((1, 32, 4, 16, 16), (channels, 32, 3, 3, 3), (channels,))
    case = make_case("conv3d", inputs, {"stride": [1, 1, 1], "padding": [0, 1, 1]})
    weight = -(-32 * 3 * 3 * channels // 12) * 32
    bias = 2048  # one bank holds at most one of these tiles
    expected = {"dram": -(-1024 // 12) * 64 + weight + bias + 43 * row_bytes}
    assert {str(kind): size for kind, size in estimate(case, N150).peak_bytes_per_bank.items() if size} == expected
    predicted = estimate(case, load_board(pool.choice.board))
    booked = dict(pool.submit(case).result().resident or {})
    assert booked == {str(kind): size for kind, size in predicted.peak_bytes_per_bank.items() if size}
    assert pool.choice.board != "n150" or booked == expected


@pytest.mark.parametrize("kind", [ShardKind.HEIGHT, ShardKind.WIDTH, ShardKind.BLOCK])
@pytest.mark.parametrize(
    ("name", "inputs", "attrs"),
    [("relu", ((1, 1, 6400, 512),), {}), ("conv2d", ((1, 64, 80, 80), (64, 64, 3, 3)), {})],
)
def test_what_is_in_dram_is_not_sharded(name: str, inputs: tuple[Shape, ...], attrs: dict[str, Any], kind: ShardKind) -> None:
    with pytest.raises(InvalidCase, match=f"sharding \\({kind}\\) is for tensors in L1, and this call has none there"):
        estimate(make_case(name, inputs, attrs), load_board("n150"), kind)


def test_shards_of_an_estimate_use_all_cores() -> None:
    """6400 x 512 on 8x8 cores: 100 rows each, 128 in tiles, so 4 x 16 tiles of 2048 B; blocks are 800 x 64, 25 x 2 tiles."""
    case = make_case("relu", ((1, 1, 6400, 512),), placement=Placement(memory=BufferType.L1))
    height = estimate(case, load_board("n150"), ShardKind.HEIGHT)
    block = estimate(case, load_board("n150"), ShardKind.BLOCK)
    assert [a.bytes_per_bank for a in height.allocations] == [4 * 16 * 2048] * 2
    assert [a.bytes_per_bank for a in block.allocations] == [25 * 2 * 2048] * 2
    assert height.verdict is block.verdict is Prediction.UNKNOWN
    assert height.program_bytes is None


def test_a_kind_of_shards_beside_a_memory_with_shards_is_a_contradiction() -> None:
    case = make_case("relu", ((1, 1, 3136, 64),), {}, Placement(memory=BufferType.L1, sharding=Sharding(ShardKind.HEIGHT)))
    with pytest.raises(InvalidCase, match="sharding block contradicts memory l1:height; expected one of them"):
        estimate(case, load_board("n150"), ShardKind.BLOCK)
