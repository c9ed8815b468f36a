"""A log, streamed, to what failed in it and what was running then.

Each line belongs to a process (a rank that a prefix names) and goes on with what that process began, or begins something: an
error, an operation of a compiler's runtime, or a statement of a module. What ended is kept; the lines are not.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import BinaryIO

from ssinghal.core.record import Status
from ssinghal.device.error_patterns import HEAD_CHARS, translate_error
from ssinghal.diagnose.deduplication import Failures, SeenFailure
from ssinghal.diagnose.model import Failure, LogReading, Module, Operation
from ssinghal.diagnose.parse.crashes import UNNAMED, crash, is_unnamed_crash
from ssinghal.diagnose.parse.error_lines import (
    FRAMEWORK_MEMORY,
    MESSAGE_LINES,
    Message,
    Prefix,
    Start,
    bare_start,
    continuation,
    goes_on,
    is_talk,
    process_of,
    read_message,
    starts,
)
from ssinghal.diagnose.parse.line_reader import Line, Lines, joined
from ssinghal.diagnose.parse.mlir import (
    STATEMENT_CHARS,
    ModuleText,
    begins_statement,
    continues,
    parse_operation,
    without_remark,
)
from ssinghal.diagnose.parse.mlir_module import Place, Places, completed, following, told
from ssinghal.diagnose.running_function import NamedFunctions, UnfinishedFunctions, logged, of_frame
from ssinghal.diagnose.tracebacks import Traceback, result

# A line that has none of these changes nothing, unless something was begun before it (a bare message has no mark: "Out of").
# Each takes a second for a gigabyte, so they are few: of crashes those that come in the middle of a log.
ANCHORS = (b"TT_", b"Error", b"ttnn", b".py", b"___", b"#loc", b"bad_alloc", b"Out of", b"Statically", b"^",
           b"Fatal Python", b"Segmentation fault", b"core dumped", b"Killed", b"received signal")  # fmt: skip
STARTS_LIMIT = 100  # of errors on one line
PROCESS_LIMIT = 1_024  # more are no processes but something else in brackets

EMPTY = "the input is empty: was standard error redirected too (2>&1)?"

_EXECUTING = "Executing operation:"
_BACKTRACE = "--- "
_MARK = re.compile(r">   +$")  # of pytest, before a line of source


@dataclass
class _PendingFailure:
    """An error or a statement, and the lines that it goes on over."""

    number: int
    lines: list[str]
    widths: list[int]
    start: Start | None = None  # of an error
    runs: bool = False  # a statement that the runtime executes, not one of a module
    marked: bool = False  # by pytest, as of an exception
    quoted: bool = False
    size: int = 0

    def add(self, text: str, width: int) -> None:
        self.lines.append(text)
        self.widths.append(width)
        self.size += len(text)


@dataclass
class _Process:
    name: str = ""
    traceback: Traceback = field(default_factory=Traceback)
    started: int = 0
    running: _PendingFailure | None = None  # the operation executed last
    logged: UnfinishedFunctions = field(default_factory=UnfinishedFunctions)
    unplaced: int | None = None  # the failure whose call's place comes after it
    traced: int | None = None  # the failure whose backtrace may follow
    signalled: int | None = None  # the line that says of a signal, whose name is still to come
    has_ended: bool = False  # with a C++ exception, which aborts


def read_log(stream: BinaryIO, name: str, module: Module | None = None) -> LogReading:
    """Every failure in ``stream`` and the operation that was running. ``module``: of a file beside the log.

    Never raises for what the bytes are; OSError where they cannot be read.
    """
    lines = Lines(stream, ANCHORS)
    reader = _Reader(module)
    for line in lines:
        reader.read(line)
        lines.busy = reader.busy
    reader.finish()
    return reader.reading(name, lines)


class _Reader:
    def __init__(self, given: Module | None) -> None:
        self._given = given
        self._text = ModuleText()
        self._processes: dict[str, _Process] = {"": _Process()}
        self._begun: dict[str, _PendingFailure] = {}  # by process
        self._failures = Failures()
        self._skipped = 0
        self._has_open_arguments = False

    @property
    def busy(self) -> bool:
        return bool(self._begun) or self._has_open_arguments

    def reading(self, name: str, lines: Lines) -> LogReading:
        module = (self._given.operations if self._given else ()) or self._text.operations()
        failures = list(self._failures.all)
        places = list(map(Places(module).of, (failure.operation for failure in failures)))
        for i, (failure, place) in enumerate(zip(failures, places, strict=True)):
            if failure.operation is not None and place.at is not None:
                failures[i] = replace(failure, operation=completed(failure.operation, module[place.at]))
        first = next((i for i, failure in enumerate(failures) if failure.verdict.resource), 0)
        at = places[first].at if failures else None
        never_ran = following(at, module) if at is not None else ()
        never_ran = never_ran[self._ran_after(failures[first].line, never_ran) :] if failures else ()
        counted = {
            "more different failures were not kept": self._failures.left_out,
            "messages are cut off, in a test summary: their figures are not in the text": self._failures.cut,
            "more errors on a line with many were not read": self._skipped,
            "more operations of the module were not kept": self._text.left_out,
        }
        remarks = [
            *lines.remarks,
            *dict.fromkeys(self._remarks(lines, failures, places)),
            *(f"{count:,} {what}" for what, count in counted.items() if count),
        ]
        return LogReading(name, lines.count, tuple(failures), module, never_ran, tuple(remarks))

    def _remarks(self, lines: Lines, failures: Sequence[Failure], places: Sequence[Place]) -> Iterator[str]:
        """What is odd of the log as a whole, and of the module for it."""
        if not lines.count:
            yield EMPTY
        if self._given is not None:
            yield from self._given.remarks
            if not any(process.started for process in self._processes.values()):
                yield "a module was given, but no line of the log says which operation of it was running"
        for failure, place in zip(failures, places, strict=True):
            operation = failure.operation
            if operation is None:
                continue
            results = ", ".join(value.name for value in operation.results)
            if place.differs:
                yield f"the module has other operands or types for {results} {operation.name} than the log: the log's are taken"
            elif place.at is None and self._given is not None and self._given.is_ttnn:
                yield f"the module has no {results} {operation.name}, which the log says was running"

    def _ran_after(self, line: int, operations: Sequence[Operation]) -> int:
        """How many of ``operations`` the log shows to have started after ``line``: up to the last one of any process."""
        began = [p.running for p in self._processes.values() if p.running is not None and p.running.number > line]
        places = Places(operations)
        found = [places.of(_operation(begun, self._text.aliases)).at for begun in began]
        return max((at + 1 for at in found if at is not None), default=0)

    def read(self, line: Line) -> None:
        executing = line.text.find(_EXECUTING, 0, HEAD_CHARS)
        if executing >= 0:
            self._execute(line, executing)
            return
        if self._log(line):
            return
        if not self._begun and is_talk(line.text):
            return
        prefix = Prefix() if line.inside else Prefix.of(line.text)
        process = self._process(prefix.process)
        if not self._goes_on(process, line, prefix):
            self._end(process)
            self._begin(process, line, prefix)
        if line.cut:  # what follows was in the look ahead
            self._end(process)

    def finish(self) -> None:
        for process in self._processes.values():
            self._end(process)
            self._name_signal(process)

    def _process(self, name: str) -> _Process:
        found = self._processes.get(name)
        if found is None:
            if len(self._processes) >= PROCESS_LIMIT:
                return self._processes[""]
            found = self._processes[name] = _Process(name)
        return found

    # ---- lines ----

    def _execute(self, line: Line, at: int) -> None:
        process = self._process(process_of(line.text[:at]))
        self._end(process)
        process.started += 1
        words = line.text[at + len(_EXECUTING) : at + STATEMENT_CHARS]
        process.running = _PendingFailure(line.number, [words], [len(line.text)], runs=True, quoted=line.text.startswith(">"))
        if not line.cut:
            self._begun[process.name] = process.running

    def _log(self, line: Line) -> bool:
        """Take what a log says of a function that starts or finishes; whether the line does."""
        found = logged(line.text)
        if found is None:
            return False
        process = self._process(process_of(line.text[: found.at]))
        self._end(process)
        process.logged.feed(found)
        return True

    def _goes_on(self, process: _Process, line: Line, prefix: Prefix) -> bool:
        """Whether the line goes on with what the process began, and then takes it."""
        begun = self._begun.get(process.name)
        if begun is None or prefix.level or line.inside:
            return False
        words = continuation(line.text[: 2 * HEAD_CHARS], quoted=begun.quoted)
        if begun.start is None:
            if begins_statement(line.text[prefix.end :]) or not continues(begun.lines, words.strip()):
                return False
        elif (
            begun.size > HEAD_CHARS
            or len(begun.lines) >= MESSAGE_LINES
            or not goes_on(words.strip())
            or (begun.marked and not prefix.marked and line.text[:1].isspace() and words.strip() != "info:")
            or _is_crash(line, prefix)
            or any(not start.bare for start in starts(line.text[: line.own], prefix))
        ):
            return False
        begun.add(words, len(line.text))
        begun.marked = begun.marked and prefix.marked  # a report of one line for each error marks the first only
        return True

    def _begin(self, process: _Process, line: Line, prefix: Prefix) -> None:
        text = line.text
        quoted = text.lstrip().startswith(">")
        if not line.inside and not self._describe(process, line, prefix, quoted):
            return
        found = [
            start
            for start in starts(text, prefix, inside=line.inside)
            if (start.at < line.own or not line.cut)
            and (
                start.error_type == "RuntimeError"
                or start.error_type.endswith(FRAMEWORK_MEMORY)
                or process.traceback.active
                or prefix.marked
            )
        ]
        self._skipped += len(found[STARTS_LIMIT:])
        ends = [*(start.at for start in found[1:]), len(text)]
        for start, end in zip(found[:STARTS_LIMIT], ends, strict=False):
            self._end(process)
            words = text[start.at : min(end, start.at + 2 * HEAD_CHARS)]
            begun = _PendingFailure(line.number, [words], [len(text)], start, marked=prefix.marked, quoted=quoted)
            self._begun[process.name] = begun

    def _describe(self, process: _Process, line: Line, prefix: Prefix, quoted: bool) -> bool:
        """Take what a line that is no error says after ``prefix``; whether an error may start in it all the same."""
        at = prefix.end
        body = line.text[at : at + HEAD_CHARS]
        if not body:
            return False
        if begins_statement(body):
            words = line.text[at : at + STATEMENT_CHARS]
            self._begun[process.name] = _PendingFailure(line.number, [words], [len(line.text)], quoted=quoted)
            return False
        summary = result(body)
        if summary:
            process.traceback.close()
            self._summarize(line.number, *summary)
            return False
        if self._crash(process, line, prefix, body) or self._trace(process, body):
            return False
        process.traceback.feed(body, prefix.end, marked=_MARK.search(line.text, 0, prefix.end) is not None)
        self._has_open_arguments = process.traceback.arguments.is_open
        self._place(process)
        return True

    def _crash(self, process: _Process, line: Line, prefix: Prefix, body: str) -> bool:
        """Take a line that says that a signal ended the process; whether it does."""
        if is_unnamed_crash(body):
            self._name_signal(process)
            process.signalled = line.number
            return True
        verdict = None if prefix.is_quiet else crash(body, alone=not prefix.end)
        if verdict is None:
            return False
        number, process.signalled = process.signalled or line.number, None
        if not (process.has_ended and verdict.error_type == "SIGABRT"):
            self._keep(process, number, Message(verdict, 1))
        return True

    def _name_signal(self, process: _Process) -> None:
        """Keep the crash whose signal was never named."""
        if process.signalled is not None:
            self._keep(process, process.signalled, Message(UNNAMED, 1))
            process.signalled = None

    def _trace(self, process: _Process, body: str) -> bool:
        """Take a line of a backtrace; whether it is one."""
        if not body.startswith(_BACKTRACE) or "::" not in body:
            return False
        if process.traced is not None:
            self._failures.name_functions(process.traced, NamedFunctions(backtrace=of_frame(body)))
        return True

    # ---- what ended ----

    def _end(self, process: _Process) -> None:
        begun = self._begun.pop(process.name, None)
        if begun is None:
            return
        if begun.start is not None:
            self._fail(process, begun, begun.start)
        elif not begun.runs:
            self._text.add(begun.lines, begun.widths, begun.number)

    def _fail(self, process: _Process, begun: _PendingFailure, start: Start) -> None:
        message = read_message(start, begun.lines, begun.widths)
        if message is not None:
            self._keep(process, begun.number, message)
            process.has_ended = process.has_ended or start.ends
        for at in range(message.lines if message else 1, len(begun.lines)):  # more may follow in the lines that were taken
            bare = bare_start(begun.lines[at].lstrip())
            if bare is not None:
                rest = _PendingFailure(begun.number + at, begun.lines[at:], begun.widths[at:])
                return self._fail(process, rest, bare)

    def _keep(self, process: _Process, number: int, message: Message) -> None:
        traceback, verdict, is_cut = process.traceback, message.verdict, message.is_cut
        call, test, tensors = traceback.call, traceback.test, traceback.tensors
        named = NamedFunctions(source=traceback.functions, own=traceback.own, log=process.logged.names)

        def made() -> Failure:
            operation = _operation(process.running, self._text.aliases) if process.running else None
            started = process.started
            return Failure(verdict, number, 1, process.name, operation, started, call, test, tensors=tensors, is_cut=is_cut)

        at = self._failures.add(SeenFailure(verdict, process.name, test, call, named, is_cut), made)
        process.unplaced = at if call is not None and not call.where else None
        process.traced = at
        process.logged.fail()
        traceback.end()

    def _place(self, process: _Process) -> None:
        """The place of a call that is known only now that its failure has been read."""
        call = process.traceback.call
        if process.unplaced is not None and call is not None and call.where:
            self._failures.place(process.unplaced, call)
            process.unplaced = None

    def _summarize(self, number: int, node: str, text: str) -> None:
        start = next(starts(text, Prefix.of(text)), None)
        verdict = None
        is_cut = text.endswith("...")
        if start is not None:
            message = read_message(replace(start, short=True), [text[start.at :]], [len(text)])
            verdict = message.verdict if message else translate_error(start.error_type, text[start.at :])
            is_cut = verdict.status is Status.ERROR and (is_cut or (message is not None and message.is_cut))
        self._failures.name(node, verdict, number, is_cut=is_cut)


def _is_crash(line: Line, prefix: Prefix) -> bool:
    body = line.text[prefix.end : prefix.end + HEAD_CHARS]
    return is_unnamed_crash(body) or crash(body, alone=not prefix.end) is not None


def _operation(begun: _PendingFailure, aliases: Mapping[str, str]) -> Operation | None:
    """The reading that tells more of its values, where the lines may be broken in the middle of a word."""
    lines = [without_remark(line) for line in begun.lines]
    texts = [text[:STATEMENT_CHARS].strip() for text in joined(lines, begun.widths)]
    found = [op for text in texts if (op := parse_operation(text, aliases, begun.number)) is not None]
    return max(found, key=lambda op: told((*op.operands, *op.results)), default=None)
