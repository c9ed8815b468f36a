"""Summarizes a run on one page: totals, operators, errors and cases that were not run with their causes, slow cases."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ssinghal.core.verdict import FAULTS, Status
from ssinghal.errors import cut
from ssinghal.render.tables import OutcomeCounts, aligned
from ssinghal.runs.first_ooms import FirstOoms, pointer

LEAK = "leak"  # not a status: the verdict stands, but the call left device memory allocated
SAME = "the same device, TTNN, code and limits"  # as an answer needs them to be taken
SLOW_S = 0.5
SLOWEST = 10
MOST_ALONE = 20  # crashes, and timeouts, that are shown alone; the others in groups like errors
MOST_GROUPS = 200  # of one status; all others are one more
OTHER = "with other messages"
# What cases must share besides the message to be shown as one group; by default the operator. Of those that are shown alone
# there may be any number.
ALIKE: Mapping[str, tuple[str, ...]] = {Status.NOT_RUN: (), Status.CRASH: ("op", "id"), Status.TIMEOUT: ("op", "id")}


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
    # The time of all cases that were probed, one after the other.
    seconds: float
    # Cases out of memory by the contract of the first remedy that works, if remedies were searched for.
    remedies: Mapping[str, int]
    # Cases whose worker was lost at the first attempt.
    retried: int = 0
    # How many answers are those of earlier runs.
    taken: int = 0
    # Lines on the first cases out of memory, and on how many more there are.
    ooms: Sequence[str] = ()

    @classmethod
    def of(cls, records: Iterable[Mapping[str, Any]]) -> Summary:
        """Returns the summary of ``records``, given as they are written."""
        counting = SummaryCounts()
        for record in records:
            counting.add(record)
        return counting.summary()

    def lines(self, run: str = "") -> list[str]:
        """Returns the text of the summary; nothing if there is no record. ``run``: the folder, if there is one."""
        if not self.cases:
            return []
        where = [pointer(run, bool(self.remedies))] if run and self.ooms else []
        return [
            *aligned(self.rows),
            *self._times(),
            *taken_note(self.taken, self.cases),
            *self._remedies(),
            *at_the_second_attempt(self.retried),
            *self.ooms,
            *where,
            *map(str, self.not_run),
            *map(str, self.unsupported),
            *map(str, self.faults),
        ]

    def _times(self) -> list[str]:
        probed = self.cases - self.taken - self.totals.get(Status.NOT_RUN, 0)
        if not probed:
            return []
        share = math.floor(1000 * (probed - self.slow) / probed) / 10  # 100 % only where no case was slow
        took = (
            f"{share:.1f} % of the cases took less than {SLOW_S:g} s, all cases together {self.seconds:,.1f} s of worker time"
        )
        slow = [f"  {r['duration_s']:7.2f} s  {r['op']} {cut(r['id'], 150)}: {r['status']}" for r in self.slowest]
        return [f"{took}; the slowest:" if slow else took, *slow]

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
            "taken": self.taken,
            **({"remedies": dict(self.remedies)} if self.remedies else {}),
            **({"retried": self.retried} if self.retried else {}),
        }


def placed_in(placements: Sequence[str], weights: object = None, dtypes: Sequence[object] = ()) -> list[str]:
    """Returns a note on where a run places its calls, and on the dtypes of their operands and weights, if it changes the
    catalogs' own."""
    notes = [f"each call in {', '.join(placements)}"] if placements else []
    notes += [f"operands in {', '.join(map(str, dtypes))}"] if dtypes else []
    notes += [f"weights in {weights}"] if weights else []
    return ["; ".join(notes)] if notes else []


def taken_note(taken: int, cases: int) -> list[str]:
    """Returns a note on the answers that a run took from earlier ones, if any."""
    return [f"{taken:,} of {cases:,} answers taken from earlier runs ({SAME})"] if taken else []


def left_out(calls: Sequence[int]) -> list[str]:
    """Returns a note on captured lines that are not cases, if any. ``calls``: how often the models make each."""
    if not calls:
        return []
    lines = f"{sum(calls):,} captured calls in {len(calls):,} catalog lines"
    return [f"left out: {lines} without an operator (ssinghal operators --missing)"]


def at_the_second_attempt(cases: int) -> list[str]:
    """Returns a note on cases that were repeated alone, if any."""
    counted = f"{cases:,} case{'s' * (cases != 1)} answered at the second attempt"
    return [f"{counted}, alone: the process of the first was lost"] if cases else []


def _contract(remedies: Mapping[str, Any]) -> str:
    return str(remedies["found"][0]["contract"]) if remedies["found"] else "none found"


def alike(message: str) -> str:
    """Returns what messages of one group share: those that differ only in numbers belong together."""
    return re.sub(r"\d[\d,.]*", "N", message)


def leak_message(left: Mapping[str, int]) -> str:
    return f"left allocated {dict(left)}"


class SummaryCounts:
    """Counts records one by one. What it keeps grows with the operators, and has a bound for causes."""

    def __init__(self) -> None:
        self.cases = 0
        self._outcomes = OutcomeCounts()
        self._groups: dict[str, dict[tuple[str, ...], _Group]] = {}
        self._slow = 0
        self._slowest: list[dict[str, Any]] = []
        self._seconds = 0.0
        self._taken = 0
        self._remedies: Counter[str] = Counter()
        self._retried = 0
        self._ooms = FirstOoms()

    def add(self, record: Mapping[str, Any]) -> None:
        """Counts one record, given as it is written, or as any line that is read as one: without what is at its default."""
        self.cases += 1
        self._outcomes.add(record)
        taken = bool(record.get("taken_from"))
        self._taken += taken
        duration_s = 0.0 if taken else record.get("duration_s", 0.0)
        self._seconds += duration_s
        if duration_s >= SLOW_S:
            self._slow += 1
            self._slowest.append({key: record[key] for key in ("op", "id", "status", "duration_s")})
            self._slowest.sort(key=lambda slow: -float(slow["duration_s"]))
            del self._slowest[SLOWEST:]
        if record["status"] in GROUPED:
            self._group(str(record["status"]), record, record.get("message", ""))
        if record["status"] == Status.OOM.value:
            self._ooms.add(record)
        if record.get("left_allocated"):
            self._group(LEAK, record, leak_message(record["left_allocated"]))
        self._retried += bool(record.get("retried"))
        if record.get("remedies"):
            self._remedies[_contract(record["remedies"])] += 1

    def summary(self) -> Summary:
        return Summary(
            cases=self.cases,
            totals=dict(sorted(self._outcomes.totals.items())),
            rows=self._outcomes.rows(),
            faults=[group for kind in (*FAULTS, LEAK) for group in self._grouped(kind)],
            not_run=self._grouped(Status.NOT_RUN),
            unsupported=self._grouped(Status.UNSUPPORTED),
            slow=self._slow,
            slowest=list(self._slowest),
            seconds=self._seconds,
            remedies=dict(self._remedies.most_common()),
            retried=self._retried,
            taken=self._taken,
            ooms=self._ooms.lines(),
        )

    def _group(self, kind: str, record: Mapping[str, Any], message: str) -> None:
        groups = self._groups.setdefault(kind, {})
        names = ALIKE.get(kind, ("op",))
        if "id" in names and len(groups) >= MOST_ALONE:
            names = ("op",)
        key = (alike(message), *(record[name] for name in names))
        if key not in groups and len(groups) >= MOST_GROUPS:
            key, message = ("",), OTHER
        if key not in groups:
            groups[key] = _Group(record["op"], record["id"], message)
        groups[key].cases += 1
        groups[key].operators.add(record["op"])

    def _grouped(self, kind: str) -> list[FaultGroup]:
        """Returns the groups of one kind, the largest first."""
        groups = [
            FaultGroup(str(kind), group.op, group.cases, group.id, group.message, len(group.operators))
            for group in self._groups.get(kind, {}).values()
        ]
        return sorted(groups, key=lambda group: -group.cases)


GROUPED = frozenset((*FAULTS, Status.NOT_RUN, Status.UNSUPPORTED))


@dataclass
class _Group:
    op: str
    id: str
    message: str
    cases: int = 0
    operators: set[str] = field(default_factory=set)
