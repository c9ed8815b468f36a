"""Turns catalogs into cases: every line becomes one call of one operator, equal calls of several catalogs are merged."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace

from ssinghal.catalog.aten_calls import Unmapped, captured_case
from ssinghal.catalog.crossed import CrossedCatalog, CrossedLine
from ssinghal.catalog.imported import ImportedCatalog
from ssinghal.catalog.schema import Catalog
from ssinghal.core.case import Case, Placement, Source
from ssinghal.core.tensors import BufferType
from ssinghal.operators import find_operator, make_case, suite_name
from ssinghal.operators.binding import largest_bytes
from ssinghal.operators.operator_info import Sample


@dataclass(frozen=True)
class Expansion:
    """Cases in the order of the catalogs, and the captured calls that are no cases."""

    cases: tuple[Case, ...]
    unmapped: tuple[Unmapped, ...]


def expand(
    catalogs: Sequence[Catalog],
    *,
    operators: Collection[str] | None = None,
    memory: BufferType | None = None,
    max_bytes: int | None = None,
) -> Expansion:
    """Returns the cases of catalogs, each under the name of its suite; equal calls of one suite are one case, sources joined.

    Args:
        catalogs: The catalogs, from ``load_catalogs``.
        operators: Names of operators to keep, exact, aliases included; all by default.
        memory: Replaces the memory of every catalog; what a card reported of another memory is then dropped.
        max_bytes: Leaves out cases whose largest operand has more logical bytes.

    Returns:
        The cases in the order of the catalogs, and the captured calls that no operator makes.

    Raises:
        InvalidCase: An operator's name is unknown.

    Examples:
        >>> from ssinghal import load_catalogs
        >>> len(expand(load_catalogs(["mochi"]), operators=["conv3d"]).cases)
        1
    """
    wanted = None if operators is None else {suite_name(name) for name in operators}
    merged: dict[tuple[str, str], Case] = {}
    unmapped: list[Unmapped] = []
    for catalog in catalogs:
        for call in catalog_cases(catalog):
            if isinstance(call, Unmapped):
                unmapped.append(call)
                continue
            name = suite_name(call.name)
            case = call if call.name == name else replace(call, name=name)
            if wanted is not None and case.name not in wanted:
                continue
            if memory is not None:
                case = _moved(case, memory)
            if max_bytes is not None and largest_bytes(case) > max_bytes:
                continue
            identity = (case.name, case.key)
            merged[identity] = merged[identity].merged(case) if identity in merged else case
    return Expansion(tuple(merged.values()), tuple(unmapped))


def catalog_cases(catalog: Catalog) -> Iterator[Case | Unmapped]:
    """Yields a case, or the reason why there is none, for every line in the file's order.

    The source of a shape sweep's line is the origin of its shape, with count 0: no model is known to make that very call.
    """
    base = catalog.head.placement.placement()
    if isinstance(catalog, CrossedCatalog):
        origins = {o.shape: o for o in catalog.origins}
        for name, lines in catalog.sections.items():
            for line in lines:
                o = origins[line.first_shape]
                source = Source.of_first(catalog.name, o.model or "", o.input or "", 0, o.at or "")
                yield crossed_case(name, line, base, source)
        return
    if isinstance(catalog, ImportedCatalog):
        for name, listed in catalog.sections.items():
            for row in listed:
                yield crossed_case(name, row, base, row.source(catalog.name, row.model or "", row.input or ""))
        return
    head = catalog.head
    base = replace(base, dtype=head.input.dtype)
    for overload, calls in catalog.sections.items():
        for call in calls:
            source = call.source(catalog.name, head.model.full_name, catalog.input_size)
            yield captured_case(overload, call, base, source)


def crossed_case(name: str, line: CrossedLine, base: Placement, source: Source) -> Case:
    """Returns the call of a shape sweep's line, whose catalog places tensors by ``base``. InvalidCase if there is none."""
    info = find_operator(name)
    if line.shape is None:
        sample = Sample(line.inputs or (), {})
    else:
        sample = info.sample(line.shape) if info.sample else Sample((line.shape,), {})
    placement = base if sample.channels_last is None else replace(base, channels_last=sample.channels_last)
    if line.placement is not None:
        placement = line.placement.applied_to(placement)
    known_oom = line.oom.known() if line.oom else None
    return make_case(name, sample.inputs, {**sample.attrs, **line.args}, placement, (source,), known_oom, line.shape)


def _moved(case: Case, memory: BufferType) -> Case:
    if case.placement.memory is memory:
        return case
    return replace(case, placement=replace(case.placement, memory=memory), known_oom=None)
