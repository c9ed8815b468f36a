"""Many cases into a run's folder, outside pytest: each has its record in the end, however the run ends."""

from __future__ import annotations

import queue
import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, replace
from functools import partial

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
PATIENCE_S = 0.2  # within which Ctrl-C is noticed


def sweep(
    cases: Sequence[Case],
    choice: DeviceChoice,
    options: PoolOptions,
    folder: RunFolder,
    told: Callable[[Record], None],
    *,
    submitting: Callable[[Pool], AbstractContextManager[Submit]],
) -> signal.Signals | None:
    """Probes ``cases`` and returns the signal that ended the sweep early, or None.

    ``submitting(pool)`` yields the function that submits a case to the pool.

    Each record is on disk, and ``told``, as soon as its case has ended. What allocates most goes first: those calls tend to be
    the slow ones, and none of them should be left to a single worker in the end. Cases that a run never reached, whatever
    ended it, get a ``not_run`` record that says so.

    Raises:
        HarnessError, OSError: no device opens, or the folder cannot be written.
    """
    board = load_board(choice.board)
    finished: queue.SimpleQueue[tuple[int, Future[Record]]] = queue.SimpleQueue()

    def report(number: int, done: Future[Record]) -> None:
        finished.put((number, done))

    def write(number: int, record: Record) -> None:
        made = waiting.pop(number)
        folder.append(replace(record, estimate=made.to_json()).to_json())
        told(record)

    with _signals_kept() as caught:
        waiting = {number: estimate(case, board) for number, case in enumerate(cases)}
        why = ""
        try:
            with Pool(choice, options) as pool, submitting(pool) as submit:
                folder.set_device(asdict(pool.facts))
                for number in sorted(waiting, key=lambda number: -_allocated_bytes(waiting[number])):
                    submit(cases[number]).add_done_callback(partial(report, number))
                while waiting and not caught:
                    try:
                        number, done = finished.get(timeout=PATIENCE_S)
                    except queue.Empty:
                        continue
                    if not caught:  # a signal to the whole group ends workers too, which is no fault of their cases
                        write(number, done.result())
        except (HarnessError, OSError) as error:
            why = f": {error}"
            raise
        finally:
            for number in tuple(waiting):
                why = f": {caught[0].name}" if caught else why
                write(number, unprobed(cases[number], Status.NOT_RUN, f"the run ended before it{why}", board.name))
    return caught[0] if caught else None


@contextmanager
def _signals_kept() -> Iterator[list[signal.Signals]]:
    """Ctrl-C and SIGTERM join a list, instead of an exception that might fall between a record and its line."""
    caught: list[signal.Signals] = []

    def catch(number: int, _: object) -> None:
        caught.append(signal.Signals(number))

    heeded = [number for number in (signal.SIGINT, signal.SIGTERM) if signal.getsignal(number) is not signal.SIG_IGN]
    before = {number: signal.signal(number, catch) for number in heeded}
    try:
        yield caught
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _allocated_bytes(made: MemoryEstimate) -> int:
    return sum(allocation.allocated_bytes for allocation in made.allocations)
