"""Pools by key: each opened once, when first needed, and all closed together."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from time import sleep

import pytest

from ssinghal.errors import DeviceError, HarnessError
from ssinghal.runner.pool_cache import PoolCache


class Log:
    def __init__(self) -> None:
        self.lines: list[str] = []

    @contextmanager
    def opened(self, name: str) -> Iterator[str]:
        self.lines.append(f"open {name}")
        yield name
        self.lines.append(f"close {name}")


def test_each_is_opened_once_and_the_last_is_closed_first():
    log = Log()
    with PoolCache[str]({"mine": "kept"}) as cache:
        assert log.lines == []
        assert [cache.pool(key, lambda key=key: log.opened(key)) for key in ("a", "b", "a", "mine")] == ["a", "b", "a", "kept"]
        assert log.lines == ["open a", "open b"]
    assert log.lines[2:] == ["close b", "close a"]


def test_threads_that_need_the_same_pool_share_it():
    log = Log()

    @contextmanager
    def slow() -> Iterator[str]:
        sleep(0.05)
        with log.opened("a") as name:
            yield name

    with PoolCache[str]() as cache, ThreadPoolExecutor(4) as executor:
        list(executor.map(lambda _: cache.pool("a", slow), range(4)))
        assert log.lines == ["open a"]


def test_one_that_does_not_open_is_tried_again():
    log = Log()

    def failing() -> None:
        raise DeviceError("no device")

    with PoolCache[str]() as cache:
        with pytest.raises(DeviceError):
            cache.pool("a", failing)
        assert cache.pool("a", lambda: log.opened("a")) == "a"


def test_none_opens_once_they_are_closed():
    """A thread of a search that goes on after Ctrl-C would open workers that nobody closes."""
    log = Log()
    with PoolCache[str]() as cache:
        cache.pool("a", lambda: log.opened("a"))
    for key in ("a", "b"):
        with pytest.raises(HarnessError, match="the workers were ended"):
            cache.pool(key, lambda: log.opened("b"))
    assert log.lines == ["open a", "close a"]
