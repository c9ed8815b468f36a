"""Draws the timeline of a plan as paths of an SVG: x is the step, y are bytes per DRAM bank.

Everything scales with the available space: areas and lines are drawn in a box that the page stretches (see ``plot_paths``);
what must not be stretched is placed by per cent.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from ssinghal.core.verdict import Resource
from ssinghal.plan.plot_paths import Area, Tick, from_top, heights, outline, x_ticks, y_interval, y_ticks
from ssinghal.plan.result import PlanResult, StepUse

HEADROOM = 1.02  # at least, above the highest point that is drawn
REACH = 2.0  # the end of a bank is drawn up to this factor above the highest bytes
MAX_REQUESTED = 1.3  # banks; a larger request is cut off there
_BUFFERS = (Resource.DRAM_BUFFER, Resource.FRAGMENTATION)


@dataclass(frozen=True)
class RequestMark:
    """The request of the first failing call, on top of what was allocated: per cent from the top."""

    top: float
    bottom: float
    is_cut: bool


@dataclass(frozen=True)
class Plot:
    """The drawing of a plan. Places are per cent; those that are None are not drawn.

    ``steps``: the width of the paths' box. ``within``: a line above the areas of calls that take more while they run. ``bank``:
    the end of a bank. ``peak``: x and y. ``failed``: the middle of the first failing step. ``after``: its left edge, from which
    on there are stand-ins. ``requested``: by the failing call.
    """

    steps: int
    areas: tuple[Area, ...]
    within: str
    x_ticks: tuple[Tick, ...]
    y_ticks: tuple[Tick, ...]
    bank: float | None
    peak: tuple[float, float] | None
    failed: float | None
    after: float | None
    requested: RequestMark | None

    @property
    def is_left_free(self) -> bool:
        """Whether there is space for a text at the left of the failure."""
        return self.failed is None or self.failed > 50


def plot_of(plan: PlanResult) -> Plot | None:
    """Draws a plan; None where no step was done."""
    steps = plan.steps
    if not steps:
        return None
    top, has_bank = _top(plan)
    weights = plan.peak.weights_bytes
    layers = {
        "weights": [min(weights, use.dram_bytes) for use in steps],
        "cache": [min(weights + use.cache_bytes, use.dram_bytes) for use in steps],
        "activations": [use.dram_bytes for use in steps],
    }
    base: Sequence[int] = [0] * len(steps)
    areas = []
    for kind, ceiling in layers.items():
        areas.append(Area(kind, outline(heights(ceiling, top), heights(base, top))))
        base = ceiling
    failed = _place_of(steps, plan.failure.step) if plan.failure is not None else None
    width = 100 / len(steps)
    return Plot(
        len(steps),
        tuple(areas),
        _within(steps, top),
        x_ticks(steps),
        y_ticks(top),
        from_top(plan.dram_bank_bytes, top) if has_bank else None,
        ((plan.peak_step + 0.5) * width, from_top(plan.peak_bytes, top)) if 0 <= plan.peak_step < len(steps) else None,
        (failed + 0.5) * width if failed is not None else None,
        failed * width if failed is not None else None,
        _request_mark(plan, top),
    )


def _top(plan: PlanResult) -> tuple[int, bool]:
    """Returns the bytes at the upper edge, which has the last tick, and whether the end of a bank is below it."""
    bank = plan.dram_bank_bytes
    highest = max(plan.peak_bytes, *(max(use.dram_peak_bytes, use.dram_bytes) for use in plan.steps), 1)
    _, with_request = _request(plan)
    highest = max(highest, min(with_request, int(bank * MAX_REQUESTED)))
    has_bank = 0 < bank <= highest * REACH
    least = (max(highest, bank) if has_bank else highest) * HEADROOM
    every = y_interval(least)
    return every * math.ceil(least / every), has_bank


def _request(plan: PlanResult) -> tuple[int, int]:
    """Returns the bytes per DRAM bank before and with the failing request; 0 where something else ran out."""
    verdict = plan.failure.verdict if plan.failure is not None else None
    if verdict is None or verdict.resource not in _BUFFERS or verdict.bank_bytes != plan.dram_bank_bytes:
        return 0, 0
    allocated, requested = verdict.allocated_bytes, verdict.bytes_per_bank
    return (0, 0) if allocated is None or requested is None else (allocated, allocated + requested)


def _request_mark(plan: PlanResult, top: float) -> RequestMark | None:
    allocated, with_request = _request(plan)
    if not with_request:
        return None
    return RequestMark(max(from_top(with_request, top), 0), from_top(allocated, top), with_request > top)


def _place_of(steps: Sequence[StepUse], number: int) -> int | None:
    return next((place for place, use in enumerate(steps) if use.number == number), None)


def _within(steps: Sequence[StepUse], top: float) -> str:
    parts = []
    for x, use in enumerate(steps):
        if use.dram_peak_bytes > use.dram_bytes:
            low, high = heights([use.dram_bytes, use.dram_peak_bytes], top)
            parts.append(f"M{x} {low:g}V{high:g}h1V{low:g}")
    return "".join(parts)
