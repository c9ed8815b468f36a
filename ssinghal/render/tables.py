"""Tables for a terminal, and the counts of records that they show."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Any

from ssinghal.core.record import Resource, Status


def totals(records: Iterable[Mapping[str, Any]]) -> Counter[str]:
    """Counts records by status; the values add up to the number of records."""
    return Counter(str(record["status"]) for record in records)


def status_columns(seen: Iterable[tuple[str, str | None]]) -> list[tuple[str, str | None]]:
    """Returns the columns of a table of outcomes: every status and OOM resource in ``seen``, in the order of the enums."""
    columns: list[tuple[str, str | None]] = []
    for status in Status:
        columns += [(status.value, None), *((status.value, r.value) for r in Resource if status is Status.OOM)]
    present = set(seen)
    return [column for column in columns if column in present]


def summary_rows(records: Sequence[Mapping[str, Any]]) -> list[list[str]]:
    """Returns a header, a row per operator name and a row of sums: cases, then a column for each status and OOM resource."""
    counted: dict[str, Counter[tuple[str, str | None]]] = {}
    for record in records:
        kind = (str(record["status"]), record.get("resource") if record["status"] == Status.OOM.value else None)
        counted.setdefault(str(record["op"]), Counter())[kind] += 1
    sums: Counter[tuple[str, str | None]] = sum(counted.values(), Counter())
    shown = status_columns(sums)
    header = ["operator", "cases", *(f"oom {r}" if r else s for s, r in shown)]
    rows = [[name, str(sum(c.values())), *(str(c[k] or "") for k in shown)] for name, c in sorted(counted.items())]
    return [header, *rows, ["total", str(sum(sums.values())), *(str(sums[k]) for k in shown)]]


def percent(share: float) -> str:
    """Returns ``share`` as a percentage that rounds neither a non-zero share to 0 nor an incomplete one to 100.

    >>> percent(0.1532), percent(0.0004), percent(0.9999)
    ('15.3 %', '< 0.1 %', '> 99.9 %')
    """
    if not share:
        return "0 %"
    if 0 < share < 0.001:
        return "< 0.1 %"
    return "> 99.9 %" if 0.999 < share < 1 else f"{100 * share:,.1f} %"


def aligned(rows: Sequence[Sequence[str]], left: Container[int] = (0,)) -> list[str]:
    """Returns the lines of a plain text table: columns numbered in ``left`` are left-aligned, all others right-aligned.

    >>> aligned([["op", "bytes", "why"], ["relu", "2,048", "fits"]], left=(0, 2))
    ['op    bytes  why', 'relu  2,048  fits']
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    sides = [str.ljust if i in left else str.rjust for i in range(len(widths))]
    lines = (zip(sides, row, widths, strict=True) for row in rows)
    return ["  ".join(side(cell, width) for side, cell, width in line).rstrip() for line in lines]
