"""A probe that takes its worker process with it: at the first attempt, or at each one."""

from __future__ import annotations

import os
import signal
import time
from dataclasses import dataclass, field
from pathlib import Path

from ssinghal.core.record import Record
from ssinghal.device.session import Session
from ssinghal.runner.tasks import PoolOptions, ProbeTask


@dataclass(frozen=True)
class Poison(ProbeTask):
    """Ends its worker at the first ``lethal`` attempts in the way that ``ending`` names, and probes its case at a later one.

    Each attempt, of other cases too, leaves a line in ``journal``: what it is, and when (in nanoseconds) it began or ended.
    """

    journal: Path = field(kw_only=True)
    name: str = field(kw_only=True)
    ending: str = field(default="", kw_only=True)
    lethal: int = field(default=0, kw_only=True)
    seconds: float = field(default=0.0, kw_only=True)

    def run(self, session: Session, options: PoolOptions) -> Record:
        attempts = sum(line.split()[:2] == [self.name, "begins"] for line in self._lines())
        self._note("begins")
        time.sleep(self.seconds)
        if attempts < self.lethal:
            self._note("ends")
            _ENDINGS[self.ending]()
        record = super().run(session, options)
        self._note("ends")
        return record

    def _lines(self) -> list[str]:
        return self.journal.read_text().splitlines() if self.journal.exists() else []

    def _note(self, what: str) -> None:
        with self.journal.open("a") as file:
            file.write(f"{self.name} {what} {time.monotonic_ns()} {os.getpid()}\n")


_ENDINGS = {
    "exits": lambda: os._exit(7),
    "is killed": lambda: os.kill(os.getpid(), signal.SIGKILL),
    "is ended by a signal without a name": lambda: os.kill(os.getpid(), 35),  # a real-time one
    "aborts": os.abort,
    "hangs": lambda: time.sleep(600),
}


@dataclass(frozen=True)
class Attempt:
    name: str
    pid: int
    began: int
    ended: int


def attempts_of(journal: Path) -> list[Attempt]:
    """Returns the attempts that ended, by the time that they began."""
    begun: dict[tuple[str, int], int] = {}
    found = []
    for line in journal.read_text().splitlines():
        name, what, at, pid = line.split()
        if what == "begins":
            begun[name, int(pid)] = int(at)
        else:
            found.append(Attempt(name, int(pid), begun[name, int(pid)], int(at)))
    return sorted(found, key=lambda attempt: attempt.began)
