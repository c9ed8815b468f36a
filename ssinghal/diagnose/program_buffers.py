"""Explains program buffers in numbers: what the address of their end implies, and which part of the operands they hold."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product

from ssinghal.core.record import Resource, Verdict
from ssinghal.core.tensors import TILE_EDGE, TILE_ELEMENTS, Layout, TensorSpec, ceil_div, format_bytes, round_up
from ssinghal.diagnose.fingerprint import L1_ENDS, Core, Fingerprint, KnownBuild, core_ranges
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


@dataclass(frozen=True)
class Need:
    """The program buffers per core if TTNN reserves ``base_bytes``: ``program_bytes`` of ``budget_bytes``.

    ``build``: None where the message has the size itself. ``made``: what they hold exactly; None where nothing adds up.
    ``others``: the number of other builds that fit, but for which nothing adds up.
    """

    program_bytes: int
    budget_bytes: int | None
    base_bytes: int | None = None
    build: KnownBuild | None = None
    made: Content | None = None
    others: int = 0


@dataclass(frozen=True)
class ProgramBuffers:
    """Program buffers that end at the address ``end_bytes``, where ``limit_bytes`` is the last one allowed.

    Where the message has sizes (``is_address`` False) they take ``end_bytes`` of ``limit_bytes``. ``needs``: one for each build
    that fits, or only the one for which they add up exactly. ``tensors_bytes``: from the tensor that they run into to the end
    of L1, including an L1_SMALL region.
    """

    end_bytes: int
    limit_bytes: int | None
    is_address: bool
    kind: str
    cores: str
    needs: tuple[Need, ...]
    runs_into_tensor: bool = False
    tensors_bytes: int | None = None

    @property
    def overflow_bytes(self) -> int | None:
        return self.end_bytes - self.limit_bytes if self.limit_bytes is not None else None

    @property
    def _ranges(self) -> list[tuple[Core, Core]]:
        return core_ranges(self.cores)

    @property
    def core_count(self) -> int:
        return sum((x1 - x0 + 1) * (y1 - y0 + 1) for (x0, y0), (x1, y1) in self._ranges)

    def lines(self) -> list[str]:
        return [*self._where(), *self._overflow(), *self._needs()]

    def _where(self) -> Iterator[str]:
        if self.cores:
            count = "one core" if self.core_count == 1 else f"{self.core_count} cores"
            ranges = [f"{_core(first)} to {_core(last)}" if first != last else _core(first) for first, last in self._ranges]
            yield f"{self.kind} buffers on {count}: {', '.join(ranges)}"

    def _overflow(self) -> Iterator[str]:
        end, limit, over = self.end_bytes, self.limit_bytes, self.overflow_bytes
        if limit is None or over is None:
            yield f"{self.kind} buffers need {format_bytes(end)}"
            return
        if not self.is_address:
            yield f"{self.kind} buffers need {format_bytes(end)} of {format_bytes(limit)}{_times(end, limit)}"
        elif self.runs_into_tensor:
            yield f"{self.kind} buffers end at {end:,} B, an L1 tensor begins at {limit:,} B"
        else:
            yield f"{self.kind} buffers end at {format_bytes(end)}, L1 at {format_bytes(limit)}{_times(end, limit)}"
        if over > 0:
            yield f"{'overlap' if self.runs_into_tensor else 'overflow'}: {format_bytes(over)} per core"
        if self.tensors_bytes is not None:
            yield f"from that tensor to the end of L1: {format_bytes(self.tensors_bytes)}, including any L1_SMALL region"

    def _needs(self) -> Iterator[str]:
        if not self.is_address:
            return
        if not self.needs:
            yield "the bytes that TTNN reserves below them are unknown for this board: they are smaller than the address"
        elif len(self.needs) == 1:
            yield from _need_lines(self.needs[0])
        else:
            sizes = sorted(need.program_bytes for need in self.needs)
            bases = sorted(need.base_bytes or 0 for need in self.needs)
            yield f"program buffers alone: {sizes[0]:,} to {sizes[-1]:,} B, as TTNN reserves {bases[0]:,} to {bases[-1]:,} B"


def _need_lines(need: Need) -> Iterator[str]:
    budget = need.budget_bytes
    of = f" of {format_bytes(budget)} that a core has{_times(need.program_bytes, budget)}" if budget else ""
    name = f" of {need.build.name}" if need.build else ""
    yield f"program buffers alone: {format_bytes(need.program_bytes)}{of}, above the reserved base{name}, {need.base_bytes:,} B"
    if need.made is not None:
        yield need.made.line()
    if need.others:
        other = "the other reserved base that fits gives" if need.others == 1 else "the other reserved bases that fit give"
        yield f"{other} nothing as exact"


def _core(core: Core) -> str:
    return f"({core[0]},{core[1]})"


def _times(need: int, limit: int) -> str:
    return f", {need / limit:.2f} times" if limit and need > limit else ""


def program_buffers(verdict: Verdict, fingerprint: Fingerprint, operation: Operation | None = None) -> ProgramBuffers | None:
    """Returns the program buffers of ``verdict``, those of ``operation`` if known; None where the message has none."""
    if verdict.resource not in (Resource.CIRCULAR_BUFFER, Resource.CLASH) or verdict.program_bytes is None:
        return None
    into_tensor = verdict.resource is Resource.CLASH
    limit = verdict.tensor_address if into_tensor else verdict.limit_bytes
    l1_end = L1_ENDS.get(fingerprint.arch)
    needs: tuple[Need, ...] = (Need(verdict.program_bytes, limit),)
    if verdict.ends_at_address:
        needs = _likeliest(tuple(_needs(verdict, fingerprint, operation, limit)))
    return ProgramBuffers(
        end_bytes=verdict.program_bytes,
        limit_bytes=limit,
        is_address=verdict.ends_at_address,
        kind=verdict.buffer_kind or "program",
        cores=verdict.cores,
        needs=needs,
        runs_into_tensor=into_tensor,
        tensors_bytes=l1_end - limit if into_tensor and l1_end is not None and limit is not None else None,
    )


def _needs(verdict: Verdict, fingerprint: Fingerprint, operation: Operation | None, limit: int | None) -> Iterator[Need]:
    for match in fingerprint.matches:
        base = match.base_bytes
        if base is None or verdict.program_bytes is None:
            continue
        need = verdict.program_bytes - base
        if need <= 0:
            continue
        content = _content(need, verdict, fingerprint, operation) if operation else None
        yield Need(need, limit - base if limit is not None else None, base, match.build, content)


def _likeliest(needs: tuple[Need, ...]) -> tuple[Need, ...]:
    """Returns the one need whose buffers add up exactly, else all of them."""
    for kind in (ColumnShare, StoredRows, Tiles):
        exact = tuple(need for need in needs if isinstance(need.made, kind))
        if len(exact) == 1:
            return (replace(exact[0], others=len(needs) - 1),)
    return needs


def _content(need: int, verdict: Verdict, fingerprint: Fingerprint, operation: Operation) -> Content | None:
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
