"""Candidates for program buffers: changes of layout, whose last core has exactly the bytes of the message."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from ssinghal.core.boards import load_board
from ssinghal.core.case import Case, Placement
from ssinghal.core.tensors import PAGE_COUNT_LIMIT, TILE_EDGE, DType, ceil_div, format_shape
from ssinghal.core.verdict import Verdict
from ssinghal.diagnose.candidate import PROGRAM, Candidate, description, merged
from ssinghal.diagnose.chips import core_ranges
from ssinghal.diagnose.fingerprint import Fingerprint
from ssinghal.diagnose.program_contents import LAYOUT_CHANGES
from ssinghal.diagnose.ttnn_functions import PREFIX
from ssinghal.operators import make_case

# Dtypes in and out of a change of layout.
_CHANGES = ((DType.BFLOAT16, DType.BFLOAT16), (DType.FLOAT32, DType.BFLOAT16), (DType.FLOAT32, DType.FLOAT32))


@dataclass(frozen=True)
class Columns:
    """The widths in tiles, with dtypes in and out, for which a change of layout needs the program buffers of the message.

    It deals out the columns of tiles to cores; the core of the message is the last one (``program_buffers.ColumnShare``).
    """

    widths: Mapping[int, tuple[DType, DType]]

    @classmethod
    def of(cls, verdict: Verdict, fingerprint: Fingerprint, functions: Sequence[str]) -> Columns | None:
        """Returns None where nothing points to a change of layout: another function, or the first core alone, which has a part
        in every program.
        """
        ranges = core_ranges(verdict.cores)
        changes = any(name.removeprefix(PREFIX) in LAYOUT_CHANGES for name in functions)
        if not changes and (functions or ranges == [((0, 0), (0, 0))]):
            return None
        if not verdict.ends_at_address or verdict.program_bytes is None or len(ranges) != 1 or ranges[0][0] != ranges[0][1]:
            return None
        (column, row), rows = ranges[0][0], {load_board(name).grid[1] for name in fingerprint.boards[:1]}  # the likeliest
        widths = {
            width: dtypes
            for base in fingerprint.bases
            for dtypes in _CHANGES
            for grid_rows in sorted(rows)
            if row < grid_rows
            for width in _widths(verdict.program_bytes - base, dtypes, column * grid_rows + row + 1)
        }
        return cls(widths) if widths else None

    @property
    def volumes(self) -> range:
        return range(TILE_EDGE * (min(self.widths) - 1), PAGE_COUNT_LIMIT * TILE_EDGE)

    def ranked(self, cases: Iterable[Case]) -> list[Candidate]:
        return merged(candidate for case in cases for candidate in self._candidates(case))

    def _candidates(self, case: Case) -> Iterator[Candidate]:
        """Yields the operands of ``case`` with one dim kept and the others folded into the row, as gathers are lowered."""
        for shape in dict.fromkeys(case.inputs):
            volume = math.prod(shape)
            for kept, size in enumerate(shape):
                width = ceil_div(volume // size, TILE_EDGE)
                if width not in self.widths:
                    continue
                placement = Placement(self.widths[width][0], channels_last=False)
                change = make_case("to_layout", ((size, volume // size),), {"layout": "row_major"}, placement)
                folded = f"{format_shape(shape)} of {case.name} with all dims but dim {kept} in one row"
                yield Candidate(f"{description(change)}: {folded}", PROGRAM, change, sources=case.sources)

    def by_arithmetic(self, of_models: Sequence[Candidate]) -> Iterator[Candidate]:
        for dtypes in _CHANGES:
            if widths := [width for width, known in self.widths.items() if known == dtypes]:
                least, most = TILE_EDGE * (min(widths) - 1) + 1, TILE_EDGE * max(widths)
                yield Candidate(
                    f"a change of layout, {dtypes[0]} to {dtypes[1]}, of a tensor {least:,} to {most:,} columns wide"
                )


def _widths(program_bytes: int, dtypes: tuple[DType, DType], cores: int) -> range:
    """Returns the widths in tiles for which the last of ``cores`` gets the share that takes ``program_bytes``."""
    here, rest = divmod(program_bytes, dtypes[0].tile_bytes + dtypes[1].tile_bytes)
    if rest or here < 1:
        return range(0)
    # each = ceil(wide / cores) with wide = (cores - 1) * each + here: from here to here + cores - 1
    return range((cores - 1) * here + here, (cores - 1) * (here + cores - 1) + here + 1, max(cores - 1, 1))
