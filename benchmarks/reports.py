"""Measures the report of a run, part by part: python benchmarks/reports.py [RUN] (default: the last run in results)."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path

from ssinghal.report.writer import files_of
from ssinghal.runs.folders import find_run
from ssinghal.runs.reader import read_run


def main(arguments: list[str]) -> None:
    folder = find_run(arguments[0] if arguments else None, Path("results"))
    began = time.perf_counter()
    run = read_run(folder)
    parts = {"reading": time.perf_counter() - began}
    began = time.perf_counter()
    for name, made in files_of(run).items():
        for _ in made():
            pass
        kind = name.partition("/")[0]
        parts[kind] = parts.get(kind, 0.0) + time.perf_counter() - began
        began = time.perf_counter()
    for name, seconds in parts.items():
        print(f"{seconds:7.2f} s  {name}")
    print(f"{sum(parts.values()):7.2f} s  in one process, {len(run.records):,} records")
    with tempfile.TemporaryDirectory() as scratch:
        began = time.perf_counter()
        subprocess.run(
            [sys.executable, "-m", "ssinghal", "report", folder, "-o", scratch, "--results", scratch],
            check=True, stdout=subprocess.DEVNULL,
        )  # fmt: skip
        print(f"{time.perf_counter() - began:7.2f} s  ssinghal report, as a command")


if __name__ == "__main__":
    main(sys.argv[1:])
