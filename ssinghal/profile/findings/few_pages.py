"""Interleaved tensors of fewer pages than half the banks: each bank books a page, and most hold none.

TTNN allocates the same addresses in all banks, so that a buffer takes of each what it takes of the fullest. A finding is a line
whose tensors, spread evenly, would lower the peak of their memory by 1/16 or more, and by 1/256 of a bank.
"""

from __future__ import annotations

from collections.abc import Sequence

from ssinghal.core.tensors import ceil_div, format_bytes, round_up
from ssinghal.profile.finding import Finding, FindingKind
from ssinghal.profile.findings.basis import OF_BANK, Basis, instead, labelled, memory_name
from ssinghal.profile.findings.history import Cut, History
from ssinghal.profile.model import Buffer

_OF_PEAK = 16


def find(basis: Basis, history: History) -> list[Finding]:
    granule, banks = basis.profile.devices[history.device].granule, history.facts.banks
    groups: dict[object, list[Buffer]] = {}
    for buffer in history.buffers():
        use = basis.uses.of(buffer)
        if use and use.spec.memory_layout == "interleaved" and buffer.bank_bytes * banks >= 2 * buffer.total_bytes:
            groups.setdefault(basis.profile.calls[buffer.call].stack, []).append(buffer)
    cuts = {
        stack: [Cut(history.made(one), history.freed(one), one.bank_bytes - _even(one, banks, granule)) for one in group]
        for stack, group in groups.items()
    }
    least = max(history.peak_bytes // _OF_PEAK, history.facts.bank_bytes // OF_BANK)
    lower = history.peaks_without(cuts, least)
    return [_finding(basis, history, groups[stack], after) for stack, after in lower.items()]


def _even(buffer: Buffer, banks: int, granule: int) -> int:
    return round_up(ceil_div(buffer.total_bytes, banks), granule)


def _finding(basis: Basis, history: History, group: Sequence[Buffer], after: int) -> Finding:
    first, banks, peak = max(group, key=lambda one: one.bank_bytes), history.facts.banks, history.peak_bytes
    pages = ceil_div(first.total_bytes, first.bank_bytes)
    even = _even(first, banks, basis.profile.devices[history.device].granule)
    made = basis.profile.calls[first.call]
    return Finding(
        FindingKind.FEW_PAGES,
        history.memory,
        peak - after,
        made.site,
        f"{pages:,} page{'s' if pages > 1 else ''} on {banks:,} banks: {f'{len(group):,} x ' if len(group) > 1 else ''}"
        f"{first.tensor}, {format_bytes(first.bank_bytes)} of every bank",
        f"its {format_bytes(first.total_bytes)} spread evenly, as with shorter rows or in shards, are {format_bytes(even)} per"
        f" bank; the peak of {memory_name(history.memory)} is {instead(peak, after)}",
        calls=tuple(dict.fromkeys(one.call for one in group)),
        device=history.device,
        sites=labelled(("made", basis.maker(first))),
        before_bytes=peak,
        after_bytes=after,
    )
