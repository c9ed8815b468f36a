"""Searches for calls that request exactly the bytes of a message that has numbers and nothing else.

A candidate is not proven: many shapes have the same bytes. Calls of the catalogs come first, as real models make them, and only
those of the TTNN function that the text names, where it names one. Then follows what arithmetic alone shows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache

from ssinghal.catalog.aten_calls import Unmapped
from ssinghal.catalog.captured import CapturedCatalog, CapturedLine
from ssinghal.catalog.expansion import catalog_cases
from ssinghal.catalog.loader import load_catalogs
from ssinghal.catalog.schema import Catalog
from ssinghal.core.case import Case, OutputMemory
from ssinghal.core.tensors import (
    PAGE_COUNT_LIMIT,
    Board,
    BufferType,
    DType,
    Layout,
    TensorSpec,
    ceil_div,
    format_shape,
    round_up,
)
from ssinghal.core.verdict import Verdict
from ssinghal.diagnose.candidate import Candidate, description, merged
from ssinghal.diagnose.fingerprint import Fingerprint, memory_of
from ssinghal.diagnose.layout_candidates import Columns
from ssinghal.diagnose.ttnn_functions import operators_calling
from ssinghal.errors import InvalidCase
from ssinghal.operators.binding import specs_of

MAX_SHAPES = 2  # of models, named as examples in a candidate by arithmetic


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
    search = (_Bytes.of(verdict, board, results_only) or Columns.of(verdict, fingerprint, functions)) if board else None
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
        return merged(candidate for case in cases if (candidate := self._candidate(case)) is not None)

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
        return Candidate(description(moved), label, moved, spec, as_allocated, sources=moved.sources)

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
