"""Draws the L1 of a core over the steps of a plan, below its timeline of DRAM and in the same way: x is the step."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ssinghal.plan.plot import HEADROOM
from ssinghal.plan.plot_paths import Area, Tick, from_top, heights, outline, staircase, x_ticks, y_interval, y_ticks
from ssinghal.plan.result import PlanResult


@dataclass(frozen=True)
class L1Plot:
    """The drawing of a core's L1.

    ``steps``: the width of the paths' box. ``limit``: a line at what each step may take of it, "" where that is the bank.
    ``bank``: the end of L1, and ``peak``: x and y, in per cent.
    """

    steps: int
    areas: tuple[Area, ...]
    limit: str
    x_ticks: tuple[Tick, ...]
    y_ticks: tuple[Tick, ...]
    bank: float
    peak: tuple[float, float]
    peak_step: int


def l1_plot_of(plan: PlanResult) -> L1Plot | None:
    """Draws a plan; None where program buffers were not measured, as in plans of earlier versions."""
    steps, bank = plan.steps, plan.l1_bank_bytes
    peaks = [use.l1_total_peak_bytes for use in steps]
    if not bank or not any(peaks):
        return None
    least = max(bank, *peaks) * HEADROOM
    every = y_interval(least)
    top = every * math.ceil(least / every)
    after = heights([use.l1_bytes for use in steps], top)
    within = heights([max(use.l1_total_peak_bytes, use.l1_bytes) for use in steps], top)
    floor = heights([0] * len(steps), top)
    place = peaks.index(max(peaks))
    return L1Plot(
        len(steps),
        (Area("activations", outline(after, floor)), Area("cache", outline(within, after))),
        _limit(plan, top),
        x_ticks(steps),
        y_ticks(top),
        from_top(bank, top),
        (round(100 * (place + 0.5) / len(steps), 3), from_top(peaks[place], top)),
        steps[place].number,
    )


def _limit(plan: PlanResult, top: int) -> str:
    placed = {step.number: step.limit_bytes for step in plan.placement.steps} if plan.placement is not None else {}
    limits = [placed.get(use.number, plan.l1_bank_bytes) for use in plan.steps]
    return staircase(heights(limits, top)) if min(limits) < plan.l1_bank_bytes else ""
