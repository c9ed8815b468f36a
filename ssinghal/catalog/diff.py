"""Compares two catalogs: which calls appeared, vanished or changed count, and how their headers differ."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ssinghal.catalog.captured import CapturedLine
from ssinghal.catalog.counted import CountedLine
from ssinghal.catalog.crossed import CrossedCatalog, CrossedLine, ShapeOrigin
from ssinghal.catalog.field_types import CatalogModel
from ssinghal.catalog.imported import ImportedLine
from ssinghal.catalog.schema import Catalog
from ssinghal.catalog.writer import flow
from ssinghal.core.tensors import Shape, format_shape
from ssinghal.errors import InvalidCase

SHOWN = 5

_Line = CapturedLine | CrossedLine | ShapeOrigin


@dataclass(frozen=True)
class HeadChange:
    """An entry of the headers that differs: ``old`` or ``new`` is None if a catalog does not have it."""

    key: str
    old: Any
    new: Any

    def __str__(self) -> str:
        old, new = (
            "-" if value is None else value if isinstance(value, str) else flow(value) for value in (self.old, self.new)
        )
        return f"{self.key}: {old} -> {new}"


@dataclass(frozen=True)
class CallChange:
    """One call made ``old`` times in the first catalog and ``new`` times in the second. ``line``: as the catalogs have it."""

    operator: str
    old: int
    new: int
    call: str
    line: Mapping[str, Any]

    @property
    def kind(self) -> str:
        return "appeared" if not self.old else "vanished" if not self.new else "count"

    def __str__(self) -> str:
        if self.kind == "count":
            return f"~ {self.old}x -> {self.new}x {self.call}"
        return f"{'+' if self.kind == 'appeared' else '-'} {self.new or self.old}x {self.call}"


@dataclass(frozen=True)
class Difference:
    """What changed from one catalog to another. ``moved``: number of calls of both that other modules make, or make another
    number of times; a change of the total count is in ``calls`` alone."""

    heads: tuple[HeadChange, ...] = ()
    calls: tuple[CallChange, ...] = ()
    moved: int = 0

    def __bool__(self) -> bool:
        return bool(self.heads or self.calls or self.moved)

    def to_json(self) -> dict[str, Any]:
        return {
            "equal": not self,
            "head": [{"key": h.key, "old": h.old, "new": h.new} for h in self.heads],
            "calls": [
                {"operator": c.operator, "change": c.kind, "old": c.old, "new": c.new, "call": c.line} for c in self.calls
            ],
            "moved": self.moved,
        }

    def lines(self, shown: int | None = SHOWN) -> Iterator[str]:
        """Yields the lines to print: headers, then at most ``shown`` calls of each operator, then sums."""
        yield from map(str, self.heads)
        groups: dict[str, list[CallChange]] = {}
        for change in self.calls:
            groups.setdefault(change.operator, []).append(change)
        for operator, changes in groups.items():
            yield operator
            yield from (f"  {change}" for change in changes[:shown])
            if shown is not None and len(changes) > shown:
                yield f"  and {len(changes) - shown} more"
        kinds = Counter(change.kind for change in self.calls)
        sums = f"{kinds['appeared']} lines appeared, {kinds['vanished']} vanished, {kinds['count']} changed count"
        yield sums + (f", {self.moved} made by other modules" if self.moved else "")


def compare(old: Catalog, new: Catalog) -> Difference:
    """Returns what changed from ``old`` to ``new``. InvalidCase for catalogs of different kinds."""
    if old.head.kind != new.head.kind:
        raise InvalidCase(f"{old.name} is {old.head.kind}, {new.name} is {new.head.kind}: only catalogs of one kind compare")
    before, after = _head(old), _head(new)
    heads = [HeadChange(k, before.get(k), after.get(k)) for k in {**before, **after} if before.get(k) != after.get(k)]
    had, has = _calls(old), _calls(new)
    calls = [
        CallChange(operator, old_n, new_n, _short(line), _content(line))
        for (operator, key), line in sorted({**had, **has}.items(), key=lambda item: item[0])
        if (old_n := _count(had.get((operator, key)))) != (new_n := _count(has.get((operator, key))))
    ]
    moved = sum(_is_moved(line, has[key]) for key, line in had.items() if key in has)
    return Difference(tuple(heads), tuple(calls), moved)


def _head(catalog: Catalog) -> dict[str, Any]:
    """Returns every entry of the header by its dotted path."""
    return dict(_flat("", _plain(catalog.head)))


def _flat(path: str, value: Any) -> Iterator[tuple[str, Any]]:
    if not isinstance(value, dict):
        yield path, value
        return
    for key, item in value.items():
        yield from _flat(f"{path}.{key}" if path else key, item)


def _plain(form: CatalogModel, *without: str) -> dict[str, Any]:
    """Returns an entry as the catalog has it, without default values."""
    return form.model_dump(by_alias=True, exclude_defaults=True, exclude=set(without))


def _calls(catalog: Catalog) -> dict[tuple[str, str], _Line]:
    """Returns each line by its operator or overload and its content. The origins of shapes are compared like calls."""
    sections: dict[str, Sequence[_Line]] = dict(catalog.sections)
    if isinstance(catalog, CrossedCatalog):
        sections["origins"] = catalog.origins
    return {(name, flow(_content(line))): line for name, lines in sections.items() for line in lines}


def _content(line: _Line) -> dict[str, Any]:
    content = _plain(line) if isinstance(line, ShapeOrigin) else _plain(line, "n", "at", "more")
    return {**content, **{name: dict(sorted(content[name].items())) for name in ("args", "dtypes") if name in content}}


def _count(line: _Line | None) -> int:
    """Returns the number of calls; a line of a shape sweep, which no model is known to make, counts as one."""
    return 0 if line is None else line.n if isinstance(line, (CapturedLine, ImportedLine)) else 1


def _is_moved(old: _Line, new: _Line) -> bool:
    """Whether the modules that make a call differ. Where one side recorded only the first of them, the first ones count; where
    the number of calls changed, which modules there are."""
    if not isinstance(old, CountedLine) or not isinstance(new, CountedLine):
        return False
    if isinstance(old.at, Mapping) != isinstance(new.at, Mapping):
        return next(iter(old.modules), None) != next(iter(new.modules), None)
    if old.n == new.n:
        return (old.at, old.more) != (new.at, new.more)
    return {m.path for m in old.modules} != {m.path for m in new.modules}


def _short(line: _Line) -> str:
    """Returns a line like ``[1,3,8,8] [64,3,7,7]w stride=[2, 2] -> [1,64,4,4]``: shapes (w: a weight), arguments, result."""
    if isinstance(line, ShapeOrigin):
        return f"{format_shape(line.shape)} {flow(_plain(line, 'shape'))}"
    details = [f"{name}={flow(value)}" for name, value in sorted(line.args.items())]
    if isinstance(line, CapturedLine):
        operands = [f"{format_shape(shape)}{'w' if name in line.w else ''}" for name, shape in line.operands()]
        details += [f"{name}:{dtype}" for name, dtype in sorted(line.dtypes.items())]
        return " ".join([*operands, *details, "->", *map(format_shape, line.out)])
    shapes: tuple[Shape, ...] = line.inputs or (line.first_shape,)
    if line.placement is not None:
        details.append(flow(_plain(line.placement)))
    if isinstance(line, ImportedLine):
        details += [f"{who} {text}" for who, text in (("by", line.model), ("at", line.input)) if text]
    return " ".join([*map(format_shape, shapes), *details])
