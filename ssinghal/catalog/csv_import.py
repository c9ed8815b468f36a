"""Turns operator lists (CSV: operator, input shapes, arguments, model, count) into checked catalogs."""

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

from pydantic import ValidationError

from ssinghal.catalog import csv_fields
from ssinghal.catalog.crossed import CrossedLine
from ssinghal.catalog.expansion import crossed_case
from ssinghal.catalog.located_yaml import MAX_FILE_BYTES
from ssinghal.catalog.placement_fields import PlacementModel
from ssinghal.catalog.writer import flow, made_in
from ssinghal.core.case import Placement, Source
from ssinghal.core.files import read_limited
from ssinghal.errors import CatalogError, InvalidCase
from ssinghal.operators import find_operator
from ssinghal.operators.binding import specs_of
from ssinghal.operators.operator_info import Sample

DELIMITERS = ",;\t|"
REQUIRED = ("operator", "shapes")

_NOTE = "# n is how often the list has the call. Where a line has shape, the operator made the rest of the call of it.\n"


@dataclass(frozen=True)
class ImportResult:
    """The result of an import. ``text``: the catalog of the readable rows, "" if there is none.

    ``rows``: number of those with content. ``completed``: rows of one shape and no arguments whose call takes more, which the
    operator added. ``faults``: every row that cannot be read as ``file:line: why``. ``unused``: titles of ignored columns.
    """

    text: str
    rows: int
    lines: int
    completed: int
    faults: tuple[str, ...]
    unused: tuple[str, ...]


@dataclass(frozen=True)
class _RowCall:
    """The call that a row names: ``content`` is its case as JSON, ``line`` its line of a catalog."""

    name: str
    content: str
    line: Mapping[str, Any]
    completed: bool


@dataclass(frozen=True)
class _Caller:
    """The model and the input size that make a call, as far as the list names them."""

    model: str
    size: str


def read_list(file: Path, placement: PlacementModel) -> ImportResult:
    """Reads every row of a CSV file as a call, or the reason why it is none. Equal calls of a model are merged, counts added.

    Columns are recognized by their titles (``csv_fields.COLUMNS``) and separated by comma, semicolon, tab or bar. The text is
    sorted, so that the order of the rows decides only that of a call's modules.

    Raises:
        CatalogError: There is no table: no such file, no text, no operator or no shapes among the titles.
    """
    rows = _rows(_text(file))
    columns, unused = _columns(file, rows)
    base = placement.placement()

    @lru_cache(maxsize=2**16)
    def call_of(operator: str, shapes: str, arguments: str) -> _RowCall | str:
        try:
            return _call(operator, shapes, arguments, base)
        except InvalidCase as error:
            return str(error)

    calls: dict[tuple[str, str, _Caller], tuple[_RowCall, Counter[str]]] = {}
    faults: list[str] = []
    read = completed = 0
    for line, row in rows:
        read += 1
        try:
            fields = _fields(row, columns)
            call = call_of(fields["operator"], fields["shapes"], fields["arguments"])
            if isinstance(call, str):
                raise InvalidCase(call)
            caller = _Caller(csv_fields.label(fields["model"], "model"), csv_fields.label(fields["input"], "input size"))
            count, module = csv_fields.count(fields["count"]), csv_fields.label(fields["module"], "module")
        except InvalidCase as error:
            faults.append(f"{file}:{line}: {error}")
            continue
        identity = (call.name, call.content, caller)
        calls.setdefault(identity, (call, Counter()))[1][module] += count
        completed += call.completed
    lines = [
        (call, {"n": at.total(), "model": caller.model, "input": caller.size, **made_in(at)})
        for (_, _, caller), (call, at) in calls.items()
    ]
    text = _catalog_text(file.name, placement, lines) if lines else ""
    return ImportResult(text, read, len(lines), completed, tuple(faults), unused)


def _text(file: Path) -> str:
    """Returns the file as text: UTF-8, or UTF-16 with a byte order mark."""
    try:
        raw = read_limited(file, MAX_FILE_BYTES)
    except InvalidCase as error:
        raise CatalogError([str(error).replace(f"{file}: ", f"{file}:1: ", 1)]) from error
    encoding = "utf-16" if raw.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) else "utf-8-sig"
    try:
        return raw.decode(encoding)
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise CatalogError([f"{file}:{line}: is not {encoding.upper().removesuffix('-SIG')} text"]) from error


def _rows(text: str) -> Iterator[tuple[int, list[str] | InvalidCase]]:
    """Yields line and cells of every row that has content, or why it is no CSV."""
    first = next((line for line in text.splitlines() if line.strip()), "")
    delimiter = max(DELIMITERS, key=lambda d: sum(bool(csv_fields.column(title)) for title in first.split(d)))
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
    """Returns what each column holds ("" if unknown), and the titles of the unknown ones. CatalogError if one is missing."""
    line, titles = next(rows, (1, InvalidCase("is empty")))
    if isinstance(titles, InvalidCase):
        raise CatalogError([f"{file}:{line}: {titles}"])
    columns = [csv_fields.column(title) for title in titles]
    faults = []
    for meaning, times in Counter(columns).items():
        if meaning and times > 1:
            alike = ", ".join(title for title in titles if csv_fields.column(title) == meaning)
            faults.append(f"{file}:{line}: {times} columns hold the {meaning}: {alike}")
    for meaning in REQUIRED:
        if meaning not in columns:
            known = ", ".join(csv_fields.COLUMNS[meaning])
            faults.append(f"{file}:{line}: no column holds the {meaning}: none of {known} is among {', '.join(titles)}")
    if faults:
        raise CatalogError(faults)
    return columns, tuple(title for title, meaning in zip(titles, columns, strict=True) if not meaning)


def _fields(row: Sequence[str] | InvalidCase, columns: Sequence[str]) -> dict[str, str]:
    """Returns the cells of a row by what they hold, "" for missing ones."""
    if isinstance(row, InvalidCase):
        raise row
    if any(map(str.strip, row[len(columns) :])):
        raise InvalidCase(f"has {len(row)} cells under {len(columns)} titles; a cell that holds the separator must be quoted")
    return {**dict.fromkeys(csv_fields.COLUMNS, ""), **dict(zip(columns, row, strict=False))}


def _call(operator: str, shapes: str, arguments: str, base: Placement) -> _RowCall:
    """Returns the call of a row. One shape without arguments is, as in a shape sweep, a shape to build the call from."""
    name = csv_fields.operator_name(operator)
    operands = [list(shape) for shape in csv_fields.shapes(shapes)]
    args = csv_fields.arguments(arguments, name)
    inputs: dict[str, Any] = {"in": operands}
    if not operands:  # a created tensor
        inputs = {"shape": args.pop("size", None)}
        if not isinstance(inputs["shape"], list) or find_operator(name).operands:
            raise InvalidCase("names no shapes")
    sample = find_operator(name).sample
    if len(operands) == 1 and not args and sample and sample(tuple(operands[0])) != Sample((tuple(operands[0]),), {}):
        line: dict[str, Any] = {"shape": operands[0]}
        return _RowCall(name, _content(name, line, base), line, True)
    line = {**inputs, "args": args} if args else inputs
    return _RowCall(name, _content(name, line, base), line, False)


def _content(name: str, line: Mapping[str, Any], base: Placement) -> str:
    try:
        checked = CrossedLine.model_validate(line)
    except ValidationError as error:  # such as a created tensor without dims
        raise InvalidCase(error.errors()[0]["msg"].removeprefix("Value error, ")) from error
    case = crossed_case(name, checked, base, Source(""))
    specs_of(case)
    return case.call_json()


def _catalog_text(list_name: str, placement: PlacementModel, lines: Sequence[tuple[_RowCall, Mapping[str, Any]]]) -> str:
    head = {
        "schema": 1,
        "kind": "imported",
        "title": f"Calls listed in {''.join(c if c.isprintable() else '?' for c in list_name)}",
        "placement": placement.model_dump(mode="json", exclude_none=True),
    }
    sections: dict[str, list[tuple[Any, ...]]] = {}
    for call, usage in lines:
        line = {**call.line, **{key: value for key, value in usage.items() if value}}
        place = (call.line.get("in", [call.line.get("shape")]), str(call.line.get("args")), usage["model"], usage["input"])
        sections.setdefault(call.name, []).append((*place, flow(line)))
    text = [_NOTE, *(f"{key}: {flow(value)}\n" for key, value in head.items()), "operators:\n"]
    for name, listed in sorted(sections.items()):
        text.append(f"  {flow(name)}:\n")
        text += [f"  - {line}\n" for *_, line in sorted(listed)]
    return "".join(text)
