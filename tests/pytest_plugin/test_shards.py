"""``--oom-shard``: the suites in parts, whose runs ``ssinghal merge`` joins, and what a run keeps in memory."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ssinghal.core.case_sets import Shard, digest_of
from tests.support.processes import CONFTEST, Suite, catalog_text, module, oom_module, operator_module, read_lines

pytest_plugins = ["pytester"]

SHAPES = [[1, 32, 32 * n] for n in range(1, 10)]
OPERATORS = {"relu": [{"shape": shape} for shape in SHAPES], "add": [{"shape": shape} for shape in SHAPES[:3]]}
MODULES = {f"test_{name}.py": operator_module(name) for name in OPERATORS} | {"test_oom.py": oom_module("relu")}
OWN = ("run", "duration_s")


@pytest.fixture
def collect(pytester, monkeypatch):
    """Lists tests, and runs those of estimates, in this process; no device may open."""
    monkeypatch.setattr("ssinghal.pytest_plugin.session.Pool", lambda *_: pytest.fail("a device is opened"))
    pytester.makeconftest(CONFTEST)
    pytester.path.joinpath("catalog.yaml").write_text(catalog_text(OPERATORS))
    for name, text in MODULES.items():
        pytester.path.joinpath(name).write_text(text)
    pytester.path.joinpath("test_own.py").write_text("def test_own():\n    pass\n")

    def run(*arguments: str) -> pytest.RunResult:
        return pytester.runpytest_inprocess("-p", "no:cacheprovider", "--oom-catalog", "catalog.yaml", *arguments)

    return run


def named_tests(result: pytest.RunResult) -> list[str]:
    assert result.ret == 0, str(result.stdout)
    return [line for line in result.outlines if "::" in line]


@pytest.mark.parametrize("of", range(1, 8))
def test_each_test_of_a_case_is_in_exactly_one_part(collect, of):
    everything = named_tests(collect("--collect-only", "-q"))
    parts = [named_tests(collect("--collect-only", "-q", f"--oom-shard={number}/{of}")) for number in range(1, of + 1)]
    assert all("test_own.py::test_own" in part for part in parts), "a test without a case"
    listed = [test for part in parts for test in part if "test_own" not in test]
    assert sorted(listed) == sorted(test for test in everything if "test_own" not in test)
    cases = [{re.sub(r".*\[", "", test) for test in part if "[" in test and "add" not in test} for part in parts]
    assert sum(map(len, cases)) == len(SHAPES), "all tests of a case are in one part"


def test_the_ini_file_and_a_faulty_part(collect, pytester):
    pytester.makeini("[pytest]\noom_shard = 2/3\n")
    part = named_tests(collect("--collect-only", "-q"))
    assert named_tests(collect("--collect-only", "-q", "--oom-shard", "2/3")) == part
    assert len(named_tests(collect("--collect-only", "-q", "--oom-shard", "1/1"))) > len(part)
    result = collect("--oom-shard", "4/3")
    assert result.ret == 4
    assert [line for line in result.errlines if line] == [
        "ERROR: --oom-shard: shard '4/3': expected K/N, the part K of N, from 1/3 to 3/3"
    ]


ESTIMATES = ("-k", "memory_estimation and not 1x32x96", "--oom-results", "results")


def test_what_run_json_has_covers_every_other_selection(collect, pytester):
    """8 of 9 cases of relu: -k leaves one out, whatever the part. By their keys, part 2 has none: as any run without a test it
    writes nothing."""
    infos, cases = [], []
    for number in (1, 2, 3):
        ended = collect(*ESTIMATES, "--oom-shard", f"{number}/3").ret
        assert ended == (5 if number == 2 else 0)
        assert len(list((pytester.path / "results").glob("2*Z"))) == (1, 1, 2)[number - 1]
        run = (pytester.path / "results" / "latest").resolve()
        infos.append(info_of(run))
        records = read_lines(run / "records.jsonl")
        assert infos[-1]["selected"] == len(records)
        if number != 2:
            assert all(Shard(number, 3).has(r["key"]) for r in records)
            cases += [(r["op"], r["key"]) for r in records]
    assert len(set(cases)) == len(cases) == 8
    assert [info["shard"] for info in infos] == ["1/3", "1/3", "3/3"]
    assert {info["selected_of_all"] for info in infos} == {8}
    assert {info["selection_sha256"] for info in infos} == {digest_of(cases)}


def info_of(run: Path) -> dict[str, Any]:
    return dict(json.loads((run / "run.json").read_text()))


def merge(folder: Path, *runs: Path) -> subprocess.CompletedProcess[str]:
    program = [sys.executable, "-m", "ssinghal", "merge", *map(str, runs), "--results", "merged"]
    return subprocess.run(program, cwd=folder, text=True, capture_output=True)


def answers(path: Path) -> dict[tuple[str, str], dict[str, Any]]:
    records = read_lines(path / "records.jsonl")
    found = {(r["op"], r["key"]): {k: v for k, v in r.items() if k not in OWN} for r in records}
    assert len(found) == len(records)
    return found


@pytest.mark.virtual_device
def test_parts_with_and_without_xdist_are_merged(tmp_path):
    suite = Suite(tmp_path, OPERATORS, MODULES)
    code, output = suite.run()
    assert code == 0, output
    complete = suite.latest.resolve()
    parts = []
    for number, xdist in ((1, ["-n", "2"]), (2, []), (3, ["-n", "1"])):
        code, output = suite.run("--oom-shard", f"{number}/3", *xdist)
        assert code == 0, output
        parts.append(suite.latest.resolve())
    one = info_of(complete)
    for part in parts:
        info = info_of(part)
        for name in ("answerer", "selection_sha256", "selected_of_all"):
            assert info[name] == one[name] != "", name
    assert (one["selected"], one["selected_of_all"], one["shard"]) == (12, 12, "")

    done = merge(tmp_path, *parts)
    assert done.returncode == 0, done.stderr
    merged = (tmp_path / "merged" / "latest").resolve()
    assert answers(merged) == answers(complete)
    missing = len(answers(parts[1]))
    done = merge(tmp_path, parts[0], parts[2])
    line = f"ssinghal: {missing} of 12 selected cases are in none of the runs (shard 2/3)\n"
    assert (done.returncode, done.stdout, done.stderr) == (2, "", line)
    done = subprocess.run(
        [sys.executable, "-m", "ssinghal", "run", "--resume", str(parts[0])], cwd=tmp_path, text=True, capture_output=True
    )
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert (
        "a run of pytest cannot be resumed: expected one of ssinghal run; run its tests again, in parts with --oom-shard"
        in done.stderr
    )


# Memory -------------------------------------------------------------------------------------------------------------------

LOOK = """
import gc
from ssinghal.core.record import Record
from ssinghal.estimation.estimator import MemoryEstimate

def held(kind):
    gc.collect()
    return sum(isinstance(one, kind) for one in gc.get_objects())

def lines():
    gc.collect()
    return sum(isinstance(one, dict) and "allocated_to_logical" in one and "resident" in one for one in gc.get_objects())

def test_look():
    print("HELD", held(Record), held(MemoryEstimate), lines())
"""


@pytest.mark.virtual_device
@pytest.mark.parametrize("results", [False, True])
def test_records_are_dropped_after_the_last_test_of_their_case(tmp_path, results):
    """300 cases, of which every fifth (32 n ends in 0) has a second test later. Before that, the 60 records of these are kept,
    and few others."""
    modules = {
        "test_a.py": operator_module("relu"),
        "test_b.py": LOOK,
        "test_c.py": module("relu", "def test_later(case, compare):\n    compare(case)"),
        "test_d.py": LOOK,
    }
    suite = Suite(tmp_path, {"relu": [{"shape": [1, 32, 32 * n]} for n in range(1, 301)]}, modules)
    code, output = suite.run("-q", "-k", "look or test_relu or (later and 0-l1)", results=results)
    assert code == 0, output
    assert re.search(r"^total +300 ", output, re.MULTILINE)
    before, after = [tuple(map(int, found)) for found in re.findall(r"HELD (\d+) (\d+) (\d+)", output)]
    records, estimates, lines = before
    assert 60 <= records <= 65
    assert estimates <= 65
    assert lines <= 5
    assert max(after) <= 5
