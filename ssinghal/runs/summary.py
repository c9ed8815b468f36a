"""Summarizes a run on one page: totals, operators, errors and cases that were not run with their causes, slow cases."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ssinghal.core.record import FAULTS, Status
from ssinghal.errors import cut
from ssinghal.render.tables import aligned, summary_rows, totals

LEAK = "leak"  # not a status: the verdict stands, but the call left device memory allocated
SLOW_S = 0.5
SLOWEST = 10
# What cases must share besides the message to be shown as one group; by default the operator.
_ALIKE: Mapping[str, tuple[str, ...]] = {Status.NOT_RUN: (), Status.CRASH: ("op", "id"), Status.TIMEOUT: ("op", "id")}


@dataclass(frozen=True)
class FaultGroup:
    """Cases that ended alike: of one operator (of any, if they were not run); a crash or timeout alone."""

    # The status, or a leak.
    kind: str
    # The operator, id and message of the first case.
    op: str
    cases: int
    id: str
    message: str
    # How many operators have such cases.
    operators: int = 1

    def __str__(self) -> str:
        first = f"{self.op} {cut(self.id, 150)}"
        of = self.op if self.operators == 1 else f"{self.operators} operators"
        which = first if self.cases == 1 else f"{self.cases:,} cases of {of}, the first {first}"
        return f"{self.kind}: {which}: {cut(self.message, 300)}"


@dataclass(frozen=True)
class Summary:
    """The counts of a run's records."""

    cases: int
    # Cases by status.
    totals: Mapping[str, int]
    # A table of the operators, with a header and a last line of totals.
    rows: Sequence[Sequence[str]]
    # Errors, mismatches, crashes, timeouts and leaks.
    faults: Sequence[FaultGroup]
    not_run: Sequence[FaultGroup]
    unsupported: Sequence[FaultGroup]
    # How many cases took ``SLOW_S`` or more.
    slow: int
    # Some of these, the slowest first.
    slowest: Sequence[Mapping[str, Any]]
    # The time of all cases, one after the other.
    seconds: float
    # Cases out of memory by the contract of the first remedy that works, if remedies were searched for.
    remedies: Mapping[str, int]

    @classmethod
    def of(cls, records: Sequence[Mapping[str, Any]]) -> Summary:
        """Returns the summary of ``records``, given as they are written."""
        slow = sorted((r for r in records if r["duration_s"] >= SLOW_S), key=lambda r: -float(r["duration_s"]))
        faults = [group for status in FAULTS for group in _groups(status, [r for r in records if r["status"] == status])]
        leaks = [{**r, "message": f"left allocated {r['left_allocated']}"} for r in records if r.get("left_allocated")]
        return cls(
            cases=len(records),
            totals=dict(sorted(totals(records).items())),
            rows=summary_rows(records),
            faults=[*faults, *_groups(LEAK, leaks)],
            not_run=_groups(Status.NOT_RUN, [r for r in records if r["status"] == Status.NOT_RUN]),
            unsupported=_groups(Status.UNSUPPORTED, [r for r in records if r["status"] == Status.UNSUPPORTED]),
            slow=len(slow),
            slowest=[{key: r[key] for key in ("op", "id", "status", "duration_s")} for r in slow[:SLOWEST]],
            seconds=sum(r["duration_s"] for r in records),
            remedies=dict(Counter(_contract(r["remedies"]) for r in records if "remedies" in r).most_common()),
        )

    def lines(self) -> list[str]:
        """Returns the text of the summary; nothing if there is no record."""
        if not self.cases:
            return []
        share = 100 * (self.cases - self.slow) / self.cases
        slow = [f"  {r['duration_s']:7.2f} s  {r['op']} {cut(r['id'], 150)}: {r['status']}" for r in self.slowest]
        return [
            *aligned(self.rows),
            f"{share:.1f} % of the cases took less than {SLOW_S:g} s, all cases together {self.seconds:,.1f} s of worker time"
            + ("; the slowest:" if slow else ""),
            *slow,
            *self._remedies(),
            *map(str, self.not_run),
            *map(str, self.unsupported),
            *map(str, self.faults),
        ]

    def _remedies(self) -> list[str]:
        if not self.remedies:
            return []
        searched = sum(self.remedies.values())
        counts = ", ".join(f"{contract} {cases:,}" for contract, cases in self.remedies.items())
        return [f"{searched:,} case{'s' * (searched > 1)} out of memory, by the first remedy that fits: {counts}"]

    def to_json(self) -> dict[str, Any]:
        """Returns plain values. ``operators``: name -> cases by status (an OOM by its resource), without counts of 0."""
        header, *rows = self.rows
        counts = {row[0]: {k: int(n) for k, n in zip(header[1:], row[1:], strict=True) if n} for row in rows[:-1]}
        groups = {"faults": self.faults, "not_run": self.not_run, "unsupported": self.unsupported}
        return {
            "totals": dict(self.totals),
            "operators": counts,
            **{name: [dict(vars(group)) for group in listed] for name, listed in groups.items()},
            "slow": self.slow,
            "slowest": [dict(r) for r in self.slowest],
            "seconds": round(self.seconds, 3),
            **({"remedies": dict(self.remedies)} if self.remedies else {}),
        }


def placed_in(placements: Sequence[str], weights: object = None) -> list[str]:
    """Returns a note on where a run places its calls, and on the dtype of their weights, if it changes the catalogs' own."""
    notes = [f"each call in {', '.join(placements)}"] if placements else []
    notes += [f"weights in {weights}"] if weights else []
    return ["; ".join(notes)] if notes else []


def left_out(calls: Sequence[int]) -> list[str]:
    """Returns a note on captured lines that are not cases, if any. ``calls``: how often the models make each."""
    if not calls:
        return []
    lines = f"{sum(calls):,} captured calls in {len(calls):,} catalog lines"
    return [f"left out: {lines} without an operator (ssinghal operators --missing)"]


def _contract(remedies: Mapping[str, Any]) -> str:
    return str(remedies["found"][0]["contract"]) if remedies["found"] else "none found"


def _groups(kind: str, records: Iterable[Mapping[str, Any]]) -> list[FaultGroup]:
    """Returns the groups, the largest first. Messages that differ only in numbers belong together."""
    by_message: dict[tuple[str, ...], list[Mapping[str, Any]]] = {}
    for record in records:
        by = _ALIKE.get(kind, ("op",))
        alike = re.sub(r"\d[\d,.]*", "N", record.get("message", ""))
        by_message.setdefault((alike, *(record[name] for name in by)), []).append(record)
    groups = [
        FaultGroup(str(kind), rs[0]["op"], len(rs), rs[0]["id"], rs[0].get("message", ""), len({r["op"] for r in rs}))
        for rs in by_message.values()
    ]
    return sorted(groups, key=lambda group: -group.cases)
