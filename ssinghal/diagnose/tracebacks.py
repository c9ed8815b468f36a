"""Reads Python tracebacks and test reports around an error: the line of the user's code that called TTNN, and the test."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import NamedTuple

from ssinghal.core.tensors import TensorSpec
from ssinghal.diagnose.model import PythonCall
from ssinghal.diagnose.pytest_arguments import Arguments
from ssinghal.diagnose.running_function import calls_ttnn, functions_called, own_operation

SOURCE_CHARS = 400

_FRAME = re.compile(r'File "(?P<file>[^"]{1,400})", line (?P<line>\d{1,7})')
_PLACE = re.compile(
    r"(?P<file>[^\s:'\"]{1,400}\.py):(?P<line>\d{1,7}):(?: in |\s*$| [A-Za-z_.]*(?:Error|Exception|Exit|Failed)\b)"
)
_OWN = re.compile(r"(?:site|dist)-packages/ttnn/|ttnn/ttnn/")  # TTNN's own Python, installed or from its sources
_SECTION = re.compile(r"_{3,} (?:ERROR at \w+ of )?(?P<test>[^_ ].*?|_\w.*?) _{3,}$")
_RESULT = re.compile(r"(?:FAILED|ERROR) (?P<node>\S+?::.+?)(?: - (?P<text>.*))?$")
_RUNNING = re.compile(r"(?P<node>\S+\.py::\S+)(?: |$)")
# Written by faulthandler, the innermost frame first; other threads have the heading "Thread".
_DUMP = re.compile(r"(?P<thread>Current thread 0x|Thread 0x|Stack )[^()]{0,120}\(most recent call first\):")
_DUMPED = re.compile(r'File "(?P<file>[^"]{1,400})", line (?P<line>\d{1,7}) in (?P<function>\S.{0,200})')
_LIBRARY = re.compile(r"(?:site|dist)-packages/|/lib/python\d|<frozen ")
_ARROW = re.compile(r"-{2,}> *(?P<line>\d{1,6}) (?P<source>.*)")  # put by IPython before a line of source
_CELL = re.compile(
    r"(?:File )?(?P<file>(?:Cell )?In ?\[\d{1,6}\]|\S{1,400}\.py|<ipython-input-[\w-]{1,80}>)(?::\d{1,7})?,? (?:in|line) "
)
_GTEST = re.compile(r"\[ (?P<what>RUN     |      OK|  FAILED ) *\] (?P<test>[\w./]{1,200})")
_UNITTEST = re.compile(r"(?:(?:ERROR|FAIL): )?(?P<test>test\w{0,200}) \((?P<of>[\w.]{1,300})\)$")
_OUTCOME = re.compile(r"\b(?:PASSED|FAILED|SKIPPED|ERROR|XFAIL|XPASS)\b")


class _CallLine(NamedTuple):
    """A source line that calls TTNN. ``column``: where it begins in the line of the log. ``where``: "" while unknown."""

    text: str
    column: int
    functions: tuple[str, ...]
    where: str = ""


@dataclass
class Traceback:
    """Follows the lines of one process.

    ``call``: of the traceback read last, with the ``functions`` of TTNN that it names. ``own``: what TTNN's own Python was
    running, on which ``tensors``. ``test``: the one whose output this is.
    """

    test: str = ""
    active: bool = False
    own: tuple[str, ...] = ()
    arguments: Arguments = field(default_factory=Arguments)
    dumped: PythonCall | None = None  # the innermost frame of the program where native code crashed
    _in_dump: bool = False
    _frame: str = ""
    _cell: str = ""  # the file or cell of IPython's traceback
    _placed: _CallLine | None = None
    _unplaced: _CallLine | None = None  # pytest shows the place of a source line after it
    _after_source: bool = False  # the line before this one was a source line

    @property
    def call(self) -> PythonCall | None:
        """The source line that called TTNN, if any was shown."""
        line = self._unplaced or self._placed
        return PythonCall(line.where, line.text) if line else None

    @property
    def functions(self) -> tuple[str, ...]:
        line = self._unplaced or self._placed
        return line.functions if line else ()

    @property
    def tensors(self) -> tuple[TensorSpec, ...]:
        return self.arguments.tensors(self._placed.text) if self._placed else ()

    def feed(self, body: str, column: int = 0, *, marked: bool = False) -> None:
        """Takes a line without its prefix, whose words begin at ``column``. ``marked``: pytest's ``>`` is before it."""
        after_source, self._after_source = self._after_source, False
        if self.arguments.feed(body) or self._take_dump(body):
            return
        if body.startswith("Traceback (most recent call last)"):
            self._restart()
            self.active = True
        elif body.startswith("___") and (section := _SECTION.match(body)):
            self._restart()
            self.test = section["test"]
        elif body.startswith("==="):
            self.close()
        elif frame := _FRAME.match(body):
            self._frame, self.active = f"{frame['file']}:{frame['line']}", True
        elif place := _PLACE.match(body):
            where = f"{place['file']}:{place['line']}"
            self.active = " in " in place[0]  # its source line follows
            self._frame = where if self.active else ""
            if self._unplaced and not self.active:
                self._add(where, self._unplaced)
        elif arrow := _ARROW.match(body):
            self._take_arrow(arrow, column + arrow.start("source"))
        elif cell := _CELL.match(body):
            self._cell = cell["file"]
        elif after_source and body[0] in "^~":
            self._point(column)
        elif body.startswith("[ ") and (case := _GTEST.match(body)):
            self._restart()
            self.test = case["test"] if case["what"].startswith("RUN") else ""
        elif "test" in body[:16] and (case := _UNITTEST.match(body)):
            self._restart()
            self.test = f"{case['of']}.{case['test']}" if not case["of"].endswith(f".{case['test']}") else case["of"]
        elif (running := _RUNNING.match(body)) and "::" in body:
            self.test = "" if _OUTCOME.search(body) else running["node"]
        elif "ttnn." in body and (own := own_operation(body)):
            self.own = own
        elif "ttnn." in body and calls_ttnn(body) and "Executing operation" not in body:
            text = body.strip()[:SOURCE_CHARS]
            self._take_source(_CallLine(text, column, functions_called(text)), marked)

    def _take_dump(self, body: str) -> bool:
        """Takes a line of what faulthandler writes of the thread that crashed."""
        if "most recent call first" in body and (heading := _DUMP.match(body)):
            self._in_dump, self.dumped = not heading["thread"].startswith("Thread"), None
            return True
        frame = _DUMPED.match(body) if self._in_dump else None
        if frame is None:
            self._in_dump = False
            return False
        if self.dumped is None and not (_OWN.search(frame["file"]) or _LIBRARY.search(frame["file"])):
            self.dumped = PythonCall(f"{frame['file']}:{frame['line']}", f"in {frame['function'].rstrip()}")
        return True

    def _take_arrow(self, arrow: re.Match[str], column: int) -> None:
        """Takes a source line that IPython marks as running."""
        self.active = True
        if calls_ttnn(arrow["source"]):
            text = arrow["source"].strip()[:SOURCE_CHARS]
            self._add(f"{self._cell or 'line'}:{arrow['line']}", _CallLine(text, column, functions_called(text)))

    def _take_source(self, line: _CallLine, marked: bool) -> None:
        if self._frame:
            self._add(self._frame, line)
            self._frame = ""
            self._after_source = True
        elif marked or not (self.test or self._placed):  # pytest shows a complete function and marks the line that was running
            self._unplaced = line
            self._after_source = True

    def _point(self, column: int) -> None:
        """Takes Python's marks under the expression that was running."""
        line = self._unplaced or self._placed
        if line is None:
            return
        pointed = line._replace(functions=functions_called(line.text, column - line.column))
        if self._unplaced:
            self._unplaced = pointed
        else:
            self._placed = pointed

    def _add(self, where: str, line: _CallLine) -> None:
        self._unplaced = None
        if not _OWN.search(where):
            self._placed = line._replace(where=where)

    def close(self) -> None:
        """Ends the output of the test: what follows belongs to none."""
        self._restart()
        self.test = ""

    def _restart(self) -> None:
        self.end()
        self._unplaced, self._placed = None, None

    def end(self) -> None:
        """Ends the traceback once its error has been read; the place of its source line may follow."""
        self.active, self._frame, self._cell, self.own, self._after_source = False, "", "", (), False
        self.arguments.clear()
        if self._unplaced is None:
            self._placed = None


def summary_result(body: str) -> tuple[str, str] | None:
    """Returns the node id and the shortened message of a line of pytest's short summary; None for any other line."""
    match = _RESULT.match(body)
    return (match["node"], match["text"] or "") if match else None


def same_test(one: str, other: str) -> bool:
    """Returns whether a node id and the heading of a test's report, which lacks the file, name one test."""
    longer, shorter = (one, other) if len(one) >= len(other) else (other, one)
    return longer == shorter or longer.replace("::", ".").endswith("." + shorter)


def test_key(node: str) -> str:
    """Returns the last part of a test's name with its parameters: equal for all names of one test.

    >>> test_key("tests/test_a.py::TestA::test_b[1-2.5]"), test_key("TestA.test_b[1-2.5]")
    ('test_b[1-2.5]', 'test_b[1-2.5]')
    """
    name, bracket, parameters = node.partition("[")
    return re.split(r"::|\.", name)[-1] + bracket + parameters
