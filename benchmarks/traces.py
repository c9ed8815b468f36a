"""Measures traces: wall time and memory of recording each model, and the arithmetic for all boards at once.

    python benchmarks/traces.py [--repeat 3] [--json]

Recording is measured twice: as a complete command, from the start of Python to the text of the trace, and as a further trace of
a session that has imported torch already. Both build the model. Memory is the largest process of the command: torch and
torchvision alone take 690 MB. CPU seconds are reported alongside wall time, since other load changes them less. The best
repetition counts.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from dataclasses import asdict, dataclass

from ssinghal.capture.client import Captures
from ssinghal.capture.trace import Trace, read_trace, trace_of, trace_text
from ssinghal.capture.trace_library import trace_files, trace_request
from ssinghal.core.boards import board_names, load_board
from ssinghal.core.tensors import format_shape
from ssinghal.plan.liveness import arithmetics

RECORD_GOAL_S, RECORD_GOAL_MB, ARITHMETIC_GOAL_S = 4.0, 800.0, 0.5


@dataclass(frozen=True)
class Figures:
    """Measurements of one model at one input.

    ``further_s``: recorded by a session. ``read_s``: reading its file. ``record_mb``: 10^6 B.
    """

    model: str
    input: str
    steps: int
    values: int
    file_kb: float
    record_s: float
    record_cpu_s: float
    further_s: float
    record_mb: float
    same_bytes: bool
    read_s: float
    arithmetic_s: float


def measured(trace: Trace, repeat: int, captures: Captures) -> Figures:
    boards = [load_board(name) for name in board_names()]
    seconds, cpu_seconds, megabytes, texts = zip(*(recorded(trace) for _ in range(repeat)), strict=True)
    return Figures(
        trace.model,
        format_shape(trace.input_shapes[0]),
        len(trace.steps),
        len(trace.values),
        trace.path.stat().st_size / 1e3,
        min(seconds),
        min(cpu_seconds),
        min(timed(lambda: captures.capture(trace_request(trace))) for _ in range(repeat)),
        max(megabytes),
        set(texts) == {trace_text(trace)},
        min(timed(lambda: read_trace(trace.path)) for _ in range(repeat)),
        min(timed(lambda: arithmetics(trace_of(trace_text(trace)), boards)) for _ in range(repeat)),
    )


def recorded(trace: Trace) -> tuple[float, float, float, str]:
    """Returns wall seconds, CPU seconds, megabytes and the text."""
    request = trace_request(trace)
    shape = ",".join(map(str, request.inputs[0]))
    command = [sys.executable, "-m", "ssinghal", "catalog", "capture", request.model, "--input", shape, "--trace", "-o", "-"]
    started = time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        text = process.stdout.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{' '.join(command)}: exit code {process.returncode}")
    cpu_s = usage.ru_utime + usage.ru_stime
    return time.perf_counter() - started, cpu_s, usage.ru_maxrss * 1024 / 1e6, text


def timed(work: object) -> float:
    assert callable(work)
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with Captures() as captures:
        found = [measured(read_trace(file), options.repeat, captures) for file in trace_files()]
    if options.json:
        print(json.dumps([asdict(figures) for figures in found], indent=1))
        return
    print(f"{'':76} recording, s {'':14} same   reading  arithmetic,")
    print(f"{'model':32} {'input':20} steps values   KB  alone  (CPU)  further    MB  bytes       ms  all boards, ms")
    for f in found:
        print(
            f"{f.model:32} {f.input:20} {f.steps:5} {f.values:6} {f.file_kb:4.0f} {f.record_s:6.2f} {f.record_cpu_s:6.2f}"
            f" {f.further_s:8.2f} {f.record_mb:5.0f}  {f.same_bytes!s:6} {f.read_s * 1e3:7.0f} {f.arithmetic_s * 1e3:15.0f}"
        )
    over = [
        f"{f.model} {f.input}" for f in found
        if f.record_s > RECORD_GOAL_S or f.record_mb > RECORD_GOAL_MB or f.arithmetic_s > ARITHMETIC_GOAL_S
    ]  # fmt: skip
    goals = f"record {RECORD_GOAL_S:g} s, {RECORD_GOAL_MB:g} MB; arithmetic {ARITHMETIC_GOAL_S:g} s"
    print(f"goals ({goals}): missed by {', '.join(over) or 'none'}")


if __name__ == "__main__":
    main()
