"""What the texts of one failure state together: the figures, the call, the test, the functions and the processes."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from ssinghal.core.verdict import Verdict
from ssinghal.diagnose.cpp_names import functions_of_test
from ssinghal.diagnose.echoes import is_echo
from ssinghal.diagnose.model import Failure, PythonCall
from ssinghal.diagnose.nearby import MENTIONS_LIMIT, NOTHING, Mentions
from ssinghal.diagnose.parse.error_lines import error_key
from ssinghal.diagnose.running_function import NamedFunctions, function_of_operation, functions_of_verdict
from ssinghal.diagnose.same_failure import fuller, has_figures, is_header_alone
from ssinghal.diagnose.tracebacks import same_test


@dataclass(frozen=True)
class SeenFailure:
    """A failure of ``process`` as one text on ``line`` shows it, whether it is known already or not.

    ``follows``: position of the failure that was being handled when it was raised, or that it was raised from.
    ``near``: what the lines before mention.
    """

    verdict: Verdict
    process: str = ""
    test: str = ""
    call: PythonCall | None = None
    named: NamedFunctions = field(default_factory=NamedFunctions)
    is_cut: bool = False
    is_suspect: bool = False
    line: int = 0
    follows: int | None = None
    near: Mentions = NOTHING

    @property
    def is_incomplete(self) -> bool:
        """Whether the message itself may be elsewhere."""
        return (self.is_cut and not has_figures(self.verdict)) or is_header_alone(self.verdict)

    @property
    def key(self) -> Verdict:
        """A value that is equal for texts about one error. Conditions are alike in many places."""
        key = error_key(self.verdict)
        return replace(key, thrown_at=self.verdict.thrown_at) if self.is_incomplete else key

    @property
    def is_echo(self) -> bool:
        return not self.is_suspect and is_echo(self.verdict)


@dataclass
class KnownFailure:
    """A failure, and what its texts state of it. ``last``: the line of the latest. ``is_gone``: it is part of another."""

    failure: Failure
    named: NamedFunctions
    last: int
    processes: dict[str, None]
    near: Mentions
    is_incomplete: bool = False
    after: Mentions = NOTHING
    has_backtrace: bool = False
    is_gone: bool = False

    @property
    def test(self) -> str:
        return self.failure.test

    @property
    def verdict(self) -> Verdict:
        return self.failure.verdict

    def may_be_of(self, test: str) -> bool:
        return not (self.test and test) or same_test(self.test, test)

    def may_be(self, seen: SeenFailure) -> bool:
        """Returns whether a text of equal figures may be about this failure: not if it is of another test or another call."""
        called, called_there = self.named.source, seen.named.source
        return self.may_be_of(seen.test) and (not (called and called_there) or not set(called).isdisjoint(called_there))

    def complete(self, seen: SeenFailure, *, is_text: bool = True) -> None:
        """Adds what another text states. ``is_text``: it is the failure's own text and not an echo's."""
        known = self.failure
        verdict = known.verdict
        if is_text and verdict.resource is not None and seen.verdict.resource is not None:
            verdict = fuller(verdict, seen.verdict)
        elif is_text and not verdict.thrown_at:
            verdict = replace(verdict, thrown_at=seen.verdict.thrown_at)
        self.failure = replace(
            known,
            verdict=verdict,
            line=min(known.line, seen.line) if is_text else known.line,
            times=known.times + is_text,
            is_cut=known.is_cut and (seen.is_cut or not is_text),
            call=known.call or seen.call,
            test=max(known.test, seen.test, key=len),
        )
        self.named = self.named.joined(seen.named)
        self.has_backtrace = bool(self.named.frames)
        self.near = self.near.completed(seen.near)
        self.last = max(self.last, seen.line)
        if seen.process:
            self.processes[seen.process] = None

    def result(self) -> Failure:
        failure = self.failure
        of_message = functions_of_verdict(failure.verdict)
        named = replace(self.named.joined(of_message), operation=function_of_operation(failure.operation))
        near = self.near.completed(self.after)
        mentioned = near.functions if len(near.functions) <= MENTIONS_LIMIT else ()
        return replace(
            failure,
            functions=named.functions,
            processes=tuple(self.processes),
            mentioned=() if named.functions else tuple(dict.fromkeys((*mentioned, *functions_of_test(failure.test)))),
            shapes=near.shapes,
        )
