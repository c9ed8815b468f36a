"""Measures how long a run's page takes to build and to open, and its size.

    python benchmarks/page.py [RUN] [--results results] [--repeat 5] [--json]

RUN is a run's folder or id; by default the run in --results with the most records. Opening is measured in headless Chromium
(the one on PATH), from navigation to the second frame after a view appears, each time in a new browser profile. Times are
reported as minimum and median.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from ssinghal.report.page import SCRIPTS, page
from ssinghal.runs.folders import find_run, run_folders
from ssinghal.runs.line_files import RECORDS
from ssinghal.runs.reader import read_run

VIEWS = ("overview", "matrix", "cases", "models", "padding")
TWO_FRAMES = "() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"


def seconds(work: Callable[[], Any], repeat: int) -> dict[str, float]:
    """Returns the minimum and the median of ``repeat`` times."""
    taken = []
    for _ in range(repeat):
        started = time.perf_counter()
        work()
        taken.append(time.perf_counter() - started)
    return {"least_s": round(min(taken), 3), "median_s": round(statistics.median(taken), 3)}


def opening(path: Path, repeat: int) -> dict[str, dict[str, float]]:
    """Returns seconds from navigation to the first frames, by view."""
    from playwright.sync_api import Page, sync_playwright

    found = shutil.which("chromium")
    if found is None:
        sys.exit("no chromium on the PATH: apt-get install chromium")

    def visit(tab: Page, view: str) -> None:
        tab.goto(f"{path.as_uri()}#view={view}", wait_until="commit")
        tab.wait_for_selector("#view > *")
        tab.evaluate(TWO_FRAMES)

    figures: dict[str, dict[str, float]] = {}
    with sync_playwright() as started:
        browser = started.chromium.launch(executable_path=found, args=["--no-sandbox"])
        for view in VIEWS:
            tabs = [browser.new_page(viewport={"width": 1440, "height": 900}) for _ in range(repeat)]
            waiting = iter(tabs)
            figures[view] = seconds(partial(lambda tabs, name: visit(next(tabs), name), waiting, view), repeat)
            for tab in tabs:
                tab.close()
        browser.close()
    return figures


def largest(results: Path) -> Path:
    folders = run_folders(results)
    if not folders:
        sys.exit(f"no run in {results}; start one with: ssinghal run")
    return max(folders, key=lambda folder: (folder / RECORDS).stat().st_size)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", nargs="?", help="a run's folder, or its id in --results")
    parser.add_argument("--results", type=Path, default=Path("results"), help="folder of runs (default results)")
    parser.add_argument("--repeat", type=int, default=5, help="repetitions per measurement (default 5)")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args()
    folder = find_run(options.run, options.results) if options.run else largest(options.results)
    run = read_run(folder)
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch, "report.html")
        path.write_text(page(run), encoding="utf-8")
        figures: dict[str, Any] = {
            "run": run.id,
            "cases": len(run.records),
            "scripts": len(SCRIPTS),
            "bytes": path.stat().st_size,
            "read the run": seconds(lambda: read_run(folder), options.repeat),
            "make the page": seconds(lambda: page(run), options.repeat),
            "open": opening(path, options.repeat),
        }
    if options.json:
        print(json.dumps(figures, indent=2))
        return
    print(f"run {run.id}: {figures['cases']:,} cases, {figures['bytes'] / 1024**2:.2f} MiB")
    rows = {name: figures[name] for name in ("read the run", "make the page")}
    rows |= {f"open: {view}": taken for view, taken in figures["open"].items()}
    for name, taken in rows.items():
        print(f"{name:16} {taken['least_s']:6.2f} s minimum, {taken['median_s']:6.2f} s median")


if __name__ == "__main__":
    main()
