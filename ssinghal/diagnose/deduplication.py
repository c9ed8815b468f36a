"""Collects the failures of a log, each once, however often the log repeats it on its way up the stack."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from ssinghal.core.verdict import Resource, Status, Verdict
from ssinghal.diagnose.model import Failure, FailureKind, PythonCall
from ssinghal.diagnose.nearby import Mentions
from ssinghal.diagnose.parse.error_lines import error_key
from ssinghal.diagnose.running_function import NamedFunctions
from ssinghal.diagnose.same_failure import (
    figures,
    has_figures,
    may_be_part,
    may_be_start,
    places_agree,
)
from ssinghal.diagnose.seen_failures import KnownFailure, SeenFailure
from ssinghal.diagnose.tracebacks import same_test, test_key

MEMORY_LIMIT = 10_000  # different failures that are kept
OTHER_LIMIT = 1_000
NEAR_LINES = 60  # between the parts of one report, such as the summary line of a test and the message
NEXT_LINES = 8  # between a condition that has no message and the message
WORDS_NEAR_LINES = 400  # between a failure and its paraphrase in words that are not understood
COMPARED = 20  # latest failures with a figure that a new one is compared with
_UNDERSTOOD = (FailureKind.MEMORY, FailureKind.REFUSED)
_CAUSES = (*_UNDERSTOOD, FailureKind.SUSPECT)


class Failures:
    """The different failures, by line. ``left_out``: how many were beyond the limits."""

    def __init__(self) -> None:
        self.left_out = 0
        self._known: list[KnownFailure] = []
        self._alike: defaultdict[Verdict, list[int]] = defaultdict(list)  # positions of those with equal numbers
        self._by_figure: defaultdict[tuple[str, int], list[int]] = defaultdict(list)
        self._thrown: dict[str, int] = {}  # position of the last complete one, by place in TTNN
        self._of_test: defaultdict[str, list[int]] = defaultdict(list)
        self._untested: dict[int, None] = {}  # positions of those of no test
        self._others = 0  # that are not about memory

    @property
    def all(self) -> Iterator[Failure]:
        left = sorted((known for known in self._known if not known.is_gone), key=lambda known: known.failure.line)
        understood = [known for known in left if known.failure.kind in _UNDERSTOOD]
        causes = [known for known in left if not known.failure.is_echo]
        for known in left:
            if not (_is_paraphrase(known, understood) or (known.failure.is_echo and _has_cause(known, causes))):
                yield known.result()

    @property
    def cut(self) -> int:
        """The number of failures of which only a shortened text is known."""
        return sum(known.failure.is_cut for known in self._known if not known.is_gone)

    def add(self, seen: SeenFailure, new: Callable[[], Failure]) -> int | None:
        """Returns the position of the failure: a known one that the text may be about, else a ``new`` one.

        None where it is beyond the limits. The first text of a failure dates it; later ones may add figures, the place in TTNN,
        the call and the test.
        """
        if (cause := self._cause_of(seen)) is not None:
            self._complete(cause, seen, is_text=False)
            return cause
        for at in self._same_ones(seen):
            if self._known[at].may_be(seen):
                if not seen.is_incomplete:
                    self._join_header(seen, at)
                self._complete(at, seen)
                return at
        if not seen.is_incomplete and (header := self._header_before(seen)) is not None:
            self._put_message(header, seen)
            return header
        if seen.is_echo and (echo := self._echo_before(seen)) is not None:
            self._complete(echo, seen, is_text=False)
            return echo
        others = seen.verdict.resource is None
        if self._others >= OTHER_LIMIT if others else len(self._known) - self._others >= MEMORY_LIMIT:
            self.left_out += 1
            return None
        self._others += others
        at = len(self._known)
        failure = replace(new(), is_echo=seen.is_echo)
        processes = {seen.process: None} if seen.process else {}
        self._known.append(KnownFailure(failure, seen.named, seen.line, processes, seen.near, seen.is_incomplete))
        self._index(at, seen)
        self._note_test(at)
        return at

    def _complete(self, at: int, seen: SeenFailure, *, is_text: bool = True) -> None:
        self._known[at].complete(seen, is_text=is_text)
        self._note_test(at)

    def _note_test(self, at: int) -> None:
        test = self._known[at].test
        if not test:
            self._untested[at] = None
        elif self._untested.pop(at, at) is None or at not in self._of_test[test_key(test)][-COMPARED:]:
            self._of_test[test_key(test)].append(at)

    def _index(self, at: int, seen: SeenFailure) -> None:
        self._alike[seen.key].append(at)
        if seen.verdict.resource is not None:
            for figure in figures(seen.verdict):
                self._by_figure[figure].append(at)
        if not seen.is_incomplete and not seen.is_echo:
            self._thrown[seen.verdict.thrown_at] = at

    def _same_ones(self, seen: SeenFailure) -> Iterator[int]:
        """Yields the failures that the text may be about, the likeliest first."""
        if seen.is_incomplete:
            yield from self._complete_ones(seen)
        yield from (at for at in self._alike.get(seen.key, ()) if not self._known[at].is_gone)
        if seen.verdict.resource is None:
            return
        alike = {at for figure in figures(seen.verdict) for at in self._by_figure.get(figure, ())[-COMPARED:]}
        if not has_figures(seen.verdict):
            alike = set(range(max(0, len(self._known) - COMPARED), len(self._known)))
        for at in sorted(alike, reverse=True):
            known = self._known[at]
            of_host = seen.verdict.resource is known.verdict.resource is Resource.HOST and self._is_near(at, seen)
            if not known.is_gone and (of_host or may_be_part(seen.verdict, known.verdict)):
                yield at

    def _complete_ones(self, seen: SeenFailure) -> Iterator[int]:
        """Yields the failures that a text without its message may be about.

        They were thrown at the same place, or are about memory and their place is unknown.
        """
        last = self._thrown.get(seen.verdict.thrown_at) if seen.verdict.thrown_at else None
        if last is not None:
            yield last
        unplaced = self._thrown.get("")
        if unplaced is None or not (seen.is_cut or self._is_near(unplaced, seen)):
            return
        if self._known[unplaced].verdict.resource is not None:
            yield unplaced

    def _is_near(self, at: int, seen: SeenFailure, lines: int = NEAR_LINES) -> bool:
        return abs(seen.line - self._known[at].last) <= lines

    def _header_before(self, seen: SeenFailure) -> int | None:
        """Returns the last failure if only its header is known and the text may be its message."""
        at = self._last()
        if at is None or seen.is_echo or seen.is_suspect:
            return None
        known = self._known[at]
        lines = NEAR_LINES if known.failure.is_cut else NEXT_LINES
        is_before = known.is_incomplete and self._is_near(at, seen, lines) and places_agree(known.verdict, seen.verdict)
        return at if is_before and known.may_be_of(seen.test) else None

    def _last(self) -> int | None:
        return next((at for at in range(len(self._known) - 1, -1, -1) if not self._known[at].is_gone), None)

    def _join_header(self, seen: SeenFailure, to: int) -> None:
        """Drops the header before the text, which is a known failure's; its test is that of the failure."""
        at = self._header_before(seen)
        if at is None or at == to or not self._known[to].may_be_of(self._known[at].test):
            return
        header = self._known[at]
        header.is_gone = True
        self._complete(to, replace(seen, test=header.test, call=header.failure.call, named=header.named), is_text=False)

    def _put_message(self, at: int, seen: SeenFailure) -> None:
        """Sets the verdict of a failure of which only the header was known."""
        known = self._known[at]
        verdict = replace(seen.verdict, thrown_at=seen.verdict.thrown_at or known.verdict.thrown_at)
        was_other, is_other = known.verdict.resource is None, verdict.resource is None
        self._others += is_other - was_other
        known.failure = replace(known.failure, verdict=verdict, is_cut=False)
        known.is_incomplete = False
        self._complete(at, seen, is_text=False)
        self._index(at, replace(seen, verdict=verdict))

    def _cause_of(self, seen: SeenFailure) -> int | None:
        """Returns the failure that a text is a consequence of: an echo, an error while it was handled, or an abort after it."""
        if seen.is_echo:
            latest = range(len(self._known) - 1, max(-1, len(self._known) - 1 - COMPARED), -1)
            return next((at for at in latest if self._is_cause(at, seen)), None)
        status, last = seen.verdict.status, self._last()
        is_abort = status is Status.CRASH and seen.verdict.error_type == "SIGABRT"
        at: int | None = None
        if status is Status.ERROR and not seen.is_suspect:
            at = seen.follows
        elif is_abort and last is not None and self._is_near(last, seen):
            at = last
        if at is None or not self._is_cause(at, seen):
            return None
        return at if self._known[at].failure.kind in _CAUSES else None

    def _echo_before(self, seen: SeenFailure) -> int | None:
        """Returns the last failure if it is an echo too: both repeat one that the text does not have."""
        at = self._last()
        is_echo = at is not None and self._known[at].failure.is_echo and self._known[at].may_be_of(seen.test)
        return at if at is not None and is_echo and self._is_near(at, seen, WORDS_NEAR_LINES) else None

    def _is_cause(self, at: int, seen: SeenFailure) -> bool:
        known = self._known[at]
        return not known.is_gone and not known.failure.is_echo and known.may_be_of(seen.test)

    def place(self, at: int, call: PythonCall) -> None:
        """Sets the call of a failure whose place follows the error in the log."""
        self._known[at].failure = replace(self._known[at].failure, call=call)

    def complete_call(self, at: int, call: PythonCall, functions: tuple[str, ...]) -> None:
        """Adds the call of a traceback after the error, which no other error ended."""
        known = self._known[at]
        known.failure = replace(known.failure, call=known.failure.call or call)
        self.name_functions(at, NamedFunctions(source=functions))

    def name_functions(self, at: int, named: NamedFunctions) -> None:
        """Adds functions that the text beside the error names."""
        self._known[at].named = self._known[at].named.joined(named)

    def add_frame(self, at: int, text: str) -> None:
        """Adds a line of the backtrace after the error; one after a later text of the error is the same again."""
        known = self._known[at]
        if not known.has_backtrace:
            known.named = known.named.with_frame(text)

    def mention(self, at: int, mentions: Mentions) -> None:
        """Adds what a line after the error mentions."""
        self._known[at].after = self._known[at].after.joined(mentions)

    def name(self, node: str, seen: SeenFailure | None, new: Callable[[], Failure]) -> int | None:
        """Adds a line of pytest's summary, which has the complete name of a test and perhaps the start of the message.

        It belongs to a failure of that test, or to one with that start of a message; else it is a new failure. Returns its
        position.
        """
        for at in self._of_test.get(test_key(node), ()):
            known = self._known[at]
            if not known.is_gone and same_test(known.test, node) and _agrees(known, seen):
                known.failure = replace(known.failure, test=max(known.test, node, key=len))
                return at
        if seen is None:
            return None
        for at in self._same_ones(seen) if seen.verdict.resource is not None else list(self._untested):
            known = self._known[at]
            if not known.is_gone and not known.test and may_be_start(seen.verdict, known.verdict):
                known.failure = replace(known.failure, test=node, times=known.failure.times + 1)
                self._note_test(at)
                return at
        return self.add(seen, new)


def _agrees(known: KnownFailure, seen: SeenFailure | None) -> bool:
    """Returns whether a line of a test's summary may be about a failure of that test."""
    if seen is None or seen.verdict.resource is None or known.verdict.resource is None:
        return True
    return error_key(seen.verdict) == error_key(known.verdict) or may_be_part(seen.verdict, known.verdict)


def _is_paraphrase(known: KnownFailure, understood: Sequence[KnownFailure]) -> bool:
    """Returns whether words that are not understood stand near a failure that is."""
    failure = known.failure
    return failure.is_suspect and any(
        one.may_be_of(known.test)
        and one.failure.line - WORDS_NEAR_LINES <= failure.line <= max(one.last, one.failure.line) + WORDS_NEAR_LINES
        for one in understood
    )


def _has_cause(known: KnownFailure, causes: Sequence[KnownFailure]) -> bool:
    return any(one.may_be_of(known.test) for one in causes)
