"""Compares probing with the same calls made by a plain TTNN loop, in one run.

    python benchmarks/raw_ttnn.py [--sample N] [--workers W] [--components] [--json]

Chunk by chunk, alternately: (a) a loop that does nothing but place the operands (``ttnn.empty``), call the function, free, and
clear the program cache, which TTNN would otherwise fill with buffers that later calls lack. Arguments are made before the clock
starts, a RuntimeError is caught, nothing is recorded. (b) ``sweep``, as ``ssinghal run`` makes it: probes with usage captured,
each record with its estimate in a line of JSON. Both have the same number of worker processes and the same limits of host
memory, both reopen the device where the next case has another L1_SMALL region, and both find the kernel cache filled by a pass
before the clock starts; a call may take an hour. Equal calls are made once, and those that the product answers without TTNN
are left out.

On a shared machine the ratio of processor time (of the parent, the workers and their children) is steadier than that of elapsed
time. ``--components`` repeats the probes in one worker with clocks in them.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from raw_tasks import ClockedProbe, ComponentsTask, RawTask

from ssinghal.catalog.expansion import expand
from ssinghal.catalog.loader import load_catalogs
from ssinghal.core.boards import load_board
from ssinghal.core.case import Case
from ssinghal.core.closing import Closing
from ssinghal.core.record import Record
from ssinghal.core.tensors import Board
from ssinghal.device.modes import choose_device
from ssinghal.errors import InvalidCase
from ssinghal.operators import families
from ssinghal.operators.binding import bind
from ssinghal.runner.pool import Pool
from ssinghal.runner.probe import Limits
from ssinghal.runner.probers import LocalProber
from ssinghal.runner.sweep import sweep
from ssinghal.runner.tasks import PoolOptions
from ssinghal.runs.writer import RunFolder, new_run

SEED = 20250818
CHUNK = 100
BOARD = "n150"
TICKS = os.sysconf("SC_CLK_TCK")


def calls_ttnn(case: Case, board: Board) -> bool:
    """Returns whether a probe of the case calls TTNN, if its operands fit."""
    call = bind(case, board)
    try:
        inputs, outputs = call.specs()
    except InvalidCase:
        return False
    wraps = any(spec.wraps_page_count for spec in (*inputs, *outputs))
    return not wraps and not any(call.limitations(board)) and call.host_tiles <= Limits().host_tiles


def processor_seconds() -> float:
    """Returns the processor time of this process and of its children, running and ended."""
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    total = ended.ru_utime + ended.ru_stime + time.process_time()
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:  # it has just ended
            continue
        if int(fields[1]) == os.getpid():
            total += sum(map(int, fields[11:15])) / TICKS
    return total


@dataclass
class Side:
    """What one way of making the calls took, in seconds; ``parent`` of ``processor``."""

    wall: float = 0.0
    processor: float = 0.0
    parent: float = 0.0

    def measure(self, work: Callable[[], None]) -> None:
        wall, processor, parent = time.perf_counter(), processor_seconds(), time.process_time()
        work()
        self.wall += time.perf_counter() - wall
        self.parent += time.process_time() - parent
        self.processor += processor_seconds() - processor


class Benchmark(Closing):
    """Both sides, each with a pool of its own, whose processes make a call once; a third one fills the kernel cache."""

    def __init__(self, workers: int, folder: Path) -> None:
        options = PoolOptions(workers=workers, timeout_s=3600)
        self.board = load_board(BOARD)
        self.warm_pool, self.raw_pool, self.pool = (Pool(choose_device("virtual", BOARD), options) for _ in range(3))
        self.workers = workers
        self.folder = folder
        self.raw, self.product = Side(), Side()
        self.raw_seconds: dict[str, float] = {}
        self.seconds: dict[str, float] = {}
        self.names: dict[str, str] = {}

    def close(self) -> None:
        for pool in (self.warm_pool, self.raw_pool, self.pool):
            pool.close()

    def make_raw(self, pool: Pool, cases: Sequence[Case]) -> None:
        parts = [tuple(cases[first :: self.workers]) for first in range(self.workers)]
        for part, done in [(part, pool.run(RawTask(part))) for part in parts]:
            self.raw_seconds |= zip((case.key for case in part), done.result(), strict=True)

    def make_probes(self, cases: Sequence[Case]) -> None:
        def report(record: Record) -> None:
            self.seconds[record.key] = record.duration_s

        folder = RunFolder(self.folder, new_run(self.folder, {}, len(cases)))
        prober = LocalProber(self.pool, lambda case: self.pool.run(ClockedProbe(case)))
        sweep(cases, self.board, folder, report, opened=lambda: nullcontext(prober), answerer=lambda _: "")

    def compare(self, cases: Sequence[Case], *, raw_first: bool) -> None:
        self.names |= {case.key: case.name for case in cases}
        self.make_raw(self.warm_pool, cases)
        if raw_first:
            self.raw.measure(lambda: self.make_raw(self.raw_pool, cases))
        self.product.measure(lambda: self.make_probes(cases))
        if not raw_first:
            self.raw.measure(lambda: self.make_raw(self.raw_pool, cases))

    def figures(self) -> dict[str, Any]:
        cases, raw, product = len(self.seconds), self.raw, self.product
        of_each = [seconds / self.raw_seconds[key] for key, seconds in self.seconds.items()]
        return {
            "cases": cases,
            "workers": self.workers,
            "ratio of processor time": product.processor / raw.processor,
            "ratio of elapsed time": product.wall / raw.wall,
            "ratio of processor time in the worker, median of the cases": statistics.median(of_each),
            "parent's share of the product's processor time": product.parent / product.processor,
            "raw: ms of processor time a case": 1000 * raw.processor / cases,
            "product: ms of processor time a case": 1000 * product.processor / cases,
            "raw: cases per second": cases / raw.wall,
            "product: cases per second": cases / product.wall,
            **self._by_family(),
        }

    def _by_family(self) -> dict[str, float]:
        family_of = {name: family for family, members in families().items() for info in members for name in info.names}
        by_family: dict[str, list[str]] = defaultdict(list)
        for key, name in self.names.items():
            by_family[family_of[name]].append(key)
        figures = {}
        for family, keys in sorted(by_family.items()):
            raw = sum(self.raw_seconds[key] for key in keys)
            label = f"ratio in the worker, {family}: {len(keys)} calls, raw {1000 * raw / len(keys):.1f} ms each"
            figures[label] = sum(self.seconds[key] for key in keys) / raw
        return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--sample", type=int, help="so many calls of all catalogs, chosen by chance, the same each time; default: all"
    )
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--components", action="store_true")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    chosen = list({case.key: case for case in expand(load_catalogs(None)).cases}.values())
    random.Random(SEED).shuffle(chosen)
    chosen = chosen[: options.sample]
    cases = [case for case in chosen if calls_ttnn(case, load_board(BOARD))]
    with tempfile.TemporaryDirectory() as folder, Benchmark(options.workers, Path(folder)) as benchmark:
        for first in range(0, len(cases), CHUNK):
            benchmark.compare(cases[first : first + CHUNK], raw_first=first // CHUNK % 2 == 0)
            print(f"{len(benchmark.seconds)} of {len(cases)}", file=sys.stderr)
        parts = benchmark.raw_pool.run(ComponentsTask(tuple(cases))).result() if options.components else {}
        figures = benchmark.figures()
    figures["left out, as they need no call"] = len(chosen) - len(cases)
    figures |= {f"probe: ms of processor time a case, {part}": 1000 * spent / len(cases) for part, spent in parts.items()}
    if options.json:
        print(json.dumps(figures, indent=2))
    else:
        for name, value in figures.items():
            print(f"{value:12,.3f}  {name}")


if __name__ == "__main__":
    main()
