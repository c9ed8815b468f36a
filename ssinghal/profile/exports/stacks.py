"""The stacks of the program that hold a memory at its peak, with their bytes: what collapsed stacks and speedscope show."""

from __future__ import annotations

from collections import Counter

from ssinghal.errors import printable
from ssinghal.profile.alignment import relative
from ssinghal.profile.model import Buffer, Profile

Frame = tuple[str, str, int]  # function, file and line; for the call of TTNN itself its name, and neither


def peak_stacks(profile: Profile, memory: str) -> Counter[tuple[Frame, ...]]:
    """Returns the bytes per bank at the peak of a memory by stack, outermost frame first; their sum is that peak."""
    sizes: Counter[tuple[Frame, ...]] = Counter()
    for buffer in profile.peaks[memory].resident if memory in profile.peaks else ():
        sizes[stack_of(profile, buffer)] += buffer.bank_bytes
    return sizes


def stack_of(profile: Profile, buffer: Buffer) -> tuple[Frame, ...]:
    """Returns the stack that made a buffer, outermost frame first. What was made between two calls is of the earlier line."""
    if not profile.calls:
        return (("unknown", "", 0),)
    call = profile.calls[min(buffer.call, len(profile.calls) - 1)]
    frames = [(printable(site.function), printable(relative(profile, site.file)), site.line) for site in reversed(call.stack)]
    return (*frames, (f"before {call.name}" if buffer.made_between else call.name, "", 0))
