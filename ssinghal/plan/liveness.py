"""How much of a model must live at once, by arithmetic on its trace: no device, all boards in a fraction of a second.

It prunes searches and is never the verdict: it knows nothing of fragmentation, of the layouts that calls ask for, of what TTNN
needs within a call, or of calls that it refuses. Only ``Outlook.EXCEEDS`` is certain, for the calls that the trace has.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from itertools import accumulate

from ssinghal.capture.trace import Trace, ValueKind, logical_bytes
from ssinghal.core.tensors import Board, Shape, TensorSpec, TextEnum, ceil_div
from ssinghal.plan.aliasing import Roots, Sharing
from ssinghal.plan.policy import Lifetime
from ssinghal.plan.sizes import channels_last, least_bytes, resident_shapes, tiles

LARGEST = 10


class SizeRule(TextEnum):
    """What a value costs.

    ``LOGICAL``: its elements, as torch stores them; the views of one storage together what the storage holds.
    ``TORCH_ORDER``: tiles in torch's order of dims, of each view too: what ``eager`` tends to.
    ``CHANNELS_LAST``: maps as tiles of [1, 1, N*H*W, C]; views nothing, batch norms folded: what ``port`` tends to.
    """

    LOGICAL = "logical"
    TORCH_ORDER = "torch_order"
    CHANNELS_LAST = "channels_last"


class Outlook(TextEnum):
    EXCEEDS = "exceeds"
    MAY_FIT = "may fit"


@dataclass(frozen=True)
class PeakValue:
    """A value at a peak. ``name``: of the module that made it. ``bytes``: over all banks."""

    value: int
    name: str
    shape: Shape
    bytes: int


@dataclass(frozen=True)
class Moment:
    """What lives while one step runs, its operands and results included, over all banks."""

    step: int
    overload: str
    at: str
    activations_bytes: int
    residents_bytes: int

    @property
    def total_bytes(self) -> int:
        return self.activations_bytes + self.residents_bytes


@dataclass(frozen=True)
class Peak:
    """The moment at which most lives, with the largest values there. Where tiles are counted, ``moment`` has the bytes of the
    fullest bank times the number of banks."""

    lifetime: Lifetime
    counting: SizeRule
    moment: Moment
    alive: tuple[PeakValue, ...]
    banks: int

    @property
    def bytes_per_bank(self) -> int:
        return ceil_div(self.moment.total_bytes, self.banks)


@dataclass(frozen=True)
class Arithmetic:
    """Of one trace on one board. ``needed``: the most that must be there at once: elements alone, views free, each value from
    the call that makes it to the last one that reads it. ``needed_in_place``: where every call that can writes over an operand.
    ``first_over``: the first step that needs more than the board has, not in place; None where none does.
    """

    board: str
    dram_bytes: int
    peaks: tuple[Peak, ...]
    needed: Moment
    needed_in_place: Moment
    first_over: Moment | None = None

    def peak(self, lifetime: Lifetime, counting: SizeRule) -> Peak:
        return next(p for p in self.peaks if (p.lifetime, p.counting) == (lifetime, counting))

    def share(self, moment: Moment) -> float:
        """Of the board's DRAM."""
        return moment.total_bytes / self.dram_bytes

    @property
    def outlook(self) -> Outlook:
        """EXCEEDS: no layout and no freeing brings these calls onto the board; one that writes over its operand may still."""
        return Outlook.MAY_FIT if self.first_over is None else Outlook.EXCEEDS

    @property
    def outlook_in_place(self) -> Outlook:
        """EXCEEDS: nor does writing over operands."""
        return Outlook.EXCEEDS if self.needed_in_place.total_bytes > self.dram_bytes else Outlook.MAY_FIT


def arithmetic(trace: Trace, board: Board) -> Arithmetic:
    return arithmetics(trace, [board])[0]


def arithmetics(trace: Trace, boards: Iterable[Board]) -> list[Arithmetic]:
    """In the order of the boards; those with the same DRAM cost nothing more."""
    counted = _TraceLiveness(trace)
    known: dict[tuple[object, int], Arithmetic] = {}
    found = []
    for board in boards:
        dram = (board.dram, board.granule_bytes)
        if dram not in known:
            known[dram] = counted.on(board)
        found.append(replace(known[dram], board=board.name))
    return found


class _TraceLiveness:
    """A trace, with all that does not depend on the board. ``made``: activation or input -> the step from which it lives."""

    def __init__(self, trace: Trace) -> None:
        self.trace, self.sharing = trace, Sharing(trace)
        self.made = dict.fromkeys((n for n, v in enumerate(trace.values) if v.kind is ValueKind.INPUT), 0)
        self.made |= {value: number for number, step in enumerate(trace.steps) for value in step.results}

    def on(self, board: Board) -> Arithmetic:
        banks = board.dram.num_banks
        dram_bytes = banks * board.dram.bank_bytes

        @cache
        def booked(spec: TensorSpec | None) -> int:
            return 0 if spec is None else spec.booked_bytes_per_bank(board) * banks

        peaks = self._peaks(SizeRule.LOGICAL, self._logical, self._dense_bytes, banks)
        for counting, specs in self._specs.items():
            peaks += self._peaks(counting, list(map(booked, specs)), sum(map(booked, self._residents[counting])), banks)
        totals, in_place = self._needed
        over = next((n for n, total in enumerate(totals) if total + self._weights_bytes > dram_bytes), None)
        first_over = None if over is None else self._moment(over, totals[over], self._weights_bytes)
        return Arithmetic(board.name, dram_bytes, tuple(peaks), self._most(totals), self._most(in_place), first_over)

    # Peaks --------------------------------------------------------------------------------------------------------------

    @cached_property
    def _logical(self) -> list[int]:
        return [logical_bytes(value) for value in self.trace.values]

    @cached_property
    def _specs(self) -> Mapping[SizeRule, list[TensorSpec | None]]:
        values, maps = self.trace.values, self.sharing.maps
        plain = [tiles(value.shape, value.dtype) for value in values]
        flat = [channels_last(value) if number in maps else plain[number] for number, value in enumerate(values)]
        return {SizeRule.TORCH_ORDER: plain, SizeRule.CHANNELS_LAST: flat}

    @cached_property
    def _residents(self) -> Mapping[SizeRule, list[TensorSpec | None]]:
        found = {}
        for counting in (SizeRule.TORCH_ORDER, SizeRule.CHANNELS_LAST):
            folds = counting is SizeRule.CHANNELS_LAST
            shapes = resident_shapes(self.trace, self.sharing, folds=folds, padded=True)
            found[counting] = [tiles(shape, value.dtype) for value, shape in shapes]
        return found

    @cached_property
    def _dense(self) -> Sequence[tuple[ValueKind, int]]:
        shapes = resident_shapes(self.trace, self.sharing, folds=True, padded=False)
        return [(value.kind, least_bytes(shape, value.dtype)) for value, shape in shapes]

    @cached_property
    def _dense_bytes(self) -> int:
        return sum(size for _, size in self._dense)

    @cached_property
    def _weights_bytes(self) -> int:
        """Without constants: a port may make those when it wants them."""
        return sum(size for kind, size in self._dense if kind is ValueKind.WEIGHT)

    def _peaks(self, counting: SizeRule, sizes: Sequence[int], residents: int, banks: int) -> list[Peak]:
        sharing = self.sharing
        roots = {
            SizeRule.LOGICAL: sharing.by_storage,
            SizeRule.TORCH_ORDER: sharing.in_place,
            SizeRule.CHANNELS_LAST: sharing.free_views,
        }[counting]
        ends = {Lifetime.LAST_USE: self.trace.last_use, Lifetime.PYTHON: self.trace.last_object}
        return [
            self._peak(lifetime, counting, self._spans(roots, ends[lifetime]), sizes, residents, banks) for lifetime in ends
        ]

    def _spans(self, roots: Roots, ends: Mapping[int, int]) -> Mapping[int, tuple[int, int]]:
        """Root -> the first and the last step of its buffer. What is written into a resident has no buffer of its own."""
        last = len(self.trace.steps) - 1
        spans: dict[int, tuple[int, int]] = {}
        for number, start in self.made.items():
            root, end = roots[number], min(ends.get(number, start), last)
            if not self.trace.values[root].is_resident:
                known = spans.get(root, (start, end))
                spans[root] = min(known[0], start), max(known[1], end)
        return spans

    def _peak(
        self,
        lifetime: Lifetime,
        counting: SizeRule,
        spans: Mapping[int, tuple[int, int]],
        sizes: Sequence[int],
        residents: int,
        banks: int,
    ) -> Peak:
        changes = [0] * (len(self.trace.steps) + 1)
        for root, (start, end) in spans.items():
            changes[start] += sizes[root]
            changes[end + 1] -= sizes[root]
        live = list(accumulate(changes))
        step = live.index(max(live))
        alive = sorted((root for root, (start, end) in spans.items() if start <= step <= end), key=lambda n: (-sizes[n], n))
        told = tuple(PeakValue(n, self.trace.values[n].name, self.trace.values[n].shape, sizes[n]) for n in alive[:LARGEST])
        return Peak(lifetime, counting, self._moment(step, live[step], residents), told, banks)

    # What must be there -------------------------------------------------------------------------------------------------

    @cached_property
    def _needed(self) -> tuple[list[int], list[int]]:
        return self._totals(self.sharing.least), self._totals(self.sharing.least_in_place)

    def _totals(self, roots: Roots) -> list[int]:
        """Bytes of each step's activations, at the least: of a buffer its values that live, and no more than it holds."""
        values, by_storage = self.trace.values, self.sharing.by_storage
        own = {number: least_bytes(values[number].shape, values[number].dtype) for number in self.made}
        holds: defaultdict[int, int] = defaultdict(int)
        begin: defaultdict[int, list[int]] = defaultdict(list)
        stop: defaultdict[int, list[int]] = defaultdict(list)
        for number, start in self.made.items():
            root = roots[number]
            if not values[root].is_resident:
                holds[root] = max(holds[root], min(own[number], own.get(by_storage[number], 0)))
                begin[start].append(number)
                stop[self.trace.last_use.get(number, start)].append(number)
        living = dict.fromkeys(holds, 0)
        total, totals = 0, []
        for step in range(len(self.trace.steps)):
            for number in begin[step]:
                total += self._changed(living, holds, roots[number], own[number])
            totals.append(total)
            for number in stop[step]:
                total += self._changed(living, holds, roots[number], -own[number])
        return totals

    @staticmethod
    def _changed(living: dict[int, int], holds: Mapping[int, int], root: int, change: int) -> int:
        before = min(living[root], holds[root])
        living[root] += change
        return min(living[root], holds[root]) - before

    def _most(self, totals: Sequence[int]) -> Moment:
        step = totals.index(max(totals))
        return self._moment(step, totals[step], self._weights_bytes)

    def _moment(self, number: int, activations: int, residents: int) -> Moment:
        step = self.trace.steps[number]
        return Moment(number, step.overload, step.at, activations, residents)
