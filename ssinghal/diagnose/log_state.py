"""What is pending while a log is read: the texts that the next line may continue, by process."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from ssinghal.device.error_patterns import HEAD_CHARS
from ssinghal.diagnose.cpp_names import is_frame
from ssinghal.diagnose.model import Operation
from ssinghal.diagnose.parse.crashes import crash_verdict, is_unnamed_crash
from ssinghal.diagnose.parse.error_lines import (
    MESSAGE_LINES,
    Start,
    error_starts,
    may_continue,
)
from ssinghal.diagnose.parse.line_reader import Line, joined, terminal_width
from ssinghal.diagnose.parse.messages import lacks_message
from ssinghal.diagnose.parse.mlir import (
    STATEMENT_CHARS,
    continues_statement,
    parse_operation,
    starts_statement,
    without_remark,
)
from ssinghal.diagnose.parse.mlir_module import known_facts
from ssinghal.diagnose.parse.prefixes import Prefix, Shape
from ssinghal.diagnose.printed_call import PrintedCall
from ssinghal.diagnose.running_function import NamedFunctions, UnfinishedFunctions
from ssinghal.diagnose.tracebacks import Traceback

HEADER_LINES = 8  # of TTNN's header, with blank ones, before its message
BARE_LINES = 12  # of a message that nothing introduces
ADJACENT_LINES = 2  # from an operation to the message about it: one line may be blank
KILL_LINES = 40  # between lines that report that a process was killed

_QUOTE = re.compile(r"(?:> ?)+")


@dataclass
class PendingText:
    """The lines of a text that the next line of its process may continue, and their widths as printed."""

    number: int
    lines: list[str]
    widths: list[int]
    quoted: bool = False
    shape: Shape | None = None  # of the prefix of the first line
    is_closed: bool = False  # the string that it is in ended: what follows is of another

    def accepts(self, words: str, entry: Entry) -> bool:
        """Returns whether ``entry`` continues this text; ``words``: the line without the prefix of a continued line."""
        raise NotImplementedError

    def add(self, words: str, entry: Entry) -> None:
        self.lines.append(words)
        self.widths.append(entry.width if self.quoted else len(entry.line.text))


@dataclass
class PendingStatement(PendingText):
    """A statement of a module, or one that a compiler's runtime executes (``is_executed``)."""

    is_executed: bool = False

    @property
    def end(self) -> int:
        """The number of the last line."""
        return self.number + len(self.lines) - 1

    def accepts(self, words: str, entry: Entry) -> bool:
        return not starts_statement(entry.line.text[entry.prefix.end :]) and continues_statement(self.lines, words.strip())


@dataclass
class PendingError(PendingText):
    """The message of an error. ``marked``: by pytest, as an exception. ``added``: the lines after the ``first``, with
    ``added_chars``. ``lacks_message``: only TTNN's header is there so far. ``test``: the one whose summary line it begins in.
    """

    start: Start = field(kw_only=True)
    first: Entry = field(kw_only=True)
    marked: bool = False
    added: list[Entry] = field(default_factory=list)
    added_chars: int = 0
    lacks_message: bool = False
    test: str = ""

    def __post_init__(self) -> None:
        self.lacks_message = lacks_message(self.lines)

    def accepts(self, words: str, entry: Entry) -> bool:
        line, prefix = entry.line, entry.prefix
        if self.lacks_message and not words.strip() and len(self.lines) <= HEADER_LINES:
            return True
        return not (
            self.added_chars > HEAD_CHARS
            or len(self.lines) >= (BARE_LINES if self.start.bare else MESSAGE_LINES)
            or not may_continue(words.strip())
            or (self.marked and not (prefix.marked or self.is_full) and line.text[:1].isspace() and words.strip() != "info:")
            or (not self.lacks_message and is_frame(entry.body))
            or is_unnamed_crash(entry.body)
            or crash_verdict(entry.body, unprefixed=not prefix.end) is not None
            or any(self._starts_another(start) for start in error_starts(line.text[: line.own], prefix))
        )

    @property
    def columns(self) -> list[int]:
        """The widths of the lines as a terminal broke them: before they got the prefix, if the second has it too."""
        shape = self.shape
        if shape is None or not self.added or not shape.length(self.added[0].line.text):
            return self.widths
        texts = (entry.line.text for entry in (self.first, *self.added))
        return [len(text) - shape.length(text) for text in texts]

    @property
    def is_cut_short(self) -> bool:
        """Whether the exception's name ends its line: TTNN's header may follow."""
        return not self.start.bare and self.start.error_type.endswith("RuntimeError") and not "".join(self.lines).strip()

    @property
    def is_full(self) -> bool:
        """Whether the last line is as wide as a terminal, which may have broken it."""
        return self.widths[-1] == terminal_width(self.widths)

    def _starts_another(self, start: Start) -> bool:
        return not start.bare or start.in_string or (start.complete and not self.lacks_message)

    def add(self, words: str, entry: Entry) -> None:
        super().add(words, entry)
        self.added.append(entry)
        self.added_chars += len(words)
        self.lacks_message = self.lacks_message and lacks_message(self.lines)
        self.marked = self.marked and entry.prefix.marked  # a report with one line per error marks the first only


@dataclass
class Process:
    name: str = ""
    traceback: Traceback = field(default_factory=Traceback)
    started: int = 0  # operations
    running: PendingStatement | None = None  # the operation executed last
    listed: PendingStatement | None = None  # the operation of a module that was listed last
    is_list: bool = False  # whether another one precedes it
    functions: UnfinishedFunctions = field(default_factory=UnfinishedFunctions)
    unplaced: int | None = None  # the failure whose call's place comes after it
    traced: int | None = None  # the failure whose backtrace may follow
    signalled: int | None = None  # the line that reports a signal whose name is still to come
    printed: PrintedCall = field(default_factory=PrintedCall)  # by TTNN, last
    crashed: int | None = None  # the crash whose frames of Python may follow
    killed_at: int = -KILL_LINES  # the line that reports so
    has_ended: bool = False  # with a C++ exception, which aborts
    named_test: tuple[str, int] = ("", 0)  # by a line of pytest's summary without a message, and that line
    kept_at: int = 0  # the last line of the failure kept last
    frames: NamedFunctions = field(default_factory=NamedFunctions)  # of a backtrace whose error is still to come
    frames_at: int = 0  # the last line of it
    follows: int | None = None  # the failure that was being handled when the next one was raised

    def listed_before(self, number: int) -> PendingStatement | None:
        """Returns the operation that is listed alone directly before a line: it is what the line is about."""
        one = self.listed
        return one if one is not None and not self.is_list and 0 < number - one.end <= ADJACENT_LINES else None

    def list_operation(self, statement: PendingStatement) -> None:
        """Takes an operation of a module, which is one of a list where it follows another."""
        self.is_list = self.listed is not None and statement.number - self.listed.end <= ADJACENT_LINES
        self.listed = statement


class Entry(NamedTuple):
    """A line of a process, and what stands before its words."""

    process: Process
    line: Line
    prefix: Prefix

    @property
    def body(self) -> str:
        """The start of the line's words."""
        return self.line.text[self.prefix.end : self.prefix.end + HEAD_CHARS]

    @property
    def width(self) -> int:
        """The number of columns of the line, without the marks of a mail that quotes it."""
        return len(_QUOTE.sub("", self.line.text, count=1)) if self.quoted else len(self.line.text)

    @property
    def quoted(self) -> bool:
        return self.line.text.lstrip().startswith(">")


def operation_of(statement: PendingStatement, aliases: Mapping[str, str]) -> Operation | None:
    """Returns the reading that has the most about its values, as the lines may be broken in the middle of a word."""
    lines = [without_remark(line) for line in statement.lines]
    texts = [text[:STATEMENT_CHARS].strip() for text in joined(lines, statement.widths)]
    operations = [op for text in texts if (op := parse_operation(text, aliases, statement.number)) is not None]
    return max(operations, key=lambda op: known_facts((*op.operands, *op.results)), default=None)
