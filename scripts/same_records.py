#!/usr/bin/env python
"""Runs the same cases in every way that there is, and compares the records: they must be equal but for times and provenance.

    python scripts/same_records.py
    python scripts/same_records.py --sample 3 local-2 cluster merged

Without names, all ways: some minutes on two cores. Each way has its own processes and folder. Prints what differs from
the first one, and exits with 1 where anything does.
"""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

Records = dict[tuple[str, str, str], dict[str, Any]]
PROGRAM = (sys.executable, "-m", "ssinghal")
PLACEMENTS, DTYPES, MAX_BYTES = "dram,l1,height", "bfloat16,bfloat8_b", 2**26
PROVENANCE = frozenset({"run", "duration_s", "test", "taken_from"})
OF_RUNS = frozenset({"estimate", "sources", "listed_shape"})  # which a pool of processes does not add
SHOWN = 10


class Ways:
    """Makes the records of one selection. ``folder``: for all results."""

    def __init__(self, folder: Path, sample: int) -> None:
        self.folder = folder
        self.selected = {"placements": PLACEMENTS, "dtypes": DTYPES, "sample": str(sample), "max-bytes": str(MAX_BYTES)}

    def options(self, prefix: str = "--") -> list[str]:
        return [word for name, value in self.selected.items() for word in (prefix + name, value)]

    def run(self, name: str, *more: str) -> Records:
        self._finished([*PROGRAM, "run", *self.options(), "--results", str(self.folder / name), *more])
        return self.read(self.folder / name / "latest")

    def one_worker(self) -> Records:
        return self.run("local-1", "--workers", "1")

    def two_workers(self) -> Records:
        return self.run("local-2", "--workers", "2")

    def cluster(self) -> Records:
        return self.run("cluster", "--cluster", "local:2")

    def killed(self) -> Records:
        """Killed twice, each time after some records more."""
        results = self.folder / "killed"
        command = [*PROGRAM, "run", *self.options(), "--results", str(results)]
        for most in (40, 90):
            process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            while process.poll() is None and self._count(results / "latest" / "records.jsonl") < most:
                time.sleep(0.01)
            process.send_signal(signal.SIGKILL)
            process.wait()
            command = [*PROGRAM, "run", "--results", str(results), "--resume", "latest"]
        self._finished(command)
        return self.read(results / "latest")

    def merged(self) -> Records:
        parts = [self.folder / f"part-{number}" for number in (1, 2, 3)]
        for number, part in enumerate(parts, 1):
            self._finished([*PROGRAM, "run", *self.options(), "--shard", f"{number}/3", "--results", str(part)])
        results = ["--results", str(self.folder / "merged")]
        self._finished([*PROGRAM, "merge", *(str(part / "latest") for part in reversed(parts)), *results])
        return self.read(self.folder / "merged" / "latest")

    def incremental(self) -> Records:
        """After runs of other cases, of which some are among these."""
        results = ["--results", str(self.folder / "incremental")]
        for other in (["--sample", "1"], [*self.options(), "--shard", "2/3"]):
            self._finished([*PROGRAM, "run", "--max-bytes", str(MAX_BYTES), *other, *results])
        return self.run("incremental", "--incremental")

    def in_order(self) -> Records:
        return self._pooled(shuffled=False)

    def shuffled(self) -> Records:
        return self._pooled(shuffled=True)

    def pytest(self) -> Records:
        return self._pytest("pytest")

    def xdist(self) -> Records:
        return self._pytest("xdist", "-n", "2")

    def _pytest(self, name: str, *more: str) -> Records:
        suites = ["ssinghal/tests", "-q", "-p", "no:cacheprovider", *self.options("--oom-")]
        self._finished([sys.executable, "-m", "pytest", *suites, "--oom-results", str(self.folder / name), *more])
        return self.read(self.folder / name / "latest")

    def _pooled(self, *, shuffled: bool) -> Records:
        """The cases of the first way, in one process of one pool."""
        from ssinghal.device.modes import choose_device
        from ssinghal.runner.pool import Pool
        from ssinghal.runner.tasks import PoolOptions
        from ssinghal.runs.parsing import case_of, parse_record

        if not (written := self.folder / "local-1" / "latest" / "records.jsonl").exists():
            self.one_worker()
        cases = [case_of(parse_record(line)) for line in written.read_text().splitlines()]
        if shuffled:
            random.Random(7).shuffle(cases)
        with Pool(choose_device("virtual"), PoolOptions(workers=1)) as pool:
            return _by_name([json.loads(json.dumps(record.to_json())) for record in pool.map(cases)])

    def _finished(self, command: list[str]) -> None:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode not in (0, 1):
            raise click.ClickException(f"{' '.join(command[1:])}: exit code {done.returncode}: {done.stderr[-500:]}")

    def _count(self, path: Path) -> int:
        return path.read_bytes().count(b"\n") if path.exists() else 0

    def read(self, run: Path) -> Records:
        return _by_name([json.loads(line) for line in (run / "records.jsonl").read_text().splitlines()])


def _by_name(lines: list[dict[str, Any]]) -> Records:
    records = {(line["op"], line["key"], line["id"]): line for line in lines}
    if len(records) < len(lines):
        raise click.ClickException(f"{len(lines) - len(records)} cases have several records")
    return records


WAYS: dict[str, Callable[[Ways], Records]] = {
    "local-1": Ways.one_worker,
    "local-2": Ways.two_workers,
    "in-order": Ways.in_order,
    "shuffled": Ways.shuffled,
    "cluster": Ways.cluster,
    "killed-resumed": Ways.killed,
    "merged": Ways.merged,
    "incremental": Ways.incremental,
    "pytest": Ways.pytest,
    "pytest-n-2": Ways.xdist,
}


def differences(first: Records, other: Records, ignored: frozenset[str]) -> list[str]:
    """Returns a line for each case that one of two ways lacks, and for each field of a case that differs."""
    lines = [f"{' '.join(name)}: only in one of them" for name in sorted(first.keys() ^ other.keys())]
    for name in sorted(first.keys() & other.keys()):
        left, right = first[name], other[name]
        for field in sorted((left.keys() | right.keys()) - ignored):
            if left.get(field) != right.get(field):
                lines.append(f"{' '.join(name)}: {field}: {str(left.get(field))[:150]} / {str(right.get(field))[:150]}")
    return lines


@click.command()
@click.argument("names", nargs=-1, type=click.Choice(list(WAYS)))
@click.option("--sample", default=1, show_default=True, help="Cases of each operator, before placements and dtypes.")
@click.option("--folder", type=click.Path(path_type=Path), help="Keep the runs here.")
def main(names: tuple[str, ...], sample: int, folder: Path | None) -> None:
    """Run the same cases in every way, and compare the records."""
    wrong = 0
    with tempfile.TemporaryDirectory(prefix="same-") as temporary:
        ways = Ways((folder or Path(temporary)).absolute(), sample)
        first: Records = {}
        for name in names or WAYS:
            records = WAYS[name](ways)
            first = first or records
            ignored = PROVENANCE | (OF_RUNS if name in ("in-order", "shuffled") else frozenset())
            lines = differences(first, records, ignored)
            wrong += len(lines)
            click.echo(f"{name}: {len(records):,} records, {len(lines):,} differences")
            for line in lines[:SHOWN]:
                click.echo(f"  {line}")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
