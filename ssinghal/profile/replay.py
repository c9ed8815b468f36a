"""Replays the records of a tracker, allocation by allocation, and checks the sums against the allocator's own view."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from sys import intern
from typing import Any

from ssinghal.core.verdict import Verdict
from ssinghal.device.error_patterns import translate_error
from ssinghal.profile.address_map import memory_of
from ssinghal.profile.model import Buffer, Call, Device, Difference, Memory, Profile, Program, Site, Span, Spec, Tensor
from ssinghal.profile.residents import PeakFinder, Residents
from ssinghal.profile.sharing import Sharing
from ssinghal.profile.unrecorded import Unrecorded

FREEING = frozenset({"ttnn.deallocate", "Tensor.deallocate"})  # they do not use their operand


def replay(records: Iterable[Mapping[str, Any]]) -> Profile:
    """Returns the profile that the records of one process add up to."""
    state = Replay()
    for record in records:
        state.read(record)
    return state.profile


class Replay:
    """Adds up the records of one process, one by one."""

    def __init__(self) -> None:
        self._profile = Profile()
        self._named: dict[int, Any] = {}  # sites, stacks and specs
        self._texts: dict[int, str] = {}  # of specs
        self._sharing = Sharing()
        self._residents = Residents()
        self._base: dict[str, int] = {}  # allocated before the recording began
        self._unsized: frozenset[str] = frozenset()  # memories in which some of that are buffers of unknown size
        self._rebased: set[str] = set()  # memories whose base is what the allocator's next view leaves for it
        self._l1_base = self._l1_top = 0
        self._unrecorded = Unrecorded(self._profile)
        self._started: Mapping[str, Any] | None = None  # the record of a call that has not ended
        self._span: Span | None = None
        self._finders = [PeakFinder(self._profile.peaks)]  # of the profile, and of the span

    @property
    def profile(self) -> Profile:
        """The profile of the records read so far."""
        self._settle()
        self._profile.unfinished = None if self._started is None else self._new_call(self._started)
        return self._profile

    @property
    def changes(self) -> int:
        """How many allocations and frees the records read so far hold: see ``Buffer.made_at``."""
        return self._residents.changes

    def _settle(self) -> None:
        for finder in self._finders:
            finder.settle(self._residents)
        self._residents.forget()

    def read(self, record: Mapping[str, Any]) -> None:
        kind = record["k"]
        if kind == "program":
            self._profile.argv, self._profile.folder = tuple(record["argv"]), record["folder"]
        elif kind == "device":
            self._open(record)
        elif kind == "site":
            self._named[record["n"]] = Site(record["file"], record["line"], record["function"], record.get("text", ""))
        elif kind == "stack":
            self._named[record["n"]] = tuple(self._named[number] for number in record["sites"])
        elif kind == "spec":
            self._named[record["n"]] = spec = _spec(record)
            self._texts[record["n"]] = str(spec)
        elif kind == "call":
            self._call(record)
        elif kind == "start":
            self._started = record
        elif kind == "lost":
            self._profile.lost = record["why"]
        elif kind == "span":
            self._unrecorded.count(record)
            self._rest(record["gap"])
            self._begin_span(record["name"])
        elif kind == "end":
            self._profile.ended, self._started = True, None
            self._unrecorded.count(record)
            self._rest(record["gap"])
            self._begin_span("")

    def _rest(self, gap: Iterable[Any]) -> None:
        """Applies what happened since the last call."""
        if len(self._profile.calls) > self._profile.devices[-1].first_call:
            self._events(gap, self._profile.calls[-1], len(self._profile.calls), between=True)

    def _begin_span(self, name: str) -> None:
        """Ends the part of the program before, and begins another one unless ``name`` is empty."""
        number, sums = len(self._profile.calls), self._residents.sums
        self._settle()
        if self._span is not None:
            self._span.end_call, self._span.after = number, dict(sums)
        self._span = None
        del self._finders[1:]
        if name:
            self._span = Span(name, number, before=dict(sums))
            self._profile.spans.append(self._span)
            self._finders.append(PeakFinder(self._span.peaks))
            for memory in sums if number > self._profile.devices[-1].first_call else ():
                self._finders[1].note(memory, self._residents, self._profile.calls[-1])

    def _open(self, record: Mapping[str, Any]) -> None:
        """Closing a device frees what is left on it."""
        self._settle()
        self._residents.clear()
        self._span = None
        del self._finders[1:]
        memories = {memory: Memory(*values) for memory, values in record["memories"].items()}
        self._base = {name: memory.base_bytes for name, memory in memories.items()}
        self._l1_base, self._l1_top = record["l1_base"], record["l1_top"]
        self._unrecorded.begin()
        mesh, grid = tuple(record["mesh"]), (record["grid"][0], record["grid"][1])
        facts = record["ttnn"], record["arch"], mesh, grid, record["granule"], self._l1_base, self._l1_top
        self._profile.devices.append(Device(*facts, memories, len(self._profile.calls)))
        self._profile.ended = False
        self._unsized = frozenset(record.get("unsized", ()))
        for memory, address, bank_bytes in record.get("held", ()):
            banks = memories[memory].banks
            self._base[memory] -= bank_bytes
            self._allocate((memory, address, bank_bytes, bank_bytes * banks), len(self._profile.calls), between=True)
            self._profile.buffers[-1].made_before = True

    def _call(self, record: Mapping[str, Any]) -> None:
        self._unrecorded.count(record)
        call, sums = self._new_call(record), self._residents.sums
        number = call.number
        self._profile.calls.append(call)
        self._started = None
        is_first = number == self._profile.devices[-1].first_call
        before = call if is_first else self._profile.calls[number - 1]
        for memory in sums if is_first else ():
            self._raise_peak(memory, call)
        self._events(record["gap"], before, number, between=True)
        if not is_first:
            call.peak = self._sharing.levels(sums)
        call.operands = self._use(record["in"], number, is_freed=call.name in FREEING)
        call.microseconds = record.get("us", 0)
        if "error" in record:
            call.before, call.arguments = self._residents.all(), record.get("arguments")
        events = record["ev"]
        last = max((i for i, event in enumerate(events, 1) if event[0] != "-"), default=0)  # what is freed then is unwinding
        call.programs = self._sharing.of(tuple(self._events(events[:last], call, number)))
        if "error" in record:
            call.verdict = translate_error(*record["error"])
            while last < len(events) and self._is_earlier(call.verdict):
                self._events(events[last : last + 1], call, number)
                last += 1
            self._fail(call, *record["error"])
        self._events(events[last:], call, number)
        call.results = self._use(record.get("out") or (), number)
        self._profile.skipped += record.get("skipped", False)
        self._check(call, record["view"])

    def _check(self, call: Call, view: Mapping[str, Any]) -> None:
        """Compares the sums with the allocator's view after a call."""
        sums = self._residents.sums
        if self._unrecorded.take_news():
            self._rebased.update(view)
            for memory in view.keys() - self._unsized:
                self._unrecorded.note(memory, view[memory][0] - sums[memory] - self._base[memory])
        for memory in self._rebased & view.keys():
            self._base[memory] = view[memory][0] - sums[memory]
        self._rebased.clear()
        self._profile.checks += len(view)
        for memory, (allocated, _) in view.items():
            replayed = sums[memory] + self._base[memory]
            if replayed != allocated:
                self._profile.differences.append(Difference(call.number, memory, replayed, allocated))
        call.after = self._sharing.levels({memory: allocated for memory, (allocated, _) in view.items()})
        call.largest_free = self._sharing.levels({memory: largest for memory, (_, largest) in view.items()})

    def _fail(self, call: Call, kind: str, text: str) -> None:
        """Keeps the last call that ran out of memory, or else the last that raised, with what was resident."""
        call.error, call.resident = (kind, text), self._residents.all()
        self._profile.raised += 1
        if call.is_out_of_memory or self._profile.failure is None or not self._profile.failure.is_out_of_memory:
            self._profile.failure = call

    def _is_earlier(self, verdict: Verdict) -> bool:
        """Whether more is allocated than there was when the call failed: what is freed next was freed before that."""
        memory = memory_of(verdict, self._profile.devices[-1].memories)
        if verdict.allocated_bytes is not None and memory:
            return self._residents.sums[memory] + self._base[memory] > verdict.allocated_bytes
        return verdict.tensor_address is not None and self._residents.lowest_l1(self._l1_top) < verdict.tensor_address

    def _new_call(self, record: Mapping[str, Any]) -> Call:
        stack = self._named[record["stack"]]
        peak = self._sharing.levels(self._residents.sums)
        return Call(len(self._profile.calls), intern(record["name"]), stack[0] if stack else None, stack, peak)

    def _use(self, tensors: Iterable[tuple[int, int | None]], number: int, *, is_freed: bool = False) -> tuple[Tensor, ...]:
        """Returns operands or results, after noting what their buffers hold, and that a call uses them unless it frees them."""
        used = []
        for key, address in tensors:
            spec: Spec = self._named[key]
            used.append(self._sharing.of(Tensor(spec, address)))
            buffer = self._residents.get(spec.memory, address)
            if buffer is not None:
                buffer.last_use, buffer.tensor = buffer.last_use if is_freed else number, self._texts[key]
        return self._sharing.of(tuple(used))

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
        if address < 0 or bank_bytes < 0:
            raise ValueError(f"a buffer of {bank_bytes} B at {address}")
        device = len(self._profile.devices) - 1
        buffer = Buffer(intern(memory), address, bank_bytes, total_bytes, number, number, device=device, made_between=between)
        self._profile.buffers.append(buffer)
        self._residents.add(buffer)

    def _free(self, memory: str, address: int, number: int, between: bool) -> None:
        freed = self._residents.remove(memory, address)
        if freed is not None:
            freed.freed, freed.freed_between = number, between
        elif self._unrecorded.thread_calls:  # what another thread made
            self._rebased.add(memory)
        elif memory in self._unsized:
            self._profile.unsized_frees += 1
            self._rebased.add(memory)
        else:
            self._profile.unknown_frees += 1

    def _raise_peak(self, memory: str, call: Call) -> None:
        total = self._residents.sums[memory]
        if total > call.peak.get(memory, 0):
            call.peak = self._sharing.levels({**call.peak, memory: total})
        for finder in self._finders:
            finder.note(memory, self._residents, call)

    def _program(self, call: Call, name: str, program_bytes: int | None) -> Program:
        low = self._residents.lowest_l1(self._l1_top)
        headroom = low - self._l1_base - (program_bytes or 0)
        program = self._sharing.of(Program(intern(name), program_bytes, self._residents.sums["l1"], headroom))
        for owner in (self._profile, self._span):
            if owner is None:
                continue
            owner.unknown_programs += program_bytes is None
            if owner.fullest is None or owner.fullest[1].headroom_bytes > headroom:
                owner.fullest = call, program
        return program


def _spec(record: Mapping[str, Any]) -> Spec:
    shard = record.get("shard")
    return Spec(
        tuple(record["shape"]),
        record["dtype"],
        record["layout"],
        record["memory"],
        record.get("memory_layout", ""),
        (tuple(shard[0]), shard[1]) if shard else None,
        record.get("config", ""),
    )
