"""Tensors that are freed later than last used, where a ``ttnn.deallocate`` right after their last use would lower a peak.

The peak with it is that of the same allocations and frees in the same order, with the free of the tensor moved to the end of
the call that used it last. Tensors that are made by the same lines and last used by the same lines are one finding. A finding
lowers the peak of its memory by 1/64 or more; what is late besides that is none. Neither is a tensor freed by Python's last
reference before the next call, nor one whose later uses an exception or the end of the recording may have cut off, nor a
parameter (see ``uses``), nor one that no call used, such as a result.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence

from ssinghal.core.tensors import format_bytes
from ssinghal.profile.finding import Finding, FindingKind
from ssinghal.profile.findings.basis import OF_PEAK, Basis, instead, labelled, memory_name
from ssinghal.profile.findings.history import Cut, History, end_call, taken
from ssinghal.profile.model import Buffer, Call

_MOST = 16  # lines that are combined

Lines = tuple[object, object]  # the stacks that made and last used a tensor


def find(basis: Basis, history: History, leaked: Container[int]) -> list[Finding]:
    """``leaked``: the ids of buffers that are left out."""
    late = [buffer for buffer in history.buffers() if id(buffer) not in leaked and _is_late(basis, history, buffer)]
    groups: dict[Lines, list[Buffer]] = {}
    for buffer in late:
        groups.setdefault((basis.profile.calls[buffer.call].stack, _user(basis, buffer).stack), []).append(buffer)
    cuts = {lines: [late_cut(basis, history, buffer) for buffer in group] for lines, group in groups.items()}
    peak = history.peak_bytes
    alone = history.peaks_without(cuts, peak // OF_PEAK)
    together = _combined(history, cuts, peak // OF_PEAK)
    combined = history.peak_without(cut for lines in together for cut in cuts[lines])
    with_all = f"; with this and {len(together) - 1} more of the kind: {format_bytes(combined)}" if len(together) > 1 else ""
    found = [
        _finding(basis, history, groups[lines], after, with_all if lines in together else "") for lines, after in alone.items()
    ]
    if any(lines not in alone for lines in together):
        found.append(_together(basis, history, [groups[lines] for lines in together], combined))
    return found


def late_cut(basis: Basis, history: History, buffer: Buffer) -> Cut:
    """Returns what freeing a buffer right after its last use takes off."""
    return Cut(history.after_call(_user(basis, buffer).number), history.freed(buffer), buffer.bank_bytes)


def _user(basis: Basis, buffer: Buffer) -> Call:
    use = basis.uses.of(buffer)
    return basis.profile.calls[use.last if use else buffer.last_use]


def _is_late(basis: Basis, history: History, buffer: Buffer) -> bool:
    use = basis.uses.of(buffer)
    if use is None or basis.is_parameter(buffer, use) or not basis.is_last_use_known(buffer, use):
        return False
    return use.is_operand and history.after_call(use.last) < history.freed(buffer)


def _combined(history: History, cuts: Mapping[Lines, Sequence[Cut]], least_bytes: int) -> list[Lines]:
    """Returns the lines to change together: at each peak that is left, those that hold most of it, until none holds any.

    None if that lowers the peak by less than ``least_bytes``, which may be where each of many hides the next.
    """
    chosen: list[Lines] = []
    lowest, needed = history.peak_bytes, 0
    for _ in range(_MOST):
        rest = history.without(cut for lines in chosen for cut in cuts[lines])
        top = max(rest, default=0)
        if top < lowest:
            lowest, needed = top, len(chosen)
        position = rest.index(top) if rest else 0
        best = max(
            (lines for lines in cuts if lines not in chosen), key=lambda lines: taken(cuts[lines], position), default=None
        )
        if best is None or not taken(cuts[best], position):
            break
        chosen.append(best)
    return chosen[:needed] if history.peak_bytes - lowest >= max(1, least_bytes) else []


def _finding(basis: Basis, history: History, group: Sequence[Buffer], after: int, with_all: str) -> Finding:
    first, user, peak = group[0], _user(basis, group[0]), history.peak_bytes
    end = end_call(basis.profile, history.device)
    held = sum(one.bank_bytes * ((end if one.freed is None else one.freed) - _user(basis, one).number - 1) for one in group)
    freed_by = basis.profile.calls[first.freed] if first.freed is not None and not basis.is_resident(first) else None
    freed = "never freed" if first.freed is None else "freed after the last call" if freed_by is None else "freed late"
    return Finding(
        FindingKind.LATE_FREE,
        history.memory,
        peak - after,
        user.site,
        f"{freed}: {f'{len(group):,} x ' if len(group) > 1 else ''}{first.tensor}, {format_bytes(first.bank_bytes)}",
        f"with ttnn.deallocate after its last use the peak of {memory_name(history.memory)} is {instead(peak, after)}: the same"
        f" allocations with this free moved; it is held for {held:,} B x calls too long{with_all}",
        calls=tuple(sorted({number for one in group for number in (one.call, _user(basis, one).number)})),
        device=history.device,
        sites=labelled(
            ("made", basis.maker(first)),
            ("last used", user),
            ("freed before" if first.freed_between else "freed", freed_by),
        ),
        before_bytes=peak,
        after_bytes=after,
    )


def _together(basis: Basis, history: History, groups: Sequence[Sequence[Buffer]], after: int) -> Finding:
    peak, name = history.peak_bytes, memory_name(history.memory)
    users = [_user(basis, group[0]) for group in groups]
    return Finding(
        FindingKind.LATE_FREE,
        history.memory,
        peak - after,
        users[0].site,
        f"freed late: the tensors of {len(groups):,} lines, {sum(map(len, groups)):,} in all",
        f"with ttnn.deallocate after the last use of each the peak of {name} is {instead(peak, after)}: the"
        " same allocations with these frees moved; one alone does less, as other peaks are as high",
        calls=tuple(sorted({_user(basis, one).number for group in groups for one in group})),
        device=history.device,
        sites=labelled(*[("last used", user) for user in users]),
        before_bytes=peak,
        after_bytes=after,
    )
