"""Calls whose program buffers, rather than tensors, bring a core next to its limit.

A finding is the call with the least headroom between program buffers and the lowest tensor, if that is less than 1/8 of L1, or
nothing, and its program buffers take more of L1 than all tensors, or tensors take less there than at their peak. What it saves
is how far the calls of other lines stay away from the limit.
"""

from __future__ import annotations

from ssinghal.core.tensors import format_bytes
from ssinghal.profile.finding import Finding, FindingKind
from ssinghal.profile.findings.basis import Basis, labelled
from ssinghal.profile.findings.history import end_call
from ssinghal.profile.model import Call, Program

_OF_L1 = 8


def find(basis: Basis) -> list[Finding]:
    peaks = {history.device: history.peak_bytes for history in basis.histories if history.memory == "l1"}
    found = (_find(basis, index, peaks.get(index, 0)) for index in range(len(basis.profile.devices)))
    return [finding for finding in found if finding is not None]


def _find(basis: Basis, index: int, peak: int) -> Finding | None:
    device = basis.profile.devices[index]
    fullest: dict[object, tuple[int, Call, Program]] = {}  # of each line
    for call in basis.profile.calls[device.first_call : end_call(basis.profile, index)]:
        for program in call.programs:
            room = program.headroom_bytes
            if room is not None and (call.stack not in fullest or room < fullest[call.stack][0]):
                fullest[call.stack] = room, call, program
    ordered = sorted(fullest.values(), key=lambda one: (one[0], one[1].number))
    if not ordered:
        return None
    room, call, program = ordered[0]
    size = program.program_bytes or 0
    is_decided = size > program.l1_bytes or program.l1_bytes < peak
    if room >= device.memories["l1"].bank_bytes // _OF_L1 or not is_decided:
        return None
    next_room = ordered[1][0] if len(ordered) > 1 else room + size
    left = f"leave {format_bytes(room)}" if room >= 0 else f"reach {format_bytes(-room)} into the tensors"
    other = (
        f"the next call, of {ordered[1][2].name}, leaves {format_bytes(next_room)}" if len(ordered) > 1 else "no other has any"
    )
    return Finding(
        FindingKind.PROGRAM_BUFFERS,
        "l1",
        next_room - room,
        call.site,
        f"program buffers decide: {format_bytes(size)} of {program.name} in {call.name} {left}",
        f"below tensors of {format_bytes(program.l1_bytes)} per core, of which {format_bytes(peak)} are the peak; {other}",
        calls=(call.number,),
        device=index,
        sites=labelled(("called", call), ("next", ordered[1][1] if len(ordered) > 1 else None)),
        before_bytes=room,
        after_bytes=next_room,
    )
