"""Bars of a bank: segments add up, and those that do not fit are the bytes missing by TTNN's message. For n150, ttnn 0.81.1."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

import ssinghal
from ssinghal.core.boards import load_board
from ssinghal.core.case import Case, OutputMemory, Placement
from ssinghal.core.record import Record
from ssinghal.core.tensors import BufferType, Layout
from ssinghal.device.modes import choose_device
from ssinghal.estimation.estimator import estimate
from ssinghal.operators import make_case
from ssinghal.report.bank_occupancy import Bar, SegmentKind, bars_of, board_of
from ssinghal.runner.pool import Pool
from ssinghal.runs.parsing import parse_record
from ssinghal.runs.reader import RecordGroup, read_run
from ssinghal.runs.setting import Setting
from tests.support.run_builder import a_record, write_run

L1_END, RESERVED, L1_BANK, DRAM_BANK = 1_499_136, 105_824, 1_393_312, 1_072_693_184
TENSOR = 260 * 2048  # per L1 bank, of [1,64,640,400] channels-last: 16,640 tiles over 64 banks
N150 = load_board("n150")


def stored(fields: dict) -> Record:
    return parse_record(json.dumps(fields))


def parts(bar: Bar) -> dict[str, int]:
    """Returns label → bytes, in the bank and beyond its end."""
    assert sum(s.size_bytes for s in bar.segments) == bar.size_bytes, bar
    return {s.label: s.size_bytes for s in (*bar.segments, *bar.beyond)}


def placed(label: str, memory: str = "l1", booked: int | None = TENSOR) -> dict:
    return {
        "label": label, "shape": [1, 640, 400, 64], "dtype": "bfloat16", "layout": "tile", "memory": memory,
        "logical_bytes": 32768000, "allocated_bytes": 34078720, "booked_bytes": booked,
    }  # fmt: skip


USAGE = {
    "l1_bytes": 0, "circular_bytes": 0, "dataflow_bytes": 0, "scratch_bytes": 0, "l1_total_bytes": 0, "l1_small_bytes": 0,
    "dram_bytes": 0,
}  # fmt: skip


def test_a_result_that_does_not_fit_next_to_its_operands():
    free = L1_BANK - 2 * TENSOR
    numbers = {
        "bytes_per_bank": TENSOR, "banks": 64, "bank_bytes": L1_BANK, "allocated_bytes": 2 * TENSOR, "free_bytes": free,
        "largest_free_bytes": free,
    }  # fmt: skip
    record = a_record("add", inputs=[[1, 64, 640, 400]] * 2, channels_last=True, status="oom", verdict=numbers)
    record["tensors"] = [placed("input 1"), placed("input 2")]
    (bar,) = bars_of(stored(record), N150)
    assert parts(bar) == {
        "reserved by TTNN": RESERVED,
        "input 1": TENSOR,
        "input 2": TENSOR,
        "output: as much as fits": free,
        "output: does not fit": 3 * TENSOR - L1_BANK,
    }
    assert bar.size_bytes == L1_END
    assert bar.load == 3 * TENSOR / L1_BANK


def test_operands_that_ttnn_does_not_count_are_not_separated():
    """It reports 4,096 B as allocated, but two operands were booked with 532,480 B each."""
    numbers = {"bytes_per_bank": L1_BANK, "bank_bytes": L1_BANK, "allocated_bytes": 4096, "largest_free_bytes": L1_BANK - 4096}
    record = a_record("add", inputs=[[1, 64, 640, 400]] * 2, channels_last=True, status="oom", verdict=numbers)
    record["tensors"] = [placed("input 1"), placed("input 2")]
    (bar,) = bars_of(stored(record), N150)
    assert parts(bar) == {
        "reserved by TTNN": RESERVED,
        "other buffers of the call": 4096,
        "output: as much as fits": L1_BANK - 4096,
        "output: does not fit": 4096,
    }


def test_a_fragmented_bank_has_free_bytes_in_smaller_blocks():
    numbers = {
        "resource": "fragmentation", "stage": "intermediate", "bytes_per_bank": 500, "bank_bytes": DRAM_BANK,
        "allocated_bytes": DRAM_BANK - 700, "free_bytes": 700, "largest_free_bytes": 400,
    }  # fmt: skip
    (bar, *_) = bars_of(stored(a_record(memory="dram", status="oom", verdict=numbers)), N150)
    assert bar.memory == "DRAM"
    assert parts(bar) == {
        "other buffers of the call": DRAM_BANK - 700,
        "free, in smaller blocks": 300,
        "intermediate: as much as fits": 400,
        "intermediate: does not fit": 100,
    }


def test_program_buffers_beyond_the_end_of_l1_are_drawn_by_their_address():
    numbers = {"resource": "circular_buffer", "stage": "program", "program_bytes": L1_END + 64, "limit_bytes": L1_END}
    (bar,) = bars_of(stored(a_record(memory="dram", status="oom", verdict=numbers)), N150)
    assert parts(bar) == {
        "reserved by TTNN": RESERVED,
        "program buffers: as much as fits": L1_BANK,
        "program buffers: do not fit": 64,
    }


def test_a_buffer_beyond_the_budget_of_its_operator_is_drawn_by_its_size():
    numbers = {"resource": "circular_buffer", "stage": "program", "program_bytes": 5000, "limit_bytes": 4000}
    (bar,) = bars_of(stored(a_record(memory="dram", status="oom", verdict=numbers)), N150)
    assert parts(bar) == {
        "reserved by TTNN": RESERVED,
        "free, but not for these buffers": L1_BANK - 4000,
        "program buffers: as much as fits": 4000,
        "program buffers: do not fit": 1000,
    }


def test_a_program_of_unknown_need_has_no_bytes_beyond():
    numbers = {"resource": "circular_buffer", "stage": "program", "limit_bytes": L1_BANK}
    (bar,) = bars_of(stored(a_record(memory="dram", status="oom", verdict=numbers)), N150)
    assert not bar.beyond
    assert "does not report the bytes that this program needs" in bar.notes[0]
    assert parts(bar)["free, but too little for the program"] == L1_BANK


def test_peaks_of_different_moments_are_one_segment():
    usage = {**USAGE, "l1_bytes": 3000, "circular_bytes": 2500, "l1_total_bytes": 4000}
    record = a_record("relu", measured={"resident": {"l1": 1000}, "usage": usage})
    (bar,) = bars_of(stored({**record, "tensors": [placed("input 1", booked=400)]}), N150)
    together = "temporaries and program buffers together, at the peak"
    assert parts(bar) == {
        "reserved by TTNN": RESERVED,
        "input 1": 400,
        "results": 600,
        together: 3000,
        "free": L1_BANK - 4000,
    }
    assert "at different moments" in bar.notes[0]


def test_a_peak_beyond_the_bank_of_a_call_that_fits_is_noted_and_not_drawn():
    usage = {**USAGE, "dataflow_bytes": L1_BANK + 1, "l1_total_bytes": L1_BANK + 1}
    (bar,) = bars_of(stored(a_record(memory="dram", measured={"usage": usage})), N150)
    assert parts(bar) == {"reserved by TTNN": RESERVED, "free": L1_BANK}
    assert f"{L1_BANK + 1:,} B" in bar.notes[0]


def test_the_l1_small_region_is_no_part_of_the_bank():
    usage = {**USAGE, "l1_small_bytes": 96, "l1_bytes": 64, "l1_total_bytes": 64}
    record = a_record(memory="dram", l1_small_size=32768, measured={"usage": usage})
    l1, small = bars_of(stored(record), N150)
    assert parts(l1)["L1_SMALL region"] == 32768
    assert (l1.size_bytes, l1.bank_bytes) == (L1_END, L1_BANK - 32768)
    assert parts(small) == {"temporaries, at the peak": 96, "free": 32768 - 96}


def test_inconsistent_numbers_are_not_drawn():
    """More bytes than the bank has: another release, whose bank size is unknown."""
    record = a_record("relu", measured={"resident": {"l1": L1_BANK + 32, "dram": 32}})
    assert [bar.memory for bar in bars_of(stored(record), N150)] == ["DRAM"]


def test_the_board_is_the_one_that_the_run_opened(tmp_path: Path):
    """A release that reserves 1,024 B more at either end of L1 has smaller banks, recorded in run.json."""
    device = {
        "mode": "virtual", "board": "n150", "ttnn": "0.81.1", "l1_base_bytes": RESERVED + 1024,
        "l1": {"num_banks": 64, "bank_bytes": L1_BANK - 2048, "alignment_bytes": 16},
        "dram": {"num_banks": 12, "bank_bytes": DRAM_BANK, "alignment_bytes": 32},
    }  # fmt: skip
    (group,) = read_run(write_run(tmp_path, [a_record()], device=device)).groups
    board = board_of(group)
    assert board is not None
    assert (board.reserved_base_bytes, board.l1.bank_bytes) == (RESERVED + 1024, L1_BANK - 2048)
    assert board.l1_end_bytes == L1_END - 1024
    assert board_of(RecordGroup(group.setting, group.records)) == N150
    assert board_of(RecordGroup(Setting("silicon", "q999", "1.0"), group.records)) is None


@pytest.fixture(scope="module")
def pool():
    with Pool(choose_device("virtual", "n150")) as opened:
        yield opened


L1 = Placement(memory=BufferType.L1)
SHAPE = (1, 1, 8192, 1024)  # 16 MiB: 8,192 tiles, 262,144 B in each of 64 banks
CALLS = [  # a call of each kind of verdict and of each memory
    make_case("relu", (SHAPE,), {}, L1),
    make_case("add", (SHAPE, SHAPE), {}, Placement(memory=BufferType.DRAM)),
    make_case("add", ((1, 1, 32768, 1024),) * 2, {}, L1),
    make_case("softmax", ((1, 1152, 135, 120),), {"dim": -1}, Placement(memory=BufferType.L1, channels_last=True)),
    make_case("constant_pad_nd", ((4, 4884480),), {"pad": [0, 8]}, Placement(layout=Layout.ROW_MAJOR)),
    make_case("clone", ((4, 4884480),), {}, Placement(layout=Layout.ROW_MAJOR)),
    make_case("place", ((1, 1, 2**17, 2**17),), {}, Placement(memory=BufferType.DRAM)),
    make_case("max_pool2d", ((1, 64, 160, 160),), {"kernel_size": [3, 3], "stride": [2, 2]}, Placement()),
    make_case("relu", (SHAPE,), {}, Placement(memory=BufferType.DRAM, output_memory=OutputMemory.L1)),
]


def probed(case: Case, pool: Pool) -> Record:
    """Returns the record as a run writes it, with the estimate."""
    return stored(replace(pool.submit(case).result(), estimate=estimate(case, N150).to_json()).to_json())


@pytest.mark.virtual_device
@pytest.mark.parametrize("call", CALLS, ids=lambda call: f"{call.name} {call.id}")
def test_bars_of_real_records_add_up_and_lack_the_bytes_that_ttnn_reports(call, pool):
    record = probed(call, pool)
    bars = bars_of(record, N150)
    assert bars, record.message
    for bar in bars:
        parts(bar)
        assert all(s.size_bytes > 0 for s in (*bar.segments, *bar.beyond))
    missing = sum(s.size_bytes for s in bars[0].beyond)
    assert missing == (record.shortfall_bytes or 0)
    assert not any(bar.beyond for bar in bars[1:])
    assert record.is_oom == (bars[0].load > 1)


@pytest.mark.virtual_device
def test_a_clash_is_drawn_at_the_addresses_of_the_message(pool):
    """Two tensors from the end of L1 down to the address in the message, program buffers up to their end address."""
    (case,) = [call for call in CALLS if call.name == "softmax"]
    record = probed(case, pool)
    sizes = parts(bars_of(record, N150)[0])
    assert L1_END - sizes["input 1"] - sizes["output"] == record.tensor_address
    fits, rest = sizes["dataflow buffers: as much as fits"], sizes["dataflow buffers: do not fit"]
    assert RESERVED + fits + rest == record.program_bytes
    assert RESERVED + fits == record.tensor_address


def test_the_page_has_a_style_for_every_kind_of_segment():
    style = (Path(ssinghal.__file__).parent / "report" / "assets" / "page.css").read_text()
    assert not [part for part in SegmentKind if f".{part}" not in style]
