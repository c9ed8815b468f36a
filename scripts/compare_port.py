"""Holds the allocations of a port against a recording of another, memory by memory: peaks, and where the sequences part.

    ssinghal exec -- python tests/profile/allocations.py EVENTS.json examples/ports/resnet50.py
    python scripts/compare_port.py RECORDED.jsonl.gz EVENTS.json

    ssinghal profile -o FOLDER -- python examples/ports/vit.py
    python scripts/compare_port.py RECORDED.jsonl.gz FOLDER

A recording has a line for each operation. Its "ev" are its events: "+" or "-", memory, address, and bytes per bank of a "+".
Where a recording has none, what is allocated and the largest free block are compared with a profile's after each operation
that changes them. Exits with 1 where sizes differ; addresses that differ are counted alone.
"""

import gzip
import json
import sys
from pathlib import Path
from typing import Any

from ssinghal.profile.reading import read_profiles

State = tuple[int, int]  # bytes per bank or core allocated, and of the largest free block
Event = tuple[str, str, int, int]  # allocate or free, memory, bytes per bank or core, address


MEMORIES = ("DRAM", "L1", "L1_SMALL")


def operations(path: Path) -> list[dict[str, Any]]:
    with gzip.open(path, "rt") as lines:
        return [json.loads(line) for line in lines]


def recorded(path: Path) -> list[Event]:
    result: list[Event] = []
    live: dict[tuple[str, int], int] = {}
    for operation in operations(path):
        for event in operation.get("ev_before", []) + operation["ev"] + operation.get("ev_after", []):
            where = event[1], event[2]
            if event[0] == "+":
                live[where] = event[3]
                result.append(("allocate", event[1], event[3], event[2]))
            else:
                result.append(("free", event[1], live.pop(where), event[2]))
    return result


def recorded_states(path: Path, memory: str) -> list[State]:
    """The states of a memory after each operation that allocated or freed in it."""
    column = MEMORIES.index(memory)
    states = []
    for operation in operations(path):
        before, after = (tuple(operation[when][column]) for when in ("before", "after"))
        if before != after or memory in operation["peak"]:
            states.append(after)
    return states


def profiled_states(folder: Path, memory: str) -> list[State]:
    (profile,) = read_profiles(folder)
    name = memory.lower()
    buffers = [buffer for buffer in profile.buffers if buffer.memory == name]
    changed = {buffer.call for buffer in buffers if not buffer.made_between}
    changed |= {buffer.freed for buffer in buffers if buffer.freed is not None and not buffer.freed_between}
    return [(call.after[name], call.largest_free[name]) for call in profile.calls if call.number in changed]


def peak(events: list[Event]) -> int:
    live = most = 0
    for kind, _, size, _ in events:
        live += size if kind == "allocate" else -size
        most = max(most, live)
    return most


def compare(memory: str, theirs: list[Event], ours: list[Event]) -> bool:
    """Writes a line on the memory; false where a size or the order differs."""
    moved = sum(a[3] != b[3] for a, b in zip(theirs, ours, strict=False))
    parts = next((i for i, (a, b) in enumerate(zip(theirs, ours, strict=False)) if a[:3] != b[:3]), None)
    if parts is None and len(theirs) != len(ours):
        parts = min(len(theirs), len(ours))
    peaks = f"peaks {peak(theirs):,} and {peak(ours):,} B"
    lines = [f"{memory}: {len(theirs)} and {len(ours)} events, {peaks}, {moved} other addresses"]
    if parts is not None:
        for name, events in (("recorded", theirs), ("port", ours)):
            lines.append(f"  event {parts} {name}: {events[parts] if parts < len(events) else 'none'}")
    sys.stdout.write("\n".join(lines) + "\n")
    return parts is None


def compare_states(memory: str, theirs: list[State], ours: list[State]) -> bool:
    parts = next((i for i, (a, b) in enumerate(zip(theirs, ours, strict=False)) if a != b), min(len(theirs), len(ours)))
    same = theirs == ours
    where = "equal" if same else f"parted at state {parts}: {theirs[parts:][:1]} recorded, {ours[parts:][:1]} of the port"
    sys.stdout.write(f"{memory}: {len(theirs)} and {len(ours)} states, {where}\n")
    return same


def main() -> None:
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    recording, port = map(Path, sys.argv[1:])
    if port.is_dir():
        same = [compare_states(name, recorded_states(recording, name), profiled_states(port, name)) for name in MEMORIES]
    else:
        theirs = recorded(recording)
        ours: list[Event] = [tuple(event) for event in json.loads(port.read_text())]
        same = [
            compare(name, [event for event in theirs if event[1] == name], [event for event in ours if event[1] == name])
            for name in MEMORIES
        ]
    sys.exit(0 if all(same) else 1)


if __name__ == "__main__":
    main()
