"""Has Python write its stack to a file when native code ends the process."""

from __future__ import annotations

import faulthandler
import os

from ssinghal.tracker.records import opened_high

PREFIX = "crash-"  # of the files, one for each process; they stay empty unless it crashes


def note_crashes(folder: str) -> None:
    """Writes the stack of a crash to a file of ``folder``; a program that has Python print it already keeps that."""
    if faulthandler.is_enabled():
        return
    faulthandler.enable(opened_high(os.path.join(folder, f"{PREFIX}{os.getpid()}.txt")), all_threads=False)
