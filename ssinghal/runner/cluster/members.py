"""The workers of a cluster that a run may use: each is checked before it gets work, also one that joins later."""

from __future__ import annotations

import queue
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from ssinghal.core.device_facts import DeviceFacts
from ssinghal.errors import HarnessError, SeveralFaults, printable
from ssinghal.runner.cluster.checks import device_differences
from ssinghal.runner.cluster.link import Link, TaskLost
from ssinghal.runner.cluster.tasks import Checked, Run, check_worker
from ssinghal.runner.pool import START_TIMEOUT_S

LOOK_S = 0.5  # between two looks at which workers there are
_POLL_S = 0.2
_CHECK_S = 2 * START_TIMEOUT_S  # a worker may have to end a task of another program first


class Members:
    """Knows the workers by address: ``present`` ones, those being checked, and the ``usable`` ones in the order of joining."""

    def __init__(self, link: Link, run: Run, note: Callable[[str], object]) -> None:
        self._link, self._run, self._note = link, run, note
        self.present: set[str] = set()
        self._checks: dict[Any, str] = {}  # futures, with the address
        self._ended: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._usable: dict[str, None] = {}
        self._refused: set[str] = set()
        self._wanted: DeviceFacts | None = None

    @property
    def usable(self) -> list[str]:
        return list(self._usable)

    @property
    def checking(self) -> bool:
        return bool(self._checks)

    def start(self, wait_s: float, waits: Callable[[str], object]) -> DeviceFacts:
        """Waits for a worker, checks those that are there then, and returns what they opened. ``waits`` gets a line at once
        where none is there yet.

        Raises:
            HarnessError: There is none within ``wait_s`` seconds, or one of them cannot be used, a line for each.
        """
        end = time.monotonic() + wait_s
        self._find()
        if not self.present:
            waits(f"the Dask scheduler {self._link.where} has no worker yet: waiting for one, up to {wait_s:g} s")
        while not self.present:
            self._find()
            if not self.present and time.monotonic() > end:
                raise HarnessError(f"the Dask scheduler {self._link.where} has no worker; none joined within {wait_s:g} s")
            time.sleep(0 if self.present else _POLL_S)
        faults: list[str] = []
        end = time.monotonic() + _CHECK_S
        while self._checks:
            with suppress(queue.Empty):
                faults += self._checked(self._ended.get(timeout=_POLL_S))
            self._find()
            if time.monotonic() > end:
                faults += [_line(address, f"no answer within {_CHECK_S:g} s") for address in self._checks.values()]
                break
        if faults:
            self._link.forget(self._checks)
            raise SeveralFaults(faults)
        if self._wanted is None:
            raise HarnessError(f"all workers of the Dask scheduler {self._link.where} were lost while they opened a device")
        return self._wanted

    def look(self) -> None:
        """Finds out which workers have joined, which are gone, and which have been checked. One that cannot be used gets no
        work, and a note.

        Raises:
            HarnessError: The scheduler is gone.
        """
        self._find()
        with suppress(queue.Empty):
            while True:
                for fault in self._checked(self._ended.get_nowait()):
                    self._note(f"not used: {fault}")

    def refuse(self, worker: str, fault: str) -> None:
        """Gives a worker no more work, with the reason."""
        self._usable.pop(worker, None)
        if worker not in self._refused:
            self._refused.add(worker)
            self._note(f"not used any more: {_line(worker, fault)}")

    def close(self) -> None:
        self._link.forget(self._checks)
        self._checks.clear()

    def _find(self) -> None:
        """Starts the check of each new worker, and drops those that are gone."""
        now = self._link.workers()
        for address in sorted(now - self.present):
            self._checks[self._link.submit(address, self._ended.put, check_worker, self._run)] = address
        for address in self.present - now:
            self._usable.pop(address, None)
            self._refused.discard(address)
        gone = [future for future, address in self._checks.items() if address not in now]
        for future in gone:
            del self._checks[future]
        self._link.forget(gone)
        self.present = now

    def _checked(self, future: Any) -> list[str]:
        """Takes the result of a check; returns a line where the worker cannot be used."""
        address = self._checks.pop(future, None)
        if address is None:
            return []
        try:
            checked: Checked = self._link.result(future)
        except TaskLost:
            return []
        except HarnessError as error:
            return self._refusal(address, str(error))
        if checked.fault or checked.facts is None:
            return self._refusal(address, checked.fault)
        self._wanted = self._wanted or checked.facts
        if fault := device_differences(checked.facts, self._wanted):
            return self._refusal(address, fault)
        self._usable[address] = None
        return []

    def _refusal(self, address: str, fault: str) -> list[str]:
        self._refused.add(address)
        return [_line(address, fault)]


def _line(address: str, fault: str) -> str:
    return f"worker {address}: {printable(' '.join(fault.split()))}"
