"""Holds signals back while something is recorded: an exception of their handler would come between TTNN and the record."""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # what signal wraps: many times as fast, and never replaced by a program
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

_SIGNALS = tuple(sorted(int(number) for number in signal.valid_signals()))  # a program may have a handler for any of them


class HeldSignals:
    """Delivers a signal when the record is written, to the handler of the program.

    Blocking signals in this thread would not do: the system delivers them to one of TTNN's threads, and Python calls the
    handler here all the same.
    """

    def __init__(self) -> None:
        self._handlers: dict[int, Callable[[int, Any], Any]] = {}
        self._came: list[tuple[Callable[[int, Any], Any], int, Any]] = []

    def hold(self) -> None:
        """Handlers are those of the main thread; in others there is nothing to hold."""
        if threading.get_ident() != threading.main_thread().ident:
            return
        for number in _SIGNALS:
            handler = _signal.getsignal(number)
            if callable(handler) and handler != self._note:
                self._handlers[number] = handler
                _signal.signal(number, self._note)

    def _note(self, number: int, frame: Any) -> None:
        self._came.append((self._handlers[number], number, frame))

    def release(self) -> None:
        """Gives the handlers back and calls those of the signals that came; what they raise passes through."""
        while self._handlers:
            number, handler = next(iter(self._handlers.items()))
            _signal.signal(number, handler)
            del self._handlers[number]
        while self._came:
            handler, number, frame = self._came.pop(0)
            handler(number, frame)

    @contextmanager
    def held(self) -> Iterator[None]:
        try:
            self.hold()
            yield
        finally:
            self.release()
