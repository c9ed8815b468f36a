"""Reads the record of a hand-written port: what each of its TTNN calls moves, counted as the traffic of a plan is.

A record has a line of JSON for each call, in order: ``op``; ``in`` and ``out``, tensors as [shape, dtype, layout, buffer,
memory layout, [shard, cores] or null, address], or [shape, dtype, layout, "HOST"]; ``before`` and ``after``, [allocated bytes,
largest free block] per bank or core of DRAM, L1 and L1_SMALL; ``peak`` of each memory within the call; ``programs``, the
device operations that ran, with the bytes of tensors (``l1``) and of their own buffers (``prog_bytes``, null if unknown) per
core.
"""

from __future__ import annotations

import gzip
import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ssinghal.core.memory_config import BufferType, Cores, MemoryConfig, ShardKind, ShardSpec
from ssinghal.core.tensors import Board, DType, Layout, Shape, TensorSpec, ceil_div
from ssinghal.errors import InvalidCase
from ssinghal.plan.metering import ELEMENTWISE, RESHARDS
from ssinghal.plan.placement import Traffic

# Calls between the host and the device. A forward begins after the last one that puts a tensor on the device.
PLACING = frozenset({"ttnn.from_torch", "Tensor.to", "ttnn.to_device", "ttnn.from_device"})
LEAVING = frozenset({"ttnn.to_torch", "Tensor.cpu"})
LAYOUT_CHANGES = frozenset(
    f"ttnn.{name}" for name in ("to_layout", "tilize", "untilize", "tilize_with_val_padding", "untilize_with_unpadding")
)
WITH_WEIGHTS = frozenset({"ttnn.conv1d", "ttnn.conv2d", "ttnn.conv_transpose2d"})  # return the prepared weights as well

_LAYOUTS = {"ROW_MAJOR": Layout.ROW_MAJOR, "TILE": Layout.TILE}
_L1 = 1  # the column of ``before`` and ``after``


@dataclass(frozen=True)
class PortTensor:
    """A tensor of a call. ``spec``: None in host memory. ``address``: None where it was freed before the call."""

    shape: Shape
    dtype: str
    spec: TensorSpec | None
    address: int | None

    @property
    def form(self) -> str:
        """How it is held, with the number of its cores: which cores a record does not say."""
        if self.spec is None:
            return "host"
        memory, shard = self.spec.memory, self.spec.memory.shard
        size = "" if shard is None else "x".join(map(str, shard.shape))
        where = str(memory) if shard is None else f"{memory.buffer}:{shard.kind}@{shard.cores.count}:{size}"
        return f"{where} {self.spec.dtype} {self.spec.layout}"

    @property
    def is_there(self) -> bool:
        return self.spec is not None and self.address is not None

    @property
    def place(self) -> tuple[BufferType, int | None]:
        """The buffer of a tensor on the device."""
        assert self.spec is not None
        return self.spec.memory.buffer, self.address

    def total_bytes(self, board: Board) -> int:
        """Returns the bytes of all its pages, 0 in host memory."""
        return 0 if self.spec is None else self.spec.allocated_bytes(board)


@dataclass(frozen=True)
class PortProgram:
    """``tensor_bytes``: of a core's L1 while it ran. ``buffer_bytes``: the program's own, None if TTNN did not report them."""

    name: str
    tensor_bytes: int
    buffer_bytes: int | None


@dataclass(frozen=True)
class PortCall:
    """``l1_bytes``: the most that tensors took of a core's L1 around or within the call."""

    number: int
    name: str
    at: str
    operands: tuple[PortTensor, ...]
    results: tuple[PortTensor, ...]
    programs: tuple[PortProgram, ...]
    l1_bytes: int

    @property
    def weights(self) -> tuple[PortTensor, ...]:
        """The weights that the call returns beside its result: it reads them, prepared before or within it."""
        return self.results[1:] if self.name in WITH_WEIGHTS else ()

    @property
    def l1_total_bytes(self) -> int:
        """The most of a core's L1 that tensors and program buffers took together, without the buffers that are unknown."""
        return max([self.l1_bytes, *(p.tensor_bytes + (p.buffer_bytes or 0) for p in self.programs)])

    @property
    def unknown_programs(self) -> int:
        return sum(program.buffer_bytes is None for program in self.programs)

    @property
    def read_from_dram(self) -> list[PortTensor]:
        """The operands in DRAM, weights among them, each once."""
        read = {x.place: x for x in (*self.operands, *self.weights) if x.is_there}
        return [x for x in read.values() if self.programs and x.place[0] is BufferType.DRAM]

    @property
    def written_to_dram(self) -> list[PortTensor]:
        written = [x for x in self.results if x.is_there and x not in self.weights]
        return [x for x in written if self.programs and x.place[0] is BufferType.DRAM]

    def traffic(self, board: Board) -> Traffic:
        """Returns what the call moves. One that ran no program only views its operand, or frees it.

        What TTNN reshards within another call has no tensor in the record. It is counted with the pages of the call's first
        operand: without the rows that fill the last shard, a lower bound.
        """
        if not self.programs:
            return Traffic()
        dram = (x.total_bytes(board) for x in (*self.read_from_dram, *self.written_to_dram))
        reshards = sum(program.name in RESHARDS for program in self.programs)
        across = [] if reshards else list(self._read_across(board))
        changes = reshards + len(across) + (self.name in LAYOUT_CHANGES)
        return Traffic(sum(dram), sum(self._resharded(reshards, board)) + sum(across), changes)

    def _read_across(self, board: Board) -> Iterator[int]:
        """Yields the bytes of operands in L1 that an element-wise program reads from other shards than its result has."""
        if any(program.name.startswith(ELEMENTWISE) for program in self.programs):
            there = {x.place: x for x in self.operands if x.is_there and x.place[0] is BufferType.L1}
            for result in (x for x in self.results if x.is_there and x.place[0] is BufferType.L1):
                for x in there.values():
                    alike = x.spec and result.spec and x.spec.shape == result.spec.shape
                    if alike and x.spec and result.spec and x.spec.memory != result.spec.memory:
                        yield x.total_bytes(board)

    def _resharded(self, reshards: int, board: Board) -> Iterator[int]:
        """Yields the bytes that each program that only moves a tensor writes to L1; from DRAM, they are counted there."""
        source = next((x for x in self.operands if x.is_there), None)
        if not reshards or source is None or source.spec is None or source.place[0] is BufferType.DRAM:
            return
        only = all(program.name in RESHARDS for program in self.programs)
        pages = TensorSpec(source.spec.shape, source.spec.dtype, source.spec.layout, MemoryConfig(BufferType.L1))
        for number in range(reshards):
            if only and number == reshards - 1:
                (result, *_) = self.results
                yield result.total_bytes(board) if result.place[0] is BufferType.L1 else 0
            else:
                yield pages.allocated_bytes(board)


def read_calls(path: Path) -> list[PortCall]:
    """Returns all calls of a record.

    Raises:
        InvalidCase: The file is no such record.
    """
    calls = []
    try:
        with gzip.open(path, "rt", encoding="utf-8") as lines:
            for number, line in enumerate(lines, 1):
                calls.append(_call(json.loads(line), f"{path}:{number}"))
    except (OSError, EOFError, UnicodeDecodeError) as error:
        raise InvalidCase(f"{path}: {error}; expected a record of a port, gzipped lines of JSON") from error
    except ValueError as error:
        raise InvalidCase(f"{path}:{len(calls) + 1}: {error}; expected a line of JSON for each call") from error
    return calls


def forward(calls: Sequence[PortCall]) -> list[PortCall]:
    """Returns the calls of the last forward: those after the last tensor that was placed, up to the first that leaves.

    Raises:
        InvalidCase: There is none.
    """
    start = max((number for number, call in enumerate(calls) if call.name in PLACING), default=-1) + 1
    end = next((number for number, call in enumerate(calls) if number >= start and call.name in LEAVING), len(calls))
    if not any(call.programs for call in calls[start:end]):
        raise InvalidCase("the record has no call on the device after the last tensor that is placed there")
    return list(calls[start:end])


def l1_peaks(calls: Iterable[PortCall]) -> tuple[int, int]:
    """Returns the most of a core's L1 that tensors took, and that tensors and program buffers took together."""
    calls = list(calls)
    return max(call.l1_bytes for call in calls), max(call.l1_total_bytes for call in calls)


def resident_bytes(calls: Iterable[PortCall], board: Board) -> int:
    """Returns the bytes read from DRAM that no call of a forward wrote there: weights, constants, and inputs placed there."""
    read, made = 0, set[tuple[BufferType, int | None]]()
    for call in calls:
        made -= {x.place for x in call.weights if x.is_there}  # prepared within the call where another tensor was
        read += sum(x.total_bytes(board) for x in call.read_from_dram if x.place not in made)
        made |= {x.place for x in call.written_to_dram}
    return read


def input_bytes(calls: Iterable[PortCall], board: Board) -> int:
    """Returns the bytes of the model's input, the first operand of a forward, that the forward reads from DRAM."""
    calls = list(calls)
    first = next((x for call in calls if call.programs for x in call.operands if x.is_there), None)
    reads = (x for call in calls for x in call.read_from_dram)
    return sum(x.total_bytes(board) for x in reads if first is not None and x.place == first.place)


def _call(line: Mapping[str, Any], where: str) -> PortCall:
    try:
        programs = tuple(PortProgram(p["name"], p["l1"], p.get("prog_bytes")) for p in line["programs"])
        l1_bytes = max(line["before"][_L1][0], line["after"][_L1][0], line["peak"].get("L1", 0))
        operands, results = (tuple(_tensor(tensor, where) for tensor in line[side]) for side in ("in", "out"))
        return PortCall(line["i"], line["op"], line["at"][-1], operands, results, programs, l1_bytes)
    except (KeyError, IndexError, TypeError, AttributeError) as error:
        raise InvalidCase(f"{where}: {error!r}; expected a call of a port as NOTES.md beside the records has it") from error


def _tensor(entry: Sequence[Any], where: str) -> PortTensor:
    shape, dtype, layout, buffer = tuple(entry[0]), str(entry[1]).lower(), entry[2], entry[3]
    if buffer == "HOST":
        return PortTensor(shape, dtype, None, None)
    memory_layout, shard, address = entry[4:7]
    try:
        kind = DType(dtype)
        memory = MemoryConfig(BufferType(buffer.lower()))
        if shard is not None:
            size, cores = shard
            cut = ShardKind(memory_layout.removesuffix("_SHARDED").lower())
            plain = TensorSpec(shape, kind, _LAYOUTS[layout])
            memory = MemoryConfig(memory.buffer, ShardSpec(cut, tuple(size), _cores(cut, plain, size, cores)))
        return PortTensor(shape, dtype, TensorSpec(shape, kind, _LAYOUTS[layout], memory), address)
    except (KeyError, ValueError) as error:
        raise InvalidCase(f"{where}: tensor {entry}: {error}") from error


def _cores(kind: ShardKind, tensor: TensorSpec, shard: Sequence[int], count: int) -> Cores:
    """Returns cores that hold as many shards as those of the record, of which only the number is known."""
    if kind is not ShardKind.BLOCK:
        return Cores.first(count, (8, 8))
    height, width = math.prod(tensor.padded_shape[:-1]), tensor.padded_shape[-1]
    return Cores.grid(ceil_div(width, shard[1]), ceil_div(height, shard[0]))
