"""What ``ssinghal exec`` prints of a program that ran out of memory, in a log that has TTNN's own message as well."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from ssinghal.core.verdict import Status, Verdict, sentence
from ssinghal.device.error_patterns import translate_error
from ssinghal.diagnose.model import Failure, PythonCall
from ssinghal.diagnose.parse.paraphrases import own_sentence
from ssinghal.errors import LINE_LIMIT, cut

MARK = "ssinghal: "  # before each line of a report
RAN_OUT = " ran out of memory: "
COMMAND = "ssinghal probe "
CRASHED = "native code ended the program"
HANDLED = "the program went on after "
TRACES = "the virtual device captures and replays no traces: ssinghal exec --no-trace runs the program without"
METHOD = "ttnn.Tensor"  # in place of the name of a method
MESSAGE = "  TTNN: "  # before TTNN's message, which the program has not printed
# Both lines have the name of the function, and so the anchor of what is read of a large log.
_HEAD = re.compile(r"(?P<name>ttnn\.\S{1,200})" + RAN_OUT + r"(?P<sentence>.{1,600}?)(?: in test (?P<test>\S{1,400}))?$")
_CALL = re.compile(r"  the call of ttnn\.\S{1,200}: " + COMMAND + r"(?P<words>.{1,4000}?)(?: --board \S+)?(?: --ttnn \S+)?$")
_PLACE = re.compile(r"  at (?P<where>\S.{0,400}?:\d{1,7}) \(.{1,200}?\)(?:: (?P<source>.{1,500}))?$")
_CRASH = re.compile(CRASHED + r"(?: by (?P<signal>SIG[A-Z]{2,8}))?(?: of .{1,300}?)?: no memory verdict$")
_KNOWN = 1_000  # reports


def head(name: str, verdict: Verdict, test: str) -> str:
    """Returns the first line of a report."""
    return f"{name}{RAN_OUT}{cut(sentence(verdict), LINE_LIMIT)}{f' in test {test}' if test else ''}"


def call_line(name: str, command: str, board: str = "", release: str = "") -> str:
    """Returns the line with the call as a command of ``probe``; ``board``, ``release``: where they are not the usual ones."""
    where = f"{f' --board {board}' if board else ''}{f' --ttnn {release}' if release else ''}"
    return f"  the call of {name}: {command}{where}"


def crash_line(name: str, release: str) -> str:
    """Returns the first line of the report of a crash; ``name``: of its signal, empty where it is not known."""
    return f"{CRASHED}{f' by {name}' if name else ''} of ttnn {release}: no memory verdict"


@dataclass
class OwnReports:
    """``calls``: the words of ``probe`` by what ran out, as ``core.verdict.sentence`` writes it."""

    calls: dict[str, str] = field(default_factory=dict)
    _lines: dict[str, int] = field(default_factory=dict)
    _last: str = ""
    _places: dict[str, tuple[str, PythonCall | None]] = field(default_factory=dict)  # the function of TTNN, and its line
    _messages: dict[str, Verdict] = field(default_factory=dict)
    _crashes: dict[int, list[str]] = field(default_factory=dict)  # by line: signal, and the lines of the report
    _crash: int = 0

    def take(self, text: str, number: int) -> bool:
        """Takes a line of a report; returns whether it is one."""
        at = text.find(MARK)
        if at < 0:
            return False
        words = text[at + len(MARK) :].rstrip()
        if words.startswith("  "):
            self._continue(words)
            return True
        self._crash = 0
        found, crash = _HEAD.match(words), _CRASH.match(words)
        if found is not None:
            self._last = found["sentence"]
            if len(self._lines) < _KNOWN:
                self._lines.setdefault(self._last, number)
                self._places.setdefault(self._last, (found["name"], None))
        elif crash is not None and len(self._crashes) < _KNOWN:
            self._crash = number
            self._crashes[number] = [crash["signal"] or ""]
        return found is not None or crash is not None or words.startswith(HANDLED)

    def _continue(self, words: str) -> None:
        call = _CALL.match(words)
        if self._crash:
            if len(self._crashes[self._crash]) < _CRASH_LINES:
                self._crashes[self._crash].append(words.strip())
        elif self._last not in self._lines:
            return
        elif words.startswith(MESSAGE):
            self._messages[self._last] = translate_error("RuntimeError", words.removeprefix(MESSAGE))
        elif (place := _PLACE.match(words)) is not None:
            name, _ = self._places[self._last]
            self._places[self._last] = name, PythonCall(place["where"], place["source"] or "")
        elif call is not None:
            self.calls.setdefault(self._last, call["words"])

    def placed(self, failure: Failure) -> Failure:
        """Returns a failure with the function and the line that a report has for it, where the text lacks them otherwise."""
        name, call = self._places.get(cut(sentence(failure.verdict), LINE_LIMIT), ("", None))
        functions = (name.removeprefix("ttnn."),) if name not in ("", METHOD) else ()
        return replace(failure, functions=failure.functions or functions, call=failure.call or call)

    def without_message(self, failures: Sequence[Failure]) -> list[Failure]:
        """Returns what the reports state where the text lacks it otherwise: what ran out, and crashes."""
        known = {cut(sentence(failure.verdict), LINE_LIMIT) for failure in failures}
        found = []
        for text, line in self._lines.items():
            if text not in known:
                verdict = self._messages.get(text) or own_sentence(text) or Verdict(Status.ERROR, message=text)
                found.append(Failure(verdict, line, is_suspect=verdict.resource is None))
        crashed = {failure.verdict.error_type for failure in failures if failure.verdict.status is Status.CRASH}
        for line, (signal, *where) in self._crashes.items():
            if signal not in crashed:
                place = next(iter(where), "")
                traced = f"; {TRACES}" if any(TRACES in words for words in where) else ""
                message = f"{place}{traced}" or CRASHED
                found.append(Failure(Verdict(Status.CRASH, error_type=signal, message=message), line))
        return found


_CRASH_LINES = 6


def call_of(failure: Failure, calls: Mapping[str, str]) -> str | None:
    """Returns the words of ``probe`` that a report has for a failure."""
    return calls.get(cut(sentence(failure.verdict), LINE_LIMIT))
