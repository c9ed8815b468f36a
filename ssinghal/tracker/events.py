"""Reduces TTNN's graph of some calls to events: buffers allocated and freed, programs run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

KINDS = {0: "dram", 1: "l1", 3: "l1_small", 4: "trace"}
_WRAP = 2**32  # TTNN's graph keeps a buffer's bytes per bank in 32 bits

Event = list[Any]


def booked_bytes(size: int, granule: int) -> int:
    """Returns the bytes that the allocator books for ``size`` bytes of a bank."""
    return -(-size // granule) * granule


class EventReader:
    """Holds what later graphs need of earlier ones: the sizes of program buffers of calls that were measured."""

    def __init__(self, banks: Mapping[str, int], granule: int, l1_base: int) -> None:
        self._banks, self._granule, self._base = banks, granule, l1_base
        self._measured: dict[str, int] = {}

    def events(self, nodes: Iterable[Mapping[str, Any]]) -> list[Event]:
        """Returns the events of a graph, in order."""
        events: list[Event] = []
        functions: list[Mapping[str, Any]] = []
        program: tuple[str, Event] | None = None
        for node in nodes:
            kind, params = node["node_type"], node["params"] or {}
            if kind == "function_start":
                functions.append(node)
            elif kind == "function_end":
                functions = functions[:-1]
                program = None
            elif kind == "buffer_allocate":
                memory = KINDS[int(params["buffer_type"])]
                events.append(["+", memory, int(params["address"]), self._booked(memory, params), int(params["size"])])
            elif kind == "buffer_deallocate":
                events.append(["-", KINDS[int(params["buffer_type"])], int(params["address"])])
            elif kind == "circular_buffer_deallocate_all" and functions:
                name = str(functions[-1]["params"]["name"])
                key = f"{name} {functions[-1].get('arguments')}"
                known = self._measured.get(key)
                program = key, ["p", name, known, "unknown" if known is None else "memo"]
                events.append(program[1])
            elif kind == "circular_buffer_allocate" and program and str(params["globally_allocated"]) != "1":
                key, event = program
                size = int(params["address"]) + int(params["size"]) - self._base
                measured = size if event[3] != "measured" else max(size, event[2])
                event[2:] = self._measured[key], _ = measured, "measured"
        return events

    def _booked(self, memory: str, params: Mapping[str, Any]) -> int:
        """Returns the bytes per bank of a buffer, as the allocator books them."""
        size, total = int(params["max_size_per_bank"]), int(params["size"])
        missing = -(-total // self._banks[memory]) - size
        if total >= _WRAP and missing > 0:
            size += -(-missing // _WRAP) * _WRAP
        return booked_bytes(size, self._granule)
