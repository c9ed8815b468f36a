"""What all findings of a profile are made from."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field

from ssinghal.core.tensors import format_bytes
from ssinghal.profile.findings.history import History, changes, end_call, histories
from ssinghal.profile.findings.uses import Use, Uses
from ssinghal.profile.model import Buffer, Call, Profile, Site
from ssinghal.profile.names import MEMORY_NAMES

OF_PEAK = 64  # a change that lowers a peak by less than this part of it is none to report
OF_BANK = 256  # nor one that saves less than this part of a bank, where a program may be as small as it likes


@dataclass
class Basis:
    """A profile, the history of each of its memories, and the uses of its buffers."""

    profile: Profile
    histories: Sequence[History] = field(init=False)
    uses: Uses = field(init=False)

    def __post_init__(self) -> None:
        ordered = changes(self.profile)
        self.histories = histories(self.profile.devices, ordered)
        self.uses = Uses(self.profile, ordered)
        self._raised = [call.number for call in self.profile.calls if call.error is not None]

    def maker(self, buffer: Buffer) -> Call | None:
        """Returns the call that made a buffer; None if it was made between calls."""
        return None if buffer.made_between else self.profile.calls[buffer.call]

    def is_resident(self, buffer: Buffer) -> bool:
        """Whether a buffer was there after the last call on its device."""
        return buffer.freed is None or (buffer.freed_between and buffer.freed >= end_call(self.profile, buffer.device))

    def is_cut(self, device: int) -> bool:
        """Whether the recording ended before the program was done with a device: what it needed later is unknown."""
        end = end_call(self.profile, device)
        has_raised = end > self.profile.devices[device].first_call and self.profile.calls[end - 1].error is not None
        is_last = device == len(self.profile.devices) - 1
        return has_raised or (is_last and (self.profile.is_part or not self.profile.ended or bool(self.profile.lost)))

    def is_last_use_known(self, buffer: Buffer, use: Use) -> bool:
        """Whether an exception or the end of the recording cannot have cut off a later use. Not known of a buffer from before
        the recording."""
        if buffer.made_between and buffer.call == self.profile.devices[buffer.device].first_call:
            return False
        if self.is_resident(buffer) and self.is_cut(buffer.device):
            return False
        raised = bisect_left(self._raised, use.last)
        end = end_call(self.profile, buffer.device) if buffer.freed is None else buffer.freed
        return raised == len(self._raised) or self._raised[raised] > end

    def is_parameter(self, buffer: Buffer, use: Use) -> bool:
        """Whether a buffer is for later passes too, as weights are, though this program made no more of them.

        Not if the program deallocated it.
        """
        if buffer.freed is not None and not buffer.freed_between:
            return False
        return use.is_prepared or (use.is_given and (use.is_beside or (use.is_reused and self.is_resident(buffer))))


def memory_name(memory: str) -> str:
    return MEMORY_NAMES[memory]


def instead(before_bytes: int, after_bytes: int) -> str:
    return f"{format_bytes(after_bytes)} instead of {format_bytes(before_bytes)}"


def labelled(*sites: tuple[str, Call | None]) -> tuple[tuple[str, Site], ...]:
    """Returns the lines of calls, each with what happened there, and after it the line that called its function."""
    return tuple(
        (label if depth == 0 else "called from", site)
        for label, call in sites
        if call is not None
        for depth, site in enumerate(call.stack[:2])
    )
