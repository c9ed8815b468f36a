"""Answers cases on the workers of a Dask cluster."""

from __future__ import annotations

import queue
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from ssinghal.core.closing import Closing
from ssinghal.core.device_facts import DeviceFacts
from ssinghal.core.record import Record
from ssinghal.core.verdict import DecidedBy, Status, Verdict
from ssinghal.errors import HarnessError
from ssinghal.runner.cluster.chunks import MAX_LOSSES, Chunk, Chunks
from ssinghal.runner.cluster.link import Link, TaskLost
from ssinghal.runner.cluster.members import LOOK_S, Members
from ssinghal.runner.cluster.tasks import Answers, Run, answer_chunk, close_devices
from ssinghal.runner.probers import POLL_S, Numbered
from ssinghal.runner.tasks import ProbeTask

_EACH = 2  # chunks that a worker has: one that runs, and the next


@dataclass(frozen=True)
class _Running:
    worker: str
    chunk: Chunk


class DaskProber(Closing):
    """Hands chunks of cases to the workers of a cluster, few at a time, and repeats those of lost workers.

    ``wait_s``: how long it waits for a worker where there is none. ``note``: gets a line about workers that were lost.
    ``waits``: gets a line when the first wait for a worker begins.

    Raises:
        HarnessError: There is no worker, one is not as the others, or no device opens.
    """

    def __init__(
        self, link: Link, run: Run, *, wait_s: float, note: Callable[[str], object], waits: Callable[[str], object] = str
    ) -> None:
        self._link, self._run, self._wait_s, self._note = link, run, wait_s, note
        self._members = Members(link, run, note)
        self._running: dict[Any, _Running] = {}
        self._finished: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._lost_workers: set[str] = set()
        try:
            self.facts: DeviceFacts = self._members.start(wait_s, waits)
        except BaseException:
            self.close()
            raise

    def answers(self, cases: Iterable[Numbered], stopped: Callable[[], bool]) -> Iterator[tuple[int, Record]]:
        """See ``Prober``.

        Raises:
            HarnessError: The scheduler is gone, or all workers are and no other joined.
        """
        chunks = Chunks(cases)
        looked = had_worker = time.monotonic()
        try:
            while not stopped():
                if time.monotonic() - looked > LOOK_S:
                    self._members.look()
                    yield from self._repeat_lost(chunks)
                    looked = time.monotonic()
                self._hand_out(chunks)
                if not self._running and not chunks.remaining:
                    return
                if self._members.usable:
                    had_worker = time.monotonic()
                elif time.monotonic() - had_worker > self._wait_s and not self._members.checking:
                    raise HarnessError(f"all workers were lost, and no other joined within {self._wait_s:g} s")
                with suppress(queue.Empty):
                    future = self._finished.get(timeout=POLL_S)
                    if stopped():
                        return
                    yield from self._ended(future, chunks)
        finally:
            self._link.forget(self._running)
            self._running.clear()

    def close(self) -> None:
        """Ends the device processes on all workers, and what they are doing."""
        if self._lost_workers:
            count = len(self._lost_workers)
            self._note(f"lost workers: {count}; their chunks were repeated")
        self._members.close()
        self._link.run_beside(self._members.present, close_devices, self._run.name)

    def _hand_out(self, chunks: Chunks) -> None:
        workers = self._members.usable
        load: dict[str, list[Chunk]] = {worker: [] for worker in workers}
        for running in self._running.values():
            if running.worker in load:
                load[running.worker].append(running.chunk)
        for turn in range(_EACH):
            for worker, own in load.items():
                if len(own) > turn or any(chunk.suspect for chunk in own):
                    continue
                chunk = chunks.take(len(workers), idle=not own)
                if chunk is None:
                    continue
                own.append(chunk)
                future = self._link.submit(worker, self._finished.put, answer_chunk, self._run, chunk.cases)
                self._running[future] = _Running(worker, chunk)

    def _ended(self, future: Any, chunks: Chunks) -> Iterator[tuple[int, Record]]:
        running = self._running.pop(future, None)
        if running is None:  # of a worker that was lost since
            return
        worker, chunk = running.worker, running.chunk
        try:
            answers: Answers = self._link.result(future)
        except TaskLost:
            self._members.look()  # the scheduler may be gone, for which the worker is not to blame
            yield from self._lost(worker, chunk, chunks)
        except HarnessError as error:
            self._members.refuse(worker, str(error))
            chunks.give_back(chunk)
        else:
            chunks.ended(len(chunk.cases), answers.seconds)
            yield from answers.records

    def _repeat_lost(self, chunks: Chunks) -> Iterator[tuple[int, Record]]:
        """Takes back the chunks of workers that are gone."""
        gone = {future: running for future, running in self._running.items() if running.worker not in self._members.present}
        for future in gone:
            del self._running[future]
        self._link.forget(gone)
        for running in gone.values():
            yield from self._lost(running.worker, running.chunk, chunks)

    def _lost(self, worker: str, chunk: Chunk, chunks: Chunks) -> Iterator[tuple[int, Record]]:
        self._lost_workers.add(worker)
        guilty = chunks.lost(chunk)
        if guilty is not None:
            number, case = guilty
            message = f"{MAX_LOSSES} workers of the cluster were lost while they had this case alone"
            verdict = Verdict(Status.CRASH, stage="call", decided_by=DecidedBy.HARNESS, message=message)
            yield number, ProbeTask(case).lost(verdict, self.facts)
