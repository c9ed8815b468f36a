"""The ports run to their end, and take what was recorded from tuned ports that run on cards.

The recorded figures, on an N150 in bytes per bank or core (ttnn 0.81.1): ViT-base, batch 8, L1 401,408 and DRAM 8,254,272;
YOLOv8s at 640, L1 819,200, L1_SMALL 7,552 and DRAM 1,229,632.
"""

from __future__ import annotations

import pytest

from tests.profile.measure import ROOT, capture, peaks

pytestmark = pytest.mark.virtual_device
PORTS = ROOT / "examples" / "ports"
BOARDS = ["n150", "p150"]


@pytest.mark.parametrize("board", BOARDS)
def test_vit_runs_to_the_end(tmp_path, board):
    _, printed = capture(PORTS / "vit.py", tmp_path, board)
    assert printed.splitlines()[-1] == "vit: scores (8, 197, 1152)"


def test_vit_takes_what_was_recorded(tmp_path):
    """Its peak is the fold of the images: 1,568 rows of 64 and 98 of 1,024 bfloat16 values a core, 200,704 B each."""
    events, _ = capture(PORTS / "vit.py", tmp_path)
    assert peaks(events) == {"DRAM": 8_254_272, "L1": 2 * 1_568 * 64 * 2}
    scores = [event for event in events if event[:3] == ("allocate", "L1", 14 * 7 * 1_088)]
    assert len(scores) == 12  # of each layer once, 14 x 7 tiles a core


@pytest.mark.parametrize("board", BOARDS)
def test_yolo_runs_to_the_end(tmp_path, board):
    _, printed = capture(PORTS / "yolov8s.py", tmp_path, board)
    assert printed.splitlines()[-1] == "yolov8s: predictions (1, 84, 8400)"


def test_yolo_takes_what_was_recorded(tmp_path):
    """Its peak is inside the image's permute: four maps of 16 x 640 x 640 bfloat16 values over 64 cores, 204,800 B each."""
    events, _ = capture(PORTS / "yolov8s.py", tmp_path)
    assert peaks(events) == {"DRAM": 1_229_632, "L1": 4 * 16 * 640 * 640 * 2 // 64, "L1_SMALL": 7_552}
