"""A log, streamed, to what failed in it and what was running then.

Each line belongs to a process (a rank that a prefix names) and goes on with what that process began, or begins something: an
error, an operation of a compiler's runtime, or a statement of a module. What ended is kept; the lines are not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import BinaryIO

from ssinghal.device.errors import HEAD_CHARS, translate_error
from ssinghal.diagnose.messages import (
    MESSAGE_LINES,
    Prefix,
    Start,
    bare_start,
    continuation,
    error_key,
    goes_on,
    is_talk,
    process_of,
    read_message,
    starts,
)
from ssinghal.diagnose.mlir import STATEMENT_CHARS, ModuleText, begins_statement, continues, parse_operation, without_remark
from ssinghal.diagnose.reading import Failure, Operation, Reading, Value
from ssinghal.diagnose.text import Line, Lines, joined
from ssinghal.diagnose.tracebacks import Traceback, result, same_test
from ssinghal.records import Status, Verdict

# A line that has none of these changes nothing, unless something was begun before it (a bare message has no mark: "Out of").
ANCHORS = (b"TT_", b"Error", b"ttnn", b"Executing", b".py", b"___", b"#loc", b"bad_alloc", b"Out of", b"Statically")
FAILURE_LIMIT = 10_000  # different ones that are kept
PROCESS_LIMIT = 4_096  # more are no processes but something else in brackets

_EXECUTING = "Executing operation:"


@dataclass
class _Begun:
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
    running: _Begun | None = None  # the operation executed last
    unplaced: int | None = None  # the failure whose call's place comes after it


def read_log(stream: BinaryIO, name: str, module: Sequence[Operation] = ()) -> Reading:
    """Every failure in ``stream`` and the operation that was running. ``module``: the operations of a module beside the log.

    Never raises for what the bytes are; OSError where they cannot be read.
    """
    lines = Lines(stream, ANCHORS)
    reader = _Reader(tuple(module))
    for line in lines:
        reader.read(line)
        lines.busy = reader.busy
    reader.finish()
    return reader.reading(name, lines)


class _Reader:
    def __init__(self, given: tuple[Operation, ...]) -> None:
        self._given = given
        self._text = ModuleText()
        self._processes: dict[str, _Process] = {"": _Process()}
        self._begun: dict[str, _Begun] = {}  # by process
        self._failures: list[Failure] = []
        self._alike: dict[tuple[str, Verdict], list[int]] = {}  # where those of one process with equal figures are
        self._left_out = 0
        self._cut = 0

    @property
    def busy(self) -> bool:
        return bool(self._begun)

    def reading(self, name: str, lines: Lines) -> Reading:
        module = self._given or self._text.operations()
        failures = tuple(_completed(failure, module) for failure in self._failures)
        first = next((f for f in failures if f.verdict.resource), failures[0] if failures else None)
        remarks = list(lines.remarks)
        if self._left_out:
            remarks.append(f"{self._left_out:,} more different failures were not kept")
        if self._cut:
            remarks.append(f"{self._cut:,} messages are cut off, in a test summary: their figures are not in the text")
        if self._text.left_out:
            remarks.append(f"{self._text.left_out:,} more operations of the module were not kept")
        return Reading(name, lines.count, failures, module, _after(first, module), tuple(remarks))

    def read(self, line: Line) -> None:
        executing = line.text.find(_EXECUTING, 0, HEAD_CHARS)
        if executing >= 0:
            self._execute(line, executing)
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
        words, quoted = line.text[at + len(_EXECUTING) :], line.text.startswith(">")
        process.running = _Begun(line.number, [words], [len(line.text)], runs=True, quoted=quoted)
        if not line.cut:
            self._begun[process.name] = process.running

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
            or (begun.marked and not prefix.marked and line.text[:1].isspace())
            or any(not start.bare for start in starts(line.text[: line.own], prefix))
        ):
            return False
        begun.add(words, len(line.text))
        return True

    def _begin(self, process: _Process, line: Line, prefix: Prefix) -> None:
        text = line.text
        quoted = text.lstrip().startswith(">")
        if not line.inside and not self._describe(process, line, text[prefix.end : HEAD_CHARS], quoted):
            return
        for start in starts(text, prefix, inside=line.inside):
            if line.cut and start.at >= line.own:
                break
            if start.error_type != "RuntimeError" and not (process.traceback.active or prefix.marked):
                continue
            self._end(process)
            words = text[start.at : start.at + 2 * HEAD_CHARS]
            begun = _Begun(line.number, [words], [len(text)], start, marked=prefix.marked, quoted=quoted)
            self._begun[process.name] = begun

    def _describe(self, process: _Process, line: Line, body: str, quoted: bool) -> bool:
        """Take what a line that is no error says; whether an error may start in it all the same."""
        if not body:
            return False
        if begins_statement(body):
            words = line.text[len(line.text) - len(body) :] if len(line.text) < HEAD_CHARS else body
            self._begun[process.name] = _Begun(line.number, [words], [len(line.text)], quoted=quoted)
            return False
        summary = result(body)
        if summary:
            self._summarize(line.number, *summary)
            return False
        process.traceback.feed(body)
        self._place(process)
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

    def _fail(self, process: _Process, begun: _Begun, start: Start) -> None:
        message = read_message(start, begun.lines, begun.widths)
        if message is not None:
            self._keep(process, self._failure(process, begun.number, message.verdict))
            process.traceback.end()
        for at in range(message.lines if message else 1, len(begun.lines)):  # more may follow in the lines that were taken
            bare = bare_start(begun.lines[at].lstrip())
            if bare is not None:
                rest = _Begun(begun.number + at, begun.lines[at:], begun.widths[at:])
                return self._fail(process, rest, bare)

    def _failure(self, process: _Process, number: int, verdict: Verdict) -> Failure:
        return Failure(
            verdict,
            number,
            process=process.name,
            operation=_operation(process.running, self._text.aliases) if process.running else None,
            started=process.started,
            call=process.traceback.call,
            test=process.traceback.test,
        )

    def _keep(self, process: _Process, failure: Failure) -> None:
        alike = self._alike.setdefault((failure.process, error_key(failure.verdict)), [])
        at = next((i for i in alike if _may_be_of(self._failures[i], failure.test)), None)
        if at is None and len(self._failures) >= FAILURE_LIMIT:
            self._left_out += 1
            return
        if at is None:
            at = len(self._failures)
            alike.append(at)
            self._failures.append(failure)
        else:
            self._failures[at] = _merged(self._failures[at], failure)
        call = self._failures[at].call
        process.unplaced = at if call is not None and not call.where else None

    def _place(self, process: _Process) -> None:
        """The place of a call that is known only now that its failure has been read."""
        call = process.traceback.call
        if process.unplaced is not None and call is not None and call.where:
            self._failures[process.unplaced] = replace(self._failures[process.unplaced], call=call)
            process.unplaced = None

    def _summarize(self, number: int, node: str, text: str) -> None:
        """A line of pytest's summary names the test in full; its message is cut, so it tells of a failure only if none other
        does."""
        for i, known in enumerate(self._failures):
            if known.test and same_test(known.test, node):
                self._failures[i] = replace(known, test=max(known.test, node, key=len))
                return
        start = next(starts(text, Prefix.of(text)), None)
        if start is None:
            return
        message = read_message(start, [text[start.at :]], [len(text)])
        verdict = message.verdict if message else translate_error(start.error_type, text[start.at :])
        key = None if verdict.status is Status.ERROR else error_key(verdict)
        for i, known in enumerate(self._failures):
            if not known.test and key in (None, error_key(known.verdict)):
                self._failures[i] = replace(known, test=node, times=known.times + 1)
                return
        self._cut += verdict.message.endswith("...")
        self._keep(self._processes[""], Failure(verdict, number, test=node))


def _may_be_of(failure: Failure, test: str) -> bool:
    return not failure.test or not test or same_test(failure.test, test)


def _merged(known: Failure, again: Failure) -> Failure:
    """The first text says when; a later one may say more: the place in TTNN, the call, the test."""
    verdict = known.verdict if known.verdict.thrown_at or not again.verdict.thrown_at else again.verdict
    test = max(known.test, again.test, key=len)
    return replace(known, verdict=verdict, times=known.times + 1, call=known.call or again.call, test=test)


# ---- operations ----


def _operation(begun: _Begun, aliases: Mapping[str, str]) -> Operation | None:
    """The reading that tells more of its values, where the lines may be broken in the middle of a word."""
    lines = [without_remark(line) for line in begun.lines]
    texts = [text[:STATEMENT_CHARS].strip() for text in joined(lines, begun.widths)]
    found = [op for text in texts if (op := parse_operation(text, aliases, begun.number)) is not None]
    return max(found, key=lambda op: sum(_told(value) for value in (*op.operands, *op.results)), default=None)


def _told(value: Value) -> int:
    return (value.spec is not None) + value.known_layout


def _completed(failure: Failure, module: Sequence[Operation]) -> Failure:
    """With what the module says of the operation where the log says less."""
    position = _position(failure, module)
    if position is None or failure.operation is None:
        return failure
    op, there = failure.operation, module[position]
    return replace(
        failure,
        operation=replace(
            op,
            results=_fuller(op.results, there.results),
            operands=_fuller(op.operands, there.operands),
            attributes={**there.attributes, **op.attributes},
            location=op.location or there.location,
        ),
    )


def _fuller(logged: tuple[Value, ...], printed: tuple[Value, ...]) -> tuple[Value, ...]:
    if [value.name for value in logged] != [value.name for value in printed]:
        return logged or printed
    return tuple(max(pair, key=_told) for pair in zip(logged, printed, strict=True))


def _position(failure: Failure | None, module: Sequence[Operation]) -> int | None:
    """Where in the module the operation is that failed: the last one of its name and results."""
    if failure is None or failure.operation is None:
        return None
    wanted = (failure.operation.name, [value.name for value in failure.operation.results])
    return next(
        (i for i in range(len(module) - 1, -1, -1) if (module[i].name, [v.name for v in module[i].results]) == wanted), None
    )


def _after(failure: Failure | None, module: Sequence[Operation]) -> tuple[Operation, ...]:
    """The operations of the same function after the one that failed: names of results begin anew with each function."""
    position = _position(failure, module)
    if position is None:
        return ()
    seen = {value.name for value in module[position].results}
    for end in range(position + 1, len(module)):
        names = {value.name for value in module[end].results}
        if names & seen:
            return tuple(module[position + 1 : end])
        seen |= names
    return tuple(module[position + 1 :])
