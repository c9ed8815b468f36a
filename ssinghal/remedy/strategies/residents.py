"""Strategies that change what others hold when a call runs: live buffers, and the L1_SMALL region."""

from __future__ import annotations

from dataclasses import replace

from ssinghal.core.tensors import (
    BufferType,
    format_bytes,
    round_up,
)
from ssinghal.core.verdict import Resource
from ssinghal.remedy.problem import Problem
from ssinghal.remedy.strategies.strategy import Strategy, StrategyResult, StrategySearch, always, why_not
from ssinghal.remedy.trial import Impact, LiveSet, RewriteName, TrialResult


def _has_residents(problem: Problem) -> bool:
    return any(r.memory is BufferType.L1 and not r.freed for r in problem.live)


def _spill(problem: Problem) -> StrategySearch:
    for back in (True, False):
        result = yield problem.trial(rewrite=RewriteName.SPILLED, back=back)
        if result.works:
            how = "for the call" if back else "and stay there"
            return StrategyResult(result, note=f"other buffers in L1 move to DRAM {how}")
    return StrategyResult(None, why_not(result))


def _free_residents(problem: Problem) -> StrategySearch:
    """Finds how much of the other buffers may stay, to a 64th of them or a KiB; the rest must be freed before the call."""
    memory = _memory_that_ran_out(problem)
    held = sum(r.bytes_per_bank for r in problem.live if r.memory is memory and not r.freed)
    if not held:
        return StrategyResult(None, "there are no other buffers in it")
    fits: TrialResult | None = None
    low, high = 0, held  # bytes that stay
    while fits is None or high - low > max(held // 64, 1024):
        stays = low if fits is None else (low + high) // 2
        result = yield problem.trial(live=_shrunk(problem.live, memory, stays, held))
        if result.works:
            fits, low = result, stays
        elif fits is None:
            return StrategyResult(None, f"it does not fit without other buffers either: {why_not(result)}")
        else:
            high = stays
    return StrategyResult(
        fits, note=f"free {format_bytes(held - low)} per {str(memory).upper()} bank of other buffers before the call"
    )


def _memory_that_ran_out(problem: Problem) -> BufferType:
    """Returns the memory that ran out (L1 for program buffers), or one that holds other buffers."""
    ran_out = BufferType.DRAM if problem.verdict.resource is Resource.DRAM_BUFFER else BufferType.L1
    occupied = [r.memory for r in problem.live if not r.freed]
    return ran_out if ran_out in occupied else occupied[0]


def _shrunk(live: LiveSet, memory: BufferType, stays: int, held: int) -> LiveSet:
    return tuple(
        r if r.memory is not memory or r.freed else replace(r, bytes_per_bank=r.bytes_per_bank * stays // held) for r in live
    )


def _is_fragmented(problem: Problem) -> bool:
    return bool(problem.live) and problem.verdict.resource is Resource.FRAGMENTATION


def _reallocate(problem: Problem) -> StrategySearch:
    result = yield problem.trial(rewrite=RewriteName.REALLOCATED)
    if not result.works:
        return StrategyResult(None, why_not(result))
    return StrategyResult(result, note="each of the other buffers is moved once")


def _l1_small(problem: Problem) -> StrategySearch:
    """Finds the smallest region that suffices, to the allocator's granule."""
    granule = problem.board.granule_bytes
    low = problem.case.placement.l1_small_bytes or 0
    high = max(round_up(low + (problem.verdict.bytes_per_bank or granule), granule), granule)
    limit = problem.board.l1.bank_bytes // 2
    best: TrialResult | None = None
    while best is None and high <= limit:
        result = yield problem.trial(problem.placed(l1_small_bytes=high))
        if result.works:
            best = result
        elif result.verdict.resource is not Resource.L1_SMALL_BUFFER:
            return StrategyResult(None, f"l1_small_size={high:,} suffices, but then: {why_not(result)}")
        else:
            low, high = high, high * 2
    if best is None:
        return StrategyResult(None, f"half of L1 as L1_SMALL ({limit:,} B) does not suffice")
    while high - low > granule:
        middle = round_up((low + high) // 2, granule)
        if middle == high:
            break
        result = yield problem.trial(problem.placed(l1_small_bytes=middle))
        if result.works:
            best, high = result, middle
        else:
            low = middle
    note = (
        f"open the device with l1_small_size={high}, the smallest for this call alone, in steps of {granule} B; calls whose"
        " programs stay in the cache add up; 32,768 was enough for every measured call"
    )
    return StrategyResult(best, note=note)


def _can_shrink_region(problem: Problem) -> bool:
    """The region takes room from L1: tensors start lower, and program buffers run into them."""
    in_l1 = problem.verdict.resource in (Resource.CLASH, Resource.L1_BUFFER)
    return in_l1 and bool(problem.case.placement.l1_small_bytes)


def _smaller_region(problem: Problem) -> StrategySearch:
    """Halves the region until the call works, as long as the region suffices."""
    size, granule, reason = problem.case.placement.l1_small_bytes or 0, problem.board.granule_bytes, ""
    missing = problem.verdict.shortfall_bytes
    if missing is not None and missing > size:
        return StrategyResult(None, f"{missing:,} B are missing, and the region has only {size:,} B")
    while size > granule:
        size = round_up(size // 2, granule)
        result = yield problem.trial(problem.placed(l1_small_bytes=size))
        if result.works:
            return StrategyResult(result, note=f"open the device with l1_small_size={size}: L1 gains the rest of the region")
        reason = f"l1_small_size {size:,}: {why_not(result)}"
        if result.verdict.resource is Resource.L1_SMALL_BUFFER:
            break
    return StrategyResult(None, reason)


L1_SMALL = Strategy("l1_small_size", Impact.SAME, always, _l1_small)
REALLOCATE = Strategy("reallocate live buffers", Impact.SAME, _is_fragmented, _reallocate)
SPILL = Strategy("spill live buffers to DRAM", Impact.SAME, _has_residents, _spill)
SMALLER_REGION = Strategy("a smaller L1_SMALL region", Impact.SAME, _can_shrink_region, _smaller_region)
FREE_DEAD = Strategy("free dead buffers", Impact.SAME, lambda p: any(not r.freed for r in p.live), _free_residents)
