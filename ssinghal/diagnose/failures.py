"""Failures as they are read: each told once, however often a log repeats it on its way up."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from ssinghal.diagnose.messages import error_key
from ssinghal.diagnose.reading import Failure, PythonCall
from ssinghal.diagnose.tracebacks import same_test
from ssinghal.records import Status, Verdict

MEMORY_LIMIT = 10_000  # different ones that are kept
OTHER_LIMIT = 1_000


class Failures:
    """In the order that they came. ``left_out``: those beyond the limits. ``cut``: of which only a shortened text is known."""

    def __init__(self) -> None:
        self.all: list[Failure] = []
        self.left_out = 0
        self.cut = 0
        self._alike: dict[tuple[str, Verdict], list[int]] = {}  # where those of one process with equal figures are
        self._others = 0

    def add(
        self, verdict: Verdict, process: str, test: str, call: PythonCall | None, made: Callable[[], Failure]
    ) -> int | None:
        """Where the failure is: one known of equal figures, process and test, else the one ``made``; None where none is kept.

        Of a known one the first text says when it was; a later one may say more: the place in TTNN, the call, the test.
        """
        key = (process, error_key(verdict))
        for at in self._alike.get(key, ()):
            known = self.all[at]
            if known.test and test and not same_test(known.test, test):
                continue
            fuller = known.verdict if known.verdict.thrown_at or not verdict.thrown_at else verdict
            longer = max(known.test, test, key=len)
            self.all[at] = replace(known, verdict=fuller, times=known.times + 1, call=known.call or call, test=longer)
            return at
        others = verdict.resource is None
        if self._others >= OTHER_LIMIT if others else len(self.all) - self._others >= MEMORY_LIMIT:
            self.left_out += 1
            return None
        self._others += others
        self._alike.setdefault(key, []).append(len(self.all))
        self.all.append(made())
        return len(self.all) - 1

    def place(self, at: int, call: PythonCall) -> None:
        """The call's place, where that follows the error."""
        self.all[at] = replace(self.all[at], call=call)

    def name(self, node: str, verdict: Verdict | None, line: int) -> None:
        """A line of pytest's summary: it names a test in full, but cuts the message.

        So it tells of a failure that is known by its test, or by what is left of the message; else of one that only it tells.
        """
        for at, known in enumerate(self.all):
            if known.test and same_test(known.test, node):
                self.all[at] = replace(known, test=max(known.test, node, key=len))
                return
        if verdict is None:
            return
        key = None if verdict.status is Status.ERROR else error_key(verdict)
        for at, known in enumerate(self.all):
            if not known.test and key in (None, error_key(known.verdict)):
                self.all[at] = replace(known, test=node, times=known.times + 1)
                return
        self.cut += verdict.message.endswith("...")
        self.add(verdict, "", node, None, lambda: Failure(verdict, line, test=node))
