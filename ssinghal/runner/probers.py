"""Where the cases of a run are answered: in worker processes of this machine, or elsewhere by the same interface."""

from __future__ import annotations

import queue
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from itertools import islice
from typing import Protocol

from ssinghal.core.case import Case
from ssinghal.core.device_facts import DeviceFacts
from ssinghal.core.record import Record
from ssinghal.device.modes import DeviceChoice
from ssinghal.runner.pool import MAX_AHEAD, Pool
from ssinghal.runner.tasks import PoolOptions

Submit = Callable[[Case], "Future[Record]"]
# Given an open pool, yields the function that submits a case to it. Can be pickled, as it is called where the pool is.
Submitting = Callable[[Pool], AbstractContextManager[Submit]]
Numbered = tuple[int, Case]
POLL_S = 0.2  # the longest time until a signal is noticed


class Prober(Protocol):
    """Answers cases on an open device."""

    @property
    def facts(self) -> DeviceFacts:
        """What was opened."""

    def answers(self, cases: Iterable[Numbered], stopped: Callable[[], bool]) -> Iterator[tuple[int, Record]]:
        """Yields the record of each case with its number, as soon as it has ended. ``cases`` are taken as they are needed, few
        ahead. Returns early once ``stopped()``: what has not been yielded then has no answer."""


class LocalProber:
    """Answers cases in the worker processes of a pool."""

    def __init__(self, pool: Pool, submit: Submit) -> None:
        self.facts = pool.facts
        self._submit = submit

    def answers(self, cases: Iterable[Numbered], stopped: Callable[[], bool]) -> Iterator[tuple[int, Record]]:
        finished: queue.SimpleQueue[tuple[int, Future[Record]]] = queue.SimpleQueue()
        waiting = iter(cases)

        def finish(number: int, done: Future[Record]) -> None:
            finished.put((number, done))

        def start(count: int) -> int:
            started = 0
            for number, case in islice(waiting, count):
                self._submit(case).add_done_callback(partial(finish, number))
                started += 1
            return started

        running = start(MAX_AHEAD)
        while running and not stopped():
            try:
                number, done = finished.get(timeout=POLL_S)
            except queue.Empty:
                continue
            if stopped():  # a signal to the whole group ends workers too, and the cases are not to blame
                return
            running += start(1) - 1
            yield number, done.result()


@contextmanager
def local_prober(choice: DeviceChoice, options: PoolOptions, submitting: Submitting) -> Iterator[LocalProber]:
    """Opens worker processes on this machine.

    Raises:
        DeviceError: No device opens.
    """
    with Pool(choice, options) as pool, submitting(pool) as submit:
        yield LocalProber(pool, submit)
