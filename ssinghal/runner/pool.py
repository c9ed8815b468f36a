"""Worker processes that run tasks, so that a crash or a hang of native code affects one task only."""

from __future__ import annotations

import os
import queue
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import islice, takewhile
from multiprocessing import Pipe
from pathlib import Path
from threading import Lock
from typing import Any, Generic, TypeVar, cast

from ssinghal.core.case import Case
from ssinghal.core.closing import Closing
from ssinghal.core.device_facts import DeviceFacts, DeviceMode
from ssinghal.core.record import Record
from ssinghal.core.signals import OF_TERMINAL, signal_name
from ssinghal.core.verdict import DecidedBy, Status, Verdict
from ssinghal.device.modes import DeviceChoice
from ssinghal.device.releases import release_in_use
from ssinghal.device.virtual import apply_environment, environment_for
from ssinghal.device.virtual_cache import scratch_folder
from ssinghal.errors import DEVICE_ERRORS, DeviceError, HarnessError, NotProven, reason
from ssinghal.runner.gate import Gate
from ssinghal.runner.lifeline import lifeline
from ssinghal.runner.tasks import MAX_WAIT_FACTOR, PoolOptions, ProbeTask, Task

R = TypeVar("R")

START_TIMEOUT_S = 120.0
CHECK_S = 5.0
IDLE_SHARE = 0.01  # a process that computes less than this is not waiting for processors
MAX_TASKS = 20_000  # of one worker: TTNN keeps 1 to 2 KB of each new call, which would add up in a run of millions
MAX_AHEAD = 256  # cases that ``map`` has submitted: enough for all workers while one of them is at a slow case
# Run as a folder, which is then first on the worker's sys.path. With -m the working folder would be, with any files in it.
_WORKER = Path(__file__).with_name("worker")


class Pool(Closing):
    """Worker processes, each with an open device. Every task gets a result, whatever happens to the worker that has it.

    A probe whose worker was lost, by a crash or a time limit, or did not start, is repeated once: alone, in a new worker, while
    the others wait. Where something else was the cause, as a system that ran out of memory, it thus costs no verdict.

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
        self._closing = False
        self._lock = Lock()  # of the two above
        self._gate = Gate()
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
        with self._lock:
            self._closing = True
            busy = tuple(self._busy)
        for worker in busy:
            worker.kill()
        self._executor.shutdown(wait=True)
        while not self._idle.empty():
            idle = self._idle.get()
            if idle:
                idle.stop()
        self._stack.close()

    def _start(self) -> _Worker:
        return _Worker(self.choice, self.options, self._environment, self._scratch)

    def _run(self, task: Task[R]) -> R:
        idle: _Worker | None = self._idle.get()
        try:
            with self._gate.shared():
                first = self._attempt(task, idle)
            idle = first.worker
            if first.lost is None or not task.repeats_lost or self._closing:
                return first.result
            with self._gate.alone():  # another task may have been the cause: its memory, or a signal
                second = self._attempt(task, idle)
            idle = second.worker
            return first.result if self._closing else task.repeated(second.result, first.lost)
        finally:
            self._idle.put(idle)

    def _attempt(self, task: Task[R], idle: _Worker | None) -> _Attempt[R]:
        """Runs a task in a worker: the idle one, or a new one."""
        try:
            worker = idle if idle is not None and idle.is_alive() else self._start()
        except DEVICE_ERRORS as error:  # it opened before, so the run continues
            message = reason(error).splitlines()[0]
            failed = Verdict(Status.ERROR, stage="device", decided_by=DecidedBy.HARNESS, message=message)
            return _Attempt(None, task.lost(failed, self.facts), failed)
        with self._lock:
            if self._closing:  # nobody would end a call that begins now
                ended = Verdict(Status.NOT_RUN, stage="device", decided_by=DecidedBy.HARNESS, message="the workers were ended")
                return _Attempt(worker, task.lost(ended, self.facts))
            self._busy.add(worker)
        try:
            answer = worker.run(task)
        finally:
            with self._lock:
                self._busy.discard(worker)
        if isinstance(answer, _Lost):
            return _Attempt(None, task.lost(answer.verdict, self.facts), answer.verdict)
        if task.exhausted_host(answer) or worker.tasks >= MAX_TASKS:
            worker.stop()
            return _Attempt(None, answer)
        return _Attempt(worker, answer)


class _Worker:
    """One process with one open device."""

    def __init__(self, choice: DeviceChoice, options: PoolOptions, environment: dict[str, str | None], scratch: Path) -> None:
        self._options = options
        self.tasks = 0
        self._log = scratch / f"worker-{os.urandom(4).hex()}.log"
        self._connection, theirs = Pipe()
        their_end, self._lifeline = lifeline()
        with theirs, their_end:
            descriptors = [theirs.fileno(), their_end.fileno()]
            self._process = _start_process(descriptors, None if choice.ttnn_log else self._log, environment)
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

    def run(self, task: Task[R]) -> R | _Lost:
        """Returns the task's result; the process has ended where there is none."""
        self.tasks += 1
        answer = self._ask(task, self._options.timeout_s)
        if not isinstance(answer, _WorkerLost):
            return cast(R, answer)
        self.stop()
        message = f"{answer.message}{self._last_words()}"
        return _Lost(Verdict(answer.status, stage="call", decided_by=DecidedBy.HARNESS, message=message))

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
        self._lifeline.close()

    def _ask(self, question: object, timeout_s: float) -> Any:
        """Returns the answer of the process, or a ``_WorkerLost`` with the reason why there is none."""
        try:
            self._connection.send(question)
            passed = self._passed_limit(timeout_s)
            if passed:
                self._process.kill()
                return _WorkerLost(Status.TIMEOUT, f"no answer within {passed}")
            return self._connection.recv()
        except (EOFError, BrokenPipeError, ConnectionResetError):
            code = self._process.wait()
            name = signal_name(-code) if code < 0 else f"exit code {code}"
            return _WorkerLost(Status.CRASH, f"the process that ran the call ended with {name}")

    def _passed_limit(self, timeout_s: float) -> str:
        """Returns the limit that passed before there was an answer; empty if one has come. A process may compute for
        ``timeout_s``. One that hardly computes has as much time by the clock; one that waits for processors, as on a loaded
        machine, has ``MAX_WAIT_FACTOR`` times as much."""
        started, clock = computed_s(self._process.pid), time.monotonic()
        if self._connection.poll(timeout_s):
            return ""
        computed = computed_s(self._process.pid)
        check_s = min(CHECK_S, timeout_s)
        while computed - started < timeout_s:
            if time.monotonic() - clock >= MAX_WAIT_FACTOR * timeout_s:
                return f"{MAX_WAIT_FACTOR * timeout_s:g} s by the clock"
            if self._connection.poll(check_s):
                return ""
            before, computed = computed, computed_s(self._process.pid)
            if computed - before < IDLE_SHARE * check_s:
                return f"{timeout_s:g} s"
        return f"{timeout_s:g} s of processor time"

    def _last_words(self) -> str:
        if not self._log.exists():
            return ""
        lines = self._log.read_text(errors="replace").strip().splitlines()
        return f"; last output: {_words_of(lines)[:200]}" if lines else ""


def computed_s(pid: int) -> float:
    """Returns the processor seconds that a process and its ended children have taken; 0 for one that is gone."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return 0.0
    ticks = stat.rpartition(")")[2].split()[11:15]  # utime, stime, cutime, cstime: the name before may hold blanks
    return sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK")


def _words_of(lines: list[str]) -> str:
    """Returns the exception that ended native code, which precedes its backtrace, up to an empty line; else the last line."""
    thrown = next((number for number, line in enumerate(lines) if line.strip().startswith("what():")), None)
    if thrown is None:
        return lines[-1]
    return " ".join(line.strip() for line in takewhile(str.strip, lines[thrown:])).removeprefix("what():").strip()


def _start_process(descriptors: list[int], log: Path | None, changes: dict[str, str | None]) -> subprocess.Popen[bytes]:
    """Starts a worker with its ends of the connection and the lifeline. Native code writes to standard output and error
    directly; under pytest or ``--json`` that must not reach the user, so it goes to ``log``, or else to standard error.

    What a terminal sends reaches all of the process group. The worker inherits the mask, so no such signal can end it before it
    ignores it.
    """
    environment = dict(os.environ)
    apply_environment(changes, environment)
    output = 2 if log is None else os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    before = signal.pthread_sigmask(signal.SIG_BLOCK, OF_TERMINAL)
    try:
        return subprocess.Popen(
            [sys.executable, str(_WORKER), *map(str, descriptors)],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            pass_fds=descriptors,
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


@dataclass(frozen=True)
class _Lost:
    """The reason why a task has no result."""

    verdict: Verdict


@dataclass(frozen=True)
class _Attempt(Generic[R]):
    """How a task ended: the worker, if it can take another task, the result, and the reason why no worker gave one."""

    worker: _Worker | None
    result: R
    lost: Verdict | None = None
