"""Chooses a few of many cases, the same ones every time, for a quick run of every operator from small to large."""

from __future__ import annotations

from collections.abc import Sequence

from ssinghal.core.case import Case
from ssinghal.operators.binding import unsharded_specs


def sample(cases: Sequence[Case], per_name: int) -> list[Case]:
    """Returns at most ``per_name`` cases of each name, in their order: the smallest and largest, the rest spread over sizes.

    The rest is taken in turn from size classes a factor of two wide, within a class by content hash. So a case that joins
    may take the place of another one, but does not reshuffle those of other classes.
    """
    by_name: dict[str, list[Case]] = {}
    for case in cases:
        by_name.setdefault(case.name, []).append(case)
    kept = {(name, case.key) for name, members in by_name.items() for case in _spread(members, per_name)}
    return [case for case in cases if (case.name, case.key) in kept]


def _spread(cases: Sequence[Case], count: int) -> list[Case]:
    if len(cases) <= count:
        return list(cases)
    sizes = {case.key: case_bytes(case) for case in cases}
    ordered = sorted(cases, key=lambda case: (sizes[case.key], case.key))
    ends = [ordered[0], ordered[-1]][:count]
    taken: dict[int, int] = {}
    turns: list[tuple[int, str, Case]] = []
    for case in sorted(ordered[1:-1], key=lambda case: case.key):
        size_class = sizes[case.key].bit_length()
        taken[size_class] = turn = taken.get(size_class, 0) + 1
        turns.append((turn, case.key, case))
    return ends + [case for _, _, case in sorted(turns, key=lambda entry: entry[:2])[: count - len(ends)]]


def case_bytes(case: Case) -> int:
    """Returns the logical bytes of all operands and results. InvalidCase for an impossible call."""
    operands, results = unsharded_specs(case)
    return sum(spec.logical_bytes for spec in (*operands, *results))
