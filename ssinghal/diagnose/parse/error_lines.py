"""Where in a line of a log an error of TTNN may start, and what the lines from there on say.

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
from ssinghal.diagnose.parse.line_reader import joined, terminal

MESSAGE_LINES = 40  # of one error that are read
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
_AGAIN = re.compile(rf"(?:{_TIME}|{_PROCESS}|\s+|E(?=\s{{2,}}|\s*$))*")  # of a line that goes on with the one before
_QUOTED_AGAIN = re.compile(rf"(?:{_TIME}|{_PROCESS}|\s+|E(?=\s{{2,}}|\s*$)|>(?!=))*")
_LOUD = re.compile(rf"\b({_LEVEL_WORD})\b", re.IGNORECASE)
_TELLING = ("TT_", "Error", "Exception", "what()", '"ttnn', "%", "#")
_QUIET_COLUMN = re.compile(r"\| *(?:DEBUG|debug|INFO|info|WARNING|warning|TRACE|trace) *\|")
_QUIET = ("WARNING", "WARN", "INFO", "DEBUG", "TRACE")

_THROWN = re.compile(r"(?<![\w/])TT_(?:FATAL|THROW)\s?[@:](?=\s|$)")
_WHAT = re.compile(r"(?P<type>what)\(\): +")  # of a C++ program that ended with an exception
_EXCEPTION = re.compile(r"(?P<type>(?:[A-Za-z_]\w*\.)*[A-Z_a-z]\w{0,60}(?:Error|Exception))(?:: |:?$|\((?=['\"]))")
_RUNTIME_ERROR = re.compile(r"(?<![\w'\"`])(?:[a-z_]\w*\.)*(?P<type>RuntimeError): ")
_PLACED = re.compile(r"\S\.\w{1,4}:\d{1,7}: RuntimeError: $")
_NO_CONDITION = ("false", "tt::exception")  # what TTNN prints before "info:" where only the message says anything
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
    """What stands before the words of a line. ``level``: upper case, "" where there is none. ``end``: where the words begin."""

    end: int = 0
    process: str = ""
    level: str = ""
    marked: bool = False

    @property
    def is_quiet(self) -> bool:
        return self.level in _QUIET

    @classmethod
    def of(cls, text: str) -> Prefix:
        """``marked``: pytest put the "E" of an exception's lines there."""
        found = _PREFIX.match(text)
        if found is None or not found.end():
            return _NONE
        before = found[0]
        level = _LOUD.search(before) if len(before) > 4 else None
        return cls(found.end(), _tag(found), level[1].upper() if level else "", "E" in before.split())


_NONE = Prefix()


def process_of(text: str) -> str:
    """The process that ``text``, what is before the words of a line, names."""
    if not ("[" in text or "(" in text or "ank" in text or "RANK" in text or "default" in text):  # cheap to tell
        return ""
    found = _PROCESS_TAG.search(text)
    return _tag(found) if found else ""


def _tag(found: re.Match[str]) -> str:
    return found["mpi"] or found["worker"] or found["rank"] or ""


@dataclass(frozen=True)
class Start:
    """A message of an exception ``error_type`` may start at ``at``. ``bare``: nothing says so but the words themselves, and
    where they are not ``loud`` either, after the mark of an error, they must be all of a message. ``short``: it follows the
    place of a report that gives each error one line. ``ends``: of a C++ program that ends with it."""

    at: int
    error_type: str = "RuntimeError"
    bare: bool = False
    loud: bool = False
    short: bool = False
    ends: bool = False


def is_talk(text: str) -> bool:
    """Whether a line is of a log's quiet levels and mentions no error: cheap to tell, and most lines of a log are."""
    return not any(word in text for word in _TELLING) and _QUIET_COLUMN.search(text, 0, 200) is not None


def starts(text: str, prefix: Prefix, *, inside: bool = False) -> Iterator[Start]:
    """Where errors may start in ``text``, a line that may be very long, from left to right.

    ``inside``: it is no line from its beginning on, so that nothing can start but what is introduced.
    """
    body = 0 if inside else prefix.end
    if text.startswith(("SKIPPED", "XFAIL", "XPASS"), body) or " SKIPPED " in text[:400]:
        return  # a reason that somebody gave for not running a test
    raised = None if inside else _EXCEPTION.match(text, body) or _WHAT.match(text, body)
    introduced = raised.end() if raised else body
    ends = raised is not None and raised.re is _WHAT
    if _THROWN.match(text, introduced):
        pass  # one of those below
    elif raised:
        yield Start(introduced, _type(raised["type"]), ends=ends)
    elif not inside and not prefix.is_quiet and OPENING.match(text, body):
        yield Start(body, bare=True, loud=prefix.level != "" or prefix.marked)
    for thrown in sorted([*_THROWN.finditer(text, body), *_RUNTIME_ERROR.finditer(text, introduced)], key=re.Match.start):
        if thrown.re is _THROWN:
            yield Start(thrown.start(), short=_is_placed(text, thrown.start()), ends=ends and thrown.start() == introduced)
        elif not _THROWN.match(text, thrown.end()):
            yield Start(thrown.end())


def _type(name: str) -> str:
    """As Python names the class. Numpy's own MemoryError is one; a C++ exception becomes a RuntimeError; a framework's error of
    its memory keeps the framework's name."""
    if name.endswith(FRAMEWORK_MEMORY):
        return name
    name = name.rpartition(".")[2]
    return {"_ArrayMemoryError": "MemoryError", "what": "RuntimeError"}.get(name, name)


def _is_placed(text: str, at: int) -> bool:
    return _PLACED.search(text[max(0, at - 500) : at]) is not None


def bare_start(text: str) -> Start | None:
    """The message that a line may begin of which nothing but its words says that it is one."""
    return Start(0, bare=True) if OPENING.match(text) else None


def goes_on(text: str) -> bool:
    """Whether ``text``, without what is before its words, may continue the message of the lines before."""
    return bool(text) and not _AFTER.match(text)


def continuation(text: str, *, quoted: bool) -> str:
    """A line that goes on with the one before, without what its kind of log puts before each. A dash there is of the message,
    and so is ``>`` where the first line was not ``quoted``."""
    found = (_QUOTED_AGAIN if quoted else _AGAIN).match(text)
    if found is None or found[0] == " ":  # a terminal that broke the line at a space
        return text
    return text[found.end() :]


@dataclass(frozen=True)
class Message:
    """A verdict, and how many of the lines it took to read it. ``is_cut``: the message itself is not there."""

    verdict: Verdict
    lines: int
    is_cut: bool = False


def read_message(start: Start, lines: Sequence[str], widths: Sequence[int]) -> Message | None:
    """What the lines of an error say, the first from its start on; ``widths`` are of whole lines, with what was before.

    Where they end is not known: it is read from the fewest lines that give the most figures. None where the words are no
    message of TTNN after all.
    """
    return _message(replace(start, at=0), tuple(lines), tuple(widths))


@lru_cache(maxsize=256)  # a log repeats itself
def _message(start: Start, lines: tuple[str, ...], widths: tuple[int, ...]) -> Message | None:
    lines = tuple(line.replace("\\n", "\n") if "\\ninfo:" in line else line for line in lines)  # printed as a string's source
    if start.bare and not any(_read(start, text) for count in {1, len(lines)} for text in joined(lines[:count], widths)):
        return None
    best: Message | None = None
    score = (False, False, 0)
    for count in (count for count in range(1, len(lines) + 1) if not _is_cut(lines, widths, count)):
        for text in joined(lines[:count], widths[:count]):
            read = _read(start, text)
            if read is None:
                continue
            verdict, is_told = read
            reached = (verdict.status is not Status.ERROR, is_told, _figures(verdict))
            if best is None or reached > score:
                is_cut = not is_told and (start.short or verdict.message in _NO_CONDITION)
                best, score = Message(verdict, count, is_cut), reached
    return best


def _read(start: Start, text: str) -> tuple[Verdict, bool] | None:
    """The verdict of one line of text, and whether TTNN's message is in it and not only the condition before it."""
    parted = _parted(text)
    if parted is None:
        return None
    header, message = parted
    if start.bare:
        _, found = known_wording(start.error_type, " ".join(message[:HEAD_CHARS].split()))
        if found is None or not (start.loud or _is_whole(found)):
            return None
    return translate_error(start.error_type, header + message), not header or header.endswith("\n")


def _is_cut(lines: Sequence[str], widths: Sequence[int], count: int) -> bool:
    """Whether a terminal may have broken a number after the first ``count`` lines."""
    if count >= len(lines) or widths[count - 1] != terminal(widths[:count]):
        return False
    return lines[count - 1][-1:].isdigit() and lines[count][:1].isdigit()


def _parted(text: str) -> tuple[str, str] | None:
    """TTNN's header in the form that it is thrown in, "" where there is none, and the message after it.

    None for what only begins like a header.
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


def _is_whole(found: re.Match[str]) -> bool:
    """Whether words that nothing introduces are a message, and not prose: they have its figures, or are all of it."""
    rest = found.string[found.end() :].strip(" .`")
    return re.search(r"(?<![A-Za-z_\d])\d", found[0]) is not None or " " not in rest or found[0].endswith(".")


def _figures(verdict: Verdict) -> int:
    return sum(isinstance(getattr(verdict, field.name), int) for field in fields(verdict)) + bool(verdict.cores)


def error_key(verdict: Verdict) -> Verdict:
    """Equal for texts that tell of one error: all figures are equal, and where there are none the words."""
    words = "" if _figures(verdict) else verdict.message.rstrip(". ")
    return replace(verdict, message=words, thrown_at="", error_type="")
