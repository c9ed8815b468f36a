"""Which board, and which builds of TTNN, the figures of a failure point to.

What a build keeps at the bottom of each L1 (the reserved base), the size of a DRAM bank and the wording date it. They point to
a build, they do not prove it: several are listed where several fit, none where none is known.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from ssinghal.core.boards import load_board
from ssinghal.core.record import L1_END_BYTES, Resource, Verdict
from ssinghal.core.tensors import Board, BufferType, MemoryRegion

MAX_NAMED = 3  # more than that point to nothing
L1_ENDS = {"wormhole_b0": 1_499_136, "blackhole": 1_572_864}
_ARCH_NAMES = {"wormhole_b0": "a Wormhole chip (n150, n300, …)", "blackhole": "a Blackhole chip (p100, p150, …)"}

Core = tuple[int, int]


@dataclass(frozen=True)
class KnownBuild:
    """Releases, or builds between them, that reserve the same bytes at the bottom of an L1; None where that is not known.

    ``wheels``: the first and the last of those releases; ``month``: of the builds. ``releases``: those of them that open a
    virtual board and check all that a card does. ``measured``: on a virtual board, else worked out from users' reports.
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
    """A chip by the figures of its messages. ``boards``: those of the product that are one such chip. ``kind``: of boards whose
    chips differ in their grid alone."""

    arch: str
    grid: Core
    dram_banks: int
    what: str
    boards: tuple[str, ...] = ()
    kind: str = ""

    @property
    def l1_banks(self) -> int:
        return self.grid[0] * self.grid[1]


# Grids: opened on a virtual board, all but the 8x7 one, which is an N300's in users' reports.
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
    """A whole DRAM bank of ``builds``, those of ``BUILDS`` from ``first`` to ``last`` (by their base on a Wormhole).

    ``trace_per_bank``: ``trace_region_size`` is taken from each bank, else it is a total of all.
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
    """A DRAM bank's size read as a whole bank less a trace region of ``region_bytes`` (0: the bank is whole)."""

    bank: DramBank
    region_bytes: int


@dataclass(frozen=True)
class BuildMatch:
    """One build that gives the figures: its reserved base where known, and with what L1_SMALL region where a figure tells."""

    arch: str
    build: KnownBuild
    base_bytes: int | None
    l1_small_bytes: int | None = None


@dataclass(frozen=True)
class Fingerprint:
    """What the figures point to. Empty: unknown. ``arch``: where all that fits is of one.

    ``unread_bytes``: of each L1, neither bank nor anything that a known build reserves. ``sharded``: no known board has
    as many L1 banks as the buffer is on.
    """

    arch: str = ""
    chips: tuple[Chip, ...] = ()
    readings: tuple[BuildMatch, ...] = ()
    traces: tuple[TraceRegion, ...] = ()
    evidence: tuple[str, ...] = ()
    sharded: bool = False
    unread_bytes: int | None = None

    @property
    def boards(self) -> tuple[str, ...]:
        """Boards of the product that are such a chip, the likeliest first."""
        return _boards_of(self.chips or _chips_of(self.arch))

    @property
    def releases(self) -> tuple[str, ...]:
        """Wheels to replay on that fit, the newest first."""
        return tuple(dict.fromkeys(r for reading in reversed(self.readings) for r in reversed(reading.build.releases)))

    @property
    def nearest_release(self) -> str:
        """The wheel to replay on: the newest that fits, else that of the build next to those. "" where none is known."""
        if not self.readings or self.releases:
            return self.releases[0] if self.releases else ""
        at = BUILDS.index(self.readings[-1].build)
        _, nearest = min((abs(i - at), build.releases[-1]) for i, build in enumerate(BUILDS) if build.releases)
        return nearest

    @property
    def bases(self) -> tuple[int, ...]:
        """Reserved bases that are possible, as far as they are known."""
        return tuple(sorted({reading.base_bytes for reading in self.readings if reading.base_bytes is not None}))

    @property
    def l1_small_bytes(self) -> int | None:
        """The size of the L1_SMALL region, where all readings say the same."""
        sizes = {reading.l1_small_bytes for reading in self.readings}
        return sizes.pop() if len(sizes) == 1 else None

    @property
    def trace_region_bytes(self) -> int:
        """``trace_region_size`` that the device was opened with, where a DRAM bank's size tells one; else 0."""
        sizes = {trace.region_bytes for trace in self.traces}
        return sizes.pop() if len(sizes) == 1 else 0

    def narrowed(self, build: KnownBuild) -> Fingerprint:
        """The origin if it was ``build``, where something else than the figures of the message tells."""
        return replace(self, readings=tuple(reading for reading in self.readings if reading.build == build), evidence=())

    def board(self, verdict: Verdict) -> Board | None:
        """A board of this kind with the banks that the message tells: for arithmetic on tensors. None for an unknown kind."""
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
        return [*self._board_lines(), *self._build_lines(), *map(_trace_line, self.traces)]

    def _board_lines(self) -> Iterator[str]:
        whole_arch = len(self.chips) in (0, len(_chips_of(self.arch)))
        if self.arch and whole_arch:
            yield f"board: points to {_ARCH_NAMES[self.arch]}"
        elif 0 < len(self.chips) <= MAX_NAMED:
            yield f"board: points to {_chips_in_words(self.chips)}"
        if self.sharded:
            yield "no board known here has as many L1 banks: the buffer is sharded, or the board is another"

    def _build_lines(self) -> Iterator[str]:
        builds = sorted({reading.build for reading in self.readings}, key=BUILDS.index)
        told = any(reading.l1_small_bytes is not None for reading in self.readings)
        words = f", by its wording: {'; '.join(self.evidence)}" if self.evidence and not told else ""
        words = ", by the size of a DRAM bank" if self.traces else words
        if len(self.readings) == 1 and self.readings[0].base_bytes is not None and not words:
            (reading,) = self.readings
            how = "as measured" if reading.build.measured else "by users' reports"
            small = f" with l1_small_size {reading.l1_small_bytes:,}" if reading.l1_small_bytes is not None else ""
            yield f"release: a reserved base of {reading.base_bytes:,} B{small} points to {reading.build.name}, {how}"
        elif builds and (words or len(builds) <= MAX_NAMED):
            yield f"release: {_builds_in_words(builds)}{words}"
        elif self.unread_bytes is not None:
            yield f"release: unknown; no build known here takes {self.unread_bytes:,} B of each L1, with or without L1_SMALL"


def _chips_in_words(chips: Sequence[Chip]) -> str:
    """Each of them, or the kind that they all are."""
    kind = chips[0].kind
    if len(chips) == 1 or not kind or any(chip.kind != kind for chip in chips):
        return ", or ".join(chip.what for chip in chips)
    is_whole = len(chips) == sum(chip.kind == kind for chip in CHIPS)
    columns = " or ".join(str(chip.grid[0]) for chip in chips)
    return f"{kind} ({'grid unknown' if is_whole else f'{columns} columns of cores'})"


def _builds_in_words(builds: Sequence[KnownBuild]) -> str:
    """The first and the last of those that follow one another, else each; ``builds`` are in the order of ``BUILDS``."""
    at = [BUILDS.index(build) for build in builds]
    if len(builds) > 1 and at == list(range(at[0], at[-1] + 1)):
        return f"from {builds[0].first} to {builds[-1].last}"
    return f"points to {', or '.join(build.name for build in builds)}"


def _chips_of(arch: str) -> tuple[Chip, ...]:
    return tuple(chip for chip in CHIPS if chip.arch == arch)


def _boards_of(chips: Sequence[Chip]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for chip in chips for name in chip.boards))


def origin(verdict: Verdict) -> Fingerprint:
    """What the numbers and the wording of ``verdict`` point to. Figures count more than words where they disagree."""
    memory = memory_of(verdict)
    if memory is None and verdict.resource not in (Resource.CIRCULAR_BUFFER, Resource.CLASH):
        return Fingerprint()
    arches = _arches(verdict)
    chips = tuple(chip for chip in CHIPS if chip.arch in arches and _has_figures(chip, verdict))
    arches = [arch for arch in arches if not chips or arch in {chip.arch for chip in chips}]
    worded, evidence = _by_wording(verdict)
    readings = _readings(arches, verdict, worded) or _readings(arches, verdict, BUILDS)
    traces = tuple(_traces(verdict, arches)) if memory is BufferType.DRAM else ()
    if traces:
        banks = [trace.bank for trace in traces]
        readings = tuple(r for r in readings if any(r.build in _between(bank.first, bank.last) for bank in banks)) or readings
    room = _told_room(verdict)
    if room is not None and readings:
        arches = [arch for arch in arches if arch in {r.arch for r in readings}]
    arch = arches[0] if len(arches) == 1 else ""
    return Fingerprint(
        arch=arch,
        chips=tuple(chip for chip in chips if chip.arch in arches),
        readings=readings,
        traces=traces,
        evidence=evidence,
        sharded=memory is BufferType.L1 and verdict.banks is not None and not chips,
        unread_bytes=L1_ENDS[arch] - room if arch and room is not None and not readings else None,
    )


def memory_of(verdict: Verdict) -> BufferType | None:
    """The memory of the buffer that does not fit; a fragmented one is told by the size of its banks. None: no buffer."""
    by_resource = {
        Resource.L1_BUFFER: BufferType.L1,
        Resource.DRAM_BUFFER: BufferType.DRAM,
        Resource.L1_SMALL_BUFFER: BufferType.L1_SMALL,
    }
    if verdict.resource is Resource.FRAGMENTATION and verdict.bank_bytes is not None:
        return BufferType.L1 if verdict.bank_bytes < max(L1_END_BYTES) else BufferType.DRAM
    return by_resource.get(verdict.resource) if verdict.resource else None


def core_ranges(cores: str) -> list[tuple[Core, Core]]:
    """First and last (column, row) of each range of ``Verdict.cores``.

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
    """Those whose L1 and DRAM have room for the figures, Wormhole first."""
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


def _has_figures(chip: Chip, verdict: Verdict) -> bool:
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
USUAL_L1_SMALL = frozenset({1024, 2048, 4096, 79_104})  # besides whole steps: what demos and tests ask for


def _told_room(verdict: Verdict) -> int | None:
    """The figure of the message that is all of an L1 above the reserved base and below the L1_SMALL region."""
    if memory_of(verdict) is BufferType.L1:
        return verdict.bank_bytes
    if verdict.resource is Resource.CIRCULAR_BUFFER and not verdict.ends_at_address:
        return verdict.limit_bytes
    return None


def _readings(arches: Sequence[str], verdict: Verdict, builds: Sequence[KnownBuild]) -> tuple[BuildMatch, ...]:
    room = _told_room(verdict)
    if room is None:
        return tuple(BuildMatch(arch, build, build.base_bytes(arch)) for arch in arches for build in builds)
    known = [(arch, build, base) for arch in arches for build in builds if (base := build.base_bytes(arch)) is not None]
    sized = [(BuildMatch(arch, build, base, l1_small := L1_ENDS[arch] - base - room), l1_small) for arch, build, base in known]
    return tuple(reading for reading, l1_small in sized if _is_usual(l1_small))


def _is_usual(l1_small_bytes: int) -> bool:
    return l1_small_bytes in USUAL_L1_SMALL or (0 <= l1_small_bytes <= MAX_L1_SMALL and l1_small_bytes % L1_SMALL_STEP == 0)


def _between(first: int | None, last: int | None) -> tuple[KnownBuild, ...]:
    """Builds from one to another, both named by their base on a Wormhole."""
    start = _BASES[first] if first is not None else 0
    return BUILDS[start : _BASES[last] + 1 if last is not None else None]


def _by_wording(verdict: Verdict) -> tuple[tuple[KnownBuild, ...], tuple[str, ...]]:
    """Builds that use the wording, oldest first, and what of it tells."""
    wordings = [(start, end, what) for mark, start, end, what in _WORDINGS if mark in verdict.message]
    if verdict.largest_free_bytes is not None and verdict.message.endswith(" B)"):
        wordings.append((*_NO_PERIOD, "no period after the numbers"))
    elif verdict.largest_free_bytes is not None and " B)." in verdict.message:
        wordings.append((*_PERIOD, "a period after the numbers"))
    builds = [build for build in BUILDS if all(build in _between(start, end) for start, end, _ in wordings)]
    return tuple(builds), tuple(what for *_, what in wordings)


# Trace region -------------------------------------------------------------------------------------------------------------


def _traces(verdict: Verdict, arches: list[str]) -> Iterator[TraceRegion]:
    """Sizes that someone would ask for: whole thousands or KiB. Others tell nothing, so nothing is said of them."""
    if verdict.bank_bytes is None or verdict.banks is None:
        return
    for bank in DRAM_BANKS:
        missing = bank.bank_bytes - verdict.bank_bytes
        region = missing if bank.trace_per_bank else missing * verdict.banks
        is_round = region % 1000 == 0 or region % 1024 == 0
        if bank.arch in arches and 0 <= missing < bank.bank_bytes // 4 and is_round:
            yield TraceRegion(bank, region)


def _trace_line(trace: TraceRegion) -> str:
    whole = f"a whole DRAM bank of {trace.bank.builds} has {trace.bank.bank_bytes:,} B"
    if not trace.region_bytes:
        return f"trace region: none, {whole}"
    taken = "taken from each bank" if trace.bank.trace_per_bank else "taken from all banks together"
    return f"trace region: points to trace_region_size {trace.region_bytes:,}, {taken}; {whole}"
