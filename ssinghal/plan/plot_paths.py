"""Draws over the steps of a plan: staircases and areas as paths of an SVG, and ticks of both axes.

Paths are in a box of one unit per step and ``HEIGHT`` units, which the page stretches; ticks are placed by per cent.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby

from ssinghal.core.tensors import format_bytes
from ssinghal.plan.result import StepUse

HEIGHT = 1000
X_TICKS, Y_TICKS = 8, 6  # at most


@dataclass(frozen=True)
class Area:
    """An area of the plot. ``kind``: its class in the style. ``path``: its outline."""

    kind: str
    path: str


@dataclass(frozen=True)
class Tick:
    """A tick of an axis. ``place``: per cent from the left or from the top."""

    place: float
    text: str


def from_top(size_bytes: int, top: float) -> float:
    """Returns the place of a size in per cent from the upper edge, which is at ``top`` bytes."""
    return round(100 * (1 - size_bytes / top), 3)


def heights(sizes: Iterable[int], top: float) -> list[float]:
    """Returns the places of sizes in a path's box, from the upper edge."""
    return [round(HEIGHT * (1 - size / top), 1) for size in sizes]


def staircase(places: Sequence[float]) -> str:
    """Draws a line on which each place goes over the full width of its step."""
    return f"M0 {places[0]:g}" + "".join(_stairs(places, 0))


def outline(ceiling: Sequence[float], floor: Sequence[float]) -> str:
    """Draws an area between two staircases."""
    back = "".join(_stairs(floor[::-1], len(floor), -1))
    return f"{staircase(ceiling)}V{floor[-1]:g}{back}Z"


def _stairs(places: Sequence[float], x: int, by: int = 1) -> Iterable[str]:
    for place, same in groupby(places):
        x += by * len(list(same))
        yield f"V{place:g}H{x}"


def x_ticks(steps: Sequence[StepUse]) -> tuple[Tick, ...]:
    """Places ticks at 1, 2 or 5 times a power of ten steps."""
    every = next(n * 10**k for k in range(20) for n in (1, 2, 5) if len(steps) <= n * 10**k * X_TICKS)
    return tuple(
        Tick(round(100 * (i + 0.5) / len(steps), 3), f"{use.number:,}") for i, use in enumerate(steps) if i % every == 0
    )


def y_interval(size_bytes: float) -> int:
    """Returns a power of two of bytes, so that ticks have short names."""
    return next(1 << k for k in range(100) if size_bytes <= (1 << k) * Y_TICKS)


def y_ticks(top: int) -> tuple[Tick, ...]:
    """Places ticks from 0 to ``top`` bytes."""
    sizes = range(0, top + 1, y_interval(top))
    return tuple(Tick(from_top(size, top), format_bytes(size).partition(" (")[0]) for size in sizes)
