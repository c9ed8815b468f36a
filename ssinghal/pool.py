"""Worker processes that probe cases, so that a crash or a hang of native code costs one case and nothing else."""

from __future__ import annotations

import multiprocessing
import os
import queue
import resource
import signal
import sys
from collections.abc import Iterable, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from pathlib import Path
from typing import Any

from ssinghal.cases import Case
from ssinghal.device.modes import DeviceChoice, DeviceMode
from ssinghal.device.session import DeviceFacts, Session
from ssinghal.device.virtual import apply_environment, environment_for, scratch_folder
from ssinghal.errors import DeviceError, HarnessError, NotProven
from ssinghal.probe import Limits, probe
from ssinghal.records import Record, Resource, Status, Verdict

DEFAULT_TIMEOUT_S = 120.0
# Host address space of a worker on a virtual board. TTNN's page maps of some reshapes would take tens of GiB.
DEFAULT_HOST_LIMIT_BYTES = 6 * 2**30
START_TIMEOUT_S = 120.0
_SPAWN = multiprocessing.get_context("spawn")


@dataclass(frozen=True)
class PoolOptions:
    """How workers run. ``numerics``: also compare with torch (needs a device that computes, and torch). ``reports``: a folder
    for TTNN's report database of each case, in ``reports / report_name(case)`` (needs torch)."""

    workers: int = 1
    timeout_s: float = DEFAULT_TIMEOUT_S
    host_limit_bytes: int = DEFAULT_HOST_LIMIT_BYTES
    numerics: bool = False
    limits: Limits = field(default_factory=Limits)
    reports: Path | None = None

    @classmethod
    def of(
        cls,
        choice: DeviceChoice,
        *,
        workers: int | None = None,
        timeout_s: float = DEFAULT_TIMEOUT_S,
        host_tiles: int | None = None,
    ) -> PoolOptions:
        """What the kind of device asks for, where the user does not: a card takes one process, and computes."""
        virtual = choice.mode is DeviceMode.VIRTUAL
        limits = Limits() if host_tiles is None else replace(Limits(), host_tiles=host_tiles)
        return cls(workers or (2 if virtual else 1), timeout_s, numerics=not virtual, limits=limits)


class Pool:
    """``submit(case) -> Future[Record]``; every submitted case gets a record, whatever happens to the worker that has it.

    Use as a context manager. ``facts`` say what was opened (the first worker starts at once, the others on demand).

    Raises:
        DeviceError: no device, or one that failed its proof, or numerics asked of one that computes nothing.
    """

    def __init__(self, choice: DeviceChoice, options: PoolOptions = PoolOptions()) -> None:
        if options.numerics and choice.mode is DeviceMode.VIRTUAL:
            raise NotProven("a virtual device computes nothing: its values must not be compared")
        _hold_standard_descriptors()
        self.choice = choice
        self.options = options
        self._stack = ExitStack()
        scratch = self._stack.enter_context(scratch_folder())
        self._environment = environment_for(choice, scratch)
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

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def submit(self, case: Case) -> Future[Record]:
        return self._executor.submit(self._run, case)

    def map(self, cases: Iterable[Case]) -> Iterator[Record]:
        """Records in the order of the cases."""
        for future in [self.submit(case) for case in cases]:
            yield future.result()

    def close(self) -> None:
        """Ends the workers at once; cases not yet finished are dropped."""
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

    def _run(self, case: Case) -> Record:
        idle: _Worker | None = self._idle.get()
        try:
            try:
                worker = idle if idle is not None and idle.is_alive() else self._start()
            except (HarnessError, OSError) as error:  # a device that opened once: the case is told, the run goes on
                idle = None
                verdict = Verdict(Status.ERROR, stage="device", decided_by="harness", message=str(error).splitlines()[0])
                facts = self.facts
                return Record.of(case, verdict, device_mode=facts.mode, board=facts.board, ttnn=facts.ttnn)
            self._busy.add(worker)
            try:
                record, alive = worker.run(case)
            finally:
                self._busy.discard(worker)
            exhausted = record.verdict.resource is Resource.HOST  # what it still holds would be the next case's fault
            if alive and exhausted:
                worker.stop()
            idle = worker if alive and not exhausted else None
            return record
        finally:
            self._idle.put(idle)


class _Worker:
    """One process with one open device."""

    def __init__(self, choice: DeviceChoice, options: PoolOptions, environment: dict[str, str | None], scratch: Path) -> None:
        self._options = options
        self._connection, theirs = _SPAWN.Pipe()
        self._log = scratch / f"worker-{os.urandom(4).hex()}.log"
        self._process = _SPAWN.Process(
            target=_serve, args=(theirs, choice, options, environment, str(self._log)), name="ssinghal-worker", daemon=True
        )
        _start_deaf_to_interrupts(self._process)
        theirs.close()
        try:
            hello = self._receive(START_TIMEOUT_S)
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

    def run(self, case: Case) -> tuple[Record, bool]:
        """The case's record, and whether the worker can take another one."""
        try:
            self._connection.send(case)
            answer = self._receive(self._options.timeout_s)
        except BrokenPipeError:
            answer = _Gone(Status.CRASH, "the worker had ended")
        if isinstance(answer, Record):
            return answer, True
        self.stop()
        message = f"{answer.message}{self._last_words()}"
        verdict = Verdict(answer.status, stage="call", decided_by="harness", message=message)
        return self._record_of(case, verdict), False

    def is_alive(self) -> bool:
        """False for a process that ended while it had nothing to do; the case to come is not its fault."""
        return self._process.is_alive()

    def kill(self) -> None:
        """Ends a call that is under way; whoever waits for it gets its crash."""
        self._process.kill()

    def stop(self) -> None:
        self._connection.close()
        self._process.join(2)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()

    def _receive(self, timeout_s: float) -> Any:
        if not self._connection.poll(timeout_s):
            self._process.kill()
            return _Gone(Status.TIMEOUT, f"no answer within {timeout_s:g} s")
        try:
            return self._connection.recv()
        except (EOFError, ConnectionResetError):
            self._process.join()
            code = self._process.exitcode or 0
            name = signal.Signals(-code).name if code < 0 else f"exit code {code}"
            return _Gone(Status.CRASH, f"the process that ran the call ended with {name}")

    def _last_words(self) -> str:
        if not self._log.exists():
            return ""
        lines = self._log.read_text(errors="replace").strip().splitlines()
        return f"; last output: {lines[-1][:200]}" if lines else ""

    def _record_of(self, case: Case, verdict: Verdict) -> Record:
        facts = self.facts
        return Record.of(case, verdict, device_mode=facts.mode, board=facts.board, ttnn=facts.ttnn)


def _start_deaf_to_interrupts(process: SpawnProcess) -> None:
    """Ctrl-C reaches the whole group. A process inherits the mask, so it is not hit before it ignores the signal itself."""
    resource_tracker.ensure_running()  # would unblock the signal when started below
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        process.start()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _hold_standard_descriptors() -> None:
    """Where 0, 1 or 2 is closed, a pipe to a worker would get its number, and a worker redirects 1 and 2."""
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(descriptor, True)
    os.close(descriptor)


@dataclass(frozen=True)
class _Gone:
    """Why there is no answer from a worker."""

    status: Status
    message: str


def _serve(
    connection: Connection, choice: DeviceChoice, options: PoolOptions, environment: dict[str, str | None], log: str
) -> None:
    """A worker's life: open the device, say what it is, then answer each case with its record."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the parent ends its workers itself
    if choice.ttnn_log:
        os.dup2(2, 1)  # TTNN logs to standard output, which is for records
    else:
        _redirect_output(log)
    apply_environment(environment)
    if choice.mode is DeviceMode.VIRTUAL:
        _, most = resource.getrlimit(resource.RLIMIT_AS)
        limit = options.host_limit_bytes if most == resource.RLIM_INFINITY else min(options.host_limit_bytes, most)
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    try:
        session = Session(choice, with_torch=options.numerics or options.reports is not None)
    except DeviceError as error:
        connection.send(error)
        return
    connection.send(session.facts)
    with session:
        while True:
            try:
                case = connection.recv()
            except EOFError:
                return
            report = options.reports and options.reports / report_name(case)
            record = probe(case, session, numerics=options.numerics, limits=options.limits, report=report)
            connection.send(record)


def report_name(case: Case) -> str:
    """The folder's name: safe in a path, and no other case's."""
    return f"{case.name}-{case.key}"


def _redirect_output(log: str) -> None:
    """Native code writes to descriptors 1 and 2 past Python; under pytest or ``--json`` that must not reach the user."""
    sys.stdout.flush()
    sys.stderr.flush()
    file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    os.dup2(file, 1)
    os.dup2(file, 2)
    os.close(file)


__all__ = ["DEFAULT_HOST_LIMIT_BYTES", "DEFAULT_TIMEOUT_S", "Pool", "PoolOptions", "report_name"]
