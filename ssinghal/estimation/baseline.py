"""What TTNN's allocator booked for every catalog case, committed, so that estimates are compared with it without a device.

``baselines/<board>.jsonl``: a header line (ttnn version, command), then one line per case, sorted by operator name and id.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from ssinghal.core.case import Case
from ssinghal.core.estimate import Prediction
from ssinghal.core.files import write_whole
from ssinghal.core.json_values import fields_of, without_empty
from ssinghal.core.record import Record
from ssinghal.core.verdict import Resource, Status
from ssinghal.errors import HarnessError, one_line
from ssinghal.estimation.estimator import MemoryEstimate

FOLDER = Path(__file__).parents[1] / "baselines"
COMMAND = "ssinghal baseline --board {board}"


@dataclass(frozen=True)
class BaselineEntry:
    """The allocator's answer for one case. ``booked``: bytes per bank of each operand; ``resident``: of operands and results
    together when the call returned, by kind of memory; ``program_bytes``: of program buffers per core."""

    status: Status
    resource: Resource | None = None
    stage: str = ""
    total_bytes: int | None = None
    bytes_per_bank: int | None = None
    booked: tuple[int, ...] = ()
    resident: Mapping[str, int] | None = None
    program_bytes: int | None = None

    @classmethod
    def of(cls, record: Record) -> BaselineEntry:
        verdict, usage = record.verdict, record.usage
        return cls(
            status=verdict.status,
            resource=verdict.resource,
            stage=verdict.stage,
            total_bytes=verdict.total_bytes,
            bytes_per_bank=verdict.bytes_per_bank,
            booked=tuple(t.booked_bytes for t in record.tensors if t.booked_bytes is not None),
            resident=dict(record.resident) or None,
            program_bytes=usage.program_bytes if usage else None,
        )

    def to_json(self) -> dict[str, Any]:
        return {key: value for key, value in without_empty(fields_of(self)).items() if value != []}


def baseline_path(board: str) -> Path:
    return FOLDER / f"{board}.jsonl"


@cache
def load_baseline(board: str) -> Mapping[str, BaselineEntry]:
    """Returns the entries by case key; none for a board without a baseline. HarnessError names a broken line."""
    path = baseline_path(board)
    if not path.exists():
        return {}
    entries = {}
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines()[1:], 2):
        try:
            fields = json.loads(line)
            key = fields.pop("key")
            fields.pop("op")
            fields.pop("id")
            fields |= {"status": Status(fields["status"]), "booked": tuple(fields.get("booked", ()))}
            fields |= {"resource": Resource(fields["resource"])} if "resource" in fields else {}
            entries[key] = entry = BaselineEntry(**fields)
            if one_line(entry.stage) != entry.stage:
                raise ValueError("stage: expected a text of one line")
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise HarnessError(f"{path}:{number}: not a baseline entry: {error}") from error
    return entries


def write_baseline(board: str, ttnn: str, records: Iterable[Record]) -> Path:
    """Replaces the board's baseline at once, so that an interrupted run leaves the old one."""
    header = {"board": board, "ttnn": ttnn, "command": COMMAND.format(board=board)}
    unique = {r.key: r for r in sorted(records, key=lambda r: (r.operator, r.id))}
    lines = [json.dumps(header)]
    lines += [
        json.dumps({"op": r.operator, "id": r.id, "key": r.key, **BaselineEntry.of(r).to_json()}) for r in unique.values()
    ]
    path = baseline_path(board)
    path.parent.mkdir(exist_ok=True)
    write_whole(path, "\n".join(lines))
    return path


def disagreements(case: Case, estimate: MemoryEstimate, entry: BaselineEntry | None) -> list[str]:
    """Returns where the arithmetic and the allocator (for a known OOM, the card) have different bytes or verdicts."""
    differences = []
    by_label = {a.label: a for a in estimate.allocations}
    if entry is not None:
        for number, booked in enumerate(entry.booked, 1):
            allocation = by_label.get(f"input {number}")
            estimated = allocation.booked_bytes_per_bank if allocation else None
            if estimated != booked:
                differences.append(f"input {number}: estimated {estimated} B per bank, the allocator booked {booked} B")
        if entry.resident is not None and entry.status is Status.FITS:
            peak = {str(kind): size for kind, size in estimate.peak_bytes_per_bank.items() if size}
            if peak != dict(entry.resident):
                differences.append(f"operands and results: estimated {peak}, allocator booked {dict(entry.resident)}")
        if entry.stage in by_label and entry.bytes_per_bank is not None:
            differences += _byte_differences(by_label[entry.stage], entry, "allocator")
        if estimate.verdict is Prediction.EXCEEDS and entry.status is not Status.OOM:
            differences.append(f"estimated to exceed {estimate.resource} at {estimate.stage}; TTNN's verdict is {entry.status}")
        if estimate.verdict is Prediction.FITS and entry.status is Status.OOM:
            differences.append(f"estimated to fit; TTNN's verdict is oom of {entry.resource} at {entry.stage}")
    known = case.known_oom
    if known is not None and known.bytes_per_bank is not None and known.stage in by_label:
        differences += _byte_differences(by_label[known.stage], known, f"card ({known.run})")
    return differences


def _byte_differences(allocation: Any, observed: Any, by: str) -> list[str]:
    expected = (observed.total_bytes, observed.bytes_per_bank)
    estimated = (allocation.allocated_bytes, allocation.bytes_per_bank)
    if estimated == expected:
        return []
    return [f"{allocation.label}: estimated {estimated} B (total, per bank), {by} requested {expected} B"]
