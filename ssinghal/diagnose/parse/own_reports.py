"""What ``ssinghal exec`` prints of a program that ran out of memory, in a log that has TTNN's own message as well."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ssinghal.core.record import Status, Verdict, sentence
from ssinghal.diagnose.model import Failure
from ssinghal.errors import LINE_LIMIT, cut

MARK = "ssinghal: "  # before each line of a report
RAN_OUT = " ran out of memory: "
COMMAND = "ssinghal probe "
# Both lines have the name of the function, and so the anchor of what is read of a large log.
_HEAD = re.compile(r"(?P<name>ttnn\.\S{1,200})" + RAN_OUT + r"(?P<sentence>.{1,600}?)(?: in test (?P<test>\S{1,400}))?$")
_CALL = re.compile(r"  the call of ttnn\.\S{1,200}: " + COMMAND + r"(?P<words>.{1,4000})$")
_KNOWN = 1_000  # reports


def head(name: str, verdict: Verdict, test: str) -> str:
    """Returns the first line of a report."""
    return f"{name}{RAN_OUT}{cut(sentence(verdict), LINE_LIMIT)}{f' in test {test}' if test else ''}"


def call_line(name: str, command: str) -> str:
    """Returns the line with the call as a command of ``probe``."""
    return f"  the call of {name}: {command}"


@dataclass
class OwnReports:
    """``calls``: the words of ``probe`` by what ran out, as ``core.record.sentence`` writes it."""

    calls: dict[str, str] = field(default_factory=dict)
    _lines: dict[str, int] = field(default_factory=dict)
    _last: str = ""

    def take(self, text: str, number: int) -> bool:
        """Takes a line of a report; returns whether it is one."""
        at = text.find(MARK)
        if at < 0:
            return False
        words = text[at + len(MARK) :].rstrip()
        found = _HEAD.match(words)
        if found is not None:
            self._last = found["sentence"]
            if len(self._lines) < _KNOWN:
                self._lines.setdefault(self._last, number)
            return True
        call = _CALL.match(words)
        if call is not None and self._last in self._lines:
            self.calls.setdefault(self._last, call["words"])
        return words.startswith("  ")

    def without_message(self, failures: Sequence[Failure]) -> list[Failure]:
        """Returns what the reports state to have run out, where the text lacks TTNN's message."""
        known = {cut(sentence(failure.verdict), LINE_LIMIT) for failure in failures}
        return [
            Failure(Verdict(Status.ERROR, message=text), line, is_suspect=True)
            for text, line in self._lines.items()
            if text not in known
        ]


def call_of(failure: Failure, calls: Mapping[str, str]) -> str | None:
    """Returns the words of ``probe`` that a report has for a failure."""
    return calls.get(cut(sentence(failure.verdict), LINE_LIMIT))
