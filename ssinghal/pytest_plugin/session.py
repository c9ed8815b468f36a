"""The state of one pytest process: the case of each test, the device pool, and the outcome of each case."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import pytest

from ssinghal.core.case import Case
from ssinghal.core.device_facts import NOT_OPENED, DeviceFacts, DeviceMode
from ssinghal.core.record import Prediction, Record, Status
from ssinghal.core.versions import package_versions
from ssinghal.errors import InvalidCase
from ssinghal.estimation.baseline import load_baseline
from ssinghal.estimation.estimator import MemoryEstimate, estimate
from ssinghal.operators import suite_name
from ssinghal.pytest_plugin.settings import PluginSettings
from ssinghal.remedy.probing import probing
from ssinghal.runner.pool import Pool
from ssinghal.runner.sweep import Submit
from ssinghal.runs.summary import left_out, placed_in
from ssinghal.runs.writer import unprobed

Identity = tuple[str, str]


def identity(case: Case) -> Identity:
    """Returns what tests of the same case share: the name it was selected by, and its key."""
    return case.name, case.key


class Harness:
    """``tests``: node id -> identity of the case, for each selected test of one. ``on_device``: cases that some test probes."""

    def __init__(self, settings: PluginSettings) -> None:
        self.settings = settings
        self.cases = {identity(case): case for cases in settings.cases.values() for case in cases}
        self.tests: dict[str, Identity] = {}
        self.on_device: set[Identity] = set()
        self._ahead: Sequence[Case] = ()
        self._stack = ExitStack()
        self._pool: Pool | None = None
        self._submit: Submit | None = None
        self._estimates: dict[str, MemoryEstimate] = {}
        self._futures: dict[Identity, Future[Record]] = {}

    def header(self) -> list[str]:
        choice, versions = self.settings.choice, ", ".join(f"{n} {v}" for n, v in package_versions().items())
        lines = [f"{choice.mode} {choice.board} ({choice.reason}); {len(self.cases)} cases in the catalogs; {versions}"]
        lines += placed_in(self.settings.placements, self.settings.get("weights"))
        lines += left_out([call.count for call in self.settings.unmapped])
        if choice.mode is DeviceMode.VIRTUAL:
            lines.append("a virtual device gives memory verdicts; numerics are not run")
        if choice.mode is DeviceMode.GOLDEN:
            lines.append("golden functions give values, and no verdict on memory: for the development of ssinghal only")
        return [f"ssinghal: {line}" for line in lines]

    def cases_of(self, mark: pytest.Mark | None) -> list[Case]:
        """Returns the selected cases of the suite that a module's ``operator`` mark names.

        Raises:
            InvalidCase: The mark is missing or names no operator.
        """
        if mark is None or len(mark.args) != 1 or mark.kwargs or not isinstance(mark.args[0], str):
            raise InvalidCase('a test that takes a case needs a mark like pytest.mark.operator("add")')
        return self.settings.cases.get(suite_name(mark.args[0]), [])

    def own_case(self, parameter: object) -> Case | None:
        """Returns a test's ``case`` where it is a selected one; a test of the user's may have its own."""
        if isinstance(parameter, Case) and self.cases.get(identity(parameter)) is parameter:
            return parameter
        return None

    def select(self, tests: Mapping[str, Case], on_device: Sequence[Case]) -> None:
        """Takes the cases of the selected tests, and those of the tests that need a device, in their order."""
        self.tests = {nodeid: identity(case) for nodeid, case in tests.items()}
        self._ahead = on_device
        self.on_device = set(map(identity, on_device))

    def probe_ahead(self) -> None:
        """Starts on all cases that a test needs the device for."""
        for case in self._ahead:
            self.submit(case)

    def pool(self) -> Pool:
        """Returns the device, opened when first needed."""
        if self._pool is None:
            self._pool = self._stack.enter_context(Pool(self.settings.choice, self.settings.pool_options))
        return self._pool

    def device_facts(self) -> DeviceFacts:
        """Returns what was opened, for ``run.json``."""
        return self._pool.facts if self._pool is not None else NOT_OPENED

    def submit(self, case: Case) -> Future[Record]:
        """Returns the case's record to come; a case runs once, however many tests need it."""
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
        """Whether a card or TTNN's allocator ran out of memory on it, or arithmetic shows that it must."""
        entry = load_baseline(self.settings.board.name).get(case.key)
        return (
            case.known_oom is not None
            or (entry is not None and entry.status is Status.OOM)
            or self.estimate(case).verdict is Prediction.EXCEEDS
        )

    def close(self) -> None:
        self._stack.close()

    # Records --------------------------------------------------------------------------------------------------------------

    def record_json(self, case: Case, record: Record, nodeid: str) -> dict[str, Any]:
        """Returns the record as its line will read, with the estimate."""
        return replace(record, estimate=self.estimate(case).stored(), test=nodeid).to_json()

    def record_without_probe(self, case: Case, nodeid: str, status: Status, message: str) -> dict[str, Any]:
        """Returns the record of a case that no device answered: the reason, and its estimate."""
        return self.record_json(case, unprobed(case, status, message, self.settings.board.name), nodeid)
