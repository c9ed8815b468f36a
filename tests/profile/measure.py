"""The allocations and frees of a program on a virtual board, by TTNN's own graph capture."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]


class Event(NamedTuple):
    kind: str  # allocate or free
    memory: str  # DRAM, L1 or L1_SMALL
    size_bytes: int  # per bank or core, as booked
    address: int = 0


def capture(program: Path, folder: Path, board: str = "n150", *arguments: str) -> tuple[list[Event], str]:
    """Its events and what it printed; a program that fails fails the test."""
    output = folder / "events.json"
    script = ROOT / "tests" / "profile" / "allocations.py"
    command = [sys.executable, "-m", "ssinghal", "exec", "--board", board, "--", sys.executable]
    done = subprocess.run(
        [*command, str(script), str(output), str(program), *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return [Event(*event) for event in json.loads(output.read_text())], done.stdout


def peaks(events: list[Event]) -> dict[str, int]:
    """The most that was live at once, in bytes per bank or core, of each memory."""
    live: dict[str, int] = {}
    peak: dict[str, int] = {}
    for event in events:
        change = event.size_bytes if event.kind == "allocate" else -event.size_bytes
        live[event.memory] = live.get(event.memory, 0) + change
        peak[event.memory] = max(peak.get(event.memory, 0), live[event.memory])
    return peak
