"""Works out what a shard can be, from the bytes of a buffer that is on more or fewer cores than any board has banks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ssinghal.core.tensors import DType
from ssinghal.core.verdict import L1_END_BYTES, Verdict
from ssinghal.diagnose.chips import CHIPS, Core
from ssinghal.diagnose.fingerprint import Fingerprint

TILED = (DType.BFLOAT16, DType.FLOAT32, DType.BFLOAT8_B, DType.BFLOAT4_B)  # one of each size of a tile in use
MAX_RECTANGLES = 4


@dataclass(frozen=True)
class Shard:
    """The equal shards of a buffer, one on each of ``cores``.

    ``tiles``: by dtype, the tiles in a shard, where its bytes are complete ones. ``rectangles``: of so many cores, within the
    grid of a chip that it may be.
    """

    cores: int
    shard_bytes: int
    tiles: tuple[tuple[DType, int], ...]
    rectangles: tuple[Core, ...]

    def lines(self) -> Iterator[str]:
        if self.tiles:
            counts = ", or ".join(f"{count:,} tiles of {dtype.tile_bytes:,} B ({dtype})" for dtype, count in self.tiles)
            content = f"possibly {counts}, or rows"
        else:
            content = "no number of tiles has as many, so rows or several tensors"
        where = f"each of the {self.cores} cores" if self.cores > 1 else "the one core"
        yield f"if it is sharded, {where} holds {self.shard_bytes:,} B: {content}"
        if self.cores > 1 and 0 < len(self.rectangles) <= MAX_RECTANGLES:
            yield f"{self.cores} cores are a rectangle of {' or '.join(f'{x}x{y}' for x, y in self.rectangles)}"


def shard_of(verdict: Verdict, fingerprint: Fingerprint) -> Shard | None:
    """Returns the shards of the buffer that ``verdict`` names; None where it may be interleaved, or its cores differ."""
    total, cores, size = verdict.total_bytes, verdict.banks, verdict.bytes_per_bank
    if not fingerprint.sharded or not cores or not size or total != cores * size or size > max(L1_END_BYTES):
        return None
    tiles = tuple((dtype, size // dtype.tile_bytes) for dtype in TILED if size % dtype.tile_bytes == 0)
    grids = [chip.grid for chip in CHIPS if chip.arch == fingerprint.arch]
    sides = [(x, cores // x) for x in range(1, cores + 1) if cores % x == 0] if grids else []
    fitting = tuple((x, y) for x, y in sides if any(x <= columns and y <= rows for columns, rows in grids))
    return Shard(cores, size, tiles, fitting)
