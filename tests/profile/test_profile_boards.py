"""A program on several boards or releases, and programs that a signal ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from ssinghal.device.releases import find_release, installed_release
from ssinghal.errors import HarnessError
from ssinghal.profile.reading import read_profiles
from tests.profile.measure import ROOT, run_ssinghal
from tests.profile.test_profile_command import PROLOGUE, TILE_ROW
from tests.support.processes import all_ended

pytestmark = pytest.mark.virtual_device

STAGE = """
import torch, ttnn
device = ttnn.open_device(device_id=0, l1_small_size=32768)
x = ttnn.empty([1, 1, 32 * 32, 64], dtype=ttnn.bfloat16, layout=ttnn.ROW_MAJOR_LAYOUT, device=device,
               memory_config=ttnn.L1_MEMORY_CONFIG)
y = ttnn.conv_transpose2d(
    input_tensor=x, weight_tensor=ttnn.from_torch(torch.zeros(64, 64, 2, 2), dtype=ttnn.float32), in_channels=64,
    out_channels=64, device=device, kernel_size=(2, 2), stride=(2, 2), padding=(0, 0), output_padding=(0, 0), dilation=(1, 1),
    batch_size=1, input_height=32, input_width=32, groups=1,
    conv_config=ttnn.Conv2dConfig(weights_dtype=ttnn.bfloat8_b, deallocate_activation=True, act_block_h_override=32,
                                  output_layout=ttnn.ROW_MAJOR_LAYOUT))
print("done")
ttnn.close_device(device)
"""
COLUMNS_OF_CORES = """
import sys
kept = tensor()
print(device.compute_with_storage_grid_size().x, sys.stdin.readline())
ttnn.close_device(device)
raise SystemExit({8: 0, 11: 7}[device.compute_with_storage_grid_size().x])
"""
WAITING = """
import os, sys, time
kept = [tensor(), tensor(2)]
print(os.getpid(), flush=True)
time.sleep(120)
"""


def on_releases(*versions):
    try:
        for version in versions:
            find_release(version)
    except HarnessError as error:
        pytest.skip(str(error))
    return ",".join(versions)


def test_a_program_on_two_boards(tmp_path):
    """Its first run has its standard input and output, and the first exit code that is not 0 is that of both."""
    (tmp_path / "program.py").write_text(PROLOGUE + COLUMNS_OF_CORES)
    command = [sys.executable, "-m", "ssinghal", "profile", "--board", "n150,p150", "-o", "out", "--", "python", "program.py"]
    environ = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=tmp_path, env=environ, input="mine\n", capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stdout) == (7, "8 mine\n\n"), done.stderr
    version = installed_release().version
    names = [f"n150-{version}", f"p150-{version}"]
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["comparison.txt", *names]
    assert (tmp_path / "out" / names[1] / "stdout.txt").read_text() == "11 \n"
    sizes = [read_profiles(tmp_path / "out" / name)[0].peaks["l1"].bank_bytes for name in names]
    assert sizes == [TILE_ROW, TILE_ROW], "64 tiles on 64 banks, and on 110"
    comparison = (tmp_path / "out" / "comparison.txt").read_text()
    assert "cores: 8x8 → 11x10" in comparison
    assert names == comparison.splitlines()[1].split()
    assert f"{names[0]} → {names[1]}" in done.stderr


def test_what_a_release_changed(tmp_path):
    """From 0.75.0 to 0.81.1 a transposed convolution chooses block shards on 16 cores instead of height shards on 64:
    4,096 rows of 64 channels of 2 B are 64 x 64 x 2 = 8,192 B a core, or 512 x 32 x 2 = 32,768 B."""
    versions = on_releases("0.75.0", "0.81.1")
    (tmp_path / "program.py").write_text(STAGE)
    done = run_ssinghal(tmp_path, "profile", "--ttnn", versions, "-o", "out", "--", "python", "program.py")
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr
    text = (tmp_path / "out" / "comparison.txt").read_text()
    assert "L1 per core between operations: peak 8 KiB (8,192 B) → 32 KiB (32,768 B): +24 KiB (24,576 B), +300.0%" in text
    placed = [line for line in text.splitlines() if line.startswith("    result: ")]
    assert len(placed) == 1
    assert "height_sharded in l1 in shards of 64x64" in placed[0].partition(" → ")[0]
    assert "block_sharded in l1 in shards of 512x32" in placed[0].partition(" → ")[2]
    for version in versions.split(","):
        (one,) = read_profiles(tmp_path / "out" / f"n150-{version}")
        assert one.differences == []


@pytest.mark.parametrize("version", ["0.66.0", "0.70.0"])
def test_a_release_that_cannot_be_profiled_is_one_line(tmp_path, version):
    done = run_ssinghal(tmp_path, "profile", "--ttnn", f"{installed_release().version},{version}", "--", "true")
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert version in done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("number", "to_group", "boards"),
    [(signal.SIGINT, False, "n150"), (signal.SIGINT, True, "n150"), (signal.SIGTERM, False, "n150,p150")],
)
def test_a_signal_ends_the_program_and_the_report_is_made(tmp_path, number, to_group, boards):
    (tmp_path / "program.py").write_text(PROLOGUE + WAITING)
    command = [sys.executable, "-m", "ssinghal", "profile", "--board", boards, "-o", "out", "--", "python", "program.py"]
    process = subprocess.Popen(
        command,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    pid = int(process.stdout.readline())
    (os.killpg if to_group else os.kill)(process.pid, number)
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 128 + number
    assert all_ended([pid])
    folder = tmp_path / "out" / ("" if boards == "n150" else f"n150-{installed_release().version}")
    (one,) = read_profiles(folder)
    assert [buffer.bank_bytes for buffer in one.resident()] == [TILE_ROW, 2 * TILE_ROW]
    assert (folder / "summary.txt").read_text() in errors
    assert ("SIGTERM: not run: p150-" in errors) == (boards != "n150")


def test_a_report_that_cannot_be_written_leaves_the_exit_code_alone(tmp_path):
    (tmp_path / "program.py").write_text(
        PROLOGUE + "import os\ntensor()\nos.makedirs('out/summary.txt/own')\nttnn.close_device(device)\nos._exit(7)\n"
    )
    done = run_ssinghal(tmp_path, "profile", "-o", "out", "--", "python", "program.py")
    assert (done.returncode, "Traceback" in done.stderr) == (7, False)
    assert "summary.txt" in done.stderr.splitlines()[-1]
