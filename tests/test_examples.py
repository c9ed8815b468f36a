"""The examples run, and print what they promise."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

import ssinghal
from tests.support.run_builder import a_record, write_run

ROOT = Path(__file__).parents[1]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))


def output_of(name: str, *arguments: str, folder: Path = ROOT, under: tuple[str, ...] = ()) -> list[str]:
    """What a program prints. ``under``: the command that runs it, with the arguments of Python before it."""
    command = [sys.executable, *under, str(ROOT / "examples" / f"{name}.py"), *arguments]
    paths = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    environ = {**os.environ, "PYTHONPATH": paths}
    done = subprocess.run(command, cwd=folder, env=environ, capture_output=True, text=True, timeout=180)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_examples_are_short_and_use_the_public_interface_alone(path):
    text = path.read_text()
    assert 15 <= len(text.splitlines()) <= 40
    imports = [node for node in ast.walk(ast.parse(text)) if isinstance(node, (ast.Import, ast.ImportFrom))]
    names = [
        name
        for node in imports
        for name in ([node.module] if isinstance(node, ast.ImportFrom) else [a.name for a in node.names])
    ]
    assert set(names) <= {"ssinghal", "sys", "collections", "ttnn"}
    ours = {
        alias.name for node in imports if isinstance(node, ast.ImportFrom) and node.module == "ssinghal" for alias in node.names
    }
    assert ours <= set(ssinghal.__all__)
    assert f"python examples/{path.name}" in text


def test_every_example_is_tested():
    text = Path(__file__).read_text()
    assert [path.stem for path in EXAMPLES if f'output_of("{path.stem}"' not in text] == []
    assert len(EXAMPLES) == 6


def test_estimate_a_call():
    """[1, 640, 400, 64], 400 rows padded to 416, has 640 * 13 * 2 tiles of 2,048 B: on a Wormhole 260 in each of 64 banks, on a
    P150 ceil(16,640 / 110) = 152 in each of 110."""
    lines = output_of("estimate_call")
    assert "n150: exceeds, output needs 532,480 B in each L1 bank, where 328,352 of 1,393,312 B are free" in lines
    assert f"  output: {152 * 2048:,} B per bank; second last dim 400 padded to 416 (1.04x)" in lines
    assert [line for line in lines if line.startswith("p150: fits")]


@pytest.mark.virtual_device
def test_probe_a_list():
    """As placed in rows of NCHW, a map of 400 columns is padded to 416: 64 * 20 * 13 tiles, 260 in each bank, too."""
    assert output_of("probe_list") == [
        "add 1x1x1024x1024+1x1x1024x1024-l1: fits",
        "add 1x64x640x400+1x64x640x400-l1: oom",
        f"  l1_buffer at output: {532_480 - 328_352:,} B per bank are missing",
        "softmax 1x8x1024x1024-dim=-1-l1: fits",
    ]


def test_read_a_run(tmp_path):
    write_run(tmp_path / "results", [a_record("relu"), a_record("tanh")], run="1")
    numbers = {"bytes_per_bank": 532_480, "free_bytes": 328_352}
    later = write_run(tmp_path / "results", [a_record("relu", status="oom", verdict=numbers), a_record("tanh")], run="2")
    (tmp_path / "results" / "latest").symlink_to(later.name)
    assert output_of("read_run", folder=tmp_path) == [
        "2: 2 cases",
        "  oom: 1",
        "  fits: 1",
        "relu 1x64x640x400-l1 on n150: l1_buffer at output",
    ]
    assert output_of("read_run", str(later), "1", folder=tmp_path)[4:] == [
        "new-oom: relu 1x64x640x400-l1, fits -> oom: L1 bank needs 532,480 B, 328,352 B free (output)"
    ]


@pytest.mark.virtual_device
def test_find_remedies():
    lines = output_of("find_remedies")
    assert [line for line in lines if not line.startswith("  ")] == [
        "same tensor: in place",
        "other memory: all in DRAM",
        "chunked: pieces",
    ]
    assert "  t0 = ttnn.add(a, b, output_tensor=a)" in lines


@pytest.mark.virtual_device
def test_plan_a_model():
    """An N150 has 12 GiB in 12 banks, of which TTNN keeps 1,048,640 B each."""
    verdict, peak = output_of("plan_model")
    assert verdict == "torchvision/resnet50 on n150: fits"
    assert f"of {2**30 - 1_048_640:,} B per DRAM bank" in peak


@pytest.mark.virtual_device
def test_profile_a_cell():
    """[256, 2048] has 8 * 64 tiles of 2,048 B, 8 in each of 64 banks: a, b, c and d are live at once, then a, b, d and the last
    result.

    A result that is not kept is freed before the block ends, not within its call.
    """
    lines = output_of("profile_cell", under=("-m", "ssinghal", "exec", "--", sys.executable))
    tensor = 8 * 2_048
    assert lines[0] == f"peak: {4 * tensor:,} B of each L1 bank"
    assert [line.partition(": ")[2] for line in lines[1:5]] == [
        f"ttnn.add {3 * tensor:,} B, {3 * tensor:,} B after it",
        f"ttnn.relu {4 * tensor:,} B, {4 * tensor:,} B after it",
        f"ttnn.deallocate {4 * tensor:,} B, {3 * tensor:,} B after it",
        f"ttnn.add {4 * tensor:,} B, {4 * tensor:,} B after it",
    ]
    assert lines[5] == "4 calls of TTNN"
    assert lines[-1].startswith("0 B between the buffers recorded and the allocator's own view, in 16 checks")


@pytest.mark.virtual_device
def test_the_model_of_an_example_is_planned_without_stand_ins(tmp_path):
    """VGG-19 has 16 convolutions, each of four steps up two and a transposed one, and the head is one; four pools, as the map
    of 16 x 16 is not pooled."""
    pytest.importorskip("torchvision")
    paths = os.pathsep.join([str(ROOT / "examples" / "models"), str(ROOT)])
    words = ["plan", "vgg_unet:vgg_unet", "--input", "1,3,256,256", "--board", "n150", "--json"]
    command = [sys.executable, "-m", "ssinghal", *words]
    environ = {**os.environ, "PYTHONPATH": paths}
    done = subprocess.run(command, cwd=tmp_path, env=environ, capture_output=True, text=True, timeout=180)
    assert done.returncode == 0, done.stderr
    (plan,) = (found["plan"] for found in json.loads(done.stdout))
    assert (plan["status"], plan["stand_ins"]) == ("fits", [])
    counts = Counter(step["operator"] for step in plan["steps"])
    assert (counts["convolution"], counts["conv_transpose2d"]) == (16 + 4 * 2 + 1, 4)
    assert (counts["max_pool2d"], counts["cat"], counts["sigmoid"]) == (4, 4, 1)
