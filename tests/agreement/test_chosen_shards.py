"""What is chosen for a sharded memory is what TTNN's own helpers choose, wherever their result holds the tensor."""

from __future__ import annotations

import multiprocessing
import random
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import pytest

from ssinghal.core.device_facts import DeviceMode
from ssinghal.core.memory_config import BufferType, Cores, MemoryConfig, Orientation, Sharding, ShardKind
from ssinghal.core.sharding import complete
from ssinghal.core.tensors import DType, Layout, TensorSpec
from ssinghal.device.modes import DeviceChoice
from ssinghal.device.session import Session
from ssinghal.device.virtual import apply_environment, environment_for
from ssinghal.device.virtual_cache import scratch_folder

pytestmark = pytest.mark.virtual_device

KINDS = [ShardKind.HEIGHT, ShardKind.WIDTH, ShardKind.BLOCK]


def on_a_device(work: Any, board: str) -> Any:
    """Runs ``work(session)`` in a process of its own, since a process can open one board only."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as worker:
        return worker.submit(_with_session, work, board).result(timeout=120)


def _with_session(work: Any, board: str) -> Any:
    choice = DeviceChoice(DeviceMode.VIRTUAL, board, "requested")
    with scratch_folder() as scratch:
        apply_environment(environment_for(choice, scratch))
        with Session(choice) as session:
            return work(session)


def _even_shards(session: Session) -> tuple[Counter[str], list[str]]:
    """Compares random shapes and grids; returns how many per kind and orientation TTNN's helper accepted, and differences."""
    ttnn, rng, board = session.ttnn, random.Random(16), session.board
    accepted: Counter[str] = Counter()
    differences = []
    for _ in range(6000):
        kind, orientation, layout = rng.choice(KINDS), rng.choice(list(Orientation)), rng.choice(list(Layout))
        columns, rows = rng.randint(1, board.grid[0]), rng.randint(1, board.grid[1])
        unit = 32 if layout is Layout.TILE else rng.choice([1, 3, 8])
        shape = (
            *(rng.choice([1, 2, 3]) for _ in range(rng.randint(0, 2))),
            unit * rng.choice([1, rows, columns, rows * columns, rng.randint(1, 40)]),
            unit * rng.choice([1, rows, columns, rows * columns, rng.randint(1, 40)]),
        )
        spec = TensorSpec(shape, DType.BFLOAT16, layout, MemoryConfig(BufferType.L1))
        strategy = getattr(ttnn.ShardStrategy, kind.name)
        turned = getattr(ttnn.ShardOrientation, orientation.name)
        try:
            config = ttnn.create_sharded_memory_config(list(shape), ttnn.CoreGrid(x=columns, y=rows), strategy, turned)
            tensor = ttnn.empty(
                list(shape),
                dtype=ttnn.bfloat16,
                layout=ttnn.TILE_LAYOUT if layout is Layout.TILE else ttnn.ROW_MAJOR_LAYOUT,
                device=session.device,
                memory_config=config,
            )
        except RuntimeError:
            continue  # it does not divide evenly, or not into tiles
        expected = session.spec_of(tensor)
        tensor.deallocate()
        accepted[f"{kind} {orientation} {layout}"] += 1
        ours = complete(spec, BufferType.L1, Sharding(kind, Cores.grid(columns, rows), None, orientation), board)
        if ours != expected:
            differences.append(f"{shape} {layout}: {expected.memory}; here {ours.memory}")
    return accepted, differences


@pytest.mark.parametrize("board", ["n150", "p150"])
def test_shards_on_a_grid_are_those_of_create_sharded_memory_config(board: str) -> None:
    accepted, differences = on_a_device(_even_shards, board)
    assert differences == []
    assert len(accepted) == len(KINDS) * 4
    assert min(accepted.values()) > 30


def _given_shards(session: Session) -> list[str]:
    """``use_height_and_width_as_shard_shape``: the shape is that of the shard, for COL_MAJOR with height and width swapped."""
    ttnn, differences = session.ttnn, []
    for orientation in Orientation:
        swapped = orientation is Orientation.COL_MAJOR
        cores = Cores((((0, 0), (7, 2)), ((0, 3), (2, 3))))
        ranges = [ttnn.CoreRange(ttnn.CoreCoord(*start), ttnn.CoreCoord(*end)) for start, end in cores.ranges]
        config = ttnn.create_sharded_memory_config(
            (32, 64) if swapped else (64, 32),
            ttnn.CoreRangeSet(ranges),
            ttnn.ShardStrategy.HEIGHT,
            getattr(ttnn.ShardOrientation, orientation.name),
            use_height_and_width_as_shard_shape=True,
        )
        spec = TensorSpec((27 * 64, 32), memory=MemoryConfig(BufferType.L1))
        ours = complete(spec, BufferType.L1, Sharding(ShardKind.HEIGHT, cores, (64, 32), orientation), session.board)
        if session.memory_config(ours.memory) != config:
            differences.append(f"{config}; here {ours.memory}")
    return differences


def test_a_given_shard_is_that_of_use_height_and_width_as_shard_shape() -> None:
    assert on_a_device(_given_shards, "n150") == []


def _counted_cores(session: Session) -> list[str]:
    ttnn, (columns, rows) = session.ttnn, session.board.grid
    differences = []
    for count in range(1, columns * rows + 1):
        for orientation in Orientation:
            by_rows = orientation is Orientation.ROW_MAJOR
            found = ttnn.num_cores_to_corerangeset(count, ttnn.CoreCoord(columns, rows), by_rows)
            theirs = [((r.start.x, r.start.y), (r.end.x, r.end.y)) for r in found.ranges()]
            ours = Cores.first(count, (columns, rows), orientation)
            if sorted(theirs) != sorted(ours.ranges):
                differences.append(f"{count} {orientation}: {theirs}; here {ours}")
    return differences


@pytest.mark.parametrize("board", ["n150", "p150"])
def test_a_number_of_cores_is_that_of_num_cores_to_corerangeset(board: str) -> None:
    assert on_a_device(_counted_cores, board) == []


def _weights_in_dram(session: Session) -> list[str]:
    """Ports cut the weights of DRAM-sharded matrix products so: columns padded to banks x tile, over all banks."""
    banks, differences = session.board.dram.num_banks, []
    for columns in range(32, 8192, 32 * 7):
        padded = -(-columns // (32 * banks)) * 32 * banks
        cut = complete(TensorSpec((1024, columns)), BufferType.DRAM, Sharding(ShardKind.WIDTH), session.board)
        tensor = session.empty(cut)
        found = session.spec_of(tensor).memory
        tensor.deallocate()
        if str(found) != f"dram:width@{banks}x1:1024x{padded // banks}":
            differences.append(f"{columns}: {found}")
    return differences


@pytest.mark.parametrize("board", ["n150", "p100", "p150"])
def test_weights_in_dram_are_cut_over_all_banks(board: str) -> None:
    assert on_a_device(_weights_in_dram, board) == []
