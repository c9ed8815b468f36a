"""Random calls with shards, mixed dtypes and settings: ``probe`` against plain TTNN programs under ``exec``."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.virtual_device

ROOT = Path(__file__).parents[2]
BENCHMARK = ROOT / "benchmarks" / "sharded_calls.py"
OPERATORS = 25


@pytest.mark.parametrize(("board", "count", "seed"), [("n150", 300, 20261129), ("p100", 80, 20261130)])
def test_verdict_and_numbers_are_those_of_a_plain_program(board: str, count: int, seed: int) -> None:
    command = [sys.executable, str(BENCHMARK), "--calls", str(count), "--seed", str(seed), "--board", board]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(ROOT)})
    *_, calls, differences = done.stdout.splitlines() or ["", done.stderr]
    assert (done.returncode, differences) == (0, "0 differences"), done.stdout + done.stderr
    assert calls.startswith(f"{count} calls of ")
    assert int(calls.split()[3]) >= OPERATORS
    # a comparison of refusals alone would show nothing
    outcomes = {word: int(number.strip("(")) for number, word in (part.split()[-2:] for part in calls.strip(")").split(","))}
    assert outcomes["fits"] > count // 4
    assert outcomes["oom"] > count // 10
