"""Compares the numbers of a replay with those reported, and finds the difference of reserved bases that explains the rest."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ssinghal.core.tensors import Board, BufferType, DType
from ssinghal.core.verdict import Verdict
from ssinghal.diagnose.builds import BUILDS
from ssinghal.diagnose.fingerprint import memory_of
from ssinghal.diagnose.reserved_bases import UNKNOWN_BASES

NUMBERS = (
    "total_bytes", "banks", "bytes_per_bank", "bank_bytes", "allocated_bytes", "free_bytes", "largest_free_bytes",
    "program_bytes", "limit_bytes", "tensor_address", "cores",
)  # fmt: skip
OF_CALL = ("total_bytes", "banks", "bytes_per_bank", "program_bytes")  # numbers of a message that depend on the call alone
OF_BANK = ("bank_bytes", "free_bytes", "largest_free_bytes", "limit_bytes")  # shrink by what a build reserves


@dataclass(frozen=True)
class ComparedNumber:
    """A number of the message, as reported and as replayed (None where the replay's message lacks it)."""

    name: str
    reported: int | str
    replayed: int | str | None

    @property
    def equal(self) -> bool:
        return self.reported == self.replayed

    @property
    def difference(self) -> int | None:
        """Replayed less reported; None for what is no number of bytes."""
        numbers = isinstance(self.reported, int) and isinstance(self.replayed, int)
        return self.replayed - self.reported if numbers else None  # type: ignore[operator]

    def __str__(self) -> str:
        name = self.name.replace("_", " ")
        if self.difference is not None:
            return f"{name} {self.replayed:,}, reported {self.reported:,} ({self.difference:+,})"
        return f"{name} {self.replayed}, reported {self.reported}"


def compared(reported: Verdict, replayed: Verdict) -> Iterator[ComparedNumber]:
    """Yields the numbers of the reported message, each beside the replay's."""
    for name in NUMBERS:
        value = getattr(reported, name)
        if value not in (None, ""):
            yield ComparedNumber(name, value, getattr(replayed, name))


@dataclass(frozen=True)
class BaseShift:
    """All numbers that differ do so by one difference of bytes that two builds reserve at the bottom of each L1.

    ``here_bytes``: reserved by the replay's build. ``there_bytes``: implied for the report's. ``below`` and ``above``: name and
    base of the nearest known builds, where ``there_bytes`` is the base of none; None beyond the last.
    """

    here_bytes: int
    there_bytes: int
    below: tuple[str, int] | None = None
    above: tuple[str, int] | None = None

    @property
    def is_known(self) -> bool:
        return self.below is None and self.above is None

    def line(self) -> str:
        if self.is_known:
            return f"that is the difference of the reserved bases, {self.here_bytes:,} here and {self.there_bytes:,} B there"
        nearest = [_build(*known) for known in (self.below, self.above) if known]
        side = "between" if len(nearest) > 1 else "above" if self.below else "below"
        return (
            f"one difference explains it: {self.here_bytes:,} B are reserved in each L1 here, {self.there_bytes:,} B there,"
            f" {side} what {' and '.join(nearest)} reserve{'' if len(nearest) > 1 else 's'}"
        )


def _build(name: str, base: int) -> str:
    return f"{name} ({base:,} B)"


def base_shift(
    reported: Verdict, numbers: Sequence[ComparedNumber], here_bytes: int | None, board: Board, bases: Sequence[int] = ()
) -> BaseShift | None:
    """Returns the difference of reserved bases by which all numbers that are not equal differ; None where there is none.

    ``bases``: those that the report points to. Any other that the implied base is near to counts only where the difference
    is no number of complete tiles, which a program may have more or fewer of.
    """
    if here_bytes is None or memory_of(reported) not in (None, BufferType.L1):
        return None
    gaps = {_base_gap(reported, number) for number in numbers if not number.equal}
    gap = gaps.pop() if len(gaps) == 1 else None
    if gap is None:
        return None
    there, known = here_bytes - gap, _known_bases(board.arch)
    if there in bases:
        return BaseShift(here_bytes, there)
    if any(gap % dtype.tile_bytes == 0 for dtype in DType) or there not in UNKNOWN_BASES.get(board.arch, ()):
        return None
    if there in dict(known):
        return BaseShift(here_bytes, there)
    below = [(base, name) for base, name in known if base < there]
    above = [(base, name) for base, name in known if base > there]
    return BaseShift(here_bytes, there, below[-1][::-1] if below else None, above[0][::-1] if above else None)


def _base_gap(reported: Verdict, number: ComparedNumber) -> int | None:
    """Returns by how much more is reserved here, according to one number; None where it does not depend on that."""
    if number.difference is None:
        return None
    if number.name in OF_BANK:
        return -number.difference
    is_address = number.name == "tensor_address" or (number.name == "program_bytes" and reported.ends_at_address)
    return number.difference if is_address else None


def _known_bases(arch: str) -> list[tuple[int, str]]:
    return sorted((base, build.first) for build in BUILDS if (base := build.base_bytes(arch)) is not None)
