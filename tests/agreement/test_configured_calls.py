"""Random calls with program configs and other settings: ``probe`` against plain TTNN programs under ``exec``."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.virtual_device

ROOT = Path(__file__).parents[2]
BENCHMARK = ROOT / "benchmarks" / "sharded_calls.py"


def test_verdict_and_numbers_are_those_of_a_plain_program() -> None:
    command = [sys.executable, str(BENCHMARK), "--configured", "--calls", "105", "--seed", "20261129"]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(ROOT)})
    *_, calls, differences = done.stdout.splitlines() or ["", done.stderr]
    assert (done.returncode, differences) == (0, "0 differences"), done.stdout + done.stderr
    assert calls.startswith("105 calls of 18 operators")
    outcomes = {word: int(number.strip("(")) for number, word in (part.split()[-2:] for part in calls.strip(")").split(","))}
    assert outcomes["fits"] > 50
    assert outcomes["oom"] >= 5
