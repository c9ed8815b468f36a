"""Free bytes in pieces: buffers whose ``ttnn.move`` (or ``ttnn.reallocate``) makes one block of them.

A finding is a call that failed for want of one block though its memory had the bytes, or whose program buffers reached into a
tensor that holes above could take; or, in a program that ran, the allocation that came nearest to such a failure: less than 1/8
of its size was left in the largest block, while all blocks together had twice its size or more. Which buffers to move is found
by trial on the address map of that moment: moved, then all that the call allocated once more. It is reported only if the map
agrees with the addresses recorded, and with TTNN's figures where a call failed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from ssinghal.core.tensors import format_bytes
from ssinghal.core.verdict import Resource, Verdict
from ssinghal.profile.finding import Finding, FindingKind
from ssinghal.profile.findings.basis import OF_BANK, Basis, instead, labelled, memory_name
from ssinghal.profile.findings.free_blocks import FreeBlocks, free_blocks
from ssinghal.profile.findings.history import Change, History, end_call
from ssinghal.profile.model import Buffer, Call

_OF_SIZE = 8
_MOST_MOVES = 256  # buffers that are tried one by one

Test = Callable[[FreeBlocks], bool]


@dataclass
class Moment:
    """An address map with the buffers that are in it, and what a call went on to change."""

    map: FreeBlocks
    resident: Sequence[Buffer]
    changes: Sequence[Change] = field(default_factory=tuple)

    def after(self, moved: Sequence[Buffer]) -> FreeBlocks | None:
        """Returns the map after moving buffers in turn and the changes of the call; None if one of these does not fit."""
        result = self.map.copy()
        addresses = {id(one): one.address for one in self.resident}
        for one in moved:
            address = result.move(one.address)
            if address is None:
                return None
            addresses[id(one)] = address
        for change in self.changes:
            if change.is_made:
                address = result.allocate(change.buffer.bank_bytes)
                if address is None:
                    return None
                addresses[id(change.buffer)] = address
            else:
                result.release(addresses.pop(id(change.buffer)))
        return result

    def moves(self, movable: Sequence[Buffer], test: Test) -> list[Buffer] | None:
        """Returns buffers to move, in that order, so that the map passes ``test``: the smallest one that does it alone, else
        several of which none can be left out. None if even moving all fails."""

        def passes(moved: list[Buffer]) -> bool:
            result = self.after(moved)
            return result is not None and test(result)

        by_size = sorted(movable, key=lambda one: one.bank_bytes)[:_MOST_MOVES]
        for one in by_size:
            if passes([one]):
                return [one]
        by_address = sorted(movable, key=lambda one: one.address, reverse=not self.map.is_upwards)
        if not passes(by_address):
            return None
        orders = by_address[:_MOST_MOVES], by_address[-_MOST_MOVES:][::-1], by_size[::-1]
        found = [_without_idle(by_address, order, passes) for order in orders]
        return min(found, key=lambda moved: (sum(one.bank_bytes for one in moved), len(moved)))


def _without_idle(moved: list[Buffer], order: Sequence[Buffer], passes: Callable[[list[Buffer]], bool]) -> list[Buffer]:
    """Returns what is left of ``moved`` when those that need not be moved are left out, tried in ``order``."""
    for one in order:
        rest = [other for other in moved if other is not one]
        if passes(rest):
            moved = rest
    return moved


def find(basis: Basis, history: History) -> list[Finding]:
    if history.memory not in ("l1", "dram") or history.facts.base_bytes:
        return []
    calls = basis.profile.calls[basis.profile.devices[history.device].first_call : end_call(basis.profile, history.device)]
    failed = [
        finding for call in calls if call.verdict is not None and (finding := _failed(basis, history, call, call.verdict))
    ]
    if failed:
        return failed[-1:]  # the last one is what ended the program, if anything did
    near = _nearest(basis, history)
    return [near] if near is not None else []


def _failed(basis: Basis, history: History, call: Call, verdict: Verdict) -> Finding | None:
    device, needed = basis.profile.devices[history.device], verdict.bytes_per_bank
    before = [one for one in call.before if one.memory == history.memory]
    map_before = free_blocks(device, history.memory, history.buffers(), before)
    if map_before is None:
        return None
    at_failure = {id(one) for one in call.resident}
    within = history.changes[history.before_call(call.number) : history.after_call(call.number)]
    moment = Moment(map_before, before, [one for one in within if one.is_made or id(one.buffer) not in at_failure])
    as_is = moment.after(())
    movable = [one for one in before if id(one) in at_failure and basis.uses.of(one) is not None]
    if as_is is None:
        return None
    if verdict.resource is Resource.FRAGMENTATION and needed is not None:
        if (as_is.free, as_is.largest) != (verdict.free_bytes, verdict.largest_free_bytes):
            return None
        moved = moment.moves(movable, lambda one: one.largest >= needed)
        if moved is None:
            return None
        after = moment.after(moved)
        what = f"{call.name} needs {format_bytes(needed)} in one block of {memory_name(history.memory)}"
        state = f"{format_bytes(as_is.free)} were free, {format_bytes(as_is.largest)} in the largest block"
        return _finding(basis, history, call, moved, (what, state), (as_is.largest, after.largest if after else 0))
    end, low = verdict.program_bytes, verdict.tensor_address
    if verdict.resource is Resource.CLASH and end is not None and low is not None and as_is.lowest == low:
        moved = moment.moves(movable, lambda one: one.lowest is None or one.lowest >= end)
        if moved is None:
            return None
        after = moment.after(moved)
        what = f"program buffers of {call.name} reach {format_bytes(end - low)} into a tensor"
        state = (
            f"they end at address {end:,}, the lowest tensor begins at {low:,}, and there were {format_bytes(as_is.free)} free"
        )
        lowest = after.lowest if after is not None and after.lowest is not None else device.l1_top
        return _finding(basis, history, call, moved, (what, state), (low - device.l1_base, lowest - device.l1_base))
    return None


def _nearest(basis: Basis, history: History) -> Finding | None:
    """Returns the finding of the allocation that left least of the largest block, among those that came near to failing."""
    now = free_blocks(basis.profile.devices[history.device], history.memory, history.buffers())
    if now is None:
        return None
    live: dict[int, Buffer] = {}
    nearest: tuple[float, Buffer, Moment] | None = None
    for change in history.changes:
        buffer, size = change.buffer, change.buffer.bank_bytes
        if not change.is_made:
            now.release(buffer.address)
            del live[id(buffer)]
            continue
        if size >= history.facts.bank_bytes // OF_BANK and not buffer.made_between and (free := now.free) >= 2 * size:
            largest = now.largest
            share = (largest - size) / size
            if 0 <= share < (1 / _OF_SIZE if nearest is None else nearest[0]) and 2 * largest <= free:
                nearest = share, buffer, Moment(now.copy(), tuple(live.values()))
        if not now.place(buffer.address, size):
            return None
        live[id(buffer)] = buffer
    if nearest is None:
        return None
    _, buffer, moment = nearest
    movable = [one for one in moment.resident if basis.uses.of(one) is not None and one.call < buffer.call]
    moved = moment.moves(movable, lambda one: one.largest >= 2 * buffer.bank_bytes)
    after = moment.after(moved or ())
    if moved is None or after is None:
        return None
    call, size = basis.profile.calls[buffer.call], buffer.bank_bytes
    what = f"{call.name} took {format_bytes(size)} of {memory_name(history.memory)}"
    state = f"{format_bytes(moment.map.free)} were free, and {size // _OF_SIZE:,} B more would not have fit into one block"
    return _finding(basis, history, call, moved, (what, state), (moment.map.largest, after.largest))


def _finding(
    basis: Basis, history: History, call: Call, moved: Sequence[Buffer], texts: tuple[str, str], blocks: tuple[int, int]
) -> Finding:
    what, state = texts
    before, after = blocks
    size = format_bytes(sum(one.bank_bytes for one in moved))
    names = "1 buffer" if len(moved) == 1 else f"{len(moved):,} buffers"
    others = " and others" if len(moved) > 1 else ""
    return Finding(
        FindingKind.FRAGMENTATION,
        history.memory,
        after - before,
        call.site,
        f"in pieces: {what}; ttnn.move of {names} before it makes more room: {moved[0].tensor}{others}",
        f"{state}; with {names} of {size} moved, {instead(before, after)} are free in"
        " one block, by the address map of that moment",
        calls=(call.number, *dict.fromkeys(one.call for one in moved)),
        device=history.device,
        sites=labelled(*[("made what to move", basis.maker(one)) for one in moved]),
        before_bytes=before,
        after_bytes=after,
    )
