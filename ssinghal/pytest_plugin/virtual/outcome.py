"""Classes of outcomes, and what an exception belongs to."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from traceback import walk_tb
from types import TracebackType
from typing import Any

import pytest

from ssinghal.core.tensors import TextEnum
from ssinghal.core.verdict import Resource, Status, Verdict, sentence
from ssinghal.device.error_patterns import lacks_devices, translate_error
from ssinghal.pytest_plugin.virtual.comparisons import is_of_suite
from ssinghal.pytest_plugin.virtual.read_backs import ReadBacks
from ssinghal.pytest_plugin.virtual.time_limit import TimeLimitExceeded

_NOT_RAISED = "DID NOT RAISE"  # how pytest.raises fails
_BY_COMPARISONS = re.compile(r"\b(?:AssertionError|Exception)\b")  # what comparisons raise


class Outcome(TextEnum):
    """How a test ended; every test has exactly one."""

    PASSED = "passed"  # nothing was read back from a virtual device
    VALUES = "values not checked"  # it did all it does to memory; its values come from a virtual device
    ENDED = "ended at a value"  # of a virtual device, which Python judged: what follows was not run
    MEMORY = "memory"  # a memory of the device ran out
    REFUSED = "refused"  # TTNN rejected a call for another reason
    API_DRIFT = "API drift"  # it calls what this release of TTNN does not have
    HOST_MEMORY = "host memory"
    NEEDS_MORE_DEVICES = "needs more devices"
    TIMEOUT = "timeout"
    CRASH = "crash"  # the process died
    FAILED = "failed"  # for a reason that is none of the above
    SKIPPED = "skipped"
    XFAILED = "xfailed"  # it failed as the suite expects, for a reason that is none of the above


@dataclass(frozen=True)
class Judgement:
    """An outcome, and for ``memory`` and ``refused`` what TTNN stated."""

    outcome: Outcome
    verdict: Verdict | None = None
    reason: str = ""

    @property
    def text(self) -> str:
        """One line: what ran out and by how much, or the reason."""
        return sentence(self.verdict) if self.verdict is not None else self.reason


def judge(error: BaseException, read_backs: ReadBacks | None, root: Path) -> Judgement:
    """Returns what a test's exception belongs to. ``read_backs``: of the test, on a virtual device; ``root``: of the suite."""
    if isinstance(error, pytest.skip.Exception):
        few = asks_for_devices(str(error.msg))
        return Judgement(Outcome.NEEDS_MORE_DEVICES if few else Outcome.SKIPPED, reason=str(error.msg))
    if isinstance(error, TimeLimitExceeded):
        return Judgement(Outcome.TIMEOUT, reason=str(error))
    verdicts = [translate_error(type(one).__name__, str(one)) for one in chain(error)]
    for verdict in verdicts:
        if verdict.status is Status.OOM:
            kind = Outcome.HOST_MEMORY if verdict.resource is Resource.HOST else Outcome.MEMORY
            return Judgement(kind, verdict)
    lacking = next((verdict for verdict in verdicts if lacks_devices(verdict)), None)
    if lacking is not None:
        return Judgement(Outcome.NEEDS_MORE_DEVICES, reason=lacking.message)
    if read_backs is not None and not read_backs.differs_in_shape and _is_of_values(error, read_backs):
        by = "" if isinstance(error, (AssertionError, pytest.fail.Exception)) else f" by {type(error).__name__}"
        return Judgement(Outcome.ENDED, reason=f"ended at {_place(error, root)}{by}, what follows was not run")
    if isinstance(error, pytest.xfail.Exception):
        return Judgement(Outcome.XFAILED, reason=str(error.msg))
    verdict = verdicts[0]
    if verdict.status is Status.UNSUPPORTED or verdict.thrown_at:
        return Judgement(Outcome.REFUSED, verdict)
    causes = (error, error.__cause__)  # pytest raises another error from that of a module's import
    return Judgement(Outcome.API_DRIFT if any(map(is_api_drift, causes)) else Outcome.FAILED, reason=verdict.message)


def _place(error: BaseException, root: Path) -> str:
    """Returns file and line of the suite where an exception was raised, or where it called the library that raised it."""
    places = [(frame.f_code.co_filename, line) for frame, line in walk_tb(error.__traceback__)]
    if not places:
        return "an unknown line"
    file, line = next((place for place in reversed(places) if is_of_suite(place[0])), places[-1])
    path = Path(file)
    return f"{path.relative_to(root) if path.is_relative_to(root) else path}:{line}"


def _is_of_values(error: BaseException, read_backs: ReadBacks) -> bool:
    """Whether an exception may be due to values that were read back: then it is no failure, and nothing that was checked.

    An assertion after such a value was used in Python, or after a replaced comparison returned that values are equal; a
    replaced comparison that did not fail as expected; and, after a value was used in Python, an error of Python's own that
    depends on values, such as a division by zero.
    """
    if isinstance(error, pytest.fail.Exception) and str(error).startswith(_NOT_RAISED):
        return read_backs.was_compared and _BY_COMPARISONS.search(str(error)) is not None
    if isinstance(error, (AssertionError, pytest.fail.Exception)):
        return read_backs.has_escaped or read_backs.has_verdict
    return read_backs.has_escaped and isinstance(error, (ArithmeticError, LookupError, ValueError))


def chain(error: BaseException) -> Iterator[BaseException]:
    """Yields an exception, and those that it was raised from or during, as Python prints them."""
    seen: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        yield current
        current = current.__cause__ or (None if current.__suppress_context__ else current.__context__)


_COUNTED = r"(?:more|enough|multiple|several|all|fewer|less|\d+|two|four|eight)\b[\w ,+-]{0,30}?\b(?:devices?|chips?|cards?)\b"
_ASKED = re.compile(
    rf"(?:requir\w*|needs?|needed|request\w*|must have|at least|only (?:runs? )?on|not)\b.{{0,30}}?\b{_COUNTED}"
    rf"|\b{_COUNTED}.{{0,20}}(?:required|needed|necessary|not available)",
    re.IGNORECASE,
)


def asks_for_devices(reason: str) -> bool:
    """Whether the reason of a skip is that there are too few devices.

    >>> asks_for_devices("Requested more devices than available. Test not applicable for machine")
    True
    >>> asks_for_devices("requires a device with ethernet")
    False
    """
    return _ASKED.search(reason) is not None


# How Python words that a function takes other arguments.
_CALLED = re.compile(r"(?:\w+\.)*(\w+)\(\) (?:got an unexpected keyword|got multiple values|missing \d+ required|takes )")


def is_api_drift(error: BaseException | None) -> bool:
    """Whether a name, an argument or a module of TTNN is missing: what another release of it has."""
    if isinstance(error, AttributeError):
        return _is_of_ttnn(error.obj)
    if isinstance(error, ImportError):
        return (error.name or "").partition(".")[0] == "ttnn"
    if not isinstance(error, TypeError):
        return False
    called = _CALLED.match(str(error))
    return (
        "incompatible function arguments" in str(error)
        or _last_module(error.__traceback__) == "ttnn"
        or (called is not None and hasattr(sys.modules.get("ttnn"), called[1]))
    )


def _is_of_ttnn(value: Any) -> bool:
    """Whether a value is a module, a class or an object of TTNN."""
    name = getattr(value, "__module__", None) or getattr(value, "__name__", "") or type(value).__module__
    return str(name).partition(".")[0] == "ttnn"


def _last_module(traceback: TracebackType | None) -> str:
    """Returns the package whose function raised."""
    while traceback is not None and traceback.tb_next is not None:
        traceback = traceback.tb_next
    name = traceback.tb_frame.f_globals.get("__name__", "") if traceback is not None else ""
    return str(name).partition(".")[0]
