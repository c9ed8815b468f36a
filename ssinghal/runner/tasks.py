"""Tasks for worker processes, and the options of those."""

from __future__ import annotations

import shutil
from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import ClassVar, Generic, TypeVar

from ssinghal.core.case import Case
from ssinghal.core.device_facts import DeviceFacts, DeviceMode
from ssinghal.core.record import Record
from ssinghal.core.verdict import Resource, Verdict
from ssinghal.device.modes import DeviceChoice
from ssinghal.device.releases import Release
from ssinghal.device.session import Session
from ssinghal.runner.golden_probe import probe_golden
from ssinghal.runner.probe import Limits, probe

R = TypeVar("R")

DEFAULT_TIMEOUT_S = 120.0  # of processor time, so that a case ends alike on a loaded machine
MAX_WAIT_FACTOR = 20.0  # how often as long a task may take by the clock
# Host address space of a worker on a virtual board. TTNN's page maps of some reshapes would take tens of GiB.
DEFAULT_HOST_LIMIT_BYTES = 6 * 2**30
TORCH_BYTES = 4 * 2**30  # address space that torch takes by being imported, 3.2 GiB where it is a CUDA build


@dataclass(frozen=True)
class PoolOptions:
    """How workers run.

    ``numerics``: also compare values with torch (needs a device that computes). ``reports``: a folder for TTNN's report
    databases, each in ``reports / report_name(case)``. ``torch``: tasks need torch, as the two others do. ``release``: the TTNN
    to run; None for the installed one.
    """

    workers: int = 1
    timeout_s: float = DEFAULT_TIMEOUT_S
    host_limit_bytes: int = DEFAULT_HOST_LIMIT_BYTES
    numerics: bool = False
    limits: Limits = field(default_factory=Limits)
    reports: Path | None = None
    torch: bool = False
    release: Release | None = None

    @classmethod
    def of(
        cls,
        choice: DeviceChoice,
        *,
        workers: int | None = None,
        timeout_s: float = DEFAULT_TIMEOUT_S,
        host_tiles: int | None = None,
        release: Release | None = None,
    ) -> PoolOptions:
        """Returns options that fit the kind of device: a card takes one process, and its values are compared."""
        virtual, on_host = choice.mode is DeviceMode.VIRTUAL, choice.mode in (DeviceMode.VIRTUAL, DeviceMode.GOLDEN)
        limits = Limits() if host_tiles is None else replace(Limits(), host_tiles=host_tiles)
        return cls(workers or (2 if on_host else 1), timeout_s, numerics=not virtual, limits=limits, release=release)

    def place(self, choice: DeviceChoice) -> str:
        """Returns in words where these workers run."""
        return f"{choice.mode} {choice.board} in {self.workers} process{'es' * (self.workers > 1)}"

    @property
    def with_torch(self) -> bool:
        return self.torch or self.numerics or self.reports is not None

    @property
    def address_space_bytes(self) -> int:
        """``host_limit_bytes``, plus the space of torch where a worker imports it."""
        return self.host_limit_bytes + (TORCH_BYTES if self.with_torch else 0)


class Task(ABC, Generic[R]):
    """Work on an open device. Task and result are pickled, so their classes must be found in an importable module.

    ``repeats_lost``: whether a task that no worker finished is repeated once, alone, and this second answer counts.
    """

    repeats_lost: ClassVar[bool] = False

    @abstractmethod
    def run(self, session: Session, options: PoolOptions) -> R:
        """Runs in the worker. Must leave the device empty; an exception ends the worker, and the task is lost."""

    @abstractmethod
    def lost(self, verdict: Verdict, facts: DeviceFacts) -> R:
        """Returns, in the parent, the result of a task that no worker finished: ``verdict`` has the reason (crash, timeout)."""

    def repeated(self, result: R, first: Verdict) -> R:
        """Returns the result of the second attempt with a note on how the ``first`` ended."""
        return result

    def exhausted_host(self, result: R) -> bool:
        """Whether ``run`` reached the limit of host memory: the worker is then replaced, as it may still hold much of it."""
        return False


@dataclass(frozen=True)
class ProbeTask(Task[Record]):
    """Probes one case."""

    repeats_lost = True

    case: Case

    def run(self, session: Session, options: PoolOptions) -> Record:
        if session.facts.mode is DeviceMode.GOLDEN:
            return probe_golden(self.case, session)
        report = options.reports and options.reports / report_name(self.case)
        if report and report.exists():  # a part, of the process that was lost with the first attempt
            shutil.rmtree(report)
        return probe(self.case, session, numerics=options.numerics, limits=options.limits, report=report)

    def lost(self, verdict: Verdict, facts: DeviceFacts) -> Record:
        return Record.of(self.case, verdict, device_mode=facts.mode, board=facts.board, ttnn=facts.ttnn, mesh=facts.mesh)

    def repeated(self, result: Record, first: Verdict) -> Record:
        return replace(result, retried=f"{first.status}: {first.message}")

    def exhausted_host(self, result: Record) -> bool:
        return result.verdict.resource is Resource.HOST


def report_name(case: Case) -> str:
    """Returns a folder name that is safe in a path and unique to the case."""
    return f"{case.name}-{case.key}"
