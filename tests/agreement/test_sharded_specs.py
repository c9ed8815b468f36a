"""Shard arithmetic against TTNN's allocator: a seeded part of what ``benchmarks/sharded_specs.py`` compares."""

from __future__ import annotations

import pytest

from benchmarks.sharded_specs import compare
from ssinghal.core.memory_config import ShardKind

pytestmark = pytest.mark.virtual_device


@pytest.mark.parametrize("board", ["n150", "p100", "p150"])  # 12, 7 and 8 DRAM banks
def test_figures_and_rejections_are_ttnns(board: str) -> None:
    outcome = compare(board, 300, seed=20261129)
    assert outcome.differences == []
    groups = [
        f"{buffer} {kind} {layout}" for buffer in ("dram", "l1") for kind in ShardKind for layout in ("row_major", "tile")
    ]
    assert sorted(outcome.compared) == sorted(groups)
    assert outcome.rejected > 50
