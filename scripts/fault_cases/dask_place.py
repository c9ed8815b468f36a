"""A Dask cluster of a fault, on this machine and on hosts beside it, and what remains of a run on it."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from .base import CASES, Ended, NotHere, Outcome, Place, answered, faults_of, judged, records_of, wait_for

MANY = 5 * CASES  # of a run, so that it is in its middle for some seconds
MARK = "FAULT_PLACE"  # in the environment of all that a fault starts
Process = subprocess.Popen[str]


class Cluster:
    """A scheduler and workers of this machine, which end with the fault."""

    def __init__(self, place: Place, stack: ExitStack, host: str) -> None:
        self.place, self._stack, self._started = place, stack, 0
        self.scheduler, self.address = self._scheduler(host)

    def _scheduler(self, host: str) -> tuple[Process, str]:
        file = self.place.folder / "scheduler.json"
        words = ("--host", host, "--port", "0", "--no-dashboard", "--scheduler-file", str(file))
        process = self._start("scheduler", *words)
        wait_for(lambda: file.exists() and file.read_text().endswith("}"), "the scheduler")  # its file is there before its text
        return process, str(json.loads(file.read_text())["address"])

    def worker(self, *more: str, place: Place | None = None, before: Sequence[str] = (), address: str = "") -> Process:
        """Starts a worker, which has one device process and nobody who starts it again."""
        return self._start("worker", address or self.address, "--nthreads", "1", "--no-nanny", "--no-dashboard", *more,
                           place=place, before=before)  # fmt: skip

    def workers(self, count: int) -> list[Process]:
        return [self.worker() for _ in range(count)]

    def _start(self, kind: str, *words: str, place: Place | None = None, before: Sequence[str] = ()) -> Process:
        self._started += 1
        log = self._stack.enter_context((self.place.folder / f"{kind}-{self._started}.log").open("w"))
        program = (sys.executable, "-m", f"distributed.cli.dask_{kind}")
        process = (place or self.place).start(*words, program=program, before=before, stdout=log, stderr=log)
        self._stack.callback(_end, process)
        return process

    def run(self, *more: str, cases: int = MANY) -> Process:
        return self.place.started_run("--scheduler", self.address, *more, cases=cases)


def _end(process: Process) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


@contextmanager
def cluster(place: Place, workers: int = 1, host: str = "127.0.0.1") -> Iterator[Cluster]:
    try:
        import distributed  # noqa: F401
    except ImportError as error:
        raise NotHere("distributed is not installed") from error
    place.environ |= {MARK: str(place.folder)}
    with ExitStack() as stack:
        made = Cluster(place, stack, host)
        made.workers(workers)
        yield made


def settled(
    place: Place, done: str, end: Ended, code: int, *, words: Sequence[str] = (), cases: int = MANY, cut_off: bool = False
) -> Outcome:
    """Judges a run, then completes it by --resume where it is incomplete: each case has one record before and after.

    ``cut_off``: the workers cannot learn that the run has ended, so they keep its devices for five minutes.
    """
    (folder,) = place.runs()
    short = faults_of(before := records_of(folder))
    short += [f"{len(before)} records before --resume"] if len(before) != cases else []
    if answered(before) < cases:
        again = place.run("run", "--resume", folder.name)
        short += [f"--resume: exit code {again.code}: {again.err.strip()[-200:]}"] if again.code else []
        short += faults_of(records_of(folder))
    short += [] if cut_off else left_over(place)
    found = answered(records_of(folder))
    return judged(done, end, {code}, words=words, expected=cases, found=found, short=short, lines=1)


def left_over(place: Place) -> list[str]:
    """Returns processes of this fault that outlived the command, but for Dask's own, and dead ones that nobody collected."""
    end = time.monotonic() + 20
    while True:
        found = list(_left_over(place))
        if not found or time.monotonic() > end:
            return [f"left: {', '.join(found)}"] if found else []
        time.sleep(0.2)


def _left_over(place: Place) -> Iterator[str]:
    mark = f"{MARK}={place.folder}".encode()
    for path in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            state = (path / "stat").read_text().rpartition(")")[2].split()[0]
            name = (path / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
            if mark in (path / "environ").read_bytes().split(b"\0") and "distributed.cli" not in name and state != "Z":
                yield f"{path.name} {name[-80:]}"


def more_records(place: Place, process: Process, count: int) -> None:
    wait_for(lambda: process.poll() is not None or len(records_of(place.runs()[0])) > count, "more records")


@dataclass(frozen=True)
class Host:
    """A network namespace. ``here``: the address of this machine in it; ``inside``: what runs a command there."""

    name: str
    here: str

    @property
    def inside(self) -> list[str]:
        return ["ip", "netns", "exec", self.name]

    def cut(self) -> None:
        _ip("link", "set", self.name, "down")


@contextmanager
def other_host() -> Iterator[Host]:
    host = Host(f"fault{os.getpid() % 10**6}", "10.213.77.1")
    try:
        _ip("netns", "add", host.name)
    except (FileNotFoundError, subprocess.CalledProcessError) as error:
        raise NotHere("no network namespaces (ip netns)") from error
    try:
        _ip("link", "add", host.name, "type", "veth", "peer", "name", "eth0", "netns", host.name)
        _ip("address", "add", f"{host.here}/24", "dev", host.name)
        _ip("link", "set", host.name, "up")
        _ip("-n", host.name, "address", "add", "10.213.77.2/24", "dev", "eth0")
        for name in ("eth0", "lo"):
            _ip("-n", host.name, "link", "set", name, "up")
        yield host
    finally:
        _ip("netns", "delete", host.name)


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)


@contextmanager
def listening(reply: bytes | None) -> Iterator[int]:
    def serve() -> None:
        kept = []
        with suppress(OSError):
            while True:
                connection, _ = listener.accept()
                kept.append(connection)
                if reply is not None:
                    connection.sendall(reply)
                    connection.shutdown(socket.SHUT_WR)

    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        threading.Thread(target=serve, daemon=True).start()
        yield int(listener.getsockname()[1])
        listener.shutdown(socket.SHUT_RDWR)
