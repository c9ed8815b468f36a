"""Reads a config as engineers write it in Python, and as TTNN prints it.

    ttnn.SDPAProgramConfig(compute_with_storage_grid_size=ttnn.CoreCoord(8, 8), q_chunk_size=32, k_chunk_size=64)
    SDPAProgramConfig(compute_with_storage_grid_size=8-8, sub_core_grids=std::nullopt, q_chunk_size=32, …)

Both become JSON: a constructor an object with its ``type`` (and arguments without a name under ``args``), a member of an enum
or a name of the module ``{"name": …}``, and ``8-7`` or ``(x=8, y=7)``, as TTNN prints cores, a list of numbers.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from ssinghal.errors import InvalidCase, cut

_TOKEN = re.compile(
    r"""\s*(?:(?P<comment>\#[^\n]*)
    |(?P<number>\d+\.\d*(?:[eE][+-]?\d+)?|\.\d+|\d+(?:[eE][+-]?\d+)?)
    |(?P<name>[A-Za-z_]\w*(?:(?:\.|::)[A-Za-z_]\w*)*)
    |(?P<text>"[^"\n]*"|'[^'\n]*')
    |(?P<sign>[()\[\]{}<>,=:*-]))""",
    re.VERBOSE,
)
_WORDS = {"None": None, "True": True, "False": False, "std::nullopt": None, "nullopt": None, "true": True, "false": False}
_CLOSE = {"(": ")", "[": "]", "{": "}", "<": ">"}
MAX_DEPTH = 12
MAX_CHARACTERS = 20_000
MAX_DIGITS = 40  # Python refuses to read integers of thousands of digits


class _Token(NamedTuple):
    kind: str
    text: str
    position: int


def read(text: str) -> Any:
    """Returns the value that ``text`` writes, as JSON.

    Raises:
        InvalidCase: It is neither Python of literals, names and constructors nor what TTNN prints.

    >>> read("ttnn.CoreGrid(y=8, x=7)")
    {'type': 'CoreGrid', 'y': 8, 'x': 7}
    >>> read("{[0-0 - 7-6]}")
    [[[[0, 0], [7, 6]]]]
    """
    if len(text) > MAX_CHARACTERS:
        raise InvalidCase(f"{len(text):,} characters; expected at most {MAX_CHARACTERS:,}")
    return _Reader(text).complete()


class _Reader:
    """One pass over the tokens. Each method reads one part of the grammar and leaves the position behind it."""

    def __init__(self, text: str) -> None:
        self.tokens = [*self._tokens(text), _Token("end", "the end", len(text))]
        self.position = 0
        self.depth = 0

    @staticmethod
    def _tokens(text: str) -> Iterator[_Token]:
        position, end = 0, len(text.rstrip())
        while position < end:
            match = _TOKEN.match(text, position)
            if match is None:
                raise InvalidCase(f"column {position + 1}: unexpected {text[position : position + 10].strip()!r}")
            position = match.end()
            kind = match.lastgroup or ""
            if kind != "comment":
                yield _Token(kind, match[kind], match.start(kind))

    def complete(self) -> Any:
        value = self._value()
        if self._next.kind != "end":
            raise self._unexpected("the end")
        return value

    @property
    def _next(self) -> _Token:
        return self.tokens[self.position]

    def _unexpected(self, expected: str) -> InvalidCase:
        return InvalidCase(f"column {self._next.position + 1}: unexpected {self._next.text!r}; expected {expected}")

    def _take(self, text: str) -> bool:
        found = self._next.kind == "sign" and self._next.text == text
        self.position += found
        return found

    def _value(self) -> Any:
        """Reads ``product [- product]*``: dashes join what TTNN prints of cores, as 8-7 and 0-0 - 7-6."""
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise InvalidCase("nested too deep")
        negative = self._take("-")
        parts = [self._product()]
        while not negative and self._take("-"):
            parts.append(self._product())
        self.depth -= 1
        if negative:
            if isinstance(parts[0], bool) or not isinstance(parts[0], (int, float)):
                raise self._unexpected("a number after -")
            return -parts[0]
        if len(parts) == 4:
            return [parts[:2], parts[2:]]
        return parts if len(parts) > 1 else parts[0]

    def _product(self) -> Any:
        """Reads a part, or whole numbers multiplied as ports write them: ``act_block_h_override=32 * 5``."""
        value = self._part()
        while self._next.text == "*" and type(value) is int and self._take("*"):
            factor = self._part()
            if type(factor) is not int:
                raise InvalidCase(f"{cut(str(factor), 40)} after *: expected a whole number")
            value *= factor
            if value >= 2**63:
                raise InvalidCase("a product of 64 bits or more")
        return value

    def _part(self) -> Any:
        token = self._next
        self.position += 1
        if token.kind == "text":
            return token.text[1:-1]
        if token.kind == "number":
            if len(token.text) > MAX_DIGITS:
                raise InvalidCase(f"column {token.position + 1}: a number of {len(token.text):,} characters")
            return int(token.text) if token.text.isdecimal() else float(token.text)
        if token.kind == "name":
            return self._named(token.text)
        if token.kind == "sign" and token.text in "([{":
            values, keywords = self._items(_CLOSE[token.text])
            if keywords:
                return list(keywords.values())
            single = token.text == "(" and len(values) == 1 and self.tokens[self.position - 2].text != ","
            return values[0] if single else values
        self.position -= 1
        raise self._unexpected("a value")

    def _named(self, name: str) -> Any:
        if name in _WORDS:
            return _WORDS[name]
        if self._take("<"):  # the type of a C++ template
            while not self._take(">"):
                if self._next.kind == "end":
                    raise self._unexpected("'>'")
                self.position += 1
        if not self._take("("):
            return {"name": name}
        values, keywords = self._items(")")
        short = re.split(r"\.|::", name)[-1]
        return {"type": short, **({"args": values} if values else {}), **keywords}

    def _items(self, close: str) -> tuple[list[Any], dict[str, Any]]:
        """Reads the parts up to the bracket ``close``: those without a name, and those with one."""
        values: list[Any] = []
        keywords: dict[str, Any] = {}
        while not self._take(close):
            token, after = self._next, self.tokens[min(self.position + 1, len(self.tokens) - 1)]
            if token.kind == "name" and after.text == "=" and after.kind == "sign":
                self.position += 2
                if token.text in keywords:
                    raise InvalidCase(f"{token.text} is given twice")
                keywords[token.text] = self._value()
            else:
                values.append(self._value())
            if not self._take(",") and not (self._next.kind == "sign" and self._next.text == close):
                raise self._unexpected(f"',' or '{close}'")
        return values, keywords
