"""Finds the part of a call's tensors that program buffers of a known size hold exactly."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

from ssinghal.core.tensors import TILE_EDGE, TILE_ELEMENTS, Layout, TensorSpec, ceil_div, round_up
from ssinghal.core.verdict import Verdict
from ssinghal.diagnose.chips import Core, core_ranges
from ssinghal.diagnose.fingerprint import Fingerprint
from ssinghal.diagnose.model import Operation

ROW_ALIGNMENTS = (1, 16, 32, 64)  # bytes to which a row-major page is rounded up, by memory and board
MAX_ROWS = 4
# Operations whose program is known to hold complete tiles. For any other, a multiple of tiles may be a coincidence.
LAYOUT_CHANGES = ("to_layout", "tilize", "tilize_with_val_padding", "tilize_with_zero_padding", "untilize",
                  "untilize_with_unpadding")  # fmt: skip


@dataclass(frozen=True)
class ColumnShare:
    """The columns of tiles of a tensor, dealt out to cores in the order of the grid's columns.

    ``cores`` - 1 cores get ``tiles_each`` of ``tiles_wide``, the last one ``tiles_here``, in both layouts at once.
    """

    tiles_wide: int
    cores: int
    tiles_each: int
    tiles_here: int
    bytes_in: int
    bytes_out: int

    def line(self) -> str:
        parts = f"{self.tiles_here:,} tiles x ({self.bytes_in:,} B in + {self.bytes_out:,} B out)"
        if self.cores == 1:
            return f"they are exactly {parts}: one core has the complete row of {self.tiles_wide:,} tiles"
        return (
            f"they are exactly {parts}: of the row of {self.tiles_wide:,} tiles each of {self.cores - 1} cores gets"
            f" {self.tiles_each:,}, and this one, the last, the other {self.tiles_here:,}"
        )


@dataclass(frozen=True)
class StoredRows:
    """``count`` complete rows of a row-major tensor, each of ``row_bytes`` stored as ``stored_bytes``."""

    count: int
    row_bytes: int
    stored_bytes: int

    def line(self) -> str:
        stored = f", stored as {self.stored_bytes:,} B" if self.stored_bytes != self.row_bytes else ""
        return f"they are exactly {self.count} x one row of {self.row_bytes:,} B{stored}"


@dataclass(frozen=True)
class Tiles:
    """``count`` complete tiles of the tensor that is tiled before or after a change of layout."""

    count: int
    tile_bytes: int

    def line(self) -> str:
        return f"they are exactly {self.count:,} tiles of {self.tile_bytes:,} B"


Content = ColumnShare | StoredRows | Tiles


def content_of(need: int, verdict: Verdict, fingerprint: Fingerprint, operation: Operation) -> Content | None:
    """Returns the part of the call's tensors that has exactly ``need`` bytes."""
    operands = [value.spec for value in operation.operands if value.spec is not None]
    results = [value.spec for value in operation.results if value.spec is not None]
    heights = {chip.grid[1] for chip in fingerprint.chips} or {8}
    ranges = core_ranges(verdict.cores)
    if len(ranges) == 1 and ranges[0][0] == ranges[0][1]:
        for source, target, height in product(operands, results, sorted(heights)):
            if share := _column_share(need, ranges[0][0], height, source, target):
                return share
    for spec in (*operands, *results):
        if spec.layout is Layout.ROW_MAJOR and (rows := _rows(need, spec)):
            return rows
    is_change = operation.name.removeprefix("ttnn.") in LAYOUT_CHANGES
    return _tiles(need, operands[0], results[0]) if is_change and operands and results else None


def _column_share(need: int, core: Core, grid_rows: int, source: TensorSpec, target: TensorSpec) -> ColumnShare | None:
    """Returns ``need`` as the share of ``core``, the last one, in a change of layout from ``source`` to ``target``."""
    if source.layout is target.layout or source.shape[-1] != target.shape[-1] or core[1] >= grid_rows:
        return None
    tiles_wide = ceil_div(source.shape[-1], TILE_EDGE)
    cores = core[0] * grid_rows + core[1] + 1
    each = ceil_div(tiles_wide, cores)
    here = tiles_wide - (cores - 1) * each
    sizes = source.dtype.tile_bytes, target.dtype.tile_bytes
    return ColumnShare(tiles_wide, cores, each, here, *sizes) if here > 0 and need == here * sum(sizes) else None


def _tiles(need: int, source: TensorSpec, target: TensorSpec) -> Tiles | None:
    """Returns ``need`` as tiles of the one of the two tensors that is tiled, where the other is not."""
    if source.layout is target.layout:
        return None
    size = (source if source.layout is Layout.TILE else target).dtype.tile_bytes
    return Tiles(need // size, size) if need % size == 0 else None


def _rows(need: int, spec: TensorSpec) -> StoredRows | None:
    row = spec.shape[-1] * spec.dtype.tile_bytes // TILE_ELEMENTS
    for alignment, count in product(ROW_ALIGNMENTS, range(1, MAX_ROWS + 1)):
        stored = round_up(row, alignment)
        if need == count * stored:
            return StoredRows(count, row, stored)
    return None
