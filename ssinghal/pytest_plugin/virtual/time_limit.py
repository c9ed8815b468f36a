"""Ends a test that takes too long: Python code by an exception, native code by ending the process."""

from __future__ import annotations

import faulthandler
import signal
import sys
import time
from collections.abc import Generator
from types import FrameType

import pytest
from _pytest.faulthandler import fault_handler_stderr_fd_key
from _pytest.outcomes import Failed

GRACE_S = 10.0  # for native code to return to Python after the limit, before the process is ended


class TimeLimitExceeded(Failed):
    """Set-up and call of a test took longer than they may."""

    __module__ = "builtins"  # as pytest has it, so that reports show the bare name


class TimeLimit:
    """Limits set-up and call of each test together; its teardown has the grace time of native code."""

    def __init__(self, config: pytest.Config, limit_s: float) -> None:
        self._limit_s = limit_s
        self._ends = 0.0
        self._output = config.stash.get(fault_handler_stderr_fd_key, None)  # standard error, which pytest may capture

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self) -> Generator[None, object, object]:
        self._ends = time.monotonic() + self._limit_s
        output = sys.__stderr__ if self._output is None else self._output
        faulthandler.dump_traceback_later(self._limit_s + GRACE_S, exit=True, file=output)  # type: ignore[arg-type]
        try:
            return (yield)
        finally:
            faulthandler.cancel_dump_traceback_later()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_setup(self) -> Generator[None, object, object]:
        return (yield from self._limited())

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self) -> Generator[None, object, object]:
        return (yield from self._limited())

    def _limited(self) -> Generator[None, object, object]:
        previous = signal.signal(signal.SIGALRM, self._exceeded)
        signal.setitimer(signal.ITIMER_REAL, max(self._ends - time.monotonic(), 0.001))
        try:
            return (yield)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, previous)

    def _exceeded(self, number: int, frame: FrameType | None) -> None:
        raise TimeLimitExceeded(f"it took longer than {self._limit_s:g} s", pytrace=True)
