"""Turns an object that is closed into a context manager."""

from __future__ import annotations

from typing import TypeVar

T = TypeVar("T")


class Closing:
    """A context manager that closes itself at the end of its block."""

    def close(self) -> None:
        raise NotImplementedError

    def __enter__(self: T) -> T:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
