"""Programs with a seeded fault of memory, and two without: each takes what its arithmetic says, by TTNN's own graph capture.

A bfloat16 tile has 2,048 B; an N150 has 64 L1 banks of 1,393,312 B and 12 DRAM banks.
"""

from __future__ import annotations

import pytest

from tests.profile.measure import ROOT, capture, failure, peaks

pytestmark = pytest.mark.virtual_device
PROGRAMS = ROOT / "tests" / "profile" / "programs" / "faults"
TILE = 2_048
LARGE = 64 * TILE  # 4,096 tiles, 64 a bank
STEP = 16 * TILE  # 1,024 tiles
PEAK_BYTES = {
    "late_free/function": {"L1": 3 * LARGE},  # two suffice
    "late_free/attribute": {"L1": 3 * LARGE},  # two suffice
    "late_free/branch": {"L1": STEP + 4 * STEP + STEP + 6 * STEP},  # of which the 4 are not needed at the peak, nor the first
    "leak/list": {"L1": (1 + 8) * 4 * TILE},  # 256 tiles each; eight stay
    "leak/cache": {"DRAM": (1 + 6) * 64 * TILE},  # 768 tiles each; six stay
    "fragmentation/nearly": {"L1": 6 * (100 + 2) * TILE},
    "l1_small/unused": {"L1": 2 * STEP},  # of 32,768 B of L1_SMALL, none
    "few_pages/one_row": {"L1": 200_000 * 2},  # one page
    "few_pages/four_rows": {"L1": 65_536 * 4},  # four pages in 64 banks
    "trace_region/no_trace": {"L1": 2 * STEP},
    "clean/chain": {"L1": 2 * STEP},
    "clean/residual": {"L1": 3 * 8 * TILE},  # 512 tiles each
}
WITHOUT_ARITHMETIC = {"fragmentation/comb", "l1_small/pool"}  # below; and a pool's tables are TTNN's own choice


def test_every_program_has_its_bytes():
    names = {str(path.relative_to(PROGRAMS).with_suffix("")) for path in PROGRAMS.glob("*/*.py")}
    assert names == PEAK_BYTES.keys() | WITHOUT_ARITHMETIC


@pytest.mark.parametrize("name", sorted(PEAK_BYTES))
def test_the_peak_is_as_computed(tmp_path, name):
    events, _ = capture(PROGRAMS / f"{name}.py", tmp_path)
    assert peaks(events) == PEAK_BYTES[name]


def test_a_pool_uses_a_small_part_of_its_region(tmp_path):
    events, _ = capture(PROGRAMS / "l1_small" / "pool.py", tmp_path)
    assert 0 < peaks(events)["L1_SMALL"] < 65_536 // 100


def test_the_comb_fails_though_the_free_bytes_would_do(tmp_path):
    """Ten tensors of 60 and 7 tiles a bank in turn, those of 60 freed: below all lie 1,393,312 - 5 * 67 * 2,048 = 707,232 B,
    in all 1,393,312 - 5 * 7 * 2,048 = 1,321,632 B are free, and 400 * 2,048 = 819,200 B are wanted."""
    below, free, wanted = 707_232, 1_321_632, 400 * TILE
    assert below < wanted < free
    stderr = failure(PROGRAMS / "fragmentation" / "comb.py", tmp_path)
    [error] = [line for line in stderr.splitlines() if "Out of Memory" in line]
    assert all(str(number) in error for number in (wanted, below, free))
