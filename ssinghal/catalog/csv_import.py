"""Operator lists that people already have (CSV: operator, input shapes, arguments, model, count) as checked catalogs."""

from __future__ import annotations

import codecs
import csv
import io
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from ssinghal.catalog import csv_fields as cells
from ssinghal.catalog.expansion import crossed_case
from ssinghal.catalog.schema import CrossedLine, PlacementModel
from ssinghal.catalog.writer import flow
from ssinghal.core.case import Placement, Source
from ssinghal.errors import CatalogError, InvalidCase
from ssinghal.operators import find_operator
from ssinghal.operators.binding import specs_of
from ssinghal.operators.operator_info import Sample

DELIMITERS = ",;\t|"
REQUIRED = ("operator", "shapes")

_NOTE = "# n is how often the list has the call. Where a line has shape, the operator made the rest of the call of it.\n"


@dataclass(frozen=True)
class ImportResult:
    """What became of a list. ``text``: the catalog of its right rows, "" if there is none.

    ``rows``: those with content. ``completed``: rows of one shape and no arguments whose call takes more, which the operator
    added. ``faults``: every row that cannot be read as ``file:line: why``. ``unused``: titles of columns that say nothing here.
    """

    text: str
    rows: int
    lines: int
    completed: int
    faults: tuple[str, ...]
    unused: tuple[str, ...]


@dataclass(frozen=True)
class _RowCall:
    """The call that a row names: ``key`` and ``line`` are those of its case and its catalog line."""

    name: str
    key: str
    line: Mapping[str, Any]
    completed: bool


@dataclass(frozen=True)
class _ArgumentReader:
    """Who makes a call, as far as the list tells."""

    model: str
    size: str


def read_list(file: Path, placement: PlacementModel) -> ImportResult:
    """Every row of a CSV file as a call, or the reason why it is none; equal calls of one model are merged, counts added.

    Columns are known by their titles (``cells.COLUMNS``) and separated by comma, semicolon, tab or bar. The text is sorted, so
    the order of the rows does not matter.

    Raises:
        CatalogError: there is no table: no such file, no text, no operator or no shapes among the titles.
    """
    rows = _rows(_text(file))
    columns, unused = _columns(file, rows)
    base = placement.placement()

    @lru_cache(maxsize=2**16)
    def call_of(operator: str, shapes: str, arguments: str) -> _RowCall | InvalidCase:
        try:
            return _call(operator, shapes, arguments, base)
        except InvalidCase as error:
            return error

    calls: dict[tuple[str, str, _ArgumentReader], tuple[_RowCall, str]] = {}
    counts = Counter[tuple[str, str, _ArgumentReader]]()
    faults: list[str] = []
    read = completed = 0
    for line, row in rows:
        read += 1
        try:
            told = _told(row, columns)
            call = call_of(told["operator"], told["shapes"], told["arguments"])
            if isinstance(call, InvalidCase):
                raise call
            speaker = _ArgumentReader(cells.label(told["model"], "model"), cells.label(told["input"], "input size"))
            count, module = cells.count(told["count"]), cells.label(told["module"], "module")
        except InvalidCase as error:
            faults.append(f"{file}:{line}: {error}")
            continue
        identity = (call.name, call.key, speaker)
        calls.setdefault(identity, (call, module))
        counts[identity] += count
        completed += call.completed
    lines = [
        (call, {"n": counts[identity], "model": identity[2].model, "input": identity[2].size, "at": module})
        for identity, (call, module) in calls.items()
    ]
    text = _catalog_text(file.name, placement, lines) if lines else ""
    return ImportResult(text, read, len(lines), completed, tuple(faults), unused)


def _text(file: Path) -> str:
    """The file as text: UTF-8, or UTF-16 where a byte order mark says so."""
    try:
        raw = file.read_bytes()
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        raise CatalogError([f"{file}:1: {getattr(error, 'strerror', None) or error}"]) from error
    encoding = "utf-16" if raw.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) else "utf-8-sig"
    try:
        return raw.decode(encoding)
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise CatalogError([f"{file}:{line}: is not {encoding.upper().removesuffix('-SIG')} text"]) from error


def _rows(text: str) -> Iterator[tuple[int, list[str] | InvalidCase]]:
    """Line and cells of every row that has content, or why it is no CSV."""
    first = next((line for line in text.splitlines() if line.strip()), "")
    delimiter = max(DELIMITERS, key=lambda d: sum(bool(cells.column(title)) for title in first.split(d)))
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True, skipinitialspace=True)
    while True:
        line = reader.line_num + 1
        try:
            row = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            yield line, InvalidCase(f"is not CSV: {error}")
            continue
        if any(map(str.strip, row)):
            yield line, row


def _columns(file: Path, rows: Iterator[tuple[int, list[str] | InvalidCase]]) -> tuple[list[str], tuple[str, ...]]:
    """What each column holds ("" where that is not known), and the titles of those; CatalogError without those required."""
    line, titles = next(rows, (1, InvalidCase("is empty")))
    if isinstance(titles, InvalidCase):
        raise CatalogError([f"{file}:{line}: {titles}"])
    columns = [cells.column(title) for title in titles]
    faults = []
    for meaning, times in Counter(columns).items():
        if meaning and times > 1:
            alike = ", ".join(title for title in titles if cells.column(title) == meaning)
            faults.append(f"{file}:{line}: {times} columns hold the {meaning}: {alike}")
    for meaning in REQUIRED:
        if meaning not in columns:
            known = ", ".join(cells.COLUMNS[meaning])
            faults.append(f"{file}:{line}: no column holds the {meaning}: none of {known} is among {', '.join(titles)}")
    if faults:
        raise CatalogError(faults)
    return columns, tuple(title for title, meaning in zip(titles, columns, strict=True) if not meaning)


def _told(row: Sequence[str] | InvalidCase, columns: Sequence[str]) -> dict[str, str]:
    """The cells of a row by what they hold, "" for those that it lacks."""
    if isinstance(row, InvalidCase):
        raise row
    if any(map(str.strip, row[len(columns) :])):
        raise InvalidCase(f"has {len(row)} cells under {len(columns)} titles; a cell that holds the separator must be quoted")
    return {**dict.fromkeys(cells.COLUMNS, ""), **dict(zip(columns, row, strict=False))}


def _call(operator: str, shapes: str, arguments: str, base: Placement) -> _RowCall:
    """The call as the row has it. One shape and no arguments is, as in the crossed catalogs, a shape to make the call of."""
    name = cells.operator_name(operator)
    operands = [list(shape) for shape in cells.shapes(shapes)]
    args = cells.arguments(arguments, name)
    given: dict[str, Any] = {"in": operands}
    if not operands:  # a created tensor
        given = {"shape": args.pop("size", None)}
        if not isinstance(given["shape"], list) or find_operator(name).operands:
            raise InvalidCase("names no shapes")
    sample = find_operator(name).sample
    if len(operands) == 1 and not args and sample and sample(tuple(operands[0])) != Sample((tuple(operands[0]),), {}):
        line: dict[str, Any] = {"shape": operands[0]}
        return _RowCall(name, _case_key(name, line, base), line, True)
    line = {**given, "args": args} if args else given
    return _RowCall(name, _case_key(name, line, base), line, False)


def _case_key(name: str, line: Mapping[str, Any], base: Placement) -> str:
    case = crossed_case(name, CrossedLine.model_validate(line), base, Source(""))
    specs_of(case)
    return case.key


def _catalog_text(list_name: str, placement: PlacementModel, lines: Sequence[tuple[_RowCall, Mapping[str, Any]]]) -> str:
    head = {
        "schema": 1,
        "kind": "imported",
        "title": f"Calls listed in {''.join(c if c.isprintable() else '?' for c in list_name)}",
        "placement": placement.model_dump(mode="json", exclude_none=True),
    }
    sections: dict[str, list[tuple[Any, ...]]] = {}
    for call, told in lines:
        line = {**call.line, **{key: value for key, value in told.items() if value}}
        place = (call.line.get("in", [call.line.get("shape")]), str(call.line.get("args")), told["model"], told["input"])
        sections.setdefault(call.name, []).append((*place, flow(line)))
    text = [_NOTE, *(f"{key}: {flow(value)}\n" for key, value in head.items()), "operators:\n"]
    for name, listed in sorted(sections.items()):
        text.append(f"  {flow(name)}:\n")
        text += [f"  - {line}\n" for *_, line in sorted(listed)]
    return "".join(text)
