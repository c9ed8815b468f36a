"""Collects the failures of a log, each once, however often the log repeats it on its way up the stack."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

from ssinghal.core.record import Status, Verdict
from ssinghal.diagnose.model import Failure, PythonCall
from ssinghal.diagnose.parse.error_lines import error_key
from ssinghal.diagnose.running_function import NamedFunctions, function_of_operation
from ssinghal.diagnose.tracebacks import same_test

MEMORY_LIMIT = 10_000  # different failures that are kept
OTHER_LIMIT = 1_000


@dataclass(frozen=True)
class SeenFailure:
    """A failure of ``process`` as one text shows it, whether it is known already or not."""

    verdict: Verdict
    process: str = ""
    test: str = ""
    call: PythonCall | None = None
    named: NamedFunctions = field(default_factory=NamedFunctions)
    is_cut: bool = False


class Failures:
    """The different failures, in the order that they came. ``left_out``: how many were beyond the limits."""

    def __init__(self) -> None:
        self._all: list[Failure] = []
        self._named: list[NamedFunctions] = []
        self.left_out = 0
        self._alike: dict[tuple[str, Verdict], list[int]] = {}  # positions of those of one process with equal numbers
        self._thrown: dict[tuple[str, str], int] = {}  # position of the last complete one, by process and place in TTNN
        self._others = 0  # that are not about memory

    @property
    def all(self) -> Iterator[Failure]:
        for failure, named in zip(self._all, self._named, strict=True):
            functions = replace(named, operation=function_of_operation(failure.operation)).functions
            yield replace(failure, functions=functions)

    @property
    def cut(self) -> int:
        """The number of failures of which only a shortened text is known."""
        return sum(failure.is_cut for failure in self._all)

    def add(self, seen: SeenFailure, new: Callable[[], Failure]) -> int | None:
        """Returns the position of the failure: a known one of equal numbers, process and test, else a ``new`` one.

        None where it is beyond the limits. The first text of a failure dates it; later ones may add the place in TTNN, the call
        and the test.
        """
        key = (seen.process, error_key(seen.verdict))
        for at in self._complete_ones(seen) if seen.is_cut else self._alike.get(key, ()):
            if self._may_be_of(at, seen.test):
                self._complete(at, seen)
                return at
        others = seen.verdict.resource is None
        if self._others >= OTHER_LIMIT if others else len(self._all) - self._others >= MEMORY_LIMIT:
            self.left_out += 1
            return None
        self._others += others
        self._alike.setdefault(key, []).append(len(self._all))
        if not seen.is_cut:
            self._thrown[seen.process, seen.verdict.thrown_at] = len(self._all)
        self._all.append(new())
        self._named.append(seen.named)
        return len(self._all) - 1

    def _complete_ones(self, seen: SeenFailure) -> Iterator[int]:
        """Yields the failures that a text without its message may be about.

        They were thrown at the same place, or are about memory and their place is unknown.
        """
        last = self._thrown.get((seen.process, seen.verdict.thrown_at))
        if last is not None:
            yield last
        unplaced = self._thrown.get((seen.process, ""))
        if unplaced is not None and self._all[unplaced].verdict.resource is not None:
            yield unplaced
        yield from self._alike.get((seen.process, error_key(seen.verdict)), ())

    def _may_be_of(self, at: int, test: str) -> bool:
        known = self._all[at].test
        return not (known and test) or same_test(known, test)

    def _complete(self, at: int, seen: SeenFailure) -> None:
        known = self._all[at]
        fuller = known.verdict if seen.is_cut or known.verdict.thrown_at or not seen.verdict.thrown_at else seen.verdict
        longer = max(known.test, seen.test, key=len)
        self._all[at] = replace(known, verdict=fuller, times=known.times + 1, call=known.call or seen.call, test=longer)
        self._named[at] = self._named[at].joined(seen.named)

    def place(self, at: int, call: PythonCall) -> None:
        """Sets the call of a failure whose place follows the error in the log."""
        self._all[at] = replace(self._all[at], call=call)

    def name_functions(self, at: int, named: NamedFunctions) -> None:
        """Adds the functions that lines after the error name."""
        self._named[at] = self._named[at].joined(named)

    def name(self, node: str, verdict: Verdict | None, line: int, *, is_cut: bool) -> None:
        """Adds a line of pytest's summary, which has the complete name of a test but only the start of the message.

        It belongs to a failure of that test, or to one with that start of a message; else it is a new failure.
        """
        for at, known in enumerate(self._all):
            if known.test and same_test(known.test, node):
                self._all[at] = replace(known, test=max(known.test, node, key=len))
                return
        if verdict is None:
            return
        for at, known in enumerate(self._all):
            if not known.test and _may_be_same(verdict, known.verdict):
                self._all[at] = replace(known, test=node, times=known.times + 1)
                return
        self.add(SeenFailure(verdict, test=node, is_cut=is_cut), lambda: Failure(verdict, line, test=node, is_cut=is_cut))


def _may_be_same(shortened: Verdict, known: Verdict) -> bool:
    if shortened.status is not Status.ERROR:
        return error_key(shortened) == error_key(known)
    return shortened.error_type == known.error_type
