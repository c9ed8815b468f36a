"""Compares the arithmetic of ``TensorSpec`` with TTNN's allocator, byte for byte, on a virtual device.

Every spec is allocated twice: on an empty device, where the allocator's memory view shows what it booked, and on a full one,
where the out-of-memory text names the total, the banks and the bytes per bank.
"""

from __future__ import annotations

import multiprocessing
import re
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from ssinghal.core.boards import board_names, load_board
from ssinghal.core.device_facts import DeviceFacts, DeviceMode
from ssinghal.core.memory_config import Sharding
from ssinghal.core.sharding import complete
from ssinghal.core.tensors import (
    Board,
    BufferType,
    Cores,
    DType,
    Layout,
    MemoryConfig,
    Shape,
    ShardKind,
    ShardSpec,
    TensorSpec,
)
from ssinghal.device.modes import DeviceChoice
from ssinghal.device.session import Session
from ssinghal.device.virtual import apply_environment, environment_for
from ssinghal.device.virtual_cache import scratch_folder
from ssinghal.errors import InvalidCase

pytestmark = pytest.mark.virtual_device

_TEXT = re.compile(r"allocate (\d+) B \w+ buffer across (\d+) banks, where each bank needs to store (\d+) B")
_EXAMPLES = settings(max_examples=300, derandomize=True, deadline=None, database=None)

# Sent to the worker: a spec that is not checked yet, so that TTNN's rejections can be compared with those here.
Request = tuple[Shape, DType, Layout, MemoryConfig]


@dataclass(frozen=True)
class Answer:
    """TTNN's answer. ``rejected``: its text where that is not about memory. ``text``: that of a full device."""

    rejected: str = ""
    booked_bytes: int | None = None
    num_pages: int | None = None
    padded_shape: Shape | None = None
    text: str = ""


# In the worker process ---------------------------------------------------------------------------------------------------

_session: Session | None = None


def _open(choice: DeviceChoice, environment: dict[str, str | None]) -> None:
    global _session
    apply_environment(environment)
    _session = Session(choice)


def _facts() -> DeviceFacts:
    assert _session is not None
    return _session.facts


def _answer(requested: Request) -> Answer:
    assert _session is not None
    buffer = requested[3].buffer
    answer = Answer()
    try:
        tensor = _allocate(_session, requested)
    except RuntimeError as error:
        if "Out of Memory" not in str(error):
            return Answer(rejected=str(error))
    else:
        booked = _session.memory(buffer).allocated_bytes
        answer = Answer("", booked, tensor.buffer_num_pages(), tuple(tensor.padded_shape))
        tensor.deallocate()
    region = _session.memory(buffer)
    one_row_per_bank = (region.num_banks, region.bank_bytes // 2)
    filler = _allocate(_session, (one_row_per_bank, DType.BFLOAT16, Layout.ROW_MAJOR, MemoryConfig(buffer)))
    try:
        _allocate(_session, requested)
    except RuntimeError as error:
        return replace(answer, text=str(error))
    finally:
        filler.deallocate()
    return answer


def _allocate(session: Session, requested: Request) -> Any:
    ttnn = session.ttnn
    shape, dtype, layout, memory = requested
    return ttnn.empty(
        list(shape),
        dtype=getattr(ttnn, dtype.value),
        layout=ttnn.TILE_LAYOUT if layout is Layout.TILE else ttnn.ROW_MAJOR_LAYOUT,
        device=session.device,
        memory_config=session.memory_config(memory),
    )


# In the test process -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Allocator:
    board: Board
    worker: ProcessPoolExecutor

    def answer(self, requested: Request) -> Answer:
        return self.worker.submit(_answer, requested).result(timeout=60)


@contextmanager
def opened(board: str) -> Iterator[Allocator]:
    """Runs a process with this board open; a second board in one process would keep the first one's grid."""
    choice = DeviceChoice(DeviceMode.VIRTUAL, board, "requested")
    spawn = multiprocessing.get_context("spawn")
    with scratch_folder() as scratch:
        arguments = (choice, environment_for(choice, scratch))
        with ProcessPoolExecutor(1, spawn, initializer=_open, initargs=arguments) as worker:
            yield Allocator(load_board(board), worker)


@pytest.fixture(scope="module", params=["n150", "p150"])
def allocator(request: pytest.FixtureRequest) -> Iterator[Allocator]:
    with opened(request.param) as allocator:
        yield allocator


@pytest.mark.parametrize("name", board_names())
def test_board_files_say_what_ttnn_opens(name: str) -> None:
    with opened(name) as allocator:
        facts = allocator.worker.submit(_facts).result(timeout=60)
    board = allocator.board
    assert (board.arch, board.grid, board.l1, board.dram) == (facts.arch, facts.grid, facts.l1, facts.dram)
    assert board.reserved_base_bytes == facts.l1_base_bytes
    assert board.provenance == f"ttnn {facts.ttnn}"


sizes = st.one_of(
    st.integers(1, 100),
    st.sampled_from([1, 2, 31, 32, 33, 63, 64, 65, 127, 128, 1000, 1024]),
    st.integers(1, 5000),
)
shapes = st.lists(sizes, min_size=1, max_size=8).map(tuple).filter(lambda s: prod(s) < 2**40)
small_shapes = st.lists(st.integers(1, 70), min_size=1, max_size=4).map(tuple)
dtypes_of = {
    Layout.TILE: st.sampled_from(list(DType)),
    Layout.ROW_MAJOR: st.sampled_from([d for d in DType if not d.is_block_float]),
}
layouts = st.sampled_from(list(Layout))
buffers = st.sampled_from([BufferType.L1, BufferType.DRAM])


KINDS = [ShardKind.HEIGHT, ShardKind.WIDTH, ShardKind.BLOCK]


@st.composite
def interleaved(draw: st.DrawFn) -> TensorSpec:
    layout = draw(layouts)
    spec = TensorSpec(draw(shapes), draw(dtypes_of[layout]), layout, MemoryConfig(draw(buffers)))
    assume(not spec.wraps_page_count)
    return spec


@st.composite
def shard_grids(draw: st.DrawFn, buffer: BufferType) -> tuple[int, int]:
    """Draws a grid that every board has: 8x8 cores, or 7 DRAM banks in a row."""
    return (draw(st.integers(1, 7)), 1) if buffer is BufferType.DRAM else (draw(st.integers(1, 8)), draw(st.integers(1, 8)))


@st.composite
def sharded(draw: st.DrawFn) -> TensorSpec:
    """Draws shards that TTNN accepts: enough cores, complete tiles in tile layout, the full width or height where required."""
    layout, buffer, kind = (
        draw(layouts),
        draw(buffers),
        draw(st.sampled_from(KINDS)),
    )
    shape, dtype = draw(small_shapes), draw(dtypes_of[layout])
    height, width = TensorSpec(shape, dtype, layout).padded_2d
    columns, rows = grid = draw(shard_grids(buffer))
    step = 32 if layout is Layout.TILE else 1

    def edge(size: int, cores: int) -> int:
        """Draws a shard's edge such that at most ``cores`` shards cover ``size``."""
        least = -(-size // cores // step) * step
        return least + step * draw(st.integers(0, 3))

    if layout is Layout.ROW_MAJOR and len(shape) == 1:
        shard = (1, width if kind is ShardKind.HEIGHT else edge(width, columns))
    elif kind is ShardKind.HEIGHT:
        wider = 0 if layout is Layout.TILE else draw(st.integers(0, 20))
        shard = (edge(height, columns * rows), width + wider)
    elif kind is ShardKind.WIDTH:
        shard = (height, edge(width, columns * rows))
    else:
        shard = (edge(height, rows), edge(width, columns))
    return TensorSpec(shape, dtype, layout, MemoryConfig(buffer, ShardSpec(kind, shard, Cores.grid(*grid))))


@st.composite
def any_shards(draw: st.DrawFn) -> Request:
    """Draws shards that a user may write: near the tensor's own size, about half of them wrong."""
    layout, buffer = draw(layouts), draw(buffers)
    shape = draw(st.lists(st.sampled_from([1, 32, 64, 70, 96]), min_size=1, max_size=3).map(tuple))
    edges = st.sampled_from([*TensorSpec(shape, layout=layout).padded_2d] * 3 + [32, 64, 96, 128, 48, 1])
    grid = (draw(st.integers(1, 13)), 1 if buffer is BufferType.DRAM and draw(st.booleans()) else draw(st.integers(1, 11)))
    shard = ShardSpec(
        draw(st.sampled_from(KINDS)),
        (draw(edges), draw(edges)),
        Cores.grid(*grid),
    )
    return shape, draw(dtypes_of[layout]), layout, MemoryConfig(buffer, shard)


def _check(spec: TensorSpec, allocator: Allocator) -> None:
    board = allocator.board
    answer = allocator.answer((spec.shape, spec.dtype, spec.layout, spec.memory))
    assert not answer.rejected
    found = _TEXT.search(answer.text)
    assert found, answer.text
    total, banks, per_bank = map(int, found.groups())
    assert (spec.allocated_bytes(board), spec.num_banks(board), spec.bytes_per_bank(board)) == (total, banks, per_bank)
    if answer.booked_bytes is None:
        assert spec.booked_bytes_per_bank(board) > board.region(spec.memory.buffer).bank_bytes
    else:
        assert spec.booked_bytes_per_bank(board) == answer.booked_bytes
        assert spec.num_pages == answer.num_pages
        assert spec.padded_shape == answer.padded_shape


@given(spec=interleaved())
@_EXAMPLES
def test_interleaved(spec: TensorSpec, allocator: Allocator) -> None:
    _check(spec, allocator)


@given(spec=sharded())
@_EXAMPLES
def test_sharded(spec: TensorSpec, allocator: Allocator) -> None:
    _check(spec, allocator)


@given(spec=interleaved(), kind=st.sampled_from(KINDS))
@_EXAMPLES
def test_even_shards(spec: TensorSpec, kind: ShardKind, allocator: Allocator) -> None:
    """Shards over all cores, whatever the shape: TTNN accepts them and books the computed bytes."""
    assume(len(spec.shape) > 1 and max(spec.padded_2d) < 2**32)
    cut = complete(spec, BufferType.L1, Sharding(kind), allocator.board)
    assume(not cut.wraps_page_count)
    _check(cut, allocator)


@given(requested=any_shards())
@settings(_EXAMPLES, max_examples=150)
def test_shards_are_rejected_where_ttnn_rejects_them(requested: Request, allocator: Allocator) -> None:
    try:
        TensorSpec(*requested).num_banks(allocator.board)
    except InvalidCase:
        rejected = True
    else:
        rejected = False
    assert bool(allocator.answer(requested).rejected) == rejected


@pytest.mark.parametrize(
    ("shape", "layout", "pages_booked"),
    [
        ((65536, 65536, 16), Layout.ROW_MAJOR, 0),  # 2^32 rows
        ((65536, 65537, 16), Layout.ROW_MAJOR, 65536),
        ((65536, 65536, 1, 1), Layout.TILE, 0),  # 2^32 tiles
        ((2**30, 2**31), Layout.TILE, 0),
    ],
)
def test_page_counts_that_wrap_pass_the_allocator(
    shape: Shape, layout: Layout, pages_booked: int, allocator: Allocator
) -> None:
    """The reason for ``wraps_page_count``: TTNN accepts these, 128 GiB and more, as a few pages."""
    spec = TensorSpec(shape, DType.BFLOAT16, layout, MemoryConfig(BufferType.L1))
    assert spec.wraps_page_count
    answer = allocator.answer((spec.shape, spec.dtype, spec.layout, spec.memory))
    board = allocator.board
    row = 32  # 16 bf16 values
    per_bank = -(-pages_booked // board.l1.num_banks) * row
    assert answer.booked_bytes == max(board.granule_bytes, -(-per_bank // board.granule_bytes) * board.granule_bytes)


@pytest.mark.parametrize(
    ("shape", "dtype", "layout"),
    [
        ((65536, 65535, 16), DType.BFLOAT16, Layout.ROW_MAJOR),
        ((2**32 - 1, 1), DType.BFLOAT16, Layout.TILE),
        ((1, 2**32 - 1), DType.FLOAT32, Layout.ROW_MAJOR),
        ((2**32 - 1, 2**30 - 4), DType.FLOAT32, Layout.ROW_MAJOR),
    ],
)
@pytest.mark.parametrize("buffer", [BufferType.L1, BufferType.DRAM])
def test_largest_tensors_that_do_not_wrap(
    shape: Shape, dtype: DType, layout: Layout, buffer: BufferType, allocator: Allocator
) -> None:
    spec = TensorSpec(shape, dtype, layout, MemoryConfig(buffer))
    assert not spec.wraps_page_count
    _check(spec, allocator)
