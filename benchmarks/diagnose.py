"""Measures throughput and peak memory of reading logs: six kinds of log, each with one failure at its end.

    python benchmarks/diagnose.py [--mebibytes 1024] [--folder DIR] [--json]

Each log is written to a temporary folder in turn and read in a separate process, whose peak memory is reported.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from ssinghal.diagnose.log_reader import read_log

FAILURE = (
    "2026-01-01 11:00:00.000 | critical |          Always | TT_THROW: Statically allocated circular buffers on core range"
    " [(x=7,y=6) - (x=7,y=6)] grow to 9991296 B which is beyond max L1 size of 1499136 B (assert.hpp:104)\n"
)
LAYOUT = "#ttnn.ttnn_layout<(d0, d1) -> (d0, d1), <1x1>, memref<1x32x!ttcore.tile<32x32, bf16>, #dram>, <interleaved>>"


def operation(i: int) -> str:
    return (
        f'2026-01-01 10:00:00.{i % 1000:03} RuntimeTTNN | DEBUG | Executing operation: %{i} = "ttnn.relu"(%{i - 1}) : '
        f'(tensor<32x1024xbf16, {LAYOUT}>) -> tensor<32x1024xbf16, {LAYOUT}> loc("layer.{i}/relu")\n'
    )


KINDS: dict[str, Callable[[int], str]] = {
    "runtime": operation,
    "ranks": lambda i: f"[1,{i % 8}]<stderr>: {operation(i)}",
    "calls": lambda i: (
        f"2026-01-01 10:00:00.{i % 1000:03} | DEBUG    | ttnn.decorators:call:{i % 500} - Finished ttnn.add in 0.1 ms\n"
    ),
    "plain": lambda i: (
        f"2026-01-01 10:00:00.{i % 1000:03} | info     |          Metal | loaded weights of layer {i} from cache\n"
    ),
    "one line": lambda i: f"step {i} done; ",
    "progress": lambda i: f"\rstep {i}: |#####     | {i % 100}%",
}


def pieces(kind: str, size_bytes: int) -> Iterator[str]:
    """Yields about ``size_bytes`` of lines (a single line for "one line" and "progress"), then the failure."""
    made = 0
    i = 1
    while made < size_bytes:
        piece = "".join(KINDS[kind](i + k) for k in range(2000))
        yield piece
        made += len(piece)
        i += 2000
    yield FAILURE


def read(path: Path) -> dict[str, float]:
    started, used = time.perf_counter(), time.process_time()
    with path.open("rb") as file:
        reading = read_log(file, path.name)
    seconds, used = time.perf_counter() - started, time.process_time() - used
    (failure,) = reading.failures
    return {
        "mib": round(path.stat().st_size / 2**20),
        "mb_per_s": round(path.stat().st_size / 1e6 / seconds),
        "mb_per_cpu_s": round(path.stat().st_size / 1e6 / used),
        "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
        "operations": failure.started,
        "program_bytes": failure.verdict.program_bytes or 0,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mebibytes", type=int, default=1024)
    parser.add_argument("--folder", type=Path, help="parent of the temporary folder")
    parser.add_argument("--read", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    if given.read:
        print(json.dumps(read(given.read)))
        return
    found = {}
    with tempfile.TemporaryDirectory(dir=given.folder) as folder:
        for kind in KINDS:
            path = Path(folder) / "log"
            with path.open("w") as file:
                file.writelines(pieces(kind, given.mebibytes << 20))
            told = subprocess.run([sys.executable, __file__, "--read", str(path)], check=True, stdout=subprocess.PIPE)
            found[kind] = json.loads(told.stdout)
    if given.json:
        print(json.dumps(found, indent=2))
        return
    for kind, told in found.items():
        speed = f"{told['mb_per_s']} MB/s ({told['mb_per_cpu_s']} of CPU time)"
        print(f"{kind}: {told['mib']} MiB at {speed}, peak memory {told['peak_mib']} MiB")


if __name__ == "__main__":
    main()
