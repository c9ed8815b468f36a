"""The summary of a run: every error with its cause, slow cases, and cases that were not run with the reason."""

from __future__ import annotations

from typing import Any

import pytest

from ssinghal.errors import cut
from ssinghal.runs.summary import Summary, left_out


def record(op: str, case_id: str, status: str = "fits", duration_s: float = 0.01, **more: Any) -> dict[str, Any]:
    return {"op": op, "id": case_id, "status": status, "duration_s": duration_s, **more}


RECORDS = [
    record("add", "a", duration_s=0.5),
    record("add", "b", "oom", resource="l1_buffer"),
    record("add", "c", left_allocated={"l1": 2048}),
    record("mm", "d", "error", message="core 3-4 is busy with 17"),
    record("mm", "e", "error", message="core 5-6 is busy with 1,024"),
    record("mm", "f", "error", message="another thing"),
    record("view", "g", "timeout", 12.0, message="no answer within 12 s"),
    record("view", "h", "timeout", 12.0, message="no answer within 12 s"),
    record("view", "i", "not_run", message="TTNN maps 300,000 tiles"),
    record("view", "j", "not_run", message="TTNN maps 400,000 tiles"),
]


def test_every_error_has_its_cause_and_similar_ones_share_a_line():
    summary = Summary.of(RECORDS)
    assert [(g.kind, g.op, g.cases, g.id, g.message) for g in summary.faults] == [
        ("error", "mm", 2, "d", "core 3-4 is busy with 17"),
        ("error", "mm", 1, "f", "another thing"),
        ("timeout", "view", 1, "g", "no answer within 12 s"),
        ("timeout", "view", 1, "h", "no answer within 12 s"),
        ("leak", "add", 1, "c", "left allocated {'l1': 2048}"),
    ]
    assert [(g.cases, g.message) for g in summary.not_run] == [(2, "TTNN maps 300,000 tiles")]


def test_unsupported_calls_have_their_reason():
    summary = Summary.of([{**RECORDS[0], "status": "unsupported", "op": "prod", "id": "p", "message": "tile layout only"}])
    assert summary.lines()[-1] == "unsupported: prod p: tile layout only"
    assert summary.to_json()["unsupported"][0]["message"] == "tile layout only"
    assert not summary.faults


def test_cases_not_run_for_one_reason_share_a_line_whatever_their_operator():
    """A run without a device has nine thousand of them."""
    left = {**RECORDS[0], "status": "not_run", "message": "no test ran it"}
    summary = Summary.of([{**left, "op": op, "id": op + str(i)} for op in ("add", "mul", "sub") for i in range(3)])
    assert summary.lines()[-1] == "not_run: 9 cases of 3 operators, the first add add0: no test ran it"


def test_the_lines_of_a_summary():
    lines = Summary.of(RECORDS).lines()
    # 3 of 10 took half a second and more: 0.5, 12 and 12 s; the other 7 took 0.01 s each
    at = lines.index("70.0 % of the cases took less than 0.5 s, all cases together 24.6 s of worker time; the slowest:")
    assert lines[at - 1].split() == ["total", "10", "2", "1", "3", "2", "2"]
    assert lines[at + 1 :] == [
        "    12.00 s  view g: timeout",
        "    12.00 s  view h: timeout",
        "     0.50 s  add a: fits",
        "not_run: 2 cases of view, the first view i: TTNN maps 300,000 tiles",
        "error: 2 cases of mm, the first mm d: core 3-4 is busy with 17",
        "error: mm f: another thing",
        "timeout: view g: no answer within 12 s",
        "timeout: view h: no answer within 12 s",
        "leak: add c: left allocated {'l1': 2048}",
    ]


def test_a_summary_as_json():
    summary = Summary.of(RECORDS).to_json()
    assert summary["totals"] == {"error": 3, "fits": 2, "not_run": 2, "oom": 1, "timeout": 2}
    assert summary["operators"]["add"] == {"cases": 3, "fits": 2, "oom l1_buffer": 1}
    assert (summary["slow"], summary["seconds"]) == (3, 24.57)
    assert summary["slowest"][0] == {"op": "view", "id": "g", "status": "timeout", "duration_s": 12.0}
    assert summary["not_run"] == [
        {"kind": "not_run", "op": "view", "cases": 2, "id": "i", "message": "TTNN maps 300,000 tiles", "operators": 1}
    ]


def test_without_a_record_there_is_no_summary():
    assert Summary.of([]).lines() == []


def test_calls_that_are_not_cases_are_counted():
    summary = "left out: 1,020 captured calls in 2 catalog lines without an operator (ssinghal operators --missing)"
    assert left_out([1000, 20]) == [summary]
    assert left_out([]) == []


@pytest.mark.parametrize("length", [200, 201, 100_000])
def test_a_long_text_is_shortened_to_its_two_ends(length):
    text = "".join(str(n % 10) for n in range(length))
    shown = cut(text, 200)
    assert len(shown) <= 200
    assert (shown == text) == (length == 200)
    assert shown.startswith(text[:60])
    assert shown.endswith(text[-16:])
