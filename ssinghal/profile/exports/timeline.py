"""The allocations and frees of a profile in the order in which they happened, call by call."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

from ssinghal.profile.model import Buffer, Call, Profile


class Event(NamedTuple):
    buffer: Buffer
    is_allocation: bool


class Step(NamedTuple):
    """A call, with what happened ``between`` the one before and it, and ``within`` it. After the last call there is no call."""

    call: Call | None
    between: tuple[Event, ...]
    within: tuple[Event, ...]


def steps(profile: Profile) -> Iterator[Step]:
    """Yields each call, and then what happened after the last one. The end of a device frees what is left on it."""
    order: list[tuple[int, float, int, bool, Event]] = []  # device, time, number of the call, whether before it
    for buffer in profile.buffers:
        made = Event(buffer, is_allocation=True)
        order.append((buffer.device, buffer.made_at, buffer.call, buffer.made_between, made))
        freed = made._replace(is_allocation=False)
        if buffer.freed is not None and buffer.freed_at is not None:
            order.append((buffer.device, buffer.freed_at, buffer.freed, buffer.freed_between, freed))
        elif buffer.device + 1 < len(profile.devices):
            order.append((buffer.device, math.inf, profile.devices[buffer.device + 1].first_call, True, freed))
    order.sort(key=lambda row: row[:2])
    grouped: list[tuple[list[Event], list[Event]]] = [([], []) for _ in range(len(profile.calls) + 1)]
    for _, _, number, is_before, event in order:
        between, within = grouped[min(number, len(profile.calls))]
        (between if is_before else within).append(event)
    for call, (between, within) in zip([*profile.calls, None], grouped, strict=True):
        yield Step(call, tuple(between), tuple(within))
