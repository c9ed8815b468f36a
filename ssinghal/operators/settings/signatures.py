"""Reads the signatures that TTNN's functions and classes carry as text, which states what a release takes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

_HEAD = re.compile(r"^(?:__call__|__init__|\w+)\(")
_PATH = re.compile(r"(?:\w+(?:\.|::))+(?=\w)")  # "ttnn._ttnn.tensor." of a type
_OPEN, _CLOSE = "([{<", ")]}>"


@dataclass(frozen=True)
class Parameter:
    """An argument. ``kinds``: its types without their modules; "X*" is a sequence of X."""

    kinds: tuple[str, ...]
    required: bool = False
    keyword: bool = False


def parameters(function: Any) -> dict[str, Parameter]:
    """Returns the arguments of a function or class of TTNN by name, over all its overloads; empty where it states none."""
    overloads = [dict(_of_line(line)) for line in _signature_text(function).splitlines() if _HEAD.match(line)]
    found: dict[str, Parameter] = {}
    for name in dict.fromkeys(name for overload in overloads for name in overload):
        same = [overload[name] for overload in overloads if name in overload]
        kinds = dict.fromkeys(kind for parameter in same for kind in parameter.kinds)
        required = len(same) == len(overloads) and all(parameter.required for parameter in same)
        found[name] = Parameter(tuple(kinds), required, any(parameter.keyword for parameter in same))
    return found


def _signature_text(function: Any) -> str:
    if isinstance(function, type):
        return function.__init__.__doc__ or ""  # type: ignore[misc]  # nanobind's constructor has the signature
    bound = getattr(function, "function", function)
    return getattr(type(bound).__call__, "__doc__", None) or ""


def _of_line(line: str) -> Iterator[tuple[str, Parameter]]:
    keyword = False
    for text in _split(line[line.index("(") + 1 :], ","):
        if text in ("*", "/", "self"):
            keyword = keyword or text == "*"
            continue
        name, _, rest = text.partition(":")
        kind, equals, _ = rest.partition(" = ")
        yield name.strip(), Parameter(tuple(_kinds(kind)), not equals, keyword)


def _kinds(text: str) -> Iterator[str]:
    for part in _split(text, "|"):
        short = _PATH.sub("", part)
        if short.startswith("Sequence["):
            yield from (f"{kind}*" for kind in _kinds(short.removeprefix("Sequence[").removesuffix("]")))
        else:
            yield short


def _split(text: str, separator: str) -> Iterator[str]:
    """Yields the parts of ``text`` between separators outside brackets, up to the bracket that closes it."""
    depth, start = 0, 0
    for position, one in enumerate(text):
        if one == ">" and text[position - 1] == "-":
            continue
        if one in _OPEN:
            depth += 1
        elif one in _CLOSE:
            depth -= 1
            if depth < 0:
                text = text[:position]
                break
        elif one == separator and not depth:
            yield text[start:position].strip()
            start = position + 1
    if text[start:].strip():
        yield text[start:].strip()
