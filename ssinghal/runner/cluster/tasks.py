"""What the workers of a cluster run: checks of their environment, chunks of cases, and the end of a run."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass

from distributed import Worker, WorkerPlugin, get_worker

from ssinghal.core.device_facts import DeviceFacts
from ssinghal.core.record import Record
from ssinghal.errors import DeviceError
from ssinghal.runner.cluster.checks import differences, environment
from ssinghal.runner.cluster.held import HeldDevices
from ssinghal.runner.probers import Numbered

_PLUGIN = "ssinghal-devices"


@dataclass(frozen=True)
class Run:
    """A run, as its tasks carry it: its id, the pickled ``DeviceSetup``, and the environment that it needs."""

    name: str
    setup: bytes
    release: str
    torch: bool
    wanted: Mapping[str, str]


@dataclass(frozen=True)
class Checked:
    """What a worker has: ``fault``, in words, or an open device."""

    fault: str
    facts: DeviceFacts | None = None


@dataclass(frozen=True)
class Answers:
    """The records of a chunk, and the seconds that it took."""

    records: tuple[tuple[int, Record], ...]
    seconds: float


class DevicesPlugin(WorkerPlugin):  # type: ignore[misc] # of a package that may be absent
    """Closes the devices of a worker with it."""

    name = _PLUGIN

    def __init__(self) -> None:
        self.devices = HeldDevices()

    def teardown(self, worker: Worker) -> None:
        self.devices.close()


def check_worker(run: Run) -> Checked:
    """Compares this worker's environment with what the run needs, then opens the device."""
    fault = differences(environment(run.release, torch=run.torch), run.wanted)
    if fault:
        return Checked(fault)
    worker = get_worker()
    with _devices(worker).using(run.name, run.setup, worker.state.nthreads) as device:
        return Checked("", device.prober.facts)


def answer_chunk(run: Run, cases: tuple[Numbered, ...]) -> Answers:
    """Answers the cases of a chunk.

    Raises:
        DeviceError: The worker is closing, or no device opens.
    """
    started = time.monotonic()
    worker = get_worker()
    with _devices(worker).using(run.name, run.setup, worker.state.nthreads) as device:
        records = tuple(device.prober.answers(cases, device.is_closed))
    if len(records) < len(cases):
        raise DeviceError("the worker is closing")
    return Answers(records, time.monotonic() - started)


def close_devices(run: str, dask_worker: Worker) -> None:
    """Closes what the worker has open for a run, or is just opening. Called by Dask beside the tasks."""
    _devices(dask_worker).close_run(run)


def _devices(worker: Worker) -> HeldDevices:
    """Returns the devices that the worker holds. The plugin is added to the worker alone: by the scheduler, it would also go to
    workers that other programs use."""
    plugin = worker.plugins.setdefault(_PLUGIN, DevicesPlugin())
    devices: HeldDevices = plugin.devices
    return devices
