"""Advice on regions, and what a full region shows, against the allocator of a virtual device."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from ssinghal.device.error_patterns import translate_error
from ssinghal.diagnose.kernel_config import kernel_config_lines
from ssinghal.diagnose.small_region import least_taken, sufficient_size
from tests.profile.measure import run_ssinghal

pytestmark = pytest.mark.virtual_device

# Fills an L1_SMALL region with shards of 16 B until none fits, frees every fourth, and requests a large shard.
SMALL = """
import json, ttnn

def shard(width):
    cores = ttnn.CoreRangeSet({ttnn.CoreRange(ttnn.CoreCoord(0, 0), ttnn.CoreCoord(7, 0))})
    spec = ttnn.ShardSpec(cores, [1, width // 2], ttnn.ShardOrientation.ROW_MAJOR)
    memory = ttnn.MemoryConfig(ttnn.TensorMemoryLayout.HEIGHT_SHARDED, ttnn.BufferType.L1_SMALL, spec)
    return ttnn.empty([8, width // 2], dtype=ttnn.bfloat16, layout=ttnn.ROW_MAJOR_LAYOUT, device=device, memory_config=memory)

def until_full(held, width):
    try:
        while True:
            held.append(shard(width))
    except RuntimeError as error:
        return str(error), ttnn.get_memory_view(device, ttnn.BufferType.L1_SMALL).total_bytes_allocated_per_bank

def holes(held):
    held.extend(shard(16) for _ in range(20))
    held[:] = [x for i, x in enumerate(held) if i % 4]

for region, width in ((8_000, 16), (65_536, 19_808)):
    device, held = ttnn.open_device(device_id=0, l1_small_size=region), []
    full = until_full(held, width)
    held.clear()
    holes(held)
    broken = until_full(held, region)[0]
    held.clear()
    ttnn.close_device(device)
    print(json.dumps([region, width, *full, broken]), flush=True)

for size, requested in SIZES:
    device, held = ttnn.open_device(device_id=0, l1_small_size=size), []
    holes(held)
    held.append(shard(requested))
    held.clear()
    ttnn.close_device(device)
    print(json.dumps(size), flush=True)
"""

CONFIG = """
import json, ttnn

def refused(size):
    device = ttnn.open_device(device_id=0, worker_l1_size=size)
    try:
        ttnn.relu(ttnn.empty([1, 1, 32, 32], dtype=ttnn.bfloat16, layout=ttnn.TILE_LAYOUT, device=device))
    except RuntimeError as error:
        return str(error)
    finally:
        ttnn.close_device(device)

largest = ttnn.device.get_max_worker_l1_unreserved_size()
for size in SIZES or [largest, largest - 40]:
    print(json.dumps([size, refused(size)]), flush=True)
"""


def printed(folder: Path, source: str, board: str) -> list[Any]:
    (folder / "program.py").write_text(source)
    done = run_ssinghal(folder, "exec", "--board", board, "--", sys.executable, "program.py")
    assert done.returncode == 0, done.stderr[-2000:]
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.parametrize("board", ["n150", "p150"])
def test_regions_of_l1_small(tmp_path: Path, board: str) -> None:
    both = printed(tmp_path, SMALL.replace("SIZES", "[]"), board)
    (small, _, text, taken, broken), (large, width, large_text, large_taken, _) = both
    without_stats = translate_error("RuntimeError", large_text.partition(" (allocated")[0])
    assert (without_stats.bank_bytes, without_stats.bytes_per_bank, without_stats.allocated_bytes) == (large, width, None)
    assert least_taken(width, large)[1] <= large_taken <= large
    assert least_taken(16, small) == (small - 15, taken)
    full = translate_error("RuntimeError", text)
    assert (full.allocated_bytes, full.free_bytes) == (taken, 0)
    fragmented = translate_error("RuntimeError", broken)
    assert fragmented.largest_free_bytes is not None
    assert fragmented.free_bytes is not None
    assert fragmented.largest_free_bytes < fragmented.free_bytes  # the sum alone would be too small
    size = sufficient_size(fragmented)
    assert printed(tmp_path, SMALL.replace("SIZES", str([(size, small)])), board)[2:] == [size]


def test_a_worker_l1_size_as_advised_has_room_for_the_program(tmp_path: Path) -> None:
    first = printed(tmp_path, CONFIG.replace("SIZES", "[]"), "p150")
    largest, advised = first[0][0], []
    for size, text in first:
        (line,) = [x for x in kernel_config_lines(translate_error("RuntimeError", text)) if "worker_l1_size" in x]
        room, smaller = (int(number.replace(",", "")) for number in re.findall(r"- ([\d,]+), ([\d,]+) B smaller", line)[0])
        advised += [largest - room, size - smaller]
    assert [text for _, text in printed(tmp_path, CONFIG.replace("SIZES", str(advised)), "p150")] == [None] * 4


def test_a_smaller_l1_small_region_moves_tensors_up_by_as_much(tmp_path: Path) -> None:
    source = """
import json, ttnn
for small in (4_096, 4_096 - 192):
    device = ttnn.open_device(device_id=0, l1_small_size=small)
    memory = ttnn.L1_MEMORY_CONFIG
    tensor = ttnn.empty([1, 1, 64, 64], dtype=ttnn.bfloat16, layout=ttnn.TILE_LAYOUT, device=device, memory_config=memory)
    print(json.dumps(tensor.buffer_address()), flush=True)
    del tensor
    ttnn.close_device(device)
"""
    before, after = printed(tmp_path, source, "p150")
    assert after - before == 192
