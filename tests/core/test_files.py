"""Files on disk: complete lines whatever ends the process, and files that are replaced in one step."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ssinghal.core.files import GrowingFile, LineFile, replacing, write_whole
from ssinghal.errors import HarnessError
from tests.support.processes import wait_for


def test_a_kill_truncates_the_last_line_at_most(tmp_path):
    """Lines of 200 kB, far beyond any buffer; the kill comes while they are written, sometimes between the pages of a line."""
    path = tmp_path / "lines.jsonl"
    code = (
        "import json, pathlib, sys\nfrom ssinghal.core.files import LineFile\n"
        "file = LineFile(pathlib.Path(sys.argv[1]))\n"
        'while True:\n    file.write(json.dumps({"text": "x" * 200_000}))\n'
    )
    process = subprocess.Popen([sys.executable, "-c", code, str(path)])
    try:
        wait_for(lambda: path.exists() and path.stat().st_size > 2_000_000, "some lines")
    finally:
        process.kill()
        process.wait()
    *lines, last = path.read_bytes().split(b"\n")
    assert {len(json.loads(line)["text"]) for line in lines} == {200_000}
    assert json.dumps({"text": "x" * 200_000}).encode().startswith(last)


def test_a_full_disk_is_one_line():
    with (
        LineFile(Path("/dev/full")) as file,
        pytest.raises(HarnessError, match=r"^cannot write /dev/full: No space left on device$"),
    ):
        file.write("text")


def test_a_device_file_needs_no_check_at_the_end():
    with LineFile(Path("/dev/null")) as file:
        file.write("text")


@pytest.mark.parametrize(("before", "kept"), [("", ""), ("one\n", "one\n"), ("one\ntw", "one\n"), ("tw", "")])
def test_a_growing_file_continues_after_its_last_complete_line(tmp_path, before, kept):
    path = tmp_path / "lines.jsonl"
    path.write_text(before)
    with GrowingFile(path) as file:
        file.write("new")
    assert path.read_text() == f"{kept}new\n"
    with pytest.raises(HarnessError, match=r"^cannot write .*no_folder/lines: No such file or directory$"):
        GrowingFile(tmp_path / "no_folder" / "lines")


@pytest.mark.parametrize(
    ("content", "written"), [("text", b"text\n"), ("text\n", b"text\n"), ("\ud800", b"?\n"), (b"\0bytes", b"\0bytes")]
)
def test_a_file_is_replaced_and_leaves_nothing_alongside(tmp_path, content, written):
    path = tmp_path / "file"
    path.write_text("old")
    write_whole(path, content)
    assert path.read_bytes() == written
    assert list(tmp_path.iterdir()) == [path]


def test_what_killed_processes_left_is_removed_with_the_next_file(tmp_path):
    """No process has the largest id there can be."""
    left, running, other = (tmp_path / f".{name}" for name in ("file-4194304", f"file-{os.getppid()}", "file-note"))
    for path in (left, running, other):
        path.write_text("half")
    write_whole(tmp_path / "file", "text")
    assert sorted(tmp_path.iterdir()) == sorted([tmp_path / "file", running, other])


def test_what_is_no_regular_file_is_written_to_and_stays(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with os.fdopen(os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)) as reading:
        write_whole(pipe, "text")
        assert reading.read() == "text\n"
    assert pipe.is_fifo()


def test_a_link_stays_a_link_to_what_is_replaced(tmp_path):
    (tmp_path / "elsewhere").mkdir()
    link, file = tmp_path / "link", tmp_path / "elsewhere" / "file"
    link.symlink_to(file)
    write_whole(link, "new")
    assert (link.is_symlink(), file.read_text()) == (True, "new\n")


def test_an_error_keeps_the_old_file_and_removes_the_new_one(tmp_path):
    path = tmp_path / "file"
    path.write_text("old")

    def interrupted():
        with replacing(path) as temporary:
            temporary.write_text("half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_that_cannot_be_written_is_one_line(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(HarnessError, match=r"^cannot write .*/file/x: Not a directory$"):
        write_whole(tmp_path / "file" / "x", "text")
