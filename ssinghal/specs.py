"""Tensors and boards as arithmetic: padded shapes, pages, bytes per bank. Imports neither torch nor ttnn.

The footprint formula is TTNN's own, checked against its allocator by ``meta_tests/test_specs_allocator.py``:
a buffer is cut into equal pages that go round robin over the banks, so the fullest bank holds
``ceil(pages / banks) * round_up(page, alignment)`` bytes; the allocator books that rounded up to its granule.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from enum import Enum

from ssinghal.errors import InvalidCase

TILE_EDGE = 32
TILE_ELEMENTS = TILE_EDGE * TILE_EDGE
MAX_RANK = 8
MAX_DIM = 2**32 - 1
PAGE_COUNT_LIMIT = 2**32  # TTNN counts pages in 32 bits; at this count the allocator silently wraps to a tiny buffer

Shape = tuple[int, ...]


class TextEnum(str, Enum):
    """Members are their text, printed as such (Python 3.10 has no StrEnum)."""

    def __str__(self) -> str:
        return str(self.value)


class DType(TextEnum):
    BFLOAT16 = "bfloat16"
    FLOAT32 = "float32"
    BFLOAT8_B = "bfloat8_b"
    BFLOAT4_B = "bfloat4_b"
    UINT8 = "uint8"
    UINT16 = "uint16"
    UINT32 = "uint32"
    INT32 = "int32"

    @property
    def tile_bytes(self) -> int:
        """Bytes of one 32x32 tile; block floats add one shared exponent byte per 16 elements."""
        return _TILE_BYTES[self]

    @property
    def is_block_float(self) -> bool:
        return self in (DType.BFLOAT8_B, DType.BFLOAT4_B)


_TILE_BYTES = {
    DType.BFLOAT16: 2048, DType.FLOAT32: 4096, DType.BFLOAT8_B: 1088, DType.BFLOAT4_B: 576,
    DType.UINT8: 1024, DType.UINT16: 2048, DType.UINT32: 4096, DType.INT32: 4096,
}  # fmt: skip


class Layout(TextEnum):
    TILE = "tile"
    ROW_MAJOR = "row_major"


class BufferType(TextEnum):
    DRAM = "dram"
    L1 = "l1"
    L1_SMALL = "l1_small"


class ShardKind(TextEnum):
    HEIGHT = "height"
    WIDTH = "width"
    BLOCK = "block"


@dataclass(frozen=True)
class ShardSpec:
    """A tensor cut into equal shards, one per core of a ``grid`` = (columns, rows) that starts at core (0, 0).

    ``shape`` is the shard's (height, width) in elements, over the tensor seen as 2-D (leading dims folded into the height).
    """

    kind: ShardKind
    shape: tuple[int, int]
    grid: tuple[int, int]


@dataclass(frozen=True)
class MemoryConfig:
    """Where a tensor lives: interleaved over all banks of ``buffer``, or sharded."""

    buffer: BufferType = BufferType.DRAM
    shard: ShardSpec | None = None

    def __str__(self) -> str:
        return self.buffer.value if self.shard is None else f"{self.buffer.value} {self.shard.kind.value}-sharded"


@dataclass(frozen=True)
class MemoryRegion:
    """One kind of memory of a board: ``num_banks`` banks of ``bank_bytes``; pages start at multiples of ``alignment_bytes``."""

    num_banks: int
    bank_bytes: int
    alignment_bytes: int


@dataclass(frozen=True)
class Board:
    """One chip as TTNN's allocator sees it. ``reserved_base_bytes`` is what TTNN keeps at the bottom of each L1."""

    name: str
    arch: str
    grid: tuple[int, int]
    l1: MemoryRegion
    dram: MemoryRegion
    l1_end_bytes: int
    granule_bytes: int
    l1_small_bytes: int = 0
    provenance: str = ""

    @property
    def reserved_base_bytes(self) -> int:
        return self.l1_end_bytes - self.l1.bank_bytes - self.l1_small_bytes

    def with_l1_small(self, size_bytes: int) -> Board:
        """The board opened with ``l1_small_size``: the region is cut from the top of every L1 bank."""
        l1 = replace(self.l1, bank_bytes=self.l1.bank_bytes + self.l1_small_bytes - size_bytes)
        return replace(self, l1=l1, l1_small_bytes=size_bytes)

    def region(self, buffer: BufferType) -> MemoryRegion:
        if buffer is BufferType.DRAM:
            return self.dram
        if buffer is BufferType.L1:
            return self.l1
        return MemoryRegion(self.l1.num_banks, self.l1_small_bytes, self.l1.alignment_bytes)


@dataclass(frozen=True)
class TensorSpec:
    """A tensor as it lies on the device: shape, dtype, layout and memory config."""

    shape: Shape
    dtype: DType = DType.BFLOAT16
    layout: Layout = Layout.TILE
    memory: MemoryConfig = MemoryConfig()

    def __post_init__(self) -> None:
        check_shape(self.shape)
        if self.dtype.is_block_float and self.layout is Layout.ROW_MAJOR:
            raise InvalidCase(f"{self.dtype.value} exists in tile layout only, not row_major")

    @property
    def volume(self) -> int:
        return math.prod(self.shape)

    @property
    def padded_shape(self) -> Shape:
        """Tile layout pads the last two dims to multiples of 32 (a rank-1 tensor becomes one row of tiles)."""
        if self.layout is Layout.ROW_MAJOR:
            return self.shape
        height = self.shape[-2] if len(self.shape) > 1 else 1
        return (*self.shape[:-2], round_up(height, TILE_EDGE), round_up(self.shape[-1], TILE_EDGE))

    @property
    def page_bytes(self) -> int:
        """A page is one tile, or in row-major layout one row (one row of the shard, if sharded)."""
        if self.layout is Layout.TILE:
            return self.dtype.tile_bytes
        width = self.memory.shard.shape[1] if self.memory.shard else self.shape[-1]
        return width * self.dtype.tile_bytes // TILE_ELEMENTS

    @property
    def num_pages(self) -> int:
        if self.layout is Layout.TILE:
            return math.prod(self.padded_shape) // TILE_ELEMENTS
        rows = math.prod(self.shape[:-1])
        return rows * math.ceil(self.shape[-1] / self.memory.shard.shape[1]) if self.memory.shard else rows

    @property
    def logical_bytes(self) -> int:
        """Bytes of the values alone, without padding (block floats count their exponents)."""
        return math.ceil(self.volume * self.dtype.tile_bytes / TILE_ELEMENTS)

    @property
    def allocated_bytes(self) -> int:
        """Bytes of all pages, tile padding included; the "… B buffer" of TTNN's out-of-memory text."""
        return self.num_pages * self.page_bytes

    @property
    def wraps_page_count(self) -> bool:
        """True where TTNN's 32-bit page count overflows and its allocator would pass a buffer far too small."""
        return self.num_pages >= PAGE_COUNT_LIMIT or self.page_bytes >= 2**32

    def bytes_per_bank(self, board: Board) -> int:
        """What the fullest bank must store: the "each bank needs to store" of TTNN's text."""
        region = board.region(self.memory.buffer)
        page = round_up(self.page_bytes, region.alignment_bytes)
        if self.memory.shard is not None:
            height, width = self.memory.shard.shape
            pages = height if self.layout is Layout.ROW_MAJOR else math.ceil(height / 32) * math.ceil(width / 32)
            return pages * page
        return math.ceil(self.num_pages / region.num_banks) * page

    def booked_bytes_per_bank(self, board: Board) -> int:
        """What the allocator's memory view shows as allocated: ``bytes_per_bank`` rounded up to its granule."""
        return round_up(self.bytes_per_bank(board), board.granule_bytes)


def round_up(value: int, multiple: int) -> int:
    return -(-value // multiple) * multiple


def check_shape(shape: Shape, what: str = "shape") -> Shape:
    """``shape`` unchanged, or InvalidCase: rank 1 to 8, every size a whole number from 1 to 2^32-1.

    TTNN divides by zero on empty tensors and wraps at 2^32, so such shapes never reach it.
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
    """Binary units under their own names, with the exact figure.

    >>> format_bytes(34078720)
    '32.5 MiB (34,078,720 B)'
    """
    size = float(size_bytes)
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if abs(size) < 1024 or unit == "TiB":
            break
        size /= 1024
    return f"{size_bytes:,} B" if unit == "B" else f"{size:.4g} {unit} ({size_bytes:,} B)"


def format_shape(shape: Shape) -> str:
    return "[" + ",".join(map(str, shape)) + "]"
