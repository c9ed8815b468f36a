"""Compares the shapes that a text prints near its message with the bytes that the message requests."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from ssinghal.core.tensors import Board, BufferType, DType, Layout, MemoryConfig, TensorSpec, format_shape
from ssinghal.core.verdict import Verdict
from ssinghal.diagnose.fingerprint import memory_of
from ssinghal.diagnose.model import PrintedShape
from ssinghal.errors import InvalidCase
from ssinghal.estimation.estimator import Allocation

_USUAL = (DType.BFLOAT16, DType.FLOAT32, DType.BFLOAT8_B)


@dataclass(frozen=True)
class MatchingShape:
    """A shape of the text that, as ``spec``, has exactly the bytes of the message. ``stated``: the text has its dtype too."""

    line_number: int
    spec: TensorSpec
    stated: bool

    def line(self) -> str:
        where = f"line {self.line_number} prints" if self.line_number else "the text prints"
        spec = self.spec
        dtype = f" {spec.dtype}" if self.stated else ""
        assumed = f"as {spec.layout}" if self.stated else f"as {spec.dtype} {spec.layout}"
        return f"{where} {format_shape(spec.shape)}{dtype}, which has exactly these bytes {assumed}"


def matching_shapes(shapes: Iterable[PrintedShape], verdict: Verdict, board: Board | None) -> Iterator[MatchingShape]:
    """Yields each of ``shapes`` once, in the first dtype and layout in which it takes the bytes of ``verdict``.

    ``board``: with the banks of the message; the buffer is interleaved over them.
    """
    memory = memory_of(verdict)
    if board is None or memory not in (BufferType.L1, BufferType.DRAM) or verdict.total_bytes is None:
        return
    for printed in dict.fromkeys(shapes):
        for spec in _specs(printed, memory):
            try:
                allocation = Allocation.of("", spec, board)
            except InvalidCase:
                continue
            if (allocation.allocated_bytes, allocation.bytes_per_bank) == (verdict.total_bytes, verdict.bytes_per_bank):
                yield MatchingShape(printed.line, spec, printed.dtype is not None)
                break


def _specs(printed: PrintedShape, memory: BufferType) -> Iterator[TensorSpec]:
    for dtype in _USUAL if printed.dtype is None else (printed.dtype,):
        for layout in (Layout.TILE, Layout.ROW_MAJOR):
            if layout is Layout.TILE or dtype is not DType.BFLOAT8_B:
                yield TensorSpec(printed.shape, dtype, layout, MemoryConfig(memory))
