"""Element types, their order in memory, and the size of tiles. Imports neither torch nor ttnn."""

from __future__ import annotations

from ssinghal.core.memory_config import TextEnum

TILE_EDGE = 32
TILE_ELEMENTS = TILE_EDGE * TILE_EDGE
MAX_DIM = 2**32 - 1


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


def ceil_div(value: int, divisor: int) -> int:
    return -(-value // divisor)


def round_up(value: int, multiple: int) -> int:
    return ceil_div(value, multiple) * multiple


FLOATS = (DType.BFLOAT16, DType.FLOAT32, DType.BFLOAT8_B, DType.BFLOAT4_B)


def takes_dtype(dtype: DType, layout: Layout, wanted: DType) -> bool:
    """Whether a run in other dtypes changes operands of this dtype and layout to ``wanted``: integers stay as they are, and so
    do rows, which block floats do not have."""
    return dtype in FLOATS and not (wanted.is_block_float and layout is Layout.ROW_MAJOR)
