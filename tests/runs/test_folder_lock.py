"""One command at a time writes the folder of a run, on whatever machine it runs, and a lock that cannot be had is a line."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ssinghal.core.locks import LOCK
from ssinghal.errors import HarnessError
from ssinghal.runs.folder_lock import FolderLock
from tests.support.other_host import python_elsewhere

HOLD = """
import sys
from pathlib import Path
from ssinghal.errors import HarnessError
from ssinghal.runs.folder_lock import FolderLock
try:
    lock = FolderLock(Path(sys.argv[1]))
    print("held", flush=True)
    sys.stdin.read()
    lock.close()
except HarnessError as error:
    print(error)
"""


def holder(folder: Path, elsewhere: bool) -> subprocess.Popen[str]:
    if elsewhere:
        return python_elsewhere(HOLD, str(folder), stdin=subprocess.PIPE)
    command = [sys.executable, "-c", HOLD, str(folder)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


@pytest.mark.parametrize("elsewhere", [False, True])
def test_a_folder_is_held_against_every_host_and_nothing_is_left(tmp_path, elsewhere):
    refusal = f"{tmp_path}: the run is still in progress in another process"
    with FolderLock(tmp_path):
        assert holder(tmp_path, elsewhere).communicate(timeout=60)[0] == f"{refusal}\n"
    assert list(tmp_path.iterdir()) == []
    process = holder(tmp_path, elsewhere)
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    with pytest.raises(HarnessError) as refused:
        FolderLock(tmp_path)
    assert str(refused.value) == refusal
    process.communicate(timeout=60)
    assert list(tmp_path.iterdir()) == []


def test_what_a_killed_process_left_holds_nothing(tmp_path):
    process = holder(tmp_path, elsewhere=False)
    assert process.stdout is not None
    process.stdout.readline()
    process.kill()
    process.communicate()
    assert [path.name for path in tmp_path.iterdir()] == [LOCK]
    with FolderLock(tmp_path):
        pass
    assert list(tmp_path.iterdir()) == []


def test_one_of_many_processes_holds_a_folder_at_a_time(tmp_path):
    """Each removes the file at its end, which others may have opened before."""
    code = """
import sys, time
from pathlib import Path
from ssinghal.errors import HarnessError
from ssinghal.runs.folder_lock import FolderLock
folder, alone, held = Path(sys.argv[1]), Path(sys.argv[2]), 0
while held < 200:
    try:
        with FolderLock(folder):
            alone.mkdir()  # an error where it is there
            alone.rmdir()
            held += 1
    except HarnessError:
        time.sleep(0.0001)
"""
    (tmp_path / "run").mkdir()
    arguments = [sys.executable, "-c", code, str(tmp_path / "run"), str(tmp_path / "alone")]
    processes = [subprocess.Popen(arguments, stderr=subprocess.PIPE, text=True) for _ in range(4)]
    assert [(process.communicate(timeout=60)[1], process.returncode) for process in processes] == [("", 0)] * 4


def test_a_folder_that_cannot_be_locked_is_one_line(tmp_path, monkeypatch):
    def none(*_: object) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr("fcntl.flock", none)
    with pytest.raises(HarnessError) as refused:
        FolderLock(tmp_path)
    assert str(refused.value) == f"cannot lock {tmp_path} against other commands: no locks here (No locks available)"


def test_a_link_for_a_lock_is_not_followed(tmp_path):
    (tmp_path / LOCK).symlink_to(tmp_path / "made")
    with pytest.raises(HarnessError, match="a link: expected the file itself"):
        FolderLock(tmp_path)
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize("name", ["nothing", "file/x"])
def test_what_is_no_folder_is_an_error_of_the_system(tmp_path, name):
    (tmp_path / "file").touch()
    with pytest.raises((FileNotFoundError, NotADirectoryError)):
        FolderLock(tmp_path / name)
