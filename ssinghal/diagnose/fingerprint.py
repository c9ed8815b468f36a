"""Infers the board and the builds of TTNN that the numbers of a failure point to.

What a build keeps at the bottom of each L1 (the reserved base), the size of a DRAM bank and the wording date it. They point to
a build but do not prove it: all that fit are listed, none where none is known.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from ssinghal.core.boards import load_board
from ssinghal.core.record import L1_END_BYTES, Resource, Verdict
from ssinghal.core.tensors import Board, BufferType, MemoryRegion

MAX_NAMED = 3  # more point to nothing
L1_ENDS = {"wormhole_b0": 1_499_136, "blackhole": 1_572_864}
_ARCH_NAMES = {"wormhole_b0": "a Wormhole chip (n150, n300, …)", "blackhole": "a Blackhole chip (p100, p150, …)"}

Core = tuple[int, int]


@dataclass(frozen=True)
class KnownBuild:
    """Releases, or builds between them, that reserve the same bytes at the bottom of an L1; None where unknown.

    ``wheels``: the first and the last of the releases. ``month``: of the builds. ``releases``: those that open a virtual board
    and check all that a card does. ``measured``: on a virtual board, else derived from users' reports.
    """

    wheels: tuple[str, ...]
    month: str
    wormhole_base: int
    blackhole_base: int | None = None
    releases: tuple[str, ...] = ()
    measured: bool = True

    @property
    def name(self) -> str:
        if not self.wheels:
            return self.first
        return " to ".join(self.wheels) + (f" (or builds of {self.month})" if self.month else "")

    @property
    def first(self) -> str:
        return self.wheels[0] if self.wheels else f"builds of {self.month}"

    @property
    def last(self) -> str:
        return self.wheels[-1] if self.wheels else f"builds of {self.month}"

    def base_bytes(self, arch: str) -> int | None:
        return {"wormhole_b0": self.wormhole_base, "blackhole": self.blackhole_base}.get(arch)


# Oldest first. Wormhole: L1 end - L1 bank of a board opened without an L1_SMALL region. Blackhole: of 0.66.0, 0.75.0, 0.80.0
# and 0.81.1.
BUILDS = (
    KnownBuild((), "December 2025", 102_656, measured=False),
    KnownBuild(("0.66.0",), "January 2026", 103_552, 105_280, ("0.66.0",)),
    KnownBuild(("0.67.0", "0.70.1"), "March 2026", 103_712),
    KnownBuild((), "May 2026", 103_744, measured=False),
    KnownBuild(("0.72.0",), "", 103_840),
    KnownBuild((), "June 2026", 104_224, measured=False),
    KnownBuild(("0.74.0", "0.75.0"), "", 105_536, 111_360, ("0.75.0",)),
    KnownBuild(("0.76.0",), "", 105_664, None, ("0.76.0",)),
    KnownBuild(("0.78.0", "0.80.0"), "", 105_696, 111_616, ("0.78.0", "0.80.0")),
    KnownBuild(("0.81.1",), "", 105_824, 111_744, ("0.81.1",)),
)
_BASES = {build.wormhole_base: i for i, build in enumerate(BUILDS)}

# A wording, and the first and last build (by reserved base) that were seen to use it.
_WORDINGS = (
    ("[(x=", None, 103_712, "core ranges are written [(x=7,y=6) - (x=7,y=6)]"),
    ("on core range [0-0 ", 103_744, None, "core ranges are written [0-0 - 7-7]"),
    ("Statically allocated dataflow buffers", 105_664, None, "program buffers are called dataflow buffers"),
    ("required DFB ", 105_696, None, "program buffers are called DFB"),
    ("required CB ", 103_840, 105_664, "program buffers are called CB"),
)
_NO_PERIOD, _PERIOD = (None, 105_696), (105_824, None)  # after the numbers of a buffer that does not fit


@dataclass(frozen=True)
class Chip:
    """A chip, by the numbers in its messages.

    ``boards``: the built-in boards that are one such chip. ``kind``: of boards whose chips differ only in their grid.
    """

    arch: str
    grid: Core
    dram_banks: int
    what: str
    boards: tuple[str, ...] = ()
    kind: str = ""

    @property
    def l1_banks(self) -> int:
        return self.grid[0] * self.grid[1]


# Grids: opened on a virtual board, except the 8x7 one, which is an N300's in users' reports.
CHIPS = (
    Chip("wormhole_b0", (8, 8), 12, "an n150 or one chip of an n300 or T3000", ("n150", "n300")),
    Chip("wormhole_b0", (8, 7), 12, "one chip of an n300 that keeps a row of cores for dispatch"),
    Chip("wormhole_b0", (8, 9), 12, "one chip of a Wormhole Galaxy (or slow dispatch)"),
    Chip("blackhole", (11, 10), 7, "a p100", ("p100",)),
    Chip("blackhole", (11, 10), 8, "a p150 with firmware 19.5.0 or later", ("p150",), "a p150 or p300"),
    Chip("blackhole", (12, 10), 8, "a p150 or p300 with 12 columns of cores", ("p150_12x10",), kind="a p150 or p300"),
    Chip("blackhole", (13, 10), 8, "a p150 with firmware before 19.5.0", ("p150_13x10",), kind="a p150 or p300"),
)


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


@dataclass(frozen=True)
class BuildMatch:
    """A build that fits the numbers, with its reserved base, and the L1_SMALL region that a number implies."""

    arch: str
    build: KnownBuild
    base_bytes: int | None
    l1_small_bytes: int | None = None


@dataclass(frozen=True)
class Fingerprint:
    """The boards and builds that the numbers of a failure point to; empty where nothing is known.

    ``arch``: the one of all that fits, "" where several fit. ``evidence``: what the wording shows. ``sharded``: no known board
    has as many L1 banks as the buffer is on. ``unexplained_bytes``: of each L1, neither bank nor reserved by a known build.
    """

    arch: str = ""
    chips: tuple[Chip, ...] = ()
    matches: tuple[BuildMatch, ...] = ()
    trace_regions: tuple[TraceRegion, ...] = ()
    evidence: tuple[str, ...] = ()
    sharded: bool = False
    unexplained_bytes: int | None = None

    @property
    def boards(self) -> tuple[str, ...]:
        """The built-in boards that are such a chip, the likeliest first."""
        return _boards_of(self.chips or _chips_of(self.arch))

    @property
    def releases(self) -> tuple[str, ...]:
        """The releases that fit and can replay a call, the newest first."""
        return tuple(dict.fromkeys(r for match in reversed(self.matches) for r in reversed(match.build.releases)))

    @property
    def nearest_release(self) -> str:
        """The release to replay on: the newest that fits, else that of the nearest build; "" where none is known."""
        if not self.matches or self.releases:
            return self.releases[0] if self.releases else ""
        at = BUILDS.index(self.matches[-1].build)
        _, nearest = min((abs(i - at), build.releases[-1]) for i, build in enumerate(BUILDS) if build.releases)
        return nearest

    @property
    def bases(self) -> tuple[int, ...]:
        """The reserved bases that are possible, as far as they are known."""
        return tuple(sorted({match.base_bytes for match in self.matches if match.base_bytes is not None}))

    @property
    def l1_small_bytes(self) -> int | None:
        """The size of the L1_SMALL region, where all matches agree."""
        sizes = {match.l1_small_bytes for match in self.matches}
        return sizes.pop() if len(sizes) == 1 else None

    @property
    def trace_region_bytes(self) -> int:
        """``trace_region_size`` that the device was opened with, where a DRAM bank's size shows it; else 0."""
        sizes = {trace.region_bytes for trace in self.trace_regions}
        return sizes.pop() if len(sizes) == 1 else 0

    def narrowed(self, build: KnownBuild) -> Fingerprint:
        """Returns the fingerprint for ``build``, where something other than the numbers of the message shows the build."""
        return replace(self, matches=tuple(match for match in self.matches if match.build == build), evidence=())

    def board(self, verdict: Verdict) -> Board | None:
        """Returns a board of this kind with the banks of the message, for arithmetic on tensors; None for an unknown kind."""
        if not self.arch or verdict.banks == 0:
            return None
        board = load_board((self.boards or _boards_of(_chips_of(self.arch)))[0])
        memory, banks = memory_of(verdict), verdict.banks
        if memory is None or banks is None:
            return board
        known = board.region(memory)
        region = MemoryRegion(banks, verdict.bank_bytes or known.bank_bytes, known.alignment_bytes)
        return replace(board, dram=region) if memory is BufferType.DRAM else replace(board, l1=region)

    def lines(self) -> list[str]:
        return [*self._board_lines(), *self._build_lines(), *map(_trace_line, self.trace_regions)]

    def _board_lines(self) -> Iterator[str]:
        is_any_of_arch = len(self.chips) in (0, len(_chips_of(self.arch)))
        if self.arch and is_any_of_arch:
            yield f"board: points to {_ARCH_NAMES[self.arch]}"
        elif 0 < len(self.chips) <= MAX_NAMED:
            yield f"board: points to {_chips_in_words(self.chips)}"
        if self.sharded:
            yield "no known board has as many L1 banks: the buffer is sharded, or the board is not known here"

    def _build_lines(self) -> Iterator[str]:
        builds = sorted({match.build for match in self.matches}, key=BUILDS.index)
        by_size = any(match.l1_small_bytes is not None for match in self.matches)
        evidence = f", by its wording: {'; '.join(self.evidence)}" if self.evidence and not by_size else ""
        evidence = ", by the size of a DRAM bank" if self.trace_regions else evidence
        if len(self.matches) == 1 and self.matches[0].base_bytes is not None and not evidence:
            (match,) = self.matches
            source = "as measured" if match.build.measured else "by users' reports"
            small = f" with l1_small_size {match.l1_small_bytes:,}" if match.l1_small_bytes is not None else ""
            yield f"release: a reserved base of {match.base_bytes:,} B{small} points to {match.build.name}, {source}"
        elif builds and (evidence or len(builds) <= MAX_NAMED):
            yield f"release: {_builds_in_words(builds)}{evidence}"
        elif self.unexplained_bytes is not None:
            unknown = f"no known build reserves {self.unexplained_bytes:,} B of each L1"
            yield f"release: unknown; {unknown}, with or without L1_SMALL"


def _chips_in_words(chips: Sequence[Chip]) -> str:
    """Returns the names of the chips, or the kind that they all are."""
    kind = chips[0].kind
    if len(chips) == 1 or not kind or any(chip.kind != kind for chip in chips):
        return ", or ".join(chip.what for chip in chips)
    is_any_of_kind = len(chips) == sum(chip.kind == kind for chip in CHIPS)
    columns = " or ".join(str(chip.grid[0]) for chip in chips)
    return f"{kind} ({'grid unknown' if is_any_of_kind else f'{columns} columns of cores'})"


def _builds_in_words(builds: Sequence[KnownBuild]) -> str:
    """Returns the first and the last of consecutive builds, else each; ``builds`` are in the order of ``BUILDS``."""
    at = [BUILDS.index(build) for build in builds]
    if len(builds) > 1 and at == list(range(at[0], at[-1] + 1)):
        return f"from {builds[0].first} to {builds[-1].last}"
    return f"points to {', or '.join(build.name for build in builds)}"


def _chips_of(arch: str) -> tuple[Chip, ...]:
    return tuple(chip for chip in CHIPS if chip.arch == arch)


def _boards_of(chips: Sequence[Chip]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for chip in chips for name in chip.boards))


def fingerprint_of(verdict: Verdict) -> Fingerprint:
    """Returns what the numbers and the wording of ``verdict`` point to; numbers outweigh words where they disagree.

    Each step narrows what is possible. An L1 buffer over 64 banks of 1,393,312 B, for example:
    architecture: such a bank fits into either L1; chip: only a Wormhole has 64 banks of L1;
    builds: 1,499,136 - 1,393,312 = 105,824 B are reserved, as 0.81.1 does without an L1_SMALL region.
    """
    memory = memory_of(verdict)
    if memory is None and verdict.resource not in (Resource.CIRCULAR_BUFFER, Resource.CLASH):
        return Fingerprint()
    possible = _arches(verdict)
    chips = tuple(chip for chip in CHIPS if chip.arch in possible and _has_numbers(chip, verdict))
    arches = list(dict.fromkeys(chip.arch for chip in chips)) or possible
    trace_regions = tuple(_trace_regions(verdict, arches)) if memory is BufferType.DRAM else ()
    worded, evidence = _builds_by_wording(verdict)
    matches = _matches(arches, verdict, worded) or _matches(arches, verdict, BUILDS)
    matches = _matches_of_banks(matches, trace_regions) or matches
    if matches:
        arches = [arch for arch in arches if arch in {match.arch for match in matches}]
    arch = arches[0] if len(arches) == 1 else ""
    free_l1 = _free_l1_bytes(verdict)
    return Fingerprint(
        arch=arch,
        chips=tuple(chip for chip in chips if chip.arch in arches),
        matches=matches,
        trace_regions=trace_regions,
        evidence=evidence,
        sharded=memory is BufferType.L1 and verdict.banks is not None and not chips,
        unexplained_bytes=L1_ENDS[arch] - free_l1 if arch and free_l1 is not None and not matches else None,
    )


def memory_of(verdict: Verdict) -> BufferType | None:
    """Returns the memory of the buffer that does not fit, None for no buffer; a fragmented one's by its banks' size."""
    by_resource = {
        Resource.L1_BUFFER: BufferType.L1,
        Resource.DRAM_BUFFER: BufferType.DRAM,
        Resource.L1_SMALL_BUFFER: BufferType.L1_SMALL,
    }
    if verdict.resource is Resource.FRAGMENTATION and verdict.bank_bytes is not None:
        return BufferType.L1 if verdict.bank_bytes < max(L1_END_BYTES) else BufferType.DRAM
    return by_resource.get(verdict.resource) if verdict.resource else None


def core_ranges(cores: str) -> list[tuple[Core, Core]]:
    """Returns the first and last (column, row) of each range of ``Verdict.cores``.

    >>> core_ranges("0-0..7-6 0-7..3-7")
    [((0, 0), (7, 6)), ((0, 7), (3, 7))]
    """
    ranges = []
    for part in cores.split():
        ends = [tuple(map(int, end.split("-"))) for end in part.split("..")]
        ranges.append(((ends[0][0], ends[0][1]), (ends[-1][0], ends[-1][1])))
    return ranges


# Board --------------------------------------------------------------------------------------------------------------------


def _arches(verdict: Verdict) -> list[str]:
    """Returns the architectures whose L1 and DRAM are large enough for the numbers, Wormhole first."""
    if verdict.limit_bytes in L1_END_BYTES:
        return [arch for arch, end in L1_ENDS.items() if end == verdict.limit_bytes]
    memory = memory_of(verdict)
    if memory is BufferType.DRAM and verdict.bank_bytes is not None:
        largest = {arch: max(b.bank_bytes for b in DRAM_BANKS if b.arch == arch) for arch in L1_ENDS}
        is_small = verdict.bank_bytes <= largest["wormhole_b0"]
        return ["wormhole_b0"] if is_small else ["blackhole"] if verdict.bank_bytes <= largest["blackhole"] else []
    if verdict.resource is Resource.CLASH and verdict.tensor_address is not None:
        return [arch for arch, end in L1_ENDS.items() if verdict.tensor_address < end]
    if memory is BufferType.L1 and verdict.bank_bytes is not None:
        return [arch for arch, end in L1_ENDS.items() if verdict.bank_bytes < end]
    return list(L1_ENDS)


def _has_numbers(chip: Chip, verdict: Verdict) -> bool:
    """Returns whether ``verdict`` has a number of banks or cores, and ``chip`` has that many."""
    memory = memory_of(verdict)
    if memory is BufferType.DRAM and verdict.banks is not None:
        return chip.dram_banks == verdict.banks
    if memory is BufferType.L1 and verdict.banks is not None:
        return chip.l1_banks == verdict.banks
    if memory is not None or not (verdict.cores or verdict.limit_bytes in L1_END_BYTES):
        return False
    return all(x < chip.grid[0] and y < chip.grid[1] for _, (x, y) in core_ranges(verdict.cores))


# Release ------------------------------------------------------------------------------------------------------------------

MAX_L1_SMALL = 256 * 1024
L1_SMALL_STEP = 8 * 1024
USUAL_L1_SMALL = frozenset({1024, 2048, 4096, 79_104})  # requested by demos and tests, in addition to multiples of the step


def _free_l1_bytes(verdict: Verdict) -> int | None:
    """Returns the number in the message that is all of an L1 above the reserved base and below the L1_SMALL region."""
    if memory_of(verdict) is BufferType.L1:
        return verdict.bank_bytes
    if verdict.resource is Resource.CIRCULAR_BUFFER and not verdict.ends_at_address:
        return verdict.limit_bytes
    return None


def _matches(arches: Sequence[str], verdict: Verdict, builds: Sequence[KnownBuild]) -> tuple[BuildMatch, ...]:
    """Returns those of ``builds`` whose reserved base, with a usual L1_SMALL region, leaves the free L1 of the message."""
    free_l1 = _free_l1_bytes(verdict)
    if free_l1 is None:
        return tuple(BuildMatch(arch, build, build.base_bytes(arch)) for arch in arches for build in builds)
    known = [(arch, build, base) for arch in arches for build in builds if (base := build.base_bytes(arch)) is not None]
    sized = [(arch, build, base, L1_ENDS[arch] - base - free_l1) for arch, build, base in known]
    return tuple(BuildMatch(*match) for match in sized if _is_usual(match[-1]))


def _matches_of_banks(matches: Sequence[BuildMatch], regions: Sequence[TraceRegion]) -> tuple[BuildMatch, ...]:
    """Returns the matches whose build has one of the DRAM banks of ``regions``."""
    return tuple(m for m in matches if any(m.build in _between(r.bank.first, r.bank.last) for r in regions))


def _is_usual(l1_small_bytes: int) -> bool:
    return l1_small_bytes in USUAL_L1_SMALL or (0 <= l1_small_bytes <= MAX_L1_SMALL and l1_small_bytes % L1_SMALL_STEP == 0)


def _between(first: int | None, last: int | None) -> tuple[KnownBuild, ...]:
    """Returns the builds from one to another, both given by their base on a Wormhole."""
    start = _BASES[first] if first is not None else 0
    return BUILDS[start : _BASES[last] + 1 if last is not None else None]


def _builds_by_wording(verdict: Verdict) -> tuple[tuple[KnownBuild, ...], tuple[str, ...]]:
    """Returns the builds that use the wording of the message, oldest first, and what in it shows them."""
    wordings = [(start, end, what) for mark, start, end, what in _WORDINGS if mark in verdict.message]
    if verdict.largest_free_bytes is not None and verdict.message.endswith(" B)"):
        wordings.append((*_NO_PERIOD, "no period after the numbers"))
    elif verdict.largest_free_bytes is not None and " B)." in verdict.message:
        wordings.append((*_PERIOD, "a period after the numbers"))
    builds = [build for build in BUILDS if all(build in _between(start, end) for start, end, _ in wordings)]
    return tuple(builds), tuple(what for *_, what in wordings)


# Trace region -------------------------------------------------------------------------------------------------------------


def _trace_regions(verdict: Verdict, arches: list[str]) -> Iterator[TraceRegion]:
    """Yields the regions of a size that someone would request: multiples of 1000 or of a KiB. Others show nothing."""
    if verdict.bank_bytes is None or verdict.banks is None:
        return
    for bank in DRAM_BANKS:
        missing = bank.bank_bytes - verdict.bank_bytes
        region = missing if bank.trace_per_bank else missing * verdict.banks
        is_round = region % 1000 == 0 or region % 1024 == 0
        if bank.arch in arches and 0 <= missing < bank.bank_bytes // 4 and is_round:
            yield TraceRegion(bank, region)


def _trace_line(trace: TraceRegion) -> str:
    complete = f"a complete DRAM bank of {trace.bank.builds} has {trace.bank.bank_bytes:,} B"
    if not trace.region_bytes:
        return f"trace region: none, {complete}"
    taken = "taken from each bank" if trace.bank.trace_per_bank else "taken from all banks together"
    return f"trace region: points to trace_region_size {trace.region_bytes:,}, {taken}; {complete}"
