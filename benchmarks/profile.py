"""Measures what ``ssinghal profile`` costs a program: processor time against ``ssinghal exec``, and bytes of a record.

    python benchmarks/profile.py [--calls 100,500,1000,10000] [--repeat 3]
    python benchmarks/profile.py --read 1000000

The program makes that many calls, four kinds in turn, with 50 tensors resident. Both commands are run in turn; the ratio is of
their shortest times, which include the start of Python and TTNN, and the report. The kernel cache is warm: each is run once
before.

``--read`` measures the reader instead: records of that many calls, as a network in a loop makes them, with another state of the
memory in each step; the CPU time and the memory of the process that reads them.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

from ssinghal.core.tensors import format_bytes
from ssinghal.tracker.records import VERSION, RecordFile

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
    """Returns the processor time of a command and of what it starts."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-m", "ssinghal", *words], check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


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


def write_records(folder: Path, calls: int) -> None:
    """Writes what a tracker would of a network of 20 layers in a loop; each call makes a tensor and frees the one before."""
    file = RecordFile(str(folder))
    file.write("program", version=VERSION, argv=["loop.py"], pid=file.pid, folder=".")
    memories = {"dram": [12, 1_072_693_184, 0], "l1": [64, 1_393_312, 0], "l1_small": [64, 16_384, 0], "trace": [12, 0, 0]}
    file.write("device", ttnn="0.81.1", arch="wormhole_b0", mesh=[1, 1], grid=[8, 8], granule=32, l1_base=105_824,
               l1_top=1_499_136, memories=memories)  # fmt: skip
    held: dict[str, int] = {"dram": 0, "l1": 0}
    last: tuple[str, int, int] | None = None
    for number in range(calls):
        layer, memory = number % 20, "dram" if number % 20 == 7 else "l1"
        size, address = 2_048 * (1 + layer), 1_000_000 + 32 * (number % 10_007)
        sites = [file.number("site", line, file="loop.py", line=line, function="forward") for line in (layer, 100)]
        stack = file.number("stack", tuple(sites), sites=sites)
        spec = file.number("spec", (layer, memory), shape=[1, 1, 1024, 32 * (layer + 1)], dtype="bfloat16", layout="tile",
                           memory=memory, memory_layout="interleaved", shard=None)  # fmt: skip
        call = {"n": number, "name": f"ttnn.layer_{layer}", "stack": stack}
        file.write("start", **call)
        events = [["+", memory, address, size, 64 * size], ["p", f"Layer{layer}DeviceOperation", size * 3, "memo"]]
        held[memory] += size
        if last is not None:
            events.append(["-", *last[:2]])
            held[last[0]] -= last[2]
        view = {name: [held.get(name, 0), bank - held.get(name, 0)] for name, (_, bank, _) in memories.items()}
        operands = [[spec, last[1]]] if last else []
        file.write("call", **call, **{"in": operands}, out=[[spec, address]], us=90, gap=[], ev=events, view=view, others=0)
        last = memory, address, size
    file.write("end", gap=[], others=0)


def measure_reader(calls: int, folder: Path) -> str:
    write_records(folder, calls)
    (records,) = folder.glob("records-*.jsonl")
    code = (
        "import resource, sys, time; from pathlib import Path; from ssinghal.profile.reading import read_profiles\n"
        "before, started = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()\n"
        "(profile,) = read_profiles(Path(sys.argv[1])); taken = time.process_time() - started\n"
        "print(len(profile.calls), len(profile.buffers), len(profile.differences), taken,"
        " resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)"
    )
    done = subprocess.run([sys.executable, "-c", code, str(folder)], check=True, capture_output=True, text=True)
    found, buffers, differences, taken, kibibytes = done.stdout.split()
    return (
        f"{int(found):,} calls, {int(buffers):,} buffers, {differences} differences, {format_bytes(records.stat().st_size)} of"
        f" records: read in {float(taken):.1f} s of CPU with {format_bytes(int(kibibytes) * 1024)} of memory"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description="What ssinghal profile costs a program")
    parser.add_argument("--calls", default="100,500,1000,10000", help="numbers of calls")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--read", type=int, help="measure the reader of the records of so many calls")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        if arguments.read:
            print(measure_reader(arguments.read, Path(folder)))
            return
        for calls in map(int, arguments.calls.split(",")):
            print(measure(calls, arguments.repeat, Path(folder)))


if __name__ == "__main__":
    main()
