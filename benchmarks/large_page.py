"""Measures reports of large runs: how long one takes to make, in how much memory, and how its page opens.

    python benchmarks/large_page.py [RUN] [--results results] [--cases 10000,100000] [--folder DIR] [--no-browser] [--json]

The cases are those of RUN (default: the run in --results with the most), repeated with other keys and, so that they have other
sizes, longer last dims. The report is made by ``ssinghal report``, in a process of its own. Opening is measured in headless
Chromium, from navigation to the second frame after a view appears, with all that it loads; heap: of its scripts, afterwards.
"""

from __future__ import annotations

import argparse
import json
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from page import TWO_FRAMES, VIEWS, largest

from ssinghal.report.large_page import PARTS
from ssinghal.runs.folders import find_run
from ssinghal.runs.line_files import RECORDS

MIB = 1024**2


def make_run(source: Path, folder: Path, cases: int) -> str:
    """Writes a run of so many cases, and returns the operator that has most of them."""
    lines = (source / RECORDS).read_text().splitlines()
    folder.mkdir(parents=True)
    operators: Counter[str] = Counter()
    with (folder / RECORDS).open("w") as file:
        for number in range(cases):
            record = json.loads(lines[number % len(lines)])
            if again := number // len(lines):
                record["key"], record["id"] = f"{record['key']}{again}", f"{record['id']}-{again}"
                if record["inputs"] and record["inputs"][0]:
                    record["inputs"][0][-1] += again
            operators[record["op"]] += 1
            file.write(json.dumps({**record, "run": folder.name}) + "\n")
    info = json.loads((source / "run.json").read_text())
    (folder / "run.json").write_text(json.dumps({**info, "run": folder.name, "selected": cases}))
    return operators.most_common(1)[0][0]


def make_report(run: Path, folder: Path) -> dict[str, float]:
    """Returns the time and the largest memory of ``ssinghal report``."""
    began, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, "-m", "ssinghal", "report", str(run), "-o", str(folder), "--results", str(run.parent)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return {
        "seconds": time.perf_counter() - began,
        "processor_s": after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime,
        "peak_mib": after.ru_maxrss / 1024,
    }


def opened(page: Path, hashes: dict[str, str]) -> Iterator[tuple[str, float, float]]:
    """Yields for each address the seconds until it is drawn, and the MiB of the heap of its scripts."""
    from playwright.sync_api import sync_playwright

    found = shutil.which("chromium")
    if found is None:
        sys.exit("no chromium on the PATH: apt-get install chromium")
    with sync_playwright() as started:
        browser = started.chromium.launch(executable_path=found, args=["--no-sandbox"])
        for name, hash in hashes.items():
            tab = browser.new_page(viewport={"width": 1440, "height": 900})
            tab.set_default_timeout(300_000)
            began = time.perf_counter()
            tab.goto(f"{page.as_uri()}#{hash}", wait_until="commit")
            tab.wait_for_selector("main[aria-busy=false] #view > *")
            tab.evaluate(TWO_FRAMES)
            taken = time.perf_counter() - began
            session = tab.context.new_cdp_session(tab)
            session.send("HeapProfiler.collectGarbage")
            heap = session.send("Runtime.getHeapUsage")["usedSize"] / MIB
            yield name, taken, heap
            tab.close()
        browser.close()


def addresses(report: Path, operator: str, a_case: str) -> dict[str, str]:
    if not (report / PARTS).is_dir():
        return {view: f"view={view}" for view in VIEWS}
    of_operator = {f"{view}, an operator": f"view={view}&op={operator}" for view in VIEWS}
    return {"summary": "", **of_operator, "cases, out of memory": "view=cases&status=oom", "a case": f"case={a_case}"}


def measure(source: Path, scratch: Path, cases: int, browser: bool) -> dict[str, Any]:
    run, report = scratch / str(cases) / "20260101T000000.000000Z", scratch / f"report-{cases}"
    operator = make_run(source, run, cases)
    with (run / RECORDS).open() as file:
        first = json.loads(file.readline())
    made = make_report(run, report)
    parts = list((report / PARTS).glob("*.js"))
    sizes = {
        "page_mib": (report / "report.html").stat().st_size / MIB,
        "parts": len(parts),
        "parts_mib": sum(path.stat().st_size for path in parts) / MIB,
        "report_mib": sum(path.stat().st_size for path in report.rglob("*") if path.is_file()) / MIB,
        "records_mib": (run / RECORDS).stat().st_size / MIB,
    }
    hashes = addresses(report, operator, f"{first['op']}:{first['key']}") if browser else {}
    views = (
        {name: {"seconds": s, "heap_mib": heap} for name, s, heap in opened(report / "report.html", hashes)} if hashes else {}
    )
    return {"cases": cases, **made, **sizes, "open": views}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", nargs="?", help="a run's folder, or its id in --results")
    parser.add_argument("--results", type=Path, default=Path("results"), help="folder of runs (default results)")
    parser.add_argument("--cases", default="10000,100000", help="numbers of cases (default 10000,100000)")
    parser.add_argument("--folder", type=Path, help="parent of the temporary folder")
    parser.add_argument("--no-browser", action="store_true", help="do not open the page")
    parser.add_argument("--json", action="store_true", help="print one JSON object for each number of cases")
    given = parser.parse_args()
    source = find_run(given.run, given.results) if given.run else largest(given.results)
    for cases in map(int, given.cases.split(",")):
        with tempfile.TemporaryDirectory(dir=given.folder) as scratch:
            found = measure(source, Path(scratch), cases, not given.no_browser)
        if given.json:
            print(json.dumps(found), flush=True)
            continue
        made = f"{found['seconds']:.0f} s, of processor time {found['processor_s']:.0f} s, {found['peak_mib']:,.0f} MiB at most"
        print(f"{cases:,} cases, {found['records_mib']:,.0f} MiB of records: ssinghal report takes {made}")
        parts = f"{found['parts']} parts {found['parts_mib']:.1f} MiB"
        print(f"page {found['page_mib']:.2f} MiB, {parts}, in all {found['report_mib']:,.0f} MiB")
        for name, view in found["open"].items():
            print(f"  opens on {name:28} {view['seconds']:6.2f} s, heap {view['heap_mib']:6.1f} MiB", flush=True)


if __name__ == "__main__":
    main()
