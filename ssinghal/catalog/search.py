"""Finds every use of a shape in the catalogs: model, size, call and module."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import starmap
from typing import Any

from ssinghal.catalog.captured import CapturedCatalog
from ssinghal.catalog.crossed import CrossedCatalog, ShapeOrigin
from ssinghal.catalog.imported import ImportedCatalog
from ssinghal.catalog.schema import Catalog
from ssinghal.core.case import ModuleCalls
from ssinghal.core.shape_pattern import Pattern, fits_pattern, nearest
from ssinghal.core.tensors import Shape, format_shape

MAX_NAMED = 8


@dataclass(frozen=True)
class ShapeUse:
    """A shape in one place of one call of a model: ``calls`` in ``lines`` of the catalog.

    ``role``: in, weight or out. ``modules``: how often each module makes the call, as far as the lines name them: the rest of
    the calls is ``other_calls``, made by ``other_modules`` more modules, or, if that is 0, by modules that were not recorded.
    An imported list has no out, and model, size and modules only if the list names them.
    """

    catalog: str
    model: str
    input_size: str
    shape: Shape
    call: str
    role: str
    calls: int
    lines: int
    modules: tuple[ModuleCalls, ...]
    other_modules: int = 0
    other_calls: int = 0

    def joined(self, other: ShapeUse) -> ShapeUse:
        """Adds the use of the same shape in another line. A module that neither names may be in both, so that ``other_modules``
        is then a most."""
        calls = Counter({m.path: m.calls for m in self.modules})
        calls.update({m.path: m.calls for m in other.modules})
        return replace(
            self,
            calls=self.calls + other.calls,
            lines=self.lines + other.lines,
            modules=tuple(starmap(ModuleCalls, calls.items())),
            other_modules=self.other_modules + other.other_modules,
            other_calls=self.other_calls + other.other_calls,
        )

    @property
    def where(self) -> str:
        """The modules with their calls; of many, the first ones and the number of the others."""
        if len(self.modules) == 1 and not self.other_calls:
            return self.modules[0].path
        named = [f"{m.calls:,}x {m.path}" for m in self.modules[:MAX_NAMED]]
        beyond = self.modules[MAX_NAMED:]
        if calls := sum(m.calls for m in beyond) + self.other_calls:
            modules = len(beyond) + self.other_modules
            named.append(f"{calls:,}x in {f'{modules:,} more' if modules else 'modules not recorded'}")
        return ", ".join(named)

    def to_json(self) -> dict[str, Any]:
        return {**vars(self), "modules": {m.path: m.calls for m in self.modules}}


@dataclass(frozen=True)
class Listing:
    """A shape that a shape sweep tries on ``operators``, or that is an operand there, and its origin, if known."""

    catalog: str
    shape: Shape
    operators: tuple[str, ...]
    origin: ShapeOrigin | None

    @property
    def tried(self) -> str:
        if len(self.operators) > MAX_NAMED:
            return f"tried on {len(self.operators)} operators"
        return f"tried on {', '.join(self.operators)}" if self.operators else "not tried"

    @property
    def origin_text(self) -> str:
        """Describes the origin."""
        o = self.origin
        if o is None:
            return "an operand next to the listed shape"
        if o.none or o.artefact:
            return f"no model has it: {o.none}" if o.none else f"no shape of a tensor: {o.artefact}"
        packages = f", with {', '.join(o.traced_with)}" if o.traced_with else ""
        return f"from {o.model} at {o.input}: {o.call} {o.role}  {o.at}{packages}{f'; {o.note}' if o.note else ''}"


@dataclass(frozen=True)
class ShapeMatches:
    """Every use of the shapes of a pattern, and if there is none, similar shapes."""

    uses: tuple[ShapeUse, ...]
    listings: tuple[Listing, ...]
    near: tuple[Shape, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.uses or self.listings)

    def to_json(self) -> dict[str, Any]:
        return {
            "uses": [use.to_json() for use in self.uses],
            "listings": [{**vars(x), "origin": x.origin and x.origin.model_dump(exclude_defaults=True)} for x in self.listings],
            "near": self.near,
        }

    def lines(self) -> Iterator[str]:
        """Yields the lines to print: a block for each model and size, then one for each shape sweep."""
        several = len({use.shape for use in self.uses} | {listing.shape for listing in self.listings}) > 1
        last = ""
        for use in self.uses:
            who = f"{use.model or '(no model named)'}{f' at {use.input_size}' if use.input_size else ''}  ({use.catalog})"
            if who != last:
                yield who
            last = who
            shape = f"{format_shape(use.shape)}  " if several else ""
            yield f"  {use.calls:5,}x {shape}{use.call} {use.role}  {use.where}".rstrip()
        for listing in self.listings:
            yield f"{format_shape(listing.shape)} in the lists of {listing.catalog}: {listing.tried}"
            yield f"  {listing.origin_text}"
        if not self:
            yield "no catalog has this shape" + (f"; near: {' '.join(map(format_shape, self.near))}" if self.near else "")


def find(catalogs: Iterable[Catalog], pattern: Pattern) -> ShapeMatches:
    """Returns all uses in order: captured catalogs, then imported ones, then shape sweeps with the origins of their shapes."""

    def matches(shape: Shape) -> bool:
        return fits_pattern(shape, pattern)

    catalogs = sorted(catalogs, key=lambda catalog: (catalog.head.kind != "captured", catalog.head.kind, catalog.name))
    uses: list[ShapeUse] = []
    listings: list[Listing] = []
    for catalog in catalogs:
        if isinstance(catalog, CrossedCatalog):
            listings += _listings(catalog, matches)
        else:
            uses += _joined(
                _captured(catalog, matches) if isinstance(catalog, CapturedCatalog) else _imported(catalog, matches)
            )
    near = () if uses or listings else nearest((shape for catalog in catalogs for shape in _shapes(catalog)), pattern)
    return ShapeMatches(tuple(uses), tuple(listings), near)


def _captured(catalog: CapturedCatalog, matches: Callable[[Shape], bool]) -> Iterator[ShapeUse]:
    model = catalog.head.model.full_name
    for call, lines in catalog.sections.items():
        for line in lines:
            places = [("weight" if name in line.w else "in", shape) for name, shape in line.operands()]
            for role, shape in dict.fromkeys([*places, *(("out", shape) for shape in line.out)]):
                if matches(shape):
                    yield ShapeUse(catalog.name, model, catalog.input_size, shape, call, role, line.n, 1, *line.made_in())


def _imported(catalog: ImportedCatalog, matches: Callable[[Shape], bool]) -> Iterator[ShapeUse]:
    for call, lines in catalog.sections.items():
        for line in lines:
            for shape in dict.fromkeys(line.inputs or (line.first_shape,)):
                if matches(shape):
                    model, size = line.model or "", line.input or ""
                    yield ShapeUse(catalog.name, model, size, shape, call, "in", line.n, 1, *line.made_in())


def _joined(uses: Iterable[ShapeUse]) -> list[ShapeUse]:
    """Returns one use for each model, shape, call and role, the most frequent first."""
    joined: dict[tuple[Any, ...], ShapeUse] = {}
    for use in uses:
        key = (use.model, use.input_size, use.shape, use.call, use.role)
        known = joined.get(key)
        joined[key] = known.joined(use) if known else use
    return sorted(joined.values(), key=lambda use: (use.model, use.input_size, use.shape, -use.calls, use.call, use.role))


def _listings(catalog: CrossedCatalog, matches: Callable[[Shape], bool]) -> list[Listing]:
    origins = {origin.shape: origin for origin in catalog.origins if matches(origin.shape)}
    tried: dict[Shape, list[str]] = {shape: [] for shape in origins}
    for name, lines in catalog.sections.items():
        for line in lines:
            for shape in dict.fromkeys(line.inputs or (line.first_shape,)):
                if matches(shape) and name not in tried.setdefault(shape, []):
                    tried[shape].append(name)
    return [Listing(catalog.name, shape, tuple(names), origins.get(shape)) for shape, names in sorted(tried.items())]


def _shapes(catalog: Catalog) -> Iterator[Shape]:
    if isinstance(catalog, CapturedCatalog):
        for calls in catalog.sections.values():
            for call in calls:
                yield from (shape for _, shape in call.operands())
                yield from call.out
        return
    for lines in catalog.sections.values():
        for line in lines:
            yield from line.inputs or (line.first_shape,)
