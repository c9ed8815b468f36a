"""The known builds of TTNN, and what in a message points to some of them: a DRAM bank, a source line, words, a date."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from ssinghal.core.verdict import Resource, Verdict
from ssinghal.diagnose.chips import LEAST_BASE


@dataclass(frozen=True)
class KnownBuild:
    """Releases, or builds between them, that reserve the same bytes at the bottom of an L1; None where unknown.

    ``wheels``: the first and the last of the releases. ``month``: of the builds. ``releases``: those that open a virtual board
    and check all that a card does. ``measured``: on a virtual board, else derived from users' reports. ``since``: the month
    ("2025-11") when such builds cannot have existed before; the one before them was seen in it.
    """

    wheels: tuple[str, ...]
    month: str
    wormhole_base: int | None = None
    blackhole_base: int | None = None
    releases: tuple[str, ...] = ()
    measured: bool = True
    since: str = ""

    @property
    def name(self) -> str:
        if not self.wheels:
            return self.first
        return " to ".join(self.wheels) + (f" (or builds of {self.month})" if self.month else "")

    @property
    def first(self) -> str:
        return self.wheels[0] if self.wheels else f"builds {self.month}"

    @property
    def last(self) -> str:
        return self.wheels[-1] if self.wheels else f"builds {self.month}"

    def base_bytes(self, arch: str) -> int | None:
        return {"wormhole_b0": self.wormhole_base, "blackhole": self.blackhole_base}.get(arch)


# Oldest first. Wormhole: L1 end - L1 bank of a board opened without an L1_SMALL region. Blackhole: of 0.66.0, 0.75.0, 0.80.0
# and 0.81.1. Builds before and after are possible, but what they reserve is not known.
OLDER = KnownBuild((), "before December 2025")
NEWER = KnownBuild((), "after 0.81.1", since="2026-06")
BUILDS = (
    OLDER,
    KnownBuild((), "of December 2025", 102_656, measured=False, since="2025-11"),
    KnownBuild(("0.66.0",), "January 2026", 103_552, 105_280, ("0.66.0",), since="2025-12"),
    KnownBuild(("0.67.0", "0.70.1"), "March 2026", 103_712, since="2026-01"),
    KnownBuild((), "of May 2026", 103_744, measured=False, since="2026-03"),
    KnownBuild(("0.72.0",), "", 103_840, since="2026-03"),
    KnownBuild((), "of June 2026", 104_224, measured=False, since="2026-05"),
    KnownBuild(("0.74.0", "0.75.0"), "", 105_536, 111_360, ("0.75.0",), since="2026-06"),
    KnownBuild(("0.76.0",), "", 105_664, None, ("0.76.0",), since="2026-06"),
    KnownBuild(("0.78.0", "0.80.0"), "", 105_696, 111_616, ("0.78.0", "0.80.0"), since="2026-06"),
    KnownBuild(("0.81.1",), "", 105_824, 111_744, ("0.81.1",), since="2026-06"),
    NEWER,
)
ALL = frozenset(range(len(BUILDS)))
_AT = {wheel: at for at, build in enumerate(BUILDS) for wheel in build.wheels} | {"0.79.0": 9}
_BASES = {build.wormhole_base: at for at, build in enumerate(BUILDS)}


def least_base(at: int, arch: str) -> int:
    """Returns the minimum that the build at that position of ``BUILDS`` reserves: newer builds never reserved less."""
    known = [base for build in BUILDS[: at + 1] if (base := build.base_bytes(arch)) is not None]
    return known[-1] if known else LEAST_BASE


@dataclass(frozen=True)
class Clue:
    """What in a message shows that it is of some of ``BUILDS`` (their positions): ``by`` what, in words.

    ``is_weak``: it is easily lost in a copy, and so contradicts nothing.
    """

    allowed: frozenset[int]
    by: str
    is_weak: bool = False


def between(first: int | None, last: int | None) -> frozenset[int]:
    """Returns the builds from one to another, both given by their base on a Wormhole; None for no limit."""
    start = _BASES[first] if first is not None else 0
    return frozenset(range(start, _BASES[last] + 1 if last is not None else len(BUILDS)))


def in_words(positions: Sequence[int]) -> str:
    """Returns the first and the last of consecutive builds, else each; ``positions`` are in the order of ``BUILDS``."""
    builds = [BUILDS[at] for at in positions]
    first, last = builds[0], builds[-1]
    if len(builds) == 1 and first in (OLDER, NEWER):
        return f"a build {first.month}"
    if len(builds) == 1 or list(positions) != list(range(positions[0], positions[-1] + 1)):
        return f"points to {', or '.join(build.name for build in builds)}"
    if first is OLDER:
        return f"up to {last.last}"
    return f"from {first.first} on" if last is NEWER else f"from {first.first} to {last.last}"


# DRAM banks ---------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class DramBank:
    """A complete DRAM bank of ``builds``, those of ``BUILDS`` from ``first`` to ``last`` (by their base on a Wormhole).

    ``trace_per_bank``: ``trace_region_size`` is taken from each bank, else it is the total of all banks.
    """

    arch: str
    bank_bytes: int
    builds: str
    first: int | None
    last: int | None
    trace_per_bank: bool


DRAM_BANKS = (
    DramBank("wormhole_b0", 1_073_741_792, "0.66 and 0.67", None, 103_712, True),
    DramBank("wormhole_b0", 1_072_693_184, "0.75.0 and later", 105_536, None, False),
    DramBank("blackhole", 4_278_190_016, "0.66.0", None, 103_712, True),
    DramBank("blackhole", 4_277_141_376, "0.75.0 and later", 105_536, None, False),
)


@dataclass(frozen=True)
class TraceRegion:
    """A DRAM bank's size, read as a complete bank less a trace region of ``region_bytes``."""

    bank: DramBank
    region_bytes: int

    @property
    def allowed(self) -> frozenset[int]:
        return between(self.bank.first, self.bank.last)

    def line(self) -> str:
        complete = f"a complete DRAM bank of {self.bank.builds} has {self.bank.bank_bytes:,} B"
        if not self.region_bytes:
            return f"trace region: none, {complete}"
        taken = "taken from each bank" if self.bank.trace_per_bank else "taken from all banks together"
        return f"trace region: points to trace_region_size {self.region_bytes:,}, {taken}; {complete}"


def trace_regions(bank_bytes: int | None, banks: int | None, arches: Sequence[str]) -> Iterator[TraceRegion]:
    """Yields the regions of a size that someone would request: multiples of 1000 or of a KiB. Others show nothing."""
    if bank_bytes is None or banks is None:
        return
    for bank in DRAM_BANKS:
        missing = bank.bank_bytes - bank_bytes
        region = missing if bank.trace_per_bank else missing * banks
        is_round = region % 1000 == 0 or region % 1024 == 0
        if bank.arch in arches and 0 <= missing < bank.bank_bytes // 4 and is_round:
            yield TraceRegion(bank, region)


# Clues --------------------------------------------------------------------------------------------------------------------

# A wording (a regular expression), and the first and last build (by reserved base) that were seen to use it.
_WORDINGS = (
    (r"\[\(x=", None, 103_712, "core ranges are written [(x=7,y=6) - (x=7,y=6)]"),
    (r" cores? (?:range )?\[\d+-\d+(?: - \d+-\d+)?[\],]", 103_744, None, "core ranges are written [0-0 - 7-7]"),
    ("Statically allocated dataflow buffers", 105_664, None, "program buffers are called dataflow buffers"),
    ("required DFB ", 105_696, None, "program buffers are called DFB"),
    ("required CB ", 103_840, 105_664, "program buffers are called CB"),
)
_NO_PERIOD, _PERIOD = (None, 105_696), (105_824, None)  # after the numbers of a buffer that does not fit

# The lines from which releases throw, measured on virtual boards. A file grows, so other builds throw from lines between.
_BEYOND_L1 = {"0.66.0": 908, "0.75.0": 1555, "0.76.0": 1706, "0.78.0": 1875, "0.80.0": 2470, "0.81.1": 2567}
_CLASH = {"0.66.0": 917, "0.75.0": 1612, "0.76.0": 1763, "0.78.0": 1932, "0.80.0": 2527, "0.81.1": 2624}
_DATAFLOW_BEYOND_L1 = {"0.76.0": 2509, "0.78.0": 2604, "0.79.0": 2682, "0.80.0": 2695, "0.81.1": 3087}
_DATAFLOW_CLASH = {wheel: line + 9 for wheel, line in _DATAFLOW_BEYOND_L1.items()}
_BUFFER = {"0.66.0": 434, "0.75.0": 462, "0.76.0": 462, "0.78.0": 462, "0.79.0": 495, "0.80.0": 495, "0.81.1": 514}
_LINES = {
    ("program.cpp", Resource.CIRCULAR_BUFFER): _BEYOND_L1,
    ("program.cpp", Resource.CLASH): _CLASH,
    ("dataflow_buffer.cpp", Resource.CIRCULAR_BUFFER): _DATAFLOW_BEYOND_L1,
    ("dataflow_buffer.cpp", Resource.CLASH): _DATAFLOW_CLASH,
    **dict.fromkeys((("bank_manager.cpp", r) for r in (Resource.L1_BUFFER, Resource.DRAM_BUFFER, Resource.L1_SMALL_BUFFER,
                                                       Resource.FRAGMENTATION)), _BUFFER),
}  # fmt: skip
_THROWN = re.compile(r"(?<![\w.])(program\.cpp|dataflow_buffer\.cpp|bank_manager\.cpp|allocator\.cpp):(\d{1,6})(?!\d)")


def clues(verdict: Verdict, regions: Sequence[TraceRegion], dated: str) -> Iterator[Clue]:
    """Yields what points to builds, the strongest first. ``dated``: the month of the log, "2025-11"; "" where unknown."""
    if regions:
        yield Clue(frozenset().union(*(region.allowed for region in regions)), "the size of a DRAM bank")
    yield from _by_line(verdict)
    worded = [(between(start, end), what) for mark, start, end, what in _WORDINGS if re.search(mark, verdict.message)]
    if worded:
        yield Clue(frozenset.intersection(*(w for w, _ in worded)), f"its wording: {', '.join(what for _, what in worded)}")
    if verdict.largest_free_bytes is not None and verdict.message.endswith(" B)"):
        yield Clue(between(*_NO_PERIOD), "its wording: no period after the numbers", is_weak=True)
    elif verdict.largest_free_bytes is not None and " B)." in verdict.message:
        yield Clue(between(*_PERIOD), "its wording: a period after the numbers")
    before = frozenset(at for at, build in enumerate(BUILDS) if build.since <= dated)
    if dated and before != ALL:
        yield Clue(before, f"the date of the log, {dated}")


def _by_line(verdict: Verdict) -> Iterator[Clue]:
    """Yields the builds that can have thrown the message from its line of source."""
    thrown = _THROWN.search(verdict.thrown_at) or _THROWN.search(verdict.message)
    if thrown is None or verdict.resource is None:
        return
    file, line = thrown[1], int(thrown[2])
    if file == "allocator.cpp":  # in reports of 2024 and 2025
        yield Clue(frozenset({0}), f"{thrown[0]}, from where known builds do not throw")
        return
    known = _LINES.get((file, verdict.resource), {})
    if not known:
        return
    below = [wheel for wheel, at in known.items() if at < line]
    above = [wheel for wheel, at in known.items() if at > line]
    equal = [_AT[wheel] for wheel, at in known.items() if at == line]
    first = _AT[below[-1]] if below else 0
    last = _AT[above[0]] if above else len(BUILDS) - 1
    inner = frozenset(range(first + bool(below), last + (not above))) | frozenset(equal)
    yield Clue(inner or frozenset({first, last}), f"{thrown[0]}, {_beside(line, known)}")


def _beside(line: int, known: Mapping[str, int]) -> str:
    if equal := [wheel for wheel, at in known.items() if at == line]:
        return f"the line of {' and '.join(equal)}"
    below = [f"line {at} of {wheel}" for wheel, at in known.items() if at < line]
    above = [f"line {at} of {wheel}" for wheel, at in known.items() if at > line]
    if below and above:
        return f"between {below[-1]} and {above[0]}"
    return f"before {above[0]}" if above else f"after {below[-1]}"
