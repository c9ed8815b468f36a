"""Which of TTNN's functions may have been running when an error came, by what the text around it names.

Names are Python's, without ``ttnn.``: ``reshape``, ``transformer.scaled_dot_product_attention``.
"""

from __future__ import annotations

import re
from collections import deque
from dataclasses import dataclass, field, fields
from typing import NamedTuple

from ssinghal.device.error_patterns import HEAD_CHARS
from ssinghal.diagnose.model import Operation
from ssinghal.diagnose.parse.mlir import bracketed, split
from ssinghal.diagnose.ttnn_functions import operators_calling

NESTED_LIMIT = 4  # functions that a log shows running inside one another: fewer, where it does not say which finished

_CALL = re.compile(r"(?<![\w\"'#!./])ttnn\.(?P<name>[a-z_]\w*(?:\.\w+)*)\s*\(")
_RUNS_NOTHING = ("create_", "init_", "get_", "is_", "has_", "open_", "close_", "set_", "graph.", "device.", "synchronize_")
_KEYWORD = re.compile(r"\w+\s*=(?!=)")
_OWN_OPERATION = re.compile(r"\w*Operation\(python_fully_qualified_name='ttnn\.(?P<name>[\w.]+)'")
_LOG_WORDS = ("Started ", "Finished ")
_LOGGED = re.compile(r" *(?:C\+\+ ttnn operation: *)?ttnn(?:\.|::)(?P<name>[a-z_][\w.:]*)")
_CPP_NAME = re.compile(r"\bttnn(?:::\w+)+")
_NEW_WORD = re.compile(r"(?<=[a-z\d])(?=[A-Z][a-z])")

_CONVOLUTIONS = ("conv2d", "conv1d", "conv_transpose2d")
_POOLS = ("max_pool2d", "avg_pool2d")
_PARTS_OF = {
    "conv2d": _CONVOLUTIONS,
    "halo": (*_CONVOLUTIONS, *_POOLS, "upsample"),
    "pool": _POOLS,
    "pool2d": _POOLS,
    "matmul": ("matmul", "linear"),
    "layernorm": ("layer_norm", "rms_norm"),
    "layer_norm": ("layer_norm", "rms_norm"),
    "groupnorm": ("group_norm",),
    "reshape_view": ("reshape",),
    "tilize": ("to_layout", "tilize"),
    "tilize_with_val_padding": ("to_layout", "tilize_with_val_padding"),
    "untilize": ("to_layout", "untilize"),
    "untilize_with_unpadding": ("to_layout", "untilize_with_unpadding"),
}
"""What a part of TTNN in C++, which is no function of its own or not only that, works for."""


def calls_ttnn(source: str) -> bool:
    return _CALL.search(source) is not None


def functions_called(source: str, column: int | None = None) -> tuple[str, ...]:
    """TTNN's functions in a line of Python, in its order. ``column``: where Python says that the expression that failed begins;
    where that is a call of TTNN it is the only one.

    >>> functions_called("y = ttnn.to_memory_config(ttnn.softmax(x), ttnn.DRAM_MEMORY_CONFIG)")
    ('to_memory_config', 'softmax')
    """
    found = [call for call in _CALL.finditer(source) if not call["name"].startswith(_RUNS_NOTHING)]
    pointed = [call for call in found if call.start() == column]
    return tuple(dict.fromkeys(call["name"] for call in pointed or found))


def arguments_of_call(source: str) -> list[str] | None:
    """Those by position of the one call of TTNN in ``source``; None where there are several, it is not whole, or one of them
    stands for any number."""
    calls = list(_CALL.finditer(source))
    if len(calls) != 1:
        return None
    inner, _ = bracketed(source, calls[0].end() - 1)
    given = split(inner)
    if calls[0].end() + len(inner) == len(source) or any(one.startswith("*") for one in given):
        return None
    return [one for one in given if not _KEYWORD.match(one)]


def own_operation(text: str) -> tuple[str, ...]:
    """The function whose object a test report shows as an argument of TTNN's own Python."""
    found = _OWN_OPERATION.search(text)
    return (found["name"],) if found else ()


def of_operation(operation: Operation | None) -> tuple[str, ...]:
    return (operation.name.removeprefix("ttnn."),) if operation and operation.name.startswith("ttnn.") else ()


def of_frame(text: str) -> tuple[str, ...]:
    """What a line of a C++ backtrace works for.

    >>> of_frame(" --- ttnn::operations::conv::conv2d::Conv2dDeviceOperation::create(...)")
    ('conv2d', 'conv1d', 'conv_transpose2d')
    """
    return narrowed(*(_of_cpp_name(name) for name in _CPP_NAME.findall(text)))


def _of_cpp_name(name: str) -> tuple[str, ...]:
    for part in reversed(name.split("::")):
        known_as = _NEW_WORD.sub("_", part.removesuffix("DeviceOperation")).lower()
        if known_as in _PARTS_OF:
            return _PARTS_OF[known_as]
        if operators_calling(known_as):
            return (known_as,)
    return ()


class LoggedFunction(NamedTuple):
    """A function that a line of a log, from ``at`` on, says starts, or else has finished."""

    name: str
    at: int
    starts: bool


def logged(text: str) -> LoggedFunction | None:
    for what in _LOG_WORDS:
        at = text.find(what, 0, HEAD_CHARS)
        if at >= 0 and (found := _LOGGED.match(text, at + len(what))):
            return LoggedFunction(found["name"].rstrip(".:").replace("::", "."), at, starts=what is _LOG_WORDS[0])
    return None


def narrowed(*found: tuple[str, ...]) -> tuple[str, ...]:
    """The names that come first, without those that a later part of the text excludes; it may name others altogether."""
    known: tuple[str, ...] = ()
    for names in found:
        known = tuple(name for name in known if name in names) or known or names
    return known


@dataclass(frozen=True)
class NamedFunctions:
    """What each part of the text names, the most trusted first: the operation of a compiler's runtime, the user's line of
    Python, TTNN's own Python, the log, a backtrace."""

    operation: tuple[str, ...] = ()
    source: tuple[str, ...] = ()
    own: tuple[str, ...] = ()
    log: tuple[str, ...] = ()
    backtrace: tuple[str, ...] = ()

    def joined(self, other: NamedFunctions) -> NamedFunctions:
        """With what ``other``, of the same failure, says where this says nothing. Lines of a backtrace narrow one another."""
        parts = {part.name: getattr(self, part.name) or getattr(other, part.name) for part in fields(self)}
        return NamedFunctions(**parts | {"backtrace": narrowed(self.backtrace, other.backtrace)})

    @property
    def functions(self) -> tuple[str, ...]:
        return narrowed(self.operation, self.source, self.own, self.log, self.backtrace)


@dataclass
class UnfinishedFunctions:
    """The functions that a log says have started and not finished, of one process."""

    _running: deque[str] = field(default_factory=lambda: deque(maxlen=NESTED_LIMIT))
    _failed: bool = False

    def feed(self, found: LoggedFunction) -> None:
        if found.starts:
            if self._failed:  # nothing finishes that raised an error
                self._running.clear()
                self._failed = False
            self._running.append(found.name)
        elif found.name in self._running:
            while self._running.pop() != found.name:
                pass

    def fail(self) -> None:
        self._failed = True

    @property
    def names(self) -> tuple[str, ...]:
        """The innermost first."""
        return tuple(dict.fromkeys(reversed(self._running)))
