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


def run_ssinghal(folder: Path, *words: str | Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """Runs ``ssinghal`` of this checkout in ``folder``."""
    command = [sys.executable, "-m", "ssinghal", *map(str, words)]
    environ = {**os.environ, "PYTHONPATH": str(ROOT), **variables}
    return subprocess.run(command, cwd=folder, env=environ, capture_output=True, text=True, timeout=300)


def failure(program: Path, folder: Path, *arguments: str) -> str:
    """What a program that fails on an N150 leaves on standard error."""
    done = run_ssinghal(folder, "exec", "--board", "n150", "--", sys.executable, program, *arguments)
    assert done.returncode == 1, done.stderr[-2000:]
    assert done.stdout == ""
    return done.stderr


def capture(program: Path, folder: Path, board: str = "n150", *arguments: str) -> tuple[list[Event], str]:
    """Its events and what it printed; a program that fails fails the test."""
    output = folder / "events.json"
    script = ROOT / "tests" / "profile" / "allocations.py"
    done = run_ssinghal(folder, "exec", "--board", board, "--", sys.executable, script, output, program, *arguments)
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


def assert_as_recorded(events: list[Event], port: str) -> None:
    """Compares a port's events with the recorded ones, each with its address; those after the last allocation, with which the
    program ends, come in any order."""
    recorded = []
    for line in (ROOT / "tests" / "data" / "ports" / f"{port}.txt").read_text().splitlines():
        kind, memory, size, address = line.split()
        recorded.append(Event(kind, memory, int(size), int(address)))
    end = 1 + max(index for index, event in enumerate(recorded) if event.kind == "allocate")
    assert events[:end] == recorded[:end]
    assert sorted(events[end:]) == sorted(recorded[end:])
