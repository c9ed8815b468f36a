"""Finds where an error of TTNN may start in a line of a log.

``translate_error`` knows the wordings, from the first word of a message on. A log puts times, levels, ranks, quotation marks
and test frameworks' marks before it. A message that nothing introduces counts wherever it is, if it has its numbers.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace

from ssinghal.core.verdict import Verdict
from ssinghal.device.error_patterns import HEAD_CHARS, OPENING, known_wording
from ssinghal.diagnose.parse.broken_wordings import has_figures, has_rest
from ssinghal.diagnose.parse.markup import without_separators
from ssinghal.diagnose.parse.prefixes import Prefix

MESSAGE_LINES = 40  # read of one error at most
FRAMEWORK_MEMORY = ".OutOfMemoryError"  # torch.cuda.OutOfMemoryError: of the host or a GPU, never TTNN's

_ERROR_MARKS = ("TT_", "Error", "Exception", "what()", '"ttnn', "%", "#", "Memory: ", "Statically")
_QUIET_COLUMN = re.compile(r"\| *(?:DEBUG|debug|INFO|info|WARNING|warning|TRACE|trace) *\|")

_THROWN = re.compile(r"(?<![\w/])TT_(?:FATAL|THROW)(?:\s{0,3}(?:@(?=[\s/]|$)|:(?=\s|$))|\s*$)")
_WHAT = re.compile(r"(?P<type>what)\(\): +")  # printed by a C++ program that ends with an exception
_EXCEPTION = re.compile(r"(?P<type>(?:[A-Za-z_]\w*\.)*[A-Z_a-z]\w{0,60}(?:Error|Exception))(?:: |:?$|\((?=['\"]))")
_RUNTIME_ERROR = re.compile(r"(?<![\w'\"`])(?:[a-z_]\w*\.)*(?P<type>RuntimeError): ")
# Of a string: it may be anything, so the message must be known.
_QUOTED_ERROR = re.compile(r"(?<=['\"`])(?:[a-z_]\w*\.)*RuntimeError: (?!TT_)")
_PLACED = re.compile(r"\S\.\w{1,4}:\d{1,7}: RuntimeError: $")
# A test that was not to run, or a line of a program that only quotes a message.
_NO_RESULT = re.compile(r"(?<!\S)(?:SKIPPED|XFAIL|XPASS)(?=\s|$)|\bSkipped: ")
_QUOTES_ONE = re.compile(r"\bmatch\s?=|\breason\s?=|\bgrep\b|\bre\.\w+\(|(?:skip|xfail|raises)\w{0,10}\(")
_HINTS = ("memory", "buffer", "l1", "cb", "dfb", " args ", "exceed", "kernel")  # each wording with figures has one, in any case
HEADER_CHARS = 1000  # more than TTNN's header
OPENINGS_LIMIT = 100  # tried on one line
_AFTER = re.compile(
    r"backtrace:|--- |_{3,}|={3,}|-{5,}|Traceback \(|File \"|\S{1,300}\.py:\d+:|[✓✗⊗✅❌]|Captured |FAILED |SKIPPED "
    r"|During handling|The above "
)


@dataclass(frozen=True)
class Start:
    """A place in a line where the message of an exception ``error_type`` may start.

    ``bare``: nothing introduces it. ``loud``: a level or a mark of an error precedes it; a bare start that is not loud must be
    a complete message. ``short``: it follows the place of a report with one line per error. ``ends_process``: printed by a C++
    program that ends with it. ``torn``: the start of the message may be missing. ``complete``: the line has the message with
    its numbers. ``in_string``: a string begins with the name of its exception.
    """

    at: int
    error_type: str = "RuntimeError"
    bare: bool = False
    loud: bool = False
    short: bool = False
    ends_process: bool = False
    torn: bool = False
    complete: bool = False
    in_string: bool = False


def is_quiet_line(text: str) -> bool:
    """Returns whether a line has a quiet log level and mentions no error: a cheap test that most lines of a log pass."""
    return not any(word in text for word in _ERROR_MARKS) and _QUIET_COLUMN.search(text, 0, 200) is not None


def is_no_result(text: str, body: int = 0) -> bool:
    """Returns whether a line is about a test that was not to run or to fail, and may have the reason."""
    return _NO_RESULT.search(text, body, body + 400) is not None


def may_be_torn(body: str) -> bool:
    """Returns whether a line's words may be the rest of a message whose start is missing."""
    return has_rest(body) and not is_no_result(body) and not _QUOTES_ONE.search(body)


def error_starts(text: str, prefix: Prefix, *, inside: bool = False, others: bool = True) -> Iterator[Start]:
    """Yields the places where errors may start in ``text``, a line that may be very long, from left to right.

    ``inside``: ``text`` is not the start of its line, so only introduced errors and complete messages can start in it.
    ``others``: whether exceptions count that are neither a RuntimeError nor a framework's (XlaRuntimeError).
    """
    body = 0 if inside else prefix.end
    if is_no_result(text, body):
        return
    introduced = list(_introduced(text, body, inside=inside, others=others))
    loud = prefix.level != "" or prefix.marked
    starts = introduced + [Start(at, bare=True, loud=True, in_string=True) for at in _in_strings(text, body)]
    opening = _opening(text, HEADER_CHARS if inside else body)  # the header may be in the part before
    if opening is not None:
        known = {start.at for start in starts}
        complete = _uncovered(complete_messages(text, opening), introduced)
        starts += [Start(at, bare=True, loud=loud and at == body, complete=True) for at in complete if at not in known]
    if not (starts or inside or prefix.is_quiet) and (opening := OPENING.match(text, body) or opening):
        starts = [Start(opening.start(), bare=True, loud=loud and opening.start() == body)]
    yield from sorted(starts, key=lambda start: start.at)


def _in_strings(text: str, body: int) -> Iterator[int]:
    if "RuntimeError: " in text:
        quoting = _QUOTES_ONE.search(text, body)  # once: a search before each string takes quadratic time
        last = quoting.end() if quoting else len(text)
        yield from (found.end() for found in _QUOTED_ERROR.finditer(text, body) if found.start() < last)


def _introduced(text: str, body: int, *, inside: bool, others: bool) -> Iterator[Start]:
    """Yields the starts of messages that the name of an exception or TTNN's header introduces."""
    raised = None if inside else _EXCEPTION.match(text, body) or _WHAT.match(text, body)
    after = raised.end() + (text[raised.end() : raised.end() + 1] in ("'", '"')) if raised else body
    ends_process = raised is not None and raised.re is _WHAT
    if raised and not _THROWN.match(text, after):
        name = _type_name(raised["type"])
        if others or name.endswith("RuntimeError") or name.endswith(FRAMEWORK_MEMORY):
            yield Start(after, name, ends_process=ends_process)
    for thrown in sorted([*_THROWN.finditer(text, body), *_RUNTIME_ERROR.finditer(text, after)], key=re.Match.start):
        if thrown.re is _THROWN:
            at = thrown.start()
            yield Start(at, short=_follows_place(text, at), ends_process=ends_process and at == after)
        elif not _THROWN.match(text, thrown.end()):
            yield Start(thrown.end())


def _uncovered(complete: Iterator[int], introduced: Sequence[Start]) -> Iterator[int]:
    """Yields the complete messages without the first one after each introduced start, whose message that is."""
    covering = {start.at for start in introduced}
    for at in complete:
        last = max((before for before in covering if before <= at), default=None)
        covering.discard(-1 if last is None else last)
        if last is None:
            yield at


def complete_messages(text: str, opening: re.Match[str]) -> Iterator[int]:
    """Yields where messages with their numbers are in ``text`` from its first ``opening`` on, whatever stands before them."""
    found = 0
    for _ in range(OPENINGS_LIMIT):
        at = opening.start()
        rest = " ".join(without_separators(text[at : at + HEAD_CHARS]).split())
        row, wording = known_wording("RuntimeError", rest)
        is_one = wording is not None and has_figures(wording)
        if is_one and row is not None and (row.resource or not found):  # a refusal may be explained in words of another
            found += 1
            yield at
        end = at + len(wording[0]) if wording is not None and is_one else opening.end()
        following = OPENING.search(text, end)
        if following is None:
            return
        opening = following


def _opening(text: str, start: int) -> re.Match[str] | None:
    """Returns the first opening of a wording in ``text``: a test that most lines fail fast."""
    lowered = text.lower()
    if not any(hint in lowered for hint in _HINTS):
        return None
    opening = OPENING.search(text, start)
    return None if opening is None or _QUOTES_ONE.search(text, start, opening.start()) else opening


def _type_name(name: str) -> str:
    """Returns the name of Python's class: NumPy's own MemoryError is one, and a C++ exception becomes a RuntimeError.

    A framework's out-of-memory error keeps the framework's name.
    """
    if name.endswith(FRAMEWORK_MEMORY):
        return name
    name = name.rpartition(".")[2]
    return {"_ArrayMemoryError": "MemoryError", "what": "RuntimeError"}.get(name, name)


def _follows_place(text: str, at: int) -> bool:
    return _PLACED.search(text[max(0, at - 500) : at]) is not None


def may_continue(text: str) -> bool:
    """Returns whether ``text``, without its prefix, may continue the message of the lines before."""
    return bool(text) and not _AFTER.match(text)


def number_count(verdict: Verdict) -> int:
    """Returns how many numbers of its message a verdict has."""
    return sum(isinstance(getattr(verdict, field.name), int) for field in fields(verdict)) + bool(verdict.cores)


def error_key(verdict: Verdict) -> Verdict:
    """Returns a value that is equal for texts about one error: their numbers are equal, or their words if they have none."""
    words = "" if number_count(verdict) else verdict.message.rstrip(". ")
    return replace(verdict, message=words, thrown_at="", error_type="")
