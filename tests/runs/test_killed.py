"""Commands that are killed before each of their changes to files: what they leave is as before, or can be completed, and the
next command works and removes the rest."""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path

import pytest

from ssinghal.core.locks import OLD_S
from ssinghal.core.temporary_folder import PREFIX, TemporaryFolder
from ssinghal.report.writer import write_report
from ssinghal.runs import column_file
from ssinghal.runs.compressing import repack
from ssinghal.runs.folders import read_head, run_folders
from ssinghal.runs.reader import read_run
from ssinghal.runs.resuming import UnfinishedRun
from tests.runs.test_merging import RECORDS as MERGED
from tests.runs.test_merging import shards
from tests.runs.test_resuming import CASES, RECORDS, kept
from tests.support.columns import records_by_columns
from tests.support.killed import aged, command, hidden, killed_at_each_change
from tests.support.run_builder import a_record, write_run

RUN = """
from dataclasses import replace
from pathlib import Path
from ssinghal.core.device_facts import DeviceFacts, DeviceMode
from ssinghal.runs.writer import RunFolder, new_run
from tests.runs.test_killed import RECORDS
device = DeviceFacts(DeviceMode.VIRTUAL, "n150", ttnn="0.81.1")
info = replace(new_run(Path(), {"catalogs": ["some"]}, 4, device), selection_sha256="ab", answerer="cd")
folder = RunFolder(Path("results"), info)
for record in RECORDS:
    folder.append(record)
folder.finish(4, ["a note"])
"""


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_run_that_was_killed_at_its_start_or_end_is_completed(tmp_path):
    (tmp_path / "before").mkdir()
    copies = killed_at_each_change(tmp_path / "before", RUN, tmp_path / "copies", "import tests.runs.test_killed")
    ends = set()
    for copy in copies:
        aged(copy)
        begun = sorted((copy / "results").glob("2*Z/run.json"))
        for folder in [path.parent for path in begun]:
            with UnfinishedRun(folder) as run:
                left = run.unanswered(CASES)
                ends.add((len(left), run.is_complete))
                if run.is_complete:
                    assert (folder / "summary.txt").read_text().splitlines()[-1] == "a note"
                    assert len(read_run(folder).records) == 4
                    continue
                going_on = run.continued()
                for case in left:
                    going_on.append(RECORDS[CASES.index(case)])
                going_on.finish(4)
            assert sorted(r["key"] for r in kept(folder)) == sorted(r["key"] for r in RECORDS)
            assert (folder / "summary.txt").read_text().startswith(f"run {folder.name}: 4 of 4 selected cases recorded")
            assert (folder.parent / "latest").resolve() == folder
            assert list(hidden(copy)) == []
    assert ends == {(4, False), (0, False), (0, True)}


def test_a_merge_that_was_killed_leaves_the_runs_as_they_were_or_a_complete_one(tmp_path, run, monkeypatch):
    write_run(tmp_path / "before" / "results", [a_record("tanh")], "20250101T000000.000000Z")
    (tmp_path / "before" / "results" / "latest").symlink_to("20250101T000000.000000Z")
    shards(tmp_path / "before" / "parts", 2)
    words = ("merge", "parts/2026Z1", "parts/2026Z2")
    copies = killed_at_each_change(tmp_path / "before", command(*words), tmp_path / "copies", "import ssinghal.cli.merge")
    before = run_folders(tmp_path / "before" / "results")
    found = set()
    for copy in copies:
        merged = [path for path in run_folders(copy / "results") if path.name != before[0].name]
        found.add(len(merged))
        for path in merged:
            assert read_head(path).finished
            assert len(read_run(path).records) == len(MERGED)
            assert (path / "summary.txt").exists()
        assert (copy / "results" / "latest").resolve() in [copy / "results" / before[0].name, *merged]
        monkeypatch.chdir(copy)
        aged(copy)
        assert run(*words).code == 0
        assert list(hidden(copy)) == []
        assert len(run_folders(copy / "results")) == len(merged) + 2
        assert len(read_run((copy / "results" / "latest").resolve()).records) == len(MERGED)
    assert found == {0, 1}


@pytest.mark.parametrize("undo", [False, True])
def test_compressing_that_was_killed_costs_no_line(tmp_path, undo):
    folder = write_run(tmp_path / "before", RECORDS, "run")
    content = (folder / "records.jsonl").read_bytes()
    if undo:
        repack(folder)
    words = command("compress", "run", *(["--undo"] if undo else []))
    copies = killed_at_each_change(tmp_path / "before", words, tmp_path / "copies", "import ssinghal.runs.compressing")
    states = set()
    for copy in copies:
        states.add(tuple((copy / "run" / name).exists() for name in ("records.jsonl", "records.jsonl.gz")))
        assert [r.key for r in read_run(copy / "run").records] == [r["key"] for r in RECORDS]
        repack(copy / "run", undo=undo)
        assert list(hidden(copy)) == []
        repack(copy / "run", undo=True)
        assert (copy / "run" / "records.jsonl").read_bytes() == content
    assert states == {(True, True), (not undo, undo), (undo, not undo)}


def report_code(run: str, *, in_parts: bool) -> str:
    first = (
        "from pathlib import Path\nfrom ssinghal.report.writer import write_report\nfrom ssinghal.runs.reader import read_run\n"
    )
    return f"{first}write_report(read_run(Path({run!r})), Path('report'), in_parts={in_parts})"


@pytest.mark.parametrize(("in_parts", "afterwards"), [(False, True), (True, False)])
def test_a_report_that_was_killed_leaves_nothing_in_the_next_one(tmp_path, in_parts, afterwards):
    """The next one, of a run without these operators, whether or not in parts, has the files that it has in an empty folder."""
    write_run(tmp_path / "before", [a_record(op) for op in ("relu", "gelu")], "one")
    other = write_run(tmp_path, [a_record("tanh")], "other")
    write_report(read_run(other), tmp_path / "wanted", in_parts=afterwards)
    first = "import ssinghal.report.writer"
    code = report_code("one", in_parts=in_parts)
    copies = killed_at_each_change(tmp_path / "before", code, tmp_path / "copies", first, step=4)
    assert len(copies) >= 9
    unlisted = set()
    for copy in copies:
        (copy / "report").mkdir(exist_ok=True)
        (copy / "report" / "mine.md").write_text("not of a report")
        unlisted.add("report/per_operator/gelu.md" in files(copy))
        write_report(read_run(other), copy / "report", in_parts=afterwards)
        (copy / "report" / "mine.md").unlink()
        assert files(copy / "report").keys() == files(tmp_path / "wanted").keys(), copy.name
    assert unlisted == {False, True}


COLUMNS = """
import os, tempfile
from pathlib import Path
os.makedirs("tmp", exist_ok=True)
tempfile.tempdir = os.path.abspath("tmp")
from ssinghal.runs import column_file
from ssinghal.runs.columns import Columns
column_file.CACHED_BYTES = 0
from ssinghal.runs.duck import Duck
with Duck() as duck, Columns(Path("run"), duck) as columns:
    assert columns.cases == 4
"""


def test_columns_that_were_killed_are_made_again_and_their_files_go(tmp_path, monkeypatch):
    write_run(tmp_path / "before", RECORDS, "run")
    copies = killed_at_each_change(tmp_path / "before", COLUMNS, tmp_path / "copies")
    monkeypatch.setattr(column_file, "CACHED_BYTES", 0)
    assert len(copies) >= 6
    left = 0
    for copy in copies:
        (copy / "tmp").mkdir(exist_ok=True)
        monkeypatch.setattr(tempfile, "tempdir", str(copy / "tmp"))
        for folder in (copy / "tmp").iterdir():
            left += 1
            os.utime(folder, (time.time() - 2 * OLD_S,) * 2)
        assert [r.key for r in records_by_columns(copy / "run")] == [r["key"] for r in RECORDS]
        assert list((copy / "tmp").iterdir()) == []
        (columns_file,) = hidden(copy)
        assert columns_file.endswith(".parquet")
    assert left > 2


def test_a_temporary_folder_that_is_in_use_or_young_stays(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    old = time.time() - 2 * OLD_S
    with TemporaryFolder() as held:
        (held.path / "file").write_text("")
        os.utime(held.path, (old, old))
        (tmp_path / f"{PREFIX}left").mkdir()
        os.utime(tmp_path / f"{PREFIX}left", (old, old))
        (tmp_path / f"{PREFIX}young").mkdir()
        (tmp_path / "elsewhere").mkdir()
        (tmp_path / f"{PREFIX}link").symlink_to(tmp_path / "elsewhere")
        with TemporaryFolder() as other:
            names = {path.name for path in tmp_path.iterdir()}
        assert names == {held.path.name, other.path.name, f"{PREFIX}young", f"{PREFIX}link", "elsewhere"}
    assert {path.name for path in tmp_path.iterdir()} == {f"{PREFIX}young", f"{PREFIX}link", "elsewhere"}
