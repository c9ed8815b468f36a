"""Comparing runs of parts of a selection: what is in another part is a note, read as objects and by columns."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import ssinghal
from ssinghal.cli import cli
from ssinghal.errors import HarnessError
from ssinghal.runs import column_diff
from ssinghal.runs.change_kinds import ChangeKind
from ssinghal.runs.column_diff import compare_columns
from ssinghal.runs.diff import Changes
from ssinghal.runs.reader import read_run
from tests.support.processes import catalog_text
from tests.support.run_builder import a_record, write_run

ONE, OTHER = "20260101T000000.000000Z", "20260202T000000.000000Z"
OF_RUN = {"catalogs": [], "operators": [], "memory": None, "max_bytes": None, "per_operator": None}
OF_PYTEST = {"catalog": [], "op": [], "memory": None, "max-bytes": None, "sample": None}
Way = Callable[[Path, Path], Changes]


def part(record: dict[str, Any], of: int, later: int = 0) -> str:
    """The part of ``of`` that the key of a record decides, or one of the ``later`` ones."""
    return f"{(int(record['key'], 16) + later) % of + 1}/{of}"


def made(op: str = "relu", altered: list[str] | None = None, **fields: Any) -> dict[str, Any]:
    record = a_record(op, **fields)
    return record if altered is None else {**record, "altered": altered}


CALL, BOTH = made(altered=[]), made("tanh", altered=[])
MOVED, OWN = made(memory="dram", altered=["memory"]), made(memory="dram", altered=[])
DRAM = {"memory": "dram"}


@pytest.fixture(params=["objects", "columns"])
def way(request: pytest.FixtureRequest) -> Way:
    return compare_columns if request.param == "columns" else lambda *runs: Changes.of(*map(read_run, runs))


@pytest.fixture
def compared(tmp_path: Path, way: Way) -> Callable[..., Changes]:
    """Compares a run that has both records with one that has the common record alone, or the other way around."""

    def of(
        record: dict[str, Any], one: dict[str, Any], other: dict[str, Any], *, turned: bool, options: Any = OF_RUN
    ) -> Changes:
        sides = [([record, BOTH], one), ([BOTH], other)]
        runs = [
            write_run(
                tmp_path,
                records,
                run,
                options={**options, "shard": given.get("shard"), **given},
                shard=given.get("shard", ""),
            )
            for (records, given), run in zip(reversed(sides) if turned else sides, (ONE, OTHER), strict=True)
        ]
        return way(*runs)

    return of


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize(
    ("record", "one", "other"),
    [
        (CALL, {}, {"shard": part(CALL, 3, later=1)}),  # a merged or complete run
        (CALL, {"shard": part(CALL, 3)}, {"shard": part(CALL, 3, later=2)}),
        (CALL, {"shard": part(CALL, 3)}, {"shard": part(CALL, 8, later=5)}),
        (OWN, {"shard": part(OWN, 3), **DRAM}, {"shard": part(OWN, 3, later=1)}),
        # the call in the memory of the catalog has another key, which may be in another part
        (MOVED, {"shard": part(MOVED, 3), **DRAM}, {"shard": part(MOVED, 3)}),
        (MOVED, DRAM, {"shard": part(MOVED, 3)}),
    ],
)
@pytest.mark.parametrize("options", [OF_RUN, OF_PYTEST], ids=["run", "pytest"])
def test_a_case_of_another_part_is_a_note(compared, record, one, other, turned, options):
    changes = compared(record, one, other, turned=turned, options=options)
    assert (changes.found, changes.cases) == ((), 1)
    assert changes.notes == (f"{ONE if turned else OTHER} ran shard {other['shard']} alone; 1 case not compared",)


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize(
    ("record", "one", "other"),
    [
        (CALL, {}, {"shard": part(CALL, 3)}),
        (CALL, {"shard": part(CALL, 3)}, {"shard": part(CALL, 8)}),
        (CALL, {"shard": part(CALL, 3)}, {}),
        (CALL, {"shard": part(CALL, 3)}, {"shard": part(CALL, 3)}),
        (OWN, {"shard": part(OWN, 3), **DRAM}, {"shard": part(OWN, 3)}),
        (MOVED, {"shard": part(MOVED, 3), **DRAM}, {}),  # which has all calls, in whatever memory
    ],
)
def test_a_case_of_its_own_part_is_a_lost_fit_or_a_new_case(compared, record, one, other, turned):
    changes = compared(record, one, other, turned=turned)
    assert [change.kind for change in changes.found] == [ChangeKind.NEW_CASE if turned else ChangeKind.LOST_FIT]
    assert changes.notes == ()


@pytest.mark.parametrize(
    ("other", "reason"),
    [
        ({"operators": ["tanh"]}, "did not select these operators: relu"),
        ({"memory": "dram"}, "placed operands in dram"),
        ({"per_operator": 4}, "took a sample of 4 of each operator"),
    ],
)
def test_what_selects_before_the_part_is_the_reason(compared, other, reason):
    changes = compared(CALL, {}, {**other, "shard": part(CALL, 3, later=1)}, turned=False)
    assert (changes.found, changes.notes) == ((), (f"{OTHER} {reason}; 1 case not compared",))


def test_a_shard_that_is_none_is_one_line(compared):
    with pytest.raises(HarnessError, match=rf"^run {OTHER}: shard '9/3': expected K/N, the part K of N, from 1/3 to 3/3$"):
        compared(CALL, {}, {"shard": "9/3"}, turned=False)


def test_a_key_of_another_program_is_in_no_part(compared):
    changes = compared({**CALL, "key": "no number"}, {}, {"shard": "1/3"}, turned=False)
    assert [change.kind for change in changes.found] == [ChangeKind.LOST_FIT]


# Real runs -----------------------------------------------------------------------------------------------------------------

CALLS = {op: [{"shape": [1, 1, 32, 32 * width]} for width in range(1, 7)] for op in ("relu", "tanh")}  # all fit
PARTS = {f"p{number}": ["--shard", f"{number}/3"] for number in (1, 2, 3)}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The three parts of 12 calls in L1, their merged run, all calls in DRAM, and the second part of these."""
    folder = tmp_path_factory.mktemp("runs")
    (folder / "calls.yaml").write_text(catalog_text(CALLS, memory="l1"))
    commands = {**PARTS, "p2d": ["--shard", "2/3", "--memory", "dram"], "d": ["--memory", "dram"]}
    arguments = {name: ["run", str(folder / "calls.yaml"), *given] for name, given in commands.items()}
    arguments["m"] = ["merge", *(str(folder / name / "latest") for name in PARTS)]
    for name, given in arguments.items():
        done = CliRunner().invoke(cli, [*given, "--results", str(folder / name)])
        assert done.exit_code == 0, done.output
    return {name: (folder / name / "latest").resolve() for name in arguments}


@pytest.fixture(params=["objects", "columns"])
def read_as(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(column_diff, "LARGE_BYTES", 1 if request.param == "columns" else 2**40)


def cases_of(run: Path) -> dict[tuple[str, str], dict[str, Any]]:
    lines = (run / "records.jsonl").read_text().splitlines()
    return {(record["op"], json.dumps(record["inputs"])): record for record in map(json.loads, lines)}


@pytest.mark.virtual_device
@pytest.mark.parametrize(
    "names", [("m", "p2"), ("p2", "m"), ("p1", "p2"), ("p3", "p1"), ("p2", "p2d"), ("p2d", "p1"), ("m", "p2d")]
)
@pytest.mark.usefixtures("read_as")
def test_parts_of_the_same_calls_have_no_finding(runs, names):
    one, other = (cases_of(runs[name]) for name in names)
    done = CliRunner().invoke(cli, ["compare", *(str(runs[name]) for name in names), "--json"])
    assert done.exit_code == 0, done.output
    document = json.loads(done.stdout)
    assert document["changes"] == []
    common = one.keys() & other.keys()
    same = {call for call in common if one[call]["key"] == other[call]["key"]}
    assert document["cases"] == len(same)
    assert sum(len(memories["calls"]) for memories in document["placements"]) == len(common - same)
    left = [len(cases.keys() - common) for cases in (one, other)]
    counted = [int(note.rpartition("; ")[2].split()[0]) for note in document["notes"]]
    assert sorted(counted) == sorted(filter(None, left))


@pytest.mark.virtual_device
@pytest.mark.usefixtures("read_as")
def test_a_report_since_another_part_has_no_change(runs, tmp_path):
    done = CliRunner().invoke(cli, ["report", str(runs["p2"]), "--since", str(runs["m"]), "--output", str(tmp_path)])
    assert done.exit_code == 0, done.output
    assert f"since run {runs['m'].name}: no change\n" in done.stdout
    since = json.loads((tmp_path / "comprehensive_oom_report.json").read_text())["since"]
    others = len(cases_of(runs["m"])) - len(cases_of(runs["p2"]))
    assert (since["changes"], since["notes"]) == ([], [f"{runs['p2'].name} ran shard 2/3 alone; {others} cases not compared"])


@pytest.mark.virtual_device
def test_parts_of_the_suites_have_no_finding(tmp_path):
    (tmp_path / "calls.yaml").write_text(catalog_text(CALLS, memory="l1"))
    module = Path(ssinghal.__file__).parent / "oom_tests" / "test_oom_relu.py"
    names = [["--oom-shard", "1/2"], ["--oom-shard", "2/2"], []]
    for number, given in enumerate(names):
        options = ["--oom-catalog", str(tmp_path / "calls.yaml"), "--oom-results", str(tmp_path / str(number)), *given]
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(module), *options]
        done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=200)
        assert done.returncode == 0, done.stdout + done.stderr
    paths = [(tmp_path / str(number) / "latest").resolve() for number in range(3)]
    for one, other in ((0, 1), (2, 0), (1, 2)):
        done = CliRunner().invoke(cli, ["compare", str(paths[one]), str(paths[other]), "--json"])
        assert (done.exit_code, json.loads(done.stdout)["changes"]) == (0, [])


@pytest.mark.virtual_device
def test_the_parts_are_those_of_the_keys(runs):
    for name, number in (("p1", 1), ("p2", 2), ("p3", 3), ("p2d", 2)):
        of_all = cases_of(runs["d" if name == "p2d" else "m"])
        expected = {call for call, record in of_all.items() if int(record["key"], 16) % 3 == number - 1}
        assert cases_of(runs[name]).keys() == expected
    assert len(cases_of(runs["m"])) == 12
