"""What changed from one profile to another: its peaks, the lines that hold them, and call by call. Bytes are per bank."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ssinghal.profile.alignment import aligned_calls, corresponding_sites, relative
from ssinghal.profile.call_changes import MEMORIES, CallChange, Change, call_changes
from ssinghal.profile.model import Profile, Site


class LineChange(NamedTuple):
    """What the buffers that calls of one name on one line made take of a memory at its peak. ``site``: of the second profile
    where it has that line."""

    memory: str
    name: str
    site: Site | None
    bank_bytes: Change


@dataclass(frozen=True)
class Comparison:
    """What changed from ``before`` to ``after``. ``calls``: those that changed, in order.

    ``peaks``: per memory. ``l1_and_programs``: the most of L1 that tensors took, by themselves or together with the program
    buffers of a program; at least that in a profile with unknown programs. ``l1_between``: the most of L1 between two calls.
    ``headroom``: the least in L1.
    """

    before: Profile
    after: Profile
    peaks: Mapping[str, Change]
    l1_and_programs: Change
    l1_between: Change
    headroom: Change
    lines: Sequence[LineChange]
    calls: Sequence[CallChange]

    @classmethod
    def of(cls, before: Profile, after: Profile) -> Comparison:
        pairs = aligned_calls(before, after)
        used = [memory for memory in MEMORIES if memory in before.peaks or memory in after.peaks]
        return cls(
            before,
            after,
            {memory: Change(_peak(before, memory), _peak(after, memory)) for memory in used},
            Change(before.l1_and_program_bytes, after.l1_and_program_bytes),
            Change(_l1_between(before), _l1_between(after)),
            Change(_headroom(before), _headroom(after)),
            _lines(before, after, used, corresponding_sites(pairs)),
            call_changes(before, after, pairs),
        )

    @property
    def failures(self) -> tuple[str, str]:
        """How each program failed, empty where it did not."""
        return _failure(self.before), _failure(self.after)

    @property
    def unknown_programs(self) -> Change:
        """How many runs of programs TTNN did not report: where there are any, figures with program buffers are lower bounds."""
        return Change(self.before.unknown_programs, self.after.unknown_programs)

    @property
    def is_equal(self) -> bool:
        changes = [*self.peaks.values(), self.l1_and_programs, self.l1_between, self.headroom]
        return not (self.calls or self.lines or any(change.is_one for change in changes) or len({*self.failures}) > 1)

    @property
    def counts(self) -> tuple[int, int, int]:
        """How many calls changed, and how many only the first profile makes, and the second."""
        removed = sum(change.after is None for change in self.calls)
        added = sum(change.before is None for change in self.calls)
        return len(self.calls) - removed - added, removed, added


def paired(before: Sequence[Profile], after: Sequence[Profile]) -> tuple[list[Comparison], list[Profile], list[Profile]]:
    """Compares the processes of two folders, those with the same arguments in order; a single process of each in any case.

    Returns the comparisons, and the processes that the first folder alone has, and the second.
    """
    if len(before) == len(after) == 1:
        return [Comparison.of(before[0], after[0])], [], []
    left: dict[tuple[str, ...], list[Profile]] = defaultdict(list)
    for one in before:
        left[_arguments(one)].append(one)
    comparisons, right = [], []
    for other in after:
        same = left[_arguments(other)]
        if same:
            comparisons.append(Comparison.of(same.pop(0), other))
        else:
            right.append(other)
    return comparisons, [one for rest in left.values() for one in rest], right


def _arguments(profile: Profile) -> tuple[str, ...]:
    return tuple(relative(profile, word) for word in profile.argv)


def _peak(profile: Profile, memory: str) -> int:
    return profile.peaks[memory].bank_bytes if memory in profile.peaks else 0


def _l1_between(profile: Profile) -> int:
    return max((call.after.get("l1", 0) for call in profile.calls), default=0)


def _headroom(profile: Profile) -> int | None:
    return None if profile.fullest is None else profile.fullest[1].headroom_bytes


def _failure(profile: Profile) -> str:
    if profile.failure is not None:
        return f"raised in {profile.failure.name}"
    if profile.unfinished is not None:
        return f"ended within {profile.unfinished.name}"
    if profile.lost:
        return "not recorded to the end"
    return "" if profile.ended else "did not end by itself"


def _lines(before: Profile, after: Profile, memories: Iterable[str], same: Mapping[Site, Site]) -> list[LineChange]:
    """Returns the lines that hold more or less at the peak of a memory, the largest change first."""
    changes = []
    for memory in memories:
        left, right = _by_line(before, memory), _by_line(after, memory)
        moved = Counter({(name, same.get(site, site) if site else None): size for (name, site), size in left.items()})
        for key in {**moved, **right}:
            if moved[key] != right[key]:
                changes.append(LineChange(memory, *key, Change(moved[key], right[key])))
    return sorted(changes, key=lambda change: -abs(change.bank_bytes.difference))


def _by_line(profile: Profile, memory: str) -> Counter[tuple[str, Site | None]]:
    sizes: Counter[tuple[str, Site | None]] = Counter()
    for buffer in profile.peaks[memory].resident if memory in profile.peaks else ():
        call = profile.calls[min(buffer.call, len(profile.calls) - 1)]
        sizes[call.name, call.site] += buffer.bank_bytes
    return sizes
