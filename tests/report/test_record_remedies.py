"""Reports of runs whose failing cases have remedies found by search, in their records or in a separate file."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace

import pytest
from click.testing import CliRunner

from ssinghal.cli.report import report
from ssinghal.core.json_values import plain
from ssinghal.core.remedy_outcome import RemedyOutcome, StrategyRejection, ValueComparison, WorkingRemedy
from ssinghal.report.page import page_data
from ssinghal.report.page_parts import unpacked
from ssinghal.report.retry import REMEDIES, search_remedies, tried_remedies
from ssinghal.report.writer import files_of
from ssinghal.runs.folders import earlier_runs
from ssinghal.runs.reader import read_run
from tests.support.run_builder import a_record, write_run

IN_PLACE = WorkingRemedy(
    "same tensor", "in place", "overwrites x", {"l1": 1_064_960}, 102_236_160, 1, 1, ValueComparison.SAME_CALL
)
PIECES = WorkingRemedy("chunked", "pieces", "2 of them", {"dram": 4096, "l1": 2048}, 12_288, 9, 2, ValueComparison.NOT_COMPARED)
FOUND = RemedyOutcome((IN_PLACE, PIECES), (StrategyRejection("other layout", "row-major layout", "needs 9 B", 0),), probes=3)
NOTHING = RemedyOutcome(
    refused=(
        StrategyRejection("other memory", "all in DRAM", "tried: no", 1),
        StrategyRejection("chunked", "pieces", "beyond it", 0),
    ),
    probes=1,
)
IN_WORDS = "remedy, same tensor: in place (overwrites x)"
NONE_FITS = "no remedy: 1 tried and 1 not tried (impossible by arithmetic, or too slow here)"
BY_ARITHMETIC = "operands and result in DRAM"


def failing(op="relu", found=None, **more):
    return a_record(op, status="oom", channels_last=True, measured={"remedies": found}, **more)


def text_of(folder, name):
    return "".join(files_of(read_run(folder))[name]())


def failures(folder):
    """Returns the lines of the table of failures, by operator."""
    return {row["op"]: row for row in csv.DictReader(io.StringIO(text_of(folder, "oom_failures_detailed.csv")))}


# Records read back --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("found", [FOUND, NOTHING, RemedyOutcome(reason="it is the host's memory that ran out"), None])
def test_remedies_of_a_record_are_read_back_unchanged(tmp_path, found):
    run = read_run(write_run(tmp_path, [failing(found=found)]))
    assert run.losses == ()
    assert run.records[0].remedies == found


@pytest.mark.parametrize(
    "wrong",
    [
        replace(FOUND, probes=-1),
        replace(FOUND, found=(replace(IN_PLACE, moved_bytes=-1),)),
        replace(FOUND, found=(replace(IN_PLACE, peak_bytes_per_bank={"l1": -2048}),)),
        replace(FOUND, found=(replace(IN_PLACE, lever=None),)),
        replace(FOUND, refused=(StrategyRejection("chunked", "pieces", "no", "1"),)),
    ],
)
def test_an_invalid_remedy_costs_its_line_alone(tmp_path, wrong):
    bad = {**failing(), "remedies": plain(wrong)}
    run = read_run(write_run(tmp_path, [bad, failing("silu", FOUND)]))
    assert [r.op for r in run.records] == ["silu"]
    assert any("records.jsonl:1: not a complete record, skipped: remedies" in loss for loss in run.losses)


def test_a_search_does_not_affect_verdicts(tmp_path):
    """Runs with and without a search are compared as runs with equal options."""
    device = {"mode": "virtual", "board": "n150", "ttnn": "0.81.1"}
    for day, options in enumerate(({"catalogs": []}, {"catalogs": [], "remedies": True}), 1):
        last = write_run(tmp_path, [failing()], run=f"2026010{day}T000000.000000Z", options=options, device=device)
    assert [path.name for path in earlier_runs(last)] == ["20260101T000000.000000Z"]


# Rows of reports ----------------------------------------------------------------------------------------------------------


def test_every_row_of_a_failing_case_names_its_remedies(tmp_path):
    folder = write_run(tmp_path, [failing("relu", FOUND), failing("silu", NOTHING), failing("gelu")])

    rows = failures(folder)
    assert rows["relu"]["remedies"] == f"{IN_PLACE}; {PIECES}"
    assert rows["silu"]["remedies"] == NONE_FITS
    assert rows["gelu"]["remedies"].startswith(BY_ARITHMETIC)
    for op, remedy in {"relu": IN_WORDS, "silu": NONE_FITS, "gelu": BY_ARITHMETIC}.items():
        table = text_of(folder, f"per_operator/{op}.md").partition("### Cases that do not fit")[2].partition("###")[0]
        assert remedy in table
        assert (BY_ARITHMETIC in table) is (op == "gelu")

    (group,) = json.loads(text_of(folder, "comprehensive_oom_report.json"))["groups"]
    assert group["searched"] == {"cases": 2, "first": {"same tensor": 1, "none": 1}}
    by_op = {failure["op"]: failure for failure in group["failures"]}
    assert by_op["relu"]["searched"]["found"][1]["peak_bytes_per_bank"] == {"dram": 4096, "l1": 2048}
    assert by_op["gelu"]["searched"] is None
    assert all(failure["alternatives"] for failure in by_op.values())


def test_the_analysis_counts_first_remedies(tmp_path):
    records = [failing(op, FOUND) for op in ("relu", "silu", "tanh")] + [failing("gelu", NOTHING)]
    document = text_of(write_run(tmp_path, records), "oom_comprehensive_analysis.md")
    table = document.partition("#### Found by search")[2].partition("####")[0].splitlines()
    assert "| same tensor | in place | 3 | 3 | 0 |" in table
    assert "| chunked | pieces | 0 | 3 | 0 |" in table
    assert "| none |  | 1 |  | 0 |" in table
    assert "Remedies of 4 of the failing cases were searched for" in document
    assert "same tensor, in place (found by search: 1)" in document
    assert "Found by search" not in text_of(write_run(tmp_path / "plain", [failing()]), "oom_comprehensive_analysis.md")


def test_the_page_has_all_remedies(tmp_path):
    data = page_data(read_run(write_run(tmp_path, [failing("relu", FOUND), failing("silu", NOTHING)])))
    (group,) = data["groups"]
    cases, details = unpacked(group["cases"]), unpacked(group["details"][0])
    found = [[cases["texts"][change] for change in case] for case in cases["columns"]["helps"]]
    assert found == [["same tensor: in place", "chunked: pieces"], []]
    relu, silu = ([[helps, details["texts"][more]] for helps, more in case] for case in details["columns"]["remedies"])
    cost = "peak per bank: L1 2,048 B, DRAM 4,096 B; 9 calls, 12 KiB (12,288 B) moved"
    assert relu[1][1] == f"chunked: pieces (2 of them); values not compared; {cost}"
    assert [helps for helps, _ in silu] == [False] * 3
    assert silu[0][1] == NONE_FITS
    assert silu[2][1] == "chunked: pieces: beyond it"


# After the run ------------------------------------------------------------------------------------------------------------


def test_a_later_search_takes_precedence_and_a_broken_line_costs_itself(tmp_path):
    folder = write_run(tmp_path, [failing("relu", NOTHING), failing("silu")])
    tried = a_record("softmax", (1, 1152, 135, 120), attrs={"dim": -1}, memory="dram")  # as --try keeps them
    elsewhere = {**failing("silu", NOTHING), "board": "p150"}
    lines = [json.dumps(line) for line in (failing("relu", FOUND), tried, elsewhere, failing("silu", FOUND))]
    lines[2:2] = ['{"schema": 1, "op": "re', "[]", '{"remedies": {"found": 3}}']
    (folder / REMEDIES).write_text("\n".join(lines))

    assert {op: row["remedies"] for op, row in failures(folder).items()} == dict.fromkeys(
        ("relu", "silu"), f"{IN_PLACE}; {PIECES}"
    )
    document = text_of(folder, "oom_comprehensive_analysis.md")
    assert "or a later `ssinghal report --try` (probed calls: 1)." in document
    for number in (3, 4, 5):
        assert f"remedies.jsonl:{number}: not a complete record" in document.replace("\\", "")


@pytest.mark.virtual_device
def test_cases_without_a_search_are_searched_once_and_kept(tmp_path):
    """add of two tensors that take 532,480 B of each bank can overwrite one of them; a case with a search is left alone."""
    shape = [1, 64, 640, 400]
    records = [
        failing("add", inputs=[shape, shape]),
        failing("sub", FOUND, inputs=[shape, shape]),
        a_record("relu", (1, 32, 64)),
    ]
    folder = write_run(tmp_path, records)
    run = read_run(folder)

    (searched,) = search_remedies(run)

    assert (searched.op, searched.key) == ("add", records[0]["key"])
    (kept,), _ = tried_remedies(run)
    assert kept.remedies == searched.remedies
    assert kept.remedies.first.peak_bytes_per_bank == {"l1": 2 * 532_480}
    pieces = next(working for working in kept.remedies.found if working.contract == "chunked")
    assert pieces.values in (ValueComparison.EQUAL, ValueComparison.NOT_COMPARED)  # the latter where torch is not installed
    assert "in place" in failures(folder)["add"]["remedies"]
    assert search_remedies(run) == []

    done = CliRunner().invoke(report, [str(folder), "--remedies"], catch_exceptions=False)
    assert done.exit_code == 0
    assert "searched remedies of 0 failing cases" in done.output
