"""Measures what it costs that the disk has each answer after a second, and a file before it replaces another one.

``python benchmarks/durable.py FOLDER``: a folder on the disk in question. Run it on an idle machine.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import time
from pathlib import Path

from ssinghal.core import files

LINE = "x" * 2300  # characters, as many as a record has
PAUSE_S = 0.002  # between two lines, as a run writes about 400 in a second
FILES = 200


def replaced_ms(folder: Path, durable: bool) -> float:
    """Returns the milliseconds in which a file of the size of ``run.json`` is replaced."""
    started = time.perf_counter()
    for _ in range(FILES):
        with files.replacing(folder / "run.json", durable=durable) as temporary:
            temporary.write_text("x" * 3000)
    return (time.perf_counter() - started) / FILES * 1e3


def written_share(folder: Path, every_s: float, seconds: float) -> float:
    """Returns the share of the time that writing takes, if the disk has the lines after ``every_s``."""
    files.SYNC_S = every_s
    written = 0.0
    with files.LineFile(folder / f"lines-{every_s}") as file:
        end = time.perf_counter() + seconds
        while (started := time.perf_counter()) < end:
            file.write(LINE)
            written += time.perf_counter() - started
            time.sleep(PAUSE_S)
    return written / seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seconds", type=float, default=20.0)
    arguments = parser.parse_args()
    folder = Path(tempfile.mkdtemp(dir=arguments.folder))
    try:
        for durable in (False, True):
            print(f"replacing a file, durable={durable}: {replaced_ms(folder, durable):.1f} ms")
        for every_s in (1e9, files.SYNC_S):
            print(f"writing lines, on the disk after {every_s:g} s: {written_share(folder, every_s, arguments.seconds):.2%}")
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
