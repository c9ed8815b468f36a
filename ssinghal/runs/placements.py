"""Compares where the operands of equal calls are placed: what fits in DRAM and not in L1, say."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

from ssinghal.core.record import Record
from ssinghal.core.tensors import TextEnum
from ssinghal.core.verdict import Status
from ssinghal.operators.case_json import KEYS
from ssinghal.runs.setting import Setting


class PlacementOutcome(TextEnum):
    """Of the two placements of a call, those in which it fits."""

    BOTH = "both"
    BEFORE = "before"
    AFTER = "after"
    NEITHER = "neither"


@dataclass(frozen=True)
class PlacedCall:
    """One call whose operands the earlier run placed in one memory and the later run in another. ``before`` and ``after``: the
    records of each."""

    setting: Setting
    before: Record
    after: Record

    @property
    def fits(self) -> PlacementOutcome:
        fits = self.before.status is Status.FITS, self.after.status is Status.FITS
        return {
            (True, True): PlacementOutcome.BOTH,
            (True, False): PlacementOutcome.BEFORE,
            (False, True): PlacementOutcome.AFTER,
            (False, False): PlacementOutcome.NEITHER,
        }[fits]

    def to_json(self) -> dict[str, Any]:
        sides = {"before": self.before, "after": self.after}
        return {
            **self.setting.to_json(),
            "op": self.after.op,
            "fits": self.fits.value,
            **{
                side: {"memory": r.memory, "key": r.key, "id": r.id, "status": r.status.value, "verdict": r.sentence}
                for side, r in sides.items()
            },
            "calls": self.after.calls,
            "models": list(self.after.callers),
        }


def placed_pairs(before: Sequence[Record], after: Sequence[Record]) -> list[tuple[Record, Record]]:
    """Pairs the records of equal calls that differ in the memory of their operands alone, in the order of ``before``. A call
    that a side has in two memories is in no pair."""
    sides = [_by_call(before), _by_call(after)]
    return [
        (record, sides[1][call])
        for call, record in sides[0].items()
        if call in sides[1] and sides[1][call].memory != record.memory
    ]


@dataclass(frozen=True)
class MemoryComparison:
    """The calls that the earlier run placed in the memory ``before``, and the later one in ``after``."""

    before: str
    after: str
    calls: tuple[PlacedCall, ...]

    @property
    def counts(self) -> dict[PlacementOutcome, int]:
        """The number of calls by where they fit, including 0."""
        counted = Counter(call.fits for call in self.calls)
        return {outcome: counted[outcome] for outcome in PlacementOutcome}

    @property
    def fits_only(self) -> dict[str, list[Record]]:
        """The calls that fit in one memory alone: the records of their failures in the other one."""
        return {
            self.before: [call.after for call in self.calls if call.fits is PlacementOutcome.BEFORE],
            self.after: [call.before for call in self.calls if call.fits is PlacementOutcome.AFTER],
        }

    def __str__(self) -> str:
        both, before, after, neither = (f"{self.counts[outcome]:,}" for outcome in PlacementOutcome)
        calls = f"{len(self.calls):,} call{'' if len(self.calls) == 1 else 's'} in {self.before} before, in {self.after} after"
        only = f"{before} in {self.before} only, {after} in {self.after} only"
        return f"{calls}: {both} fit in both, {only}, {neither} in neither"

    def to_json(self) -> dict[str, Any]:
        counts = {outcome.value: count for outcome, count in self.counts.items()}
        return {"before": self.before, "after": self.after, "fits": counts, "calls": [call.to_json() for call in self.calls]}


def by_memories(calls: Iterable[PlacedCall]) -> list[MemoryComparison]:
    """Returns the calls by the two memories that they were placed in, each sorted by operator and id."""
    grouped: dict[tuple[str, str], list[PlacedCall]] = {}
    for call in sorted(calls, key=lambda call: (call.after.op, call.after.id, str(call.setting))):
        grouped.setdefault((call.before.memory, call.after.memory), []).append(call)
    return [MemoryComparison(*memories, tuple(listed)) for memories, listed in sorted(grouped.items())]


_alike = attrgetter(*(key for key in KEYS if key not in ("attrs", "memory", "operands")))


def call_of(record: Record) -> str:
    """Returns what records of one call in several placements share: all but the memory, and the layouts of single operands,
    which go with it (the map of a convolution comes in tiles if it is sharded)."""
    own = [{k: v for k, v in (operand or {}).items() if k != "layout"} for operand in record.operands]
    return f"{_alike(record)} {json.dumps([record.attrs, own if any(own) else []], sort_keys=True)}"


def _by_call(records: Iterable[Record]) -> dict[str, Record]:
    found: dict[str, list[Record]] = {}
    for record in records:
        found.setdefault(call_of(record), []).append(record)
    return {call: alike[0] for call, alike in found.items() if len(alike) == 1}
