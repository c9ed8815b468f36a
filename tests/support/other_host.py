"""Processes as on another machine that shares the files: with process ids and a host name of their own.

The kernel is the same, so that locks are seen on both sides, as between containers, or on NFS.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from functools import cache
from typing import Any

import pytest

_ENTER = ["unshare", "--pid", "--uts", "--fork", "--mount-proc", "--kill-child"]
_NAMED = ["sh", "-c", 'hostname another-host && exec "$@"', "sh"]


@cache
def _is_possible() -> bool:
    return (
        shutil.which("unshare") is not None and subprocess.run([*_ENTER, *_NAMED, "true"], capture_output=True).returncode == 0
    )


def python_elsewhere(code: str, *arguments: str, **options: Any) -> subprocess.Popen[str]:
    """Starts Python on the other machine; the process returned ends it, however it ends. Skips where that is not possible."""
    if not _is_possible():
        pytest.skip("no namespaces of processes and host names here (unshare --pid --uts)")
    return subprocess.Popen(
        [*_ENTER, *_NAMED, sys.executable, "-c", code, *arguments], stdout=subprocess.PIPE, text=True, **options
    )
