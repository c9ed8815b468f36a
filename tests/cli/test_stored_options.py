"""The options in the ``run.json`` of a run that is resumed or merged: taken as they were given, or refused by name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ssinghal.catalog.choosing import Choice
from ssinghal.catalog.loader import from_folder
from ssinghal.core.boards import load_board
from ssinghal.core.device_facts import DeviceMode
from ssinghal.core.record import Record
from ssinghal.core.verdict import Status, Verdict
from tests.support.processes import catalog_text
from tests.support.run_builder import TTNN, write_run

CATALOG = "catalog.yaml"
SHAPES = [[1, 32, 32], [1, 32, 64]]
FINISHED = "2026-01-02T03:05:05+00:00"


def a_run(parent: Path, **info: Any) -> Path:
    """A run of the catalog, all of whose cases have an answer, but which did not end."""
    (parent / CATALOG).write_text(catalog_text({"relu": [{"shape": shape} for shape in SHAPES]}))
    chosen = Choice((str(parent / CATALOG),)).chosen(load_board("n150"))
    fits = Verdict(Status.FITS)
    records = [Record.of(c, fits, device_mode=DeviceMode.VIRTUAL, board="n150", ttnn=TTNN).to_json() for c in chosen.cases]
    head = {"options": {"catalogs": [CATALOG]}, "selection_sha256": chosen.digest, "selected_of_all": 2, "finished": None}
    return write_run(parent / "results", records, **{**head, **info})


def state_of(path: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in path.iterdir()}


@pytest.mark.parametrize("typed", [CATALOG, f"./{CATALOG}", f"sub/../{CATALOG}", ".", "{folder}/catalog.yaml"])
def test_catalogs_are_those_of_the_folder_of_the_run(run, tmp_path, monkeypatch, typed):
    """Also where the folder in which the run is resumed has another catalog of that name."""
    first, here = tmp_path / "first", tmp_path / "here"
    for folder in (first / "sub", here / "sub"):
        folder.mkdir(parents=True)
    (here / CATALOG).write_text(catalog_text({"gelu": [{"shape": SHAPES[0]}]}))
    options = {"catalogs": [typed.format(folder=first)]}
    path = a_run(first, options=options, folder=str(first))
    monkeypatch.chdir(here)
    done = run("run", "--resume", str(path))
    assert (done.code, done.err) == (0, "")
    assert "2 of 2 selected cases recorded" in done.out.splitlines()[0]
    assert json.loads((path / "run.json").read_text())["options"] == options, "compare and merge read them as they were typed"


@pytest.mark.parametrize("folder", ["", "/nosuch", "nosuch", "\0", "x" * 5000, "/dev/null", "/proc/self/mem"])
def test_catalogs_that_are_not_there_are_looked_for_here(run, tmp_path, folder):
    """As after a move of everything to another machine, or in a run of a version that did not state its folder."""
    path = a_run(tmp_path, folder=folder)
    done = run("run", "--resume", path.name)
    assert (done.code, done.err) == (0, "")


def test_a_built_in_catalog_comes_before_a_file_of_its_name(tmp_path):
    (tmp_path / "resnet50-224").mkdir()
    (tmp_path / "own").mkdir()
    assert from_folder(["resnet50-224", "own"], str(tmp_path)) == ("resnet50-224", str(tmp_path / "own"))


def test_merge_names_missing_cases_of_the_folder_of_the_runs(run, tmp_path, monkeypatch):
    path = a_run(tmp_path, folder=str(tmp_path), finished=FINISHED, answerer="ab", selected=1, shard="1/2", totals={"fits": 1})
    lines = (path / "records.jsonl").read_text().splitlines(keepends=True)
    (path / "records.jsonl").write_text(lines[0])
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    done = run("merge", str(path))
    missing = json.loads(lines[1])
    assert (done.code, done.out) == (2, "")
    assert f": relu {missing['id']}" in done.err


def test_a_run_of_which_only_the_end_is_missing_starts_no_device_process(run, tmp_path):
    path = a_run(tmp_path)
    done = run("run", "--resume", path.name, "--workers", "1")
    assert (done.code, done.err) == (0, "")
    lines = done.out.splitlines()
    assert lines[0].startswith(f"run {path.name}: 2 of 2 selected cases recorded; resumed ")
    assert [line for line in lines if "host memory" in line] == []
    assert "host memory" not in (path / "summary.txt").read_text()


@pytest.mark.parametrize("where", [["--scheduler", "tcp://127.0.0.1:9"], ["--cluster", "local:1"], ["--workers", "1"], []])
def test_processes_of_the_run_are_not_those_of_a_cluster(run, tmp_path, where):
    """--workers counts local processes, and here no case is left that would open any."""
    path = a_run(tmp_path, options={"catalogs": [CATALOG], "workers": 3})
    done = run("run", "--resume", path.name, *where)
    assert (done.code, done.err) == (0, ""), done.out


def test_processes_of_this_machine_beside_a_scheduler_are_refused(run, tmp_path):
    path = a_run(tmp_path, options={"catalogs": [CATALOG], "workers": 3})
    before = state_of(path)
    done = run("run", "--resume", path.name, "--scheduler", "tcp://127.0.0.1:9", "--workers", "2")
    assert done.code == 2
    assert "--workers" in done.err
    assert state_of(path) == before


# What a run writes of each option that it was not given, and of one that it was.
VALID = {
    "catalogs": [[CATALOG]],
    "operators": [[], ["relu"]],
    "memory": [None],
    "placements": [[]],
    "dtypes": [[]],
    "weights": [None],
    "max_bytes": [None, 1_000_000],
    "per_operator": [None, 2],
    "shard": [None, "1/1"],
    "remedies": [False],
    "incremental": [False, True],
    "board": [None, "n150"],
    "mode": ["auto", "virtual"],
    "timeout": [120.0, 60],
    "host_tiles": [200_000],
    "workers": [None, 3],
}


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, values in VALID.items() for value in values])
def test_what_a_run_writes_is_taken(run, tmp_path, name, value):
    path = a_run(tmp_path, options={"catalogs": [CATALOG], name: value})
    done = run("run", "--resume", str(path))
    assert (done.code, done.err) == (0, "")


LIST, TEXT, INTEGER, NUMBER, FLAG = "a list of texts", "a text", "an integer", "a number", "true or false"
WRONG: dict[str, tuple[tuple[str, ...], list[Any]]] = {
    LIST: (("catalogs", "operators", "placements", "dtypes"), ["text", 5, None, {}, True, [5], [None], [["l1"]], ["l1", 5]]),
    TEXT: (("memory", "weights", "shard", "board", "mode"), [5, 1.5, True, [], ["l1"], {}]),
    INTEGER: (("max_bytes", "per_operator", "host_tiles", "workers"), ["5", 1.5, True, [], [5], {}]),
    NUMBER: (("timeout",), ["5", True, [], [5], {}, None]),
    FLAG: (("remedies", "incremental"), ["true", 1, None, [], [True], {}]),
}  # fmt: skip
CASES = [
    (name, value, expected) for expected, (names, values) in WRONG.items() for name in names for value in values
]  # fmt: skip


@pytest.mark.parametrize(("name", "value", "expected"), [*CASES, ("mode", None, TEXT), ("host_tiles", None, INTEGER)], ids=str)
def test_a_value_of_another_type_is_refused_by_the_name_of_its_option(run, tmp_path, name, value, expected):
    path = a_run(tmp_path, options={"catalogs": [CATALOG], name: value})
    before = state_of(path)
    done = run("run", "--resume", str(path))
    line = f"ssinghal: {path / 'run.json'}: options.{name}: expected {expected}, not {json.dumps(value)}\n"
    assert (done.code, done.out, done.err) == (2, "", line)
    assert state_of(path) == before


def test_a_long_value_is_cut(run, tmp_path):
    """A third of 60 characters, with the quote, and a twelfth."""
    path = a_run(tmp_path, options={"catalogs": "x" * 1000})
    line = f'options.catalogs: expected a list of texts, not "{"x" * 19} … (1,002 characters) … xxxx"'
    assert run("run", "--resume", str(path)).err == f"ssinghal: {path / 'run.json'}: {line}\n"


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("timeout", -1, "above 0"),
        ("max_bytes", 0, "--max-bytes"),
        ("memory", "l2", "l2"),
        ("board", "n151", "n151"),
        ("shard", "3/2", "3/2"),
        ("catalogs", ["nosuch"], "nosuch"),
    ],
)
def test_a_value_that_means_nothing_is_one_line(run, tmp_path, name, value, text):
    path = a_run(tmp_path, options={"catalogs": [CATALOG], name: value})
    done = run("run", "--resume", str(path))
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
    assert text in done.err


def test_runs_with_a_value_of_another_type_are_not_merged(run, tmp_path):
    path = a_run(tmp_path, finished=FINISHED, options={"catalogs": [CATALOG], "placements": 5})
    done = run("merge", str(path))
    line = f"ssinghal: {path / 'run.json'}: options.placements: expected a list of texts, not 5\n"
    assert (done.code, done.out, done.err) == (2, "", line)


@pytest.mark.parametrize("name", ["records.jsonl", "run.json", "summary.txt"])
def test_a_link_in_the_folder_of_a_run_is_not_written_through(run, tmp_path, name):
    path = a_run(tmp_path)
    target = tmp_path / "elsewhere"
    target.write_bytes((path / name).read_bytes() if (path / name).exists() else b"kept")
    content = target.read_bytes()
    (path / name).unlink(missing_ok=True)
    (path / name).symlink_to(target)
    done = run("run", "--resume", str(path))
    assert done.code == 2
    assert f"{name}: a link: expected the file itself" in done.err
    assert target.read_bytes() == content


def test_records_with_another_name_are_not_appended_to(run, tmp_path):
    """A hard link may be a copy of a backup, or a file of the user's that somebody else's archive names."""
    path = a_run(tmp_path)
    records, other = path / "records.jsonl", tmp_path / "elsewhere"
    other.hardlink_to(records)
    content = other.read_bytes()
    done = run("run", "--resume", str(path))
    line = f"ssinghal: {records}: has another name (a hard link), under which it would change too; replace it by a copy of it\n"
    assert (done.code, done.out, done.err) == (2, "", line)
    assert (other.read_bytes(), records.read_bytes()) == (content, content)


def test_a_link_in_the_report_of_a_run_is_not_written_through(run, tmp_path):
    path = a_run(tmp_path)
    target = tmp_path / "elsewhere"
    target.write_text("kept")
    (path / "report").mkdir()
    (path / "report" / "report.html").symlink_to(target)
    done = run("report", str(path))
    assert done.code == 2
    assert "report.html: a link: expected the file itself" in done.err
    assert target.read_text() == "kept"
