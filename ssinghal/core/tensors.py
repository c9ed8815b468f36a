"""Tensors and boards as arithmetic: padded shapes, pages, bytes per bank. Imports neither torch nor ttnn.

The footprint formula is TTNN's own, checked against its allocator by ``tests/agreement/test_allocator.py``. A buffer is cut
into equal pages, each stored at a multiple of the memory's alignment. Interleaved, the pages go round robin over all banks, so
the fullest bank holds ``ceil(pages / banks) * round_up(page, alignment)`` bytes; sharded, every bank in use holds one complete
shard. The allocator books that much in every bank, rounded up to its granule.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from decimal import ROUND_HALF_UP, Context
from functools import cached_property

from ssinghal.core.json_values import Bytes, Count
from ssinghal.core.memory_config import BufferType as BufferType
from ssinghal.core.memory_config import Cores as Cores
from ssinghal.core.memory_config import MemoryConfig as MemoryConfig
from ssinghal.core.memory_config import Orientation as Orientation
from ssinghal.core.memory_config import ShardKind as ShardKind
from ssinghal.core.memory_config import ShardSpec as ShardSpec
from ssinghal.core.memory_config import TextEnum as TextEnum
from ssinghal.errors import InvalidCase

TILE_EDGE = 32
TILE_ELEMENTS = TILE_EDGE * TILE_EDGE
MAX_RANK = 8
MAX_DIM = 2**32 - 1
PAGE_COUNT_LIMIT = 2**32  # TTNN counts pages in 32 bits; at this count the allocator silently wraps to a tiny buffer
SIZE_LIMIT = 2**64  # and sums bytes in 64
SHARD_LIMIT = 2**32  # but those of one shard in 32

ONE_CHIP = (1, 1)
IN_DRAM = MemoryConfig()

Shape = tuple[int, ...]


class DType(TextEnum):
    """Element types of TTNN. ``bfloat8_b`` and ``bfloat4_b`` are block floats, which share exponents and need tile layout.

    >>> DType("bf8")  # the short names that engineers use are taken as well
    <DType.BFLOAT8_B: 'bfloat8_b'>
    """

    BFLOAT16 = "bfloat16"
    FLOAT32 = "float32"
    BFLOAT8_B = "bfloat8_b"
    BFLOAT4_B = "bfloat4_b"
    UINT8 = "uint8"
    UINT16 = "uint16"
    UINT32 = "uint32"
    INT32 = "int32"

    @classmethod
    def _missing_(cls, value: object) -> DType | None:
        return next((cls(name) for short, name in _SHORT_DTYPES if short == value), None)

    @property
    def tile_bytes(self) -> int:
        """Bytes of one 32x32 tile; block floats add one shared exponent byte per 16 elements."""
        return _TILE_BYTES[self]

    @property
    def is_block_float(self) -> bool:
        return self in (DType.BFLOAT8_B, DType.BFLOAT4_B)


_SHORT_DTYPES = (("bf16", "bfloat16"), ("fp32", "float32"), ("bf8", "bfloat8_b"), ("bf4", "bfloat4_b"))
_TILE_BYTES = {
    DType.BFLOAT16: 2048, DType.FLOAT32: 4096, DType.BFLOAT8_B: 1088, DType.BFLOAT4_B: 576,
    DType.UINT8: 1024, DType.UINT16: 2048, DType.UINT32: 4096, DType.INT32: 4096,
}  # fmt: skip


class Layout(TextEnum):
    """Order of the elements: tiles of 32 x 32, to which the last two dims are padded, or rows."""

    TILE = "tile"
    ROW_MAJOR = "row_major"


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
            self._check_shards(self.memory.shard)
        elif self.memory.buffer is BufferType.L1_SMALL:
            raise InvalidCase("l1_small holds sharded tensors only")

    def _check_shards(self, shard: ShardSpec) -> None:
        """Checks TTNN's own conditions on a shard spec; ``num_banks`` checks those on the board's grid."""
        where = f"{self.memory.buffer} shards {shard}"
        if min(shard.shape) < 1 or max(shard.shape) > MAX_DIM:
            raise InvalidCase(f"{where}: sizes must be at least 1, and edges at most {MAX_DIM}")
        if self.layout is Layout.TILE and any(edge % TILE_EDGE for edge in shard.shape[-2:]):
            raise InvalidCase(f"{where}: in tile layout both edges must be multiples of {TILE_EDGE}")
        if self.memory.buffer is BufferType.DRAM and self._needed_cores[1] > 1:
            raise InvalidCase(f"{where}: DRAM banks form one row")
        if shard.kind is ShardKind.ND:
            if len(shard.shape) > len(self.shape):
                raise InvalidCase(f"{where}: the shard has more dims than the tensor, {format_shape(self.shape)}")
            return
        if len(shard.shape) != 2:
            raise InvalidCase(f"{where}: expected a shard of height x width")
        height, width = self.padded_2d
        if shard.kind is ShardKind.HEIGHT and shard.shape[1] != width:
            raise InvalidCase(f"{where}: a height shard must be as wide as the padded tensor, {width}")
        if shard.kind is ShardKind.WIDTH and shard.shape[0] != height:
            raise InvalidCase(f"{where}: a width shard must be as high as the padded tensor, {height}")
        if self.layout is Layout.ROW_MAJOR and len(self.shape) == 1 and shard.shape[0] != 1:
            raise InvalidCase(f"{where}: a row-major tensor of rank 1 has shards of height 1")
        down, across = self._shards
        if shard.kind is not ShardKind.BLOCK:
            fits = down * across <= shard.cores.count
        elif not shard.cores.is_rectangle:
            raise InvalidCase(f"{where}: block shards need a rectangle of cores")
        else:
            columns, rows = shard.cores.box
            lines = (rows, columns) if shard.orientation is Orientation.ROW_MAJOR else (columns, rows)
            fits = down <= lines[0] and across <= lines[1]
        if not fits:
            raise InvalidCase(f"{where}: {down} shards down and {across} across are more than the grid has cores")

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
    def _shards(self) -> tuple[int, int]:
        """Shards down the folded height and across the width; (1, 1) when interleaved."""
        if self.memory.shard is None:
            return 1, 1
        (height, width), (shard_height, shard_width) = self.padded_2d, self.memory.shard.shape
        return ceil_div(height, shard_height), ceil_div(width, shard_width)

    @property
    def _needed_cores(self) -> tuple[int, int]:
        """Columns and rows of cores that must exist: the complete grid, or for block shards those that get one."""
        shard = self.memory.shard
        if shard is None:
            return 1, 1
        if shard.kind is not ShardKind.BLOCK or not shard.cores.is_rectangle:
            return shard.cores.bounds
        across_down = self._shards[::-1] if shard.orientation is Orientation.ROW_MAJOR else self._shards
        (columns, rows), (width, height) = shard.cores.bounds, shard.cores.box
        return columns - width + across_down[0], rows - height + across_down[1]

    @cached_property
    def page_bytes(self) -> int:
        """Bytes of a page: one tile, or in row-major layout one row (of the shard, if sharded)."""
        if self.layout is Layout.TILE:
            return self.dtype.tile_bytes
        width = self.memory.shard.shape[-1] if self.memory.shard else self.padded_shape[-1]
        return width * self.dtype.tile_bytes // TILE_ELEMENTS

    @cached_property
    def num_pages(self) -> int:
        height, width = self.padded_2d
        return height * width // TILE_ELEMENTS if self.layout is Layout.TILE else height * self._shards[1]

    @property
    def logical_bytes(self) -> int:
        """Bytes of the values alone, without padding (block floats count their exponents)."""
        return ceil_div(self.volume * self.dtype.tile_bytes, TILE_ELEMENTS)

    @property
    def wraps_page_count(self) -> bool:
        """Whether TTNN's counters overflow, so that its allocator would accept the tensor as a much smaller one.

        Measured: 2^32 + k pages are booked as k, a buffer of 2^64 bytes as nothing, and so is a shard of 2^32 bytes.
        """
        shard = self.memory.shard
        shard_bytes = math.prod(shard.shape) * self.dtype.tile_bytes // TILE_ELEMENTS if shard else 0
        return (
            shard_bytes >= SHARD_LIMIT or self.num_pages >= PAGE_COUNT_LIMIT or self.num_pages * self.page_bytes >= SIZE_LIMIT
        )

    def num_banks(self, board: Board) -> int:
        """Returns how many banks the buffer is spread over: all of its memory, or one per shard.

        Raises:
            InvalidCase: The board has fewer cores than the shards need.
        """
        region = board.region(self.memory.buffer)
        if self.memory.shard is None:
            return region.num_banks
        columns, rows = (region.num_banks, 1) if self.memory.buffer is BufferType.DRAM else board.grid
        across, down = self._needed_cores
        if across > columns or down > rows:
            raise InvalidCase(
                f"shards on cores {self.memory.shard.cores}; {board.name} has {columns}x{rows} for {self.memory.buffer}"
            )
        return math.prod(self._shards)

    def aligned_page_bytes(self, board: Board) -> int:
        """Returns the distance between two pages of a bank. Tiles need no padding for it, rows often do."""
        return round_up(self.page_bytes, board.region(self.memory.buffer).alignment_bytes)

    def bytes_per_bank(self, board: Board) -> int:
        """Returns what the fullest bank must store: the "each bank needs to store" of TTNN's text."""
        if self.memory.shard is None:
            return ceil_div(self.num_pages, self.num_banks(board)) * self.aligned_page_bytes(board)
        *heights, width = self.memory.shard.shape
        height = math.prod(heights)
        pages = height * width // TILE_ELEMENTS if self.layout is Layout.TILE else height
        return pages * self.aligned_page_bytes(board)

    def allocated_bytes(self, board: Board) -> int:
        """Returns the bytes of all pages with padding and alignment: the "Not enough space to allocate" of TTNN's text.

        Every shard counts in full, including one that the tensor fills in part.
        """
        if self.memory.shard is None:
            return self.num_pages * self.aligned_page_bytes(board)
        return self.num_banks(board) * self.bytes_per_bank(board)

    def booked_bytes_per_bank(self, board: Board) -> int:
        """Returns what the allocator's memory view shows as allocated: ``bytes_per_bank`` rounded up to its granule."""
        return round_up(self.bytes_per_bank(board), board.granule_bytes)


def ceil_div(value: int, divisor: int) -> int:
    return -(-value // divisor)


def round_up(value: int, multiple: int) -> int:
    return ceil_div(value, multiple) * multiple


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
