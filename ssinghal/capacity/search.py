"""Finds the edge between values that fit and values that do not. Runs both sides and does not assume that there is only one.

A value that could not be tried bounds nothing. The values next to it are tried instead; where these cannot be tried either, the
search stays on the side of what fits, and the answer names what is unknown.

Values are in the order of growing demand: batches upwards, slice counts downwards. The search strides from a start with steps
that double, or aims by what runs needed (``aiming``), halves the gap it reaches, and then checks the answer: values next to it,
some beyond it and some below it are run as well, and wherever these show another change from fitting to not fitting, that gap
is halved too. Values for which arithmetic is certain are not run, except the two sides of the answer; once a run contradicts
arithmetic, arithmetic is ignored. The module does not depend on operators, models or devices.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby, pairwise
from typing import Generic, TypeVar

from ssinghal.capacity.aiming import LINES, Aim, Outcome

V = TypeVar("V")
R = TypeVar("R", bound=Outcome)
Hint = Callable[[V], "bool | None"]
Watch = Callable[[V, int], None]  # gets each value before its run, and how many runs are left at most, this one included


@dataclass(frozen=True)
class SearchLimits:
    """``runs``: maximum number of runs, extra checks included. ``neighbours``: extra checks on either side of the edge.
    ``samples``: extra checks spread evenly beyond the edge, up to twice as far, and as many below it. ``estimates``: values on
    either side that are judged by arithmetic. ``seconds``: no run starts after this time, and after ``check_seconds`` no extra
    check."""

    runs: int = 64
    neighbours: int = 2
    samples: int = 4
    estimates: int = 64
    seconds: float = math.inf
    check_seconds: float = math.inf


INSTEAD = (0, 1, -1, 2, -2, 3)  # where to look for a value that can be tried: finds every second, third or fourth value
EDGE_ALONE = SearchLimits(neighbours=0, samples=0)  # for slow runs: both sides of one edge, no extra checks


@dataclass(frozen=True)
class EdgeInterval(Generic[V]):
    """Values from ``first`` to ``last``, with their indices: all of them that were run ended alike."""

    first: V
    last: V
    fits: bool | None
    runs: int
    first_index: int
    last_index: int


@dataclass(frozen=True)
class Edge(Generic[V, R]):
    """The result of a search. ``tried``: every run by the index of its value, in order. ``judged``: answers of arithmetic by
    index, where it is certain. ``is_spent``: the search stopped at its limit of runs or time."""

    values: Sequence[V]
    tried: Mapping[int, R]
    judged: Mapping[int, bool] = field(default_factory=dict)
    is_spent: bool = False

    @property
    def fit(self) -> int | None:
        """Index of the answer: the last value that fits. None if none of the runs fits."""
        return max((i for i, outcome in self.tried.items() if outcome.fits), default=None)

    @property
    def fail(self) -> int | None:
        """Index of the first run beyond the answer that does not fit; None at an open end, or if none could be tried."""
        return min((i for i in self._beyond if self.tried[i].fits is False), default=None)

    @property
    def untried(self) -> list[int]:
        """Indices of the values that could not be tried and lie between ``fit`` and ``fail``: what may fit after all."""
        fail = self.fail
        return [i for i in self._beyond if self.tried[i].fits is None and (fail is None or i < fail)]

    @property
    def _beyond(self) -> list[int]:
        fit = self.fit
        return [i for i in self.tried if fit is None or i > fit]

    @property
    def is_open(self) -> bool:
        """The last of all values fits: the edge, if there is one, is beyond them."""
        return self.fit == len(self.values) - 1

    @property
    def is_confirmed(self) -> bool:
        """Both sides were run: a value that fits and the next one, which does not."""
        return self.fit is not None and self.fail == self.fit + 1

    @property
    def intervals(self) -> list[EdgeInterval[V]]:
        """All runs in the order of the values, joined where they end alike."""
        groups = (list(group) for _, group in groupby(self.tried, lambda index: self.tried[index].fits))
        return [EdgeInterval(self.values[x[0]], self.values[x[-1]], self.tried[x[0]].fits, len(x), x[0], x[-1]) for x in groups]

    @property
    def holes(self) -> list[EdgeInterval[V]]:
        """Intervals below the answer that do not fit (the demand is not monotone) or could not be tried."""
        return [x for x in self.intervals if not x.fits and self.fit is not None and x.last_index < self.fit]

    @property
    def is_monotone(self) -> bool:
        """No run that does not fit lies below one that fits."""
        return all(hole.fits is None for hole in self.holes)

    @property
    def contradicted(self) -> list[int]:
        """Indices of runs that contradict arithmetic although it was certain: a bug in the arithmetic."""
        return [i for i, outcome in self.tried.items() if _differ(self.judged.get(i), outcome.fits)]

    def known_between(self, first: int, last: int) -> tuple[int, int]:
        """Returns how many indices from ``first`` to ``last`` inclusive were decided by a run, how many by arithmetic alone."""
        within = range(first, last + 1)
        run = sum(i in within and outcome.fits is not None for i, outcome in self.tried.items())
        return run, sum(i in within and i not in self.tried for i in self.judged)


def search_edge(
    values: Sequence[V],
    run: Callable[[V], R],
    hint: Hint[V] | None = None,
    *,
    start: int = 0,
    favoured: range = range(0),
    limits: SearchLimits = SearchLimits(),
    watch: Watch[V] | None = None,
    aim: Aim[R] | None = None,
) -> Edge[V, R]:
    """Returns the last of ``values`` that fits while the next one does not.

    ``values`` are accessed by index, so a range of millions is fine; the first is assumed to be the least demanding. ``hint``:
    True or False where arithmetic is certain that a value fits or does not, else None. ``start``: the index to run first: 0, or
    near the expected edge (``last_possible``). ``favoured``: indices that may fit although those between them do not, such as
    sizes of complete tiles. ``watch``: see ``most_left``. ``aim``: chooses the runs up to the first edge, as
    far as it can, instead of strides. An exception of ``run`` ends the search.
    """
    search = _SearchState(values, hint or (lambda value: None), min(max(start, 0), len(values) - 1), favoured, limits)
    tried: dict[int, R] = {}
    started = time.perf_counter()
    is_spent = False
    while values:
        search.see({i: outcome.fits for i, outcome in tried.items()})
        index = None if aim is None else search.allowed(aim.next_index(tried))
        if index is None:
            if search.is_aimed:
                aim = None
            index = search.next_index()
        if index is None:
            break
        seconds = time.perf_counter() - started
        is_spent = len(tried) >= limits.runs or seconds > (limits.check_seconds if search.is_checking else limits.seconds)
        if is_spent:
            break
        if watch is not None:
            watch(values[index], search.most_left(LINES if aim is not None else 0))
        tried[index] = run(values[index])
    judged = {i: certain for i, certain in sorted(search.hints.items()) if certain is not None}
    return Edge(values, dict(sorted(tried.items())), judged, is_spent)


def last_possible(values: Sequence[V], hint: Hint[V]) -> int:
    """Returns the index of the last value that arithmetic does not rule out, by halving: a good ``start`` if arithmetic is
    nearly exact. 0 if it rules out all."""
    low, high = 0, len(values)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if hint(values[middle]) is False else (middle, high)
    return low


class _SearchState(Generic[V]):
    """Chooses the next index to run. Keeps only the answers of arithmetic: everything else follows from the runs so far."""

    def __init__(self, values: Sequence[V], hint: Hint[V], start: int, favoured: range, limits: SearchLimits) -> None:
        self._values, self._hint, self._start, self._favoured, self._limits = values, hint, start, favoured, limits
        self._last = len(values) - 1
        self.hints: dict[int, bool | None] = {}
        self._ran: Mapping[int, bool | None] = {}
        self._is_contradicted = False  # a run has contradicted arithmetic, which is ignored from then on
        self.is_checking = False  # both sides of an edge have run; what follows are extra checks
        self.is_aimed = False

    def see(self, ran: Mapping[int, bool | None]) -> None:
        """Takes the runs so far."""
        self._ran = ran
        self._is_contradicted = any(_differ(self.hints.get(i), fits) for i, fits in ran.items())

    def allowed(self, index: int | None) -> int | None:
        """Returns ``index``, or one on the way to it where arithmetic rules it out; None if there is none beyond what fits. The
        search without aim then starts from there."""
        fit = max((i for i, fits in self._ran.items() if fits), default=-1)
        while index is not None and index > fit and self._known(index) is False:
            index = (fit + index) // 2
        if index is not None and index > fit:
            self.is_aimed = True
            return index
        if self.is_aimed:
            self._start = max(fit, 0)
        return None

    def next_index(self) -> int | None:
        """Returns None if nothing is left to run."""
        ran = self._ran
        fit = max((i for i, fits in ran.items() if fits), default=-1)
        index = self._stride(self._start)
        if index is None and fit == max(ran):
            index = self._stride(fit)
        if index is None:
            index = next(self._gaps(ran, above=fit), None)
        if index is None:
            index = self._other_side(fit)
        self.is_checking = index is None
        return index if index is not None else next((i for i in self._extra_checks(fit) if i not in ran), None)

    def most_left(self, lines: int = 0) -> int:
        """Returns how many runs are left at most, within the limits, if there is one edge only and every value can be tried.

        Each place where the edge can be, by the runs so far and arithmetic, is searched once: for some hundred values.
        ``lines``: of all runs, how many an aim may choose otherwise than by halving the gap between a fit and a failure.
        """
        known = {**({} if self._is_contradicted else self.hints), **self._ran}
        fit = max((i for i, fits in known.items() if fits), default=-1)
        fail = min((i for i, fits in known.items() if fits is False and i > fit), default=self._last + 1)
        aimed = min(max(lines - len(self._ran), 0), fail - fit - 1 - (fail - fit - 1).bit_length())
        return min(max(map(self._left_to, range(fit, fail))) + aimed, self._limits.runs - len(self._ran))

    def _left_to(self, edge: int) -> int:
        """Returns how many more runs find the edge if it is there: ``edge`` is the last index that fits, -1 if none does."""
        search = _SearchState(self._values, lambda _: None, self._start, self._favoured, self._limits)
        search.hints = {i: fits for i, fits in self.hints.items() if fits is (i <= edge)}
        ran = dict(self._ran)
        search.see(ran)
        while (index := search.next_index()) is not None:
            ran[index] = index <= edge
            search.see(ran)
        return len(ran) - len(self._ran)

    def _other_side(self, fit: int) -> int | None:
        """Returns a value beyond the answer, or the first ones where nothing fits, that may show that it does not fit where
        those before it cannot be tried."""
        if any(fits is False for index, fits in self._ran.items() if index > fit):
            return None
        return next((i for i in range(fit + 1, min(fit + 1 + max(INSTEAD), self._last) + 1) if i not in self._ran), None)

    def _known(self, index: int) -> bool | None:
        """Returns None if a run has to decide. A value that could not be tried does not count as one that fits."""
        if index in self._ran:
            return bool(self._ran[index])
        if index not in self.hints:
            self.hints[index] = self._hint(self._values[index])
        return None if self._is_contradicted else self.hints[index]

    def _instead(self, index: int, first: int, last: int, unit: int) -> int:
        """Returns the index, or one near it from ``first`` to ``last`` where it could not be tried."""
        near = (index + unit * offset for offset in INSTEAD)
        return next((i for i in near if first <= i <= last and self._ran.get(i, True) is not None), index)

    def _stride(self, start: int, unit: int = 1) -> int | None:
        """Strides from ``start`` by multiples of ``unit``, upwards while values fit, downwards while they do not; then halves
        the gap. Returns None if both sides of the gap, or the end that was reached, have been run."""
        index, step = self._instead(start, start % unit, self._last, unit), unit
        fits = self._known(index)
        if fits is None:
            return index
        end = start + (self._last - start) // unit * unit if fits else 0
        while index != end:
            target = min(index + step, end) if fits else max(index - step, end)
            further = self._instead(target, *((index + 1, end) if fits else (end, index - 1)), unit)
            known = self._known(further)
            if known is None:
                return further
            if known is not fits:
                return self._halve(index, further, unit) if fits else self._halve(further, index, unit)
            index, step = further, 2 * step
        return index if index not in self._ran else None

    def _halve(self, fit: int, fail: int, unit: int = 1) -> int | None:
        """Approaches two neighbours of which one fits and one does not, in either order. Returns None if both have run."""
        while abs(fail - fit) > unit:
            first, last = min(fit, fail), max(fit, fail)
            middle = self._instead(first + (last - first) // unit // 2 * unit, first + 1, last - 1, unit)
            known = self._known(middle)
            if known is None:
                return middle
            fit, fail = (middle, fail) if known else (fit, middle)
        return next((i for i in (fit, fail) if i not in self._ran), None)

    def _extra_checks(self, fit: int) -> Iterator[int]:
        """Yields runs that could still change the answer or find further edges, the most important first."""
        if fit >= 0 and (index := self._favourable(fit)) is not None:
            yield index
        yield from self._beyond(fit)
        yield from self._gaps({i: fits for i, fits in self._ran.items() if fits is not None}, above=-1)
        yield from self._below(fit)

    def _gaps(self, ran: Mapping[int, bool | None], above: int) -> Iterator[int]:
        """Yields runs between neighbours in ``ran`` of which one fits, from the most demanding down to ``above``."""
        for high, low in pairwise(sorted(ran, reverse=True)):
            if high > above and bool(ran[high]) is not bool(ran[low]):
                pair = (low, high) if ran[low] else (high, low)
                index = self._halve(*pair)
                if index is not None:
                    yield index

    def _favourable(self, fit: int) -> int | None:
        """Strides over the favoured values beyond the first failure as long as they fit."""
        first_fail = min((i for i, fits in self._ran.items() if fits is False and i < fit), default=fit)
        first, unit = self._favoured.start, self._favoured.step
        anchor = first + max(-(-(first_fail + 1 - first) // unit), 0) * unit
        if anchor not in self._favoured or self._known(anchor) is False:
            return None
        return self._stride(anchor, unit)

    def _beyond(self, fit: int) -> Iterator[int]:
        """Yields values beyond the answer that might fit."""
        first, last = fit + 2, min(2 * fit + 1, self._last)
        if fit < 0:  # nothing fits so far: the values between the strides
            first, last = 0, max(self._start, min(self._limits.neighbours, self._last))
        near = range(first, min(first + self._limits.neighbours, self._last + 1))
        spread = _spread(first, last, self._limits.samples if fit >= 0 else 4 * self._limits.samples)
        yield from (i for i in (*near, *spread) if self._known(i) is not False)
        if self._limits.samples:
            yield from (i for i in _spread(first, last, self._limits.estimates) if self._known(i))

    def _below(self, fit: int) -> Iterator[int]:
        """Yields values below the answer that might not fit."""
        near = range(fit - 1, max(fit - 1 - self._limits.neighbours, -1), -1)
        spread = _spread(0, fit - 1, self._limits.samples)
        yield from (i for i in (*near, *spread) if self._known(i) is not True)
        if self._limits.samples:
            yield from (i for i in _spread(0, fit - 1, self._limits.estimates) if self._known(i) is False)


def _differ(judged: bool | None, fits: bool | None) -> bool:
    return None not in (judged, fits) and judged is not fits


def _spread(first: int, last: int, count: int) -> Iterable[int]:
    """Returns ``count`` evenly spread numbers from ``first`` to ``last``, both ends included; all if there are fewer."""
    size = last - first + 1
    if size <= count:
        return range(first, last + 1)
    if count < 2:
        return range(last, last + count)
    return sorted({first + (size - 1) * i // (count - 1) for i in range(count)})
