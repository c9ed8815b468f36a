"""What is resident when: against a replay that copies everything after each change."""

from __future__ import annotations

import random

import pytest

from ssinghal.profile.model import Call
from ssinghal.profile.replay import replay
from tests.profile.test_replay import HEADER, call, span

TOP = 9_000


def events_and_copies(generator, count):
    """Random allocations and frees, and what was resident after each: address -> bytes."""
    live, events, copies = {}, [], []
    for _ in range(count):
        if live and generator.random() < 0.45:
            address = generator.choice(sorted(live))
            del live[address]
            events.append(["-", "l1", address])
        else:
            address = generator.choice([a for a in range(1_000, TOP, 100) if a not in live])
            live[address] = generator.randint(1, 3) * 32
            events.append(["+", "l1", address, live[address], 9])
        copies.append(dict(live))
    return events, copies


@pytest.mark.parametrize("seed", range(20))
def test_peaks_of_the_program_and_of_its_parts(seed):
    generator = random.Random(seed)
    events, copies = events_and_copies(generator, 60)
    records, ends, at = [], [], 0
    while at < len(events):
        if generator.random() < 0.3:
            records.append(span(f"part {at}"))
            ends.append(at)
        size = generator.randint(1, 4)
        taken, at = events[at : at + size], min(at + size, len(events))
        records.append(call(taken, sum(copies[at - 1].values())))
    profile = replay([*HEADER, *records])
    assert not profile.differences
    assert resident(profile.peaks["l1"]) == first_largest(copies)
    for part, begin, end in zip(profile.spans, ends, [*ends[1:], len(events)], strict=True):
        first = copies[begin - 1 : begin] if begin else []
        assert resident(part.peaks["l1"]) == first_largest([*first, *copies[begin:end]])


def resident(peak):
    assert sum(buffer.bank_bytes for buffer in peak.resident) == peak.bank_bytes
    assert [buffer.made_at for buffer in peak.resident] == sorted(buffer.made_at for buffer in peak.resident)
    return {buffer.address: buffer.bank_bytes for buffer in peak.resident}


def first_largest(copies):
    return max(copies, key=lambda live: sum(live.values()))


@pytest.mark.parametrize("seed", range(10))
def test_the_lowest_buffer_limits_program_buffers(seed):
    generator = random.Random(seed)
    events, copies = events_and_copies(generator, 80)
    with_programs = [one for event in events for one in (event, ["p", "Program", 10, "measured"])]
    profile = replay([*HEADER, call(with_programs, sum(copies[-1].values()))])
    programs = profile.calls[0].programs
    assert [p.headroom_bytes for p in programs] == [min(live, default=TOP) - 1_000 - 10 for live in copies]


def test_equal_calls_share_what_they_are_made_of():
    """10^6 calls are to be readable: what a call has besides its own record is one object for all of them."""
    events = [["+", "l1", 8_000, 1_000, 64_000], ["p", "Program", 10, "memo"], ["-", "l1", 8_000]]
    first, *others = replay([*HEADER, *[call(events, 0) for _ in range(5)]]).calls
    for field in ("name", "stack", "peak", "after", "largest_free", "programs", "operands", "results"):
        assert {id(getattr(one, field)) for one in others} == {id(getattr(first, field))}, field
    assert isinstance(first, Call)
    assert (first.peak, first.after, first.operands) == ({"l1": 1_000}, {"l1": 0}, ())


def test_a_replay_can_be_read_while_it_goes_on():
    """What was resident at a peak stays true when some of it is freed later."""
    from ssinghal.profile.replay import Replay

    state = Replay()
    for record in [*HEADER, call([["+", "l1", 8_000, 1_000, 9], ["+", "l1", 7_000, 500, 9]], 1_500)]:
        state.read(record)
    assert resident(state.profile.peaks["l1"]) == {8_000: 1_000, 7_000: 500}
    state.read(call([["-", "l1", 8_000]], 500))
    state.read(call([["+", "l1", 6_000, 1_200, 9]], 1_700))
    state.read({"k": "start", "n": 3, "name": "ttnn.relu", "stack": 0})
    assert state.profile.unfinished.name == "ttnn.relu"
    assert resident(state.profile.peaks["l1"]) == {7_000: 500, 6_000: 1_200}
