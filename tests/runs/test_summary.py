"""The summary of a run: every error with its cause, slow cases, and cases that were not run with the reason."""

from __future__ import annotations

import json
import tracemalloc
from dataclasses import fields
from random import Random
from typing import Any

import pytest

from ssinghal.core.json_values import plain
from ssinghal.core.record import Record
from ssinghal.errors import cut
from ssinghal.runs.parsing import parse_record
from ssinghal.runs.summary import Summary, SummaryCounts, left_out
from tests.support.run_builder import a_record


def record(op: str, case_id: str, status: str = "fits", duration_s: float = 0.01, **more: Any) -> dict[str, Any]:
    return {"op": op, "id": case_id, "status": status, "duration_s": duration_s, **more}


RECORDS = [
    record("add", "a", duration_s=0.5),
    record("add", "b", "oom", resource="l1_buffer", message="4 tiles too many"),
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
    # 2 of 10 were not run; 3 of 8 took half a second and more: 0.5, 12 and 12 s; the other 5 took 0.01 s each
    at = lines.index("62.5 % of the cases took less than 0.5 s, all cases together 24.6 s of worker time; the slowest:")
    assert lines[at - 1].split() == ["total", "10", "2", "1", "3", "2", "2"]
    assert lines[at + 1 :] == [
        "    12.00 s  view g: timeout",
        "    12.00 s  view h: timeout",
        "     0.50 s  add a: fits",
        "oom: add b: l1_buffer: 4 tiles too many",
        "not_run: 2 cases of view, the first view i: TTNN maps 300,000 tiles",
        "error: 2 cases of mm, the first mm d: core 3-4 is busy with 17",
        "error: mm f: another thing",
        "timeout: view g: no answer within 12 s",
        "timeout: view h: no answer within 12 s",
        "leak: add c: left allocated {'l1': 2048}",
    ]


L1 = {"resource": "l1_buffer", "stage": "output", "bytes_per_bank": 532_480, "banks": 64, "free_bytes": 328_352}
BUFFERS = {"resource": "circular_buffer", "buffer_kind": "circular", "program_bytes": 1_500_000, "limit_bytes": 1_499_136}


@pytest.mark.parametrize(
    ("verdict", "words"),
    [
        (
            {**L1, "largest_free_bytes": 328_352},  # 532,480 - 328,352 B, of 1,024 B in a KiB
            "L1 bank needs 532,480 B, 328,352 B free (output); short by 199.3 KiB (204,128 B) per bank",
        ),
        (L1, "L1 bank needs 532,480 B, 328,352 B free (output)"),
        (BUFFERS, "circular buffers end at 1,500,000 B, L1 at 1,499,136 B; short by 864 B per core"),
        ({"resource": "trace_buffer", "message": "no\nroom"}, "trace_buffer: no\\nroom"),
        ({"message": "no room"}, "no room"),
    ],
)
def test_a_case_out_of_memory_has_its_missing_bytes(verdict, words):
    assert Summary.of([record("add", "x", "oom", **verdict)]).ooms == (f"oom: add x: {words}",)


@pytest.mark.parametrize("cases", [0, 1, 4, 5, 6, 7, 1000])
def test_the_first_cases_out_of_memory_are_named_in_whatever_order_they_end(cases):
    """By operator and id: four of ``a``, then those of ``b``."""
    names = [("a", f"{n}") for n in range(4)][:cases] + [("b", f"{n:04}") for n in range(cases - 4)]
    records = [record(op, name, "oom", **L1) for op, name in names] + [RECORDS[0], RECORDS[3]]
    first = [f"oom: {op} {name}: L1 bank needs 532,480 B, 328,352 B free (output)" for op, name in names[:5]]
    more = {6: ["oom: 1 more case"], 7: ["oom: 2 more cases"], 1000: ["oom: 995 more cases"]}.get(cases, [])
    for order in (records, records[::-1], Random(cases).sample(records, len(records))):
        summary = Summary.of(order)
        assert [*summary.ooms] == first + more
        lines = summary.lines("results/a b")
        pointer = (
            "all cases out of memory: ssinghal report 'results/a b'; what makes them fit: ssinghal remedy --run 'results/a b'"
        )
        assert [line for line in lines if "ssinghal" in line] == ([pointer] if cases else [])
        assert pointer not in summary.lines()


def test_no_search_is_suggested_to_a_run_that_has_its_remedies():
    searched = {**record("add", "x", "oom", **L1), "remedies": {"found": [], "refused": {}}}
    assert "all cases out of memory: ssinghal report results/a" in Summary.of([searched]).lines("results/a")


def test_few_cases_out_of_memory_are_kept():
    def held(cases: int) -> int:
        counts = SummaryCounts()
        tracemalloc.start()
        for n in range(cases):
            counts.add(record("add", f"{n:06}", "oom", **L1, message=f"{n}" * 500))
        size = tracemalloc.get_traced_memory()[0]
        tracemalloc.stop()
        return size

    assert held(2000) - held(20) < 20_000


@pytest.mark.parametrize(
    ("slow", "fast", "share"), [(1, 2556, "99.9 %"), (1, 9999, "99.9 %"), (0, 2, "100.0 %"), (1, 2, "66.6 %")]
)
def test_all_cases_are_fast_only_where_none_is_slow(slow: int, fast: int, share: str) -> None:
    """The share is rounded down: 2,556 of 2,557 are 99.96 %."""
    cases = [{**RECORDS[0], "duration_s": seconds} for seconds in (*[0.6] * slow, *[0.1] * fast)]
    assert any(line.startswith(f"{share} of the cases took less") for line in Summary.of(cases).lines())


def test_the_summary_states_no_time_of_cases_that_were_not_run() -> None:
    left = [{**RECORDS[0], "status": "not_run", "message": "no test ran it"}] * 3
    assert not [line for line in Summary.of(left).lines() if "took less than" in line]


def test_a_summary_as_json():
    summary = Summary.of(RECORDS).to_json()
    assert summary["totals"] == {"error": 3, "fits": 2, "not_run": 2, "oom": 1, "timeout": 2}
    assert summary["operators"]["add"] == {"cases": 3, "fits": 2, "oom l1_buffer": 1}
    assert (summary["slow"], summary["seconds"]) == (3, 24.57)
    assert summary["slowest"][0] == {"op": "view", "id": "g", "status": "timeout", "duration_s": 12.0}
    assert summary["not_run"] == [
        {"kind": "not_run", "op": "view", "cases": 2, "id": "i", "message": "TTNN maps 300,000 tiles", "operators": 1}
    ]


@pytest.mark.parametrize(("repeated", "counted"), [(1, "1 case"), (3, "3 cases")])
def test_cases_that_were_repeated_alone_are_counted(repeated, counted):
    again = [
        record("view", f"r{n}", retried="crash: the process that ran the call ended with SIGKILL") for n in range(repeated)
    ]
    summary = Summary.of([*RECORDS, *again])
    assert f"{counted} answered at the second attempt, alone: the process of the first was lost" in summary.lines()
    assert summary.to_json()["retried"] == repeated
    assert not any("second attempt" in line for line in Summary.of(RECORDS).lines())
    assert "retried" not in Summary.of(RECORDS).to_json()


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


@pytest.mark.parametrize("status", ["crash", "timeout"])
def test_many_crashes_and_timeouts_are_not_all_shown_alone(status):
    """20 have a line each, the others one for each operator and message, and none is left out."""
    ended = [record(f"op{n % 3}", str(n), status, message=f"no answer within {n} s") for n in range(10_000)]
    groups = Summary.of(ended).faults
    assert len(groups) == 20 + 3
    assert sorted(g.cases for g in groups) == [1] * 20 + [3326, 3327, 3327]  # of 10,000, op0 has 3,334, and 7 of the first 20
    assert sum(g.cases for g in groups) == 10_000


def test_causes_without_end_share_a_line():
    texts = [f"{a}{b}{c}" for a in "abcdefgh" for b in "abcdefgh" for c in "abcdefgh"]
    counts = SummaryCounts()
    for n, text in enumerate(texts):
        counts.add(record(f"op{n % 2}", str(n), "error", message=text))
    lines = counts.summary().lines()
    assert "error: 312 cases of 2 operators, the first op0 200: with other messages" in lines  # of 512, 200 are shown
    assert sum(line.startswith("error: ") for line in lines) == 201


@pytest.mark.parametrize("taken", [False, True])
@pytest.mark.parametrize("name", ["duration_s", "message", "remedies", "left_allocated", "retried", "taken_from", "resource"])
def test_a_line_without_what_is_at_its_default_counts_alike(name, taken):
    """As a reader takes it, where the line states the default, or null, or nothing."""
    line = {**a_record("relu", (1, 32, 32)), "taken_from": "2026Z" if taken else ""}
    default = plain(next(field.default for field in fields(Record) if field.name == name))
    default = {} if name == "left_allocated" else default
    texts = {json.dumps(Summary.of([{**line, name: default}]).to_json())}
    line.pop(name, None)
    texts.add(json.dumps(Summary.of([line]).to_json()))
    assert len(texts) == 1
    assert parse_record(json.dumps(line)) == parse_record(json.dumps({**line, name: default}))
