"""Guesses from the runs of a search where its edge is, so that fewer runs find it. A guess only chooses what is run next."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar


class Outcome(Protocol):
    """The result of a run. ``fits``: None if it was no trial of memory, such as an invalid call, a crash or a timeout."""

    @property
    def fits(self) -> bool | None: ...


R = TypeVar("R", bound=Outcome)

STEP = 8  # the most by which the size grows from one run to the next
LINES = 8  # runs that lines may choose; then the gap is halved


@dataclass(frozen=True)
class Aim(Generic[R]):
    """Takes what runs need to grow in a straight line with the size of their values.

    ``sizes``: of the values, in their order. ``demand``: what a run needs, as a share of the memory, also where that is more
    than there is; None where it is not known.
    """

    sizes: Sequence[int]
    demand: Callable[[R], float | None]

    def next_index(self, tried: Mapping[int, R]) -> int | None:
        """Returns the index to run next, between the last run that fits and the first one beyond that does not. None if two
        neighbours have shown the edge, or if it is not known where to aim: before there are two runs, where none fits, or where
        one could not be tried."""
        fits = sorted(i for i, outcome in tried.items() if outcome.fits)
        if len(tried) < 2 or not fits or any(outcome.fits is None for outcome in tried.values()):
            return None
        fit = fits[-1]
        fail = min((i for i in tried if i > fit), default=len(self.sizes))
        if fail == fit + 1:
            return None
        if fail == len(self.sizes):
            size = None if len(fits) < 2 else self._size(tried, fits[-2], fit)
            return None if size is None else self._within(min(size, STEP * self.sizes[fit]), fit, fail)
        size = self._size(tried, fit, fail) if len(tried) < LINES else None
        return (fit + fail) // 2 if size is None else self._within(size, fit, fail)

    def _size(self, tried: Mapping[int, R], first: int, second: int) -> float | None:
        """Returns the size at which the line through two runs reaches the memory."""
        low, high = self.demand(tried[first]), self.demand(tried[second])
        if low is None or high is None or high <= low:
            return None
        return self.sizes[first] + (1 - low) * (self.sizes[second] - self.sizes[first]) / (high - low)

    def _within(self, size: float, fit: int, fail: int) -> int:
        return min(max(bisect_right(self.sizes, size) - 1, fit + 1), fail - 1)
