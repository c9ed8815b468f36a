"""What a disk has when the power fails: a file system in a file, whose state is copied while it is in use.

What the system holds in memory alone is not in the copy.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

# $1: a folder, $2: Python, $3: the program, which runs in the file system's folder. What it left is then in $1/after.
_SCRIPT = """
set -e
cd "$1"
truncate -s 32M disk
mkfs.ext4 -q -F disk
mkdir mounted after
mount -o loop,commit=600 disk mounted
touch made
(cd mounted && "$2" -c "$3")
cp disk copy
umount mounted
mount -o loop copy mounted
cp -a mounted/. after
umount mounted
"""


def after_power_loss(folder: Path, program: str) -> Path:
    """Runs a program of Python in an empty file system, and returns a folder with what the disk had when it had just ended.
    Skips where no file system can be mounted."""
    if os.geteuid() != 0 or not all(map(shutil.which, ("unshare", "mkfs.ext4", "mount"))):
        pytest.skip("no file system can be mounted here (unshare, mkfs.ext4, mount; as root)")
    command = ["unshare", "--mount", "sh", "-c", _SCRIPT, "sh", str(folder), sys.executable, program]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)})
    if not (folder / "made").exists():
        pytest.skip(f"no file system can be mounted here: {done.stderr.strip()}")
    assert done.returncode == 0, done.stderr
    return folder / "after"
