"""Failures as they are read: each told once, however often a log repeats it on its way up."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

from ssinghal.core.record import Status, Verdict
from ssinghal.diagnose.model import Failure, PythonCall
from ssinghal.diagnose.parse.error_lines import error_key
from ssinghal.diagnose.running_function import NamedFunctions, of_operation
from ssinghal.diagnose.tracebacks import same_test

MEMORY_LIMIT = 10_000  # different ones that are kept
OTHER_LIMIT = 1_000


@dataclass(frozen=True)
class SeenFailure:
    """What a text says of a failure, of ``process``, whether that is known already or not."""

    verdict: Verdict
    process: str = ""
    test: str = ""
    call: PythonCall | None = None
    named: NamedFunctions = field(default_factory=NamedFunctions)
    is_cut: bool = False


class Failures:
    """In the order that they came. ``left_out``: those beyond the limits. ``cut``: of which only a shortened text is known."""

    def __init__(self) -> None:
        self._all: list[Failure] = []
        self._named: list[NamedFunctions] = []
        self.left_out = 0
        self._alike: dict[tuple[str, Verdict], list[int]] = {}  # where those of one process with equal figures are
        self._thrown: dict[tuple[str, str], int] = {}  # the last of a process from a place in TTNN that is known in full
        self._others = 0

    @property
    def all(self) -> Iterator[Failure]:
        for failure, named in zip(self._all, self._named, strict=True):
            functions = replace(named, operation=of_operation(failure.operation)).functions
            yield replace(failure, functions=functions)

    @property
    def cut(self) -> int:
        return sum(failure.is_cut for failure in self._all)

    def add(self, seen: SeenFailure, made: Callable[[], Failure]) -> int | None:
        """Where the failure is: one known of equal figures, process and test, else the one ``made``; None where none is kept.

        Of a known one the first text says when it was; a later one may say more: the place in TTNN, the call, the test.
        """
        key = (seen.process, error_key(seen.verdict))
        for at in self._in_full(seen) if seen.is_cut else self._alike.get(key, ()):
            if self._may_be_of(at, seen.test):
                self._tell_more(at, seen)
                return at
        others = seen.verdict.resource is None
        if self._others >= OTHER_LIMIT if others else len(self._all) - self._others >= MEMORY_LIMIT:
            self.left_out += 1
            return None
        self._others += others
        self._alike.setdefault(key, []).append(len(self._all))
        if not seen.is_cut:
            self._thrown[seen.process, seen.verdict.thrown_at] = len(self._all)
        self._all.append(made())
        self._named.append(seen.named)
        return len(self._all) - 1

    def _in_full(self, seen: SeenFailure) -> Iterator[int]:
        """What a text without its message may be of: what was thrown at the same place, or of memory and at no place known."""
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

    def _tell_more(self, at: int, seen: SeenFailure) -> None:
        known = self._all[at]
        fuller = known.verdict if seen.is_cut or known.verdict.thrown_at or not seen.verdict.thrown_at else seen.verdict
        longer = max(known.test, seen.test, key=len)
        self._all[at] = replace(known, verdict=fuller, times=known.times + 1, call=known.call or seen.call, test=longer)
        self._named[at] = self._named[at].joined(seen.named)

    def place(self, at: int, call: PythonCall) -> None:
        """The call's place, where that follows the error."""
        self._all[at] = replace(self._all[at], call=call)

    def name_functions(self, at: int, named: NamedFunctions) -> None:
        """What lines after the error say was running."""
        self._named[at] = self._named[at].joined(named)

    def name(self, node: str, verdict: Verdict | None, line: int, *, is_cut: bool) -> None:
        """A line of pytest's summary: it names a test in full, but cuts the message.

        So it tells of a failure that is known by its test, or by what is left of the message; else of one that only it tells.
        """
        for at, known in enumerate(self._all):
            if known.test and same_test(known.test, node):
                self._all[at] = replace(known, test=max(known.test, node, key=len))
                return
        if verdict is None:
            return
        for at, known in enumerate(self._all):
            if not known.test and _may_be(verdict, known.verdict):
                self._all[at] = replace(known, test=node, times=known.times + 1)
                return
        self.add(SeenFailure(verdict, test=node, is_cut=is_cut), lambda: Failure(verdict, line, test=node, is_cut=is_cut))


def _may_be(shortened: Verdict, known: Verdict) -> bool:
    if shortened.status is not Status.ERROR:
        return error_key(shortened) == error_key(known)
    return shortened.error_type == known.error_type
