"""Six small programs and their allocations and frees in order, against TTNN's own graph capture on an N150.

64 L1 banks, 12 DRAM banks, a bfloat16 tile has 2,048 B. Of `convolved.py` arithmetic gives the tensors; how many halo
tables (32 B each, the least a bank books) TTNN makes, and when, was read off its capture.
"""

from __future__ import annotations

import pytest

from tests.profile.measure import ROOT, capture

pytestmark = pytest.mark.virtual_device
PROGRAMS = ROOT / "tests" / "profile" / "programs" / "sequences"
TILE = 2_048

SQUARE = 4_096 // 64 * TILE  # 2,048 x 2,048 has 64 x 64 tiles: 131,072 B a bank
STEP = 1_024 // 64 * TILE  # 1,024 x 1,024 has 32 x 32 tiles: 32,768 B a bank
SHARD = 2 * 4 * TILE  # 64 rows of 128 a core: 16,384 B
SHARDED_DRAM = -(-512 // 12) * TILE  # 4,096 x 128 has 512 tiles, 43 in the fullest of 12 banks: 88,064 B
HOST_DRAM = -(-256 // 12) * TILE  # 512 x 512 has 256 tiles, 22 in the fullest of 12 banks: 45,056 B
HOST_L1 = 256 // 64 * TILE  # 8,192 B
PIXELS = 32 * 32 * 2  # one row of 32 pixels of 32 bfloat16 values a core: 2,048 B
HALO = 3 * 34 * 32 * 2  # three rows of 34 pixels with the padding: 6,528 B
WEIGHT = -(-9 // 12) * TILE  # 288 x 32 has 9 tiles, at most one a bank

EXPECTED = {
    "both_freed": [("+", "L1", SQUARE)] * 3 + [("-", "L1", SQUARE)] * 3,
    "replaced": [("+", "L1", STEP), *[("+", "L1", STEP), ("-", "L1", STEP)] * 3, ("-", "L1", STEP)],
    "out_of_order": [  # a tile row of 2,048 columns has 64 tiles, one a bank
        *[("+", "L1", times * TILE) for times in (1, 2, 3)],
        *[("-", "L1", times * TILE) for times in (2, 3, 1)],
    ],
    "sharded": [
        ("+", "L1", SHARD),
        ("+", "L1", SHARD),
        ("-", "L1", SHARD),
        ("+", "DRAM", SHARDED_DRAM),
        ("-", "L1", SHARD),
        ("-", "DRAM", SHARDED_DRAM),
    ],
    "moved": [  # a move frees, then allocates at the better place
        ("+", "DRAM", HOST_DRAM),
        ("+", "L1", HOST_L1),
        ("+", "L1", HOST_L1),
        ("-", "L1", HOST_L1),
        ("-", "L1", HOST_L1),
        ("+", "L1", HOST_L1),
        ("-", "DRAM", HOST_DRAM),
        ("-", "L1", HOST_L1),
    ],
    "convolved": [
        ("+", "L1", PIXELS),
        ("+", "DRAM", WEIGHT),
        ("+", "L1", HALO),
        *[("+", "L1_SMALL", 32)] * 4,
        ("-", "L1", PIXELS),  # the input, once the halo is made
        ("+", "L1", TILE),  # the output: 32 pixels of 32 channels a core
        ("+", "L1_SMALL", 32),
        ("-", "L1", HALO),
        ("-", "DRAM", WEIGHT),
        ("-", "L1", TILE),
    ],
}


def test_every_program_has_its_list():
    assert sorted(path.stem for path in PROGRAMS.glob("*.py")) == sorted(EXPECTED)


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_the_sequence_is_as_written(tmp_path, name):
    events, _ = capture(PROGRAMS / f"{name}.py", tmp_path)
    signs = {"allocate": "+", "free": "-"}
    assert [(signs[event.kind], event.memory, event.size_bytes) for event in events] == EXPECTED[name]
