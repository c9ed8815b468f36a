"""Computes how many bytes of a model must be live at once, from its trace: no device, all boards in a fraction of a second.

It prunes searches and is never the verdict: it knows nothing of fragmentation, of the layouts that calls need, of what TTNN
allocates within a call and keeps in its program cache, or of calls that TTNN rejects. Two bounds are certain: ``needed`` for
the calls of the trace as they are, and ``least`` whatever a rewrite makes of them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from itertools import accumulate

from ssinghal.capture.trace import Trace, ValueKind, logical_bytes
from ssinghal.core.tensors import Board, DType, Shape, TensorSpec, TextEnum, ceil_div
from ssinghal.plan.aliasing import Roots, Sharing
from ssinghal.plan.policy import Lifetime
from ssinghal.plan.sizes import channels_last, in_rows, least_bytes, resident_shapes, tiles

LARGEST = 10


class SizeRule(TextEnum):
    """The rule for the bytes of a value.

    ``LOGICAL``: its elements, as torch stores them; views of one storage share its bytes.
    ``TORCH_ORDER``: tiles in torch's order of dims, for each view too, similar to the policy ``eager``.
    ``CHANNELS_LAST``: maps as tiles of [1, 1, N*H*W, C]; views are free, batch norms folded, similar to the policy ``port``.
    """

    LOGICAL = "logical"
    TORCH_ORDER = "torch_order"
    CHANNELS_LAST = "channels_last"


class Outlook(TextEnum):
    """What a bound decides about a model on a board."""

    EXCEEDS = "exceeds"
    MAY_FIT = "may fit"


@dataclass(frozen=True)
class PeakValue:
    """A value at a peak. ``name``: of the module that created it. ``bytes``: over all banks."""

    value: int
    name: str
    shape: Shape
    bytes: int


@dataclass(frozen=True)
class Moment:
    """The live bytes while one step runs, including its operands and results, over all banks."""

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
    """The moment with the most live bytes, and the largest values then.

    Where tiles are counted, ``moment`` has the bytes of the fullest bank times the number of banks.
    """

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
    """The bounds for one trace on one board.

    ``least``: the weights with the inputs, or with the results, whichever is more: elements alone. No rewrite undercuts it,
    since none changes what the model takes and returns. ``needed``: the most bytes that must be live at once without any
    rewrite: elements alone, views free, each value from the call that creates it to the last one that reads it.
    ``needed_in_place``: the same if every call that can overwrites an operand. ``first_over``: the first step that needs more
    than the board has, without overwriting; None where none does.
    """

    board: str
    dram_bytes: int
    peaks: tuple[Peak, ...]
    least: Moment
    needed: Moment
    needed_in_place: Moment
    first_over: Moment | None = None

    def peak(self, lifetime: Lifetime, counting: SizeRule) -> Peak:
        return next(p for p in self.peaks if (p.lifetime, p.counting) == (lifetime, counting))

    def share(self, moment: Moment) -> float:
        """Returns the share of the board's DRAM."""
        return moment.total_bytes / self.dram_bytes

    @property
    def outlook_in_words(self) -> str:
        """What all bounds and the estimate as a port lays the model out say together."""
        if self.least.total_bytes > self.dram_bytes:
            return "exceeds"
        if self.first_over is not None:
            return "needs a rewrite"
        laid_out = self.peak(Lifetime.LAST_USE, SizeRule.CHANNELS_LAST).moment
        return "unlikely" if laid_out.total_bytes > self.dram_bytes else "may fit"

    @property
    def outlook(self) -> Outlook:
        """EXCEEDS: no layout and no freeing makes these calls fit; only a rewrite still may."""
        return Outlook.MAY_FIT if self.first_over is None else Outlook.EXCEEDS

    @property
    def outlook_in_place(self) -> Outlook:
        """EXCEEDS: overwriting operands does not make the calls fit either."""
        return Outlook.EXCEEDS if self.needed_in_place.total_bytes > self.dram_bytes else Outlook.MAY_FIT


def arithmetic(trace: Trace, board: Board, weights: DType | None = None) -> Arithmetic:
    """Returns the bounds for a trace on one board. ``weights``: the policy's dtype of them, None for the model's."""
    return arithmetics(trace, [board], weights)[0]


def arithmetics(trace: Trace, boards: Iterable[Board], weights: DType | None = None) -> list[Arithmetic]:
    """Returns the bounds for a trace on each board; equal DRAM is computed once."""
    liveness = _TraceLiveness(trace, weights)
    by_dram: dict[tuple[object, int], Arithmetic] = {}
    bounds = []
    for board in boards:
        dram = (board.dram, board.granule_bytes)
        if dram not in by_dram:
            by_dram[dram] = liveness.on(board)
        bounds.append(replace(by_dram[dram], board=board.name))
    return bounds


class _TraceLiveness:
    """A trace with all that does not depend on the board. ``created``: activation or input -> the step that creates it."""

    def __init__(self, trace: Trace, weights: DType | None) -> None:
        self.trace, self.sharing, self.weights = trace, Sharing(trace), weights
        self.created = dict.fromkeys((n for n, v in enumerate(trace.values) if v.kind is ValueKind.INPUT), 0)
        self.created |= {value: number for number, step in enumerate(trace.steps) for value in step.results}

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
        bounds = self._least, self._most(totals), self._most(in_place)
        return Arithmetic(board.name, dram_bytes, tuple(peaks), *bounds, first_over)

    # Peaks --------------------------------------------------------------------------------------------------------------

    @cached_property
    def _logical(self) -> list[int]:
        return [logical_bytes(value) for value in self.trace.values]

    @cached_property
    def _specs(self) -> Mapping[SizeRule, list[TensorSpec | None]]:
        values, maps = self.trace.values, self.sharing.maps
        plain = [tiles(value.shape, value.dtype) for value in values]
        rows = self.sharing.rows
        flat = [
            channels_last(value) if number in maps else in_rows(value) if number in rows else plain[number]
            for number, value in enumerate(values)
        ]
        return {SizeRule.TORCH_ORDER: plain, SizeRule.CHANNELS_LAST: flat}

    @cached_property
    def _residents(self) -> Mapping[SizeRule, list[TensorSpec | None]]:
        specs = {}
        for counting in (SizeRule.TORCH_ORDER, SizeRule.CHANNELS_LAST):
            folds = counting is SizeRule.CHANNELS_LAST
            shapes = resident_shapes(self.trace, self.sharing, folds=folds, padded=True)
            specs[counting] = [resident.spec(self.weights) for resident in shapes]
        return specs

    @cached_property
    def _dense(self) -> Sequence[tuple[ValueKind, int]]:
        shapes = resident_shapes(self.trace, self.sharing, folds=True, padded=False)
        return [(resident.value.kind, resident.least_bytes(self.weights)) for resident in shapes]

    @cached_property
    def _dense_bytes(self) -> int:
        return sum(size for _, size in self._dense)

    @cached_property
    def _weights_bytes(self) -> int:
        """The bytes of weights without constants, which a port may create when it needs them."""
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
        """Returns the first and the last step of each root's buffer; what is written into a resident has no separate one."""
        last = len(self.trace.steps) - 1
        spans: dict[int, tuple[int, int]] = {}
        for number, start in self.created.items():
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
        values = [(n, self.trace.values[n]) for n in alive[:LARGEST]]
        largest = tuple(PeakValue(n, value.name, value.shape, sizes[n]) for n, value in values)
        return Peak(lifetime, counting, self._moment(step, live[step], residents), largest, banks)

    # Lower bounds -------------------------------------------------------------------------------------------------------

    @cached_property
    def _needed(self) -> tuple[list[int], list[int]]:
        return self._totals(self.sharing.least), self._totals(self.sharing.least_in_place)

    @cached_property
    def _least(self) -> Moment:
        """The moment before the first step, or the one after the last."""
        values, by_storage = self.trace.values, self.sharing.by_storage
        inputs = sum(least_bytes(v.shape, v.dtype) for v in values if v.kind is ValueKind.INPUT)
        returned: defaultdict[int, int] = defaultdict(int)  # storage -> of its largest view, so that shared ones count once
        for number in self.trace.results:
            root = by_storage[number]
            if not values[number].is_resident and not values[root].is_resident:
                size = min(least_bytes(values[n].shape, values[n].dtype) for n in (number, root))
                returned[root] = max(returned[root], size)
        results = sum(returned.values())
        step = 0 if inputs >= results else len(self.trace.steps) - 1
        return self._moment(step, max(inputs, results), self._weights_bytes)

    def _totals(self, roots: Roots) -> list[int]:
        """Returns the minimum bytes of activations at each step: of each buffer its live values, up to the buffer's size."""
        values, by_storage = self.trace.values, self.sharing.by_storage
        own = {number: least_bytes(values[number].shape, values[number].dtype) for number in self.created}
        limits: defaultdict[int, int] = defaultdict(int)
        starts: defaultdict[int, list[int]] = defaultdict(list)
        ends: defaultdict[int, list[int]] = defaultdict(list)
        for number, start in self.created.items():
            root = roots[number]
            if not values[root].is_resident:
                limits[root] = max(limits[root], min(own[number], own.get(by_storage[number], 0)))
                starts[start].append(number)
                ends[self.trace.last_use.get(number, start)].append(number)
        live = dict.fromkeys(limits, 0)
        total, totals = 0, []
        for step in range(len(self.trace.steps)):
            for number in starts[step]:
                total += self._added(live, limits, roots[number], own[number])
            totals.append(total)
            for number in ends[step]:
                total += self._added(live, limits, roots[number], -own[number])
        return totals

    @staticmethod
    def _added(live: dict[int, int], limits: Mapping[int, int], root: int, change: int) -> int:
        """Changes the live bytes of a buffer; returns the change of those within its limit."""
        before = min(live[root], limits[root])
        live[root] += change
        return min(live[root], limits[root]) - before

    def _most(self, totals: Sequence[int]) -> Moment:
        step = totals.index(max(totals))
        return self._moment(step, totals[step], self._weights_bytes)

    def _moment(self, number: int, activations: int, residents: int) -> Moment:
        step = self.trace.steps[number]
        return Moment(number, step.overload, step.at, activations, residents)
