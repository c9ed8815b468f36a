"""The reference states that every virtual board opens on every release with full verdicts: the unusual ones, on the oldest."""

from __future__ import annotations

import pytest

from ssinghal import Status, TensorSpec, load_board, make_case, open_pool, probe
from ssinghal.device.releases import known_releases

OLDEST = "0.66.0"


@pytest.mark.virtual_device
@pytest.mark.parametrize("board", ["p150_13x10", "t3k_2x4", "n300_8x7", "wh_galaxy_8x9"])
def test_board_opens_on_the_oldest_release(board: str) -> None:
    if OLDEST not in [release.version for release in known_releases()]:
        pytest.skip(f"ttnn {OLDEST} is not here: ssinghal releases add {OLDEST}")
    with open_pool(board, "virtual", workers=1, ttnn=OLDEST) as pool:
        record = probe(make_case("place", ((1, 64, 640, 400),)), pool)
    assert (record.status, record.board, record.ttnn) == (Status.FITS, board, OLDEST)
    assert record.tensors[0].allocated_bytes == TensorSpec((1, 64, 640, 400)).allocated_bytes(load_board(board))
