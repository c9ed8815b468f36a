"""The connection to a Dask scheduler, in terms of this project: workers by address, tasks pinned to one, errors in one line."""

from __future__ import annotations

import asyncio
import concurrent.futures
import gc
import logging
import os
import signal
import socket
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from multiprocessing import resource_tracker
from typing import Any

import dask
from distributed import Client, Future, KilledWorker, LocalCluster
from distributed.comm import CommClosedError, connect, get_address_host_port
from distributed.security import Security

from ssinghal.core.closing import Closing
from ssinghal.core.signals import ENDING
from ssinghal.device.virtual_cache import scratch_folder
from ssinghal.errors import HarnessError

CONNECT_S = 5.0
_DIAL_S = 0.8 * CONNECT_S  # of these, for the connection alone, of which Dask then states the reason
_ANSWER_S = 20.0  # of the scheduler
_FETCH_S = 5.0
_CLOSE_S = 10.0
# Log lines of a lost worker or scheduler, which the run reports in its own words. Its diagrams need no code of this project.
_QUIET = {
    "distributed.admin.large-graph-warning-threshold": "1GB",
    "distributed.diagnostics.computations.nframes": 0,
    "distributed.worker.memory.target": False,  # results are small and taken at once: nothing to move to a disk
    "distributed.worker.memory.spill": False,
    "distributed.worker.memory.pause": False,
    "distributed.worker.memory.terminate": False,
}
# How Dask states that a task's worker is gone, in place of what the task raised.
_WORKER_GONE = (KilledWorker, CommClosedError, asyncio.CancelledError, concurrent.futures.CancelledError)
_LOST = (KilledWorker, asyncio.CancelledError, concurrent.futures.CancelledError, asyncio.TimeoutError, TimeoutError, OSError)


class TaskLost(Exception):
    """A task that ended without a result, as its worker or its data is gone."""


class Link(Closing):
    """An open connection to a scheduler."""

    def __init__(self, client: Client, where: str) -> None:
        self._client = client
        self.where = where
        self._count = 0

    def workers(self) -> set[str]:
        """Returns the addresses of the workers.

        Raises:
            HarnessError: The scheduler is gone.
        """
        if self._client.status == "running":
            with suppress(*_LOST):
                return set(self._client.sync(self._client.scheduler.ncores, callback_timeout=_ANSWER_S))
        raise self._gone()

    def _gone(self) -> HarnessError:
        return HarnessError(f"the Dask scheduler {self.where} went away")

    def submit(self, worker: str, done: Callable[[Future], object], function: Callable[..., Any], *arguments: Any) -> Future:
        """Starts a task on one worker, and on no other; ``done`` is called with it in another thread when it has ended.

        Raises:
            HarnessError: The scheduler is gone.
        """
        if self._client.status != "running":
            raise self._gone()
        self._count += 1
        future = self._client.submit(
            function,
            *arguments,
            key=f"{function.__name__}-{self._client.id}-{self._count}",
            workers=[worker],
            allow_other_workers=False,
            pure=False,
        )
        future.add_done_callback(done)
        return future

    def result(self, future: Future) -> Any:
        """Returns what a task that has ended returned, and lets its worker forget it.

        Raises:
            TaskLost: The worker or the result is gone.
            HarnessError: As the task raised it, or any other exception in a line.
        """
        try:
            if future.status == "error" and not isinstance(error := future.exception(timeout=_FETCH_S), _WORKER_GONE):
                raise error if isinstance(error, HarnessError) else HarnessError(f"{type(error).__name__}: {error}")
            return future.result(timeout=_FETCH_S)
        except _LOST as error:
            raise TaskLost(str(error)) from error
        finally:
            future.release()

    def forget(self, futures: Iterable[Future]) -> None:
        """Cancels tasks; what is running already goes on."""
        remaining = list(futures)
        if remaining and self._client.status == "running":
            with suppress(*_LOST):
                self._client.cancel(remaining, force=True)

    def run_beside(self, workers: Iterable[str], function: Callable[..., None], *arguments: Any) -> None:
        """Calls a function on workers at once, whatever task they have; those that are gone, or hang, are left out."""
        wanted = list(workers)
        if wanted and self._client.status == "running":
            with suppress(*_LOST):
                self._client.run(function, *arguments, workers=wanted, on_error="ignore", callback_timeout=_CLOSE_S)

    def close(self) -> None:
        with suppress(*_LOST):
            self._client.close(timeout=_CLOSE_S)


@contextmanager
def connected(address: str) -> Iterator[Link]:
    """Connects to a scheduler.

    Raises:
        HarnessError: It cannot be reached.
    """
    with _quiet():
        try:
            with ThreadPoolExecutor(1) as thread:  # in this one an event loop may be running, as in a notebook
                thread.submit(asyncio.run, asyncio.wait_for(_greeted(address), CONNECT_S)).result()
            client = Client(address, timeout=CONNECT_S, set_as_default=False)
        except (*_LOST, ValueError, TypeError, RuntimeError, ImportError) as error:
            raise HarnessError(f"no Dask scheduler at {address} within {CONNECT_S:g} s: {_reason(address, error)}") from error
        with Link(client, address) as link:
            yield link


def _reason(address: str, error: BaseException) -> str:
    """Returns the system's own words where there are some; Dask's are of the number of seconds that it tried."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, OSError) and cause.strerror:
            return cause.strerror
        cause = cause.__cause__
    # Dask keeps the outcome of its last attempt alone, which its own limit may have cut.
    return _refused(address) or next((line for line in str(error).splitlines() if line.strip()), "no answer")


def _refused(address: str) -> str | None:
    """Returns why nothing connects to an address; None if something does, or nothing answers for a second."""
    try:
        socket.create_connection(get_address_host_port(address), timeout=1).close()
    except OSError as error:
        return error.strerror
    except ValueError:  # a kind of address without host and port
        pass
    return None


async def _greeted(address: str) -> None:
    """Exchanges greetings with what listens at an address. A client of Dask would wait for them without an end.

    Raises:
        OSError: Nothing is there, or no scheduler.
    """
    try:
        peer = await connect(address, timeout=_DIAL_S, **Security().get_connection_args("client"))
        try:
            await peer.write({"op": "identity", "reply": True})
            kind = (await peer.read())["type"]
        finally:
            peer.abort()
    except CommClosedError as error:
        raise OSError("what listens there ended the connection") from error
    except (*_LOST, ValueError, TypeError, RuntimeError):
        raise
    except Exception as error:  # of whatever Dask or a codec makes of bytes that are no message of Dask
        raise OSError("what listens there does not speak as Dask does") from error
    if kind != "Scheduler":
        raise OSError(f"what listens there is a {kind} of Dask")


@contextmanager
def local_cluster(workers: int) -> Iterator[Link]:
    """Starts a cluster of this machine alone, with keys of its own: whoever reaches a scheduler can run code.

    Raises:
        HarnessError: It does not start.
    """
    with _quiet(), ExitStack() as stack:
        folder = stack.enter_context(scratch_folder())
        # A signal may reach the complete group, but this process ends its workers itself. They inherit the mask of the thread
        # that starts them, and that thread the one of this block. The start of the resource tracker would clear it.
        _start_resource_tracker()
        before = signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)
        try:
            security = Security.temporary()
            cluster = LocalCluster(
                n_workers=workers,
                threads_per_worker=1,
                host="127.0.0.1",
                protocol="tls://",
                security=security,
                dashboard_address="127.0.0.1:0",  # its server always runs; any free port, and without the pages
                scheduler_kwargs={"dashboard": False},
                local_directory=str(folder),
                memory_limit=0,
                silence_logs=logging.CRITICAL,
            )
            stack.callback(_close_cluster, cluster)
            client = Client(cluster, security=security, timeout=CONNECT_S, set_as_default=False)
        except (*_LOST, RuntimeError) as error:
            raise HarnessError(f"the local Dask cluster does not start: {str(error) or type(error).__name__}") from error
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        yield stack.enter_context(Link(client, cluster.scheduler_address))


def _close_cluster(cluster: LocalCluster) -> None:
    with suppress(*_LOST):
        cluster.close(timeout=_CLOSE_S)


def _start_resource_tracker() -> None:
    """Starts the process that frees what this one leaves when it is killed, without the warning that it prints then."""
    name = "PYTHONWARNINGS"
    before = os.environ.get(name)
    os.environ[name] = ",".join(filter(None, [before, "ignore::UserWarning:multiprocessing.resource_tracker"]))
    try:
        resource_tracker.ensure_running()
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before


@contextmanager
def _quiet() -> Iterator[None]:
    loggers = [logging.getLogger(name) for name in logging.root.manager.loggerDict if name.partition(".")[0] in _LOGGERS]
    before = [(logger, logger.level) for logger in loggers]
    with dask.config.set(_QUIET):
        try:
            for logger in loggers:
                logger.setLevel(logging.CRITICAL + 1)
            yield
        finally:
            gc.collect()  # tasks of Dask that nobody waited for complain when they go: now, not later
            for logger, level in before:
                logger.setLevel(level)


_LOGGERS = ("asyncio", "distributed", "tornado")
