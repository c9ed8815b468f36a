"""Reduces TTNN's graph of some calls to events: buffers allocated and freed, programs run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ssinghal.tracker.programs import Identity, ProgramKey, ProgramPlan, ProgramSizes

KINDS = {0: "dram", 1: "l1", 3: "l1_small", 4: "trace"}
_WRAP = 2**32  # TTNN's graph keeps a buffer's bytes per bank in 32 bits
_OF_A_DEVICE = ("buffer_allocate", "buffer_deallocate", "circular_buffer_deallocate_all")
_PROGRAM_BUFFERS = ("circular_buffer_allocate", "dataflow_buffer_allocate", "scratchpad_allocate")

Event = list[Any]


def booked_bytes(size: int, granule: int) -> int:
    """Returns the bytes that the allocator books for ``size`` bytes of a bank."""
    return -(-size // granule) * granule


class EventReader:
    """Holds what later graphs need of earlier ones: the sizes of program buffers of calls that were measured."""

    def __init__(self, banks: Mapping[str, int], granule: int, l1_base: int, *, knows_all_programs: bool = True) -> None:
        """``knows_all_programs``: whether the device has built none yet."""
        self._banks, self._granule, self._base = banks, granule, l1_base
        self._sizes = ProgramSizes(knows_all=knows_all_programs)
        self.elsewhere: set[int] = set()  # other devices and submeshes, by TTNN's number: what happens there is left out
        self.left_out = 0  # buffers that were allocated there
        self.unknown: list[tuple[ProgramKey, Event]] = []  # programs that the last graph built without their program buffers

    def events(self, nodes: Iterable[Mapping[str, Any]], identity: Identity = lambda: None) -> list[Event]:
        """Returns the events of a graph, in order. ``identity``: see ``ProgramKey``."""
        events: list[Event] = []
        built: list[tuple[ProgramKey, Event]] = []
        program: tuple[ProgramKey, Event] | None = None
        for node, function, nth in _within(nodes):
            kind, params = node["node_type"], node["params"] or {}
            if kind == "function_end" or (kind in _OF_A_DEVICE and int(params.get("device_id", -1)) in self.elsewhere):
                program = None
                self.left_out += kind == "buffer_allocate"
            elif kind == "buffer_allocate":
                memory = KINDS[int(params["buffer_type"])]
                events.append(["+", memory, int(params["address"]), self._booked(memory, params), int(params["size"])])
            elif kind == "buffer_deallocate":
                events.append(["-", KINDS[int(params["buffer_type"])], int(params["address"])])
            elif kind == "circular_buffer_deallocate_all" and function is not None:
                key, is_cached = ProgramKey(function, nth, identity), function["params"].get("program_cache_hit")
                known = self._sizes.find(key, is_cached=is_cached is True)
                event = ["p", str(function["params"]["name"]), *(known or (None, "unknown"))]
                events.append(event)
                program = key, event
                if known is None and not is_cached:
                    self._sizes.note(key, None)
                    built.append(program)
            elif kind == "circular_buffer_allocate" and program:
                key, event = program
                is_borrowed = str(params["globally_allocated"]) == "1"  # in the buffer of a tensor
                size = 0 if is_borrowed else int(params["address"]) + int(params["size"]) - self._base
                self._learn(key, event, max(size, event[2]) if event[3] == "measured" else size, "memo")
                event[3] = "measured"
        self.unknown = [(key, event) for key, event in built if event[3] == "unknown"]
        return events

    def learn(self, nodes: Iterable[Mapping[str, Any]], identity: Identity) -> None:
        """Fills in the unknown program buffers of the last graph from one of the same call without dispatch."""
        plans: dict[bytes | None, ProgramPlan] = {}
        plan: ProgramPlan | None = None
        for node, function, nth in _within(nodes):
            kind = node["node_type"]
            if kind == "circular_buffer_deallocate_all" and function is not None:
                plan = plans[ProgramKey(function, nth, identity).exact] = ProgramPlan()
            elif plan is not None and kind in _PROGRAM_BUFFERS:
                plan.place(node["params"])
        for key, event in self.unknown:
            if key.exact is not None and key.exact in plans:
                self._learn(key, event, plans[key.exact].size, "shadow")

    def _learn(self, key: ProgramKey, event: Event, size: int, source: str) -> None:
        before = None if event[3] == "unknown" else (event[2], "memo" if event[3] == "measured" else event[3])
        self._sizes.note(key, (size, source), instead=(before,))
        event[2:] = size, source

    def _booked(self, memory: str, params: Mapping[str, Any]) -> int:
        """Returns the bytes per bank of a buffer, as the allocator books them."""
        size, total = int(params["max_size_per_bank"]), int(params["size"])
        missing = -(-total // self._banks[memory]) - size
        if total >= _WRAP and missing > 0:
            size += -(-missing // _WRAP) * _WRAP
        return booked_bytes(size, self._granule)


def planned_programs(nodes: Iterable[Mapping[str, Any]]) -> dict[str, list[int]]:
    """Returns the program buffers per core of each program of a graph without dispatch, by name and in order."""
    plans: dict[str, list[ProgramPlan]] = {}
    plan: ProgramPlan | None = None
    for node, function, _ in _within(nodes):
        kind = node["node_type"]
        if kind == "circular_buffer_deallocate_all" and function is not None:
            plan = ProgramPlan()
            plans.setdefault(str(function["params"]["name"]), []).append(plan)
        elif plan is not None and kind in _PROGRAM_BUFFERS:
            plan.place(node["params"])
    return {name: [plan.size for plan in made] for name, made in plans.items()}


def _within(nodes: Iterable[Mapping[str, Any]]) -> Iterator[tuple[Mapping[str, Any], Mapping[str, Any] | None, int]]:
    """Yields each node with the function that it is in, and which of those of that name it is in the graph."""
    functions: list[tuple[Mapping[str, Any], int]] = []
    counts: Counter[str] = Counter()
    for node in nodes:
        kind = node["node_type"]
        if kind == "function_start":
            name = str(node["params"]["name"])
            functions.append((node, counts[name]))
            counts[name] += 1
        elif kind == "function_end":
            functions = functions[:-1]
        yield (node, *(functions[-1] if functions else (None, 0)))
