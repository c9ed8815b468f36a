"""Lets tasks run side by side, or one of them alone."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Condition


class Gate:
    """Many threads may be inside at once, or a single one that wants to be alone. Those that want to be alone go first, one
    after the other, as soon as all others have left; a thread must leave before it may enter again."""

    def __init__(self) -> None:
        self._changed = Condition()
        self._inside = 0
        self._want_alone = 0

    @contextmanager
    def shared(self) -> Iterator[None]:
        """Enters once no thread is alone or waits to be."""
        with self._changed:
            self._changed.wait_for(lambda: not self._want_alone)
            self._inside += 1
        try:
            yield
        finally:
            self._leave()

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Enters once no thread is inside, and keeps all others out."""
        with self._changed:
            self._want_alone += 1
            self._changed.wait_for(lambda: not self._inside)
            self._inside += 1
        try:
            yield
        finally:
            self._leave(was_alone=True)

    def _leave(self, *, was_alone: bool = False) -> None:
        with self._changed:
            self._inside -= 1
            self._want_alone -= was_alone
            self._changed.notify_all()
