"""Reads values of TTNN as it prints them: ``MemoryConfig(memory_layout=TensorMemoryLayout::BLOCK_SHARDED,…)``.

Names are joined by ``=`` or ``:``, members by ``::`` or ``.``, lists are in any brackets. A bracket that is never closed is
closed with the one around it: TTNN prints core ranges so.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import Any

from ssinghal.catalog.recorded.calls import DEPTH, Member, Setting, Unread

LIMIT = 20_000  # characters of one value
_OPENING, _CLOSING = "([{", ")]}"
_WHOLE = re.compile(r"[+-]?\d{1,19}")
_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?f?")
_MEMBER = re.compile(r"(?:ttnn(?:\._ttnn)?(?:\.\w+)*?\.)?(\w+)(?:::|\.)(\w+)")
_OBJECT = re.compile(r"(?:[\w.]+(?:\.|::))?(\w+)\s*([({])")
_NAMED = re.compile(r"[\"']?([A-Za-z_]\w*)[\"']?\s*(?:=|:(?!:))\s*")
_QUOTED = re.compile(r"\"[^\"]*\"|'[^']*'")
_RANGE = re.compile(
    r"x\W{0,4}(\d{1,4})\W{1,4}y\W{0,4}(\d{1,4})[^\dxy]{1,24}(?:end\W{1,6})?x\W{0,4}(\d{1,4})\W{1,4}y\W{0,4}(\d{1,4})"
    r"|(\d{1,4})-(\d{1,4}) - (\d{1,4})-(\d{1,4})"
)
_CORE = re.compile(r"(\d{1,4})-(\d{1,4})")
_WORDS: dict[str, Any] = {"true": True, "false": False, **dict.fromkeys(("none", "null", "nullopt", "std::nullopt"))}


def read_text(text: str, depth: int = DEPTH) -> Any:
    """Returns what a text states; ``Unread`` where it is in no known form.

    >>> read_text("[1, 2.5]"), read_text("DataType::BFLOAT16"), str(read_text("A(b=1,c=std::nullopt)"))
    ([1, 2.5], Member(kind='DataType', name='BFLOAT16'), 'A(b=1, c=None)')
    """
    text = text.strip()
    if len(text) > LIMIT or not depth:
        return Unread(text[:200])
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    if _WHOLE.fullmatch(text):
        return int(text)
    if _NUMBER.fullmatch(text):
        number = float(text.rstrip("f"))
        return number if math.isfinite(number) else Unread(text)
    if _QUOTED.fullmatch(text):
        return text[1:-1]
    if core := _CORE.fullmatch(text):
        return _xy(int(core[1]), int(core[2]))
    if " - " in text and _RANGE.fullmatch(text.removeprefix("(").removesuffix(")")):
        ((start, end),) = core_ranges(text)
        return {"start": _xy(*start), "end": _xy(*end)}
    if match := _MEMBER.fullmatch(text):
        return Member(match[1], match[2])
    if (match := _OBJECT.match(text)) and text[-1] == _CLOSING[_OPENING.index(match[2])]:
        return _object(match[1], text[match.end() : -1], depth)
    if text and text[0] in _OPENING and text[-1] == _CLOSING[_OPENING.index(text[0])]:
        return _listed(text[1:-1], depth)
    return Unread(text[:200])


def _object(kind: str, inner: str, depth: int) -> Any:
    parts = list(_parts(inner))
    if kind == "slice" and len(parts) == 3:
        bounds = [read_text(part, depth - 1) for part in parts]
        return slice(*bounds) if all(x is None or isinstance(x, int) for x in bounds) else Unread(f"slice({inner})"[:200])
    if kind in ("Shape", "SmallVector", "vector", "array", "ttnn_SmallVector"):
        listed = _listed(inner, depth)
        return listed[0] if isinstance(listed, list) and len(listed) == 1 and isinstance(listed[0], list) else listed
    fields: dict[str, Any] = {}
    for part in parts:
        name = _NAMED.match(part)
        if name is None:  # a value without a name, as of an enumeration: DataType(BFLOAT16)
            fields[str(len(fields))] = read_text(part, depth - 1)
        elif name[1] in ("grid", "core_ranges", "cores"):
            fields[name[1]] = core_ranges(part) or read_text(part[name.end() :], depth - 1)
        else:
            fields[name[1]] = read_text(part[name.end() :], depth - 1)
    return Setting(kind, fields)


def _listed(inner: str, depth: int) -> Any:
    """Returns a list, or an object without a class where all its parts have names."""
    parts = list(_parts(inner))
    named = [_NAMED.match(part) for part in parts]
    if parts and all(named):
        return {name[1]: read_text(part[name.end() :], depth - 1) for part, name in zip(parts, named, strict=True) if name}
    return [read_text(part, depth - 1) for part in parts]


def _parts(text: str) -> Iterator[str]:
    """Splits at the commas that are in no brackets."""
    open_brackets: list[str] = []
    start, quote = 0, ""
    for at, char in enumerate(text):
        if quote:
            quote = "" if char == quote else quote
        elif char in "\"'":
            quote = char
        elif char in _OPENING:
            open_brackets.append(char)
        elif char in _CLOSING:
            opening = _OPENING[_CLOSING.index(char)]
            while open_brackets and open_brackets.pop() != opening:
                pass
        elif char == "," and not open_brackets:
            yield text[start:at].strip()
            start = at + 1
    if text[start:].strip():
        yield text[start:].strip()


def _xy(x: int, y: int) -> dict[str, int]:
    return {"x": x, "y": y}


def core_ranges(text: str) -> list[tuple[tuple[int, int], tuple[int, int]]]:
    """Returns the first and last core of every range in a text, in any of the forms in which releases of TTNN print them.

    >>> core_ranges("{[(x=0,y=0) - (x=7,y=2)]}"), core_ranges('grid=[{"start":{"x":0,"y":0},"end":{"x":7,"y":7}]')
    ([((0, 0), (7, 2))], [((0, 0), (7, 7))])
    """
    found = []
    for match in _RANGE.finditer(text):
        left, top, right, bottom = (int(group) for group in match.groups() if group is not None)
        found.append(((left, top), (right, bottom)))
    return found
