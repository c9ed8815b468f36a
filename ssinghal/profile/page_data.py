"""The data of a profile for its page: calls and buffers as columns; texts, lines and stacks once, referred to by number."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from ssinghal.core.verdict import sentence
from ssinghal.profile.failure import Failure, explain
from ssinghal.profile.finding import Finding
from ssinghal.profile.model import Buffer, Call, Profile, Program, Site, Tensor, is_at_most
from ssinghal.profile.shown_calls import FINDING_CALLS, full_bytes, shown_calls
from ssinghal.render.numbering import Table

MEMORIES = ("dram", "l1", "l1_small", "trace")


def process_data(profile: Profile, findings: Sequence[Finding], limit: int) -> dict[str, Any]:
    """Returns the data of one process, with not many more than ``limit`` calls."""
    return _Process(profile, findings, shown_calls(profile, findings, limit)).data()


def _fullest(call: Call) -> Program | None:
    return min(call.programs, key=lambda program: program.headroom_bytes, default=None)


class _Process:
    def __init__(self, profile: Profile, findings: Sequence[Finding], numbers: Sequence[int]) -> None:
        self._profile, self._findings, self._numbers = profile, findings, numbers
        self._texts: Table[str] = Table()
        self._sites: Table[Site] = Table()
        self._stacks: Table[tuple[Site, ...]] = Table()
        self._tensors: Table[tuple[int, ...]] = Table()
        held = {memory for device in profile.devices for memory, size in device.memories.items() if size.bank_bytes}
        self._memories = [memory for memory in MEMORIES if memory in held]
        self._buffers = self._kept_buffers()
        self._places = {id(buffer): place for place, buffer in enumerate(self._buffers)}

    def data(self) -> dict[str, Any]:
        profile = self._profile
        data = {
            "total": len(profile.calls),
            "allBuffers": len(profile.buffers),
            "memories": self._memories,
            "devices": [
                {
                    "ttnn": device.ttnn,
                    "arch": device.arch,
                    "mesh": device.mesh,
                    "grid": device.grid,
                    "base": device.l1_base,
                    "top": device.l1_top,
                    "first": device.first_call,
                    "memories": device.memories,
                }
                for device in profile.devices
            ],
            "calls": self._calls([profile.calls[number] for number in self._numbers]),
            "buffers": self._columns(self._buffers),
            "peaks": {
                memory: {"size": peak.bank_bytes, "call": peak.call.number, "resident": self._resident(peak.resident)}
                for memory, peak in profile.peaks.items()
            },
            "fullest": profile.fullest[0].number if profile.fullest else None,
            "headroomAtMost": is_at_most(profile),
            "failure": self._failure(profile.failure),
            "findings": [self._finding(finding) for finding in self._findings],
            "spans": [
                {
                    "name": span.name,
                    "first": span.first_call,
                    "end": len(profile.calls) if span.end_call is None else span.end_call,
                    "ended": span.end_call is not None,
                    "peaks": {memory: [peak.bank_bytes, peak.call.number] for memory, peak in span.peaks.items()},
                    "headroom": [span.fullest[1].headroom_bytes, span.fullest[0].number] if span.fullest else None,
                    "headroomAtMost": is_at_most(span),
                    "left": {memory: size - span.before.get(memory, 0) for memory, size in span.after.items()},
                }
                for span in profile.spans
            ],
        }
        sites = [[self._text(site.file), site.line, self._text(site.function)] for site in self._all_sites()]
        return data | {"sites": sites, "stacks": self._numbered, "tensors": self._tensors.rows, "texts": self._texts.rows}

    def _all_sites(self) -> list[Site]:
        self._numbered = [[self._sites.number(site) for site in stack] for stack in self._stacks.rows]
        return self._sites.rows

    def _kept_buffers(self) -> list[Buffer]:
        """Returns the buffers that are resident during a shown call, or that a peak or the failure names."""
        profile = self._profile
        if len(self._numbers) == len(profile.calls):
            return profile.buffers
        failed = profile.failure.resident if profile.failure else ()
        named = {id(b) for held in (*(peak.resident for peak in profile.peaks.values()), failed) for b in held}

        def is_kept(buffer: Buffer) -> bool:
            place = bisect_left(self._numbers, buffer.call)
            last = self._end(buffer) - (buffer.freed is None or buffer.freed_between)
            return place < len(self._numbers) and self._numbers[place] <= last

        return [buffer for buffer in profile.buffers if id(buffer) in named or is_kept(buffer)]

    def _calls(self, calls: Sequence[Call]) -> dict[str, Any]:
        fullest = [_fullest(call) for call in calls]
        full = [full_bytes(call) for call in calls]
        columns: dict[str, Any] = {
            "number": list(self._numbers),
            "name": [self._text(call.name) for call in calls],
            "stack": [self._stacks.number(call.stack) for call in calls],
            "us": [call.microseconds for call in calls],
            "error": [-1 if call.error is None else self._text(": ".join(call.error)) for call in calls],
            "operands": [self._set(call.operands) for call in calls],
            "results": [self._set(call.results) for call in calls],
            "programs": [len(call.programs) for call in calls],
            "unknown": [sum(program.program_bytes is None for program in call.programs) for call in calls],
            "program": [
                max((p.program_bytes for p in call.programs if p.program_bytes is not None), default=None) for call in calls
            ],
            "full": full,
            "headroom": [program.headroom_bytes if program else None for program in fullest],
            "fullest": [self._text(program.name) if program else -1 for program in fullest],
        }
        for name in ("peak", "after", "largest_free"):
            columns[name] = {memory: [getattr(call, name).get(memory, 0) for call in calls] for memory in self._memories}
        columns["base"] = {memory: self._base(memory) for memory in self._memories}
        return columns

    def _base(self, memory: str) -> list[int]:
        """Returns what the allocator had after each shown call beside the buffers that were recorded."""
        profile = self._profile
        change = Counter[int]()
        for buffer in profile.buffers:
            if buffer.memory == memory:
                change[buffer.call] += buffer.bank_bytes
                change[self._end(buffer)] -= buffer.bank_bytes
        held, recorded = 0, []
        for number in range(len(profile.calls)):
            held += change[number]
            recorded.append(held)
        return [profile.calls[number].after.get(memory, 0) - recorded[number] for number in self._numbers]

    def _end(self, buffer: Buffer) -> int:
        """Returns the call in which, or before which, a buffer was freed: if nothing freed it, the first of the next device."""
        if buffer.freed is not None:
            return buffer.freed
        later = self._profile.devices[buffer.device + 1 :]
        return later[0].first_call if later else len(self._profile.calls)

    def _columns(self, buffers: Sequence[Buffer]) -> dict[str, Any]:
        memories = {memory: number for number, memory in enumerate(MEMORIES)}
        return {
            "memory": [memories[buffer.memory] for buffer in buffers],
            "address": [buffer.address for buffer in buffers],
            "size": [buffer.bank_bytes for buffer in buffers],
            "total": [buffer.total_bytes for buffer in buffers],
            "made": [buffer.call for buffer in buffers],
            "between": [int(buffer.made_between) for buffer in buffers],
            "use": [buffer.last_use for buffer in buffers],
            "freed": [buffer.freed for buffer in buffers],
            "freedBetween": [int(buffer.freed_between) for buffer in buffers],
            "tensor": [self._text(buffer.tensor) for buffer in buffers],
            "device": [buffer.device for buffer in buffers],
            "stack": [self._maker(buffer) for buffer in buffers],
            "by": [self._text(self._made_by(buffer)) for buffer in buffers],
        }

    def _maker(self, buffer: Buffer) -> int:
        calls = self._profile.calls
        return self._stacks.number(calls[buffer.call].stack) if buffer.call < len(calls) else -1

    def _made_by(self, buffer: Buffer) -> str:
        calls = self._profile.calls
        return calls[buffer.call].name if buffer.call < len(calls) else ""

    def _resident(self, buffers: Iterable[Buffer]) -> list[int]:
        return [self._places[id(buffer)] for buffer in buffers]

    def _failure(self, call: Call | None) -> dict[str, Any] | None:
        if call is None:
            return None
        explained = explain(self._profile)
        return {
            "call": call.number,
            "outOfMemory": call.is_out_of_memory,
            "sentence": sentence(call.verdict) if call.verdict else "",
            "message": ": ".join(call.error or ()),
            "resident": self._resident(call.resident),
            "explained": explained and self._explanation(explained),
            "tried": self._profile.tried.text() if self._profile.tried else [],
        }

    def _explanation(self, failure: Failure) -> dict[str, Any]:
        return {
            "memory": failure.memory or "l1",
            "need": failure.need_bytes,
            "free": failure.free_bytes,
            "largest": failure.largest_free_bytes,
            "programEnd": failure.program_end,
            "lowest": failure.lowest_tensor,
            "missing": failure.missing_bytes,
            "roles": [[self._places[id(one.buffer)], self._text(one.role.value)] for one in failure.residents],
            "least": self._resident(one.buffer for one in failure.least),
            "whyNone": failure.why_none,
            "wentOn": failure.went_on,
        }

    def _finding(self, finding: Finding) -> dict[str, Any]:
        return {
            "kind": finding.kind.value,
            "memory": finding.memory,
            "size": finding.bank_bytes,
            "site": self._sites.number(finding.site) if finding.site else None,
            "sites": [[what, self._sites.number(site)] for what, site in finding.sites],
            "before": finding.before_bytes,
            "after": finding.after_bytes,
            "title": finding.title,
            "proof": finding.proof,
            "calls": finding.calls[:FINDING_CALLS],
            "count": len(finding.calls),
        }

    def _set(self, tensors: Iterable[Tensor]) -> int:
        return self._tensors.number(tuple(self._text(_described(tensor)) for tensor in tensors))

    def _text(self, text: str) -> int:
        return self._texts.number(text)


def _described(tensor: Tensor) -> str:
    spec = tensor.spec
    shard = f", shards of {'x'.join(map(str, spec.shard[0]))} on {spec.shard[1]}" if spec.shard else ""
    return f"{spec}, {spec.memory or 'host'}{shard}"
