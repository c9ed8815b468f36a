"""Explains why a call ran out of memory, in numbers: those of the message, of the call's tensors, and what both imply.

Only exact statements are made. Sizes are integer bytes; a ratio is of two numbers of bytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from ssinghal.core.json_values import plain
from ssinghal.core.sharding import complete
from ssinghal.core.tensors import TILE_EDGE, TILE_ELEMENTS, Board, BufferType, Layout, TensorSpec, format_bytes, format_shape
from ssinghal.core.verdict import Verdict
from ssinghal.diagnose.buffer_need import BufferNeed, buffer_need
from ssinghal.diagnose.fingerprint import Fingerprint, fingerprint_of
from ssinghal.diagnose.headlines import headline, refusal_lines
from ssinghal.diagnose.model import Failure, MlirValue, Operation
from ssinghal.diagnose.other_resources import other_lines
from ssinghal.diagnose.program_buffers import ProgramBuffers, program_buffers
from ssinghal.errors import InvalidCase
from ssinghal.estimation.estimator import Allocation

PADDED_MUCH = 1.05  # allocated over logical bytes, from which padding is worth a line


@dataclass(frozen=True)
class Tensor:
    """An operand or result of the call, with its bytes on the banks of the message.

    ``known_layout``: the text has its layout, else TTNN's usual one is assumed.
    """

    allocation: Allocation
    known_layout: bool

    @property
    def spec(self) -> TensorSpec:
        return self.allocation.spec

    @property
    def tiles(self) -> tuple[int, int]:
        """The tensor's width and height in tiles, all dims but the last folded into the height."""
        height, width = self.spec.padded_2d
        return width // TILE_EDGE, height // TILE_EDGE

    @property
    def row_bytes(self) -> int:
        """The bytes of one row of values, without padding."""
        return self.spec.shape[-1] * self.spec.dtype.tile_bytes // TILE_ELEMENTS

    @property
    def tile_row_bytes(self) -> int:
        """The bytes of one row of tiles over the tensor's full width."""
        return self.tiles[0] * self.spec.dtype.tile_bytes

    def lines(self) -> Iterator[str]:
        spec, allocation = self.spec, self.allocation
        assumed = "" if self.known_layout else " (layout and memory assumed)"
        yield f"{allocation.label}: {format_shape(spec.shape)} {spec.dtype} {spec.layout} {spec.memory}{assumed}"
        if spec.layout is Layout.TILE:
            wide, high = self.tiles
            yield f"  tiles: {wide:,} wide, {high:,} high; a row of tiles has {format_bytes(self.tile_row_bytes)}"
        yield f"  a row of {spec.shape[-1]:,} values has {format_bytes(self.row_bytes)}"
        if allocation.padding_factor >= PADDED_MUCH:
            factor = f"{allocation.padding_factor:.4g} times the {format_bytes(allocation.logical_bytes)} of its values"
            yield f"  allocated {format_bytes(allocation.allocated_bytes)}, {factor}: {allocation.padding_cause}"


@dataclass(frozen=True)
class Explanation:
    """The explanation of one failure.

    ``headline``: the failure in one line. ``program`` or ``buffer``: what ran out, where the message has sizes.
    ``fingerprint``: what its numbers point to. ``tensors``: the call's, where an operation with types is known.
    ``refusal``: what else a refusal of shards implies.
    """

    verdict: Verdict
    headline: str
    fingerprint: Fingerprint
    operation: Operation | None = None
    program: ProgramBuffers | None = None
    buffer: BufferNeed | None = None
    tensors: tuple[Tensor, ...] = ()
    refusal: tuple[str, ...] = ()

    def lines(self) -> list[str]:
        if self.verdict.resource is None:
            return [self.headline, *self.refusal]
        facts = self.program or self.buffer
        return [
            *(facts.lines() if facts else (self.headline, *other_lines(self.verdict))),
            *(line for tensor in self._tensors_that_matter for line in tensor.lines()),
            *self.fingerprint.lines(),
        ]

    @property
    def _tensors_that_matter(self) -> tuple[Tensor, ...]:
        """The call's tensors, but not for an L1_SMALL region: it has tables of programs, and no operand is in it."""
        return () if self.buffer is not None and self.buffer.memory is BufferType.L1_SMALL else self.tensors

    def to_json(self) -> dict[str, Any]:
        """Returns all numbers as plain values."""
        program = asdict(self.program) | {"overflow_bytes": self.program.overflow_bytes} if self.program else None
        buffer = asdict(self.buffer) | _derived(self.buffer) if self.buffer else None
        return {
            "resource": self.verdict.resource.value if self.verdict.resource else None,
            "program": program,
            "buffer": buffer,
            "tensors": [
                {**plain(t.allocation.stored()), "known_layout": t.known_layout, "tiles": t.tiles} for t in self.tensors
            ],
            "boards": list(self.fingerprint.boards),
            "builds": [match.name for match in self.fingerprint.matches],
            "lines": self.lines(),
        }


def explain(failure: Failure) -> Explanation:
    """Explains ``failure`` by its numbers and its operation; one that is not about memory only gets a headline."""
    verdict, operation = failure.verdict, failure.operation
    if verdict.resource is None:
        return Explanation(verdict, headline(failure), Fingerprint(), operation, refusal=tuple(refusal_lines(failure)))
    fingerprint = fingerprint_of(verdict, failure.boards, failure.dated, failure.versions)
    board = fingerprint.board(verdict)
    tensors = tuple(_tensors(operation, board)) if operation is not None and board is not None else ()
    allocations = [tensor.allocation for tensor in tensors]
    program = program_buffers(verdict, fingerprint, operation)
    if program is not None and len(program.needs) == 1 and (need := program.needs[0]).made and need.build is not None:
        fingerprint = fingerprint.narrowed(need.build)
    placed = all(tensor.known_layout for tensor in tensors)
    buffer = buffer_need(verdict, allocations, fingerprint, placed=placed)
    return Explanation(verdict, headline(failure), fingerprint, operation, program, buffer, tensors)


def _derived(buffer: BufferNeed) -> dict[str, int | None]:
    """Returns the numbers of a buffer that follow from the others, for JSON."""
    return {"shortfall_bytes": buffer.shortfall_bytes, "least_taken_bytes": buffer.least_taken_bytes}


def _tensors(operation: Operation, board: Board) -> Iterator[Tensor]:
    """Yields the tensors of known type, numbered among those of the call, without shards that the board has no cores for."""
    operands = [(f"input {i}", v) for i, v in enumerate((v for v in operation.operands if v.spec is not None), 1)]
    several = len(operation.results) > 1
    results = [(f"output {i}" if several else "output", v) for i, v in enumerate(operation.results, 1)]
    for label, value in (*operands, *results):
        if (tensor := _tensor(label, value, board)) is not None:
            yield tensor


def _tensor(label: str, value: MlirValue, board: Board) -> Tensor | None:
    if value.spec is None:
        return None
    try:
        spec, request = value.spec, value.request
        if value.sharding is not None and request.sharding is not None:
            spec = complete(spec, request.buffer, request.sharding, board)
        return Tensor(Allocation.of(label, spec, board), value.known_layout or value.sharding is not None)
    except InvalidCase:
        return None
