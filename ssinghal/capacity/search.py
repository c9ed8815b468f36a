"""The edge between values that fit and values that do not, both sides run, on no assumption that there is only one.

Values stand in the order of growing demand: batches upwards, slice counts downwards. The search strides from a start with
steps that double, halves the gap it has found, and then doubts the answer: the values beside it, some beyond it and some below
are run as well, and wherever that shows another change from fitting to not fitting, the gap there is halved too. What
arithmetic knows for certain costs no run; but the two sides of the answer are run all the same, and once a run contradicts
arithmetic it is no longer heeded. Knows nothing of operators, models or devices.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Generic, Protocol, TypeVar


class Outcome(Protocol):
    """What a run tells. All that does not fit counts as beyond the edge; why is for the caller to say."""

    @property
    def fits(self) -> bool: ...


V = TypeVar("V")
R = TypeVar("R", bound=Outcome)
Hint = Callable[[V], "bool | None"]


@dataclass(frozen=True)
class SearchLimits:
    """``runs``: most of them, the doubts among them. Of those, ``neighbours`` on either side of the edge, and ``samples``
    spread evenly beyond it, up to twice as far, and as many below it. ``looks``: values on either side that arithmetic is asked
    for. ``seconds``: after them no run begins, after ``doubt_seconds`` none beyond those that the edge itself needs."""

    runs: int = 64
    neighbours: int = 2
    samples: int = 4
    looks: int = 64
    seconds: float = math.inf
    doubt_seconds: float = math.inf


EDGE_ALONE = SearchLimits(neighbours=0, samples=0)  # where a run takes long: both sides of one edge, and no doubts


@dataclass(frozen=True)
class EdgeInterval(Generic[V]):
    """Values from ``first`` to ``last`` of which all that were run ended alike; the indices lead to the outcomes."""

    first: V
    last: V
    fits: bool
    runs: int
    first_index: int
    last_index: int


@dataclass(frozen=True)
class Edge(Generic[V, R]):
    """What a search found. ``tried``: every run, by the index of its value, in order. ``judged``: what arithmetic said of those
    indices for which it was asked and is certain. ``is_spent``: runs or time were used up with something left to do."""

    values: Sequence[V]
    tried: Mapping[int, R]
    judged: Mapping[int, bool] = field(default_factory=dict)
    is_spent: bool = False

    @property
    def fit(self) -> int | None:
        """Index of the answer: the last value that fits. None where nothing that was run does."""
        return max((i for i, outcome in self.tried.items() if outcome.fits), default=None)

    @property
    def fail(self) -> int | None:
        """Index of the first run beyond the answer; None at an open end."""
        fit = self.fit
        return min((i for i in self.tried if fit is None or i > fit), default=None)

    @property
    def is_open(self) -> bool:
        """The last of all values fits: the edge, if there is one, lies beyond them."""
        return self.fit == len(self.values) - 1

    @property
    def is_confirmed(self) -> bool:
        """Both sides were run: a value that fits, and the very next one, which does not."""
        return self.fit is not None and self.fail == self.fit + 1

    @property
    def stretches(self) -> list[EdgeInterval[V]]:
        """All runs in the order of the values, joined where they end alike."""
        made: list[list[int]] = []
        for index, outcome in self.tried.items():
            if made and self.tried[made[-1][-1]].fits == outcome.fits:
                made[-1].append(index)
            else:
                made.append([index])
        return [EdgeInterval(self.values[x[0]], self.values[x[-1]], self.tried[x[0]].fits, len(x), x[0], x[-1]) for x in made]

    @property
    def holes(self) -> list[EdgeInterval[V]]:
        """Where something below the answer does not fit: the demand is not monotone."""
        return [x for x in self.stretches if not x.fits and self.fit is not None and x.last_index < self.fit]

    @property
    def contradicted(self) -> list[int]:
        """Indices of runs that ended otherwise than arithmetic was certain they would: a defect of the arithmetic."""
        return [i for i, outcome in self.tried.items() if self.judged.get(i, outcome.fits) != outcome.fits]

    def known_between(self, first: int, last: int) -> tuple[int, int]:
        """How many of the indices ``first`` to ``last``, both included, were run, and how many arithmetic alone has judged."""
        within = range(first, last + 1)
        run = sum(i in within for i in self.tried)
        return run, sum(i in within and i not in self.tried for i in self.judged)


def search_edge(
    values: Sequence[V],
    try_: Callable[[V], R],
    hint: Hint[V] | None = None,
    *,
    start: int = 0,
    favoured: range = range(0),
    effort: SearchLimits = SearchLimits(),
) -> Edge[V, R]:
    """The last of ``values`` that fits while the next one does not.

    ``values`` are asked for by index and never walked, so a range of millions will do; the first is thought the least
    demanding. ``hint``: True or False where arithmetic is certain that a value fits or does not, else None. ``start``: the
    index that is tried first: 0, or near where the edge is expected (``last_possible``). ``favoured``: indices that may fit
    where those between them do not, as sizes of whole tiles. What ``try_`` raises ends the search.
    """
    search = _SearchState(values, hint or (lambda value: None), min(max(start, 0), len(values) - 1), favoured, effort)
    tried: dict[int, R] = {}
    started = time.perf_counter()
    is_spent = False
    while values and (index := search.next_index({i: outcome.fits for i, outcome in tried.items()})) is not None:
        seconds = time.perf_counter() - started
        is_spent = len(tried) >= effort.runs or seconds > (effort.doubt_seconds if search.is_doubting else effort.seconds)
        if is_spent:
            break
        tried[index] = try_(values[index])
    judged = {i: certain for i, certain in sorted(search.hints.items()) if certain is not None}
    return Edge(values, dict(sorted(tried.items())), judged, is_spent)


def last_possible(values: Sequence[V], hint: Hint[V]) -> int:
    """Index of the last value that arithmetic does not rule out, found by halving: a ``start`` where arithmetic comes near.
    0 where it rules out all."""
    low, high = 0, len(values)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if hint(values[middle]) is False else (middle, high)
    return low


class _SearchState(Generic[V]):
    """Which index to run next. Keeps nothing but arithmetic's answers: all else follows from the runs so far."""

    def __init__(self, values: Sequence[V], hint: Hint[V], start: int, favoured: range, effort: SearchLimits) -> None:
        self._values, self._hint, self._start, self._favoured, self._effort = values, hint, start, favoured, effort
        self._last = len(values) - 1
        self.hints: dict[int, bool | None] = {}
        self._ran: Mapping[int, bool] = {}
        self._is_doubted = False  # a run has contradicted arithmetic, which then spares no further run
        self.is_doubting = False  # both sides of an edge have run

    def next_index(self, ran: Mapping[int, bool]) -> int | None:
        """None where nothing is left to do."""
        self._ran = ran
        self._is_doubted = any(self.hints.get(index) not in (None, fits) for index, fits in ran.items())
        fit = max((i for i, fits in ran.items() if fits), default=-1)
        found = self._stride(self._start)
        if found is None and fit == max(ran):
            found = self._stride(fit)
        if found is None:
            found = next(self._gaps(above=fit), None)
        self.is_doubting = found is None
        return found if found is not None else next((i for i in self._doubts(fit) if i not in ran), None)

    def _known(self, index: int) -> bool | None:
        if index in self._ran:
            return self._ran[index]
        if index not in self.hints:
            self.hints[index] = self._hint(self._values[index])
        return None if self._is_doubted else self.hints[index]

    def _stride(self, start: int, unit: int = 1) -> int | None:
        """From ``start``, upwards while it fits, downwards while it does not; then into the gap; all by multiples of ``unit``.
        None where both sides of the gap, or the end that was reached, have been run."""
        index, step = start, unit
        fits = self._known(index)
        if fits is None:
            return index
        end = start + (self._last - start) // unit * unit if fits else 0
        while index != end:
            further = min(index + step, end) if fits else max(index - step, end)
            known = self._known(further)
            if known is None:
                return further
            if known is not fits:
                return self._halve(index, further, unit) if fits else self._halve(further, index, unit)
            index, step = further, 2 * step
        return index if index not in self._ran else None

    def _halve(self, fit: int, fail: int, unit: int = 1) -> int | None:
        """Towards two neighbours of which one fits and the other does not, whichever is the greater; None if both have run."""
        while abs(fail - fit) > unit:
            middle = min(fit, fail) + abs(fail - fit) // unit // 2 * unit
            known = self._known(middle)
            if known is None:
                return middle
            fit, fail = (middle, fail) if known else (fit, middle)
        return next((i for i in (fit, fail) if i not in self._ran), None)

    def _doubts(self, fit: int) -> Iterator[int]:
        """Runs that could still change the answer or show that it is not the whole truth, the weightiest first."""
        if fit >= 0 and (found := self._favourable(fit)) is not None:
            yield found
        yield from self._beyond(fit)
        yield from self._gaps(above=-1)
        yield from self._below(fit)

    def _gaps(self, above: int) -> Iterator[int]:
        """Between neighbouring runs that ended differently, from the most demanding down; those that reach ``above``."""
        for high, low in pairwise(sorted(self._ran, reverse=True)):
            if high > above and self._ran[high] is not self._ran[low]:
                pair = (low, high) if self._ran[low] else (high, low)
                found = self._halve(*pair)
                if found is not None:
                    yield found

    def _favourable(self, fit: int) -> int | None:
        """Favoured values beyond the first failure, from the first of them on, as long as they fit."""
        first_fail = min((i for i, fits in self._ran.items() if not fits and i < fit), default=fit)
        begin, unit = self._favoured.start, self._favoured.step
        anchor = begin + max(-(-(first_fail + 1 - begin) // unit), 0) * unit
        if anchor not in self._favoured or self._known(anchor) is False:
            return None
        return self._stride(anchor, unit)

    def _beyond(self, fit: int) -> Iterator[int]:
        """Values beyond the answer that might fit."""
        first, last = fit + 2, min(2 * fit + 1, self._last)
        if fit < 0:  # nothing fits so far: what the strides left out
            first, last = 0, max(self._start, min(self._effort.neighbours, self._last))
        near = range(first, min(first + self._effort.neighbours, self._last + 1))
        spread = _spread(first, last, self._effort.samples if fit >= 0 else 4 * self._effort.samples)
        yield from (i for i in (*near, *spread) if self._known(i) is not False)
        if self._effort.samples:
            yield from (i for i in _spread(first, last, self._effort.looks) if self._known(i))

    def _below(self, fit: int) -> Iterator[int]:
        """Values below the answer that might not fit."""
        near = range(fit - 1, max(fit - 1 - self._effort.neighbours, -1), -1)
        spread = _spread(0, fit - 1, self._effort.samples)
        yield from (i for i in (*near, *spread) if self._known(i) is not True)
        if self._effort.samples:
            yield from (i for i in _spread(0, fit - 1, self._effort.looks) if self._known(i) is False)


def _spread(first: int, last: int, count: int) -> Iterable[int]:
    """``count`` of the numbers ``first`` to ``last``, evenly, the ends among them; all where there are no more."""
    size = last - first + 1
    if size <= count:
        return range(first, last + 1)
    if count < 2:
        return range(last, last + count)
    return sorted({first + (size - 1) * i // (count - 1) for i in range(count)})
