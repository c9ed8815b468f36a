"""Two large runs are compared by columns: the changes are those that objects have, whatever the runs."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ssinghal.cli import cli
from ssinghal.core.verdict import Resource
from ssinghal.errors import HarnessError
from ssinghal.runs import column_diff
from ssinghal.runs.change_kinds import ChangeKind
from ssinghal.runs.column_diff import compare_columns
from ssinghal.runs.diff import Changes
from ssinghal.runs.judging import compared_values
from ssinghal.runs.parsing import parse_record
from ssinghal.runs.reader import read_run
from tests.runs.test_columns import POOL, SOURCES
from tests.runs.test_diff import BASE_076, BASE_081, ONE, OTHER, l1_oom, peaks, release
from tests.support.run_builder import a_record, write_run

L1_END = 1_499_136
SHAPES = [[1, 1, 32, 32], [1, 1, 32, 64], [1, 3, 64, 64], [2, 3, 64, 64], [1, 64, 640, 400]]
OPTIONS = [
    {},
    {"catalogs": []},
    {"catalogs": [], "memory": "l1"},
    {"catalogs": [], "memory": "dram"},
    {"catalogs": ["yolo"]},
    {"catalogs": ["unet"], "operators": ["relu", "add"]},
    {"catalogs": [], "per_operator": 2},
    {"catalogs": [], "max_bytes": 5000},
    {"catalogs": [], "placements": ["l1", "dram"]},
    {"catalogs": [], "shard": "1/2"},
    {"catalogs": [], "memory": "dram", "shard": "2/2"},
]


def variants(base):
    """The answers that a release with this reserved base may give to a call."""
    bank = L1_END - base

    def made(op, shape, memory, answer):
        fields = {"inputs": [shape] * (2 if op in ("add", "mul") else 1), "memory": memory, "sources": SOURCES[: answer % 6]}
        number = 4096 * (1 + answer % 2)

        def program(resource, **numbers):
            verdict = {"resource": resource, "stage": "program", **numbers}
            return a_record(op, status="oom", verdict=verdict, **fields)

        choices = [
            lambda: a_record(op, measured={"usage": peaks(number), "resident": {"l1": number}}, **fields),
            lambda: l1_oom(op, base, 1_500_000 + number, **fields),
            lambda: l1_oom(op, base, held=700_000 + number, **fields),
            lambda: program(Resource.CIRCULAR_BUFFER, program_bytes=base + 9_000_000 + number, limit_bytes=L1_END),
            lambda: program(Resource.CLASH, program_bytes=base + 200_000, tensor_address=253_952 + number),
            lambda: program(Resource.CIRCULAR_BUFFER, program_bytes=9_768_960, limit_bytes=bank),
            lambda: a_record(op, status="error", verdict={"message": f"failed {answer}"}, **fields),
            lambda: a_record(op, status="not_run", mode="none", ttnn="", **fields),
            lambda: a_record(op, status="unsupported", **fields),
            lambda: a_record(op, measured={"left_allocated": {"l1": number}}, **fields),
            lambda: a_record(op, ttnn="0.82.0", **fields),
            lambda: a_record(op, board="p150", **fields),
            lambda: a_record(op, mode="silicon", **fields),
            lambda: a_record(op, channels_last=True, **fields),
        ]
        return choices[answer % len(choices)]()

    return st.builds(
        made,
        st.sampled_from(["relu", "add", "mul", "gelu"]),
        st.sampled_from(SHAPES),
        st.sampled_from(["l1", "dram"]),
        st.integers(0, 27),
    )


def results_of(one, other, across):
    """What both ways find, or in which words they refuse."""
    found = []
    for way in (
        lambda: Changes.of(read_run(one), read_run(other), across=across),
        lambda: compare_columns(one, other, across=across),
    ):
        try:
            found.append(way())
        except HarnessError as error:
            found.append(str(error))
    return found


@given(data=st.data())
@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
def test_the_changes_are_those_of_the_objects(tmp_path_factory, data):
    bases = data.draw(st.sampled_from([(BASE_076, BASE_076), (BASE_076, BASE_081), (BASE_081, BASE_076)]))
    sides = [data.draw(st.lists(variants(base), min_size=1, max_size=12)) for base in bases]
    if data.draw(st.booleans()):  # most cases end as they did before
        sides[1] += sides[0]
    given = data.draw(st.sampled_from(OPTIONS)), data.draw(st.sampled_from(OPTIONS))
    parent = tmp_path_factory.mktemp("runs")
    selected = [len(side) + data.draw(st.sampled_from([0, 0, 3])) for side in sides]
    runs = [
        write_run(parent, side, run, options=options, selected=cases, shard=options.get("shard", ""))
        for side, run, options, cases in zip(sides, (ONE, OTHER), given, selected, strict=True)
    ]
    if data.draw(st.booleans()):
        with (runs[1] / "records.jsonl").open("ab") as file:
            file.write(b'{"schema": 1, "op": "re')
    objects, columns = results_of(*runs, data.draw(st.booleans()))
    assert columns == objects


@pytest.mark.parametrize("across", [False, True])
@pytest.mark.parametrize(
    ("before", "after"),
    [
        (release(BASE_076), release(BASE_081)),
        (release(BASE_081), release(BASE_076, relu=a_record("relu", measured={"usage": peaks(8192)}))),
        (POOL[:14], POOL[4:17]),
        ([a_record("relu", memory="l1")], [a_record("relu", memory="dram", board="p150")]),
    ],
)
def test_the_changes_of_chosen_runs_are_those_of_the_objects(tmp_path, before, after, across):
    runs = [write_run(tmp_path, side, run) for side, run in ((before, ONE), (after, OTHER))]
    objects, columns = results_of(*runs, across)
    assert columns == objects


def test_calls_in_another_memory_are_compared_call_by_call(tmp_path):
    sides = [
        [a_record(op, memory=memory, status=status) for op, status in (("relu", "fits"), ("gelu", second))]
        for memory, second in (("l1", "oom"), ("dram", "fits"))
    ]
    runs = [
        write_run(tmp_path, side, run, options={"catalogs": [], "memory": memory})
        for side, run, memory in zip(sides, (ONE, OTHER), ("l1", "dram"), strict=True)
    ]
    objects, columns = results_of(*runs, False)
    assert columns == objects
    assert [(call.after.op, call.fits.value) for call in columns.placements] == [("relu", "both"), ("gelu", "after")]


def test_records_are_made_of_changed_cases_alone(tmp_path, monkeypatch):
    """Of 40 cases, one of which takes more bytes now."""
    shapes = [(1, 1, 32, 32 * n) for n in range(1, 41)]
    before = [a_record("relu", shape, measured={"usage": peaks(4096)}) for shape in shapes]
    after = [*before[:7], a_record("relu", shapes[7], measured={"usage": peaks(8192)}), *before[8:]]
    runs = [write_run(tmp_path, side, run) for side, run in ((before, ONE), (after, OTHER))]
    made = []
    monkeypatch.setattr("ssinghal.runs.columns.parse_record", lambda line: made.append(line) or parse_record(line))
    (change,) = compare_columns(*runs).found
    assert (change.kind, change.key, len(made)) == (ChangeKind.GROWN, before[7]["key"], 2)


@pytest.mark.parametrize(
    ("changed", "same"),
    [
        ({"duration_s": 9.0, "run": "x", "test": "t", "taken_from": "y", "retried": "crash", "sources": []}, True),
        ({"estimate": None, "message": "other words", "usage_note": "none"}, True),
        ({"status": "unsupported"}, False),
        ({"left_allocated": {"l1": 32}}, False),
        ({"total_bytes": 7}, False),
        ({"resident": {"l1": 1}}, False),
    ],
)
def test_what_is_compared(changed, same):
    record = a_record("relu", measured={"usage": peaks(4096), "resident": {"l1": 4096}}, sources=SOURCES)
    one, other = (parse_record(json.dumps(fields)) for fields in (record, {**record, **changed}))
    assert (compared_values(one) == compared_values(other)) is same


def test_the_command_compares_large_runs_by_columns(tmp_path, monkeypatch):
    monkeypatch.setattr(column_diff, "LARGE_BYTES", 1)
    runs = [write_run(tmp_path, records, run) for records, run in ((release(BASE_076), ONE), (release(BASE_081), OTHER))]
    called = []
    monkeypatch.setattr(
        column_diff, "compare_columns", lambda *given, **named: called.append(1) or compare_columns(*given, **named)
    )
    shown = [CliRunner().invoke(cli, ["compare", *map(str, runs), "--results", str(tmp_path), "--json"])]
    monkeypatch.setattr(column_diff, "LARGE_BYTES", 2**40)
    shown.append(CliRunner().invoke(cli, ["compare", *map(str, runs), "--results", str(tmp_path), "--json"]))
    assert len(called) == 1
    assert [result.exit_code for result in shown] == [0, 0]
    assert json.loads(shown[0].output) == json.loads(shown[1].output)
