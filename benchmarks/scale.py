"""Measures a run of many distinct cases: its rate, the memory of all its processes over time, and what a lost worker costs.

    python benchmarks/scale.py [--cases 5000] [--only here|cluster] [--workers 2] [--folder DIR] [--json]

Makes a catalog of distinct calls (many operators, shapes drawn from a seed, little work for the host), runs it with ``ssinghal
run`` on this machine, then on a local Dask cluster of 4 processes of which one is killed in the middle, and opens the report of
both runs. Memory is that of the parent alone, of all processes below it, and of the largest of these, in resident bytes: shared
pages count in each process. Needs the extra ``cluster``. 5,000 cases take some minutes on two cores, 100,000 a
quarter of an hour on an idle machine.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import psutil

UNARY = (
    "relu relu6 sigmoid tanh silu gelu exp log sqrt rsqrt neg abs sin cos sign floor round reciprocal square hardswish".split()
)
BINARY = "add sub mul div maximum minimum logical_and eq ne gt".split()
REDUCED = "softmax sum mean".split()
OPERATORS = (*UNARY, *BINARY, *REDUCED)
MEMORIES = ("dram", "l1")
CLUSTER_WORKERS = 4
SAMPLE_S = 1.0
SHARES = (0.1, 0.5, 1.0)


def catalog_text(cases: int, seed: int) -> str:
    """Returns an imported catalog of distinct calls, in equal parts per operator."""
    random = Random(seed)
    lines = ["schema: 1", "kind: imported", "title: distinct calls drawn from a seed"]
    lines += ["placement: {dtype: bfloat16, layout: tile, memory: dram, output_memory: same}", "operators:"]
    for number, operator in enumerate(OPERATORS):
        count = cases // len(OPERATORS) + (number < cases % len(OPERATORS))
        if count:
            lines.append(f"  {operator}:")
            lines += [f"  - {line}" for line in distinct_lines(random, operator, count)]
    return "\n".join(lines) + "\n"


def distinct_lines(random: Random, operator: str, count: int) -> Iterator[str]:
    seen: set[str] = set()
    while len(seen) < count:
        shape = [1, *(random.randint(1, 32) for _ in range(random.randint(0, 1))), *(drawn(random) for _ in range(2))]
        tensors = [shape] * (2 if operator in BINARY else 1)
        args = "" if operator not in REDUCED else ", args: {dim: [-1]}" if operator != "softmax" else ", args: {dim: -1}"
        memory = random.choice(MEMORIES)
        line = f"{{n: 1, in: {tensors}{args}, placement: {{memory: {memory}}}}}"
        if line not in seen:
            seen.add(line)
            yield line


def drawn(random: Random) -> int:
    """A size from 1 to 4096, small ones as often as large ones."""
    return round(2 ** random.uniform(0, 12))


@dataclass
class Memory:
    """Resident bytes at one time, with how many records there were, and the processor time until then of the parent and of what
    runs below it."""

    seconds: float
    records: int
    parent_cpu_s: float
    below_cpu_s: float
    parent: int
    below: int
    largest: int


@dataclass
class Measured:
    """One run."""

    seconds: float = 0.0
    first_record_s: float = 0.0
    records: int = 0
    lost: int = 0
    statuses: dict[str, int] = field(default_factory=dict)
    killed: int | None = None
    samples: list[Memory] = field(default_factory=list)
    report_s: float = 0.0
    page_bytes: int = 0
    folder_bytes: int = 0

    @property
    def rate(self) -> float:
        """Records per second from the first to the last."""
        return self.records / max(self.seconds - self.first_record_s, 1e-9)

    def milliseconds(self, name: str) -> float:
        """Processor time per record, from the first to 90 % of them: of ``parent`` or ``below``."""
        running = [sample for sample in self.samples if 0 < sample.records <= 0.9 * self.records]
        if len(running) < 2 or running[-1].records == running[0].records:
            return 0.0
        first, last = (getattr(sample, f"{name}_cpu_s") for sample in (running[0], running[-1]))
        return 1000 * float(last - first) / (running[-1].records - running[0].records)

    def at(self, share: float) -> Memory:
        """The first sample at which this share of the records was written, or the last one."""
        return next((sample for sample in self.samples if sample.records >= share * self.records), self.samples[-1])

    @property
    def peak_parent(self) -> int:
        """The most that the parent took, also while it wrote the summary and the index."""
        return max(sample.parent for sample in self.samples)

    def costs(self) -> dict[str, float]:
        return {f"{name}_ms": self.milliseconds(name) for name in ("parent", "below")}

    def to_json(self) -> dict[str, Any]:
        named = {f"{share:.0%}": vars(self.at(share)) for share in SHARES}
        plain = {name: value for name, value in vars(self).items() if name != "samples"}
        return {**plain, "rate": self.rate, "memory": named, "peak_parent": self.peak_parent, **self.costs()}


class Lines:
    """Counts the lines of a growing file, each once."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._at = self.count = 0

    def look(self) -> int:
        if self._path.exists():
            with open(self._path, "rb") as file:
                file.seek(self._at)
                while block := file.read(1 << 20):
                    self.count += block.count(b"\n")
                    self._at += len(block)
        return self.count


def measured_run(folder: Path, name: str, cases: int, *arguments: str, kill_at: float | None = None) -> Measured:
    """Runs the catalog, with its results in a new folder of this name, and kills a worker once this share of the records is
    written."""
    results = folder / name
    if results.exists():
        sys.exit(f"{results} has runs already: name another folder")
    command = [sys.executable, "-m", "ssinghal", "run", "scale.yaml", "--results", str(results), *arguments]
    found, started = Measured(), time.monotonic()
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
        parent = psutil.Process(process.pid)
        lines = Lines(results / "latest" / "records.jsonl")
        while process.poll() is None:
            count = lines.look()
            now = time.monotonic() - started
            if count and not found.first_record_s:
                found.first_record_s = now
            with suppress(psutil.NoSuchProcess):
                found.samples.append(sample_of(parent, now, count))
                if kill_at is not None and found.killed is None and count >= kill_at * cases:
                    found.killed = kill_worker(parent)
            with suppress(subprocess.TimeoutExpired):
                process.wait(SAMPLE_S)
        assert process.stderr is not None
        errors = process.stderr.read().decode(errors="replace")
    found.seconds = time.monotonic() - started
    if process.returncode not in (0, 1):
        sys.exit(f"{' '.join(command)} ended with {process.returncode}: {errors[-500:]}")
    run = (results / "latest").resolve()
    identities = set()
    with open(run / "records.jsonl") as file:
        for record in map(json.loads, file):
            identities.add((record["op"], record["key"]))
            found.records += 1
            found.statuses[record["status"]] = found.statuses.get(record["status"], 0) + 1
    found.lost = cases - len(identities)
    found.folder_bytes = sum(path.stat().st_size for path in run.iterdir())
    before = time.monotonic()
    report = [sys.executable, "-m", "ssinghal", "report", str(run), "-o", str(folder / f"report-{name}")]
    subprocess.run(report, check=True, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    found.report_s = time.monotonic() - before
    found.page_bytes = (folder / f"report-{name}" / "report.html").stat().st_size
    return found


def sample_of(parent: psutil.Process, seconds: float, records: int) -> Memory:
    """The processor time below the parent is also that of processes that have ended and were replaced, but for what no process
    waited for: the device process of a Dask worker that was killed."""
    sizes, below = [], ended_seconds(parent)
    for process in parent.children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            below += cpu_seconds(process) + ended_seconds(process)
            sizes.append(process.memory_info().rss)
    own = parent.memory_info().rss
    return Memory(seconds, records, cpu_seconds(parent), below, own, sum(sizes), max(sizes, default=0))


def cpu_seconds(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


def ended_seconds(process: psutil.Process) -> float:
    """Of the processes that it has started and waited for."""
    times = process.cpu_times()
    return float(times.children_user + times.children_system)


def kill_worker(parent: psutil.Process) -> int:
    """Kills a Dask worker; its device process ends by itself."""
    workers = [child for child in parent.children() if "spawn_main" in " ".join(child.cmdline())]
    workers[0].kill()
    return int(workers[0].pid)


def lines_of(name: str, found: Measured) -> Iterator[str]:
    yield f"{name}: {found.records:,} records in {found.seconds:.0f} s, {found.rate:.0f} per second after the first one"
    costs = found.costs()
    yield f"  processor time per record: parent {costs['parent_ms']:.2f} ms, all below it {costs['below_ms']:.2f} ms"
    yield f"  {', '.join(f'{status} {count:,}' for status, count in sorted(found.statuses.items()))}; lost {found.lost}"
    for share in SHARES:
        at = found.at(share)
        sizes = f"parent {mib(at.parent)}, all below it {mib(at.below)}, the largest {mib(at.largest)}"
        yield f"  {share:4.0%} ({at.records:,} records): {sizes}"
    yield f"  the parent's peak, at the end included: {mib(found.peak_parent)}"
    yield f"  run folder {mib(found.folder_bytes)}; report in {found.report_s:.1f} s, its page {mib(found.page_bytes)}"


def mib(size: int) -> str:
    return f"{size / 2**20:,.0f} MiB"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=19)
    parser.add_argument("--workers", type=int, default=2, help="device processes of the run without a cluster")
    parser.add_argument("--only", choices=("here", "cluster"))
    parser.add_argument("--folder", type=Path, help="keeps the catalog, the runs and the reports")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    cases, cluster = arguments.cases, f"local:{CLUSTER_WORKERS}"
    runs: dict[str, Callable[[Path], Measured]] = {
        "here": lambda folder: measured_run(folder, "here", cases, "--workers", str(arguments.workers)),
        "cluster": lambda folder: measured_run(folder, "cluster", cases, "--cluster", cluster, kill_at=0.5),
    }
    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "scale.yaml").write_text(catalog_text(arguments.cases, arguments.seed))
        found = {name: run(folder) for name, run in runs.items() if arguments.only in (None, name)}
    if arguments.json:
        print(json.dumps({name: one.to_json() for name, one in found.items()}, indent=2))
        return
    for name, one in found.items():
        for line in lines_of(name, one):
            print(line)


if __name__ == "__main__":
    main()
