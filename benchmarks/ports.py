"""Measures the ports of `examples/ports`: what they take of a board's memories, and what ``ssinghal profile`` costs them.

    python benchmarks/ports.py [--board n150,p150] [--repeat 3]

Prints a table in Markdown. Bytes are of a core or a bank. "With programs" is the most that tensors and program buffers take of
a core together; "unknown" are the runs of programs whose buffers TTNN reports not even with ``--program-buffers``. "Difference"
is the largest between the buffers recorded and the allocator's own view, after any call.

Seconds are of the processor, over all processes of a command, with the start of Python and TTNN and, for a profile, its
report: on a shared machine they vary less than the time that passes. The two commands alternate within one run of the
benchmark; of each the shortest time counts, after one that is not measured and fills the kernel cache.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

from ssinghal.profile.model import Profile
from ssinghal.profile.reading import read_profiles

PORTS = Path(__file__).parents[1] / "examples" / "ports"
TITLES = {"resnet50": "ResNet-50", "unet": "U-Net", "vit": "ViT", "yolov8s": "YOLOv8s"}
HEADINGS = (
    *("port", "board", "calls", "L1", "with programs", "unknown", "L1_SMALL", "DRAM", "difference"),
    *("plain, s", "profiled, s", "times"),
)


def processor_seconds(*words: str) -> float:
    """Runs ``ssinghal`` with these words.

    Raises:
        subprocess.CalledProcessError: It failed.
    """
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-m", "ssinghal", *words], check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def sizes(profile: Profile) -> tuple[int, ...]:
    """Returns the columns from the most of L1 to the difference."""
    l1, l1_small, dram = (profile.peaks[name].bank_bytes if name in profile.peaks else 0 for name in ("l1", "l1_small", "dram"))
    difference = max((abs(d.replayed_bytes - d.allocator_bytes) for d in profile.differences), default=0)
    return l1, profile.l1_and_program_bytes, profile.unknown_programs, l1_small, dram, difference


def measure(port: str, board: str, repeat: int, folder: Path) -> tuple[str, ...]:
    """Returns a row of the table."""
    run = ("--board", board, "--", sys.executable, str(PORTS / f"{port}.py"))
    outputs = [str(folder / f"{port}-{board}-{number}") for number in range(repeat + 1)]
    processor_seconds("exec", *run)
    processor_seconds("profile", "-o", outputs[0], "--program-buffers", *run)
    plain, profiled = [], []
    for output in outputs[1:]:
        plain.append(processor_seconds("exec", *run))
        profiled.append(processor_seconds("profile", "-o", output, *run))
    (profile,) = read_profiles(Path(outputs[0]))
    best, taken = min(plain), min(profiled)
    times = (f"{best:.2f}", f"{taken:.2f}", f"{taken / best:.2f}")
    return (TITLES[port], board, str(len(profile.calls)), *(f"{size:,}" for size in sizes(profile)), *times)


def row(cells: tuple[str, ...]) -> str:
    return f"| {' | '.join(cells)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--board", default="n150,p150", help="boards, separated by commas")
    parser.add_argument("--repeat", type=int, default=3, help="runs of each that are measured")
    options = parser.parse_args()
    print(row(HEADINGS))
    print(row(("---", "---", *["---:"] * (len(HEADINGS) - 2))))
    with tempfile.TemporaryDirectory() as folder:
        for port in TITLES:
            for board in options.board.split(","):
                print(row(measure(port, board, options.repeat, Path(folder))), flush=True)


if __name__ == "__main__":
    main()
