"""Random calls on meshes, with operands that are cut over the chips: ``probe`` against plain TTNN programs under ``exec``."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.virtual_device

ROOT = Path(__file__).parents[2]
BENCHMARK = ROOT / "benchmarks" / "mesh_calls.py"


@pytest.mark.parametrize(("board", "count", "seed"), [("n300_1x2", 66, 6), ("t3k_2x4", 99, 7)])
def test_verdict_shapes_and_numbers_are_those_of_a_plain_program(board: str, count: int, seed: int) -> None:
    command = [sys.executable, str(BENCHMARK), "--calls", str(count), "--seed", str(seed), "--board", board]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(ROOT)})
    *_, calls, differences = done.stdout.splitlines() or ["", done.stderr]
    assert (done.returncode, differences) == (0, "0 differences"), done.stdout + done.stderr
    assert calls.startswith(f"{count} calls of 11 operators")
    # a comparison of refusals alone would show nothing
    outcomes = {word: int(number.strip("(")) for number, word in (part.split()[-2:] for part in calls.strip(")").split(","))}
    assert outcomes["fits"] > count // 2
    assert outcomes["oom"] > 0
