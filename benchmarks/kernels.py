"""Measures what the kernels of a call cost on a virtual board: built, found in the cache, and known to the process.

    python benchmarks/kernels.py

Milliseconds of processor time of one call, with that of the processes which it starts, by a plain loop (``raw_tasks.py``).
"""

from __future__ import annotations

import os
import tempfile
from collections import defaultdict

from raw_tasks import RawTask

from ssinghal.device.modes import choose_device
from ssinghal.operators import make_case
from ssinghal.runner.pool import Pool

OTHER = make_case("where", ((1, 1, 32, 32), (1, 1, 32, 32), (1, 1, 32, 32)))
CASES = {
    "relu": make_case("relu", ((1, 1, 32, 32),)),
    "cat": make_case("cat", ((1, 32, 64, 64), (1, 32, 64, 64)), {"dim": 1}),
    "softmax": make_case("softmax", ((1, 1, 4096, 40960),), {"dim": -1}),
    "matmul": make_case("matmul", ((1, 1, 1024, 1024), (1, 1, 1024, 1024))),
}


def main() -> None:
    spent: dict[str, list[float]] = defaultdict(list)
    with tempfile.TemporaryDirectory() as cache:
        os.environ["XDG_CACHE_HOME"] = cache
        for calls in (1, 2):
            with Pool(choose_device("virtual", "n150")) as pool:
                pool.run(RawTask((OTHER,))).result()  # the first call of a process imports
                for name, case in CASES.items():
                    for _ in range(calls):
                        spent[name] += pool.run(RawTask((case,))).result()
    print("| call | built | in the cache | known to the process |\n|---|--:|--:|--:|")
    for name, (built, cached, known) in spent.items():
        print(f"| {name} | {1000 * built:.1f} ms | {1000 * cached:.1f} ms | {1000 * known:.1f} ms |")


if __name__ == "__main__":
    main()
