"""Chrome's trace events as JSON, which Perfetto and chrome://tracing open: a slice for each call, a counter for each memory.

The format: "Trace Event Format" of the Catapult project; slices are complete events (``X``), counters are ``C``, and names of
tracks are metadata (``M``). Time stamps are microseconds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

from ssinghal.profile.exports.timeline import Event, steps
from ssinghal.profile.model import Call, Profile
from ssinghal.profile.names import MEMORY_NAMES

PROCESS, CALLS = 1, 1


def perfetto(profile: Profile) -> dict[str, Any]:
    """Returns the document. Calls follow one another without the time between them, which is not recorded.

    Each call is as long as it took, and 1 µs at least. A counter is set where it begins, to the most that was allocated then or
    by one of its allocations and those since the last call, and where it ends, to what was allocated then: in bytes per bank.
    """
    return {
        "traceEvents": [*_names(profile), *_events(profile)],
        "displayTimeUnit": "ns",
        "otherData": {"program": " ".join(profile.argv), "ttnn": profile.ttnn, "unit": "bytes per bank"},
    }


def _names(profile: Profile) -> Iterator[dict[str, Any]]:
    common = {"ph": "M", "pid": PROCESS, "tid": CALLS}
    yield {**common, "name": "process_name", "args": {"name": " ".join(profile.argv) or "program"}}
    yield {**common, "name": "thread_name", "args": {"name": "calls of TTNN"}}


def _events(profile: Profile) -> Iterator[dict[str, Any]]:
    memories = [memory for memory in MEMORY_NAMES if memory in profile.peaks]
    sums: Counter[str] = Counter()
    time = 0
    for call, between, within in steps(profile):
        peaks = _apply(sums, between)
        peaks |= sums
        peaks |= _apply(sums, within)
        if call is None:
            break
        duration = max(call.microseconds, 1)
        yield {
            "ph": "X",
            "name": call.name,
            "cat": "ttnn",
            "pid": PROCESS,
            "tid": CALLS,
            "ts": time,
            "dur": duration,
            "args": _arguments(call),
        }
        for memory in memories:
            for at, size in ((time, peaks[memory]), (time + duration, sums[memory])):
                yield _counter(MEMORY_NAMES[memory], at, size)
        known = [program.program_bytes for program in call.programs if program.program_bytes is not None]
        for at, size in ((time, max(known, default=0)), (time + duration, 0)):
            yield _counter("program buffers", at, size)
        time += duration


def _arguments(call: Call) -> dict[str, Any]:
    """What the viewer shows of a call that is selected."""
    return {
        "call": call.number,
        "line": str(call.site) if call.site else "",
        "operands": [str(tensor.spec) for tensor in call.operands],
        "results": [str(tensor.spec) for tensor in call.results],
        "programs": [f"{program.name}: {program.program_bytes}" for program in call.programs],
        **({"error": ": ".join(call.error)} if call.error else {}),
    }


def _counter(name: str, time: int, size: int) -> dict[str, Any]:
    return {"ph": "C", "name": name, "pid": PROCESS, "ts": time, "args": {"bytes": size}}


def _apply(sums: Counter[str], events: Iterable[Event]) -> Counter[str]:
    """Adds up what is allocated of each memory; returns the most after an allocation."""
    peaks: Counter[str] = Counter()
    for buffer, is_allocation in events:
        sums[buffer.memory] += buffer.bank_bytes if is_allocation else -buffer.bank_bytes
        if is_allocation:
            peaks[buffer.memory] = max(peaks[buffer.memory], sums[buffer.memory])
    return peaks
