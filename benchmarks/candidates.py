"""Measures the search for catalog calls that match a failure's numbers, and the explanation of a failure.

    python benchmarks/candidates.py [--repeat 5] [--json]

Each time is the minimum over several new processes and excludes imports. A search includes loading the catalogs.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import textwrap

SETUP = """
    import time
    from ssinghal.diagnose.candidates import candidates
    from ssinghal.diagnose.explanation import explain
    from ssinghal.diagnose.fingerprint import origin
    from ssinghal.diagnose.model import Failure
    from ssinghal.core.verdict import Resource, Status, Verdict
    buffer = Verdict(
        Status.OOM, Resource.L1_BUFFER, total_bytes=34_078_720, bytes_per_bank=532_480, banks=64, bank_bytes=1_362_816,
        allocated_bytes=1_064_960, free_bytes=297_856, largest_free_bytes=297_856,
    )
    program = Verdict(Status.OOM, Resource.CIRCULAR_BUFFER, program_bytes=9_990_400, limit_bytes=1_499_136, cores="7-6..7-6")
    started = time.perf_counter()
"""
FIGURES = {
    "calls of a buffer": "candidates(buffer, origin(buffer))",
    "calls of program buffers": "candidates(program, origin(program))",
    "1,000 explanations": "[explain(Failure(verdict, 1)).lines() for verdict in (buffer, program) * 500]",
}


def measure(statement: str, repeat: int) -> float:
    """Returns the minimum seconds over ``repeat`` new processes."""
    code = textwrap.dedent(SETUP) + statement + "\nprint(time.perf_counter() - started)"
    runs = [subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True) for _ in range(repeat)]
    return min(float(run.stdout) for run in runs)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeat", type=int, default=5, help="processes per measurement (default 5)")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args()
    figures = {name: round(measure(statement, options.repeat), 3) for name, statement in FIGURES.items()}
    if options.json:
        print(json.dumps(figures, indent=2))
        return
    for name, seconds in figures.items():
        print(f"{name:26} {seconds:6.2f} s")


if __name__ == "__main__":
    main()
