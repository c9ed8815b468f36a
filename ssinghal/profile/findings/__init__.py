"""Finds what a program could change to need less memory; each finding is proven on the recorded sequence of allocations."""

from __future__ import annotations

from ssinghal.profile.finding import Finding
from ssinghal.profile.findings import few_pages, fragmentation, late_free, program_buffers, region_size, resident
from ssinghal.profile.findings.basis import Basis
from ssinghal.profile.model import Profile


def find(profile: Profile) -> list[Finding]:
    """Returns the findings: those of a call that failed, then those that save most of their memory.

    None of a recording that is not exact: with calls of other threads, buffers on submeshes, or a difference from the
    allocator's view.
    """
    left_out = profile.others + profile.elsewhere + profile.unknown_frees + profile.unsized_frees
    if left_out or profile.differences:
        return []
    basis = Basis(profile)
    found = [*region_size.find(basis), *program_buffers.find(basis)]
    for history in basis.histories:
        leaks = resident.leaks(basis, history)
        found += resident.find(basis, history, leaks)
        found += late_free.find(basis, history, {id(buffer) for group in leaks for buffer in group})
        found += few_pages.find(basis, history)
        found += fragmentation.find(basis, history)
    return sorted(found, key=lambda one: (not _is_failure(profile, one), -_share(profile, one)))


def _is_failure(profile: Profile, finding: Finding) -> bool:
    return any(profile.calls[number].is_out_of_memory for number in finding.calls)


def _share(profile: Profile, finding: Finding) -> float:
    return finding.bank_bytes / max(1, profile.devices[finding.device].memories[finding.memory].bank_bytes)
