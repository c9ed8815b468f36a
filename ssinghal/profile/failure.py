"""Explains a call that ran out of memory: what it needs, what is resident and which line made it, and the least to free.

Exact by arithmetic on the addresses that TTNN's allocator gave: a buffer needs one free block at the same addresses in every
bank. Where those addresses do not add up to the free bytes of TTNN's message, nothing is derived from them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

from ssinghal.core.tensors import format_bytes, round_up
from ssinghal.core.verdict import Resource, Verdict
from ssinghal.profile.address_map import Block, Span, bank, largest_hole_bytes, least_to_free, memory_of
from ssinghal.profile.model import Buffer, Call, Profile, Site


class Role(str, Enum):
    """What a resident buffer is to the failing call."""

    OPERAND = "operand of the failing call"
    OWN = "made by the failing call"
    USED_LATER = "used again later"  # known where the program handled the failure and went on
    KEPT = "kept by TTNN"  # made within a call, and no tensor that the program has seen
    OTHER = "not used by the failing call"


@dataclass(frozen=True)
class Resident:
    """A buffer that was resident when the call failed. ``made_by``, ``stack``: the call that made it, and its lines, innermost
    first. ``age``: calls since then, None if it was made before the recording; ``unused``: calls since the
    last one that used it, None if none did."""

    buffer: Buffer
    made_by: str
    stack: tuple[Site, ...]
    role: Role
    age: int | None
    unused: int | None

    @property
    def origin(self) -> str:
        """Returns the call that made it, with its line, and where the function of that line was called from."""
        return " from ".join([self.made_by, *map(str, self.stack[:2])]).replace(" from ", ", ", 1)


@dataclass(frozen=True)
class Failure:
    """``memory``: the one that ran out, empty where it is none of the device's. ``free_bytes``, ``largest_free_bytes``: per
    bank, when the call failed; ``need_bytes``: of the buffer that found no room; ``program_end``, ``lowest_tensor``: the
    addresses of a clash. ``missing_bytes``: what the largest block, or the space below the lowest tensor, is short of.
    ``residents``: of ``memory``, the lowest address first. ``least``: those to free, the fewest bytes that suffice;
    ``why_none``: why there are none. ``went_on``: calls that the program made after the failure."""

    call: Call
    memory: str
    resource: Resource | None
    need_bytes: int | None = None
    free_bytes: int | None = None
    largest_free_bytes: int | None = None
    program_end: int | None = None
    lowest_tensor: int | None = None
    missing_bytes: int | None = None
    residents: tuple[Resident, ...] = ()
    least: tuple[Resident, ...] = ()
    why_none: str = ""
    went_on: int = 0

    @property
    def least_bytes(self) -> int:
        return sum(resident.buffer.bank_bytes for resident in self.least)

    def to_json(self) -> dict[str, Any]:
        """Returns plain values; bytes are per bank."""
        verdict = self.call.verdict
        return {
            "call": self.call.number,
            "name": self.call.name,
            "stack": [str(site) for site in self.call.stack],
            "memory": self.memory,
            "resource": self.resource and self.resource.value,
            "message": verdict.message if verdict else "",
            "need_bytes": self.need_bytes,
            "free_bytes": self.free_bytes,
            "largest_free_bytes": self.largest_free_bytes,
            "program_end": self.program_end,
            "lowest_tensor": self.lowest_tensor,
            "missing_bytes": self.missing_bytes,
            "residents": [_resident_json(resident) for resident in self.residents],
            "least": [resident.buffer.address for resident in self.least],
            "least_bytes": self.least_bytes,
            "why_none": self.why_none,
            "went_on": self.went_on,
        }


def _resident_json(resident: Resident) -> dict[str, Any]:
    buffer = resident.buffer
    return {
        "address": buffer.address,
        "bytes": buffer.bank_bytes,
        "tensor": buffer.tensor,
        "made_by": resident.made_by,
        "stack": [str(site) for site in resident.stack],
        "role": resident.role.value,
        "age": resident.age,
        "unused": resident.unused,
    }


def explain(profile: Profile, call: Call | None = None) -> Failure | None:
    """Explains a call, by default the last one that ran out of memory; None where none did."""
    call = call or profile.failure
    if call is None or call.verdict is None or not call.is_out_of_memory:
        return None
    verdict = call.verdict
    device = next(device for device in reversed(profile.devices) if device.first_call <= call.number)
    memory = memory_of(verdict, device.memories)
    failure = Failure(
        call,
        memory,
        verdict.resource,
        free_bytes=verdict.free_bytes,
        largest_free_bytes=verdict.largest_free_bytes,
        missing_bytes=verdict.shortfall_bytes,
        residents=_residents(profile, call, memory or "l1"),
        went_on=len(profile.calls) - call.number - 1,
    )
    if verdict.resource is Resource.CLASH:
        return _clash(failure, verdict)
    if verdict.bytes_per_bank is None or not memory:
        return replace(failure, why_none="what it needs is not the bytes of a buffer: no freeing is known to cure it")
    buffers = (buffer for buffer in profile.buffers if profile.devices[buffer.device] is device)
    return _buffer(failure, verdict, round_up(verdict.bytes_per_bank, device.granule), bank(device, memory, buffers))


def _residents(profile: Profile, call: Call, memory: str) -> tuple[Resident, ...]:
    before = {id(buffer) for buffer in call.before}
    operands = {(tensor.spec.memory, tensor.address) for tensor in call.operands}

    def role(buffer: Buffer) -> Role:
        if id(buffer) not in before:
            return Role.OWN
        if (buffer.memory, buffer.address) in operands:
            return Role.OPERAND
        if buffer.last_use > call.number:
            return Role.USED_LATER
        return Role.OTHER if buffer.tensor or buffer.made_between else Role.KEPT

    def resident(buffer: Buffer) -> Resident:
        unused = call.number - min(buffer.last_use, call.number) if _is_used(profile, buffer) else None
        if buffer.made_before:
            return Resident(buffer, "before the recording", (), role(buffer), None, unused)
        maker = profile.calls[buffer.call]
        made_by = f"before {maker.name}" if buffer.made_between else maker.name
        return Resident(buffer, made_by, maker.stack, role(buffer), call.number - buffer.call, unused)

    held = (buffer for buffer in call.resident if buffer.memory == memory)
    return tuple(map(resident, sorted(held, key=lambda buffer: buffer.address)))


def _is_used(profile: Profile, buffer: Buffer) -> bool:
    """Whether a call used a buffer after it was made."""
    if buffer.last_use != buffer.call or not buffer.made_between:
        return buffer.last_use > buffer.call
    last = profile.calls[buffer.last_use]
    used = {(tensor.spec.memory, tensor.address) for tensor in (*last.operands, *last.results)}
    return (buffer.memory, buffer.address) in used


def _span(buffer: Buffer) -> Span:
    return Span(buffer.address, buffer.address + buffer.bank_bytes)


def _buffer(failure: Failure, verdict: Verdict, need_bytes: int, span: Span | None) -> Failure:
    """Adds the least to free for one buffer."""
    failure = replace(failure, need_bytes=need_bytes)
    if span is None:
        return replace(failure, why_none="the addresses of its banks are not known")
    if need_bytes > span.size_bytes:
        return replace(failure, why_none=f"no freeing cures it: an empty bank has {format_bytes(span.size_bytes)}")
    by_span = {_span(resident.buffer): resident for resident in failure.residents}
    hole_bytes = largest_hole_bytes(span, by_span)
    if failure.largest_free_bytes not in (None, hole_bytes):
        return replace(failure, why_none="the recorded addresses do not add up to the free block of TTNN's message")
    blocks = [Block(s, r.role is Role.OTHER, r.buffer.last_use) for s, r in by_span.items()]
    least = least_to_free(span, blocks, need_bytes)
    if least is None:
        kept = [block.span for block in blocks if not block.is_freeable]
        if len(kept) == len(blocks):
            return replace(failure, why_none="no other buffer is resident that could be freed")
        opened = format_bytes(largest_hole_bytes(span, kept))
        every = f"even with every buffer freed that it does not need, the largest free block has {opened}"
        return replace(failure, why_none=f"freeing alone does not make it fit: {every}")
    return replace(failure, least=tuple(by_span[block.span] for block in least))


def _clash(failure: Failure, verdict: Verdict) -> Failure:
    """Adds what lies below the end of the program buffers, all of which must go. The call's own buffers stay."""
    end = verdict.program_bytes
    failure = replace(failure, program_end=end, lowest_tensor=verdict.tensor_address)
    below = [resident for resident in failure.residents if end is not None and resident.buffer.address < end]
    if not below or below[0].buffer.address != verdict.tensor_address:
        return replace(failure, why_none="the recorded addresses do not have the tensor of TTNN's message")
    fixed = next((resident for resident in below if resident.role is not Role.OTHER), None)
    if fixed is not None:
        what = f"a buffer that is {fixed.role.value} begins at {fixed.buffer.address:,}"
        return replace(failure, why_none=f"what to free does not follow from the addresses: {what}")
    return replace(failure, least=tuple(below))
