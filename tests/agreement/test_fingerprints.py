"""Messages of TTNN's own, on boards and releases that are known: the fingerprint names that board and that release.

200,000 tiles of 2,048 B on the 130 cores of the largest board are 1,539 in each: 3.2 MB of an L1 of 1.5 MB at most. A copy of
a row of 2^20 bfloat16 values holds 2 MiB twice in one.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from ssinghal import BufferType, Placement, Status, load_board, make_case, open_pool, probe
from ssinghal.core.tensors import Layout
from ssinghal.core.verdict import Verdict
from ssinghal.device.releases import known_releases
from ssinghal.diagnose.fingerprint import fingerprint_of

pytestmark = pytest.mark.virtual_device

L1 = Placement(memory=BufferType.L1, channels_last=False)
ROWS = Placement(layout=Layout.ROW_MAJOR, memory=BufferType.DRAM, channels_last=False)
CASES = {
    "l1_buffer": make_case("place", ((1, 1, 32, 32 * 200_000),), {}, L1),
    "l1_buffer with L1_SMALL": make_case("place", ((1, 1, 32, 32 * 200_000),), {}, replace(L1, l1_small_bytes=32_768)),
    "circular_buffer": make_case("clone", ((1, 1, 1, 2**20),), {}, ROWS),
}
BOARDS = [("n150", "0.66.0"), ("n300_8x7", "0.66.0"), ("n300_8x7", ""), ("wh_galaxy_8x9", "0.75.0"), ("wh_galaxy_8x9", ""),
          ("p100", "0.66.0"), ("p150_12x10", "0.75.0"), ("p150_13x10", "")]  # fmt: skip


@pytest.mark.parametrize(("board", "release"), BOARDS)
def test_a_message_shows_the_board_and_the_release_that_wrote_it(board: str, release: str) -> None:
    known = [one.version for one in known_releases()]
    if release and release not in known:
        pytest.skip(f"ttnn {release} is not here: ssinghal releases add {release}")
    with open_pool(board, "virtual", workers=1, **({"ttnn": release} if release else {})) as pool:
        records = {name: probe(case, pool) for name, case in CASES.items()}
    for name, record in records.items():
        verdict, columns = record.verdict, load_board(board).grid
        assert (record.status, str(verdict.resource)) == (Status.OOM, name.split()[0]), verdict
        fingerprint = fingerprint_of(verdict)
        assert fingerprint.contradictions == ()
        assert fingerprint.arch == load_board(board).arch
        assert board in fingerprint.boards
        assert record.ttnn in fingerprint.releases
        if name != "circular_buffer":
            assert {chip.grid for chip in fingerprint.chips} == {columns}
            assert fingerprint.releases == (record.ttnn,)
            assert fingerprint.l1_small_bytes == CASES[name].placement.l1_small_bytes
        assert not fingerprint.why_not_replayable


def test_a_verdict_without_its_place_and_words_still_shows_them() -> None:
    with open_pool("n300_8x7", "virtual", workers=1) as pool:
        record = probe(CASES["l1_buffer"], pool)
    bare: Verdict = replace(record.verdict, message="", thrown_at="")
    assert fingerprint_of(bare).releases == fingerprint_of(record.verdict).releases == (record.ttnn,)
