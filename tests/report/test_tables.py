"""Tables, data files and the page of a few cases with distinct numbers: each shows the right number of the right cases."""

import csv
import io
import json

import pytest

from ssinghal.core.case import ModuleCalls, Source
from ssinghal.core.tensors import BufferType, format_bytes
from ssinghal.core.verdict import Resource
from ssinghal.report import failure_tables, result_tables
from ssinghal.report import json_export as data
from ssinghal.report.group_report import GroupReport
from ssinghal.report.json_stream import json_pieces
from ssinghal.report.page import page_data
from ssinghal.report.page_parts import unpacked
from ssinghal.report.placement_alternatives import Alternative, Answer, PlacementRemedy, advice
from ssinghal.runs.reader import read_run
from tests.support.run_builder import a_record, write_run

PADDED, EVEN = (1, 3, 640, 640), (1, 64, 640, 384)  # channels last, the first is padded to 32 channels, the second not at all
L1_BANK, DRAM_BANK = 1_393_312, 1_072_693_184  # of an n150
TILE = 2048
USAGE = {
    "l1_bytes": 1000, "circular_bytes": 200, "dataflow_bytes": 0, "scratch_bytes": 0, "l1_total_bytes": 1200,
    "l1_small_bytes": 96, "dram_bytes": 5000,
}  # fmt: skip


def called(times, size="640x640"):
    """A source in a model. 0 times: the model has a tensor of the shape, and may not make the call."""
    return Source("cap", "m/a", size, times, (ModuleCalls("model.0", times),))


def an_oom(op="relu", shape=PADDED, short=64, **fields):
    """``short``: missing bytes per L1 bank."""
    numbers = {"bytes_per_bank": L1_BANK + short, "largest_free_bytes": L1_BANK}
    return a_record(op, shape, status="oom", verdict=numbers, **fields)


@pytest.fixture
def run_of(tmp_path):
    return lambda *records: read_run(write_run(tmp_path, records))


@pytest.fixture
def report_of(run_of):
    return lambda *records: GroupReport(run_of(*records).groups[0])


def rows_of(table):
    """Returns the rows of a Markdown table, by its header."""
    header, _, *rows = ([cell.strip() for cell in line[1:-1].split(" | ")] for line in table.splitlines())
    return [dict(zip(header, row, strict=True)) for row in rows]


def test_a_pair_of_two_tiers_is_first_in_the_smaller(report_of):
    facts = report_of(an_oom(sources=[called(1, "4320x7680"), called(1, "720x1280")])).facts
    assert {tier.name: tier.here for tier in facts.tiers} == {"8K": 0, "720p": 1}


def test_a_case_of_a_shape_sweep_is_in_the_tier_of_the_model_that_has_its_shape(report_of):
    (tier,) = report_of(an_oom(sources=[called(0, "2160x3840")])).facts.tiers
    assert (tier.name, tier.input_sizes, tier.cases) == ("4K", ("2160x3840",), 1)


@pytest.mark.parametrize(
    ("records", "logical", "allocated"),
    [
        ([{"channels_last": False}, {"channels_last": True}], 3 * 640 * 640 * 2, 32 * 640 * 640 * 2),
        ([{"channels_last": True}, {"channels_last": False, "dtype": "float32"}], 3 * 640 * 640 * 4, 3 * 640 * 640 * 4),
    ],
    ids=["alike but for padding", "fewer bytes padded to more"],
)
def test_a_pair_has_its_largest_logical_size_in_the_largest_placement(report_of, records, logical, allocated):
    (pair,) = report_of(*(an_oom(**fields) for fields in records)).facts.pairs
    assert (pair.size.logical_bytes, pair.size.allocated_bytes) == (logical, allocated)


def test_a_case_that_names_a_source_twice_is_one_case(report_of):
    assert report_of(an_oom(sources=[called(0), Source("other", "m/a", "640x640", 0)])).facts.shape_only_models == {
        ("m/a", "640x640"): 1
    }


def test_cases_with_fewest_missing_bytes_come_first(report_of):
    report = report_of(*(an_oom(op, short=short) for op, short in (("relu", 300), ("silu", 100), ("gelu", 200))))
    rows = rows_of(failure_tables.closest(report, report.facts.oom))
    assert [row["short by, per bank or core"] for row in rows] == [format_bytes(short) for short in (100, 200, 300)]


def test_operators_with_most_failing_calls_come_first_with_their_least_shortfall(report_of):
    """A shape that is called 8 times comes before two that are called once. Cases without calls are in another table."""
    once = [an_oom("relu", shape, short, sources=[called(1)]) for shape, short in ((PADDED, 500), (EVEN, 400))]
    tried = [an_oom(op, (1, 32, 64, 64), 300) for op in ("relu", "gelu")]
    often = an_oom("silu", short=600, sources=[called(8)])
    rows = rows_of(failure_tables.first_to_fix(report_of(*once, *tried, often)))
    shown = [(row["operator"], row["failing calls"], row["least shortfall, per bank or core"]) for row in rows]
    assert shown == [("`silu`", "8", format_bytes(600)), ("`relu`", "2", format_bytes(400))]


def test_each_peak_has_a_row(report_of):
    larger = {name: 3 * size for name, size in USAGE.items()}
    report = report_of(*(a_record(op, measured={"usage": usage}) for op, usage in (("relu", USAGE), ("silu", larger))))
    rows = rows_of(result_tables.statistics(report))
    for of, peak in (("L1 tensors", 1000), ("program buffers", 1200), ("DRAM", 5000)):
        (row,) = (row for row in rows if of in row["device bytes"])
        assert [row[which] for which in ("least", "most", "mean")] == [format_bytes(n * peak) for n in (1, 3, 2)]


def test_the_share_of_a_model_that_fails_is_of_its_calls(report_of):
    """One of two cases fails, with three of four calls."""
    report = report_of(an_oom("relu", sources=[called(3)]), a_record("silu", sources=[called(1)]))
    (row,) = rows_of(result_tables.models(report))
    assert (row["calls"], row["fit"], row["fail (OOM)"], row["fail"]) == ("4", "1", "3", "75.0 %")


def test_an_error_pattern_is_shown_by_its_worst_case(report_of):
    cases = [an_oom(op, short=short) for op, short in (("relu", 100), ("silu", 300), ("gelu", 200))]
    (row,) = rows_of(result_tables.patterns(report_of(*cases)))
    assert (row["cases"], row["example"].split()[0]) == ("3", "`silu")


LARGE, LARGER = (1, 32, 1280, 800), (1, 64, 1280, 800)  # 500 and 1,000 tiles in each of 64 banks of L1
BUFFERS = {"resource": Resource.CIRCULAR_BUFFER, "stage": "program", "program_bytes": 1_500_000, "limit_bytes": 1_400_000}


def an_oom_at(op, shape, stage, held, *, operands=1):
    """A call that places a tensor where ``held`` tensors of this size are in each bank already."""
    needed = {LARGE: 500 * TILE, LARGER: 1000 * TILE}[shape]
    free = L1_BANK - held * needed
    numbers = {"bytes_per_bank": needed, "free_bytes": free, "largest_free_bytes": free, "bank_bytes": L1_BANK, "stage": stage}
    return a_record(op, inputs=[shape] * operands, status="oom", verdict=numbers)


@pytest.mark.parametrize(
    ("record", "of_buffer", "of_call"),
    [
        # operand and result of relu, of which the first does not fit
        (an_oom_at("relu", LARGER, "input 1", 0), 1000 * TILE - L1_BANK, 2 * 1000 * TILE - L1_BANK),
        # two operands and the result of add, of which the second does not fit
        (an_oom_at("add", LARGE, "input 2", 1, operands=2), 2 * 500 * TILE - L1_BANK, 3 * 500 * TILE - L1_BANK),
        # the last tensor of the call: there is nothing more to place
        (an_oom_at("relu", LARGE, "output", 1), 2 * 500 * TILE - L1_BANK, 2 * 500 * TILE - L1_BANK),
        # program buffers, per core
        (a_record("relu", status="oom", verdict=BUFFERS), 100_000, 100_000),
    ],
    ids=["first operand", "second operand", "result", "program buffers"],
)
def test_missing_bytes_of_documents_are_those_of_the_call(run_of, record, of_buffer, of_call):
    run = run_of(record)
    report = GroupReport(run.groups[0])
    (row,) = (row for row in rows_of(result_tables.statistics(report)) if "missing bytes" in row["device bytes"])
    assert [row[name] for name in ("least", "most", "mean")] == [format_bytes(of_call)] * 3
    (closest,) = rows_of(failure_tables.closest(report, report.facts.oom))
    assert closest["short by, per bank or core"] == format_bytes(of_call)
    measured = of_group(run, data.analysis)["bytes"]
    for name, missing in (("shortfall_bytes", of_buffer), ("call_shortfall_bytes", of_call)):
        assert measured[name] == {"count": 1, "minimum": missing, "maximum": missing, "mean": missing}


@pytest.mark.parametrize(
    ("made", "column"),
    [(result_tables.patterns, "example"), (failure_tables.resources, "worst case")],
    ids=["patterns", "resources"],
)
def test_the_worst_case_is_that_whose_call_lacks_most(report_of, made, column):
    """The buffer of relu lacks 654,688 B and its call 2,702,688 B; both of gelu lack 700,000 B."""
    gelu = an_oom("gelu", short=700_000) | {"stage": "input 1"}
    (row,) = rows_of(made(report_of(gelu, an_oom_at("relu", LARGER, "input 1", 0))))
    assert row[column].split()[0] == "`relu"


@pytest.mark.parametrize("text", ["=1+1", "+1+1", "-1+1", "@A1", "\t=1+1", "\r=1+1"])
def test_no_text_of_the_csv_is_a_formula(run_of, text):
    run = run_of(an_oom() | {"message" if "\r" in text else "stage": text})  # which has no line end
    assert f"'{text}" in "".join(data.failures_csv(run, [GroupReport(run.groups[0])]))


def of_group(run, file):
    """Returns the one group of ``run`` in a data file."""
    (group,) = json.loads("".join(json_pieces(file(run, [GroupReport(run.groups[0])]))))["groups"]
    return group


def test_peaks_are_those_of_calls_that_fit(run_of):
    """The bytes that a call held when it failed are not a peak."""
    failed = an_oom("silu", measured={"usage": {name: 9 * size for name, size in USAGE.items()}})
    measured = of_group(run_of(a_record("relu", measured={"usage": USAGE}), failed), data.analysis)["bytes"]
    assert measured["peak_l1_bytes"] == {"count": 1, "minimum": 1000, "maximum": 1000, "mean": 1000}
    assert measured["shortfall_bytes"]["count"] == 1


def test_the_bytes_that_failed_are_those_of_the_tensor_that_did_not_fit(run_of):
    """A product is larger than its operands; the case has the shape of the larger operand."""
    run = run_of(an_oom("bmm", inputs=[[1, 512, 32], [1, 32, 1024]]))
    (failure,) = of_group(run, data.oom_report)["failures"]
    assert (failure["logical_bytes"], failure["failing_logical_bytes"]) == (32 * 1024 * 2, 512 * 1024 * 2)


def test_calls_of_a_shape_are_counted_as_often_as_they_are_made(run_of):
    (shape,) = of_group(run_of(an_oom(sources=[called(3)])), data.basic_operators)["relu"]
    assert (shape["cases"], shape["failing"], shape["calls"]) == (1, 1, 3)


@pytest.mark.parametrize("answer", Answer)
def test_calls_that_then_fit_are_those_with_a_positive_answer(report_of, answer):
    (record,) = report_of(an_oom(sources=[called(3)])).facts.oom
    (advised,) = advice([(record, [Alternative(PlacementRemedy.DRAM, answer, BufferType.DRAM, 1, 2)])])
    assert advised.calls == (3 if answer in (Answer.TRIED, Answer.FITS) else 0)


def remedies_of(report, number=0):
    return {a.remedy: a for a in report.alternatives_of(report.facts.oom[number])}


def test_a_remedy_has_the_bytes_in_the_memory_of_its_operands(report_of):
    """In torch's order 3 * 20 * 20 tiles over 12 banks of DRAM; those of the result, in L1, are not added."""
    report = report_of(an_oom(memory="dram", output_memory="l1", channels_last=True))
    assert remedies_of(report)[PlacementRemedy.TORCH_ORDER].bytes_per_bank == 3 * 20 * 20 // 12 * TILE


def test_a_result_in_dram_with_operands_in_dram_is_the_same_placement(report_of):
    tried = a_record("relu", EVEN, memory="dram", output_memory="dram", channels_last=True)
    assert remedies_of(report_of(an_oom(shape=EVEN, channels_last=True), tried))[PlacementRemedy.DRAM].answer is Answer.TRIED


def test_an_invalid_call_is_no_remedy(report_of):
    """Matrices are multiplied in tiles only, even if tiles pad them."""
    assert list(remedies_of(report_of(an_oom("mm", inputs=[[33, 64], [64, 70]])))) == [PlacementRemedy.DRAM]


@pytest.mark.parametrize(
    ("status", "remedy"),
    [("fits", "operands and result in DRAM: tried, fits"), ("oom", "no single change of placement")],
)
def test_a_remedy_that_was_tried_and_failed_is_not_listed(report_of, status, remedy):
    """An even shape is not padded, so DRAM is the only change."""
    resource = {"verdict": {"resource": Resource.DRAM_BUFFER}} if status == "oom" else {}
    tried = a_record("relu", EVEN, status=status, memory="dram", channels_last=True, **resource)
    report = report_of(an_oom(shape=EVEN, channels_last=True), tried)
    assert report.best(report.facts.oom[0]).startswith(remedy)


def test_the_load_of_a_case_is_that_of_its_fullest_memory(run_of):
    held = {"resident": {"l1": L1_BANK // 4, "dram": DRAM_BANK // 2}}
    (group,) = page_data(run_of(a_record(measured=held)))["groups"]
    bars, load = (unpacked(part)["columns"][name] for part, name in ((group["details"][0], "bars"), (group["cases"], "load")))
    assert (len(bars[0]), load) == (2, [0.5])


def test_a_line_of_the_csv_is_a_case_whatever_ends_lines_in_a_message(run_of):
    run = run_of(an_oom() | {"message": "a\r=1+1\n=1+1"})
    (row,) = csv.DictReader(io.StringIO("".join(data.failures_csv(run, [GroupReport(run.groups[0])])), newline=""))
    assert row["message"] == "a\r=1+1\n=1+1"
