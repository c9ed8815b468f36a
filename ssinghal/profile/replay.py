"""Replays the records of a tracker, allocation by allocation, and checks the sums against the allocator's own view."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ssinghal.core.record import Verdict
from ssinghal.device.error_patterns import translate_error
from ssinghal.errors import HarnessError
from ssinghal.profile.address_map import memory_of
from ssinghal.profile.model import Buffer, Call, Device, Difference, Memory, Peak, Profile, Program, Site, Span, Spec, Tensor
from ssinghal.tracker.records import VERSION

FREEING = frozenset({"ttnn.deallocate", "Tensor.deallocate"})  # they do not use their operand


def read_profiles(folder: Path) -> list[Profile]:
    """Reads the profile of each process that opened a device.

    Raises:
        HarnessError: ``folder`` has no records, or a line of them is damaged.
    """
    files = sorted(folder.glob("records-*.jsonl"))
    if not files:
        raise HarnessError(f"{folder}: no records-*.jsonl: did the program open a device?")
    return [_replayed(file) for file in files]


def _replayed(file: Path) -> Profile:
    line = 0

    def counted() -> Iterator[dict[str, Any]]:
        nonlocal line
        for line, record in enumerate(_records(file), 1):  # noqa: B007 (the number is what an error names)
            yield record

    try:
        return replay(counted())
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise HarnessError(f"{file}:{line}: not a complete record of a profile ({error!r})") from error


def _records(file: Path) -> Iterator[dict[str, Any]]:
    """Yields the records of a file. A last line without an end was cut off when its process was killed, and is left out."""
    with file.open() as lines:
        for number, line in enumerate(lines, 1):
            if not line.endswith("\n"):
                return
            try:
                record = json.loads(line)
            except ValueError:
                record = None
            if not isinstance(record, dict) or "k" not in record:
                raise HarnessError(f"{file}:{number}: expected a record of a profile")
            if record["k"] == "program" and record.get("version") != VERSION:
                raise HarnessError(f"{file}:{number}: a profile of version {record.get('version')}; expected {VERSION}")
            yield record


def replay(records: Iterable[Mapping[str, Any]]) -> Profile:
    """Returns the profile that the records of one process add up to."""
    state = Replay()
    for record in records:
        state.read(record)
    return state.profile


class Replay:
    """Adds up the records of one process, one by one: ``profile`` is that of the records read so far."""

    def __init__(self) -> None:
        self.profile = Profile()
        self._named: dict[int, Any] = {}  # sites, stacks and specs
        self._tensors: dict[tuple[int, int | None], Tensor] = {}  # equal ones are one object
        self._live: dict[tuple[str, int], Buffer] = {}
        self._sums: Counter[str] = Counter()
        self._changes = 0  # allocations and frees so far
        self._base: dict[str, int] = {}  # allocated before the recording began
        self._unsized: frozenset[str] = frozenset()  # memories in which some of that are buffers of unknown size
        self._rebased: set[str] = set()  # memories whose base is what the allocator's next view leaves for it
        self._l1_base = self._l1_top = self._others = 0
        self._current: Span | None = None

    def read(self, record: Mapping[str, Any]) -> None:
        kind = record["k"]
        if kind == "program":
            self.profile.argv, self.profile.folder = tuple(record["argv"]), record["folder"]
        elif kind == "device":
            self._open(record)
        elif kind == "site":
            self._named[record["n"]] = Site(record["file"], record["line"], record["function"], record.get("text", ""))
        elif kind == "stack":
            self._named[record["n"]] = tuple(self._named[number] for number in record["sites"])
        elif kind == "spec":
            self._named[record["n"]] = _spec(record)
        elif kind == "call":
            self._call(record)
        elif kind == "start":
            self.profile.unfinished = self._started(record)
        elif kind == "lost":
            self.profile.lost = record["why"]
        elif kind == "span":
            self._rest(record["gap"])
            self._span(record["name"])
        elif kind == "end":
            self.profile.ended, self.profile.unfinished = True, None
            self.profile.others += record["others"] - self._others
            self._rest(record["gap"])
            self._span("")

    def _rest(self, gap: Iterable[Any]) -> None:
        """Applies what happened since the last call."""
        if len(self.profile.calls) > self.profile.devices[-1].first_call:
            self._events(gap, self.profile.calls[-1], len(self.profile.calls), between=True)

    def _span(self, name: str) -> None:
        """Ends the part of the program before, and begins another one unless ``name`` is empty."""
        number = len(self.profile.calls)
        if self._current is not None:
            self._current.end_call, self._current.after = number, dict(self._sums)
        self._current = None
        if name:
            self._current = Span(name, number, before=dict(self._sums))
            self.profile.spans.append(self._current)
            for memory in self._sums if number > self.profile.devices[-1].first_call else ():
                self._raise(self._current.peaks, memory, self.profile.calls[-1])

    def _open(self, record: Mapping[str, Any]) -> None:
        """Closing a device frees what is left on it."""
        self._live.clear()
        self._sums.clear()
        memories = {memory: Memory(*values) for memory, values in record["memories"].items()}
        self._base = {name: memory.base_bytes for name, memory in memories.items()}
        self._l1_base, self._l1_top, self._others = record["l1_base"], record["l1_top"], 0
        mesh, grid = tuple(record["mesh"]), (record["grid"][0], record["grid"][1])
        facts = record["ttnn"], record["arch"], mesh, grid, record["granule"], self._l1_base, self._l1_top
        self.profile.devices.append(Device(*facts, memories, len(self.profile.calls)))
        self.profile.ended, self._current = False, None
        self._unsized = frozenset(record.get("unsized", ()))
        for memory, address, bank_bytes in record.get("held", ()):
            banks = memories[memory].banks
            self._base[memory] -= bank_bytes
            self._allocate((memory, address, bank_bytes, bank_bytes * banks), len(self.profile.calls), between=True)

    def _call(self, record: Mapping[str, Any]) -> None:
        call = self._started(record)
        number = call.number
        self.profile.calls.append(call)
        self.profile.unfinished = None
        call.peak.update(self._sums)
        is_first = number == self.profile.devices[-1].first_call
        for memory in self._sums if is_first else ():
            self._raise_peak(memory, call)
        before = call if is_first else self.profile.calls[number - 1]
        self._events(record["gap"], before, number, between=True)
        call.operands, call.microseconds = self._use(record["in"], number, is_freed=call.name in FREEING), record.get("us", 0)
        if "error" in record:
            call.before, call.arguments = tuple(self._live.values()), record.get("arguments")
        events = record["ev"]
        last = max((i for i, event in enumerate(events, 1) if event[0] != "-"), default=0)  # what is freed then is unwinding
        call.programs = tuple(self._events(events[:last], call, number))
        if "error" in record:
            call.verdict = translate_error(*record["error"])
            while last < len(events) and self._is_earlier(call.verdict):
                self._events(events[last : last + 1], call, number)
                last += 1
            self._fail(call, *record["error"])
        self._events(events[last:], call, number)
        call.results = self._use(record.get("out") or (), number)
        if record["others"] != self._others:  # what they allocated is part of the allocator's view
            self.profile.others += record["others"] - self._others
            self._others = record["others"]
            self._rebased.update(record["view"])
        for memory, (allocated, largest) in record["view"].items():
            if memory in self._rebased:
                self._base[memory] = allocated - self._sums[memory]
            call.after[memory], call.largest_free[memory] = allocated, largest
            self.profile.checks += 1
            replayed = self._sums[memory] + self._base[memory]
            if replayed != allocated:
                self.profile.differences.append(Difference(number, memory, replayed, allocated))
        self._rebased.clear()

    def _fail(self, call: Call, kind: str, text: str) -> None:
        """Keeps the last call that ran out of memory, or else the last that raised, with what was resident."""
        call.error, call.resident = (kind, text), tuple(self._live.values())
        self.profile.raised += 1
        if call.is_out_of_memory or self.profile.failure is None or not self.profile.failure.is_out_of_memory:
            self.profile.failure = call

    def _is_earlier(self, verdict: Verdict) -> bool:
        """Whether more is allocated than there was when the call failed: what is freed next was freed before that."""
        memory = memory_of(verdict, self.profile.devices[-1].memories)
        if verdict.allocated_bytes is not None and memory:
            return self._sums[memory] + self._base[memory] > verdict.allocated_bytes
        return verdict.tensor_address is not None and self._lowest() < verdict.tensor_address

    def _lowest(self) -> int:
        return min((address for memory, address in self._live if memory == "l1"), default=self._l1_top)

    def _started(self, record: Mapping[str, Any]) -> Call:
        stack = self._named[record["stack"]]
        return Call(len(self.profile.calls), record["name"], stack[0] if stack else None, stack, {})

    def _use(self, tensors: Iterable[tuple[int, int | None]], number: int, *, is_freed: bool = False) -> tuple[Tensor, ...]:
        """Returns operands or results, after noting what their buffers hold, and that a call uses them unless it frees them."""
        used = []
        for key, address in tensors:
            tensor = self._tensors.get((key, address))
            if tensor is None:
                tensor = self._tensors[key, address] = Tensor(self._named[key], address)
            used.append(tensor)
            spec = tensor.spec
            buffer = self._live.get((spec.memory, address)) if spec.memory is not None and address is not None else None
            if buffer is not None:
                buffer.last_use, buffer.tensor = buffer.last_use if is_freed else number, str(spec)
        return tuple(used)

    def _events(self, events: Iterable[Any], call: Call, number: int, between: bool = False) -> list[Program]:
        """Applies events; ``call``: whose peak they may raise. Returns the programs among them."""
        programs = []
        for kind, *values in events:
            if kind == "+":
                self._allocate(values, number, between)
                self._raise_peak(values[0], call)
            elif kind == "-":
                self._free(values[0], values[1], number, between)
            else:
                programs.append(self._program(call, values[0], values[1]))
        return programs

    def _allocate(self, values: Sequence[Any], number: int, between: bool) -> None:
        memory, address, bank_bytes, total_bytes = values
        device = len(self.profile.devices) - 1
        buffer = Buffer(memory, address, bank_bytes, total_bytes, number, number, device=device, made_between=between)
        buffer.made_at = self._changes
        self._changes += 1
        self.profile.buffers.append(buffer)
        self._live[buffer.memory, buffer.address] = buffer
        self._sums[buffer.memory] += buffer.bank_bytes

    def _free(self, memory: str, address: int, number: int, between: bool) -> None:
        freed = self._live.pop((memory, address), None)
        if freed is not None:
            freed.freed, freed.freed_between, freed.freed_at = number, between, self._changes
            self._changes += 1
            self._sums[memory] -= freed.bank_bytes
        elif memory in self._unsized:
            self.profile.unsized_frees += 1
            self._rebased.add(memory)
        else:
            self.profile.unknown_frees += 1

    def _raise_peak(self, memory: str, call: Call) -> None:
        call.peak[memory] = max(call.peak.get(memory, 0), self._sums[memory])
        self._raise(self.profile.peaks, memory, call)
        if self._current is not None:
            self._raise(self._current.peaks, memory, call)

    def _raise(self, peaks: dict[str, Peak], memory: str, call: Call) -> None:
        total = self._sums[memory]
        if total > (peaks[memory].bank_bytes if memory in peaks else 0):
            resident = (buffer for buffer in self._live.values() if buffer.memory == memory)
            peaks[memory] = Peak(total, call, tuple(resident))

    def _program(self, call: Call, name: str, program_bytes: int | None) -> Program:
        headroom = None if program_bytes is None else self._lowest() - self._l1_base - program_bytes
        program = Program(name, program_bytes, self._sums["l1"], headroom)
        self.profile.unknown_programs += headroom is None
        for owner in (self.profile, self._current):
            if owner is not None and headroom is not None and (owner.fullest is None or _headroom(owner.fullest[1]) > headroom):
                owner.fullest = call, program
        return program


def _headroom(program: Program) -> int:
    return program.headroom_bytes or 0


def _spec(record: Mapping[str, Any]) -> Spec:
    shard = record.get("shard")
    return Spec(
        tuple(record["shape"]),
        record["dtype"],
        record["layout"],
        record["memory"],
        record.get("memory_layout", ""),
        (tuple(shard[0]), shard[1]) if shard else None,
    )
