"""Measures the TTNN calls of a step: what they move through DRAM, and the most memory that is in use while they run.

The calls pass through a ``CallMeter`` in the place of ``ttnn``. Peaks come from TTNN's own graph of each call, which has every
buffer that is allocated within it and the program buffers of every program that is built; what was allocated before the call
comes from the allocator.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import partial
from types import ModuleType
from typing import Any, NamedTuple

from ssinghal.capture.trace import ValueKind
from ssinghal.core.memory_config import BufferType
from ssinghal.core.tensors import TensorSpec
from ssinghal.device.session import Session
from ssinghal.plan.memory_audit import KINDS, stored_spec
from ssinghal.plan.placement import Traffic
from ssinghal.tracker.arguments import ArgumentWriter
from ssinghal.tracker.events import Event, EventReader, planned_programs
from ssinghal.tracker.shadow import nodes_without_dispatch

# Programs that change where a tensor is and not its elements, by TTNN's names.
RESHARDS = frozenset(
    f"{name}DeviceOperation"
    for name in ("InterleavedToSharded", "ShardedToInterleaved", "Reshard", "InterleavedToShardedPartial")
)
ELEMENTWISE = ("Unary", "Binary", "Ternary")  # beginnings of the names of element-wise programs
_LAYOUT_CHANGES = frozenset(
    f"ttnn.{name}" for name in ("to_layout", "tilize", "untilize", "tilize_with_val_padding", "untilize_with_unpadding")
)
_L1, _TENSORS = 1, (0, 1)  # TTNN's numbers of the buffers that tensors have; others are tables


class Unsized(NamedTuple):
    """A program whose buffers TTNN did not report."""

    name: str
    nth: int
    live_bytes: int


@dataclass
class StepMeter:
    """What calls did. Peaks are bytes per bank, with all that was allocated before.

    ``l1_peak_bytes``: tensors and program buffers together. ``unknown``: programs whose buffers TTNN did not report, each with
    which of its name it was in the step and the L1 that was allocated then.
    ``read``: bytes that were read from the model's own buffers in DRAM, by kind. ``written``: bytes of each buffer that was
    written to DRAM, by address; both over all banks.
    """

    traffic: Traffic = field(default_factory=Traffic)
    l1_peak_bytes: int = 0
    program_bytes: int = 0
    peaks: dict[BufferType, int] = field(default_factory=lambda: dict.fromkeys(KINDS, 0))
    calls: list[str] = field(default_factory=list)
    unknown: list[Unsized] = field(default_factory=list)
    programs: Counter[str] = field(default_factory=Counter)
    read: Counter[ValueKind] = field(default_factory=Counter)
    written: dict[int, int] = field(default_factory=dict)

    def note_program(self, size_bytes: int, live_bytes: int) -> None:
        """``size_bytes``: of its buffers in a core's L1. ``live_bytes``: what was allocated there when it ran."""
        self.program_bytes = max(self.program_bytes, size_bytes)
        self.l1_peak_bytes = max(self.l1_peak_bytes, live_bytes + size_bytes)

    def note_without_dispatch(self, nodes: Sequence[Mapping[str, Any]]) -> None:
        """Fills in unknown programs from the graph of the same step without dispatch; empty where that did not work."""
        sizes = planned_programs(nodes)
        still = []
        for program in self.unknown:
            if program.nth < len(sizes.get(program.name, ())):
                self.note_program(sizes[program.name][program.nth], program.live_bytes)
            else:
                still.append(program)
        self.unknown = still


@dataclass(frozen=True)
class _Seen:
    """A device tensor as an operand or result: its buffer, the bytes of all its pages, and those that each bank books."""

    place: tuple[BufferType, int]
    total_bytes: int
    booked_bytes: int
    spec: TensorSpec

    @property
    def in_dram(self) -> bool:
        return self.place[0] is BufferType.DRAM


class CallMeter:
    """Counts the calls that are made through ``ttnn``. It must see all calls of a device from the first one on.

    ``module``: passed the calls, if they are recorded on their way to TTNN. ``owned``: addresses in DRAM of the model's weights
    and inputs; one that a result takes is no longer among them.
    """

    def __init__(self, session: Session, module: Any = None) -> None:
        self.session, self.module = session, module or session.ttnn
        self.step = StepMeter()
        self.owned: dict[int, ValueKind] = {}
        board = session.board
        banks = {kind.value: board.region(kind).num_banks for kind in KINDS}
        self._reader = EventReader(banks, board.granule_bytes, session.facts.l1_base_bytes)

    @property
    def ttnn(self) -> Any:
        """The namespace whose calls are counted."""
        return _Namespace(self, self.module, "ttnn")

    def start(self) -> StepMeter:
        """Starts to count anew; returns the meter of the calls that follow."""
        self.step = StepMeter()
        return self.step

    def call(self, name: str, function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """Makes a call and counts it; one that takes and makes no tensor is passed on."""
        operands = list(self._tensors((*args, *kwargs.values())))
        if not operands and "device" not in kwargs:
            return function(*args, **kwargs)
        seen = [self._seen(tensor) for tensor in operands]
        before = self.session.allocated_bytes()
        returned: list[Any] = []
        written = ArgumentWriter(self.session.ttnn, self.session.device).written(args, kwargs)
        nodes = self.session.capture_running(lambda: returned.append(function(*args, **kwargs)))
        results = [self._seen(tensor) for tensor in self._tensors(returned)]
        events = self._events(
            nodes, {seen.place[1] for seen in results}, json.dumps(written), partial(function, *args, **kwargs)
        )
        self._note_peaks({kind: before.get(kind, 0) for kind in KINDS}, seen, events)
        if any(event[0] == "p" for event in events):  # a call without any program only views its operands, or frees them
            self.step.calls.append(name)
            self._note_traffic(name, seen, results, nodes)
            self.step.traffic += Traffic(2 * sum(_temporary(events)))  # written, then read
        return returned[0]

    def _events(
        self, nodes: Sequence[Mapping[str, Any]], results: Collection[int], written: str, call: Callable[[], Any]
    ) -> list[Event]:
        """Returns the events of a call. ``results``: the addresses of its results.

        TTNN's graph of a call leaves out the program buffers of some kernels, which are in that of the same call without
        dispatch: it is repeated so where it freed nothing.
        """
        events = self._reader.events(nodes, lambda: written)
        keeps_all = all(kind == "p" or (kind == "+" and values[1] in results) for kind, *values in events)
        if self._reader.unknown and keeps_all:
            self._reader.learn(nodes_without_dispatch(self.session.graph, call), lambda: written)
        return events

    def _tensors(self, value: Any) -> Iterator[Any]:
        """Yields the tensors on the device in a value; one that was freed has no buffer."""
        if isinstance(value, self.session.ttnn.Tensor):
            if value.storage_type() == self.session.ttnn.StorageType.DEVICE and value.is_allocated():
                yield value
        elif isinstance(value, (list, tuple)):
            for item in value:
                yield from self._tensors(item)

    def _seen(self, tensor: Any) -> _Seen:
        spec, board = stored_spec(self.session, tensor), self.session.board
        place = spec.memory.buffer, int(tensor.buffer_address())
        return _Seen(place, spec.allocated_bytes(board), spec.booked_bytes_per_bank(board), spec)

    def _note_peaks(self, live: dict[BufferType, int], operands: Iterable[_Seen], events: Iterable[Event]) -> None:
        """``live``: what was allocated before."""
        step = self.step
        sizes = {seen.place: seen.booked_bytes for seen in operands}
        for event in events:
            if event[0] == "p":
                name = str(event[1])
                if event[3] == "unknown":
                    step.unknown.append(Unsized(name, step.programs[name], live[BufferType.L1]))
                step.programs[name] += 1
                step.note_program(int(event[2] or 0), live[BufferType.L1])
                continue
            kind = BufferType(event[1])
            if event[0] == "+":
                sizes[kind, event[2]] = event[3]
                live[kind] += event[3]
                step.peaks[kind] = max(step.peaks[kind], live[kind])
            else:
                live[kind] -= sizes.pop((kind, event[2]), 0)
        step.l1_peak_bytes = max(step.l1_peak_bytes, step.peaks[BufferType.L1])

    def _note_traffic(
        self, name: str, operands: Sequence[_Seen], results: Sequence[_Seen], nodes: Sequence[Mapping[str, Any]]
    ) -> None:
        there = {seen.place: seen for seen in operands}
        made = {seen.place: seen for seen in results}
        dram_bytes = sum(seen.total_bytes for seen in (*there.values(), *made.values()) if seen.in_dram)
        moved = list(_resharded(nodes))
        from_dram = bool(operands) and operands[0].in_dram
        across = [] if moved else list(_read_across(there.values(), made.values(), nodes))
        changes = len(moved) + len(across) + (name in _LAYOUT_CHANGES)
        self.step.traffic += Traffic(dram_bytes, (0 if from_dram else sum(moved)) + sum(across), changes)
        self._note_owners(there.values(), made.values())

    def _note_owners(self, read: Iterable[_Seen], written: Iterable[_Seen]) -> None:
        for seen in read:
            if seen.in_dram and seen.place[1] in self.owned:
                self.step.read[self.owned[seen.place[1]]] += seen.total_bytes
        for seen in written:
            if seen.in_dram:
                self.owned.pop(seen.place[1], None)
                self.step.written[seen.place[1]] = seen.total_bytes


def _temporary(events: Iterable[Event]) -> Iterator[int]:
    """Yields the bytes of each tensor in DRAM that a call allocated and freed, over all banks."""
    sizes: dict[int, int] = {}
    for kind, *values in events:
        if kind == "+" and values[0] == BufferType.DRAM:
            sizes[values[1]] = values[3]
        elif kind == "-" and values[0] == BufferType.DRAM and values[1] in sizes:
            yield sizes.pop(values[1])


def _resharded(nodes: Iterable[Mapping[str, Any]]) -> Iterator[int]:
    """Yields, for each program that only moves a tensor, the bytes that it writes to L1: 0 where it writes to DRAM.

    Its result is the tensor that was allocated last: within it, or right before where another call has it done.
    """
    functions: list[str] = []
    allocated = 0
    for node in nodes:
        kind, params = node["node_type"], node["params"] or {}
        if kind == "function_start":
            functions.append(str(params["name"]))
        elif kind == "function_end":
            if functions and functions.pop() in RESHARDS:
                yield allocated
        elif kind == "buffer_allocate" and int(params["buffer_type"]) in _TENSORS:
            allocated = int(params["size"]) * (int(params["buffer_type"]) == _L1)


def _read_across(operands: Iterable[_Seen], results: Iterable[_Seen], nodes: Iterable[Mapping[str, Any]]) -> Iterator[int]:
    """Yields the bytes of each operand in L1 whose elements an element-wise program needs on other cores than it has them: its
    result is sharded otherwise. That reshards the operand within the program."""
    names = [str(node["params"]["name"]) for node in nodes if node["node_type"] == "function_start"]
    if any(name.startswith(ELEMENTWISE) for name in names):
        for result in results:
            for operand in operands:
                alike = operand.spec.shape == result.spec.shape and not (operand.in_dram or result.in_dram)
                if alike and operand.spec.memory != result.spec.memory:
                    yield operand.total_bytes


class _Namespace:
    """TTNN, or a module of it, whose functions are counted when they are called."""

    def __init__(self, meter: CallMeter, module: Any, path: str) -> None:
        self._meter, self._module, self._path = meter, module, path

    def __getattr__(self, name: str) -> Any:
        value, path = getattr(self._module, name), f"{self._path}.{name}"
        if isinstance(value, ModuleType) or type(value).__name__ == "_Namespace":
            return _Namespace(self._meter, value, path)
        if isinstance(value, (type, Enum)) or not callable(value) or type(value).__name__ == "_Class":
            return value
        return lambda *args, **kwargs: self._meter.call(path, value, args, kwargs)
