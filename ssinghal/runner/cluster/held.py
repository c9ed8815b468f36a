"""Devices that stay open in a process between the chunks of a run."""

from __future__ import annotations

import pickle
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass

from ssinghal.core.closing import Closing
from ssinghal.device.modes import DeviceChoice
from ssinghal.errors import HarnessError
from ssinghal.runner.cluster.checks import options_here
from ssinghal.runner.pool import Pool
from ssinghal.runner.probers import LocalProber, Submitting
from ssinghal.runner.tasks import PoolOptions

IDLE_S = 300.0  # until the device of a run that no longer sends anything is closed: its command may have been killed
_CLOSE_S = 10.0


@dataclass(frozen=True)
class DeviceSetup:
    """What a worker opens for a run."""

    choice: DeviceChoice
    options: PoolOptions
    submitting: Submitting

    def pickled(self) -> bytes:
        """Returns bytes that a worker unpickles only once it is known to have the same code."""
        return pickle.dumps(self)


class HeldDevice(Closing):
    """The open device processes of one run in one worker.

    Raises:
        HarnessError: No device opens.
    """

    def __init__(self, setup: DeviceSetup, processes: int) -> None:
        self.users = 0
        self._closed = threading.Event()
        with ExitStack() as stack:
            pool = stack.enter_context(Pool(setup.choice, options_here(setup.options, processes)))
            self.prober = LocalProber(pool, stack.enter_context(setup.submitting(pool)))
            self._stack = stack.pop_all()

    def is_closed(self) -> bool:
        return self._closed.is_set()

    def close(self) -> None:
        """Ends the processes. What they are doing has no answer then."""
        if not self._closed.is_set():
            self._closed.set()
            self._stack.close()


class HeldDevices(Closing):
    """The open devices of a worker, by run: opened when first needed, closed with the worker, by ``close_run``, or when the
    run has not needed them for ``idle_s`` seconds."""

    def __init__(self, idle_s: float = IDLE_S) -> None:
        self._idle_s = idle_s
        self._lock = threading.Lock()
        self._devices: dict[str, HeldDevice] = {}
        self._timers: dict[str, threading.Timer] = {}
        self._ended: deque[str] = deque(maxlen=1000)

    @contextmanager
    def using(self, run: str, setup: bytes, processes: int) -> Iterator[HeldDevice]:
        """Yields the device of a run, which is not closed as idle meanwhile.

        Raises:
            HarnessError: It cannot be opened, or the run has ended.
        """
        with self._lock:
            if run in self._ended:
                raise HarnessError("the run has ended")
            if timer := self._timers.pop(run, None):
                timer.cancel()
            device = self._devices.get(run)
            if device is None or device.is_closed():
                unpickled: DeviceSetup = pickle.loads(setup)
                device = HeldDevice(unpickled, processes)
                if run in self._ended:  # meanwhile
                    device.close()
                    raise HarnessError("the run has ended")
                self._devices[run] = device
            device.users += 1
        try:
            yield device
        finally:
            with self._lock:
                device.users -= 1
                if not device.users and not device.is_closed():
                    timer = self._timers[run] = threading.Timer(self._idle_s, self._close_idle, (run,))
                    timer.daemon = True
                    timer.start()

    def close_run(self, run: str) -> None:
        """Closes the device of a run that has ended, also while it is in use."""
        self._ended.append(run)
        self._close(run)

    def _close(self, run: str) -> None:
        device = self._devices.pop(run, None)
        if timer := self._timers.pop(run, None):
            timer.cancel()
        if device:
            device.close()

    def close(self) -> None:
        """Does not wait for a device that is just being opened: its process ends with this one."""
        acquired = self._lock.acquire(timeout=_CLOSE_S)
        try:
            for run in list(self._devices):
                with suppress(HarnessError, OSError):
                    self._close(run)
        finally:
            if acquired:
                self._lock.release()

    def _close_idle(self, run: str) -> None:
        with self._lock:
            device = self._devices.get(run)
            if device and not device.users:
                self._close(run)
