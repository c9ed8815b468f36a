"""Measures a release matrix: the same catalog cases on each release, on a virtual board, from the start to the page.

    python benchmarks/releases.py [--cases 1000] [--ttnn 0.66.0,0.75.0,0.78.0,0.80.0,0.81.1] [--workers 2] [--board n150]

The releases must be installed already. Cases are spread evenly over all catalogs. Reports seconds for each release (including
opening its device) and cases per second, then reading, comparing and drawing, and the total.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

from packaging.version import Version

from ssinghal.catalog.expansion import expand
from ssinghal.catalog.loader import load_catalogs
from ssinghal.device.modes import choose_device
from ssinghal.device.releases import find_release
from ssinghal.release_matrix.matrix import Timeline
from ssinghal.release_matrix.page import page
from ssinghal.release_matrix.runner import RemainingCases, run_parts
from ssinghal.release_matrix.selection import parse_versions
from ssinghal.release_matrix.text import lines
from ssinghal.runner.tasks import PoolOptions


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=1000)
    parser.add_argument("--ttnn", default="0.66.0,0.75.0,0.78.0,0.80.0,0.81.1")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--board", default="n150")
    options = parser.parse_args()
    releases = [find_release(version) for version in sorted(parse_versions(options.ttnn), key=Version)]
    everything = expand(load_catalogs()).cases
    cases = [everything[i * len(everything) // options.cases] for i in range(min(options.cases, len(everything)))]
    choice = choose_device("virtual", options.board)
    pool_options = PoolOptions.of(choice, workers=options.workers)
    print(f"{len(cases):,} of {len(everything):,} cases on a virtual {options.board}, {options.workers} workers")
    started = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        parts = [RemainingCases.of(release, Path(folder), {"board": choice.board}, cases) for release in releases]
        for part in parts:
            begun = time.perf_counter()
            run_parts([part], choice, pool_options, lambda record: None)
            took = time.perf_counter() - begun
            print(f"  ttnn {part.release.version}: {took:6.1f} s, {len(cases) / took:,.0f} cases per second")
        begun = time.perf_counter()
        timeline = Timeline.of([part.folder.run_of(cases) for part in parts])
        size_bytes = len(page(timeline, "benchmark").encode())
        print(f"  read, compared and drawn: {time.perf_counter() - begun:.1f} s; a page of {size_bytes:,} B")
    print(f"total: {time.perf_counter() - started:.1f} s")
    print("\n".join(line for line in lines(timeline) if "→" in line and "moved" in line))


if __name__ == "__main__":
    main()
