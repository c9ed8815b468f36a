"""Holds the allocations of a port against a recording of another, memory by memory: peaks, and where the sequences part.

    ssinghal exec -- python tests/profile/allocations.py EVENTS.json examples/ports/resnet50.py
    python scripts/compare_port.py RECORDED.jsonl.gz EVENTS.json

A recording has a line for each operation, whose "ev" are its events: "+" or "-", memory, address, and bytes per bank of a "+".
Exits with 1 where sizes differ; addresses that differ are counted alone.
"""

import gzip
import json
import sys
from pathlib import Path

Event = tuple[str, str, int, int]  # allocate or free, memory, bytes per bank or core, address


def recorded(path: Path) -> list[Event]:
    result: list[Event] = []
    live: dict[tuple[str, int], int] = {}
    with gzip.open(path, "rt") as lines:
        for line in lines:
            operation = json.loads(line)
            for event in operation.get("ev_before", []) + operation["ev"] + operation.get("ev_after", []):
                where = event[1], event[2]
                if event[0] == "+":
                    live[where] = event[3]
                    result.append(("allocate", event[1], event[3], event[2]))
                else:
                    result.append(("free", event[1], live.pop(where), event[2]))
    return result


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


def main() -> None:
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    theirs = recorded(Path(sys.argv[1]))
    ours: list[Event] = [tuple(event) for event in json.loads(Path(sys.argv[2]).read_text())]
    same = [
        compare(memory, [event for event in theirs if event[1] == memory], [event for event in ours if event[1] == memory])
        for memory in ("L1", "L1_SMALL", "DRAM")
    ]
    sys.exit(0 if all(same) else 1)


if __name__ == "__main__":
    main()
