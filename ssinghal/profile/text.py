"""The summary of a profile for a terminal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from ssinghal.core.tensors import format_bytes
from ssinghal.core.verdict import sentence
from ssinghal.errors import LINE_LIMIT, cut
from ssinghal.profile.failure import explain
from ssinghal.profile.failure_text import failure_lines
from ssinghal.profile.finding import Finding
from ssinghal.profile.findings import find
from ssinghal.profile.model import Buffer, Call, Profile, is_at_most
from ssinghal.profile.names import MEMORY_NAMES, where

_SHOWN = 8


def summary(profile: Profile, findings: Sequence[Finding] | None = None) -> list[str]:
    """Returns the lines: peaks with the lines of the program that hold them, the fullest program, a failure, findings.

    ``findings``: those of ``find``, if they are known already."""
    lines = remarks(profile)
    for memory, peak in profile.peaks.items():
        lines.append(f"{MEMORY_NAMES[memory]}: peak {format_bytes(peak.bank_bytes)} in {where(peak.call)}")
        lines += _by_line(profile, peak.resident)
    if profile.fullest is not None:
        call, program = profile.fullest
        at_most = "at most " if is_at_most(profile) else ""
        size = "not reported" if program.program_bytes is None else format_bytes(program.program_bytes)
        lines.append(
            f"least headroom in L1: {at_most}{format_bytes(program.headroom_bytes)} in {where(call)}: "
            f"program buffers {size} of {program.name} below tensors of {format_bytes(program.l1_bytes)}"
        )
    lines += unknown_programs(profile)
    if profile.failure is not None:
        lines += _failure(profile, profile.failure)
    lines += _findings(find(profile) if findings is None else findings)
    lines.append(exactness(profile))
    return lines


def remarks(profile: Profile) -> list[str]:
    """Returns how much was recorded, how it ended, and what is part of no figure."""
    raised = f", {profile.raised:,} of them raised" if profile.raised else ""
    ended = "" if profile.ended or profile.lost else "; the process did not end by itself"
    lines = [f"{len(profile.calls):,} call{'s' if len(profile.calls) != 1 else ''} of TTNN{raised}{ended}"]
    if profile.unfinished is not None:
        lines.append(f"it ended within {where(profile.unfinished)}")
    if profile.lost:
        lines.append(f"the recording stopped before the program ended: {cut(profile.lost, LINE_LIMIT)}")
    if profile.others:
        lines.append(
            f"{profile.others:,} calls of other threads are not recorded; what they allocated is part of no figure here"
        )
    if profile.elsewhere:
        lines.append(
            f"{profile.elsewhere:,} buffers on other devices or on submeshes are not recorded, and part of no figure here"
        )
    if profile.skipped:
        lines.append(
            f"{profile.skipped:,} calls of traces and events were not passed on to TTNN, which would crash on a virtual device:"
            " what traces need of the trace region is not known"
        )
    if profile.unsized_frees:
        lines.append(
            f"{profile.unsized_frees:,} buffers from before the recording, whose sizes TTNN does not report, were freed;"
            " they are part of no figure here"
        )
    return lines


def unknown_programs(profile: Profile) -> list[str]:
    """Returns the line of how many programs had program buffers that are not known, if there are any."""
    if not profile.unknown_programs:
        return []
    return [f"program buffers: TTNN did not report those of {profile.unknown_programs:,} runs of programs; they count as 0 B"]


def _findings(found: Sequence[Finding]) -> list[str]:
    """Returns what each finding saves, its line and its proof."""
    lines = ["findings: what would save memory"] if found else []
    for one in found[:_SHOWN]:
        at = f", {one.site}" if one.site is not None else ""
        saved = f"{format_bytes(one.bank_bytes)} of {MEMORY_NAMES[one.memory]}: " if one.bank_bytes else ""
        lines += [f"  {saved}{one.title}{at}", f"    {one.proof}"]
    if len(found) > _SHOWN:
        lines.append(f"  {len(found) - _SHOWN:,} more")
    return lines


def _by_line(profile: Profile, buffers: Iterable[Buffer]) -> list[str]:
    """Returns the lines of the program that made most of the buffers."""
    sizes: Counter[str] = Counter()
    counts: Counter[str] = Counter()
    for buffer in buffers:
        before = "before " if buffer.made_between else ""
        maker = profile.calls[min(buffer.call, len(profile.calls) - 1)]
        line = "before the recording" if buffer.made_before else before + where(maker)
        sizes[line] += buffer.bank_bytes
        counts[line] += 1
    lines = [f"  {format_bytes(size):>28}  {counts[line]:>4} x  {line}" for line, size in sizes.most_common(_SHOWN)]
    rest = sizes.most_common()[_SHOWN:]
    if rest:
        lines.append(f"  {format_bytes(sum(size for _, size in rest)):>28}  of {len(rest)} more lines")
    return lines


def _failure(profile: Profile, call: Call) -> list[str]:
    explained = explain(profile)
    if explained is not None:
        tried = profile.tried.text() if profile.tried else []
        return [*failure_lines(explained), *(f"  {line}" for line in tried)]
    return [f"{where(call)} raised: {cut(sentence(call.verdict), LINE_LIMIT) if call.verdict else ''}"]


def exactness(profile: Profile) -> str:
    """Returns whether the buffers recorded are those that the allocator has, in one line."""
    if not profile.differences and not profile.unknown_frees:
        checked = f"0 B between the buffers recorded and the allocator's own view, in {profile.checks:,} checks after calls"
        return checked + _left_out_of_checks(profile)
    first = profile.differences[0] if profile.differences else None
    sizes = f", first {first.replayed_bytes:,} B against {first.allocator_bytes:,} B of {first.memory}" if first else ""
    at = f" in {where(profile.calls[first.call])}" if first else ""
    blame = "not exact, with calls of other threads in between" if profile.others else "a fault of this profiler"
    return (
        f"{blame}: {len(profile.differences):,} of {profile.checks:,} checks against the allocator differ"
        f"{sizes}{at}; {profile.unknown_frees:,} frees of unknown buffers"
    )


def _left_out_of_checks(profile: Profile) -> str:
    """Returns what the checks do not see: what other threads allocated is part of the allocator's view alone."""
    if not profile.others:
        return ""
    held = [f"{format_bytes(size)} of {MEMORY_NAMES[memory]}" for memory, size in profile.others_bytes.items()]
    seen = f"; the allocator held up to {', '.join(held)} more than was recorded" if held else ""
    return (
        f", which leave out what {profile.others:,} call{'s' if profile.others != 1 else ''} of other threads allocated{seen}"
    )
