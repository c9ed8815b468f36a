"""Splits text at commas and arrows outside brackets and quotes: MLIR, C++ values as TTNN prints them, arguments of Python."""

from __future__ import annotations

import re
from collections.abc import Iterator

_TOKEN = re.compile(r'->|loc\(|[<>()\[\]{},"]')
_CLOSING = {"<": ">", "(": ")", "[": "]", "{": "}"}


def split(text: str) -> list[str]:
    """Splits ``text`` at the commas outside brackets and quotes into stripped parts; an empty text has none.

    >>> split('tensor<4x32xbf16, #a>, (d0, d1) -> (d0, d1), "x, y"')
    ['tensor<4x32xbf16, #a>', '(d0, d1) -> (d0, d1)', '"x, y"']
    """
    parts: list[str] = []
    start = 0
    for at, depth in _depths(text):
        if depth == 0 and text[at] == ",":
            parts.append(text[start:at].strip())
            start = at + 1
    parts.append(text[start:].strip())
    return parts if any(parts) else []


def top_level(text: str, token: str) -> int | None:
    """Returns where ``token`` first is outside brackets and quotes."""
    return next((at for at, depth in _depths(text) if depth == 0 and text.startswith(token, at)), None)


def bracketed(text: str, start: int) -> tuple[str, str]:
    """Returns the content of the bracket that opens at ``start``, and what follows; all the rest where it is never closed."""
    for at, depth in _depths(text, start):
        if depth == 0 and at > start:
            return text[start + 1 : at], text[at + 1 :]
    return text[start + 1 :], ""


def open_brackets(text: str) -> int:
    depth = 0
    for at, before in _depths(text):
        depth = before + (text[at] in _CLOSING or text.startswith("loc(", at))
    return depth


def _depths(text: str, start: int = 0) -> Iterator[tuple[int, int]]:
    """Yields the positions of separators and brackets outside quotes, with the depth of brackets around them.

    A bracket that does not match the last one opened closes nothing.
    """
    closers: list[str] = []
    quoted = False
    for match in _TOKEN.finditer(text, start):
        token = match[0]
        if token == '"':
            quoted = not quoted
        elif not quoted:
            if closers and token == closers[-1]:
                closers.pop()
            yield match.start(), len(closers)
            if token[-1] in _CLOSING:
                closers.append(_CLOSING[token[-1]])
