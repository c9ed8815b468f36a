"""Takes the lines of a log one by one: what each starts, continues or ends."""

from __future__ import annotations

import re
from dataclasses import replace

from ssinghal.core.verdict import Status, Verdict
from ssinghal.device.error_patterns import HEAD_CHARS, translate_error
from ssinghal.diagnose.chips import boards_named
from ssinghal.diagnose.cpp_names import frames_in, functions_in_sentence, is_frame
from ssinghal.diagnose.deduplication import Failures
from ssinghal.diagnose.log_state import KILL_LINES, Entry, PendingError, PendingStatement, PendingText, Process, operation_of
from ssinghal.diagnose.model import Failure
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
)
from ssinghal.diagnose.parse.line_reader import Line
from ssinghal.diagnose.parse.markup import plainly, without_unshown
from ssinghal.diagnose.parse.messages import Message, read_message
from ssinghal.diagnose.parse.mlir import STATEMENT_CHARS, ModuleText, starts_statement
from ssinghal.diagnose.parse.own_reports import OwnReports
from ssinghal.diagnose.parse.prefixes import Prefix, Shape, continuation, process_of
from ssinghal.diagnose.parse.suspects import LINE_CHARS, may_be_about_memory, understood
from ssinghal.diagnose.printed_call import TENSOR, PrintedCall, printed_call
from ssinghal.diagnose.running_function import NamedFunctions, logged_function
from ssinghal.diagnose.seen_failures import SeenFailure
from ssinghal.diagnose.stated_versions import names_compiler, versions_stated
from ssinghal.diagnose.statements import Statements
from ssinghal.diagnose.tracebacks import summary_result

TORN_LINES = 5  # at the start of the log, where the start of a message may be missing
STARTS_LIMIT = 100  # of errors on one line
FRAMES_LINES = 200  # from a message to the end of its backtrace
BEFORE_CHARS = 300  # of a line, that may name the function before the message
RESULT_LINES = 3  # from a line of pytest's summary without a message to the message
NAMING_LINES = 5_000  # in which the board of a log is looked for: it is named when a device is opened
PROCESS_LIMIT = 1_024  # more are not processes but something else in brackets

_ASSERTION = "Assertion "  # of C or C++, which aborts
_EXECUTING = "Executing operation:"
_CHAINED = ("During handling of the above exception", "The above exception was the direct cause")
# Raised while another error was handled, these are faults of the handler.
_OWN_FAULTS = ("TypeError", "AttributeError", "NameError", "UnboundLocalError", "KeyError", "IndexError", "ImportError")
_NO_PROGRAM = ("ttnn.deallocate", "ttnn.get_device")  # operations of a module that take no memory
_ELLIPSIS = ("...", "…")
_SOURCE_MARK = re.compile(r">   +$")  # put by pytest before a line of source


class LogScan:
    """Takes the lines of a log one by one, and keeps the failures and the module that they show.

    The state is one pending text per process, or none. A line that continues it is added to it; any other line ends it and is
    offered to the recognisers in turn, until one takes it.
    """

    def __init__(self) -> None:
        self.module = ModuleText()
        self.processes: dict[str, Process] = {"": Process()}
        self.failures = Failures()
        self.own_reports = OwnReports()
        self.skipped = 0
        self.boards = Statements()
        self.versions = Statements()
        self.names_compiler = False
        self._dated = ""  # the line with a date that was read last
        self.worded = 0  # lines with words, up to one more than a message may be torn in
        self._pending: dict[str, PendingText] = {}  # by process
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
        if "repr" in line.text:
            line = line._replace(text=without_unshown(line.text))
        if line.text.startswith(("20", "[20")):
            self._dated = line.text
        if line.number <= NAMING_LINES:
            self.boards.add(line.number, boards_named(line.text[:HEAD_CHARS]))
            self.versions.add(line.number, versions_stated(line.text[:HEAD_CHARS]))
            self.names_compiler = self.names_compiler or names_compiler(line.text[:HEAD_CHARS])
        if self._take_executed(line) or self.own_reports.take(line.text, line.number):
            return
        if self._take_printed_call(line) or self._take_logged_function(line):
            return
        if self._nearby.feed(line.number, line.text):
            self._mention(line)
        if not self._pending and is_quiet_line(line.text):
            return
        prefix = Prefix() if line.inside else Prefix.of(line.text)
        entry = Entry(self._process(prefix.process), line, prefix)
        self._take(entry)
        if line.cut:  # what follows was in the look ahead
            self._end(entry.process)

    def _take(self, entry: Entry) -> None:
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

    def _process(self, name: str) -> Process:
        if name not in self.processes:
            if len(self.processes) >= PROCESS_LIMIT:
                return self.processes[""]
            self.processes[name] = Process(name)
        return self.processes[name]

    def _continue(self, entry: Entry) -> bool:
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
        process.running = PendingStatement(line.number, [words], [len(line.text)], quoted, is_executed=True)
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

    def _take_blank(self, entry: Entry) -> bool:
        return not entry.body

    def _take_statement(self, entry: Entry) -> bool:
        """Takes a line that starts a statement of a module."""
        line = entry.line
        if not starts_statement(entry.body):
            return False
        words = line.text[entry.prefix.end : entry.prefix.end + STATEMENT_CHARS]
        self._pending[entry.process.name] = PendingStatement(line.number, [words], [len(line.text)], entry.quoted)
        return True

    def _take_test_result(self, entry: Entry) -> bool:
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
        error = PendingError(entry.line.number, [words], [entry.width], entry.quoted, start=start, first=entry, test=node)
        if text.endswith("..."):
            self._keep_error(entry.process, error)
        else:
            self._pending[entry.process.name] = error
        return True

    def _take_crash(self, entry: Entry) -> bool:
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
        if process.has_ended and verdict.error_type == "SIGABRT":
            process.crashed = process.traced
        else:
            self._keep(process, number, Message(verdict, 1))
        return True

    def _take_backtrace(self, entry: Entry) -> bool:
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

    def _follow_traceback(self, entry: Entry) -> bool:
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
        if process.crashed is not None and process.traceback.dumped is not None:
            self.failures.complete_call(process.crashed, process.traceback.dumped, ())
            process.crashed = None
        return False

    def _take_errors(self, entry: Entry) -> bool:
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
            self._pending[process.name] = PendingError(
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

    def _take_suspect(self, entry: Entry) -> bool:
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

    def _starts(self, entry: Entry) -> tuple[str, list[Start]]:
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

    def _may_be_torn(self, entry: Entry) -> bool:
        """Returns whether a line may continue a message whose start is not in the log."""
        body = entry.body
        self.worded += self.worded <= TORN_LINES
        is_first = self.worded <= TORN_LINES or body.startswith(_ELLIPSIS)
        return is_first and not (entry.line.inside or entry.line.cut) and may_be_torn(body)

    # ---- what ended ----

    def _end(self, process: Process) -> None:
        """Ends the pending text of the process: an error is read, a statement joins the module."""
        while (pending := self._pending.pop(process.name, None)) is not None:
            if isinstance(pending, PendingError):
                self._keep_error(process, pending)
            elif isinstance(pending, PendingStatement) and not pending.is_executed:
                self.module.add(pending.lines, pending.widths, pending.number)
                if pending.lines[0].startswith(("%", '"ttnn.')):
                    process.list_operation(pending)

    def _keep_error(self, process: Process, error: PendingError) -> None:
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

    def _keep_result(self, process: Process, number: int, test: str, message: Message) -> None:
        """Keeps the message of a line of pytest's summary."""
        verdict, is_suspect = _judged(message)
        is_cut = verdict.status is Status.ERROR and message.is_cut and not is_suspect
        seen = SeenFailure(verdict, process.name, test, is_cut=is_cut, is_suspect=is_suspect, line=number)
        failure = Failure(verdict, number, process=process.name, test=test, is_cut=is_cut, is_suspect=is_suspect)
        self.failures.name(test, seen, lambda: failure)

    def _keep_unnamed_signal(self, process: Process) -> None:
        """Keeps the crash whose signal was never named."""
        if process.signalled is not None:
            self._keep(process, process.signalled, Message(UNNAMED, 1))
            process.signalled = None

    def _keep(self, process: Process, number: int, message: Message) -> None:
        traceback, is_cut = process.traceback, message.is_cut
        verdict, is_suspect = _judged(message)
        call, tensors = traceback.call, traceback.tensors
        test = traceback.test or (process.named_test[0] if number - process.named_test[1] <= RESULT_LINES else "")
        printed, keywords = process.printed, traceback.arguments.keywords
        logged = process.functions.names or printed.functions
        dated = month_of(self._dated)
        listed = process.listed_before(number) if verdict.resource is not None else None
        has_frames = number - process.frames_at <= MESSAGE_LINES and process.frames_at > process.kept_at
        frames = process.frames.frames if has_frames else ()
        named = NamedFunctions(source=traceback.functions, own=traceback.own, log=logged, frames=frames)

        def new_failure() -> Failure:
            running = process.running or listed
            operation = operation_of(running, self.module.aliases) if running else None
            if running is listed and operation is not None and operation.name in _NO_PROGRAM:
                operation = None
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
        process.crashed, traceback.dumped = at if verdict.status is Status.CRASH else None, None
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
