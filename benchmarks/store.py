"""Measures the speed and size of the run index with 100 runs of 10,000 records, or with two runs of very many.

    python benchmarks/store.py [RUN] [--runs 100] [--records 10000] [--folder DIR] [--json]
    python benchmarks/store.py [RUN] --large 100000

The runs are copies of RUN (default: results/latest) under new names, extended to that many records, in a temporary folder of
about 3 GB that is removed afterwards. Every tenth run is of another release, and in each run one record in a hundred takes
more bytes than in the run before: more change than a nightly run sees.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

from ssinghal.core.shape_pattern import parse_pattern
from ssinghal.runs.history import History
from ssinghal.runs.index import STORE, Store

ASKED = (("add", "1,96,2160,3840"), ("mm", "*,*"))  # two cases; more than fifty
REPEAT = 5


def make_runs(source: Path, results: Path, runs: int, records: int) -> None:
    lines = [json.loads(line) for line in (source / "records.jsonl").read_text().splitlines()]
    whole = [{**lines[i % len(lines)]} for i in range(records)]
    for i, record in enumerate(whole):
        record["key"] = f"{record['key']}{i // len(lines) or ''}"
    info = json.loads((source / "run.json").read_text())
    for number in range(runs):
        started = datetime(2026, 1, 1, tzinfo=timezone.utc) + timedelta(days=number)
        folder = results / started.strftime("%Y%m%dT%H%M%S.%fZ")
        folder.mkdir()
        shared = {"run": folder.name, "ttnn": f"0.{80 + number // 10}.0"}
        for record in whole[number % 100 :: 100]:
            if record.get("usage"):
                record["usage"] = {**record["usage"], "l1_total_bytes": record["usage"]["l1_total_bytes"] + 32}
        (folder / "records.jsonl").write_text("".join(json.dumps({**record, **shared}) + "\n" for record in whole))
        described = {**info, "run": folder.name, "started": started.isoformat(), "selected": records}
        (folder / "run.json").write_text(json.dumps(described))


def seconds(action: Callable[..., Any], *arguments: Any) -> float:
    started = time.perf_counter()
    action(*arguments)
    return time.perf_counter() - started


def ask(store: Store, operator: str, shape: str) -> dict[str, Any]:
    """Returns the size of an answer and its minimum time, in process and as a command."""

    def here() -> None:
        list(History.of(store, operator, parse_pattern(shape)).lines())

    def there() -> None:
        command = ("history", operator, shape, "--results", str(store.path.parent))
        subprocess.run([sys.executable, "-m", "ssinghal", *command], check=True, stdout=subprocess.DEVNULL)

    told = History.of(store, operator, parse_pattern(shape))
    return {
        "cases": len(told.cases),
        "rows": sum(len(case.entries) for case in told.cases),
        "in_process_s": min(seconds(here) for _ in range(REPEAT)),
        "command_s": min(seconds(there) for _ in range(REPEAT)),
    }


def measure(results: Path) -> dict[str, Any]:
    store = Store(results / STORE)
    folders = sorted(path for path in results.iterdir() if path.is_dir())
    indexing = [seconds(store.index, folder) for folder in folders]
    found: dict[str, Any] = {
        "runs": len(folders),
        "records_bytes": sum((folder / "records.jsonl").stat().st_size for folder in folders),
        "index_run_s": {
            "first": indexing[0],
            "median": statistics.median(indexing),
            "last": indexing[-1],
            "slowest": max(indexing),
        },
        "store_bytes": store.path.stat().st_size,
        "sync_of_nothing_new_s": min(seconds(store.sync, results) for _ in range(REPEAT)),
        "history": {f"{operator} {shape}": ask(store, operator, shape) for operator, shape in ASKED},
    }
    touched = folders[len(folders) // 2] / "run.json"
    touched.write_text(touched.read_text() + "\n")
    found["sync_of_a_changed_run_s"] = seconds(store.sync, results)
    found["peak_mib"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    return found


def measure_large(source: Path, results: Path, records: int) -> list[str]:
    """Indexes a run of ``records`` new outcomes and a run of the same ones, then shows the history of all adds of rank 4;
    returns a line on each."""
    make_large(source, results, records)
    lines = []
    for folder in sorted(path for path in results.iterdir() if path.is_dir()):
        started, before = time.process_time(), time.perf_counter()
        Store(results / STORE).index(folder)
        cpu, wall = time.process_time() - started, time.perf_counter() - before
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
        size = (results / STORE).stat().st_size / 2**20
        lines.append(
            f"{records:,} records: {cpu:.1f} s of processor time ({1e6 * cpu / records:.0f} us each), {wall:.1f} s; "
            f"peak {peak} MiB; index {size:.0f} MiB"
        )
    command = [sys.executable, "-m", "ssinghal", "history", "add", "*,*,*,*", "--results", str(results)]
    printed = subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout.count(b"\n")
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    peak = used.ru_maxrss // 1024
    lines.append(f"history of {printed:,} lines: {used.ru_utime + used.ru_stime:.1f} s of processor time; peak {peak} MiB")
    return lines


def make_large(source: Path, results: Path, records: int) -> None:
    """Writes two runs that differ in their times alone, line by line."""
    lines = [json.loads(line) for line in (source / "records.jsonl").read_text().splitlines()[:2000]]
    info = json.loads((source / "run.json").read_text())
    for day in ("01", "02"):
        folder = results / f"202601{day}T000000.000000Z"
        folder.mkdir()
        with (folder / "records.jsonl").open("w") as file:
            for number in range(records):
                shared = {"run": folder.name, "key": f"{number:012x}", "duration_s": number / 1e6 + int(day)}
                file.write(json.dumps({**lines[number % len(lines)], **shared}) + "\n")
        described = {**info, "run": folder.name, "started": f"2026-01-{day}T00:00:00+00:00", "selected": records}
        (folder / "run.json").write_text(json.dumps(described))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", nargs="?", type=Path, default=Path("results/latest"))
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--records", type=int, default=10_000)
    parser.add_argument("--large", type=int, help="index two runs of so many records instead")
    parser.add_argument("--folder", type=Path, help="parent of the temporary folder")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=given.folder) as folder:
        if given.large:
            print("\n".join(measure_large(given.run, Path(folder), given.large)))
            return
        make_runs(given.run, Path(folder), given.runs, given.records)
        found = measure(Path(folder))
    if given.json:
        print(json.dumps(found, indent=2))
        return
    print(f"{found['runs']} runs of {given.records:,} records, {found['records_bytes'] / 2**30:.2f} GiB of records.jsonl")
    print(f"index: {found['store_bytes'] / 2**20:.1f} MiB; peak memory {found['peak_mib']} MiB")
    print("index one run: " + ", ".join(f"{name} {s:.2f} s" for name, s in found["index_run_s"].items()))
    print(f"sync: nothing new {found['sync_of_nothing_new_s']:.3f} s, one changed run {found['sync_of_a_changed_run_s']:.2f} s")
    for asked, told in found["history"].items():
        print(
            f"history {asked}: {told['cases']} cases, {told['rows']:,} rows: "
            f"{told['in_process_s']:.3f} s in process, {told['command_s']:.2f} s as a command"
        )


if __name__ == "__main__":
    main()
