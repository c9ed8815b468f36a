"""Measures how time and memory of a run grow with its cases: distinct additions, probed on a virtual board by two workers.

    python benchmarks/growth.py [--counts 100,1000,10000] [--workers 2]

Per count: milliseconds of processor time a case (parent, workers and their children), cases per second, and the resident memory
of parent and workers at the end. All counts in one run, the workers new for each.
"""

from __future__ import annotations

import argparse
import os
import resource
import tempfile
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from itertools import islice, product
from pathlib import Path

from ssinghal.core.boards import load_board
from ssinghal.core.case import Case
from ssinghal.core.record import Record
from ssinghal.device.modes import choose_device
from ssinghal.operators import make_case
from ssinghal.runner.pool import Pool
from ssinghal.runner.probers import LocalProber, Prober
from ssinghal.runner.sweep import sweep
from ssinghal.runner.tasks import PoolOptions
from ssinghal.runs.writer import RunFolder, new_run


def distinct_cases() -> Iterator[Case]:
    for height, width, channels in product(range(32, 4096, 32), range(32, 2048, 32), range(1, 200)):
        yield make_case("add", ((1, channels, height, width), (1, channels, height, width)))


def report(_: Record) -> None:
    """Nothing is shown of a record."""


def _same(prober: AbstractContextManager[Prober]) -> AbstractContextManager[Prober]:
    return prober


def processes() -> list[int]:
    """Returns the children of this process."""
    return [number for number in (int(path.name) for path in Path("/proc").glob("[0-9]*")) if _parent(number) == os.getpid()]


def _parent(process: int) -> int:
    try:
        return int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:  # it has ended
        return 0


def resident_mib(process: int) -> float:
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmRSS"))


def processor_seconds() -> float:
    both = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in both)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--counts", default="100,1000,10000")
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args()
    board = load_board("n150")
    print("| cases | ms of processor time each | cases per second | parent, MiB | largest worker, MiB |\n|--:|--:|--:|--:|--:|")
    with tempfile.TemporaryDirectory() as folder:
        for count in map(int, options.counts.split(",")):
            cases = list(islice(distinct_cases(), count))
            run = RunFolder(Path(folder), new_run(Path(folder), {}, count))
            before, started = processor_seconds(), time.perf_counter()
            with Pool(choose_device("virtual", board.name), PoolOptions(workers=options.workers)) as pool:
                prober = nullcontext(LocalProber(pool, pool.submit))
                sweep(cases, board, run, report, opened=partial(_same, prober), answerer=lambda _: "")
                elapsed = time.perf_counter() - started
                parent, worker = resident_mib(os.getpid()), max(map(resident_mib, processes()))
            each = 1000 * (processor_seconds() - before) / count
            print(f"| {count:,} | {each:.1f} | {count / elapsed:.0f} | {parent:.0f} | {worker:.0f} |", flush=True)


if __name__ == "__main__":
    main()
