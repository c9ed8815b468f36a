"""Findings of programs that were not at hand when findings were written, and none of those that only look alike."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ssinghal.profile.findings import find
from ssinghal.profile.reading import read_profiles
from tests.profile import findings_programs as programs
from tests.profile.measure import run_ssinghal
from tests.profile.several import profiled

pytestmark = pytest.mark.virtual_device
TILE = 2_048  # bytes of a bfloat16 tile
L1 = 1_393_312  # of a core of an N150, without L1_SMALL
SMALL = 8_192  # of L1_SMALL, where a program has it

# Tiles per core: kind, saved, before, after.
IN_TILES = {
    # x 8, wide 32, part 8, y 8, z 32, and the next x 8; deallocated in time, no more than x and wide are held at once
    "late in each layer": [
        ("late_free", 56, 96, 40),
        ("late_free", 32, 96, 64),
        ("late_free", 8, 96, 88),
        ("late_free", 8, 96, 88),
    ],
    "late key": [("late_free", 10, 80, 70)] * 2,  # the key and the query under 40 + v 10 + scores 10
    "late at module level": [("late_free", 40, 120, 80)],
    "late after a loop": [("late_free", 20, 60, 40)],  # under x 10 and wide 30
    # 4,096 tiles in 12 banks are 342 in the fullest: the table, three copies of it, and 12,288 tiles, 1,024 in each
    "late in DRAM": [("late_free", 342, 342 + 3 * 342 + 1_024, 3 * 342 + 1_024)],
    "two hide each other": [("late_free", 10, 40, 30)],  # both together, as the peaks are equal
    "leak of a history": [
        ("resident", 24, 28, 12),
        ("late_free", 4, 28, 24),
    ],  # six of 4; and the first, that another line made
    "leak of inputs": [("resident", 32, 48, 16)],  # four of 8 that are dead when the fifth is made
    "leak until it fails": [("resident", 500, 600, 200)],
    "leak of a local list": [("resident", 20, 24, 8)],
}

EVERY = {
    **programs.LATE,
    **programs.LEAKS,
    **programs.CLEAN,
    **programs.PIECES,
    **programs.NEAR,
    **programs.ROOMY,
    **programs.FEW,
}


@pytest.fixture(scope="module")
def unseen(tmp_path_factory):
    folder = tmp_path_factory.mktemp("unseen")
    return profiled(folder, programs.written(folder, EVERY))


def figures(findings, unit=1):
    return [(one.kind, one.bank_bytes / unit, one.before_bytes / unit, one.after_bytes / unit) for one in findings]


def test_all_have_expectations():
    assert {*programs.LATE, *programs.LEAKS} == IN_TILES.keys()


@pytest.mark.parametrize("name", sorted(IN_TILES))
def test_late_frees_and_leaks(unseen, name):
    assert figures(unseen.of(name), TILE) == IN_TILES[name]


@pytest.mark.parametrize("name", sorted(programs.CLEAN))
def test_what_only_looks_alike(unseen, name):
    assert unseen.of(name) == []
    raised = [line for line in unseen.raised.splitlines() if "TT_" in line or "Error" in line]
    assert not any(str(programs.file_name(name)) in line for line in raised), raised


@pytest.mark.parametrize("field", ["others", "elsewhere", "unknown_frees", "unsized_frees"])
def test_a_recording_that_is_not_exact_has_none(unseen, field):
    assert unseen.findings
    assert find(replace(unseen.profile, **{field: 1})) == []


def test_two_buffers_to_move(unseen):
    """700 KiB are more than one tooth joins to what is below: 410,272 B + 120 tiles; two join 240."""
    (one,) = unseen.of("two to move")
    below = L1 - 4 * 120 * TILE
    assert below + 120 * TILE < 350 * TILE <= below + 240 * TILE
    assert (one.kind, one.before_bytes, one.after_bytes) == ("fragmentation", below, below + 240 * TILE)
    assert len(one.calls) == 3, "the call that failed, and those that made the two"


def test_pieces_of_dram(unseen):
    """30,000 x 64 tiles are 160,000 in each of 12 banks: moved to the first hole, the tooth leaves the rest of that and both
    its own place and the next hole: 2 x 160,000 tiles, as its place is as large as what it takes."""
    (one,) = unseen.of("pieces of DRAM")
    assert (one.kind, one.memory) == ("fragmentation", "dram")
    assert (one.before_bytes, one.after_bytes) == (160_000 * TILE, 320_000 * TILE)


def test_a_tensor_above_program_buffers_that_a_hole_takes(unseen):
    """Of TTNN's message: a tensor 1,499,136 - 400 tiles = 679,936 and program buffers up to 1,168,736; in the hole it begins at
    1,499,136 - 100 tiles, 1,188,512 B above the base of 105,824."""
    moved, program = sorted(unseen.of("program buffers below a hole"), key=lambda one: one.kind)
    assert (moved.kind, moved.before_bytes, moved.after_bytes) == ("fragmentation", 679_936 - 105_824, 1_188_512)
    assert (program.kind, program.before_bytes) == ("program_buffers", 679_936 - 1_168_736)


@pytest.mark.parametrize("name", sorted(programs.NEAR))
def test_program_buffers_near_the_limit(unseen, name):
    (one,) = [one for one in unseen.of(name) if one.kind != "region_size"]
    failed = name.endswith("beyond the limit")
    assert one.kind == "program_buffers"
    assert (one.before_bytes < 0) == failed
    if failed:  # nothing is known of what else the program would run
        assert (one.bank_bytes, one.after_bytes) == (0, None)
    else:
        assert 0 < one.bank_bytes == one.after_bytes - one.before_bytes
        assert one.after_bytes <= L1 - SMALL - 300 * TILE, "what the region and 300 tiles leave"


@pytest.mark.parametrize("name", sorted(programs.ROOMY))
def test_program_buffers_that_decide_nothing(unseen, name):
    assert [one for one in unseen.of(name) if one.kind != "region_size"] == []


@pytest.mark.parametrize(
    ("name", "before", "after"),
    [
        ("a row of floats", 120_000, 1_888),  # 120,000 / 64 = 1,875 B
        ("many tensors of 8 tiles", 30 * 4_096, 30 * 512),  # 8 x 4,096 / 64
        ("a long row in DRAM", 16_000_000, 1_333_344),  # 16,000,000 / 12 = 1,333,333.3 B
    ],
)
def test_few_pages(unseen, name, before, after):
    assert figures(unseen.of(name)) == [("few_pages", before - after, before, after)]


SUITE = """
import pytest, torch, ttnn
L1 = ttnn.L1_MEMORY_CONFIG
@pytest.fixture
def device():
    device = ttnn.open_device(device_id=0, l1_small_size=32768)
    yield device
    ttnn.close_device(device)
def tensor(device):
    return ttnn.empty([1, 1, 320, 2048], ttnn.bfloat16, ttnn.TILE_LAYOUT, device, L1)
@pytest.mark.parametrize("number", range(3))
def test_relu(device, number):
    x = tensor(device)
    ttnn.to_torch(ttnn.relu(x, memory_config=L1))
def test_pool(device):
    x = ttnn.empty([1, 1, 4096, 64], ttnn.bfloat16, ttnn.ROW_MAJOR_LAYOUT, device)
    ttnn.max_pool2d(x, 1, 64, 64, 64, kernel_size=[2, 2], stride=[2, 2], padding=[0, 0], dilation=[1, 1], ceil_mode=False)
def test_late(device):
    x = tensor(device)
    y = ttnn.relu(x, memory_config=L1)
    z = ttnn.concat([y, y], dim=3, memory_config=L1)
    ttnn.to_torch(z)
"""


def test_a_suite_that_opens_a_device_for_each_test(tmp_path):
    """One region for all of its tests: what the pool needs. The late free is of the last test: 10 of 40 tiles."""
    (tmp_path / "test_suite.py").write_text(SUITE)
    done = run_ssinghal(tmp_path, "profile", "--board", "n150", "-o", "out", "--", "pytest", "-q", "-p", "no:cacheprovider")
    assert done.returncode == 0, done.stdout
    (profile,) = read_profiles(tmp_path / "out")
    late, region = sorted(find(profile), key=lambda one: one.kind)
    assert (late.kind, late.device, late.before_bytes, late.after_bytes) == ("late_free", 4, 40 * TILE, 30 * TILE)
    assert (region.kind, region.device, region.before_bytes, region.after_bytes) == ("region_size", 3, 32_768, 160)


def test_what_is_resident_after_a_recorded_block_may_be_used_later(tmp_path):
    text = """
import ssinghal
x = tensor(40)
with ssinghal.profiling(device) as p:
    y = relu(x)
    z = ttnn.concat([y, y], dim=3, memory_config=L1)
    a = relu(z)
print(p.profile.is_part, "findings" in p.report())
def main(): pass
"""
    paths = programs.written(tmp_path, {"block": text})
    done = run_ssinghal(tmp_path, "exec", "--board", "n150", "--", "python", paths["block"])
    assert (done.returncode, done.stdout) == (0, "True False\n"), done.stderr[-2000:]
