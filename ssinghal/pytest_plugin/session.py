"""The state of one pytest process: which case each test is about, the device pool, and what each case turned out to be."""

from __future__ import annotations

from concurrent.futures import Future
from contextlib import ExitStack
from dataclasses import asdict, replace
from typing import Any

from ssinghal.core.case import Case
from ssinghal.core.record import Record, Status
from ssinghal.estimation.baseline import load_baseline
from ssinghal.estimation.estimator import MemoryEstimate, Prediction, estimate
from ssinghal.pytest_plugin.options import PluginSettings
from ssinghal.remedy.probing import probing
from ssinghal.runner.pool import Pool
from ssinghal.runner.sweep import Submit
from ssinghal.runs.writer import unprobed

Identity = tuple[str, str]


def identity(case: Case) -> Identity:
    """What makes two tests' cases one: the name it was selected by, and its key."""
    return case.name, case.key


class Harness:
    """``tests``: node id -> identity of each selected test that is about a case. ``on_device``: cases that some test probes."""

    def __init__(self, settings: PluginSettings) -> None:
        self.settings = settings
        self.cases = {identity(case): case for cases in settings.cases.values() for case in cases}
        self.tests: dict[str, Identity] = {}
        self.on_device: set[Identity] = set()
        self.faults: list[str] = []  # of test modules, told together when all are collected
        self._stack = ExitStack()
        self._pool: Pool | None = None
        self._submit: Submit | None = None
        self._estimates: dict[str, MemoryEstimate] = {}
        self._futures: dict[Identity, Future[Record]] = {}

    def pool(self) -> Pool:
        """The device, opened when first needed."""
        if self._pool is None:
            self._pool = self._stack.enter_context(Pool(self.settings.choice, self.settings.pool_options))
        return self._pool

    def device_facts(self) -> dict[str, Any]:
        """What was opened, for ``run.json``; empty while no device was needed."""
        return asdict(self._pool.facts) if self._pool is not None else {}

    def submit(self, case: Case) -> Future[Record]:
        """The case's record to come; a case is run once, however many tests ask for it."""
        if self._submit is None:
            self._submit = self._stack.enter_context(probing(self.pool(), remedies=self.settings.remedies))
        if identity(case) not in self._futures:
            self._futures[identity(case)] = self._submit(case)
        return self._futures[identity(case)]

    def estimate(self, case: Case) -> MemoryEstimate:
        if case.key not in self._estimates:
            self._estimates[case.key] = estimate(case, self.settings.board)
        return self._estimates[case.key]

    def is_known_oom(self, case: Case) -> bool:
        """A card ran out on it, TTNN's allocator did, or arithmetic says that it must."""
        entry = load_baseline(self.settings.board.name).get(case.key)
        return (
            case.known_oom is not None
            or (entry is not None and entry.status == Status.OOM.value)
            or self.estimate(case).verdict is Prediction.EXCEEDS
        )

    def close(self) -> None:
        self._stack.close()

    # Records --------------------------------------------------------------------------------------------------------------

    def record_json(self, case: Case, record: Record, nodeid: str) -> dict[str, Any]:
        """The record as its line will read, with the estimate beside it."""
        return replace(record, estimate=self.estimate(case).to_json(), test=nodeid).to_json()

    def record_without_probe(self, case: Case, nodeid: str, status: Status, message: str) -> dict[str, Any]:
        """The record of a case that no device answered: why, and its estimate."""
        return self.record_json(case, unprobed(case, status, message, self.settings.board.name), nodeid)
