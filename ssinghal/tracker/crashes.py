"""Has Python write its stack to a file when native code ends the process."""

from __future__ import annotations

import faulthandler
import os

PREFIX = "crash-"  # of the files, one for each process; they stay empty unless it crashes


def note_crashes(folder: str) -> None:
    """Writes the stack of a crash to a file of ``folder``; a program that has Python print it already keeps that."""
    if faulthandler.is_enabled():
        return
    try:
        descriptor = os.open(os.path.join(folder, f"{PREFIX}{os.getpid()}.txt"), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    except OSError:
        return
    faulthandler.enable(descriptor, all_threads=False)
