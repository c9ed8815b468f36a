"""What builds reserve at the bottom of an L1: which of them leave the free L1, or have the addresses, of a message."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ssinghal.core.verdict import Verdict
from ssinghal.diagnose.builds import BUILDS, KnownBuild, least_base
from ssinghal.diagnose.chips import L1_ENDS

MAX_L1_SMALL = 256 * 1024
L1_SMALL_STEP = 8 * 1024
USUAL_L1_SMALL = frozenset({1024, 2048, 4096, 79_104})  # requested by demos and tests, in addition to multiples of the step
# Around the reserved bases of known builds (102,656 to 105,824 and 105,280 to 111,744) and those that reports of 2025 imply
# (101,440 and 103,040). A base is a multiple of the granule that L1 is allocated in.
UNKNOWN_BASES = {"wormhole_b0": range(100_000, 106_500, 32), "blackhole": range(102_016, 112_512, 64)}


@dataclass(frozen=True)
class BuildMatch:
    """A build that fits the numbers, with its reserved base, and the L1_SMALL region that a number implies.

    ``build``: None for one that is not known, but whose base the numbers imply.
    """

    arch: str
    build: KnownBuild | None
    base_bytes: int | None
    l1_small_bytes: int | None = None

    @property
    def name(self) -> str:
        return self.build.name if self.build else f"unknown, with a reserved base of {self.base_bytes:,} B"

    @property
    def positions(self) -> range:
        """Among ``BUILDS``; an unknown build is between those with the next smaller and the next larger base."""
        if self.build is not None:
            return range(at := BUILDS.index(self.build), at + 1)
        bases = [(at, base) for at, build in enumerate(BUILDS) if (base := build.base_bytes(self.arch)) is not None]
        smaller = [at for at, base in bases if base < (self.base_bytes or 0)]
        larger = [at for at, base in bases if base > (self.base_bytes or 0)]
        return range(smaller[-1] if smaller else 0, larger[0] + 1 if larger else len(BUILDS))

    def is_in(self, allowed: frozenset[int]) -> bool:
        return not allowed.isdisjoint(self.positions)

    def between(self) -> str:
        """Returns where the base of an unknown build lies, in words."""
        known = [build for build in BUILDS if build.base_bytes(self.arch) is not None]
        smaller = [build for build in known if (build.base_bytes(self.arch) or 0) < (self.base_bytes or 0)]
        larger = [build for build in known if (build.base_bytes(self.arch) or 0) > (self.base_bytes or 0)]
        if not smaller:
            return f"below {larger[0].base_bytes(self.arch):,} B, the smallest that is known ({larger[0].first})"
        return f"between those of {smaller[-1].name} and {larger[0].name}" if larger else f"above that of {smaller[-1].name}"


def matches_of(verdict: Verdict, arches: Sequence[str], free_l1: int | None) -> tuple[BuildMatch, ...]:
    """Returns the builds whose reserved base, with a usual L1_SMALL region, leaves the free L1 of the message: known ones,
    else unknown ones with a base like theirs. Where it lacks that number, the builds that reserve less than its addresses."""
    if free_l1 is None:
        lowest = min(verdict.tensor_address or max(L1_ENDS.values()), (verdict.program_bytes or max(L1_ENDS.values())) - 1)
        of_arch = [(arch, at) for arch in arches for at in range(1 if arch == "grayskull" else len(BUILDS))]
        possible = [(arch, BUILDS[at]) for arch, at in of_arch if least_base(at, arch) <= lowest]
        return tuple(BuildMatch(arch, build, build.base_bytes(arch)) for arch, build in possible)
    known = [(arch, build, base) for arch in arches for build in BUILDS if (base := build.base_bytes(arch)) is not None]
    sized = [BuildMatch(arch, build, base, L1_ENDS[arch] - base - free_l1) for arch, build, base in known]
    return tuple(match for match in sized if _is_usual(match.l1_small_bytes)) or tuple(_unknown_matches(arches, free_l1))


def _unknown_matches(arches: Sequence[str], free_l1: int) -> Iterator[BuildMatch]:
    for arch in arches:
        for size in range(0, MAX_L1_SMALL + 1, L1_SMALL_STEP):
            base = L1_ENDS[arch] - free_l1 - size
            if base in UNKNOWN_BASES.get(arch, ()):
                yield BuildMatch(arch, None, base, size)


def _is_usual(l1_small_bytes: int | None) -> bool:
    if l1_small_bytes is None or l1_small_bytes < 0:
        return False
    return l1_small_bytes in USUAL_L1_SMALL or (l1_small_bytes <= MAX_L1_SMALL and l1_small_bytes % L1_SMALL_STEP == 0)
