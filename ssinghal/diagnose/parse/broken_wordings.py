"""Finds the wordings of TTNN in texts that lack the start or the end of one, or whose white space is not TTNN's.

All expressions are made from those of ``error_patterns``, when they are first needed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from typing import Any

from ssinghal.core.verdict import Verdict
from ssinghal.device.error_patterns import PATTERNS, Pattern, candidates_for, understood

_DIGITS = re.compile(r"\d\d")  # of a figure, not of "L1"
_FIGURE = re.compile(r"(?<![A-Za-z_\d])\d")
_FIRST_WORDS = 2  # of a text whose start is missing, which may be parts of words
_OF_DEVICE = ("cores", "limit_bytes", "bank_bytes", "banks")
_FEWEST_NUMBERS = 2  # of a message without its start
_FEWEST_WORDS = 3  # of a message without its end
_FEWEST_CHARS = 16  # of one that says so
_REST_CHARS = 40  # of it after its last complete word
_ELLIPSIS = ("...", "…", "[...", "[…", "<truncated", "(truncated", "[truncated")

# In the second half of the commonest wordings.
_TORN = re.compile(
    r"buffer across|bank needs|per bank|bank size is|core range|buffer region|beyond max|trace region|kernel config"
)
_TORN_CHARS = 1000

_ANY_WORD = ("\\S", "\\w", ".")  # the first characters of expressions that do

Found = tuple[Pattern, re.Match[str]]


def has_figures(wording: re.Match[str]) -> bool:
    """Returns whether a part of a text that matches a wording has a number of it, so that it is no prose."""
    return _FIGURE.search(wording[0]) is not None


# White space that was lost or put in ----------------------------------------------------------------------------------------


@cache
def _squeezed_opening() -> re.Pattern[str]:
    """Returns an expression for the first two words of any wording, except those that begin with any word.

    For these it has the start of a text, and of the message in it.
    """
    sources = [row.regex.pattern for row in PATTERNS if row.regex.pattern and not row.regex.pattern.startswith(_ANY_WORD)]
    firsts = (_without_space("".join([*_tokens(source)][:2])) for source in sources)
    openings = dict.fromkeys(re.sub(r"\(\?P<\w+>", "(?:", first) for first in firsts)
    return re.compile("|".join([*(f"(?:{opening})" for opening in openings), r"\A|(?<=info:)"]), re.IGNORECASE)


@cache
def _squeezed_rows() -> dict[str, re.Pattern[str]]:
    return {row.name: re.compile(_without_space(row.regex.pattern), row.regex.flags) for row in PATTERNS}


def _without_space(source: str) -> str:
    return source.replace(r"\s+", "").replace(" ?", "").replace(" ", "")


def squeezed_wording(squeezed: str) -> Found | None:
    """Returns the wording with figures that ``squeezed``, a text without any white space, has first."""
    rows = _squeezed_rows()
    for start in _squeezed_opening().finditer(squeezed):
        for row in candidates_for(squeezed[start.start() : start.start() + 1]):
            match = rows[row.name].match(squeezed, start.start())
            if match and _DIGITS.search(match[0]):
                return row, match
    return None


# A missing start or end -----------------------------------------------------------------------------------------------------


def _tokens(source: str) -> Iterator[str]:
    """Yields the words of a wording's expression: what stands between spaces outside brackets. Of alternatives the first's."""
    depth, start, at = 0, 0, 0
    in_class = False
    while at < len(source):
        char = source[at]
        if char == "\\":
            at += 1
        elif in_class:
            in_class = char != "]"
        elif char == "[":
            in_class = True
        elif char in "()":
            depth += 1 if char == "(" else -1
        elif char == "|" and not depth:
            break
        elif char == " " and not depth and source[at + 1 : at + 2] != "?":
            yield source[start:at]
            start = at + 1
        at += 1
    yield source[start:at]


@cache
def _first_words() -> dict[str, re.Pattern[str]]:
    return {row.name: re.compile(next(_tokens(row.regex.pattern)) + r"(?=\s)", row.regex.flags) for row in PATTERNS}


@cache
def _without_end(row: Pattern) -> re.Pattern[str]:
    """Returns an expression for as many of the first words of a wording as a text has, each with white space after it."""
    tokens = list(_tokens(row.regex.pattern))
    source = ""
    for at, token in reversed([*enumerate(tokens)][1:-1]):
        if token.startswith(".{") and at >= _FEWEST_WORDS:  # any words: the end may be among them
            source = rf"(?:{token}\s+{source.removesuffix('?')}|.*$)?" if source else r"(?:.*$)?"
        else:
            source = rf"(?:{token}\s+{source})?"
    return re.compile(rf"{tokens[0]}\s+{source}", row.regex.flags)


@cache
def _without_start(row: Pattern) -> re.Pattern[str]:
    """Returns an expression for the last words of a wording, at least its last."""
    *first, last = _tokens(row.regex.pattern)
    source = ""
    for token in first:
        source = rf"(?:{source}{token}\s+)?"
    return re.compile(source + last, row.regex.flags)


def without_end(message: str, unknown: Verdict) -> Verdict | None:
    """Returns what a message without its end has: the memory that ran out and the figures that are complete.

    None where the text does not end within a wording, or its words may be those of several memories or have no figure yet.
    """
    found = [(row, match) for row, match in _beginnings(message) if _figure_count(match)]
    return _one_memory(found, unknown)


def is_beginning(message: str) -> bool:
    """Returns whether a message ends within a wording of a memory failure."""
    return any(True for _ in _beginnings(message))


def _beginnings(message: str) -> Iterator[Found]:
    for row in candidates_for(message):
        if row.resource is not None and row.regex.pattern and _first_words()[row.name].match(message):
            match = _without_end(row).match(message)
            if match and _is_end(match[0], message[match.end() :].strip()):
                yield row, match


def _is_end(found: str, rest: str) -> bool:
    """Returns whether a text whose words ``found`` are of a wording, and the ``rest`` not, ends within that wording.

    The rest is a part of a word, or of a range of cores; or it says that the text goes on.
    """
    if rest.startswith(_ELLIPSIS) or rest.endswith(_ELLIPSIS[:2]):
        return len(rest) <= _REST_CHARS and len(found) >= _FEWEST_CHARS
    is_part = " " not in rest or rest.count("[") > rest.count("]")
    return is_part and len(found.split()) >= _FEWEST_WORDS


def has_rest(text: str) -> bool:
    """Returns whether ``text`` may have the end of a message: a cheap test."""
    return _TORN.search(text[:_TORN_CHARS]) is not None and len(re.findall(r"\d+", text[:_TORN_CHARS])) > 1


def without_start(message: str, unknown: Verdict) -> Verdict | None:
    """Returns what a message without its start has, as ``without_end``; at least two figures."""
    found, at = [], 0
    for _ in range(_FIRST_WORDS):
        for row in PATTERNS:
            if row.resource is None or not row.regex.pattern:
                continue
            match = _without_start(row).match(message, at)
            starts_with_figure = at == 0 and message[:1].isdigit()
            if match and _number_count(match) >= _FEWEST_NUMBERS and not starts_with_figure:
                found.append((row, match))
        if found:
            break
        at = message.find(" ", at) + 1
        if not at:
            break
    return _one_memory(found, unknown)


def _number_count(match: re.Match[str]) -> int:
    return sum(bool(value) and value[0].isdigit() for name, value in match.groupdict().items() if name != "cores")


def _figure_count(match: re.Match[str]) -> int:
    """Returns how many figures of the failure itself a text has: sizes of a memory are those of every failure there."""
    of_failure = (value for name, value in match.groupdict().items() if name not in _OF_DEVICE)
    return sum(bool(value) and value[0].isdigit() for value in of_failure)


def _one_memory(found: list[Found], unknown: Verdict) -> Verdict | None:
    """Returns the verdict of the longest match, where all that are as long are of one memory."""
    longest = max((len(match[0]) for _, match in found), default=0)
    best = [(row, match) for row, match in found if len(match[0]) == longest]
    if len({row.resource for row, _ in best}) != 1:
        return None
    row, match = best[0]
    verdict = understood(row, match, unknown)
    groups = match.groupdict().items()
    unknown_sums: dict[str, Any] = {name.partition("__")[0]: None for name, value in groups if "__" in name and value is None}
    return replace(verdict, **unknown_sums)  # of a sum only a part is there


def is_torn_off(wording: re.Match[str]) -> bool:
    """Returns whether a text ends within the last number of a wording and says so."""
    return wording[0][-1:].isdigit() and wording.string[wording.end() :].lstrip().startswith(_ELLIPSIS)
