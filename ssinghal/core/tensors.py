"""Tensors and boards as arithmetic: padded shapes, pages, bytes per bank. Imports neither torch nor ttnn.

The footprint formula is TTNN's own, checked against its allocator by ``tests/agreement/test_allocator.py``. A buffer is cut
into equal pages, each stored at a multiple of the memory's alignment. Interleaved, the pages go round robin over all banks, so
the fullest bank holds ``ceil(pages / banks) * round_up(page, alignment)`` bytes; sharded, every bank in use holds complete
shards. The allocator books that much in every bank, rounded up to its granule.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from decimal import ROUND_HALF_UP, Context
from functools import cached_property

from ssinghal.core.elements import MAX_DIM as MAX_DIM
from ssinghal.core.elements import TILE_EDGE as TILE_EDGE
from ssinghal.core.elements import TILE_ELEMENTS as TILE_ELEMENTS
from ssinghal.core.elements import DType as DType
from ssinghal.core.elements import Layout as Layout
from ssinghal.core.elements import ceil_div as ceil_div
from ssinghal.core.elements import round_up as round_up
from ssinghal.core.json_values import Bytes, Count
from ssinghal.core.memory_config import BufferType as BufferType
from ssinghal.core.memory_config import Cores as Cores
from ssinghal.core.memory_config import Distribution as Distribution
from ssinghal.core.memory_config import MemoryConfig as MemoryConfig
from ssinghal.core.memory_config import Orientation as Orientation
from ssinghal.core.memory_config import ShardKind as ShardKind
from ssinghal.core.memory_config import ShardSpec as ShardSpec
from ssinghal.core.memory_config import TextEnum as TextEnum
from ssinghal.core.shard_cut import ShardCut, check_edges, cut
from ssinghal.errors import InvalidCase

MAX_RANK = 8
PAGE_COUNT_LIMIT = 2**32  # TTNN counts pages in 32 bits; at this count the allocator silently wraps to a tiny buffer
SIZE_LIMIT = 2**64  # and sums bytes in 64
SHARD_LIMIT = 2**32  # but those of one shard in 32

ONE_CHIP = (1, 1)
IN_DRAM = MemoryConfig()

Shape = tuple[int, ...]


@dataclass(frozen=True)
class MemoryRegion:
    """One kind of memory of a board: ``num_banks`` banks of ``bank_bytes``; pages start at multiples of ``alignment_bytes``."""

    num_banks: Count
    bank_bytes: Bytes
    alignment_bytes: Count


@dataclass(frozen=True)
class Board:
    """One chip as TTNN's allocator sees it.

    Attributes:
        name: ``n150`` and the like, or ``FILE@DIGEST`` of a machine's own cluster descriptor.
        arch: ``wormhole_b0`` or ``blackhole``.
        grid: Columns and rows of cores.
        l1: The L1 of all cores, each of which is a bank, without ``l1_small_bytes``.
        dram: The DRAM of the chip.
        l1_end_bytes: Address where each core's L1 ends.
        granule_bytes: The allocator rounds sizes up to multiples of it.
        l1_small_bytes: Bytes at the top of each core's L1 that are set aside when the device is opened.
        provenance: Where these numbers come from.
        mesh: Rows and columns of chips that are opened together. Tensors are replicated, so that each chip holds what one
            alone would: all numbers are those of any one of them.
    """

    name: str
    arch: str
    grid: tuple[int, int]
    l1: MemoryRegion
    dram: MemoryRegion
    l1_end_bytes: int
    granule_bytes: int
    l1_small_bytes: int = 0
    provenance: str = ""
    mesh: tuple[int, int] = ONE_CHIP

    @property
    def reserved_base_bytes(self) -> int:
        """Bytes that TTNN keeps at the bottom of each L1."""
        return self.l1_end_bytes - self.l1.bank_bytes - self.l1_small_bytes

    def with_l1_small(self, size_bytes: int) -> Board:
        """Returns the board opened with ``l1_small_size``: the region takes the top of every L1 bank, in whole granules.

        Raises:
            InvalidCase: Nothing would be left of the bank.
        """
        booked = round_up(size_bytes, self.granule_bytes)
        bank_bytes = self.l1.bank_bytes + self.l1_small_bytes
        if size_bytes < 0 or booked >= bank_bytes:
            raise InvalidCase(f"l1_small_size {size_bytes} is outside 0..{bank_bytes - 1}, the L1 of one core of {self.name}")
        if booked == self.l1_small_bytes:
            return self
        return replace(self, l1=replace(self.l1, bank_bytes=bank_bytes - booked), l1_small_bytes=booked)

    def region(self, buffer: BufferType) -> MemoryRegion:
        if buffer is BufferType.DRAM:
            return self.dram
        if buffer is BufferType.L1:
            return self.l1
        return MemoryRegion(self.l1.num_banks, self.l1_small_bytes, self.l1.alignment_bytes)


@dataclass(frozen=True)
class TensorSpec:
    """A tensor as it lies on the device, and the arithmetic of its bytes.

    Attributes:
        shape: Sizes in elements, rank 1 to 8, without padding.
        dtype: Type of the elements.
        layout: Tiles or rows.
        memory: Kind of memory, and how the tensor is spread over its banks.
        row_alignment: Elements to whose multiple an operator pads the rows of a row-major result, 1 for none.

    Raises:
        InvalidCase: What TTNN rejects on every board: impossible shapes, block floats in row-major layout, shards that do not
            tile the tensor, interleaved L1_SMALL.

    Examples:
        >>> TensorSpec((1, 64, 640, 400)).padded_shape  # 400 is no multiple of 32
        (1, 64, 640, 416)
    """

    shape: Shape
    dtype: DType = DType.BFLOAT16
    layout: Layout = Layout.TILE
    memory: MemoryConfig = IN_DRAM
    row_alignment: int = 1

    def __post_init__(self) -> None:
        check_shape(self.shape)
        if self.dtype.is_block_float and self.layout is Layout.ROW_MAJOR:
            raise InvalidCase(f"{self.dtype.value} exists in tile layout only, not row_major")
        if self.memory.shard is not None:
            check_edges(self.layout, self.memory.buffer, self.memory.shard)  # first: padding divides by them
            _ = self._cut
        elif self.memory.buffer is BufferType.L1_SMALL:
            raise InvalidCase("l1_small holds sharded tensors only")

    @property
    def volume(self) -> int:
        return math.prod(self.shape)

    @cached_property
    def padded_shape(self) -> Shape:
        """The shape with padding. Tile layout pads the last two dims to multiples of 32 (rank 1 becomes one row of tiles).

        Row-major layout pads the last dim to a multiple of the shard's width, or of ``row_alignment``.
        """
        if self.layout is Layout.TILE:
            height = self.shape[-2] if len(self.shape) > 1 else 1
            return (*self.shape[:-2], round_up(height, TILE_EDGE), round_up(self.shape[-1], TILE_EDGE))
        if self.memory.shard is not None:
            return (*self.shape[:-1], round_up(self.shape[-1], self.memory.shard.shape[-1]))
        return (*self.shape[:-1], round_up(self.shape[-1], self.row_alignment))

    @cached_property
    def padded_2d(self) -> tuple[int, int]:
        """(height, width) of the padded tensor with all dims but the last folded into the height."""
        *leading, width = self.padded_shape
        return math.prod(leading), width

    @cached_property
    def _cut(self) -> ShardCut | None:
        """The shards; None where the tensor is interleaved."""
        shard = self.memory.shard
        return None if shard is None else cut(self.padded_shape, self.layout, self.memory.buffer, shard)

    @cached_property
    def page_bytes(self) -> int:
        """Bytes of a page: one tile, or in row-major layout one row (of the shard, if sharded)."""
        return self._page_values * self.dtype.tile_bytes // TILE_ELEMENTS

    @property
    def _page_values(self) -> int:
        if self.layout is Layout.TILE:
            return TILE_ELEMENTS
        return self.memory.shard.shape[-1] if self.memory.shard else self.padded_shape[-1]

    @cached_property
    def num_pages(self) -> int:
        return math.prod(self.padded_shape) // self._page_values

    @property
    def logical_bytes(self) -> int:
        """Bytes of the values alone, without padding (block floats count their exponents)."""
        return ceil_div(self.volume * self.dtype.tile_bytes, TILE_ELEMENTS)

    @property
    def wraps_page_count(self) -> bool:
        """Whether TTNN's counters overflow, so that its allocator would accept the tensor as a much smaller one.

        Measured: 2^32 + k pages are booked as k, a buffer of 2^64 bytes as nothing, and so is a shard of 2^32 bytes.
        """
        values = self._cut.values_per_bank if self._cut else 0
        return (
            values * self.dtype.tile_bytes // TILE_ELEMENTS >= SHARD_LIMIT
            or self.num_pages >= PAGE_COUNT_LIMIT
            or self.num_pages * self.page_bytes >= SIZE_LIMIT
        )

    def num_banks(self, board: Board) -> int:
        """Returns how many banks the buffer is spread over: all of its memory, or those that hold a shard.

        Raises:
            InvalidCase: The board has fewer cores than the shards need.
        """
        region = board.region(self.memory.buffer)
        if self._cut is None:
            return region.num_banks
        columns, rows = (region.num_banks, 1) if self.memory.buffer is BufferType.DRAM else board.grid
        needed = self._cut.bounds
        if needed[0] > columns or needed[1] > rows:
            reach = f"they reach over {needed[0]}x{needed[1]} cores"
            raise InvalidCase(f"shards {self.memory}: {reach}; {board.name} has {columns}x{rows} for {self.memory.buffer}")
        return self._cut.banks

    def aligned_page_bytes(self, board: Board) -> int:
        """Returns the distance between two pages of a bank. Tiles need no padding for it, rows often do."""
        return round_up(self.page_bytes, board.region(self.memory.buffer).alignment_bytes)

    def bytes_per_bank(self, board: Board) -> int:
        """Returns what the fullest bank must store: the "each bank needs to store" of TTNN's text."""
        if self._cut is None:
            return ceil_div(self.num_pages, self.num_banks(board)) * self.aligned_page_bytes(board)
        return self._cut.values_per_bank // self._page_values * self.aligned_page_bytes(board)

    def allocated_bytes(self, board: Board) -> int:
        """Returns the bytes of all pages with padding and alignment: the "Not enough space to allocate" of TTNN's text.

        Every shard counts in full, including one that the tensor fills in part, and every bank as the fullest.
        """
        if self.memory.shard is None:
            return self.num_pages * self.aligned_page_bytes(board)
        return self.num_banks(board) * self.bytes_per_bank(board)

    def booked_bytes_per_bank(self, board: Board) -> int:
        """Returns what the allocator's memory view shows as allocated: ``bytes_per_bank`` rounded up to its granule."""
        return round_up(self.bytes_per_bank(board), board.granule_bytes)


def check_shape(shape: Shape, what: str = "shape") -> Shape:
    """Returns ``shape`` unchanged if its rank is 1 to 8 and every size a whole number from 1 to 2^32-1.

    TTNN divides by zero on empty tensors and wraps at 2^32, so such shapes must not reach it.

    Raises:
        InvalidCase: It is another shape.
    """
    if not 1 <= len(shape) <= MAX_RANK:
        raise InvalidCase(f"{what} {list(shape)} has rank {len(shape)}; expected 1 to {MAX_RANK}")
    for size in shape:
        if isinstance(size, bool) or not isinstance(size, int):
            raise InvalidCase(f"{what} {list(shape)}: size {size!r} is not a whole number")
        if not 1 <= size <= MAX_DIM:
            raise InvalidCase(f"{what} {list(shape)}: size {size} is outside 1..{MAX_DIM}")
    return shape


def format_bytes(size_bytes: int) -> str:
    """Returns a size in binary units, with the exact number.

    >>> format_bytes(34078720)
    '32.5 MiB (34,078,720 B)'
    """
    size = float(size_bytes)
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if abs(size) < 1024 or unit == "TiB":
            break
        size /= 1024
    if unit == "B":
        return f"{size_bytes:,} B"
    rounded = Context(prec=4, rounding=ROUND_HALF_UP).create_decimal_from_float(size).normalize()
    return f"{rounded:,f} {unit} ({size_bytes:,} B)"


def format_shape(shape: Shape) -> str:
    return "[" + ",".join(map(str, shape)) + "]"
