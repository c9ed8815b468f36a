"""Probes many cases into a run's folder, outside pytest. However the run ends, each case has its record."""

from __future__ import annotations

import queue
import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

from ssinghal.core.boards import load_board
from ssinghal.core.case import Case
from ssinghal.core.record import Record, Status
from ssinghal.device.modes import DeviceChoice
from ssinghal.errors import HarnessError
from ssinghal.estimation.estimator import MemoryEstimate, estimate
from ssinghal.runner.pool import Pool
from ssinghal.runner.tasks import PoolOptions
from ssinghal.runs.writer import RunFolder, unprobed

Submit = Callable[[Case], "Future[Record]"]
POLL_S = 0.2  # the longest time until Ctrl-C is noticed


def sweep(
    cases: Sequence[Case],
    choice: DeviceChoice,
    options: PoolOptions,
    folder: RunFolder,
    report: Callable[[Record], None],
    *,
    submitting: Callable[[Pool], AbstractContextManager[Submit]],
) -> signal.Signals | None:
    """Probes ``cases`` and returns the signal that ended the sweep early, or None.

    ``submitting(pool)`` yields the function that submits a case to the pool. Each record is written, and passed to ``report``,
    as soon as its case has ended. Cases that allocate most go first: they tend to be slow, and none should remain for a single
    worker at the end. Cases that the run did not reach get a ``not_run`` record with the reason, which is not reported.

    Raises:
        HarnessError, OSError: no device opens, or the folder cannot be written.
    """
    board = load_board(choice.board)
    finished: queue.SimpleQueue[tuple[int, Future[Record]]] = queue.SimpleQueue()

    def finish(number: int, done: Future[Record]) -> None:
        finished.put((number, done))

    def line(number: int, record: Record) -> dict[str, Any]:
        return replace(record, estimate=waiting.pop(number).stored()).to_json()

    with _collected_signals() as caught:
        waiting = {number: estimate(case, board) for number, case in enumerate(cases)}
        why = ""
        try:
            with Pool(choice, options) as pool, submitting(pool) as submit:
                folder.set_device(pool.facts)
                for number in sorted(waiting, key=lambda number: -_allocated_bytes(waiting[number])):
                    submit(cases[number]).add_done_callback(partial(finish, number))
                while waiting and not caught:
                    try:
                        number, done = finished.get(timeout=POLL_S)
                    except queue.Empty:
                        continue
                    if not caught:  # a signal to the whole group ends workers too, and the cases are not to blame
                        folder.append(line(number, done.result()))
                        report(done.result())
        except (HarnessError, OSError) as error:
            why = f": {error}"
            raise
        finally:
            for number in tuple(waiting):
                why = f": {caught[0].name}" if caught else why
                record = unprobed(cases[number], Status.NOT_RUN, f"the run ended before it{why}", board.name)
                folder.append_unreached(line(number, record))
    return caught[0] if caught else None


@contextmanager
def _collected_signals() -> Iterator[list[signal.Signals]]:
    """Collects Ctrl-C and SIGTERM in a list, as an exception might come between a record and its line."""
    caught: list[signal.Signals] = []

    def catch(number: int, _: object) -> None:
        caught.append(signal.Signals(number))

    handled = [number for number in (signal.SIGINT, signal.SIGTERM) if signal.getsignal(number) is not signal.SIG_IGN]
    before = {number: signal.signal(number, catch) for number in handled}
    try:
        yield caught
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _allocated_bytes(estimated: MemoryEstimate) -> int:
    return sum(allocation.allocated_bytes for allocation in estimated.allocations)
