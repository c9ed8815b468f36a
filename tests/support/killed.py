"""Kills a program before each of its file changes in turn, and keeps a copy of the folder that each kill leaves.

Run as a program it is the process that forks, as the one of the tests may have threads:
``python -m tests.support.killed FOLDER COPIES CODE``.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

from ssinghal.core.locks import LOCK, OLD_S

_CHANGES = {"os.rename", "os.remove", "os.truncate", "os.symlink", "os.mkdir", "os.rmdir", "os.utime", "shutil.rmtree"}
MAX_KILLS = 400


def killed_at_each_change(folder: Path, code: str, copies: Path, first: str = "", step: int = 1) -> list[Path]:
    """Runs Python ``code`` in copies of ``folder``, each in a process that is killed (SIGKILL) before its n-th change of a file
    below: when it opens one to write, renames, truncates, links or removes it. Returns the copies in this order; the last is
    that of the process that ended by itself. ``first``: imports, done once. ``step``: 1, or every which change.
    """
    done = subprocess.run(
        [sys.executable, "-m", "tests.support.killed", str(folder), str(copies), code, first, str(step)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return sorted(copies.iterdir(), key=lambda path: int(path.name))


def _is_change(event: str, arguments: tuple[Any, ...], below: str) -> bool:
    if event == "open":
        path, _, flags = arguments
        if not isinstance(flags, int) or not flags & (os.O_WRONLY | os.O_RDWR):
            return False
    elif event in _CHANGES:
        path = arguments[0]
    else:
        return False
    if isinstance(path, int):
        return event == "os.truncate"
    return isinstance(path, (str, bytes, os.PathLike)) and os.path.abspath(os.fsdecode(path)).startswith(below)


def _killing(at: int) -> None:
    below = os.getcwd() + os.sep
    changes = count(1)

    def watch(event: str, arguments: tuple[Any, ...]) -> None:
        if _is_change(event, arguments, below) and next(changes) == at:
            os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(watch)


def _main(folder: str, copies: str, code: str, first: str, step: str) -> None:
    exec(first, {})
    for at in range(1, MAX_KILLS, int(step)):
        copy = Path(copies) / str(at)
        shutil.copytree(folder, copy, symlinks=True)
        child = os.fork()
        if child == 0:
            os.chdir(copy)
            _killing(at)
            exec(code, {"__name__": "killed"})
            return
        _, status = os.waitpid(child, 0)
        if os.WIFEXITED(status):
            sys.exit(os.WEXITSTATUS(status))
    sys.exit(f"not ended after {MAX_KILLS} changes")


def command(*words: str) -> str:
    """The code of ``ssinghal`` with these words."""
    return f"import sys\nsys.argv = ['ssinghal', *{list(words)!r}]\nfrom ssinghal.cli import main\nmain()\n"


def aged(folder: Path) -> None:
    """Lets hidden links, and folders that were not locked yet, be from long ago: young ones may be in use."""
    for path in folder.rglob(".*"):
        if path.is_symlink() or (path.is_dir() and not (path / LOCK).exists()):
            os.utime(path, (time.time() - 2 * OLD_S,) * 2, follow_symlinks=False)


def hidden(folder: Path) -> Iterator[str]:
    """The hidden files below a folder, which temporary ones are."""
    return (str(path.relative_to(folder)) for path in folder.rglob(".*"))


if __name__ == "__main__":
    _main(*sys.argv[1:])
