"""The parts of a line before its words: times, levels, processes, marks; known ones, and those of the line before."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

_TIME = (
    r"\[?\d{4}[-/]\d\d[-/]\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?\]?:?"
    r"|\[?\d\d:\d\d:\d\d(?:[.,]\d{1,9})?\]?:?"
    r"|\d\d-\d\d \d\d:\d\d:\d\d|\[ *\d{1,7}\.\d{6}\]"
    r"|[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d(?: [\w.-]{1,60} [\w./-]{1,60}(?:\[\d{1,9}\])?:)?(?= )"
)
_PROCESS = (
    r"\[(?P<mpi>\d{1,5}(?:,\d{1,5})?)\](?:<std(?:out|err|diag)>)?:?|\((?P<worker>(?:\w[\w.-]{0,40} )?pid=\d{1,9})[^()]{0,80}\)"
    r"|\[?(?:[Rr]ank|RANK|default)[ =_]?(?P<rank>\d{1,5})\]?\s?[:|]"
)
_PROCESS_TAG = re.compile(_PROCESS)
_LEVEL_WORD = r"CRITICAL|FATAL|ERROR|WARNING|WARN|INFO|DEBUG|TRACE"
_LEVEL = (
    rf"(?:{_LEVEL_WORD})(?::[\w.]{{0,60}}:| +\S{{1,60}}:\d{{1,6}}:?(?= )|\s*[:-](?=\s)|(?=\s))"
    rf"|(?i:\[(?:{_LEVEL_WORD})\]):?"
)
# Where a line was logged ("[engine.py:187]", "core.py:1035]", loguru's "module:function:12 -", "E file.cc:45]"), and by whom.
_PLACE = (
    r"\[?[\w./-]{1,200}\.\w{1,4}:\d{1,6}\](?=\s|$)|[\w.]{1,80}:[\w<>]{1,60}:\d{1,6} -(?=\s)"
    r"|[IWEF](?:\d{4})?(?= [\w./:-]{1,200}:\d{1,6}\])|[IWEF]\d{4} \d\d:\d\d:\d\d\.\d{1,9} +\d{1,9}(?=\s)"
)
_NAME = r"\[[A-Za-z][\w./:-]{0,60}\](?=\s)|std(?:out|err) [FP](?= )|(?<=\d )[\w.-]{1,60}/[\w.-]{1,60} [\w.-]{1,60}:(?= )"
# A job's step, as GitHub's command line prints it.
_STEP = r"[^\t\n]{1,80}\t[^\t\n]{1,80}\t(?=\d{4}-\d\d-\d\dT)"
# "2026-01-01 10:00:00.000 | critical |          Always | ", but no cell of a table that has the words.
_COLUMN = r"(?![^|\n]{0,60}(?:Error|Exception|TT_|emory|exceed|\bL1\b))[\w.:/@ -]{0,60}\|(?!\w)"
_MARKS = r"\s+|E(?=\s{2,}|\s*$)|>(?!=)|`{1,3}|[*+•-](?=\s)|\d{1,3}[.)](?=\s)"
_PREFIX = re.compile(rf"(?:{_STEP})?(?:{_TIME}|{_PROCESS}|{_LEVEL}|{_PLACE}|{_NAME}|{_COLUMN}|{_MARKS})*")
_CONTINUED_PREFIX = re.compile(
    rf"(?:{_STEP})?(?:{_TIME}|{_PROCESS}|\s+|E(?=\s{{2,}}|\s*$))*"
)  # of a line that continues the one before
_QUOTED_CONTINUED_PREFIX = re.compile(rf"(?:{_STEP})?(?:{_TIME}|{_PROCESS}|\s+|E(?=\s{{2,}}|\s*$)|>(?!=))*")
_LOUD = re.compile(rf"\b({_LEVEL_WORD})\b", re.IGNORECASE)
_QUIET = ("WARNING", "WARN", "INFO", "DEBUG", "TRACE")

SHAPE_CHARS = 300  # a longer text before a message is no prefix
_INTRODUCTION = re.compile(r"[\w.]{0,80}(?:Error|Exception)\b\s?[:(]|what\(\):|TT_(?:FATAL|THROW)\b")
_CLOSING = re.compile(r'(?:\\n)?(?<!\\)"(?=\s{0,9}(?:[}\]]|$|,\s{0,9}"[^"]{0,60}"\s{0,9}:))')  # not within a list of strings
_VARYING = re.compile(r"(\s*\d+|\s+)")


class Prefix(NamedTuple):
    """The part of a line before its words: times, levels, processes, marks.

    ``end``: where the words start. ``level``: upper case, "" where there is none. ``marked``: pytest's "E" is there.
    """

    end: int = 0
    process: str = ""
    level: str = ""
    marked: bool = False

    @property
    def is_quiet(self) -> bool:
        return self.level in _QUIET

    @classmethod
    def of(cls, text: str) -> Prefix:
        match = _PREFIX.match(text)
        if match is None or not match.end():
            return _NONE
        before = match[0]
        level = _LOUD.search(before) if len(before) > 4 else None
        return cls(match.end(), _process_tag(match), level[1].upper() if level else "", "E" in before.split())


_NONE = Prefix()


def process_of(prefix_text: str) -> str:
    """Returns the process that the text before a line's words names, "" where it names none."""
    # A cheap test first: most lines name none.
    if not any(mark in prefix_text for mark in ("[", "(", "ank", "RANK", "default")):
        return ""
    match = _PROCESS_TAG.search(prefix_text)
    return _process_tag(match) if match else ""


def _process_tag(match: re.Match[str]) -> str:
    return match["mpi"] or match["worker"] or match["rank"] or ""


@dataclass(frozen=True)
class Shape:
    """The prefix of a line as the lines that continue its message may have it: the same words, but other digits.

    ``in_quotes``: it ends with the quotation mark of a string, whose end is the end of the line's words.
    """

    regex: re.Pattern[str]
    in_quotes: bool = False

    @classmethod
    def of(cls, before: str) -> Shape | None:
        """Returns the shape of what stands before a message in its first line, None where nothing does."""
        introduction = _INTRODUCTION.search(before[:SHAPE_CHARS])
        own = before[: introduction.start()] if introduction else before
        return _shape(own) if own.strip() and len(own) <= SHAPE_CHARS else None

    def length(self, text: str) -> int:
        """Returns how many characters of a line are a prefix of this shape."""
        match = self.regex.match(text)
        return match.end() if match else 0

    def words(self, text: str) -> str | None:
        """Returns the words of a line with a prefix of this shape, None for any other line."""
        match = self.regex.match(text)
        return text[match.end() :] if match else None

    def ends(self, words: str) -> bool:
        """Returns whether the string that the words of a line are in ends there."""
        return self.in_quotes and _CLOSING.search(words) is not None

    def unquoted(self, words: str) -> str:
        """Returns the words of a line without what follows the string that they are in."""
        return _CLOSING.split(words, maxsplit=1)[0] if self.in_quotes else words


@lru_cache(maxsize=256)
def _shape(own: str) -> Shape:
    parts = _VARYING.split(own.rstrip())
    shape = "".join(_varying(part) if at % 2 else re.escape(part) for at, part in enumerate(parts))
    return Shape(re.compile(shape + (r"(?:\s|$)" if own[-1].isspace() else "")), own.endswith('"'))


def _varying(part: str) -> str:
    if part.isspace():
        return r"\s{1,40}"
    return (r"\s{0,40}" if part[0].isspace() else "") + r"\d{1,40}"


def continuation(text: str, *, quoted: bool, shape: Shape | None = None) -> str:
    """Returns a line that continues the one before, without the prefix that its kind of log puts before each.

    ``shape``: of the prefix of the message's first line. A dash there belongs to the message, and so does ``>`` where the
    first line was not ``quoted``.
    """
    words = shape.words(text) if shape else None
    if shape is not None and words is not None:
        return shape.unquoted(words)
    prefix = (_QUOTED_CONTINUED_PREFIX if quoted else _CONTINUED_PREFIX).match(text)
    if prefix is None or prefix[0] == " ":  # a terminal broke the line at a space
        return text
    return text[prefix.end() :]
