"""The snapshot that ``torch.cuda.memory`` pickles, as PyTorch's memory_viz page and ``torch/cuda/_memory_viz.py`` read it.

Each memory of each device that the program opened is a device of the snapshot, numbered in the order of ``memory_numbers``.
Sizes and addresses are those of one bank.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ssinghal.profile.address_map import bank, memory_of
from ssinghal.profile.exports.timeline import Event, steps
from ssinghal.profile.model import Buffer, Call, Profile

Trace = list[dict[str, Any]]
STREAM = 0


def memory_numbers(profile: Profile) -> dict[tuple[int, str], int]:
    """Returns the number of each memory in use, by the index of its device and its name."""
    used = {(buffer.device, buffer.memory) for buffer in profile.buffers}
    order = [(n, memory) for n, device in enumerate(profile.devices) for memory in device.memories]
    return {key: number for number, key in enumerate(key for key in order if key in used)}


def memory_viz(profile: Profile) -> dict[str, Any]:
    """Returns the snapshot: every allocation and free with its stack, and what was left at the end."""
    numbers = memory_numbers(profile)
    traces: list[Trace] = [[] for _ in numbers]
    time = 0
    for call, between, within in steps(profile):
        for event in between:
            traces[numbers[event.buffer.device, event.buffer.memory]] += _entries(profile, event, call, time)
        for event in within:
            traces[numbers[event.buffer.device, event.buffer.memory]] += _entries(profile, event, call, time)
        if call is not None and call.is_out_of_memory:
            _add_failure(profile, call, numbers, traces, time)
        time += 1 if call is None else max(call.microseconds, 1)
    return {
        "segments": [_segment(profile, *key, number) for key, number in numbers.items()],
        "device_traces": traces,
        "allocator_settings": {},
        "external_annotations": [],
    }


def _entries(profile: Profile, event: Event, call: Call | None, time: int) -> Iterator[dict[str, Any]]:
    buffer = event.buffer
    entry = {"addr": buffer.address, "size": buffer.bank_bytes, "stream": STREAM, "time_us": time}
    if event.is_allocation:
        yield {"action": "alloc", **entry, "frames": _frames(call)}
    else:
        for action in ("free_requested", "free_completed"):
            yield {"action": action, **entry, "frames": _frames(call)}


def _add_failure(profile: Profile, call: Call, numbers: dict[tuple[int, str], int], traces: Sequence[Trace], time: int) -> None:
    """Adds the entry of a call that ran out of memory, where TTNN reported how much was needed and free."""
    device = len([one for one in profile.devices if one.first_call <= call.number]) - 1
    verdict = call.verdict
    if verdict is None or verdict.bytes_per_bank is None or verdict.free_bytes is None:
        return
    number = numbers.get((device, memory_of(verdict, profile.devices[device].memories)))
    if number is not None:
        entry = {"size": verdict.bytes_per_bank, "device_free": verdict.free_bytes, "addr": 0, "stream": STREAM}
        traces[number].append({"action": "oom", **entry, "time_us": time, "frames": _frames(call)})


def _frames(call: Call | None) -> list[dict[str, Any]]:
    """Innermost first."""
    if call is None:
        return []
    sites = [{"name": site.function, "filename": site.file, "line": site.line} for site in call.stack]
    return [{"name": call.name, "filename": "ttnn", "line": 0}, *sites]


def _segment(profile: Profile, device: int, memory: str, number: int) -> dict[str, Any]:
    """A bank of a memory with what was left in it at the end; where its addresses are unknown, those that were ever used."""
    ever = [buffer for buffer in profile.buffers if (buffer.device, buffer.memory) == (device, memory)]
    whole = bank(profile.devices[device], memory, ever)
    low, high = whole or (min(b.address for b in ever), max(b.address + b.bank_bytes for b in ever))
    is_last = device == len(profile.devices) - 1
    left = sorted((b for b in ever if is_last and b.freed is None), key=lambda buffer: buffer.address)
    allocated = sum(buffer.bank_bytes for buffer in left)
    return {
        "device": number,
        "address": low,
        "total_size": high - low,
        "allocated_size": allocated,
        "active_size": allocated,
        "requested_size": allocated,
        "stream": STREAM,
        "segment_type": "large",
        "segment_pool_id": (0, 0),
        "is_expandable": False,
        "frames": [],
        "blocks": list(_blocks(profile, left, low, high)),
    }


def _blocks(profile: Profile, left: Sequence[Buffer], low: int, high: int) -> Iterator[dict[str, Any]]:
    for buffer in left:
        if buffer.address > low:
            yield _block(low, buffer.address - low, "inactive", [])
        call = profile.calls[buffer.call] if buffer.call < len(profile.calls) else None
        yield _block(buffer.address, buffer.bank_bytes, "active_allocated", _frames(call))
        low = buffer.address + buffer.bank_bytes
    if high > low:
        yield _block(low, high - low, "inactive", [])


def _block(address: int, size: int, state: str, frames: list[dict[str, Any]]) -> dict[str, Any]:
    return {"address": address, "size": size, "requested_size": size, "state": state, "frames": frames}
