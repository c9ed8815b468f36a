"""Worker processes that run tasks, so that a crash or a hang of native code affects one task only."""

from __future__ import annotations

import os
import queue
import signal
import subprocess
import sys
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import islice, takewhile
from multiprocessing import Pipe
from pathlib import Path
from typing import Any, TypeVar

from ssinghal.core.case import Case
from ssinghal.core.closing import Closing
from ssinghal.core.device_facts import DeviceFacts, DeviceMode
from ssinghal.core.record import DecidedBy, Record, Status, Verdict
from ssinghal.device.modes import DeviceChoice
from ssinghal.device.releases import release_in_use
from ssinghal.device.virtual import apply_environment, environment_for
from ssinghal.device.virtual_cache import scratch_folder
from ssinghal.errors import DeviceError, HarnessError, NotProven
from ssinghal.runner.tasks import PoolOptions, ProbeTask, Task

R = TypeVar("R")

START_TIMEOUT_S = 120.0
MAX_AHEAD = 256  # cases that ``map`` has submitted: enough for all workers while one of them is at a slow case
# Run as a folder, which is then first on the worker's sys.path. With -m the working folder would be, with any files in it.
_WORKER = Path(__file__).with_name("worker")


class Pool(Closing):
    """Worker processes, each with an open device. Every task gets a result, whatever happens to the worker that has it.

    ``submit(case)`` and ``map(cases)`` give records. ``facts`` holds what was opened: board, TTNN release, bytes and number of
    banks. The first worker starts at once, the others on demand. Use as a context manager, and see ``open_pool``.

    Raises:
        DeviceError: There is no device, it failed its self-check, or numerics are requested of one that computes nothing.
    """

    def __init__(self, choice: DeviceChoice, options: PoolOptions = PoolOptions()) -> None:
        if options.numerics and choice.mode is DeviceMode.VIRTUAL:
            raise NotProven("a virtual device computes nothing: its values must not be compared")
        _hold_standard_descriptors()
        self.choice = choice
        self.options = options
        self._stack = ExitStack()
        if options.release is not None:
            self._stack.enter_context(release_in_use(options.release))
        scratch = self._stack.enter_context(scratch_folder())
        self._environment = environment_for(choice, scratch, release=options.release)
        imported_first = options.release.import_paths if options.release else []
        self._environment["PYTHONPATH"] = os.pathsep.join([*imported_first, *sys.path])
        self._scratch = scratch
        self._idle: queue.SimpleQueue[_Worker | None] = queue.SimpleQueue()
        self._busy: set[_Worker] = set()
        try:
            first = self._start()
        except BaseException:
            self._stack.close()
            raise
        self.facts: DeviceFacts = first.facts
        self._idle.put(first)
        for _ in range(options.workers - 1):
            self._idle.put(None)  # a place for a worker, filled when first needed
        self._executor: Executor = ThreadPoolExecutor(options.workers, "probe")

    def run(self, task: Task[R]) -> Future[R]:
        return self._executor.submit(self._run, task)

    def submit(self, case: Case) -> Future[Record]:
        """Returns the record to come."""
        return self.run(ProbeTask(case))

    def map(self, cases: Iterable[Case]) -> Iterator[Record]:
        """Yields the records in the order of the cases, which are taken as they are needed; few are in memory at a time."""
        waiting = iter(cases)
        ahead = deque(map(self.submit, islice(waiting, MAX_AHEAD)))
        while ahead:
            yield ahead.popleft().result()
            ahead.extend(map(self.submit, islice(waiting, 1)))

    def close(self) -> None:
        """Ends the workers at once and drops unfinished tasks."""
        self._executor.shutdown(wait=False, cancel_futures=True)
        for busy in tuple(self._busy):
            busy.kill()
        self._executor.shutdown(wait=True)
        while not self._idle.empty():
            worker = self._idle.get()
            if worker:
                worker.stop()
        self._stack.close()

    def _start(self) -> _Worker:
        return _Worker(self.choice, self.options, self._environment, self._scratch)

    def _run(self, task: Task[R]) -> R:
        idle: _Worker | None = self._idle.get()
        try:
            try:
                worker = idle if idle is not None and idle.is_alive() else self._start()
            except (HarnessError, OSError) as error:  # it opened before, so the run continues
                idle = None
                message = str(error).splitlines()[0]
                return task.lost(
                    Verdict(Status.ERROR, stage="device", decided_by=DecidedBy.HARNESS, message=message), self.facts
                )
            self._busy.add(worker)
            try:
                result, alive = worker.run(task)
            finally:
                self._busy.discard(worker)
            exhausted = alive and task.exhausted_host(result)
            if exhausted:
                worker.stop()
            idle = worker if alive and not exhausted else None
            return result
        finally:
            self._idle.put(idle)


class _Worker:
    """One process with one open device."""

    def __init__(self, choice: DeviceChoice, options: PoolOptions, environment: dict[str, str | None], scratch: Path) -> None:
        self._options = options
        self._log = scratch / f"worker-{os.urandom(4).hex()}.log"
        self._connection, theirs = Pipe()
        with theirs:
            self._process = _start_process(theirs.fileno(), None if choice.ttnn_log else self._log, environment)
        try:
            hello = self._ask((choice, options), START_TIMEOUT_S)
        except BaseException:  # Ctrl-C: nobody else knows of this process yet
            self.kill()
            self.stop()
            raise
        if not isinstance(hello, DeviceFacts):
            self.stop()
            if isinstance(hello, HarnessError):
                raise hello
            raise DeviceError(f"the device worker did not start: {hello.message}{self._last_words()}")
        self.facts = hello

    def run(self, task: Task[R]) -> tuple[R, bool]:
        """Returns the task's result, and whether the worker can take another task."""
        answer = self._ask(task, self._options.timeout_s)
        if not isinstance(answer, _WorkerLost):
            return answer, True
        self.stop()
        message = f"{answer.message}{self._last_words()}"
        return task.lost(Verdict(answer.status, stage="call", decided_by=DecidedBy.HARNESS, message=message), self.facts), False

    def is_alive(self) -> bool:
        """False for a process that ended while idle, for which the next task is not to blame."""
        return self._process.poll() is None

    def kill(self) -> None:
        """Ends a running call, whose caller gets the crash."""
        self._process.kill()

    def stop(self) -> None:
        self._connection.close()
        try:
            self._process.wait(2)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _ask(self, question: object, timeout_s: float) -> Any:
        """Returns the answer of the process, or a ``_WorkerLost`` with the reason why there is none."""
        try:
            self._connection.send(question)
            if not self._connection.poll(timeout_s):
                self._process.kill()
                return _WorkerLost(Status.TIMEOUT, f"no answer within {timeout_s:g} s")
            return self._connection.recv()
        except BrokenPipeError:
            return _WorkerLost(Status.CRASH, "the worker had ended")
        except (EOFError, ConnectionResetError):
            code = self._process.wait()
            name = signal.Signals(-code).name if code < 0 else f"exit code {code}"
            return _WorkerLost(Status.CRASH, f"the process that ran the call ended with {name}")

    def _last_words(self) -> str:
        if not self._log.exists():
            return ""
        lines = self._log.read_text(errors="replace").strip().splitlines()
        return f"; last output: {_words_of(lines)[:200]}" if lines else ""


def _words_of(lines: list[str]) -> str:
    """Returns the exception that ended native code, which precedes its backtrace, up to an empty line; else the last line."""
    thrown = next((number for number, line in enumerate(lines) if line.strip().startswith("what():")), None)
    if thrown is None:
        return lines[-1]
    return " ".join(line.strip() for line in takewhile(str.strip, lines[thrown:])).removeprefix("what():").strip()


def _start_process(descriptor: int, log: Path | None, changes: dict[str, str | None]) -> subprocess.Popen[bytes]:
    """Starts a worker that is connected by ``descriptor``. Native code writes to standard output and error directly; under
    pytest or ``--json`` that must not reach the user, so it goes to ``log``, or else to standard error.

    Ctrl-C reaches the whole process group. The worker inherits the mask, so the signal cannot end it before it ignores it.
    """
    environment = dict(os.environ)
    apply_environment(changes, environment)
    output = 2 if log is None else os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        return subprocess.Popen(
            [sys.executable, str(_WORKER), str(descriptor)],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            pass_fds=[descriptor],
        )
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        if log is not None:
            os.close(output)


def _hold_standard_descriptors() -> None:
    """Opens 0, 1 and 2 where they are closed: else a worker's connection could have the number of its output."""
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(descriptor, True)
    os.close(descriptor)


@dataclass(frozen=True)
class _WorkerLost:
    """The reason why a worker gave no answer."""

    status: Status
    message: str
