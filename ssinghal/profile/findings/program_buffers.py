"""Calls whose program buffers, rather than tensors, bring a core next to its limit.

A finding is the call with the least headroom between its program buffers and the lowest tensor, if that is less than 1/8 of L1,
or nothing, and its program buffers take 1/4 of L1 or more. What it saves is the headroom up to that of the next line, and no
more than the tensors leave at this call. Where TTNN did not report program buffers of other lines, their headroom is at most
what the tensors leave: no finding if that is less, and no figure of what is saved. A call that failed has the program buffers
of TTNN's message.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from ssinghal.core.tensors import format_bytes
from ssinghal.core.verdict import Resource
from ssinghal.profile.finding import Finding, FindingKind
from ssinghal.profile.findings.basis import Basis, labelled
from ssinghal.profile.findings.history import end_call
from ssinghal.profile.model import Call

_OF_L1, _OF_SIZE = 8, 4


class _Need(NamedTuple):
    """Program buffers of ``size`` bytes, with ``room`` bytes between them and the lowest tensor; ``size`` None: not reported,
    and ``room`` is an upper bound."""

    room: int
    size: int | None
    call: Call
    program: str


def find(basis: Basis) -> list[Finding]:
    found = (_find(basis, index) for index in range(len(basis.profile.devices)))
    return [finding for finding in found if finding is not None]


def _find(basis: Basis, index: int) -> Finding | None:
    device = basis.profile.devices[index]
    fullest: dict[object, _Need] = {}  # of each line
    unknown: Counter[object] = Counter()
    for call in basis.profile.calls[device.first_call : end_call(basis.profile, index)]:
        for need in _needs(call, device.l1_base):
            unknown[call.stack] += need.size is None
            if call.stack not in fullest or need.room < fullest[call.stack].room:
                fullest[call.stack] = need
    if not fullest:
        return None
    first, *others = sorted(fullest.values(), key=lambda one: (one.room, one.call.number))
    l1_bytes = device.memories["l1"].bank_bytes
    if first.size is None or first.room >= l1_bytes // _OF_L1 or first.size < l1_bytes // _OF_SIZE:
        return None
    room, tensors_leave = first.room, first.room + first.size
    not_reported = unknown.total() - unknown[first.call.stack]
    after = min(others[0].room, tensors_leave) if others and not not_reported else None
    left = f"leave {format_bytes(room)}" if room >= 0 else f"reach {format_bytes(-room)} into a tensor"
    at_most = f" at most: TTNN did not report those of {not_reported:,} runs of programs of other lines" if not_reported else ""
    next_one = f"the next, of {others[0].program}, leave {format_bytes(others[0].room)}{at_most}" if others else "no others ran"
    return Finding(
        FindingKind.PROGRAM_BUFFERS,
        "l1",
        0 if after is None else max(0, after - max(0, room)),
        first.call.site,
        f"program buffers decide: {format_bytes(first.size)} of {first.program} {left}",
        f"the lowest tensor begins {format_bytes(tensors_leave)} above the first address of program buffers; {next_one}",
        calls=(first.call.number,),
        device=index,
        sites=labelled(("called", first.call), ("next", others[0].call if others else None)),
        before_bytes=room,
        after_bytes=after,
    )


def _needs(call: Call, l1_base: int) -> Iterator[_Need]:
    for program in call.programs:
        yield _Need(program.headroom_bytes, program.program_bytes, call, program.name)
    verdict = call.verdict
    if verdict is not None and verdict.resource is Resource.CLASH and verdict.program_bytes and verdict.tensor_address:
        end = verdict.program_bytes
        yield _Need(verdict.tensor_address - end, end - l1_base, call, call.name)
