"""Infers the board and the builds of TTNN that the numbers of a failure point to.

What a build keeps at the bottom of each L1 (the reserved base), the size of a DRAM bank, the line of source and the wording
date it. They point to a build but do not prove it: all that fit are listed, with what supports and what contradicts them, and
none where none is known.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace

from ssinghal.core.boards import load_board
from ssinghal.core.tensors import Board, BufferType, MemoryRegion
from ssinghal.core.verdict import L1_END_BYTES, Resource, Verdict
from ssinghal.diagnose.board_clues import arches_of, board_evidence, board_notes, has_numbers, may_be_grayskull
from ssinghal.diagnose.builds import (
    BUILDS,
    NEWER,
    KnownBuild,
    TraceRegion,
    clues,
    in_words,
    trace_regions,
)
from ssinghal.diagnose.chips import (
    CHIPS,
    L1_ENDS,
    Chip,
    arch_in_words,
    arch_named,
    boards_of,
    by_likelihood,
    chips_in_words,
    chips_of,
    core_ranges,
    names_of,
    with_names,
)
from ssinghal.diagnose.reserved_bases import BuildMatch, matches_of
from ssinghal.diagnose.stated_versions import clue_of

MAX_NAMED = 3  # more point to nothing


@dataclass(frozen=True)
class Fingerprint:
    """The boards and builds that the numbers of a failure point to; empty where nothing is known.

    ``arch``: the one of all that fits, "" where several fit. ``chips``: the likeliest first. ``board_evidence``: what supports
    them, and ``board_notes``: what else the cores show. ``evidence``: what supports the builds. ``contradictions``: what does
    not fit the board or the builds. ``sharded``: no known board has as many banks as the buffer is on. ``arches``: all
    that fit. ``unexplained_bytes``: of each L1, neither bank nor reserved by a known build.
    ``region_bytes``: of the L1_SMALL region, where the message is about it.
    ``memory``: of the buffer that does not fit. ``named``: boards and architectures that the text names.
    """

    arch: str = ""
    chips: tuple[Chip, ...] = ()
    matches: tuple[BuildMatch, ...] = ()
    trace_regions: tuple[TraceRegion, ...] = ()
    board_evidence: tuple[str, ...] = ()
    board_notes: tuple[str, ...] = ()
    evidence: tuple[str, ...] = ()
    contradictions: tuple[str, ...] = ()
    sharded: bool = False
    arches: tuple[str, ...] = ()
    unexplained_bytes: int | None = None
    region_bytes: int | None = None
    memory: BufferType | None = None
    named: frozenset[str] = frozenset()

    @property
    def _memory(self) -> str:
        return self.memory.value.upper() if self.memory else ""

    @property
    def boards(self) -> tuple[str, ...]:
        """The built-in boards that are such a chip, the likeliest first."""
        return boards_of(self.chips or with_names(chips_of(self.arch), self.named))

    @property
    def why_not_replayable(self) -> str:
        """Why no virtual board is one of the message, so that a replay's verdict would be another board's; "" where one is.

        A buffer on a number of banks that no board has may still be one in shards on a complete board: then a replay of the
        call with its shards is on as many banks as the message has, and counts.
        """
        if self.arch == "grayskull":
            return "no release that opens a virtual board supports Grayskull"
        if self.chips and not self.chips[0].boards:
            return f"no virtual board is {self.chips[0].what}: {self.chips[0].why_no_board}"
        if self.sharded:
            return f"no virtual board has as many {self._memory} banks"
        if self.board_evidence and not self.boards:
            return "no virtual board has these cores"
        return ""

    @property
    def releases(self) -> tuple[str, ...]:
        """The releases that fit and can replay a call, the newest first."""
        builds = [match.build for match in reversed(self.matches) if match.build]
        return tuple(dict.fromkeys(release for build in builds for release in reversed(build.releases)))

    @property
    def nearest_release(self) -> str:
        """The release to replay on: the newest that fits, else that of the nearest build; "" where none is known."""
        if not self.matches or self.releases:
            return self.releases[0] if self.releases else ""
        last = self.matches[-1].positions
        at = (last[0] + last[-1]) / 2
        _, nearest = min((abs(i - at), build.releases[-1]) for i, build in enumerate(BUILDS) if build.releases)
        return nearest

    @property
    def bases(self) -> tuple[int, ...]:
        """The reserved bases that are possible, as far as they are known."""
        return tuple(sorted({match.base_bytes for match in self.matches if match.base_bytes is not None}))

    @property
    def unknown_bases(self) -> tuple[str, ...]:
        """The builds that fit and whose reserved base is not known, but for those newer than all known ones."""
        known = {match.build for match in self.matches if match.base_bytes is not None}
        unknown = [match.build for match in self.matches if match.build is not None and match.build not in known | {NEWER}]
        return tuple(dict.fromkeys(build.name for build in unknown))

    @property
    def l1_small_bytes(self) -> int | None:
        """The size of the L1_SMALL region: the message's, or the one that all matches imply."""
        if self.region_bytes is not None:
            return self.region_bytes
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
        names = self.boards or boards_of(chips_of(self.arch))
        if not self.arch or not names or verdict.banks == 0:
            return None
        board = load_board(names[0])
        if len(self.chips) == 1:
            board = replace(board, grid=self.chips[0].grid)
        memory, banks = memory_of(verdict), verdict.banks
        if memory not in (BufferType.L1, BufferType.DRAM) or banks is None:
            return board
        known = board.region(memory)
        region = MemoryRegion(banks, verdict.bank_bytes or known.bank_bytes, known.alignment_bytes)
        return replace(board, dram=region) if memory is BufferType.DRAM else replace(board, l1=region)

    def lines(self) -> list[str]:
        against = [f"contradicts that: {what}" for what in self.contradictions]
        return [*self._board_lines(), *self._build_lines(), *against, *(trace.line() for trace in self.trace_regions)]

    def _board_lines(self) -> Iterator[str]:
        support = f", by {' and '.join(self.board_evidence)}" if self.board_evidence else ""
        names = names_of(self.chips)
        is_known = self.arch or ("grayskull" not in self.arches and len(names) < MAX_NAMED and len(self.chips) < len(CHIPS))
        if support and names and is_known:
            yield f"board: points to {chips_in_words(self.chips)}{support}"
        elif self.arch:
            yield f"board: points to {arch_in_words(self.arch)}{support}"
        elif len(self.arches) > 1:
            yield f"board: not shown by the message: {' or '.join(map(arch_in_words, self.arches))}"
        yield from self.board_notes
        if self.sharded:
            yield f"no known board has as many {self._memory} banks: the buffer is in shards, or the board has other cores"

    def _build_lines(self) -> Iterator[str]:
        by_base = [match for match in self.matches if match.l1_small_bytes is not None]
        positions = sorted({BUILDS.index(match.build) for match in self.matches if match.build})
        evidence = f", by {'; '.join(self.evidence)}" if self.evidence and not by_base else ""
        if by_base and len(by_base) <= MAX_NAMED and all(match.build is None for match in by_base):
            bases = [f"{m.base_bytes:,} B with l1_small_size {m.l1_small_bytes:,}, {m.between()}" for m in by_base]
            yield f"release: unknown; its L1 would have a reserved base of {', or of '.join(bases)}"
        elif len(self.matches) == 1 and self.matches[0].base_bytes is not None and self.matches[0].build and not evidence:
            (match,) = self.matches
            source = "as measured" if self.matches[0].build.measured else "by users' reports"
            small = f" with l1_small_size {match.l1_small_bytes:,}" if match.l1_small_bytes is not None else ""
            yield f"release: a reserved base of {match.base_bytes:,} B{small} points to {match.name}, {source}"
        elif positions and (evidence or len(positions) <= MAX_NAMED):
            yield f"release: {in_words(positions)}{evidence}"
        elif self.unexplained_bytes is not None:
            unknown = f"no known build reserves {self.unexplained_bytes:,} B of each L1"
            yield f"release: unknown; {unknown}, with or without L1_SMALL"


def fingerprint_of(
    verdict: Verdict, named: Collection[str] = (), dated: str = "", versions: Collection[str] = ()
) -> Fingerprint:
    """Returns what the numbers and the wording of ``verdict`` point to; numbers outweigh words where they disagree.

    ``named``: boards and architectures that the text names (``boards_named``). They choose among what fits the numbers, and
    contradict nothing: a text may name what it is not about. ``dated``: the month of the log, "2025-11". ``versions``: of TTNN,
    that the text states.

    Each step narrows what is possible. An L1 buffer over 64 banks of 1,393,312 B, for example:
    architecture: such a bank fits into either L1; chip: only a Wormhole has 64 banks of L1;
    builds: 1,499,136 - 1,393,312 = 105,824 B are reserved, as 0.81.1 does without an L1_SMALL region.
    """
    memory = memory_of(verdict)
    if memory is None and verdict.resource not in (Resource.CIRCULAR_BUFFER, Resource.CLASH):
        return Fingerprint()
    by_numbers, arch = arches_of(verdict, memory), arch_named(named)
    possible = [arch] if arch in by_numbers else by_numbers
    ranges = core_ranges(verdict.cores)
    fitting = [chip for chip in CHIPS if chip.arch in possible and has_numbers(chip, verdict, memory)]
    possible = [*possible, *(["grayskull"] if may_be_grayskull(verdict, memory, fitting) else [])]
    chips = by_likelihood(with_names(fitting, named), ranges)
    is_named = not set(by_numbers) <= set(possible) or len(chips) < len(fitting)
    with_chips = {"grayskull", *(chip.arch for chip in chips)} if chips else set(possible)
    arches = [arch for arch in possible if arch in with_chips]
    regions = list(trace_regions(verdict.bank_bytes, verdict.banks, arches)) if memory is BufferType.DRAM else []
    free_l1 = _free_l1_bytes(verdict)
    matches = matches_of(verdict, arches, free_l1)
    evidence, against = [], []
    for clue in filter(None, [*clues(verdict, regions, dated), clue_of(versions)]):
        narrowed = tuple(match for match in matches if match.is_in(clue.allowed))
        if matches and not narrowed and not clue.is_weak:
            against.append(clue.by)
        elif 0 < len(narrowed) < len(matches):
            evidence.append(clue.by)
        matches = narrowed or matches
    if matches:
        arches = [arch for arch in arches if arch in {match.arch for match in matches}]
    arch = arches[0] if len(arches) == 1 else ""
    sharded = memory in (BufferType.L1, BufferType.DRAM) and verdict.banks is not None and not fitting
    chips = tuple(chip for chip in chips if chip.arch in arches)
    return Fingerprint(
        arch=arch,
        chips=chips,
        matches=matches,
        trace_regions=tuple(r for r in regions if any(match.is_in(r.allowed) for match in matches)) or tuple(regions),
        board_evidence=tuple(board_evidence(verdict, memory, chips, is_named=is_named)),
        board_notes=tuple(board_notes(verdict, chips, arch)),
        evidence=tuple(evidence),
        contradictions=tuple(against),
        sharded=sharded,
        arches=tuple(arches) if verdict.banks is not None or verdict.program_bytes is not None or ranges else (),
        unexplained_bytes=L1_ENDS[arch] - free_l1 if arch and free_l1 is not None and not matches else None,
        region_bytes=verdict.bank_bytes if memory is BufferType.L1_SMALL else None,
        memory=memory,
        named=frozenset(named),
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


def _free_l1_bytes(verdict: Verdict) -> int | None:
    """Returns the number in the message that is all of an L1 above the reserved base and below the L1_SMALL region."""
    if memory_of(verdict) is BufferType.L1:
        return verdict.bank_bytes
    if verdict.resource is Resource.CIRCULAR_BUFFER and not verdict.ends_at_address:
        return verdict.limit_bytes
    return None
