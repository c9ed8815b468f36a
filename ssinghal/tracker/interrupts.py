"""Holds signals back while something is recorded: an exception of their handler would come between TTNN and the record."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGALRM)  # Ctrl-C, the end, and the time limits of test suites


class HeldSignals:
    """Delivers a signal when the record is written, to the handler of the program."""

    def __init__(self) -> None:
        self._handlers: dict[int, Callable[[int, Any], Any]] = {}
        self._came: list[tuple[Callable[[int, Any], Any], int, Any]] = []

    def hold(self) -> None:
        """Handlers are those of the main thread; in others there is nothing to hold."""
        if threading.get_ident() != threading.main_thread().ident:
            return
        for number in _SIGNALS:
            handler = signal.getsignal(number)
            if callable(handler) and handler != self._note:
                self._handlers[number] = handler
                signal.signal(number, self._note)

    def _note(self, number: int, frame: Any) -> None:
        self._came.append((self._handlers[number], number, frame))

    def release(self) -> None:
        """Gives the handlers back and calls those of the signals that came; what they raise passes through."""
        while self._handlers:
            number, handler = next(iter(self._handlers.items()))
            signal.signal(number, handler)
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
