"""Measures what ``ssinghal profile`` costs a program: wall time against ``ssinghal exec``, and bytes of a record.

    python benchmarks/profile.py [--calls 100,1000,10000] [--repeat 3]

The program makes that many calls, four kinds in turn, with 50 tensors resident. Both commands are run in turn; the ratio is of
their shortest times, which include the start of Python and TTNN. The kernel cache is warm: each is run once before.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

PROGRAM = """
import sys, ttnn
device = ttnn.open_device(device_id=0)
def tensor(rows, columns):
    return ttnn.empty([rows, columns], dtype=ttnn.bfloat16, layout=ttnn.TILE_LAYOUT, device=device,
                      memory_config=ttnn.L1_MEMORY_CONFIG)
kept = [tensor(32, 2048) for _ in range(50)]
x, w = tensor(512, 512), tensor(512, 512)
calls = (lambda: ttnn.relu(x), lambda: ttnn.add(x, w), lambda: ttnn.matmul(x, w), lambda: ttnn.softmax(x, -1))
for number in range(int(sys.argv[1])):
    calls[number % len(calls)]()
ttnn.close_device(device)
"""


def seconds(*words: str) -> float:
    started = time.perf_counter()
    subprocess.run([sys.executable, "-m", "ssinghal", *words], check=True, capture_output=True)
    return time.perf_counter() - started


def measure(calls: int, repeat: int, folder: Path) -> str:
    program = folder / "program.py"
    program.write_text(PROGRAM)
    run = ("--", sys.executable, str(program), str(calls))
    plain: list[float] = []
    profiled: list[float] = []
    for number in range(repeat + 1):
        output = folder / f"{calls}-{number}"
        plain.append(seconds("exec", *run))
        profiled.append(seconds("profile", "-o", str(output), *run))
    (records,) = output.glob("records-*.jsonl")
    record_bytes = records.stat().st_size / calls
    best, taken = min(plain[1:]), min(profiled[1:])
    return f"{calls:,} calls: exec {best:.2f} s, profile {taken:.2f} s, {taken / best:.2f}x; {record_bytes:.0f} B a call"


def main() -> None:
    parser = argparse.ArgumentParser(description="What ssinghal profile costs a program")
    parser.add_argument("--calls", default="100,1000,10000", help="numbers of calls")
    parser.add_argument("--repeat", type=int, default=3)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for calls in map(int, arguments.calls.split(",")):
            print(measure(calls, arguments.repeat, Path(folder)))


if __name__ == "__main__":
    main()
