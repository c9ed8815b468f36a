"""What a Python traceback or a test report says around an error: the line of the user's code that called TTNN, and the test."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from ssinghal.diagnose.reading import PythonCall

SOURCE_CHARS = 400

_FRAME = re.compile(r'File "(?P<file>[^"]{1,400})", line (?P<line>\d{1,7})')
_PLACE = re.compile(
    r"(?P<file>[^\s:'\"]{1,400}\.py):(?P<line>\d{1,7}):(?: in |\s*$| [A-Za-z_.]*(?:Error|Exception|Exit|Failed)\b)"
)
_CALL = re.compile(r"(?<![\w\"'#!./])ttnn\.[a-z_]\w*(?:\.\w+)*\s*\(")
_OWN = re.compile(r"(?:site|dist)-packages/ttnn/|ttnn/ttnn/")  # TTNN's own Python, installed or from its sources
_SECTION = re.compile(r"_{3,} (?:ERROR at \w+ of )?(?P<test>[^_ ].*?|_\w.*?) _{3,}$")
_RESULT = re.compile(r"(?:FAILED|ERROR) (?P<node>\S+?::.+?)(?: - (?P<text>.*))?$")
_RUNNING = re.compile(r"(?P<node>\S+\.py::\S+)(?: |$)")
_OUTCOME = re.compile(r"\b(?:PASSED|FAILED|SKIPPED|ERROR|XFAIL|XPASS)\b")


@dataclass
class Traceback:
    """Follows the lines of one process. ``call``: of the traceback read last. ``test``: the one whose output this is."""

    test: str = ""
    active: bool = False
    _frame: str = ""
    _calls: list[PythonCall] = field(default_factory=list)
    _unplaced: str = ""

    @property
    def call(self) -> PythonCall | None:
        """Where pytest shows source, its place comes after it: then it is still empty here."""
        if self._unplaced:
            return PythonCall("", self._unplaced)
        return self._calls[-1] if self._calls else None

    def feed(self, body: str) -> None:
        """A line without what is before its words."""
        if body.startswith("Traceback (most recent call last)"):
            self._restart()
            self.active = True
        elif body.startswith("___") and (section := _SECTION.match(body)):
            self._restart()
            self.test = section["test"]
        elif body.startswith("===") or body.startswith("--- "):
            self._restart()
            self.test = ""
        elif frame := _FRAME.match(body):
            self._frame, self.active = f"{frame['file']}:{frame['line']}", True
        elif place := _PLACE.match(body):
            self._frame, self.active = f"{place['file']}:{place['line']}", " in " in place[0]
            if self._unplaced:
                self._add(self._frame, self._unplaced)
                self._frame = ""
        elif (running := _RUNNING.match(body)) and "::" in body:
            self.test = "" if _OUTCOME.search(body) else running["node"]
        elif "ttnn." in body and _CALL.search(body) and "Executing operation" not in body:
            self._see(body.strip()[:SOURCE_CHARS])

    def _see(self, source: str) -> None:
        if self._frame:
            self._add(self._frame, source)
            self._frame = ""
        else:
            self._unplaced = source

    def _add(self, where: str, source: str) -> None:
        self._unplaced = ""
        if not _OWN.search(where):
            self._calls = [PythonCall(where, source)]

    def _restart(self) -> None:
        self.active, self._frame, self._unplaced, self._calls = False, "", "", []

    def end(self) -> None:
        """The error of this traceback has been read."""
        self.active, self._frame, self._calls = False, "", []


def result(body: str) -> tuple[str, str] | None:
    """Node id and what is left of the message, of a line of pytest's short summary."""
    found = _RESULT.match(body)
    return (found["node"], found["text"] or "") if found else None


def same_test(one: str, other: str) -> bool:
    """Whether a node id and the heading of a test's report, which lacks the file, are of one test."""
    longer, shorter = (one, other) if len(one) >= len(other) else (other, one)
    return longer == shorter or longer.replace("::", ".").endswith("." + shorter)
