"""How long the page of a run takes to make and to open, and how large it is.

    python benchmarks/page.py [RUN] [--results results] [--repeat 5] [--json]

RUN is a run's folder or id, else the one of most records in --results. Opening is measured in headless Chromium (the one on the
PATH), from navigation to the second frame after a view is there, each time in a new browser profile. Every figure of a time is
the least and the median of several.
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
from pathlib import Path
from typing import Any

from ssinghal.report.page import SCRIPTS, page
from ssinghal.runs.reader import RECORDS, find_run, read_run, run_folders

VIEWS = ("overview", "matrix", "cases", "models", "padding")
TWO_FRAMES = "() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"


def seconds(work: Callable[[], Any], repeat: int) -> dict[str, float]:
    """Least and median of ``repeat`` times."""
    taken = []
    for _ in range(repeat):
        started = time.perf_counter()
        work()
        taken.append(time.perf_counter() - started)
    return {"least_s": round(min(taken), 3), "median_s": round(statistics.median(taken), 3)}


def opening(path: Path, repeat: int) -> dict[str, dict[str, float]]:
    """By view, from navigation to its first frames."""
    from playwright.sync_api import Page, sync_playwright

    found = shutil.which("chromium")
    if found is None:
        sys.exit("no chromium on the PATH: apt-get install chromium")

    def visit(tab: Page, view: str) -> None:
        tab.goto(f"{path.as_uri()}#view={view}", wait_until="commit")
        tab.wait_for_selector("#view > *")
        tab.evaluate(TWO_FRAMES)

    figures = {}
    with sync_playwright() as started:
        browser = started.chromium.launch(executable_path=found, args=["--no-sandbox"])
        for view in VIEWS:
            tabs = [browser.new_page(viewport={"width": 1440, "height": 900}) for _ in range(repeat)]
            waiting = iter(tabs)
            figures[view] = seconds(lambda view=view, waiting=waiting: visit(next(waiting), view), repeat)
            for tab in tabs:
                tab.close()
        browser.close()
    return figures


def largest(results: Path) -> Path:
    folders = run_folders(results)
    if not folders:
        sys.exit(f"no run in {results}: begin with: ssinghal run")
    return max(folders, key=lambda folder: (folder / RECORDS).stat().st_size)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", nargs="?", help="a run's folder, or its id below --results")
    parser.add_argument("--results", type=Path, default=Path("results"), help="where runs are (default results)")
    parser.add_argument("--repeat", type=int, default=5, help="times each figure is taken (default 5)")
    parser.add_argument("--json", action="store_true", help="all figures as one JSON object")
    options = parser.parse_args()
    folder = find_run(options.run, options.results) if options.run else largest(options.results)
    run = read_run(folder)
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch, "report.html")
        path.write_text(page(run), encoding="utf-8")
        figures = {
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
        print(f"{name:16} {taken['least_s']:6.2f} s at least, {taken['median_s']:6.2f} s median")


if __name__ == "__main__":
    main()
