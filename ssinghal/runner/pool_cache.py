"""Pools that are opened when first needed, each once, and closed together."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from contextlib import AbstractContextManager, ExitStack
from threading import Lock
from typing import Any, Generic, TypeVar

from ssinghal.errors import HarnessError

P = TypeVar("P")


class PoolCache(ExitStack, Generic[P]):
    """Pools by key: workers of a board, a release, or both. A context manager; may be used by several threads."""

    def __init__(self, opened: dict[Hashable, P] | None = None) -> None:
        """``opened``: pools that the caller closes."""
        super().__init__()
        self._pools: dict[Hashable, P] = dict(opened or {})
        self._lock = Lock()
        self._closed = False

    def __exit__(self, *details: Any) -> bool | None:
        """Closes the pools. None opens from now on: nobody would close it."""
        with self._lock:
            self._closed = True
        return super().__exit__(*details)

    def pool(self, key: Hashable, create: Callable[[], AbstractContextManager[P]]) -> P:
        """Returns the pool of ``key``, which ``create`` opens where there is none yet. HarnessError once they are closed."""
        with self._lock:
            if self._closed:
                raise HarnessError("the workers were ended")
            if key not in self._pools:
                self._pools[key] = self.enter_context(create())
            return self._pools[key]
