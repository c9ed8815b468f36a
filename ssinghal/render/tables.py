"""Tables for a terminal, and the counts of records that they show."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Any

from ssinghal.core.verdict import Resource, Status


def status_columns(seen: Iterable[tuple[str, str | None]]) -> list[tuple[str, str | None]]:
    """Returns the columns of a table of outcomes: every status and OOM resource in ``seen``, in the order of the enums."""
    columns: list[tuple[str, str | None]] = []
    for status in Status:
        columns += [(status.value, None), *((status.value, r.value) for r in Resource if status is Status.OOM)]
    present = set(seen)
    return [column for column in columns if column in present]


class OutcomeCounts:
    """Counts records by operator name, status and OOM resource, one by one."""

    def __init__(self) -> None:
        self._counted: dict[str, Counter[tuple[str, str | None]]] = {}

    def add(self, record: Mapping[str, Any]) -> None:
        self.add_cases(str(record["op"]), str(record["status"]), record.get("resource"), 1)

    def add_cases(self, op: str, status: str, resource: str | None, cases: int) -> None:
        kind = (status, resource if status == Status.OOM.value else None)
        self._counted.setdefault(op, Counter())[kind] += cases

    @property
    def totals(self) -> Counter[str]:
        """Records by status."""
        counts: Counter[str] = Counter()
        for (status, _), cases in self._sums().items():
            counts[status] += cases
        return counts

    def rows(self) -> list[list[str]]:
        """Returns a header, a row per operator name and a row of sums: cases, then a column per status and OOM resource."""
        sums = self._sums()
        shown = status_columns(sums)
        header = ["operator", "cases", *(f"oom {r}" if r else s for s, r in shown)]
        rows = [[name, str(sum(c.values())), *(str(c[k] or "") for k in shown)] for name, c in sorted(self._counted.items())]
        return [header, *rows, ["total", str(sum(sums.values())), *(str(sums[k]) for k in shown)]]

    def _sums(self) -> Counter[tuple[str, str | None]]:
        return sum(self._counted.values(), Counter())


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
