"""Verdicts and totals in words. Everything here reads records; nothing reads text back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ssinghal.errors import cut
from ssinghal.records import Resource, Status, Verdict

MESSAGE_LIMIT = 300  # of what TTNN wrote, in a line of ours; a record has it whole
_BUFFERS = {
    Resource.L1_BUFFER: "L1",
    Resource.DRAM_BUFFER: "DRAM",
    Resource.L1_SMALL_BUFFER: "L1_SMALL",
    Resource.TRACE_BUFFER: "trace",
    Resource.FRAGMENTATION: "a",
}


def sentence(verdict: Verdict) -> str:
    """One line: what ran out, by how much, at which step.

    >>> sentence(Verdict(Status.OOM, Resource.L1_BUFFER, "output", bytes_per_bank=532480, free_bytes=328352))
    'L1 bank needs 532,480 B, 328,352 B free (output)'
    """
    if verdict.status is not Status.OOM or verdict.resource is None:
        return cut(verdict.message, MESSAGE_LIMIT) or verdict.status.value
    at = f" ({verdict.stage})" if verdict.stage else ""
    if verdict.resource in _BUFFERS and verdict.bytes_per_bank is not None:
        return f"{_BUFFERS[verdict.resource]} bank needs {verdict.bytes_per_bank:,} B{_room(verdict)}{at}"
    if verdict.resource is Resource.CIRCULAR_BUFFER and verdict.program_bytes is not None:
        if verdict.ends_at_address:
            ends = f"end at {verdict.program_bytes:,} B, L1 at {verdict.limit_bytes:,} B"
            return f"{verdict.buffer_kind or 'program'} buffers {ends}{at}"
        limit = f" of {verdict.limit_bytes:,} B" if verdict.limit_bytes is not None else ""
        return f"{verdict.buffer_kind or 'program'} buffers need {verdict.program_bytes:,} B{limit} per core{at}"
    if verdict.resource is Resource.CLASH and verdict.program_bytes is not None:
        tensor = f", an L1 tensor begins at {verdict.tensor_address:,} B" if verdict.tensor_address is not None else ""
        return f"{verdict.buffer_kind or 'program'} buffers end at {verdict.program_bytes:,} B{tensor}{at}"
    return f"{verdict.resource.value}: {cut(verdict.message, MESSAGE_LIMIT)}{at}"


def _room(verdict: Verdict) -> str:
    """What a bank has for the buffer, as far as the message says: free bytes, else its size."""
    if verdict.free_bytes is None:
        return f" of a bank of {verdict.bank_bytes:,} B" if verdict.bank_bytes is not None else ""
    is_fragmented = verdict.resource is Resource.FRAGMENTATION and verdict.largest_free_bytes is not None
    return f", {verdict.free_bytes:,} B free" + (f", largest block {verdict.largest_free_bytes:,} B" if is_fragmented else "")


def totals(records: Iterable[Mapping[str, Any]]) -> Counter[str]:
    """Records by status; the values add up to the number of records."""
    return Counter(str(record["status"]) for record in records)


def status_columns(seen: Iterable[tuple[str, str | None]]) -> list[tuple[str, str | None]]:
    """Which status, and for an OOM which resource, a table of outcomes has a column for: those ``seen``, in order."""
    columns: list[tuple[str, str | None]] = []
    for status in Status:
        columns += [(status.value, None), *((status.value, r.value) for r in Resource if status is Status.OOM)]
    found = set(seen)
    return [column for column in columns if column in found]


def summary_rows(records: Sequence[Mapping[str, Any]]) -> list[list[str]]:
    """A header, one row per operator name and a row of sums: cases, then one column per status and OOM resource seen."""
    counted: dict[str, Counter[tuple[str, str | None]]] = {}
    for record in records:
        kind = (str(record["status"]), record.get("resource") if record["status"] == Status.OOM.value else None)
        counted.setdefault(str(record["op"]), Counter())[kind] += 1
    sums: Counter[tuple[str, str | None]] = sum(counted.values(), Counter())
    shown = status_columns(sums)
    header = ["operator", "cases", *(f"oom {r}" if r else s for s, r in shown)]
    rows = [[name, str(sum(c.values())), *(str(c[k] or "") for k in shown)] for name, c in sorted(counted.items())]
    return [header, *rows, ["total", str(sum(sums.values())), *(str(sums[k]) for k in shown)]]


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Lines of a plain text table, first column left, the others right; empty columns cost nothing."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return [
        "  ".join(c.ljust(w) if i == 0 else c.rjust(w) for i, (c, w) in enumerate(zip(r, widths, strict=True))).rstrip()
        for r in rows
    ]
