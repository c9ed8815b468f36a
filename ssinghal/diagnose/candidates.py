"""Searches for calls that request exactly the bytes of a message that has numbers and nothing else.

A candidate is not proven: many shapes have the same bytes. Calls of the catalogs come first, as real models make them, and only
those of the TTNN function that the text names, where it names one. Then follows what arithmetic alone shows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache

from ssinghal.catalog.aten_calls import Unmapped
from ssinghal.catalog.expansion import catalog_cases
from ssinghal.catalog.loader import load_catalogs
from ssinghal.catalog.schema import CapturedCatalog, CapturedLine, Catalog
from ssinghal.core.boards import load_board
from ssinghal.core.case import Case, OutputMemory, Placement, Source
from ssinghal.core.json_values import value_text
from ssinghal.core.record import Verdict
from ssinghal.core.tensors import (
    PAGE_COUNT_LIMIT,
    TILE_EDGE,
    Board,
    BufferType,
    DType,
    Layout,
    TensorSpec,
    ceil_div,
    format_shape,
    round_up,
)
from ssinghal.diagnose.chips import core_ranges
from ssinghal.diagnose.fingerprint import Fingerprint, memory_of
from ssinghal.diagnose.program_contents import LAYOUT_CHANGES
from ssinghal.diagnose.source_calls import SourceCall
from ssinghal.diagnose.ttnn_functions import PREFIX, operators_calling
from ssinghal.errors import InvalidCase
from ssinghal.operators import make_case
from ssinghal.operators.binding import specs_of

PROGRAM = "program"  # the label of a candidate whose program buffers have the bytes
MAX_SHAPES = 2  # of models, named as examples in a candidate by arithmetic


@dataclass(frozen=True)
class Candidate:
    """A call, or a tensor, that requests the bytes of the message.

    ``case``: of a catalog, in the memory of the message; None where arithmetic alone gives the shape. ``label``: which of its
    tensors, with ``spec``. ``as_allocated``: the tensors before it take what is allocated according to the message. ``calls``:
    how often models make the call; 0 where none is known to. ``sources``: those models. ``sizes_from``: the part of the text
    that has its sizes, else ""; its bytes may differ from the message's. ``left_out``: what else is set there.
    """

    description: str
    label: str = ""
    case: Case | None = None
    spec: TensorSpec | None = None
    as_allocated: bool = False
    calls: int = 0
    sources: tuple[Source, ...] = ()
    sizes_from: str = ""
    left_out: tuple[str, ...] = ()

    @classmethod
    def from_source(cls, call: SourceCall) -> Candidate:
        return cls(_description(call.case), case=call.case, sizes_from=call.sizes_from, left_out=call.left_out)

    @property
    def by_arithmetic(self) -> bool:
        return self.case is None

    def line(self) -> str:
        if self.case is None:
            return f"by arithmetic: {self.description}"
        placement = self.case.placement
        moved = "" if placement.output_memory is OutputMemory.SAME else f" from {placement.request}"
        if self.sizes_from:
            without = f" (without {', '.join(self.left_out)})" if self.left_out else ""
            memory = f"{placement.request} to {placement.output_text}" if moved else str(placement.request)
            result = f", result {placement.output_dtype}" if placement.output_dtype else ""
            assumed = f"{placement.dtype}, {placement.layout}, {memory}{result}"
            return f"from {self.sizes_from}: {self.description}{without}, assumed in {assumed}"
        count = f", {self.calls:,} call{'s' if self.calls > 1 else ''}" if self.calls else ""
        where = f"; {_model_and_module(self.sources)}" if _model_and_module(self.sources) else ""
        allocated = "; its operands are what is allocated" if self.as_allocated else ""
        return f"candidate: {self.label} of {self.description}{moved}{count}{where}{allocated}"


def _model_and_module(sources: Iterable[Source]) -> str:
    """Returns the first model that makes the call, and where in it."""
    first = next((source for source in sources if source.model), None)
    return f"{first.model} at {first.input_size}, {first.where}" if first else ""


def candidates(
    verdict: Verdict,
    fingerprint: Fingerprint,
    limit: int = 5,
    catalogs: Iterable[Catalog] | None = None,
    functions: Sequence[str] = (),
    supports: Callable[[Candidate], bool] = lambda _: True,
) -> list[Candidate]:
    """Returns at most ``limit`` calls that may have the numbers of ``verdict``, the likeliest first.

    ``catalogs``: all built-in ones where None. ``functions``: those of TTNN that may have been called, the likeliest first;
    empty where any may have been. ``supports``: whether the text points to a call of a catalog.
    """
    board = fingerprint.board(verdict)
    results_only = bool(functions)  # the operands of a function exist before it is called
    search = (_Bytes.of(verdict, board, results_only) or _Columns.of(verdict, fingerprint, functions)) if board else None
    if search is None or limit < 1:
        return []
    known = () if fingerprint.sharded else _catalogs() if catalogs is None else catalogs  # their tensors are not in shards
    ranked = [one for one in search.ranked(_cases(known, search.volumes)) if supports(one)]
    calls = list(_calls_to(functions, ranked)) if functions else ranked
    return [*calls, *search.by_arithmetic([] if calls else ranked)][:limit]


@cache
def _catalogs() -> tuple[Catalog, ...]:
    """Returns all built-in catalogs, loaded once: a log may have many failures."""
    return tuple(load_catalogs())


def _calls_to(functions: Sequence[str], ranked: Iterable[Candidate]) -> Iterator[Candidate]:
    """Yields the candidates whose operator calls one of ``functions``, and of which a result has the bytes."""
    results = [(one, one.case.operator) for one in ranked if one.case is not None and not one.label.startswith("input")]
    seen: set[str] = set()
    for function in functions:
        operators = operators_calling(function) - seen
        seen |= operators
        yield from (one for one, operator in results if operator in operators)


def _cases(catalogs: Iterable[Catalog], volumes: range) -> Iterator[Case]:
    """Yields the cases that may have a tensor with a number of elements in ``volumes``; most lines of models are skipped."""
    for catalog in catalogs:
        thinned = _thinned(catalog, volumes) if isinstance(catalog, CapturedCatalog) else catalog
        yield from (case for case in catalog_cases(thinned) if not isinstance(case, Unmapped))


def _thinned(catalog: CapturedCatalog, volumes: range) -> CapturedCatalog:
    def may_have(line: CapturedLine) -> bool:
        return any(math.prod(shape) in volumes for shape in (*(shape for _, shape in line.operands()), *line.out))

    sections = {call: tuple(filter(may_have, lines)) for call, lines in catalog.sections.items()}
    return replace(catalog, sections=sections)


def _merged(candidates: Iterable[Candidate]) -> list[Candidate]:
    """Merges equal calls of several models, and sorts: those whose operands are what is allocated first, then by calls."""
    merged: dict[tuple[str, str], Candidate] = {}
    for one in candidates:
        key = (one.case.key if one.case else "", one.label)
        known = merged.get(key)
        sources = (*known.sources, *one.sources) if known else one.sources
        merged[key] = replace(one, sources=sources, calls=sum(source.count for source in sources))
    return sorted(merged.values(), key=lambda one: (not one.as_allocated, -one.calls, one.description, one.label))


# Buffers ------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Bytes:
    """An interleaved buffer of ``total_bytes`` over all banks of ``memory`` on ``board``."""

    total_bytes: int
    bytes_per_bank: int
    allocated_bytes: int | None
    memory: BufferType
    board: Board
    results_first: bool = False

    @classmethod
    def of(cls, verdict: Verdict, board: Board, results_first: bool = False) -> _Bytes | None:
        memory = memory_of(verdict)
        if memory not in (BufferType.L1, BufferType.DRAM) or verdict.total_bytes is None or verdict.bytes_per_bank is None:
            return None
        return cls(verdict.total_bytes, verdict.bytes_per_bank, verdict.allocated_bytes, memory, board, results_first)

    @property
    def volumes(self) -> range:
        """The numbers of elements that a tensor of these bytes can have.

        An element of a block float has half a byte; a single element may take a complete tile.
        """
        return range(self.total_bytes // max(dtype.tile_bytes for dtype in DType), 2 * self.total_bytes + 1)

    def are(self, pages: int, page_bytes: int) -> bool:
        """Returns whether that many pages, as they are stored, are these bytes over these banks."""
        region = self.board.region(self.memory)
        stored = round_up(page_bytes, region.alignment_bytes)
        return pages * stored == self.total_bytes and ceil_div(pages, region.num_banks) * stored == self.bytes_per_bank

    def ranked(self, cases: Iterable[Case]) -> list[Candidate]:
        return _merged(candidate for case in cases if (candidate := self._candidate(case)) is not None)

    def _candidate(self, case: Case) -> Candidate | None:
        """Returns the tensor of ``case`` that has these bytes, with the call moved to this memory.

        Operands that cannot be in an L1 come from DRAM.
        """
        try:
            if not any(self._matches(spec) for specs in specs_of(case) for spec in specs):
                return None
            candidate = self._tensor_of(self._moved(case))
            is_operand = candidate is None or candidate.label.startswith("input")
            if self.memory is BufferType.L1 and (candidate is None or (is_operand and self.results_first)):
                candidate = self._tensor_of(self._from_dram(case)) or candidate
            return candidate
        except InvalidCase:
            return None

    def _tensor_of(self, moved: Case) -> Candidate | None:
        """Returns the likeliest tensor of the call that has these bytes; those before it take at most what is allocated."""
        operands, results = specs_of(moved)
        outputs = ["output"] if len(results) == 1 else [f"output {i}" for i in range(1, len(results) + 1)]
        labels = [*(f"input {i}" for i in range(1, len(operands) + 1)), *outputs]
        placed, tensors = 0, []
        for label, spec in zip(labels, (*operands, *results), strict=True):
            if spec.memory.buffer is not self.memory:
                continue
            if self._matches(spec) and (self.allocated_bytes is None or placed <= self.allocated_bytes):
                tensors.append((self.results_first and label in outputs, 0 < placed == self.allocated_bytes, label, spec))
            placed += round_up(self._per_bank(spec), self.board.granule_bytes)
        if not tensors:
            return None
        _, as_allocated, label, spec = max(tensors, key=lambda tensor: tensor[:2])
        return Candidate(_description(moved), label, moved, spec, as_allocated, sources=moved.sources)

    def _matches(self, spec: TensorSpec) -> bool:
        may_match = spec.logical_bytes <= self.total_bytes  # a cheap test first
        return may_match and self.are(spec.num_pages, spec.page_bytes)

    def _per_bank(self, spec: TensorSpec) -> int:
        region = self.board.region(self.memory)
        return ceil_div(spec.num_pages, region.num_banks) * round_up(spec.page_bytes, region.alignment_bytes)

    def _moved(self, case: Case) -> Case:
        if case.placement.memory is self.memory:
            return case
        return replace(case, placement=replace(case.placement, memory=self.memory), known_oom=None)

    def _from_dram(self, case: Case) -> Case:
        placement = replace(case.placement, memory=BufferType.DRAM, output_memory=OutputMemory.L1)
        return replace(case, placement=placement, known_oom=None)

    def by_arithmetic(self, of_models: Sequence[Candidate]) -> Iterator[Candidate]:
        """Yields a tensor of complete tiles for each dtype, with shapes of that many tiles from ``of_models`` as examples."""
        for dtype in (DType.BFLOAT16, DType.FLOAT32, DType.BFLOAT8_B):
            tiles = self.total_bytes // dtype.tile_bytes
            if 0 < tiles < PAGE_COUNT_LIMIT and self.are(tiles, dtype.tile_bytes):
                specs = [one.spec for one in of_models if one.spec]
                alike = [spec for spec in specs if (spec.dtype, spec.layout) == (dtype, Layout.TILE)]
                shapes = list(dict.fromkeys(format_shape(spec.shape) for spec in alike))[:MAX_SHAPES]
                such_as = f", such as {' or '.join(shapes)}, which models have" if shapes else ""
                yield Candidate(f"a tensor of {tiles:,} tiles of {dtype.tile_bytes:,} B ({dtype}){such_as}")


def _description(case: Case) -> str:
    shapes = " and ".join(map(format_shape, case.inputs))
    attrs = ", ".join(f"{name}={value_text(value)}" for name, value in case.attrs.items())
    return f"{case.name} of {shapes}{f' with {attrs}' if attrs else ''}"


# Program buffers ----------------------------------------------------------------------------------------------------------

# Dtypes in and out of a change of layout.
_CHANGES = ((DType.BFLOAT16, DType.BFLOAT16), (DType.FLOAT32, DType.BFLOAT16), (DType.FLOAT32, DType.FLOAT32))


@dataclass(frozen=True)
class _Columns:
    """The widths in tiles, with dtypes in and out, for which a change of layout needs the program buffers of the message.

    It deals out the columns of tiles to cores; the core of the message is the last one (``program_buffers.ColumnShare``).
    """

    widths: Mapping[int, tuple[DType, DType]]

    @classmethod
    def of(cls, verdict: Verdict, fingerprint: Fingerprint, functions: Sequence[str]) -> _Columns | None:
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
        return _merged(candidate for case in cases for candidate in self._candidates(case))

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
                yield Candidate(f"{_description(change)}: {folded}", PROGRAM, change, sources=case.sources)

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
