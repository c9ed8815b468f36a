"""Profiles of one program on several boards or releases, side by side."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from ssinghal.core.tensors import format_bytes
from ssinghal.profile.call_changes import MEMORIES
from ssinghal.profile.comparison import Comparison, paired
from ssinghal.profile.comparison_text import lines
from ssinghal.profile.model import Profile, is_at_most
from ssinghal.profile.names import MEMORY_NAMES
from ssinghal.render.tables import aligned

_PROGRAMS = "L1 with program buffers: peak"
_HEADROOM = "least headroom in L1"

Figures = Callable[[Comparison], int | None]


def side_by_side(profiles: Mapping[str, Sequence[Profile]], shown: int | None) -> list[str]:
    """Returns a table of each process, with a column for each board and release, then what changed against the first of them.

    ``shown``: lines and operations of each comparison; None: all. A run that opened no device has no column.
    """
    (first, base), *others = [(name, found) for name, found in profiles.items() if found]
    found = {name: paired(base, other)[0] for name, other in others}
    output = []
    for one in base:
        columns = {first: Comparison.of(one, one)}
        columns |= {
            name: comparison for name, comparisons in found.items() for comparison in comparisons if comparison.before is one
        }
        output += ["", " ".join(one.argv), *_table(columns)]
        for name, comparison in columns.items():
            if name != first:
                output += ["", f"{first} → {name}", *lines(comparison, shown)]
    return output[1:]


def _table(columns: Mapping[str, Comparison]) -> list[str]:
    used = [memory for memory in MEMORIES if any(memory in one.peaks for one in columns.values())]
    rows: dict[str, Figures] = {f"{MEMORY_NAMES[name]}: peak": _peak_of(name) for name in used}
    rows["L1 per core between operations: peak"] = lambda one: one.l1_between.after
    rows[_PROGRAMS] = lambda one: one.after.l1_and_program_bytes
    rows[_HEADROOM] = lambda one: one.headroom.after
    table = [["", *columns]]
    for title, figure in rows.items():
        table.append([title, *(_size(title, figure(one), one.after) for one in columns.values())])
    table.append(["calls", *(f"{len(one.after.calls):,}" for one in columns.values())])
    table.append(["end", *(one.failures[1] or "by itself" for one in columns.values())])
    return aligned(table)


def _size(title: str, size: int | None, profile: Profile) -> str:
    if size is None:
        return "not reported"
    at_most = "at most " if title == _HEADROOM and is_at_most(profile) else ""
    at_least = "at least " if title == _PROGRAMS and profile.unknown_programs else ""
    return f"{at_most or at_least}{format_bytes(size)}"


def _peak_of(memory: str) -> Figures:
    return lambda one: one.peaks[memory].after if memory in one.peaks else 0
