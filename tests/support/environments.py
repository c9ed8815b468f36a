"""Environments that lack packages, as a user's would."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

_TREE = Path(__file__).parents[2]


def run_without(packages: tuple[str, ...], folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs the program in ``folder``, with the installed packages except those whose names start with one of these.

    Python starts without its site-packages, and finds links to the rest of them instead.
    """
    links = folder / "links"
    links.mkdir(exist_ok=True)
    for path in filter(os.path.isdir, sys.path):
        for entry in Path(path).iterdir() if "site-packages" in path else ():
            link = links / entry.name
            if not entry.name.startswith(packages) and not link.exists():
                link.symlink_to(entry)
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join([str(_TREE), str(links)])}
    command = [sys.executable, "-S", "-m", "ssinghal", *arguments]
    return subprocess.run(command, capture_output=True, text=True, cwd=folder, env=environ, timeout=300)


def one_line(done: subprocess.CompletedProcess[str], message: str) -> None:
    """Asserts bad input, before anything was done."""
    if done.returncode != 2 or done.stdout or message not in done.stderr or len(done.stderr.splitlines()) != 1:
        pytest.fail(f"exit code {done.returncode}\n{done.stdout}\n{done.stderr}")
