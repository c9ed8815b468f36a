"""``--oom-incremental``: a second run of the suites takes what the first one has answered."""

from __future__ import annotations

import pytest

from tests.support.processes import Suite, operator_module

RELU = {"relu": [{"shape": [1, 32, 64]}, {"shape": [1, 64, 1280, 800]}]}


def by_case(records):
    return {(r["op"], r["key"]): r for r in records}


@pytest.mark.virtual_device
@pytest.mark.parametrize("more", [[], ["-n", "2"]], ids=["one process", "xdist"])
def test_a_second_run_takes_all_answers(tmp_path, more):
    suite = Suite(tmp_path, RELU, {"test_relu.py": operator_module("relu")}, memory="l1")
    _, output = suite.run(*more)
    lines = [line for line in output.splitlines() if line.startswith("ssinghal: probing ")]
    assert lines == ([] if more else ["ssinghal: probing 2 cases on virtual n150 in 2 processes"])
    first, origin = by_case(suite.records), suite.latest.resolve().name
    assert len(suite.info["answerer"]) == 64
    _, output = suite.run("--oom-incremental", *more)
    second = by_case(suite.records)
    lines = [line for line in output.splitlines() if line.startswith("ssinghal: probing ")]
    taken = "ssinghal: probing 0 cases on virtual n150 in 2 processes; 2 answers are taken from earlier runs"
    assert lines == ([] if more else [taken])
    assert "2 of 2 answers taken from earlier runs (the same device, TTNN, code and limits)" in output
    assert {r["taken_from"] for r in second.values()} == {origin}
    apart = {"run": "", "taken_from": ""}
    assert {k: {**r, **apart} for k, r in second.items()} == {k: {**r, **apart} for k, r in first.items()}
    assert sorted(r["status"] for r in second.values()) == ["fits", "oom"]


def test_the_mode_needs_the_folder_of_the_runs(tmp_path):
    (tmp_path / "pytest.ini").write_text("[pytest]\noom_incremental = true\n")
    suite = Suite(tmp_path, RELU, {"test_relu.py": operator_module("relu")}, memory="l1")
    code, output = suite.run(results=False)
    assert code == 4
    assert "--oom-incremental takes answers from the runs in --oom-results: name that folder" in output
