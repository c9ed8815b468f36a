"""Searches the smallest count of pieces that works. A count that fails for another reason than memory is an upper limit."""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass

from ssinghal.remedy.strategies.strategy import why_not
from ssinghal.remedy.trial import Trial, TrialResult


@dataclass(frozen=True)
class CountResult:
    """The smallest count that works, with the result of its trial; or the reason why none works."""

    result: TrialResult | None
    count: int = 0
    reason: str = ""


def smallest_count(
    trial: Callable[[int], Trial], most: int, first: int = 2, too_few: int = 0
) -> Generator[Trial, TrialResult, CountResult]:
    """Doubles from ``first`` until a count works, then bisects down to ``too_few``, which is known not to work. Tries nothing
    above a count that fails for another reason than memory, such as more slices than TTNN takes."""
    count, ceiling = max(min(first, most), 1), most + 1
    best: TrialResult | None = None
    reason = f"no count up to {most}"
    while best is None:
        result: TrialResult = yield trial(count)
        if result.works:
            best = result
            break
        reason = f"{count} pieces: {why_not(result)}"
        if result.verdict.resource is None:
            ceiling = count
        else:
            too_few = count
        step = min(count * 2, most) if ceiling > most else (too_few + ceiling) // 2
        if step <= too_few or step >= ceiling:
            return CountResult(None, reason=reason)
        count = step
    while count - too_few > 1:
        middle = (count + too_few) // 2
        result = yield trial(middle)
        if result.works:
            best, count = result, middle
        else:
            too_few = middle
    return CountResult(best, count)
