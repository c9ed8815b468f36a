"""Reads what TTNN's operation tracer writes with ``--trace-params``: a JSON file for each operation, in one folder."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ssinghal.catalog.recorded.calls import Entry, Fault, RecordedCall, Refused, tensors_in
from ssinghal.catalog.recorded.files import parsed, read_text
from ssinghal.catalog.recorded.values import read_value
from ssinghal.errors import CatalogError, InvalidCase

NAME = "operation_name"
_WITHIN = {"ttnn.Tensor.__getitem__": "ttnn.slice"}  # functions in Python that make a traced call of their own


def is_trace(value: Any) -> bool:
    """Whether a JSON value is the trace of an operation."""
    return isinstance(value, dict) and NAME in value


def trace_files(folder: Path) -> list[Path]:
    """Returns the JSON files of a folder in the order of their operations, whose number their names begin with."""

    def order(file: Path) -> tuple[int, str]:
        number = file.name.partition("_")[0]
        return int(number) if number.isdecimal() and len(number) < 20 else 0, file.name

    return sorted(folder.glob("*.json"), key=order)


def folder_entries(folder: Path) -> Iterator[Entry]:
    """Yields the call of every file of a folder."""
    before = ""
    for file in trace_files(folder):
        try:
            value = parsed(read_text(file), file)
        except CatalogError as error:
            where, _, what = str(error).partition(": ")
            yield Fault(where, what)
            continue
        yield trace_entry(value, f"{file}:1", folder.name, before)
        before = str(value.get(NAME)) if isinstance(value, dict) else ""


def trace_entry(value: Any, where: str, model: str, before: str = "") -> Entry:
    """Returns the call of a trace. ``before``: the function of the trace before it."""
    if not is_trace(value):
        return Fault(where, f"expected the trace of an operation, with {NAME}, args and kwargs")
    function = value[NAME]
    if not isinstance(function, str):
        return Fault(where, f"{NAME} is {function!r}; expected a name")
    function = function.replace("::", ".")
    if before and before == _WITHIN.get(function):
        return Refused(where, function, f"is recorded as the call of {before} before it")
    given, kwargs = value.get("args", []), value.get("kwargs", {})
    if not isinstance(given, list) or not isinstance(kwargs, dict):
        return Fault(where, "expected a list of args and an object of kwargs")
    try:
        args = [read_value(_argument(item)) for item in given]
        named = {str(name): read_value(item) for name, item in kwargs.items()}
        results = tuple(tensors_in([read_value(value.get("return_value"))]))
    except InvalidCase as error:
        return Refused(where, function, str(error))
    return RecordedCall(function, args, named, results, model=model, where=where)


def _argument(item: Any) -> Any:
    is_placed = isinstance(item, Mapping) and "value" in item and "position" in item
    return item["value"] if is_placed else item
