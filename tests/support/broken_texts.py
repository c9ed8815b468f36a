"""Values of annotated fields with a text of two lines in them, one for each place that holds a text."""

from __future__ import annotations

import types
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any, Union, get_args, get_origin, get_type_hints

# What ends a line for ``str.splitlines``, and so for an editor, a pager or a program that reads lines.
LINE_ENDS = ("\n", "\r", "\r\n", "\v", "\f", "\x1c", "\x1d", "\x1e", "\x85", "\u2028", "\u2029")


def broken(kind: Any, text: str) -> Iterator[tuple[str, Any]]:
    """Yields plain values of a type, all of whose texts but one are of one line, with the names of the fields on the way."""
    origin, arguments = get_origin(kind), get_args(kind)
    if kind is str:
        yield "", text
    elif kind is Any:
        yield from [("", text), ("", [text]), ("", {"a": [text]}), ("", {text: 1})]
    elif origin in (Union, types.UnionType):
        for one in arguments:
            yield from broken(one, text)
    elif isinstance(origin, type) and issubclass(origin, Mapping):
        if arguments[1] is not Any or arguments[0] is str:
            yield "", {text: "a" if arguments[1] is str else 1}
        yield from ((name, {"a": value}) for name, value in broken(arguments[1], text))
    elif isinstance(origin, type) and issubclass(origin, tuple):
        for one in {argument for argument in arguments if argument is not ...}:
            yield from ((name, [value]) for name, value in broken(one, text))
    elif is_dataclass(kind):
        yield from broken_fields(kind, text)
    elif isinstance(kind, type) and not issubclass(kind, Enum):
        assert issubclass(kind, (int, float, types.NoneType)), f"{kind}: has it a text?"


def broken_fields(kind: Any, text: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yields objects with one field of a dataclass, and its dotted name."""
    hints = get_type_hints(kind)
    for field in fields(kind):
        for name, value in broken(hints[field.name], text):
            yield f"{field.name}.{name}".rstrip("."), {field.name: value}
