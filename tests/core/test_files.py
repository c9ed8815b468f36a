"""Files on disk: complete lines whatever ends the process, and files that are replaced in one step."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
import time
import tracemalloc
from pathlib import Path

import pytest

from ssinghal.core.files import GrowingFile, LineFile, replacing, write_given, write_whole
from ssinghal.core.locks import FileLock, temporary_beside
from ssinghal.errors import HarnessError
from ssinghal.runs.latest import link_latest
from tests.runs.test_resuming import RECORDS
from tests.support.other_host import python_elsewhere
from tests.support.power_loss import after_power_loss
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
        LineFile(Path("/dev/full"), given=True) as file,
        pytest.raises(HarnessError, match=r"^cannot write /dev/full: No space left on device$"),
    ):
        file.write("text")


def test_a_device_file_needs_no_check_at_the_end():
    with LineFile(Path("/dev/null"), given=True) as file:
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


GROW = """
import sys
from pathlib import Path
from ssinghal.core.files import GrowingFile
from ssinghal.errors import HarnessError
try:
    with GrowingFile(Path(sys.argv[1])) as file:
        file.write("of the other")
        print("open", flush=True)
        sys.stdin.read()
except HarnessError as error:
    print(error)
"""


@pytest.mark.parametrize("elsewhere", [False, True])
def test_two_processes_do_not_append_to_one_file(tmp_path, elsewhere):
    """Neither loses a line: the second is refused, on whatever host it is, until the first has ended."""
    path = tmp_path / "lines.jsonl"

    def second() -> subprocess.Popen[str]:
        if elsewhere:
            return python_elsewhere(GROW, str(path), stdin=subprocess.PIPE)
        command = [sys.executable, "-c", GROW, str(path)]
        return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    refusal = f"{path} is in use by another command, which appends to it"
    with GrowingFile(path) as file:
        file.write("one")
        assert second().communicate(timeout=60)[0] == f"{refusal}\n"
        file.write("two")
    other = second()
    assert other.stdout is not None
    assert other.stdout.readline() == "open\n"
    with pytest.raises(HarnessError) as refused:
        GrowingFile(path)
    assert str(refused.value) == refusal
    other.kill()
    other.communicate()
    wait_for(lambda: not is_locked(path), "the end of its lock")
    with GrowingFile(path) as file:
        file.write("three")
    assert path.read_text().split("\n") == ["one", "two", "of the other", "three", ""]


@pytest.mark.parametrize("size", [0, 1, 2**20 - 1, 2**20, 2**20 + 1, 3 * 2**20 + 5])
@pytest.mark.parametrize("before", ["", "one\n"])
def test_a_truncated_line_of_any_length_is_removed_without_reading_the_file_at_once(tmp_path, before, size):
    path = tmp_path / "lines.jsonl"
    lines = before * 500_000 if size else before  # 2 MB
    path.write_text(lines + "x" * size)
    tracemalloc.start()
    try:
        with GrowingFile(path) as file:
            file.write("new")
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert path.read_text() == f"{lines}new\n"
    assert most < 1.5 * 2**20  # of 5 MB at most


def test_a_growing_file_that_cannot_be_locked_is_one_line(tmp_path, monkeypatch):
    def none(*_: object) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    (tmp_path / "lines").write_text("one\ntw")
    monkeypatch.setattr("fcntl.flock", none)
    with pytest.raises(HarnessError, match=r"^cannot write .*/lines: no locks here \(No locks available\)$"):
        GrowingFile(tmp_path / "lines")
    assert (tmp_path / "lines").read_text() == "one\ntw"


@pytest.mark.parametrize(
    ("content", "written"), [("text", b"text\n"), ("text\n", b"text\n"), ("\ud800", b"?\n"), (b"\0bytes", b"\0bytes")]
)
def test_a_file_is_replaced_and_leaves_nothing_alongside(tmp_path, content, written):
    path = tmp_path / "file"
    path.write_text("old")
    write_whole(path, content)
    assert path.read_bytes() == written
    assert list(tmp_path.iterdir()) == [path]


REPLACE = """
import sys
from pathlib import Path
from ssinghal.core.files import replacing
with replacing(Path(sys.argv[1])) as temporary:
    temporary.write_text("half")
    print(temporary, flush=True)
    sys.stdin.read()
    temporary.write_text("of the other process")
"""


def temporary_of(process: subprocess.Popen[str]) -> Path:
    assert process.stdout is not None
    return Path(process.stdout.readline().strip())


def replacing_in(path: Path, elsewhere: bool = False) -> subprocess.Popen[str]:
    if elsewhere:
        return python_elsewhere(REPLACE, str(path), stdin=subprocess.PIPE)
    command = [sys.executable, "-c", REPLACE, str(path)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


@pytest.mark.parametrize("elsewhere", [False, True])
def test_what_killed_processes_left_is_removed_with_the_next_file(tmp_path, elsewhere):
    path = tmp_path / "file"
    process = replacing_in(path, elsewhere)
    left = temporary_of(process)
    process.kill()
    process.communicate()
    wait_for(lambda: not is_locked(left), "the end of its lock")
    write_whole(path, "text")
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("elsewhere", [False, True])
def test_what_another_process_is_writing_stays_whatever_its_host_is(tmp_path, elsewhere):
    path = tmp_path / "file"
    process = replacing_in(path, elsewhere)
    other = temporary_of(process)
    write_whole(path, "text")
    assert sorted(tmp_path.iterdir()) == sorted([path, other])
    process.communicate(timeout=60)
    assert (process.returncode, path.read_text()) == (0, "of the other process")
    assert list(tmp_path.iterdir()) == [path]


def test_a_process_on_another_host_removes_nothing_that_is_being_written_here(tmp_path):
    path = tmp_path / "file"
    with replacing(path) as temporary:
        temporary.write_text("here")
        write = "import sys\nfrom pathlib import Path\nfrom ssinghal.core.files import *\nwrite_whole(Path(sys.argv[1]), 'x')"
        process = python_elsewhere(write, str(path))
        process.communicate(timeout=60)
        assert (process.returncode, path.read_text(), temporary.read_text()) == (0, "x\n", "here")
    assert path.read_text() == "here"


@pytest.mark.parametrize("is_link", [False, True])
@pytest.mark.parametrize(("name", "days", "stays"), [
    ("another_host-00000000-abcdefgh", 0, True),  # whose locks may not be seen here
    ("another_host-00000000-abcdefgh", 6.9, True),
    ("another_host-00000000-abcdefgh", 7.1, False),
    ("4194304", 0, True),  # of an earlier version
    ("4194304", 7.1, False),
    ("note", 7.1, True),
])  # fmt: skip
def test_what_may_be_of_another_host_goes_only_when_it_is_old(tmp_path, name, days, stays, is_link):
    left = tmp_path / f".file-{name}"
    left.symlink_to("nowhere") if is_link else left.touch()
    then = time.time() - days * 86_400
    os.utime(left, (then, then), follow_symlinks=False)
    write_whole(tmp_path / "file", "text")
    assert os.path.lexists(left) == stays


LINK = """
import sys
from pathlib import Path
from ssinghal.core.locks import link_beside
link = link_beside(Path(sys.argv[1], "latest"))
link.symlink_to("half")
print(link, flush=True)
sys.stdin.read()
"""


def test_a_link_of_a_killed_process_is_removed_with_the_next_one_and_no_other(tmp_path):
    process = subprocess.Popen(
        [sys.executable, "-c", LINK, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    link = temporary_of(process)
    link_latest(tmp_path, "run")
    assert sorted(tmp_path.iterdir()) == sorted([link, tmp_path / "latest"])
    process.kill()
    process.communicate()
    link_latest(tmp_path, "run")
    assert list(tmp_path.iterdir()) == [tmp_path / "latest"]


def test_a_link_of_another_host_is_removed_when_it_is_old(tmp_path):
    """Its process cannot be seen here, whether it has ended or not."""
    process = python_elsewhere(LINK, str(tmp_path), stdin=subprocess.PIPE)
    link = temporary_of(process)
    for _ in range(2):
        link_latest(tmp_path, "run")
        assert sorted(tmp_path.iterdir()) == sorted([link, tmp_path / "latest"])
        process.kill()
        process.communicate()
    os.utime(link, (0, 0), follow_symlinks=False)
    link_latest(tmp_path, "run")
    assert list(tmp_path.iterdir()) == [tmp_path / "latest"]


def test_a_file_system_without_locks_is_written_and_nothing_beside_it_removed(tmp_path, monkeypatch):
    def none(*_: object) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    left = temporary_beside(tmp_path / "file")
    left.write_text("half")
    monkeypatch.setattr("fcntl.flock", none)
    write_whole(tmp_path / "file", "text")
    assert sorted(tmp_path.iterdir()) == sorted([left, tmp_path / "file"])


def is_locked(path: Path) -> bool:
    try:
        FileLock(path, make=False).close()
    except BlockingIOError:
        return True
    return False


def test_what_is_no_regular_file_is_written_to_where_the_user_names_it(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with os.fdopen(os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)) as reading:
        write_given(pipe, "text")
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


# A power failure -----------------------------------------------------------------------------------------------------------

DISK = """
import time
from pathlib import Path
from ssinghal.core.files import GrowingFile, LineFile, SYNC_S, write_whole
Path("replaced").write_text("old")
Path("control").write_text("in the system's memory")
write_whole(Path("made"), "new")
write_whole(Path("replaced"), "new")
closed, growing, lines = LineFile(Path("closed")), GrowingFile(Path("growing")), LineFile(Path("lines"))
closed.write("one")
closed.close()
for file in (growing, lines):
    file.write("one")
time.sleep(SYNC_S)
for file in (growing, lines):
    file.write("two")
"""


def test_a_power_failure_costs_no_file_that_was_replaced_and_no_line_but_those_of_the_last_second(tmp_path):
    """The control shows that the disk has what was awaited alone."""
    after = after_power_loss(tmp_path, DISK)
    names = ("made", "replaced", "closed", "growing", "lines")
    assert [(after / name).read_text() for name in names] == ["new\n", "new\n", "one\n", "one\ntwo\n", "one\ntwo\n"]
    control = after / "control"
    assert not control.exists() or control.read_bytes().strip(b"\0") == b""


RUN = """
import time
from pathlib import Path
from ssinghal.core.files import SYNC_S
from tests.runs.test_resuming import RECORDS
from ssinghal.runs.writer import RunFolder, new_run
folder = RunFolder(Path("results"), new_run(Path(), {"catalogs": []}, 4))
folder.append(RECORDS[0])
time.sleep(SYNC_S)
folder.append(RECORDS[1])
"""


def test_a_run_whose_machine_loses_its_power_has_its_answers(tmp_path):
    latest = after_power_loss(tmp_path, RUN) / "results" / "latest"
    assert json.loads((latest / "run.json").read_text())["run"] == latest.resolve().name
    assert [json.loads(line)["key"] for line in (latest / "records.jsonl").read_text().splitlines()] == [
        record["key"] for record in RECORDS[:2]
    ]
