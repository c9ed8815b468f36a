"""What ``ssinghal exec`` prints of a program that ends because a call ran out of memory; the program sees nothing of it."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from ssinghal.diagnose.parse.own_reports import MARK

pytestmark = pytest.mark.virtual_device

PROGRAM = [sys.executable, "-m", "ssinghal"]

NOTICE = f"{MARK}virtual n150: memory verdicts are TTNN's own, every value read back is meaningless\n"
OPENED = """
import sys, ttnn
device = ttnn.open_device(device_id=0)
def tensor(tiles, memory=ttnn.L1_MEMORY_CONFIG):
    return ttnn.empty([32, 64 * 32 * tiles], ttnn.bfloat16, ttnn.TILE_LAYOUT, device, memory)
def held():
    return ttnn.get_memory_view(device, ttnn.BufferType.L1).total_bytes_allocated_per_bank
"""
TILE_BYTES = 2048  # of bfloat16; ``tensor(n)`` has n tiles in each of 64 banks
BANK_BYTES = 1_393_312  # of an n150's L1: 680 tiles and 672 B
LACKING = """
def summed(a, b):
    return ttnn.add(a, b)
other = tensor(100)
print("start", flush=True)
summed(tensor(200), tensor(200))
"""
LEFT_BYTES = BANK_BYTES - 500 * TILE_BYTES  # where the sum needs another 200 tiles


def executed(folder: Path, source: str, *options: str, command: tuple[str, ...] = ("python", "program.py")):
    (folder / "program.py").write_text(source)
    return subprocess.run([*PROGRAM, "exec", *options, "--", *command], cwd=folder, capture_output=True, text=True, timeout=120)


def report(stderr: str) -> list[str]:
    """The lines of a report, without their mark."""
    return [line.removeprefix(MARK) for line in stderr.splitlines() if line.startswith(MARK)][1:]


def ssinghal(folder: Path, *words: str):
    return subprocess.run([*PROGRAM, *words], cwd=folder, capture_output=True, text=True, timeout=120)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("lacking")


@pytest.fixture(scope="module")
def lacking(folder):
    return executed(folder, OPENED + LACKING)


def test_the_call_its_line_and_what_was_resident(folder, lacking):
    path = folder / "program.py"
    assert report(lacking.stderr)[:5] == [
        f"ttnn.add ran out of memory: L1 bank needs {200 * TILE_BYTES:,} B, {LEFT_BYTES:,} B free",
        f"  at {path}:10 (summed): return ttnn.add(a, b)",
        f"    called from {path}:13 (<module>): summed(tensor(200), tensor(200))",
        f"  resident then, L1 per core: 1,000 KiB ({500 * TILE_BYTES:,} B) in 3 buffers, 2 of them used by the call",
        "  the call of ttnn.add: ssinghal probe add 32,409600 32,409600 --memory l1 --output-memory ttnn",
    ]


def test_the_program_is_as_without_a_report(folder, lacking):
    plain = executed(folder, OPENED + LACKING, "--plain")
    assert (lacking.returncode, lacking.stdout) == (plain.returncode, plain.stdout) == (1, "start\n")
    assert lacking.stderr.startswith(plain.stderr)
    assert report(plain.stderr) == []


def test_the_changes_that_make_the_call_fit(tmp_path, lacking):
    lines = report(lacking.stderr)
    start = next(i for i, line in enumerate(lines) if "with exactly these buffers resident" in line)
    assert any("memory_config=ttnn.DRAM_MEMORY_CONFIG, in the call" in line for line in lines[start:])
    changed = LACKING.replace("add(a, b)", "add(a, b, memory_config=ttnn.DRAM_MEMORY_CONFIG)")
    assert executed(tmp_path, OPENED + changed).returncode == 0
    assert not any("ttnn.deallocate of" in line for line in lines)  # who needs the other tensor is not known


def test_the_command_that_tries_more(tmp_path, lacking):
    command = next(
        line.partition(": ")[2].split() for line in report(lacking.stderr) if line.startswith("  other releases and boards: ")
    )
    assert command[-2:] == ["--live", f"{100 * TILE_BYTES * 64}B@l1"]
    remedied = ssinghal(tmp_path, *command[1:], "--probes", "4")
    assert f"L1 bank needs {200 * TILE_BYTES:,} B, {LEFT_BYTES:,} B free" in remedied.stdout


def test_the_command_of_the_call_runs_where_the_program_did(tmp_path):
    """Each of 110 banks has room for 716 tiles: 408 are of another tensor, which leaves too few for the three of 117 each."""
    source = OPENED + LACKING.replace("tensor(100)", "tensor(700)")
    lines = report(executed(tmp_path, source, "--board", "p150", "--ttnn", "0.66.0").stderr)
    at, command = next((i, line.partition(": ")[2].split()) for i, line in enumerate(lines) if "the call of ttnn.add: " in line)
    assert command[-4:] == ["--board", "p150", "--ttnn", "0.66.0"]
    assert lines[at + 1].startswith("    without the other buffers that were resident then; ssinghal remedy has as many bytes")
    assert "\nFITS\n" in ssinghal(tmp_path, *command[1:]).stdout
    log = tmp_path / "run.log"
    log.write_text("\n".join(MARK + line for line in lines))
    diagnosed = ssinghal(tmp_path, "diagnose", "run.log", "--no-replay").stdout
    assert re.search(r"^call: add \[32,409600\] \[32,409600\]", diagnosed, re.MULTILINE)


def test_diagnose_takes_the_call_from_the_report(tmp_path, lacking):
    (tmp_path / "run.log").write_text(lacking.stdout + lacking.stderr)
    diagnosed = ssinghal(tmp_path, "diagnose", "run.log", "--no-remedies")
    assert diagnosed.returncode == 1
    assert len(re.findall(r"^line \d+: ", diagnosed.stdout, re.MULTILINE)) == 1
    assert re.search(r"^call: add \[32,409600\] \[32,409600\]", diagnosed.stdout, re.MULTILINE)
    (tmp_path / "run.log").write_text("\n".join(MARK + line for line in report(lacking.stderr)))
    alone = ssinghal(tmp_path, "diagnose", "run.log", "--no-replay")
    assert alone.returncode == 1, "a report without TTNN's message is no log without a failure"


OWN = """
a = tensor(400, ttnn.DRAM_MEMORY_CONFIG)
{kept}
ttnn.concat([a, a, a], dim=-1, memory_config=ttnn.L1_MEMORY_CONFIG)
"""
CONVOLUTION = """
import ttnn
device = ttnn.open_device(device_id=0, l1_small_size=16384)
weight = ttnn.zeros([32, 16, 3, 3], dtype=ttnn.bfloat16)
x = ttnn.empty([1, 1, 480 * 640, 16], ttnn.bfloat16, ttnn.ROW_MAJOR_LAYOUT, device)
ttnn.conv2d(input_tensor=x, weight_tensor=weight, device=device, in_channels=16, out_channels=32, batch_size=1,
            input_height=480, input_width=640, kernel_size=(3, 3), stride=(1, 1), padding=(1, 1),
            memory_config=ttnn.L1_MEMORY_CONFIG, slice_config=ttnn.Conv2dL1FullSliceConfig)
"""


def test_what_the_call_itself_had_made(tmp_path):
    """TTNN names a tensor as the lowest in L1, and nothing was resident in L1 before the call."""
    done = executed(tmp_path, CONVOLUTION)
    address = int(re.search(r"L1 buffer allocated at (\d+)", done.stderr)[1])
    expected = f"  nothing was resident before it in L1 per core: the call itself made the tensor at {address:,}"
    assert expected in report(done.stderr)


@pytest.mark.parametrize(
    ("kept", "expected"),
    [
        ("", "  nothing was resident before it in L1 per core"),
        (
            "b = tensor(50)",
            "  resident then, L1 per core: 100 KiB (102,400 B) in 1 buffer, no operand of the call",
        ),
    ],
)
def test_a_call_that_had_made_nothing(tmp_path, kept, expected):
    assert expected in report(executed(tmp_path, OPENED + OWN.format(kept=kept)).stderr)


GRID = """
x = ttnn.empty([1, 1, 65536, 1024], ttnn.bfloat16, ttnn.TILE_LAYOUT, device, ttnn.DRAM_MEMORY_CONFIG)
ttnn.group_norm(x, num_groups=32, inplace=False, core_grid=ttnn.CoreGrid(x=1, y=1))
"""


def test_a_grid_of_too_few_cores_is_left_to_ttnn(tmp_path):
    lines = report(executed(tmp_path, OPENED + GRID).stderr)
    assert any(line.strip().startswith("no core_grid, in the call") for line in lines)
    assert executed(tmp_path, OPENED + GRID.replace(", core_grid=ttnn.CoreGrid(x=1, y=1)", "")).returncode == 0
