"""Statistics of a group of records: failing pairs of operator and shape, bands of size, tiers, models.

Three things are counted separately: *cases* (records), *pairs* (an operator at a shape; several cases of a captured model may
be one pair) and *calls* (how often a model makes a case, according to its catalog).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import fmean
from typing import TypeVar

from ssinghal.core.case import Source
from ssinghal.core.record import Record
from ssinghal.core.tensors import DType, Shape, TensorSpec
from ssinghal.core.verdict import Resource, Status
from ssinghal.runs.reader import RecordGroup, counted

_T = TypeVar("_T")
_K = TypeVar("_K")

MIB = 1024**2
GIB = 1024**3


@dataclass(frozen=True)
class Band:
    """A range of logical sizes: from above ``above_bytes`` up to that of the next larger band."""

    name: str
    above_bytes: int
    range: str


BANDS = (
    Band("critical", GIB, "> 1 GiB"),
    Band("large", 500 * MIB, "> 500 MiB to 1 GiB"),
    Band("medium", 100 * MIB, "> 100 MiB to 500 MiB"),
    Band("small", -1, "up to 100 MiB"),
)


def band_of(logical_bytes: int) -> Band:
    return next(band for band in BANDS if logical_bytes > band.above_bytes)


# Name and minimum number of input pixels, largest first. A padded size such as 2176x3840 is in the tier of the unpadded one.
TIERS = (
    ("8K", 7680 * 4320),
    ("4K", 3840 * 2160),
    ("1440p", 2560 * 1440),
    ("1080p", 1920 * 1080),
    ("720p", 1280 * 720),
    ("below 720p", 1),
)
OTHER = "inputs of more than two dims"
UNKNOWN = "no model input known"
TIER_NAMES = (*(name for name, _ in TIERS), OTHER, UNKNOWN)


def tier_of(input_size: str) -> str:
    """Returns the tier of one input size, ``HxW`` as catalogs write it. No tier is guessed from a tensor's shape.

    >>> tier_of("4320x7680"), tier_of("2176x3840"), tier_of("4x60x106"), tier_of("")
    ('8K', '4K', 'inputs of more than two dims', 'no model input known')
    """
    if not input_size:
        return UNKNOWN
    sizes = input_size.split("x")
    if len(sizes) != 2 or not all(size.isdecimal() for size in sizes):
        return OTHER
    pixels = int(sizes[0]) * int(sizes[1])
    return next((name for name, least in TIERS if pixels >= least), OTHER)


def tiers_of(record: Record) -> dict[str, set[str]]:
    """Returns tier -> input sizes at which a model has this call or, in a shape sweep, a tensor of its shape."""
    tiers: dict[str, set[str]] = {}
    for source in record.sources:
        if source.input_size:
            tiers.setdefault(tier_of(source.input_size), set()).add(source.input_size)
    return tiers or {UNKNOWN: set()}


def smallest_tier(tiers: Iterable[str]) -> str:
    """Returns the tier with the smallest inputs; those without a resolution come last."""
    unsized = (OTHER, UNKNOWN)
    return min(tiers, key=lambda tier: (tier in unsized, 0 if tier in unsized else -TIER_NAMES.index(tier)))


@dataclass(frozen=True)
class Size:
    """The size of one tensor: its values, its allocation with tile padding, and its share of a bank.

    ``allocated_bytes`` and ``bytes_per_bank`` are None if arithmetic does not know the tensor's placement.
    """

    logical_bytes: int
    allocated_bytes: int | None
    bytes_per_bank: int | None

    @classmethod
    def of_shape(cls, record: Record) -> Size:
        """Returns the size of the tensor with the record's ``shape``."""
        subject = record.subject
        if subject is not None:
            return cls(subject.logical_bytes, subject.allocated_bytes, subject.bytes_per_bank)
        return cls(TensorSpec(record.shape, DType(record.dtype)).logical_bytes if record.shape else 0, None, None)

    @property
    def padding(self) -> float | None:
        """The ratio of allocated to logical bytes."""
        return self.allocated_bytes / self.logical_bytes if self.allocated_bytes and self.logical_bytes else None

    @property
    def order(self) -> tuple[int, int]:
        return self.logical_bytes, self.allocated_bytes or 0


@dataclass(frozen=True)
class Pair:
    """An operator at a shape, with its failing cases."""

    op: str
    shape: Shape
    records: tuple[Record, ...]

    @cached_property
    def size(self) -> Size:
        """The size of the shape's tensor, in its largest placement among the failing cases."""
        return max((Size.of_shape(r) for r in self.records), key=lambda size: size.order)

    @property
    def band(self) -> Band:
        return band_of(self.size.logical_bytes)

    @cached_property
    def tiers(self) -> dict[str, set[str]]:
        return _joined(map(tiers_of, self.records))

    @property
    def order(self) -> tuple[int, str, Shape]:
        """Largest first, then by name."""
        return -self.size.logical_bytes, self.op, self.shape


@dataclass(frozen=True)
class ShapeFailures:
    """One shape and the operators that fail at it."""

    shape: Shape
    pairs: tuple[Pair, ...]

    @property
    def size(self) -> Size:
        return max((pair.size for pair in self.pairs), key=lambda size: size.order)

    @property
    def band(self) -> Band:
        return band_of(self.size.logical_bytes)

    @property
    def cases(self) -> int:
        return sum(len(pair.records) for pair in self.pairs)


@dataclass(frozen=True)
class Outcomes:
    """Outcomes of cases by status, and of failing ones by the resource that ran out."""

    records: tuple[Record, ...]

    @cached_property
    def statuses(self) -> dict[str, int]:
        return counted(self.records)

    @cached_property
    def oom(self) -> tuple[Record, ...]:
        return tuple(r for r in self.records if r.is_oom)

    @cached_property
    def resources(self) -> dict[str, int]:
        return by_resource(self.oom)

    @cached_property
    def called(self) -> tuple[Record, ...]:
        """Failing cases that models call; the others are from shape sweeps, or given by hand."""
        return tuple(r for r in self.oom if r.calls)

    @property
    def failing_calls(self) -> int:
        return sum(r.calls for r in self.called)


@dataclass(frozen=True)
class OperatorResults(Outcomes):
    """All cases of one operator name."""

    op: str
    pairs: tuple[Pair, ...]

    @property
    def operator(self) -> str:
        return self.records[0].operator

    @property
    def worst(self) -> Pair | None:
        """The failing pair with the largest logical size."""
        return min(self.pairs, key=lambda pair: pair.order, default=None)


@dataclass(frozen=True)
class TierResults:
    """One resolution tier. ``here``: failing pairs that no smaller tier has; over all tiers they add up to all pairs."""

    name: str
    input_sizes: tuple[str, ...]
    cases: int
    failing_cases: int
    pairs: tuple[Pair, ...]
    here: int


@dataclass(frozen=True)
class ModuleFailures:
    """How often a module makes one failing call. ``path``: "" for the modules together that its catalog does not name."""

    path: str
    record: Record
    calls: int


@dataclass(frozen=True)
class ModelResults:
    """The cases of a model at one input size in one catalog, and its failures.

    ``calls`` counts repeated calls. A model that was captured at two levels has two of these: the same calls in two forms.
    ``modules``: which module makes how many of the failing calls, by its path; they add up to ``failing_calls``.
    """

    model: str
    input_size: str
    catalog: str
    cases: tuple[Record, ...]
    calls: int
    fitting_calls: int
    oom: tuple[Record, ...]
    failing_calls: int
    modules: tuple[ModuleFailures, ...]


@dataclass(frozen=True)
class Statistics:
    """Statistics of sizes in bytes; ``mean`` is rounded to whole bytes."""

    count: int
    minimum: int
    maximum: int
    mean: int

    @classmethod
    def of(cls, sizes: Iterable[int]) -> Statistics | None:
        listed = list(sizes)
        return cls(len(listed), min(listed), max(listed), round(fmean(listed))) if listed else None


@dataclass(frozen=True)
class Facts(Outcomes):
    """The numbers of one group that the documents show."""

    group: RecordGroup

    @classmethod
    def of(cls, group: RecordGroup) -> Facts:
        return cls(group.records, group)

    @cached_property
    def pairs(self) -> tuple[Pair, ...]:
        """Failing pairs, largest first."""
        by_pair = _grouped(self.oom, lambda record: (record.op, record.shape))
        pairs = (Pair(op, shape, tuple(records)) for (op, shape), records in by_pair.items())
        return tuple(sorted(pairs, key=lambda pair: pair.order))

    @cached_property
    def shapes(self) -> tuple[ShapeFailures, ...]:
        """Failing shapes, largest first."""
        by_shape = _grouped(self.pairs, lambda pair: pair.shape)
        shapes = (ShapeFailures(shape, tuple(pairs)) for shape, pairs in by_shape.items())
        return tuple(sorted(shapes, key=lambda s: (-s.size.logical_bytes, s.shape)))

    @cached_property
    def most_problematic(self) -> tuple[ShapeFailures, ...]:
        """Failing shapes, those with most operators first."""
        return tuple(sorted(self.shapes, key=lambda s: -len(s.pairs)))

    @cached_property
    def bands(self) -> dict[Band, tuple[Pair, ...]]:
        """Every band with its failing pairs; they add up to all pairs."""
        by_band = _grouped(self.pairs, lambda pair: pair.band)
        return {band: tuple(by_band.get(band, ())) for band in BANDS}

    @cached_property
    def operators(self) -> tuple[OperatorResults, ...]:
        """All operators, sorted by name."""
        records = _grouped(self.records, lambda record: record.op)
        pairs = _grouped(self.pairs, lambda pair: pair.op)
        return tuple(OperatorResults(tuple(rs), op, tuple(pairs.get(op, ()))) for op, rs in sorted(records.items()))

    @cached_property
    def failing_operators(self) -> tuple[OperatorResults, ...]:
        """Operators with failures, most failing pairs first."""
        return tuple(sorted((o for o in self.operators if o.oom), key=lambda o: (-len(o.pairs), o.op)))

    @cached_property
    def tiers(self) -> tuple[TierResults, ...]:
        """Tiers with cases, largest inputs first."""
        cases: Counter[str] = Counter()
        failing: Counter[str] = Counter()
        sizes: dict[str, set[str]] = defaultdict(set)
        for record in self.records:
            for tier, inputs in tiers_of(record).items():
                cases[tier] += 1
                failing[tier] += record.is_oom
                sizes[tier] |= inputs
        here = Counter(smallest_tier(pair.tiers) for pair in self.pairs)
        return tuple(
            TierResults(
                tier, tuple(sorted(sizes[tier])), cases[tier], failing[tier],
                tuple(pair for pair in self.pairs if tier in pair.tiers), here[tier],
            )
            for tier in TIER_NAMES if cases[tier]
        )  # fmt: skip

    @cached_property
    def models(self) -> tuple[ModelResults, ...]:
        """Models that make some of the cases, most failing calls first."""
        made: dict[tuple[str, str, str], list[tuple[Record, tuple[Source, ...]]]] = defaultdict(list)
        for record in self.records:
            calling = (source for source in record.sources if source.model and source.count)
            for key, sources in _grouped(calling, lambda source: (source.model, source.input_size, source.catalog)).items():
                made[key].append((record, tuple(sources)))
        models = [_model(*key, cases) for key, cases in made.items()]
        return tuple(sorted(models, key=lambda m: (-m.failing_calls, m.model, m.input_size, m.catalog)))

    @cached_property
    def shape_only_models(self) -> dict[tuple[str, str], int]:
        """The number of failing cases of shape sweeps by model and input size: the model has the shape, but may not make the
        call."""
        cases = Counter(
            model
            for record in self.oom
            for model in {(s.model, s.input_size) for s in record.sources if s.model and not s.count}
        )
        return dict(sorted(cases.items(), key=lambda item: (-item[1], item[0])))


def _model(model: str, input_size: str, catalog: str, made: Sequence[tuple[Record, Sequence[Source]]]) -> ModelResults:
    """Returns the results of a model: ``made`` are its cases with its sources of each."""
    calls = [(record, sum(source.count for source in sources)) for record, sources in made]
    modules = [
        ModuleFailures(path, record, times)
        for record, sources in made
        if record.is_oom
        for path, times in _calls_by_module(sources).items()
    ]
    return ModelResults(
        model,
        input_size,
        catalog,
        tuple(record for record, _ in made),
        sum(times for _, times in calls),
        sum(times for record, times in calls if record.status is Status.FITS),
        tuple(record for record, _ in made if record.is_oom),
        sum(times for record, times in calls if record.is_oom),
        tuple(sorted(modules, key=lambda failures: failures.path)),
    )


def by_resource(oom: Iterable[Record]) -> dict[str, int]:
    """Counts failing cases by the resource that ran out, in the order of ``Resource``."""
    cases = Counter(r.resource for r in oom)
    named = {resource.value: cases[resource] for resource in Resource if cases[resource]}
    return {**named, **({"not named": cases[None]} if cases[None] else {})}


def _calls_by_module(sources: Iterable[Source]) -> Counter[str]:
    """Returns the calls of each module, under "" those of modules that no source names."""
    calls: Counter[str] = Counter()
    for source in sources:
        for module in source.modules:
            calls[module.path] += module.calls
        if unnamed := source.other_calls if source.modules else source.count:
            calls[""] += unnamed
    return calls


def _grouped(items: Iterable[_T], key: Callable[[_T], _K]) -> dict[_K, list[_T]]:
    groups: dict[_K, list[_T]] = defaultdict(list)
    for item in items:
        groups[key(item)].append(item)
    return groups


def _joined(parts: Iterable[Mapping[str, set[str]]]) -> dict[str, set[str]]:
    joined: dict[str, set[str]] = defaultdict(set)
    for part in parts:
        for name, values in part.items():
            joined[name] |= values
    return dict(joined)
