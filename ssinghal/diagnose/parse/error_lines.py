"""Finds where an error of TTNN may start in a line of a log, and reads the message from there on.

``translate_error`` knows the wordings, from the first word of a message on. A log puts times, levels, ranks, quotation marks
and test frameworks' marks before it, and breaks it over lines.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from typing import NamedTuple

from ssinghal.core.record import Status, Verdict
from ssinghal.device.error_patterns import HEAD_CHARS, OPENING, known_wording, translate_error
from ssinghal.diagnose.parse.line_reader import joined, terminal_width

MESSAGE_LINES = 40  # read of one error at most
FRAMEWORK_MEMORY = ".OutOfMemoryError"  # torch.cuda.OutOfMemoryError: of the host or a GPU, never TTNN's

_TIME = (
    r"\[?\d{4}[-/]\d\d[-/]\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?\]?:?"
    r"|\[?\d\d:\d\d:\d\d(?:[.,]\d{1,9})?\]?:?"
    r"|\d\d-\d\d \d\d:\d\d:\d\d|[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d(?= )|\[ *\d{1,7}\.\d{6}\]"
)
_PROCESS = (
    r"\[(?P<mpi>\d{1,5}(?:,\d{1,5})?)\](?:<std(?:out|err|diag)>)?:?|\((?P<worker>(?:\w[\w.-]{0,40} )?pid=\d{1,9})[^()]{0,80}\)"
    r"|\[?(?:[Rr]ank|RANK|default)[ =_]?(?P<rank>\d{1,5})\]?\s?[:|]"
)
_PROCESS_TAG = re.compile(_PROCESS)
_LEVEL_WORD = r"CRITICAL|FATAL|ERROR|WARNING|WARN|INFO|DEBUG|TRACE"
_LEVEL = (
    rf"(?:{_LEVEL_WORD})(?::[\w.]{{0,60}}:| +\S{{1,60}}:\d{{1,6}}:?(?= )|\s*[:-](?=\s)|(?=\s))"
    rf"|(?i:\[(?:{_LEVEL_WORD})\]):?|\[[\w./-]{{1,80}}\.\w+:\d{{1,6}}\]"
)
_COLUMN = r"[\w.:/@ -]{0,60}\|(?!\w)"  # "2026-01-01 10:00:00.000 | critical |          Always | "
_MARKS = r"\s+|E(?=\s{2,}|\s*$)|>(?!=)|`{1,3}|[*+•-](?=\s)|\d{1,3}[.)](?=\s)"
_PREFIX = re.compile(rf"(?:{_TIME}|{_PROCESS}|{_LEVEL}|{_COLUMN}|{_MARKS})*")
_CONTINUED_PREFIX = re.compile(rf"(?:{_TIME}|{_PROCESS}|\s+|E(?=\s{{2,}}|\s*$))*")  # of a line that continues the one before
_QUOTED_CONTINUED_PREFIX = re.compile(rf"(?:{_TIME}|{_PROCESS}|\s+|E(?=\s{{2,}}|\s*$)|>(?!=))*")
_LOUD = re.compile(rf"\b({_LEVEL_WORD})\b", re.IGNORECASE)
_ERROR_MARKS = ("TT_", "Error", "Exception", "what()", '"ttnn', "%", "#")
_QUIET_COLUMN = re.compile(r"\| *(?:DEBUG|debug|INFO|info|WARNING|warning|TRACE|trace) *\|")
_QUIET = ("WARNING", "WARN", "INFO", "DEBUG", "TRACE")

_THROWN = re.compile(r"(?<![\w/])TT_(?:FATAL|THROW)\s?[@:](?=\s|$)")
_WHAT = re.compile(r"(?P<type>what)\(\): +")  # printed by a C++ program that ends with an exception
_EXCEPTION = re.compile(r"(?P<type>(?:[A-Za-z_]\w*\.)*[A-Z_a-z]\w{0,60}(?:Error|Exception))(?:: |:?$|\((?=['\"]))")
_RUNTIME_ERROR = re.compile(r"(?<![\w'\"`])(?:[a-z_]\w*\.)*(?P<type>RuntimeError): ")
_PLACED = re.compile(r"\S\.\w{1,4}:\d{1,7}: RuntimeError: $")
_NO_CONDITION = ("false", "tt::exception")  # printed by TTNN before "info:" where only the message has information
_HEADER = re.compile(r"TT_(?P<kind>FATAL|THROW)\s*@\s*(?P<file>\S.{0,400}?)\s*:(?P<line>\d{1,7}):\s*(?P<rest>.*)", re.DOTALL)
_PLAIN_HEADER = re.compile(r"TT_(?:FATAL|THROW)\s*:\s*")
_INFO = re.compile(r"(?:^|\s)info:(?:\s|$)")
_END = re.compile(r"\s(?:backtrace:|Traceback \(most recent call last\))")
_ASSERTED = re.compile(r"\s*\(assert\.[ch]pp:\d+\)\s*$")
_AFTER = re.compile(
    r"backtrace:|--- |_{3,}|={3,}|-{5,}|Traceback \(|File \"|\S{1,300}\.py:\d+:|[✓✗⊗✅❌]|Captured |FAILED |SKIPPED "
    r"|During handling|The above "
)


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
class Start:
    """A place in a line where the message of an exception ``error_type`` may start.

    ``bare``: nothing introduces it. ``loud``: a level or a mark of an error precedes it; a bare start that is not loud must be
    a complete message. ``short``: it follows the place of a report with one line per error. ``ends_process``: printed by a C++
    program that ends with it.
    """

    at: int
    error_type: str = "RuntimeError"
    bare: bool = False
    loud: bool = False
    short: bool = False
    ends_process: bool = False


def is_quiet_line(text: str) -> bool:
    """Returns whether a line has a quiet log level and mentions no error: a cheap test that most lines of a log pass."""
    return not any(word in text for word in _ERROR_MARKS) and _QUIET_COLUMN.search(text, 0, 200) is not None


def error_starts(text: str, prefix: Prefix, *, inside: bool = False) -> Iterator[Start]:
    """Yields the places where errors may start in ``text``, a line that may be very long, from left to right.

    ``inside``: ``text`` is not the start of its line, so only introduced errors can start in it.
    """
    body = 0 if inside else prefix.end
    if text.startswith(("SKIPPED", "XFAIL", "XPASS"), body) or " SKIPPED " in text[:400]:
        return  # the reason why a test was not run
    raised = None if inside else _EXCEPTION.match(text, body) or _WHAT.match(text, body)
    introduced = raised.end() if raised else body
    ends_process = raised is not None and raised.re is _WHAT
    if _THROWN.match(text, introduced):
        pass  # yielded below
    elif raised:
        yield Start(introduced, _type_name(raised["type"]), ends_process=ends_process)
    elif not inside and not prefix.is_quiet and OPENING.match(text, body):
        yield Start(body, bare=True, loud=prefix.level != "" or prefix.marked)
    for thrown in sorted([*_THROWN.finditer(text, body), *_RUNTIME_ERROR.finditer(text, introduced)], key=re.Match.start):
        if thrown.re is _THROWN:
            at = thrown.start()
            yield Start(at, short=_follows_place(text, at), ends_process=ends_process and at == introduced)
        elif not _THROWN.match(text, thrown.end()):
            yield Start(thrown.end())


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


def bare_start(text: str) -> Start | None:
    """Returns the start of a message that nothing introduces; None where ``text`` does not open like one."""
    return Start(0, bare=True) if OPENING.match(text) else None


def may_continue(text: str) -> bool:
    """Returns whether ``text``, without its prefix, may continue the message of the lines before."""
    return bool(text) and not _AFTER.match(text)


def continuation(text: str, *, quoted: bool) -> str:
    """Returns a line that continues the one before, without the prefix that its kind of log puts before each.

    A dash there belongs to the message, and so does ``>`` where the first line was not ``quoted``.
    """
    prefix = (_QUOTED_CONTINUED_PREFIX if quoted else _CONTINUED_PREFIX).match(text)
    if prefix is None or prefix[0] == " ":  # a terminal broke the line at a space
        return text
    return text[prefix.end() :]


@dataclass(frozen=True)
class Message:
    """A verdict and the number of lines it was read from. ``is_cut``: the message itself is missing."""

    verdict: Verdict
    lines: int
    is_cut: bool = False


def read_message(start: Start, lines: Sequence[str], widths: Sequence[int]) -> Message | None:
    """Returns the message of an error whose first line begins at ``start``; None where it is no message of TTNN after all.

    ``widths`` are those of the complete lines, with their prefixes. Where the message ends is unknown: it is read from the
    fewest lines that give the most numbers.
    """
    return _message(replace(start, at=0), tuple(lines), tuple(widths))


@lru_cache(maxsize=256)  # a log repeats itself
def _message(start: Start, lines: tuple[str, ...], widths: tuple[int, ...]) -> Message | None:
    lines = tuple(line.replace("\\n", "\n") if "\\ninfo:" in line else line for line in lines)  # printed as a string's source
    if start.bare and not any(_read(start, text) for count in {1, len(lines)} for text in joined(lines[:count], widths)):
        return None
    best: Message | None = None
    best_score = (False, False, 0)
    for count in (count for count in range(1, len(lines) + 1) if not _breaks_number(lines, widths, count)):
        for text in joined(lines[:count], widths[:count]):
            read = _read(start, text)
            if read is None:
                continue
            verdict, has_message = read
            score = (verdict.status is not Status.ERROR, has_message, _number_count(verdict))
            if best is None or score > best_score:
                is_cut = not has_message and (start.short or verdict.message in _NO_CONDITION)
                best, best_score = Message(verdict, count, is_cut), score
    return best


def _read(start: Start, text: str) -> tuple[Verdict, bool] | None:
    """Returns the verdict of one line of text, and whether it has TTNN's message and not only the condition before it."""
    parts = _header_and_message(text)
    if parts is None:
        return None
    header, message = parts
    if start.bare:
        _, wording = known_wording(start.error_type, " ".join(message[:HEAD_CHARS].split()))
        if wording is None or not (start.loud or _is_complete(wording)):
            return None
    return translate_error(start.error_type, header + message), not header or header.endswith("\n")


def _breaks_number(lines: Sequence[str], widths: Sequence[int], count: int) -> bool:
    """Returns whether a terminal may have broken a number after the first ``count`` lines."""
    if count >= len(lines) or widths[count - 1] != terminal_width(widths[:count]):
        return False
    return lines[count - 1][-1:].isdigit() and lines[count][:1].isdigit()


def _header_and_message(text: str) -> tuple[str, str] | None:
    """Returns TTNN's header as it is thrown, "" where there is none, and the message after it.

    None where ``text`` only begins like a header.
    """
    end = _END.search(text)
    text = _ASSERTED.sub("", text[: end.start()] if end else text)
    header = _HEADER.match(text)
    if header is None:
        plain = _PLAIN_HEADER.match(text)
        return None if _THROWN.match(text) and not plain else ("", text[plain.end() :] if plain else text)
    file = "".join(header["file"].split())
    thrown = f"TT_{header['kind']} @ {file}:{header['line']}: "
    info = _INFO.search(header["rest"])
    condition, message = (
        (header["rest"], "") if info is None else (header["rest"][: info.start()], header["rest"][info.end() :])
    )
    if not message.strip():
        return thrown, condition.strip()
    return f"{thrown}{condition.strip()}\ninfo:\n", message.strip()


def _is_complete(wording: re.Match[str]) -> bool:
    """Returns whether words that nothing introduces are a message, not prose: they have its numbers, or are all of it."""
    rest = wording.string[wording.end() :].strip(" .`")
    return re.search(r"(?<![A-Za-z_\d])\d", wording[0]) is not None or " " not in rest or wording[0].endswith(".")


def _number_count(verdict: Verdict) -> int:
    return sum(isinstance(getattr(verdict, field.name), int) for field in fields(verdict)) + bool(verdict.cores)


def error_key(verdict: Verdict) -> Verdict:
    """Returns a value that is equal for texts about one error: their numbers are equal, or their words if they have none."""
    words = "" if _number_count(verdict) else verdict.message.rstrip(". ")
    return replace(verdict, message=words, thrown_at="", error_type="")
