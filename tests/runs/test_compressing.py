"""Runs whose records are compressed: every reader reads them, and damage or a bomb is one line."""

from __future__ import annotations

import gzip
import json
import os

import pytest
from click.testing import CliRunner

from ssinghal.cli import cli
from ssinghal.core.files import bounded_lines
from ssinghal.errors import HarnessError
from ssinghal.runs import compressing, line_files
from ssinghal.runs.compressing import repack
from ssinghal.runs.folder_lock import FolderLock
from ssinghal.runs.folders import find_run, run_folders
from ssinghal.runs.line_files import MAX_LINE_BYTES, blocks
from ssinghal.runs.reader import read_run
from tests.runs.test_columns import POOL
from tests.support.columns import records_by_columns
from tests.support.run_builder import RUN, write_run

OTHER = "20260202T000000.000000Z"


@pytest.fixture
def folder(tmp_path):
    return write_run(tmp_path, POOL[:13])


def files_of(folder):
    return sorted(path.name for path in folder.iterdir())


def test_there_and_back(folder):
    lines = folder / "records.jsonl"
    content, times = lines.read_bytes(), lines.stat().st_mtime_ns
    packed = repack(folder)
    assert files_of(folder) == ["records.jsonl.gz", "run.json"]
    assert gzip.decompress((folder / "records.jsonl.gz").read_bytes()) == content
    assert (packed.before, packed.after) == (len(content), (folder / "records.jsonl.gz").stat().st_size)
    assert packed.after < packed.before
    assert repack(folder) == compressing.Repacked(packed.after, packed.after)
    repack(folder, undo=True)
    assert (files_of(folder), lines.read_bytes()) == (["records.jsonl", "run.json"], content)
    assert lines.stat().st_mtime_ns == times


def test_equal_lines_give_equal_files(folder):
    content = []
    for _ in range(2):
        repack(folder)
        content.append((folder / "records.jsonl.gz").read_bytes())
        repack(folder, undo=True)
    assert content[0] == content[1]


def test_every_reader_reads_it(folder, tmp_path):
    before = read_run(folder)
    repack(folder)
    assert [find_run(text, tmp_path) for text in (RUN, str(folder), str(folder / "records.jsonl.gz"))] == [folder] * 3
    assert run_folders(tmp_path) == [folder]
    assert read_run(folder).records == before.records
    assert records_by_columns(folder) == before.records


def test_commands_read_it(folder, tmp_path):
    write_run(tmp_path, POOL[:12], OTHER)
    runner = CliRunner()
    commands = [
        ["compare", RUN, OTHER, "--json", "--fail-on", "none"],
        ["history", "relu", "1,64,640,400", "--json"],
        ["report", RUN, "-o", str(tmp_path / "report")],
    ]
    shown = []
    for _ in range(2):
        shown.append([runner.invoke(cli, [*command, "--results", str(tmp_path)]) for command in commands])
        runner.invoke(cli, ["compress", str(folder)])
    assert files_of(folder)[0] == "records.jsonl.gz"
    assert [result.exit_code for results in shown for result in results] == [0] * 6
    assert [result.output for result in shown[0]] == [result.output for result in shown[1]]


def test_the_command(folder, tmp_path):
    runner = CliRunner()
    size = (folder / "records.jsonl").stat().st_size
    done = runner.invoke(cli, ["compress", RUN, "--results", str(tmp_path)])
    packed = (folder / "records.jsonl.gz").stat().st_size
    assert (done.exit_code, done.output) == (0, f"{RUN}: {size:,} → {packed:,} B\n")
    again = runner.invoke(cli, ["compress", str(folder)])
    assert (again.exit_code, again.output) == (0, f"{RUN}: {packed:,} B, as before\n")
    undone = runner.invoke(cli, ["compress", "--undo", str(folder)])
    assert (undone.exit_code, undone.output) == (0, f"{RUN}: {packed:,} → {size:,} B\n")


@pytest.mark.parametrize("damage", ["cut", "flipped", "none of its kind"])
@pytest.mark.parametrize("read", [read_run, records_by_columns, lambda folder: repack(folder, undo=True)])
def test_a_damaged_file_is_one_line_and_stays(folder, damage, read):
    repack(folder)
    path = folder / "records.jsonl.gz"
    content = bytearray(path.read_bytes())
    if damage == "cut":
        del content[-20:]
    elif damage == "flipped":
        content[len(content) // 2] ^= 0xFF
    else:
        content[:4] = b"PK\3\4"
    path.write_bytes(content)
    with pytest.raises(HarnessError) as refused:
        read(folder)
    assert str(refused.value).startswith(str(path))
    assert "\n" not in str(refused.value)
    assert files_of(folder) == ["records.jsonl.gz", "run.json"]


@pytest.mark.parametrize("content", [b"\0" * (64 << 20), (b"{" + b" " * 9_998 + b"}\n") * 6_400])
def test_a_small_file_that_unpacks_to_much_is_refused(folder, content):
    (folder / "records.jsonl").unlink()
    path = folder / "records.jsonl.gz"
    path.write_bytes(gzip.compress(content))
    seen = []
    with pytest.raises(HarnessError, match=r"unpacks to more than 250 times its size|a line of more than"):
        seen.extend(len(block.data) for block in blocks(path))
    with pytest.raises(HarnessError, match=r"unpacks to more than 250 times its size|a line of more than"):
        read_run(folder)


def test_a_line_without_an_end_is_bounded(tmp_path):
    path = tmp_path / "records.jsonl"
    with path.open("wb") as file:
        file.truncate(MAX_LINE_BYTES + (9 << 20))
    with pytest.raises(HarnessError, match=f"{path}:1: a line of more than 16,777,216 B"):
        read_run(path)


@pytest.mark.parametrize("size", [MAX_LINE_BYTES, MAX_LINE_BYTES + 1])
@pytest.mark.parametrize("before", [0, 1, (8 << 20) - 1, 9 << 20])
def test_the_length_of_a_line_has_one_limit_wherever_it_begins(tmp_path, size, before):
    """Its end, which counts, may be in a block with other lines."""
    path = tmp_path / "records.jsonl"
    first = [b"x" * (before - 1) + b"\n"] if before else []
    path.write_bytes(b"".join([*first, b"y" * (size - 1) + b"\n", b"z\n"]))
    if size > MAX_LINE_BYTES:
        with pytest.raises(HarnessError, match=f"{path}:{len(first) + 1}: a line of more than 16,777,216 B"):
            list(blocks(path))
        with pytest.raises(ValueError, match=r"a line of more than 16,777,216 B"):
            list(bounded_lines(path))
    else:
        lines = [len(line) for block in blocks(path) for line in block.complete_lines()]
        assert lines == [*map(len, first), size, 2] == list(map(len, bounded_lines(path)))


def test_records_that_compress_better_than_may_be_read_stay(folder, monkeypatch):
    """No file is made that no reader reads."""
    monkeypatch.setattr(line_files, "MAX_RATIO", 1)
    monkeypatch.setattr(line_files, "FREE_BYTES", 1)
    before = (folder / "records.jsonl").read_bytes()
    with pytest.raises(HarnessError, match="unpacks to more than"):
        repack(folder)
    assert (files_of(folder), (folder / "records.jsonl").read_bytes()) == (["records.jsonl", "run.json"], before)


def test_a_run_in_progress_is_not_compressed(folder):
    with FolderLock(folder), pytest.raises(HarnessError, match="still in progress"):
        repack(folder)
    assert files_of(folder) == ["records.jsonl", "run.json"]


def test_a_file_that_does_not_read_as_written_is_dropped(folder, monkeypatch):
    """As on a disk that loses a byte."""
    written = compressing._written

    def lossy(source, to):
        digest = written(source, to)
        to.write_bytes(gzip.compress(gzip.decompress(to.read_bytes())[:-1]))
        return digest

    monkeypatch.setattr(compressing, "_written", lossy)
    with pytest.raises(HarnessError, match="does not read as it was written"):
        repack(folder)
    assert files_of(folder) == ["records.jsonl", "run.json"]


def test_a_full_disk_is_one_line(folder, monkeypatch):
    def full(*_):
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(HarnessError, match="No space left on device"):
        repack(folder)
    assert files_of(folder) == ["records.jsonl", "run.json"]


LINES = [b"".join(json.dumps(r).encode() + b"\n" for r in POOL[:count]) for count in (5, 8)]


@pytest.mark.parametrize(("undo", "stays"), [(False, "records.jsonl.gz"), (True, "records.jsonl")])
def test_of_two_files_with_the_same_lines_one_goes(folder, undo, stays):
    """As after a kill between the two steps, whatever the level of the compression."""
    lines, packed = folder / "records.jsonl", folder / "records.jsonl.gz"
    packed.write_bytes(gzip.compress(lines.read_bytes(), 1))
    content = {path.name: path.read_bytes() for path in (lines, packed)}
    sizes = (packed, lines) if undo else (lines, packed)
    expected = compressing.Repacked(*(len(content[path.name]) for path in sizes))
    assert repack(folder, undo=undo) == expected
    assert files_of(folder) == [stays, "run.json"]
    assert (folder / stays).read_bytes() == content[stays]


@pytest.mark.parametrize("undo", [False, True])
@pytest.mark.parametrize(
    ("plain", "other"), [(LINES[1], LINES[0]), (LINES[0], LINES[1]), (LINES[0], b""), (b"", LINES[0])]
)  # fmt: skip
def test_of_two_files_that_differ_none_goes(folder, run, undo, plain, other):
    """As where the run was resumed after the kill."""
    lines, packed = folder / "records.jsonl", folder / "records.jsonl.gz"
    lines.write_bytes(plain)
    packed.write_bytes(gzip.compress(other))
    before = {path: path.read_bytes() for path in (lines, packed)}
    done = run("compress", *(["--undo"] if undo else []), str(folder))
    line = f"{packed}: other records than in records.jsonl beside it, which every command reads: both are kept; remove one"
    assert (done.code, done.out, done.err) == (2, "", f"ssinghal: {line}\n")
    assert {path: path.read_bytes() for path in (lines, packed)} == before
    assert files_of(folder) == ["records.jsonl", "records.jsonl.gz", "run.json"]


@pytest.mark.parametrize("undo", [False, True])
def test_beside_a_damaged_file_the_other_stays(folder, undo):
    (folder / "records.jsonl.gz").write_bytes(gzip.compress((folder / "records.jsonl").read_bytes())[:-20])
    with pytest.raises(HarnessError, match=r"records\.jsonl\.gz: the compressed file is truncated"):
        repack(folder, undo=undo)
    assert files_of(folder) == ["records.jsonl", "records.jsonl.gz", "run.json"]


@pytest.mark.parametrize("undo", [False, True])
@pytest.mark.parametrize("name", ["records.jsonl", "records.jsonl.gz"])
@pytest.mark.parametrize("points", ["to a file", "nowhere"])
def test_a_link_is_refused(folder, tmp_path, undo, name, points):
    """What it points to belongs to somebody else."""
    elsewhere = tmp_path / "elsewhere"
    if points == "to a file":
        (folder / "records.jsonl").rename(elsewhere)
    (folder / name).unlink(missing_ok=True)
    (folder / name).symlink_to(elsewhere)
    before = files_of(folder)
    with pytest.raises(HarnessError) as refused:
        repack(folder, undo=undo)
    line = f"{folder / name}: a link: expected the file itself, as what a link leads to belongs elsewhere"
    assert str(refused.value) == line
    assert (files_of(folder), (folder / name).is_symlink()) == (before, True)


def test_a_folder_without_records_is_one_line(tmp_path):
    with pytest.raises(HarnessError, match=r"expected a run's folder, with records.jsonl or records.jsonl.gz in it"):
        repack(tmp_path)


def test_columns_of_the_other_file_go(folder, monkeypatch):
    monkeypatch.setattr("ssinghal.runs.column_file.CACHED_BYTES", 0)
    records_by_columns(folder)
    assert len(list(folder.glob(".records-*"))) == 1
    repack(folder)
    assert list(folder.glob(".records-*")) == []


@pytest.mark.parametrize("name", ["catalog.yaml", "records.json", "records.jsonl.gz.bak"])
def test_a_file_that_is_no_run_is_named(tmp_path, folder, name):
    (path := folder / name).write_text("add:\n")
    done = CliRunner().invoke(cli, ["compress", str(path)])
    assert isinstance(done.exception, HarnessError)
    assert str(done.exception) == f"{path}: expected a run's folder, or records.jsonl or records.jsonl.gz in one"
    assert files_of(folder) == sorted(["records.jsonl", "run.json", name])


@pytest.mark.parametrize("named", ["", "records.jsonl"])
def test_a_run_is_named_by_its_folder_or_its_records(folder, named):
    assert CliRunner().invoke(cli, ["compress", str(folder / named)]).exit_code == 0
    assert files_of(folder) == ["records.jsonl.gz", "run.json"]
