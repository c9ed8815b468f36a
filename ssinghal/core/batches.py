"""Iterables a part at a time, for what is queried, or sent, of many values at once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TypeVar

T = TypeVar("T")


def batches(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """Yields the items in lists of ``size``, the last of which may be shorter.

    >>> list(batches("abcde", 2))
    [['a', 'b'], ['c', 'd'], ['e']]
    """
    waiting = iter(items)
    while some := list(islice(waiting, size)):
        yield some
