"""Which calls of a program with very many the page shows.

Of each stretch of consecutive calls those with the most L1 and the most DRAM, and every call that a peak, a failure or a
finding names. Figures of calls that it shows are those of the complete profile.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ssinghal.profile.finding import Finding
from ssinghal.profile.model import Call, Profile, Span

FINDING_CALLS = 100  # that a page names of each finding


def shown_calls(profile: Profile, findings: Sequence[Finding], limit: int) -> Sequence[int]:
    """Returns the numbers of the calls that a page shows: all, or two of each of ``limit / 2`` stretches and those that
    something names."""
    calls = profile.calls
    if len(calls) <= limit:
        return range(len(calls))
    step = -(-2 * len(calls) // limit)
    shown = set(_named(profile, findings))
    for start in range(0, len(calls), step):
        stretch = calls[start : start + step]
        shown.add(max(stretch, key=_l1_bytes).number)
        shown.add(max(stretch, key=lambda call: call.peak.get("dram", 0)).number)
    return sorted(shown)


def _named(profile: Profile, findings: Sequence[Finding]) -> Iterable[int]:
    owners: list[Profile | Span] = [profile, *profile.spans]
    for owner in owners:
        yield from (peak.call.number for peak in owner.peaks.values())
        yield from ([owner.fullest[0].number] if owner.fullest else [])
    yield from ([profile.failure.number] if profile.failure else [])
    yield from (number for finding in findings for number in finding.calls[:FINDING_CALLS])
    yield from (device.first_call for device in profile.devices if device.first_call < len(profile.calls))


def _l1_bytes(call: Call) -> int:
    return max(call.peak.get("l1", 0), full_bytes(call) or 0)


def full_bytes(call: Call) -> int | None:
    """Returns the most of tensors and program buffers together, of the programs whose buffers TTNN reported."""
    return max(
        (program.l1_bytes + program.program_bytes for program in call.programs if program.program_bytes is not None),
        default=None,
    )
