"""What changed from one profile to another call by call. Bytes are per bank."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

from ssinghal.profile.model import Call, Profile, Spec

MEMORIES = ("dram", "l1", "l1_small", "trace")


class Change(NamedTuple):
    """A figure in the first profile and in the second; None where it is not known."""

    before: int | None
    after: int | None

    @property
    def difference(self) -> int:
        return (self.after or 0) - (self.before or 0)

    @property
    def is_one(self) -> bool:
        return self.before != self.after


@dataclass(frozen=True)
class CallFigures:
    """What one call did by itself. ``kept``, ``temporary``: what it allocated and did not free, or freed; per memory.

    ``programs``: name and program buffers of each, None where TTNN did not report them.
    """

    kept: Mapping[str, int]
    temporary: Mapping[str, int]
    programs: tuple[tuple[str, int | None], ...]
    results: tuple[Spec, ...]
    error: str

    @property
    def names(self) -> list[str]:
        """The programs that ran."""
        return [name for name, _ in self.programs]

    def programs_against(self, other: CallFigures) -> list[tuple[str, Change]]:
        """Returns the programs with other program buffers, of those that ran in both and are known in both."""
        if self.names != other.names:
            return []
        pairs = [(name, Change(one, two)) for (name, one), (_, two) in zip(self.programs, other.programs, strict=True)]
        return [(name, change) for name, change in pairs if None not in change and change.is_one]

    def is_as(self, other: CallFigures) -> bool:
        """Whether both did the same as far as it is known: buffers that one of them does not report may be equal."""
        rest = replace(self, programs=()) == replace(other, programs=())
        return rest and self.names == other.names and not self.programs_against(other)


@dataclass(frozen=True)
class CallChange:
    """A call that changed, or that one of the profiles does not make, with what it did."""

    before: Call | None
    after: Call | None
    did: tuple[CallFigures | None, CallFigures | None]

    @property
    def call(self) -> Call:
        found = self.after or self.before
        if found is None:
            raise ValueError("a change without a call")
        return found

    def kept(self, memory: str) -> Change:
        return Change(*(None if did is None else did.kept.get(memory, 0) for did in self.did))

    def temporary(self, memory: str) -> Change:
        return Change(*(None if did is None else did.temporary.get(memory, 0) for did in self.did))

    @property
    def programs(self) -> list[tuple[str, Change]]:
        """The programs with other program buffers."""
        one, other = self.did
        return [] if one is None or other is None else one.programs_against(other)

    @property
    def results(self) -> list[tuple[Spec, Spec]]:
        """The results that are placed or shaped in another way."""
        one, other = (() if did is None else did.results for did in self.did)
        return [(a, b) for a, b in zip(one, other, strict=False) if a != b]

    @property
    def weight(self) -> int:
        """How many bytes the change is about."""
        changes = [change(memory) for memory in MEMORIES for change in (self.kept, self.temporary)]
        return sum(abs(change.difference) for change in [*changes, *(change for _, change in self.programs)])


def call_changes(before: Profile, after: Profile, pairs: Iterable[tuple[Call | None, Call | None]]) -> list[CallChange]:
    """Returns the calls that changed, in order. ``pairs``: the calls of both that correspond."""
    left, right = _figures(before), _figures(after)
    changes = []
    for one, other in pairs:
        first = None if one is None else left[one.number]
        second = None if other is None else right[other.number]
        if first is None or second is None or not first.is_as(second):
            changes.append(CallChange(one, other, (first, second)))
    return changes


def _figures(profile: Profile) -> list[CallFigures]:
    """Returns what each call did."""
    kept: dict[int, Counter[str]] = defaultdict(Counter)
    temporary: dict[int, Counter[str]] = defaultdict(Counter)
    for buffer in profile.buffers:
        if not buffer.made_between:
            is_temporary = buffer.freed == buffer.call and not buffer.freed_between
            (temporary if is_temporary else kept)[buffer.call][buffer.memory] += buffer.bank_bytes
    return [
        CallFigures(
            kept.get(call.number, {}),
            temporary.get(call.number, {}),
            tuple((program.name, program.program_bytes) for program in call.programs),
            tuple(tensor.spec._replace(config="") for tensor in call.results),
            call.error[0] if call.error else "",
        )
        for call in profile.calls
    ]
