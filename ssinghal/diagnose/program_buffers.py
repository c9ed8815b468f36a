"""Explains program buffers in numbers: what the address of their end implies, and which part of the operands they hold."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from ssinghal.core.tensors import format_bytes, round_up
from ssinghal.core.verdict import Resource, Verdict
from ssinghal.diagnose.builds import KnownBuild
from ssinghal.diagnose.chips import L1_ENDS, LEAST_BASE, Core, core_ranges
from ssinghal.diagnose.clash import Side, cause_line
from ssinghal.diagnose.fingerprint import Fingerprint
from ssinghal.diagnose.model import Operation
from ssinghal.diagnose.odd_figures import BITS_OF_ADDRESS, BITS_OF_SIZE, wrapped_line
from ssinghal.diagnose.program_contents import ColumnShare, Content, StoredRows, Tiles, content_of
from ssinghal.diagnose.small_region import GRANULES

_CHIPS = {"wormhole_b0": "Wormhole", "blackhole": "Blackhole", "grayskull": "Grayskull"}

SMALL_OVERLAP = 32 * 1024  # bytes; no more than L1_SMALL regions usually have


@dataclass(frozen=True)
class Need:
    """The program buffers per core if TTNN reserves ``base_bytes``: ``program_bytes`` of ``budget_bytes``.

    ``build``: None where the message has the size itself. ``made``: what they hold exactly; None where nothing adds up.
    ``others``: the number of other builds that fit, but for which nothing adds up. ``l1_end_bytes``: of the build's chip.
    """

    program_bytes: int
    budget_bytes: int | None
    base_bytes: int | None = None
    build: KnownBuild | None = None
    made: Content | None = None
    others: int = 0
    l1_end_bytes: int | None = None


@dataclass(frozen=True)
class ProgramBuffers:
    """Program buffers that end at the address ``end_bytes``, where ``limit_bytes`` is the last one allowed.

    Where the message has sizes (``is_address`` False) they take ``end_bytes`` of ``limit_bytes``. ``needs``: one for each build
    that fits, or only the one for which they add up exactly. ``tensors_bytes``: from the tensor that they run into to the end
    of L1, including an L1_SMALL region; None where the chip is unknown, and ``tensors_by_chip`` has each that is possible.
    ``unknown_bases``: the builds that fit too, but whose reserved base is not known.
    """

    end_bytes: int
    limit_bytes: int | None
    is_address: bool
    kind: str
    cores: str
    needs: tuple[Need, ...]
    runs_into_tensor: bool = False
    tensors_bytes: int | None = None
    tensors_by_chip: tuple[tuple[str, int], ...] = ()
    unknown_bases: tuple[str, ...] = ()

    @property
    def overflow_bytes(self) -> int | None:
        return self.end_bytes - self.limit_bytes if self.limit_bytes is not None else None

    @property
    def _ranges(self) -> list[tuple[Core, Core]]:
        return core_ranges(self.cores)

    @property
    def core_count(self) -> int:
        return sum((x1 - x0 + 1) * (y1 - y0 + 1) for (x0, y0), (x1, y1) in self._ranges)

    def lines(self) -> list[str]:
        return [*self._where(), *self._overflow(), *self._needs(), *filter(None, [self._cause(), self._lever()])]

    def _where(self) -> Iterator[str]:
        if self.cores:
            count = "one core" if self.core_count == 1 else f"{self.core_count} cores"
            ranges = [f"{_core(first)} to {_core(last)}" if first != last else _core(first) for first, last in self._ranges]
            yield f"{self.kind} buffers on {count}: {', '.join(ranges)}"

    def _overflow(self) -> Iterator[str]:
        end, limit, over = self.end_bytes, self.limit_bytes, self.overflow_bytes
        if limit is None or over is None:
            yield f"{self.kind} buffers need {format_bytes(end)}"
            return
        if not self.is_address:
            yield f"{self.kind} buffers need {format_bytes(end)} of {format_bytes(limit)}{_times(end, limit)}"
        elif self.runs_into_tensor:
            yield f"{self.kind} buffers end at {end:,} B, an L1 tensor begins at {limit:,} B"
        else:
            yield f"{self.kind} buffers end at {format_bytes(end)}, L1 at {format_bytes(limit)}{_times(end, limit)}"
        if over > 0:
            yield f"{'overlap' if self.runs_into_tensor else 'overflow'}: {format_bytes(over)} per core"
        elif self.is_address:
            yield "contradictory: they end before that"
        if wrapped := wrapped_line(end, BITS_OF_ADDRESS) or wrapped_line(end, BITS_OF_SIZE):
            yield wrapped
        if self.tensors_by_chip:
            size = " or ".join(f"{format_bytes(size)} on a {chip}" for chip, size in self.tensors_by_chip)
            size = size if self.tensors_bytes is None else format_bytes(self.tensors_bytes)
            yield f"from that tensor to the end of L1: {size}, including any L1_SMALL region"

    def _needs(self) -> Iterator[str]:
        if not self.is_address:
            return
        if not self.needs:
            yield "the address includes what TTNN reserves at the bottom of each L1, which is unknown for this board"
            if self.end_bytes > LEAST_BASE:
                least = f"{self.end_bytes - self.limit_bytes:,} to " if self.runs_into_tensor and self.limit_bytes else ""
                most = f"{least or 'at most '}{self.end_bytes - LEAST_BASE:,} B"
                yield f"program buffers alone: {most}, as no build is known to reserve less than {LEAST_BASE:,} B by default"
        elif len(self.needs) == 1 and (self.needs[0].made or not self.unknown_bases):
            yield from _need_lines(self.needs[0], "that the tensor leaves" if self.runs_into_tensor else "that a core has")
        else:
            sizes = sorted(need.program_bytes for need in self.needs)
            bases = sorted(need.base_bytes or 0 for need in self.needs)
            size = f"{sizes[0]:,} B" if len(sizes) == 1 else f"{sizes[0]:,} to {sizes[-1]:,} B"
            base = f"{bases[0]:,} B" if len(bases) == 1 else f"{bases[0]:,} to {bases[-1]:,} B"
            if not self.unknown_bases:
                yield f"program buffers alone: {size}, as TTNN reserves {base}"
                return
            builds = list(dict.fromkeys(need.build.name for need in self.needs if need.build))
            names = builds[0] if len(builds) == 1 else "the builds known here"
            yield f"program buffers alone: {size} if TTNN reserves {base} ({names})"
            yield f"other builds fit too, and what they reserve is not known: {', '.join(self.unknown_bases)}"

    def _cause(self) -> str:
        if not self.is_address or self.limit_bytes is None or self.end_bytes <= self.limit_bytes:
            return ""
        if not self.runs_into_tensor:
            return "no tensor has a part in it: they exceed an L1 in which nothing else is allocated"
        address, end = self.limit_bytes, self.end_bytes
        known = {(need.base_bytes, need.l1_end_bytes) for need in self.needs}
        sides = [Side(base, l1, address, end - base) for base, l1 in known if base is not None and l1 is not None]
        ends = {address + size for _, size in self.tensors_by_chip}
        least = [Side(LEAST_BASE, l1, address, end - LEAST_BASE) for l1 in ends if address > LEAST_BASE]
        if not sides:  # the reserved base is unknown: between the least of all builds and the tensor
            return cause_line([*least, *(Side(address, l1, address, end - address) for l1 in ends)] if least else [])
        return cause_line(sides, least if self.unknown_bases else ())

    def _lever(self) -> str:
        """Returns what moves the tensors out of the way: they are allocated downwards from the L1_SMALL region."""
        over = self.overflow_bytes
        if not self.runs_into_tensor or over is None or not 0 < over <= SMALL_OVERLAP:
            return ""
        smaller = round_up(over, max(GRANULES))
        return f"an l1_small_size that is {smaller:,} B smaller, where that much is unused, moves the tensors out of the way"


def _need_lines(need: Need, budget_of: str) -> Iterator[str]:
    budget = need.budget_bytes
    of = f" of {format_bytes(budget)} {budget_of}{_times(need.program_bytes, budget)}" if budget else ""
    name = f" of {need.build.name}" if need.build else ""
    yield f"program buffers alone: {format_bytes(need.program_bytes)}{of}, above the reserved base{name}, {need.base_bytes:,} B"
    if need.made is not None:
        yield need.made.line()
    if need.others:
        other = "the other reserved base that fits gives" if need.others == 1 else "the other reserved bases that fit give"
        yield f"{other} nothing as exact"


def _core(core: Core) -> str:
    return f"({core[0]},{core[1]})"


def _times(need: int, limit: int) -> str:
    return f", {need / limit:,.2f} times" if limit and need > limit else ""


def program_buffers(verdict: Verdict, fingerprint: Fingerprint, operation: Operation | None = None) -> ProgramBuffers | None:
    """Returns the program buffers of ``verdict``, those of ``operation`` if known; None where the message has none."""
    if verdict.resource not in (Resource.CIRCULAR_BUFFER, Resource.CLASH) or verdict.program_bytes is None:
        return None
    into_tensor = verdict.resource is Resource.CLASH
    limit = verdict.tensor_address if into_tensor else verdict.limit_bytes
    needs: tuple[Need, ...] = (Need(verdict.program_bytes, limit),)
    if verdict.ends_at_address:
        needs = _likeliest(tuple(_needs(verdict, fingerprint, operation, limit)))
    by_chip = tuple(_tensors_by_chip(fingerprint, limit)) if into_tensor and limit is not None else ()
    return ProgramBuffers(
        end_bytes=verdict.program_bytes,
        limit_bytes=limit,
        is_address=verdict.ends_at_address,
        kind=verdict.buffer_kind or "program",
        cores=verdict.cores,
        needs=needs,
        runs_into_tensor=into_tensor,
        tensors_bytes=by_chip[0][1] if len(by_chip) == 1 else None,
        tensors_by_chip=by_chip,
        unknown_bases=fingerprint.unknown_bases,
    )


def _tensors_by_chip(fingerprint: Fingerprint, address: int) -> Iterator[tuple[str, int]]:
    """Yields what an L1 has from ``address`` on, for each chip that is possible."""
    arches = {match.arch for match in fingerprint.matches} or {"wormhole_b0", "blackhole"}
    for arch, chip in _CHIPS.items():
        if address < L1_ENDS[arch] and (arch == fingerprint.arch or (arch in arches and not fingerprint.arch)):
            yield chip, L1_ENDS[arch] - address


def _needs(verdict: Verdict, fingerprint: Fingerprint, operation: Operation | None, limit: int | None) -> Iterator[Need]:
    for match in fingerprint.matches:
        base = match.base_bytes
        if base is None or verdict.program_bytes is None:
            continue
        need = verdict.program_bytes - base
        if need <= 0:
            continue
        content = content_of(need, verdict, fingerprint, operation) if operation else None
        budget = limit - base if limit is not None else None
        yield Need(need, budget, base, match.build, content, l1_end_bytes=L1_ENDS.get(match.arch))


def _likeliest(needs: tuple[Need, ...]) -> tuple[Need, ...]:
    """Returns the one need whose buffers add up exactly, else all of them."""
    for kind in (ColumnShare, StoredRows, Tiles):
        exact = tuple(need for need in needs if isinstance(need.made, kind))
        if len(exact) == 1:
            return (replace(exact[0], others=len(needs) - 1),)
    return needs
