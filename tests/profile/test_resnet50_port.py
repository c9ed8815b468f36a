"""ResNet-50 runs to its end, and allocates and frees what was recorded from a tuned port that runs on cards.

Recorded on an N150 at batch 16 (ttnn 0.81.1), in bytes per bank or core: L1 797,152, L1_SMALL 7,264, DRAM 2,564,992. Batch 20
of that port lacks 12,192 B in a convolution, whose program buffers reach into the tensors.
"""

from __future__ import annotations

import pytest

from tests.profile.measure import ROOT, assert_as_recorded, capture, failure, peaks

pytestmark = pytest.mark.virtual_device
RESNET = ROOT / "examples" / "ports" / "resnet50.py"


def test_resnet_takes_what_was_recorded_in_the_same_order(tmp_path):
    """Every allocation and free of three runs, with its address, in L1, L1_SMALL and DRAM."""
    events, printed = capture(RESNET, tmp_path)
    assert printed.splitlines()[-1] == "resnet50: logits (16, 1, 1, 1000)"
    assert_as_recorded(events, "resnet50_n150")
    assert peaks(events) == {"DRAM": 2_564_992, "L1": 797_152, "L1_SMALL": 7_264}


def test_resnet_runs_to_the_end_on_a_blackhole(tmp_path):
    """Its image: 48 shards of 224 x 224 bfloat16 values, freed and allocated again in each of three runs."""
    events, printed = capture(RESNET, tmp_path, "p150")
    assert printed.splitlines()[-1] == "resnet50: logits (16, 1, 1, 1000)"
    assert sum(event[:3] == ("allocate", "L1", 224 * 224 * 2) for event in events) == 3


def test_resnet_of_batch_20_lacks_what_was_recorded(tmp_path):
    """1,156,256 - 1,144,064 = 12,192 B, in the first 3x3 convolution of the first stage."""
    error = failure(RESNET, tmp_path, "--batch", "20")
    clash = "L1 buffer allocated at 1144064 and static circular buffer region ends at 1156256"
    assert clash in error
    assert "y = self.convolve(block.spatial, y, layout)" in error


def test_resnet_of_batch_20_fits_when_computed_in_parts(tmp_path):
    """Peak in the projection of the second stage: its input of 35 x 8 tiles, its halo, the other branch."""
    events, printed = capture(RESNET, tmp_path, "n150", "--batch", "20", "--fits")
    assert printed.splitlines()[-1] == "resnet50: logits (20, 1, 1, 1000)"
    before, halo, branch, logits = 35 * 8 * 1_088, 609_792, 9 * 16 * 1_088, 2_016
    assert peaks(events)["L1"] == before + halo + branch + logits
