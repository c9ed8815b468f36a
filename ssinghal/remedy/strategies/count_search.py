"""The smallest count that works. It need not be monotone: a count refused for another reason than memory is a ceiling."""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass

from ssinghal.remedy.strategies.placement import said
from ssinghal.remedy.trial import Trial, TrialResult


@dataclass(frozen=True)
class CountResult:
    """The smallest count that works and its trial; without one, why."""

    tried: TrialResult | None
    count: int = 0
    reason: str = ""


def smallest_count(
    trial: Callable[[int], Trial], most: int, first: int = 2, refused: int = 0
) -> Generator[Trial, TrialResult, CountResult]:
    """Doubles from ``first`` until a count works, then halves the gap to the last that did not. ``refused``: a count that is
    known not to work. Above a refusal that is not about memory, such as more slices than TTNN takes, nothing is tried."""
    count, ceiling = max(min(first, most), 1), most + 1
    best: TrialResult | None = None
    reason = f"no count up to {most}"
    while best is None:
        tried: TrialResult = yield trial(count)
        if tried.works:
            best = tried
            break
        reason = f"{count} pieces: {said(tried)}"
        if tried.verdict.resource is None:
            ceiling = count
        else:
            refused = count
        step = min(count * 2, most) if ceiling > most else (refused + ceiling) // 2
        if step <= refused or step >= ceiling:
            return CountResult(None, reason=reason)
        count = step
    while count - refused > 1:
        middle = (count + refused) // 2
        tried = yield trial(middle)
        if tried.works:
            best, count = tried, middle
        else:
            refused = middle
    return CountResult(best, count)
