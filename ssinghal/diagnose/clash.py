"""Weighs program buffers against the L1 tensors that they run into: which of the two takes up a core."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

SMALL = 10  # percent of a core: what needs less is not the cause, for the other side takes the rest


@dataclass(frozen=True)
class Side:
    """Both sides of a clash, if TTNN reserves the bytes below ``base_bytes`` and the L1 ends at ``end_bytes``.

    The tensors reach from ``tensor_address`` up to the end of the L1, holes and any L1_SMALL region included.
    """

    base_bytes: int
    end_bytes: int
    tensor_address: int
    program_bytes: int

    @property
    def room_bytes(self) -> int:
        """What a core has for tensors and programs."""
        return self.end_bytes - self.base_bytes

    @property
    def left_bytes(self) -> int:
        """What the tensors leave for programs."""
        return self.tensor_address - self.base_bytes

    @property
    def tensors_bytes(self) -> int:
        return self.end_bytes - self.tensor_address


def cause_line(sides: Sequence[Side], bounds: Sequence[Side] = ()) -> str:
    """Returns what takes up the core, where all possible ``sides`` agree; "" for none.

    ``bounds``: those of the least that builds may reserve of which nothing else is known: they must agree, but show no numbers.
    """
    sides = [side for side in sides if side.room_bytes > 0]
    if not sides:
        return ""
    possible = [*sides, *bounds]
    need, left = _bytes(sides, lambda side: side.program_bytes), _bytes(sides, lambda side: side.left_bytes)
    program, tensors = _percent(sides, lambda side: side.program_bytes), _percent(sides, lambda side: side.tensors_bytes)
    if all(side.program_bytes > side.room_bytes for side in possible):
        return f"the program is the cause: its buffers exceed a core without any tensor, {program} of what one has"
    if all(side.program_bytes * 100 <= SMALL * side.room_bytes for side in possible):
        return (
            f"the tensors in L1 are the cause, not the program: they leave {left} of a core for programs, and this one needs"
            f" only {need}, {program} of what a core has"
        )
    if all(side.tensors_bytes * 100 <= SMALL * side.room_bytes for side in possible):
        return f"the program takes up the core: its buffers need {program} of what one has, the tensors take the top {tensors}"
    if all(side.program_bytes <= side.room_bytes for side in possible):
        return (
            f"together they exceed a core, neither does alone: the program needs {program} of what one has, the tensors take"
            f" the top {tensors} and leave {left}"
        )
    return ""


def _bytes(sides: Sequence[Side], of: Callable[[Side], int]) -> str:
    low, high = min(map(of, sides)), max(map(of, sides))
    return f"{low:,} B" if low == high else f"{low:,} to {high:,} B"


def _percent(sides: Sequence[Side], of: Callable[[Side], int]) -> str:
    shares = [100 * of(side) / side.room_bytes for side in sides]
    low, high = f"{min(shares):,.1f}", f"{max(shares):,.1f}"
    return f"{low} %" if low == high else f"{low} to {high} %"
