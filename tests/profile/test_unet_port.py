"""The U-Net runs to its end, and allocates and frees what was recorded from a tuned port that runs on cards.

Recorded on an N150 (ttnn 0.81.1), in bytes per bank or core: L1 1,145,856, and with program buffers 1,361,856; L1_SMALL 7,680;
DRAM 307,904.
"""

from __future__ import annotations

import pytest

from ssinghal.profile.reading import read_profiles
from tests.profile.measure import ROOT, assert_as_recorded, capture, failure, peaks, run_ssinghal

pytestmark = pytest.mark.virtual_device
UNET = ROOT / "examples" / "ports" / "unet.py"
TILE, TILE_BYTES = 32, 1_088  # of bfloat8_b
IMAGE_ROWS, WIDTH = 1_056, 160
CONVOLUTIONS = [  # channels read and made; all 3x3 but the last
    *((16, 64), (64, 64), (64, 64), (64, 64), (64, 128), (128, 128), (128, 128), (128, 128), (128, 256), (256, 256)),
    *((384, 128), (128, 128), (128, 128), (256, 128), (128, 128), (128, 128)),
    *((192, 64), (64, 64), (64, 64), (128, 64), (64, 64), (64, 64), (64, 4)),
]


def weights_bytes(banks: int) -> int:
    """Of each DRAM bank: weights as tiles of all input channels, since grouped ones are filled up with zeros, and biases."""
    total = 0
    for number, (inputs, outputs) in enumerate(CONVOLUTIONS, 1):
        kernel = 1 if number == len(CONVOLUTIONS) else 9
        columns = -(-outputs // TILE)
        for tiles in (-(-kernel * inputs // TILE) * columns, columns):
            total += -(-tiles // banks) * TILE_BYTES
    return total


def joined_and_halo_bytes(shard_rows: int) -> int:
    """Of each core where the joined map of 128 channels is read: tiles, and as bfloat16 the rows that a 3x3 window reaches,
    with a column of padding on both sides of the image."""
    row_ends = -(-shard_rows // WIDTH)
    halo_rows = shard_rows + 2 * (WIDTH + 2) + 2 + 2 * row_ends
    return shard_rows // TILE * (128 // TILE) * TILE_BYTES + halo_rows * 128 * 2


def test_unet_takes_what_was_recorded_in_the_same_order(tmp_path):
    """Every allocation and free, with its address, in L1, L1_SMALL and DRAM; 63 cores of 2,688 rows hold the image."""
    events, printed = capture(UNET, tmp_path)
    assert printed.splitlines()[-1] == "unet: masks (1, 1, 4, 168960)"
    assert_as_recorded(events, "unet_n150")
    assert joined_and_halo_bytes(2_688) == 1_145_856
    assert weights_bytes(banks=12) == 307_904
    assert peaks(events) == {"DRAM": 307_904, "L1": 1_145_856, "L1_SMALL": 7_680}


def test_unet_takes_less_of_each_core_of_a_blackhole(tmp_path):
    """110 cores of 1,536 rows, and 8 banks of DRAM; what it takes of L1_SMALL is TTNN's own figure."""
    events, printed = capture(UNET, tmp_path, "p150")
    assert printed.splitlines()[-1] == "unet: masks (1, 1, 4, 168960)"
    assert peaks(events) == {"DRAM": weights_bytes(banks=8), "L1": joined_and_halo_bytes(1_536), "L1_SMALL": 8_192}


@pytest.mark.parametrize(("board", "with_programs"), [("n150", 1_361_856), ("p150", 826_432)])
def test_the_profile_of_unet_agrees_with_the_allocator(tmp_path, board, with_programs):
    """The most that tensors and known program buffers take together is the recorded figure, on a Blackhole TTNN's own."""
    done = run_ssinghal(tmp_path, "profile", "--board", board, "-o", "out", "--", "python", UNET)
    assert done.returncode == 0, done.stderr[-2000:]
    (profile,) = read_profiles(tmp_path / "out")
    assert len(profile.calls) > 100
    assert profile.checks >= 4 * len(profile.calls)
    assert (profile.differences, profile.unknown_frees, profile.ended) == ([], 0, True)
    known = [program for call in profile.calls for program in call.programs if program.program_bytes is not None]
    assert max(program.l1_bytes + program.program_bytes for program in known) == with_programs


def test_unet_of_twice_the_rows_runs_out_of_l1_in_the_decoder(tmp_path):
    """It needs 1,344 rows a core of 128 channels in bfloat16; allocated are the first map kept, 5,376 rows of it in tiles, the
    second and the upsampled one as rows: enough is free, but not in one piece."""
    error = failure(UNET, tmp_path, "--scale", "2")
    needed, kept, second, upsampled = 1_344 * 128 * 2, 5_376 // TILE * 2 * TILE_BYTES, 1_344 * 64 * 2, 1_408 * 128 * 2
    allocated = kept + second + upsampled
    assert f"each bank needs to store {needed} B" in error
    assert f"(allocated: {allocated} B" in error
    assert "upsampled = resharded(x.tensor, kept)" in error


@pytest.mark.parametrize("arguments", [("n150", "--scale", "2", "--fits"), ("p150", "--scale", "2")])
def test_unet_of_twice_the_rows_fits_with_two_maps_in_dram_or_on_a_blackhole(tmp_path, arguments):
    _, printed = capture(UNET, tmp_path, *arguments)
    assert printed.splitlines()[-1] == "unet: masks (1, 1, 4, 337920)"
