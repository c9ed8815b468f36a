"""The types of the options in a ``run.json``, which another program, or a later version, may have written."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ssinghal.errors import cut, one_line

SHOWN = 60  # characters of a value that is refused

LIST, FLAG, INTEGER, NUMBER, TEXT = "a list of texts", "true or false", "an integer", "a number", "a text"
IS: Mapping[str, Callable[[Any], bool]] = {
    LIST: lambda value: isinstance(value, list) and all(isinstance(one, str) for one in value),
    FLAG: lambda value: isinstance(value, bool),
    INTEGER: lambda value: isinstance(value, int) and not isinstance(value, bool),
    NUMBER: lambda value: isinstance(value, (int, float)) and not isinstance(value, bool),
    TEXT: lambda value: isinstance(value, str),
}

# Those that readers of runs use, of ``ssinghal run`` and of pytest; null where they were not given.
READ: Mapping[str, str] = {
    **dict.fromkeys(("catalogs", "operators", "catalog", "op", "placements", "dtypes", "tests"), LIST),
    **dict.fromkeys(("memory", "weights", "keyword", "markers"), TEXT),
    **dict.fromkeys(("max_bytes", "max-bytes", "per_operator", "sample", "host_tiles", "host-tiles"), INTEGER),
}


def option_fault(options: Mapping[str, Any]) -> str:
    """Returns what is wrong with the first of a run's options that no reader can use: another type than ``READ`` has, or a text
    of several lines in it; empty if there is none."""
    for name, value in options.items():
        if any(one_line(text) != text for text in _texts([name, value])):
            return f"options.{cut(name, SHOWN)}: expected texts of one line each"
        kind = READ.get(name)
        if kind is not None and value is not None and not IS[kind](value):
            return wrong_type(name, kind, value)
    return ""


def wrong_type(name: str, kind: str, value: Any) -> str:
    return f"options.{name}: expected {kind}, not {cut(json.dumps(value), SHOWN)}"


def _texts(value: Any) -> Iterator[str]:
    """Yields all texts in a value of JSON."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _texts(item)
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from _texts([key, item])
