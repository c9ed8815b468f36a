"""Reads a log as a stream: what failed in it, and what was running then.

Each line belongs to a process (a rank that a prefix names). It continues the text that is pending for that process, or starts
one: an error, an operation of a compiler's runtime, or a statement of a module. Only what ended is kept, not the lines.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import BinaryIO, NamedTuple

from ssinghal.core.record import Status, Verdict
from ssinghal.device.error_patterns import HEAD_CHARS, translate_error
from ssinghal.diagnose.chips import boards_named
from ssinghal.diagnose.cpp_names import frames_in, functions_in_sentence, is_frame
from ssinghal.diagnose.deduplication import Failures
from ssinghal.diagnose.model import Failure, LogReading, Module, Operation
from ssinghal.diagnose.nearby import NEAR_LINES, Nearby
from ssinghal.diagnose.parse.crashes import KILL_SIGNAL, UNNAMED, crash_verdict, is_unnamed_crash
from ssinghal.diagnose.parse.dates import month_of
from ssinghal.diagnose.parse.error_lines import (
    MESSAGE_LINES,
    Start,
    error_starts,
    is_no_result,
    is_quiet_line,
    may_be_torn,
    may_continue,
)
from ssinghal.diagnose.parse.line_reader import Line, Lines, joined, terminal_width
from ssinghal.diagnose.parse.markup import plainly
from ssinghal.diagnose.parse.messages import Message, lacks_message, read_message
from ssinghal.diagnose.parse.mlir import (
    STATEMENT_CHARS,
    ModuleText,
    continues_statement,
    parse_operation,
    starts_statement,
    without_remark,
)
from ssinghal.diagnose.parse.mlir_module import Place, Places, completed, following, known_facts
from ssinghal.diagnose.parse.own_reports import OwnReports
from ssinghal.diagnose.parse.prefixes import Prefix, Shape, continuation, process_of
from ssinghal.diagnose.parse.suspects import LINE_CHARS, may_be_about_memory, understood
from ssinghal.diagnose.printed_call import TENSOR, PrintedCall, printed_call
from ssinghal.diagnose.running_function import NamedFunctions, UnfinishedFunctions, logged_function
from ssinghal.diagnose.seen_failures import SeenFailure
from ssinghal.diagnose.stated_versions import versions_stated
from ssinghal.diagnose.tracebacks import Traceback, summary_result

# A line that has none of these changes nothing, unless a text is pending (a bare message has no mark: "Out of").
# Each takes a second for a gigabyte, so they are few: of crashes those that come in the middle of a log.
ANCHORS = (b"TT_", b"Error", b"ttnn", b".py", b"___", b"#loc", b"bad_alloc", b"ut of", b"tatically", b"OOM", b"^",
           b"Fatal Python", b"Segmentation fault", b"core dumped", b"Killed", b"received signal",
           b"Tensor(storage")  # fmt: skip
HEADER_LINES = 8  # of TTNN's header, with blank ones, before its message
BARE_LINES = 12  # of a message that nothing introduces
TORN_LINES = 5  # at the start of the log, where the start of a message may be missing
STARTS_LIMIT = 100  # of errors on one line
FRAMES_LINES = 200  # from a message to the end of its backtrace
KILL_LINES = 40  # between lines that report that a process was killed
BEFORE_CHARS = 300  # of a line, that may name the function before the message
RESULT_LINES = 3  # from a line of pytest's summary without a message to the message
NAMING_LINES = 5_000  # in which the board of a log is looked for: it is named when a device is opened
PROCESS_LIMIT = 1_024  # more are not processes but something else in brackets

EMPTY = "the input is empty: was standard error redirected too (2>&1)?"

_ASSERTION = "Assertion "  # of C or C++, which aborts
_EXECUTING = "Executing operation:"
_CHAINED = ("During handling of the above exception", "The above exception was the direct cause")
# Raised while another error was handled, these are faults of the handler.
_OWN_FAULTS = ("TypeError", "AttributeError", "NameError", "UnboundLocalError", "KeyError", "IndexError", "ImportError")
_QUOTE = re.compile(r"(?:> ?)+")
_ELLIPSIS = ("...", "…")
_SOURCE_MARK = re.compile(r">   +$")  # put by pytest before a line of source


@dataclass
class _PendingText:
    """The lines of a text that the next line of its process may continue, and their widths as printed."""

    number: int
    lines: list[str]
    widths: list[int]
    quoted: bool = False
    shape: Shape | None = None  # of the prefix of the first line
    is_closed: bool = False  # the string that it is in ended: what follows is of another

    def accepts(self, words: str, entry: _Entry) -> bool:
        """Returns whether ``entry`` continues this text; ``words``: the line without the prefix of a continued line."""
        raise NotImplementedError

    def add(self, words: str, entry: _Entry) -> None:
        self.lines.append(words)
        self.widths.append(entry.width if self.quoted else len(entry.line.text))


@dataclass
class _PendingStatement(_PendingText):
    """A statement of a module, or one that a compiler's runtime executes (``is_executed``)."""

    is_executed: bool = False

    def accepts(self, words: str, entry: _Entry) -> bool:
        return not starts_statement(entry.line.text[entry.prefix.end :]) and continues_statement(self.lines, words.strip())


@dataclass
class _PendingError(_PendingText):
    """The message of an error. ``marked``: by pytest, as an exception. ``added``: the lines after the ``first``, with
    ``added_chars``. ``lacks_message``: only TTNN's header is there so far. ``test``: the one whose summary line it begins in.
    """

    start: Start = field(kw_only=True)
    first: _Entry = field(kw_only=True)
    marked: bool = False
    added: list[_Entry] = field(default_factory=list)
    added_chars: int = 0
    lacks_message: bool = False
    test: str = ""

    def __post_init__(self) -> None:
        self.lacks_message = lacks_message(self.lines)

    def accepts(self, words: str, entry: _Entry) -> bool:
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

    def add(self, words: str, entry: _Entry) -> None:
        super().add(words, entry)
        self.added.append(entry)
        self.added_chars += len(words)
        self.lacks_message = self.lacks_message and lacks_message(self.lines)
        self.marked = self.marked and entry.prefix.marked  # a report with one line per error marks the first only


@dataclass
class _Process:
    name: str = ""
    traceback: Traceback = field(default_factory=Traceback)
    started: int = 0  # operations
    running: _PendingStatement | None = None  # the operation executed last
    functions: UnfinishedFunctions = field(default_factory=UnfinishedFunctions)
    unplaced: int | None = None  # the failure whose call's place comes after it
    traced: int | None = None  # the failure whose backtrace may follow
    signalled: int | None = None  # the line that reports a signal whose name is still to come
    printed: PrintedCall = field(default_factory=PrintedCall)  # by TTNN, last
    killed_at: int = -KILL_LINES  # the line that reports so
    has_ended: bool = False  # with a C++ exception, which aborts
    named_test: tuple[str, int] = ("", 0)  # by a line of pytest's summary without a message, and that line
    kept_at: int = 0  # the last line of the failure kept last
    frames: NamedFunctions = field(default_factory=NamedFunctions)  # of a backtrace whose error is still to come
    frames_at: int = 0  # the last line of it
    follows: int | None = None  # the failure that was being handled when the next one was raised


class _Entry(NamedTuple):
    """A line of a process, and what stands before its words."""

    process: _Process
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


def read_log(stream: BinaryIO, name: str, module: Module | None = None) -> LogReading:
    """Returns every failure in ``stream`` with the operation that was running. ``module``: of a file that belongs to the log.

    Raises OSError where the bytes cannot be read, but nothing for their content.
    """
    lines = Lines(stream, ANCHORS)
    reader = _Reader()
    for line in lines:
        reader.read(line)
        lines.busy = reader.busy
    reader.finish()
    return _reading(reader, name, lines, module)


class _Reader:
    """Takes the lines of a log one by one, and keeps the failures and the module that they show.

    The state is one pending text per process, or none. A line that continues it is added to it; any other line ends it and is
    offered to the recognisers in turn, until one takes it.
    """

    def __init__(self) -> None:
        self.module = ModuleText()
        self.processes: dict[str, _Process] = {"": _Process()}
        self.failures = Failures()
        self.own_reports = OwnReports()
        self.skipped = 0
        self.boards: frozenset[str] = frozenset()
        self.versions: frozenset[str] = frozenset()
        self._dated = ""  # the line with a date that was read last
        self.worded = 0  # lines with words, up to one more than a message may be torn in
        self._pending: dict[str, _PendingText] = {}  # by process
        self._joined = ("", 0)  # process and number of the line that became part of a pending error last
        self._has_open_arguments = False
        self._nearby = Nearby()
        self._kept = (-1, 0)  # position of the failure kept last, and its line
        self._recognisers = (
            self._take_blank,
            self._take_statement,
            self._take_test_result,
            self._take_crash,
            self._take_backtrace,
            self._follow_traceback,
            self._take_errors,
            self._take_suspect,
        )

    @property
    def busy(self) -> bool:
        """Whether the next line is needed whatever it is."""
        return bool(self._pending) or self._has_open_arguments

    def read(self, line: Line) -> None:
        """Takes the next line of the log."""
        if line.text.startswith(("20", "[20")):
            self._dated = line.text
        if line.number <= NAMING_LINES:
            self.boards |= boards_named(line.text[:HEAD_CHARS])
            self.versions |= versions_stated(line.text[:HEAD_CHARS])
        if self.own_reports.take(line.text, line.number):
            return
        if self._take_executed(line) or self._take_printed_call(line) or self._take_logged_function(line):
            return
        if self._nearby.feed(line.number, line.text):
            self._mention(line)
        if not self._pending and is_quiet_line(line.text):
            return
        prefix = Prefix() if line.inside else Prefix.of(line.text)
        entry = _Entry(self._process(prefix.process), line, prefix)
        self._take(entry)
        if line.cut:  # what follows was in the look ahead
            self._end(entry.process)

    def _take(self, entry: _Entry) -> None:
        """Continues the pending text with a line, or ends that and starts what the line starts."""
        if not self._continue(entry):
            self._end(entry.process)
            recognisers = (self._take_errors,) if entry.line.inside else self._recognisers
            any(recognise(entry) for recognise in recognisers)

    def finish(self) -> None:
        """Ends all pending texts, at the end of the log."""
        for process in self.processes.values():
            self._end(process)
            self._keep_unnamed_signal(process)
            call, traced = process.traceback.call, process.traced
            if traced is not None and process.traceback.active and call is not None and call.where:
                self.failures.complete_call(traced, call, process.traceback.functions)

    def _mention(self, line: Line) -> None:
        """Adds what a line after a failure mentions to that failure."""
        at, number = self._kept
        if at >= 0 and number < line.number <= number + NEAR_LINES:
            self.failures.mention(at, self._nearby.last)

    def _process(self, name: str) -> _Process:
        if name not in self.processes:
            if len(self.processes) >= PROCESS_LIMIT:
                return self.processes[""]
            self.processes[name] = _Process(name)
        return self.processes[name]

    def _continue(self, entry: _Entry) -> bool:
        """Adds the line to the pending text of its process if it continues that; returns whether it does."""
        name, number = entry.process.name, entry.line.number
        if not name and name not in self._pending and number == self._joined[1] + 1:  # only first lines have a prefix
            name = self._joined[0]
        pending = self._pending.get(name)
        if pending is None or entry.line.inside:
            return False
        text = entry.line.text[: 2 * HEAD_CHARS]
        is_alike = pending.shape is not None and pending.shape.words(text) is not None
        if (entry.prefix.level or pending.is_closed) and not is_alike:
            return False
        words = continuation(text, quoted=pending.quoted, shape=pending.shape)
        if not pending.accepts(words, entry):
            return False
        pending.add(words, entry)
        self._joined = (name, number)
        return True

    # ---- recognisers: each returns whether it took the line ----

    def _take_executed(self, line: Line) -> bool:
        """Takes a line in which a compiler's runtime executes an operation."""
        at = line.text.find(_EXECUTING, 0, HEAD_CHARS)
        if at < 0:
            return False
        process = self._process(process_of(line.text[:at]))
        self._end(process)
        process.started += 1
        words = line.text[at + len(_EXECUTING) : at + STATEMENT_CHARS]
        quoted = line.text.startswith(">")
        process.running = _PendingStatement(line.number, [words], [len(line.text)], quoted, is_executed=True)
        if not line.cut:
            self._pending[process.name] = process.running
        return True

    def _take_logged_function(self, line: Line) -> bool:
        """Takes a line in which TTNN's log reports that a function starts or has finished."""
        function = logged_function(line.text)
        if function is None:
            return False
        process = self._process(process_of(line.text[: function.at]))
        self._end(process)
        process.functions.feed(function)
        return True

    def _take_printed_call(self, line: Line) -> bool:
        """Takes a line in which TTNN prints a call with its tensors."""
        if TENSOR not in line.text or line.cut or (call := printed_call(line.text)) is None:
            return False
        self._process(process_of(line.text[:HEAD_CHARS])).printed = call
        return True

    def _take_blank(self, entry: _Entry) -> bool:
        return not entry.body

    def _take_statement(self, entry: _Entry) -> bool:
        """Takes a line that starts a statement of a module."""
        line = entry.line
        if not starts_statement(entry.body):
            return False
        words = line.text[entry.prefix.end : entry.prefix.end + STATEMENT_CHARS]
        self._pending[entry.process.name] = _PendingStatement(line.number, [words], [len(line.text)], entry.quoted)
        return True

    def _take_test_result(self, entry: _Entry) -> bool:
        """Takes a line of pytest's short summary."""
        result = summary_result(entry.body)
        if result is None:
            return False
        entry.process.traceback.close()
        node, text = result
        start = next(error_starts(text, Prefix.of(text)), None)
        if start is None and (message := _in_other_words(text, raised=True)) is not None:
            self._keep_result(entry.process, entry.line.number, node, message)
            return True
        if start is None:
            is_known = self.failures.name(node, None, _none) is not None
            if text and not is_known:
                kind, _, words = text.partition(": ") if text.partition(": ")[0].isidentifier() else ("", "", text)
                unknown = Verdict(Status.ERROR, error_type=kind, message=words)
                self._keep_result(entry.process, entry.line.number, node, Message(unknown, 1, text.endswith("...")))
            elif not is_known:
                entry.process.named_test = (node, entry.line.number)
            return True
        words = text[start.at :]
        start = replace(start, short=True)
        error = _PendingError(entry.line.number, [words], [entry.width], entry.quoted, start=start, first=entry, test=node)
        if text.endswith("..."):
            self._keep_error(entry.process, error)
        else:
            self._pending[entry.process.name] = error
        return True

    def _take_crash(self, entry: _Entry) -> bool:
        """Takes a line that reports that a signal ended the process."""
        process, line, prefix = entry
        if is_unnamed_crash(entry.body):
            self._keep_unnamed_signal(process)
            process.signalled = line.number
            return True
        verdict = None if prefix.is_quiet else crash_verdict(entry.body, unprefixed=not prefix.end)
        if verdict is None:
            return False
        number, process.signalled = process.signalled or line.number, None
        if verdict.error_type == KILL_SIGNAL:  # a container's state, its reason and its exit code are on lines of their own
            known, process.killed_at = process.killed_at, number
            if 0 < number - known <= KILL_LINES:
                return True
        if not (process.has_ended and verdict.error_type == "SIGABRT"):
            self._keep(process, number, Message(verdict, 1))
        return True

    def _take_backtrace(self, entry: _Entry) -> bool:
        """Takes a line of a C++ backtrace."""
        process, line, _ = entry
        if not is_frame(entry.body):
            return False
        if process.traced is not None and line.number - process.kept_at <= FRAMES_LINES:
            self.failures.add_frame(process.traced, entry.body)
        else:
            before = process.frames if line.number - process.frames_at <= 1 else NamedFunctions()
            process.frames, process.frames_at = before.with_frame(entry.body), line.number
        return True

    def _follow_traceback(self, entry: _Entry) -> bool:
        """Shows the line to the traceback of its process, but leaves it to the next recogniser: an error may start in it."""
        process, line, prefix = entry
        if entry.body.startswith(_CHAINED) and line.number - process.kept_at <= 2 * MESSAGE_LINES:
            process.follows = process.traced
        marked = _SOURCE_MARK.search(line.text, 0, prefix.end) is not None
        process.traceback.feed(entry.body, prefix.end, marked=marked)
        self._has_open_arguments = process.traceback.arguments.is_open
        call = process.traceback.call
        if process.unplaced is not None and call is not None and call.where:  # a place that follows its failure
            self.failures.place(process.unplaced, call)
            process.unplaced = None
        return False

    def _take_errors(self, entry: _Entry) -> bool:
        """Takes a line in which errors start; the last of them stays pending."""
        process, line, prefix = entry
        text, starts = self._starts(entry)
        self.skipped += len(starts[STARTS_LIMIT:])
        if starts and month_of(line.text):
            self._dated = line.text
        ends = [*(start.at for start in starts[1:]), len(text)]
        for start, end in zip(starts[:STARTS_LIMIT], ends, strict=False):
            self._end(process)
            words, shape = text[start.at : min(end, start.at + 2 * HEAD_CHARS)], Shape.of(text[: start.at])
            is_closed = shape is not None and text is line.text and shape.ends(words)
            if shape is not None and is_closed:
                words = shape.unquoted(words)
            self._pending[process.name] = _PendingError(
                line.number,
                [words],
                [entry.width],
                entry.quoted,
                shape,
                is_closed,
                start=start,
                first=entry,
                marked=prefix.marked,
            )
            self._joined = (process.name, line.number)
        return bool(starts)

    def _take_suspect(self, entry: _Entry) -> bool:
        """Takes a line about a memory failure in words of its own, or the refusal of shards by a compiler."""
        process, line, prefix = entry
        if prefix.is_quiet or is_no_result(entry.body):
            return False
        words = line.text[prefix.end : line.own][:HEAD_CHARS] if line.cut else entry.body
        message = _in_other_words(plainly(words), raised=prefix.marked or prefix.level != "")
        if message is None:
            return False
        self._keep(process, line.number, message)
        process.has_ended = process.has_ended or _ASSERTION in entry.body
        return True

    def _starts(self, entry: _Entry) -> tuple[str, list[Start]]:
        """Returns where errors start in a line, and the line: without its mark-up and escapes if they start only there."""
        process, line, prefix = entry
        others = process.traceback.active or prefix.marked
        text = line.text
        starts = list(error_starts(text, prefix, inside=line.inside, others=others))
        if not starts and (plain := plainly(text)) != text:
            text, starts = plain, list(error_starts(plain, prefix, inside=line.inside, others=others))
        own = len(plainly(line.text[: line.own])) if text is not line.text else line.own
        starts = [start for start in starts if start.at < own or not line.cut]
        if not starts and self._may_be_torn(entry):
            starts = [Start(prefix.end, bare=True, torn=True)]
        return text, starts

    def _may_be_torn(self, entry: _Entry) -> bool:
        """Returns whether a line may continue a message whose start is not in the log."""
        body = entry.body
        self.worded += self.worded <= TORN_LINES
        is_first = self.worded <= TORN_LINES or body.startswith(_ELLIPSIS)
        return is_first and not (entry.line.inside or entry.line.cut) and may_be_torn(body)

    # ---- what ended ----

    def _end(self, process: _Process) -> None:
        """Ends the pending text of the process: an error is read, a statement joins the module."""
        while (pending := self._pending.pop(process.name, None)) is not None:
            if isinstance(pending, _PendingError):
                self._keep_error(process, pending)
            elif isinstance(pending, _PendingStatement) and not pending.is_executed:
                self.module.add(pending.lines, pending.widths, pending.number)

    def _keep_error(self, process: _Process, error: _PendingError) -> None:
        """Keeps the error, and takes the lines that its message did not need once more: they may have others."""
        message = read_message(error.start, error.lines, error.columns)
        if message is not None and not message.verdict.message and error.is_cut_short:
            message = None  # the name of an exception, whose message has a start of its own
        if error.test:
            message = message or Message(translate_error(error.start.error_type, error.lines[0]), 1)
            is_cut = message.is_cut or error.lines[message.lines - 1].endswith("...")
            self._keep_result(process, error.number, error.test, replace(message, is_cut=is_cut))
        elif message is None and error.start.bare:
            self._take_suspect(error.first)
        elif (message := message or _in_other_words(error.lines[0], raised=error.start.loud)) is not None:
            self._keep(process, error.number, message)
            if process.traced is not None:
                before = error.first.line.text[max(0, error.start.at - BEFORE_CHARS) : error.start.at]
                self.failures.name_functions(process.traced, NamedFunctions(message=functions_in_sentence(before)))
                for frame in frames_in("\n".join(error.lines)):
                    self.failures.add_frame(process.traced, frame)
            process.has_ended = process.has_ended or error.start.ends_process
        for entry in error.added[message.lines - 1 if message else 0 :]:
            self._take(entry)

    def _keep_result(self, process: _Process, number: int, test: str, message: Message) -> None:
        """Keeps the message of a line of pytest's summary."""
        verdict, is_suspect = _judged(message)
        is_cut = verdict.status is Status.ERROR and message.is_cut and not is_suspect
        seen = SeenFailure(verdict, process.name, test, is_cut=is_cut, is_suspect=is_suspect, line=number)
        failure = Failure(verdict, number, process=process.name, test=test, is_cut=is_cut, is_suspect=is_suspect)
        self.failures.name(test, seen, lambda: failure)

    def _keep_unnamed_signal(self, process: _Process) -> None:
        """Keeps the crash whose signal was never named."""
        if process.signalled is not None:
            self._keep(process, process.signalled, Message(UNNAMED, 1))
            process.signalled = None

    def _keep(self, process: _Process, number: int, message: Message) -> None:
        traceback, is_cut = process.traceback, message.is_cut
        verdict, is_suspect = _judged(message)
        call, tensors = traceback.call, traceback.tensors
        test = traceback.test or (process.named_test[0] if number - process.named_test[1] <= RESULT_LINES else "")
        printed, keywords = process.printed, traceback.arguments.keywords
        logged = process.functions.names or printed.functions
        dated = month_of(self._dated)
        has_frames = number - process.frames_at <= MESSAGE_LINES and process.frames_at > process.kept_at
        frames = process.frames.frames if has_frames else ()
        named = NamedFunctions(source=traceback.functions, own=traceback.own, log=logged, frames=frames)

        def new_failure() -> Failure:
            operation = _operation(process.running, self.module.aliases) if process.running else None
            started = process.started
            return Failure(
                verdict,
                number,
                1,
                process.name,
                operation,
                started,
                call,
                test,
                tensors=tensors,
                printed=printed.tensors,
                arguments={**printed.arguments, **keywords},
                is_cut=is_cut,
                dated=dated,
                is_suspect=is_suspect,
            )

        follows = None if verdict.error_type in _OWN_FAULTS else process.follows
        near = self._nearby.before(number)
        seen = SeenFailure(verdict, process.name, test, call, named, is_cut, is_suspect, number, follows, near)
        at = self.failures.add(seen, new_failure)
        process.unplaced = at if call is not None and not call.where else None
        process.traced, process.kept_at, process.follows = at, number + message.lines, None
        self._kept = (at if at is not None else -1, number + message.lines - 1)
        process.functions.fail()
        process.printed = PrintedCall()
        traceback.end()


def _none() -> Failure:
    raise AssertionError("a line without a message makes no failure")


def _judged(message: Message) -> tuple[Verdict, bool]:
    """Returns the verdict of a message as far as its words are understood, and whether it is a suspect."""
    return (message.verdict, False) if message.is_cut else understood(message.verdict)


def _in_other_words(text: str, *, raised: bool) -> Message | None:
    """Returns a line as a message if it looks like a memory failure or a refusal, in words that no table has."""
    if not may_be_about_memory(text):
        return None
    verdict = Verdict(Status.ERROR, message=" ".join(text[:LINE_CHARS].split()))
    judged, is_suspect = understood(verdict, raised=raised)
    return Message(verdict, 1) if is_suspect or judged is not verdict else None


def _operation(statement: _PendingStatement, aliases: Mapping[str, str]) -> Operation | None:
    """Returns the reading that has the most about its values, as the lines may be broken in the middle of a word."""
    lines = [without_remark(line) for line in statement.lines]
    texts = [text[:STATEMENT_CHARS].strip() for text in joined(lines, statement.widths)]
    operations = [op for text in texts if (op := parse_operation(text, aliases, statement.number)) is not None]
    return max(operations, key=lambda op: known_facts((*op.operands, *op.results)), default=None)


# The complete log ---------------------------------------------------------------------------------------------------------


def _reading(reader: _Reader, name: str, lines: Lines, module_file: Module | None) -> LogReading:
    module = (module_file.operations if module_file else ()) or reader.module.operations()
    failures = [
        replace(failure, boards=reader.boards | boards_named(failure.test), versions=reader.versions)
        for failure in reader.failures.all
    ]
    failures += reader.own_reports.without_message(failures)
    failures = [reader.own_reports.placed(failure) for failure in failures]
    places = list(map(Places(module).of, (failure.operation for failure in failures)))
    for i, (failure, place) in enumerate(zip(failures, places, strict=True)):
        if failure.operation is not None and place.at is not None:
            failures[i] = replace(failure, operation=completed(failure.operation, module[place.at]))
    first = next((i for i, failure in enumerate(failures) if failure.verdict.resource), 0)
    at = places[first].at if failures else None
    never_ran = following(at, module) if at is not None else ()
    never_ran = never_ran[_ran_after(reader, failures[first].line, never_ran) :] if failures else ()
    counts = {
        "more different failures were not kept": reader.failures.left_out,
        "messages are cut off, in a test summary: their numbers are not in the text": reader.failures.cut,
        "more errors on a line with many were not read": reader.skipped,
        "more operations of the module were not kept": reader.module.left_out,
    }
    has_operations = any(process.started for process in reader.processes.values())
    remarks = [
        *lines.remarks,
        *([] if lines.count else [EMPTY]),
        *dict.fromkeys(_module_remarks(module_file, failures, places, has_operations)),
        *(f"{count:,} {what}" for what, count in counts.items() if count),
    ]
    return LogReading(name, lines.count, tuple(failures), module, never_ran, tuple(remarks), reader.own_reports.calls)


def _module_remarks(
    module_file: Module | None, failures: Sequence[Failure], places: Sequence[Place], has_operations: bool
) -> Iterator[str]:
    """Yields what is odd about the module of the log. ``has_operations``: the log shows operations that were executed."""
    if module_file is not None:
        yield from module_file.remarks
        if not has_operations:
            yield "a module was given, but no line of the log shows which of its operations was running"
    for failure, place in zip(failures, places, strict=True):
        operation = failure.operation
        if operation is None:
            continue
        results = ", ".join(value.name for value in operation.results)
        if place.differs:
            yield f"the module has other operands or types for {results} {operation.name} than the log: the log's are used"
        elif place.at is None and module_file is not None and module_file.is_ttnn:
            yield f"the module has no {results} {operation.name}, which was running according to the log"


def _ran_after(reader: _Reader, line: int, operations: Sequence[Operation]) -> int:
    """Returns how many of ``operations`` started after ``line``: up to the last one of any process."""
    statements = [p.running for p in reader.processes.values() if p.running is not None and p.running.number > line]
    places = Places(operations)
    positions = [places.of(_operation(statement, reader.module.aliases)).at for statement in statements]
    return max((at + 1 for at in positions if at is not None), default=0)
