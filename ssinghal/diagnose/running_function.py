"""Names the functions of TTNN that may have been running when an error came, from the text around it.

Names are Python's, without ``ttnn.``: ``reshape``, ``transformer.scaled_dot_product_attention``.
"""

from __future__ import annotations

import re
from collections import deque
from dataclasses import dataclass, field, fields, replace
from typing import NamedTuple

from ssinghal.core.verdict import Verdict
from ssinghal.device.error_patterns import HEAD_CHARS
from ssinghal.diagnose.cpp_names import functions_in_sentence, functions_of_frame, functions_of_source, narrowed
from ssinghal.diagnose.model import Operation
from ssinghal.diagnose.parse.brackets import bracketed, split

FRAMES_LIMIT = 32  # of a backtrace that name functions
NESTED_LIMIT = 4  # functions that run inside one another, by a log that may not show which of them finished

_CALL = re.compile(r"(?<![\w\"'#!./])ttnn\.(?P<name>[a-z_]\w*(?:\.\w+)*)\s*\(")
_RUNS_NOTHING = ("create_", "init_", "get_", "is_", "has_", "open_", "close_", "set_", "graph.", "device.", "synchronize_")
_KEYWORD = re.compile(r"\w+\s*=(?!=)")
_OWN_OPERATION = re.compile(r"\w*Operation\(python_fully_qualified_name='ttnn\.(?P<name>[\w.]+)'")
_LOG_WORDS = ("Started ", "Finished ")
_LOGGED = re.compile(r" *(?:C\+\+ ttnn operation: *)?ttnn(?:\.|::)(?P<name>[a-z_][\w.:]*)")


def calls_ttnn(source: str) -> bool:
    """Returns whether a line of Python calls a function of TTNN."""
    return _CALL.search(source) is not None


def functions_called(source: str, column: int | None = None) -> tuple[str, ...]:
    """Returns the functions of TTNN that a line of Python calls, in its order.

    ``column``: where the expression that failed begins; if that is a call of TTNN, it is the only one returned.

    >>> functions_called("y = ttnn.to_memory_config(ttnn.softmax(x), ttnn.DRAM_MEMORY_CONFIG)")
    ('to_memory_config', 'softmax')
    """
    calls = [call for call in _CALL.finditer(source) if not call["name"].startswith(_RUNS_NOTHING)]
    pointed = [call for call in calls if call.start() == column]
    return tuple(dict.fromkeys(call["name"] for call in pointed or calls))


def arguments_of_call(source: str) -> list[str] | None:
    """Returns the positional arguments of the one call of TTNN in ``source``.

    None where there are several calls, the call is incomplete, or an argument stands for any number of them.
    """
    calls = list(_CALL.finditer(source))
    if len(calls) != 1:
        return None
    inner, _ = bracketed(source, calls[0].end() - 1)
    arguments = split(inner)
    if calls[0].end() + len(inner) == len(source) or any(argument.startswith("*") for argument in arguments):
        return None
    return [argument for argument in arguments if not _KEYWORD.match(argument)]


def own_operation(text: str) -> tuple[str, ...]:
    """Returns the function whose object a test report shows as an argument of TTNN's own Python."""
    match = _OWN_OPERATION.search(text)
    return (match["name"],) if match else ()


def function_of_operation(operation: Operation | None) -> tuple[str, ...]:
    """Returns the function of TTNN that an operation of a compiler's runtime is."""
    return (operation.name.removeprefix("ttnn."),) if operation and operation.name.startswith("ttnn.") else ()


class LoggedFunction(NamedTuple):
    """A function that a line of a log reports, from ``at`` on, as started (``starts``) or finished."""

    name: str
    at: int
    starts: bool


def logged_function(text: str) -> LoggedFunction | None:
    """Returns the function that a line of TTNN's log reports as started or finished; None for any other line."""
    for word in _LOG_WORDS:
        at = text.find(word, 0, HEAD_CHARS)
        if at >= 0 and (match := _LOGGED.match(text, at + len(word))):
            return LoggedFunction(match["name"].rstrip(".:").replace("::", "."), at, starts=word is _LOG_WORDS[0])
    return None


@dataclass(frozen=True)
class NamedFunctions:
    """The functions that each part of the text names, the most trusted part first.

    They are the operation of a compiler's runtime, the user's line of Python, TTNN's own Python, the log, a backtrace with the
    innermost frame first, the message itself and the source file that threw it.
    """

    operation: tuple[str, ...] = ()
    source: tuple[str, ...] = ()
    own: tuple[str, ...] = ()
    log: tuple[str, ...] = ()
    frames: tuple[tuple[str, ...], ...] = ()
    message: tuple[str, ...] = ()
    place: tuple[str, ...] = ()

    def joined(self, other: NamedFunctions) -> NamedFunctions:
        """Returns these names, completed by ``other`` of the same failure."""
        parts = {part.name: getattr(self, part.name) or getattr(other, part.name) for part in fields(self)}
        return NamedFunctions(**parts)

    def with_frame(self, text: str) -> NamedFunctions:
        """Returns these names with those of the next frame of the backtrace."""
        names = functions_of_frame(text)
        new = bool(names) and names not in self.frames[-1:] and len(self.frames) < FRAMES_LIMIT
        return replace(self, frames=(*self.frames, names)) if new else self

    @property
    def functions(self) -> tuple[str, ...]:
        """The names. The outermost frame is the user's function, which may have called others."""
        frames = narrowed(*reversed(self.frames))
        return narrowed(self.operation, self.source, self.own, self.log, frames, self.message, self.place)


def functions_of_verdict(verdict: Verdict) -> NamedFunctions:
    """Returns the functions that a message and its place in TTNN's source name."""
    return NamedFunctions(message=functions_in_sentence(verdict.message), place=functions_of_source(verdict.thrown_at))


@dataclass
class UnfinishedFunctions:
    """The functions of one process that a log reports as started and not as finished."""

    _running: deque[str] = field(default_factory=lambda: deque(maxlen=NESTED_LIMIT))
    _failed: bool = False

    def feed(self, function: LoggedFunction) -> None:
        if function.starts:
            if self._failed:  # a function that raised an error never finishes
                self._running.clear()
                self._failed = False
            self._running.append(function.name)
        elif function.name in self._running:
            while self._running.pop() != function.name:
                pass

    def fail(self) -> None:
        self._failed = True

    @property
    def names(self) -> tuple[str, ...]:
        """The names, the innermost function first."""
        return tuple(dict.fromkeys(reversed(self._running)))
