"""Tensors that a line makes again and again, does not use again, and that nothing frees while the program goes on.

A finding is a line that had made at least 3 tensors that nothing was to use again when it made another one, and all of these
are there after the last call of the device, whose peak would be lower without them. That leaves out weights (used after the
last of them was made), results that are read at the end, and single results. After a failure, tensors that no call computed
nor used are left out as well: what they are for may have been to come.
"""

from __future__ import annotations

from collections.abc import Sequence

from ssinghal.core.tensors import format_bytes
from ssinghal.profile.finding import Finding, FindingKind
from ssinghal.profile.findings.basis import Basis, instead, labelled, memory_name
from ssinghal.profile.findings.history import History
from ssinghal.profile.findings.late_free import late_cut
from ssinghal.profile.model import Buffer

_LEAST = 3


def leaks(basis: Basis, history: History) -> list[list[Buffer]]:
    """Returns the tensors of each line that leaks, those that are dead while the line makes more."""
    groups: dict[object, list[Buffer]] = {}
    for buffer in history.buffers():
        use = basis.uses.of(buffer)
        if use is None or buffer.made_between or basis.is_parameter(buffer, use) or not basis.is_resident(buffer):
            continue
        if use.is_operand or not use.is_given or basis.is_last_use_known(buffer, use):
            groups.setdefault(basis.profile.calls[buffer.call].stack, []).append(buffer)
    dead = []
    for group in groups.values():
        last_made = group[-1].call
        dead.append([one for one in group if _last(basis, one) <= last_made])
    return [group for group in dead if len(group) > _LEAST]


def _last(basis: Basis, buffer: Buffer) -> int:
    use = basis.uses.of(buffer)
    return use.last if use else buffer.last_use


def find(basis: Basis, history: History, groups: Sequence[Sequence[Buffer]]) -> list[Finding]:
    """Returns the findings of the groups without which the peak would be lower."""
    peak = history.peak_bytes
    after = [history.peak_without(late_cut(basis, history, one) for one in group) for group in groups]
    return [_finding(basis, history, group, lower) for group, lower in zip(groups, after, strict=True) if lower < peak]


def _finding(basis: Basis, history: History, group: Sequence[Buffer], after: int) -> Finding:
    first = group[0]
    sizes = {one.bank_bytes for one in group}
    held = sum(one.bank_bytes for one in group)
    size = format_bytes(first.bank_bytes) if len(sizes) == 1 else f"{min(sizes):,} to {max(sizes):,} B"
    up_to = " up to its end" if basis.is_cut(history.device) else ""
    peak = history.peak_bytes
    return Finding(
        FindingKind.RESIDENT,
        history.memory,
        held,
        basis.profile.calls[first.call].site,
        f"resident to the end: {len(group):,} x {first.tensor}, {size} more each time",
        f"none is used again{up_to} once the line made the last of them, nor freed: they"
        f" hold {format_bytes(held)} of {memory_name(history.memory)}; freed after"
        f" their last use, its peak is {instead(peak, after)}",
        calls=tuple(one.call for one in group),
        device=history.device,
        sites=labelled(("made", basis.maker(first))),
        before_bytes=peak,
        after_bytes=after,
    )
