"""The state of one pytest process: the case of each test, the device pool, and the outcome of each case."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import ExitStack
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Any

import pytest

from ssinghal.core.case import Case
from ssinghal.core.case_sets import CaseDigest, Identity
from ssinghal.core.device_facts import NOT_OPENED, DeviceFacts, DeviceMode
from ssinghal.core.estimate import Prediction
from ssinghal.core.nouns import counted
from ssinghal.core.record import Record
from ssinghal.core.verdict import Status
from ssinghal.core.versions import package_versions
from ssinghal.errors import InvalidCase, one_line
from ssinghal.estimation.baseline import load_baseline
from ssinghal.estimation.estimator import MemoryEstimate, estimate
from ssinghal.operators import suite_name
from ssinghal.pytest_plugin.settings import PluginSettings
from ssinghal.remedy.probing import probing
from ssinghal.runner.answerer import answerer_of, searcher_of
from ssinghal.runner.pool import MAX_AHEAD, Pool
from ssinghal.runner.probers import Submit
from ssinghal.runs.summary import left_out, placed_in
from ssinghal.runs.writer import unprobed

if TYPE_CHECKING:
    from ssinghal.runs.known import EarlierAnswer


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
        # How many cases the tests of all shards have, and the digest of these.
        self.of_all = 0
        self.selection_sha256 = ""
        self._ahead: Iterator[Case] = iter(())
        self._runs_ahead = False
        # Tests of each call, by its key, that have not ended, and the last cases whose other tests may run elsewhere.
        self._to_end: Counter[str] = Counter()
        self._kept: dict[Identity, None] = {}
        self._stack = ExitStack()
        self._pool: Pool | None = None
        self._submit: Submit | None = None
        self._estimates: dict[str, MemoryEstimate] = {}
        self._futures: dict[Identity, Future[Record]] = {}  # by the canonical name and the key
        self._answers: Mapping[str, EarlierAnswer] | None = None

    def header(self) -> list[str]:
        choice, versions = self.settings.choice, ", ".join(f"{n} {v}" for n, v in package_versions().items())
        lines = [f"{choice.mode} {choice.board} ({choice.reason}); {len(self.cases)} cases in the catalogs; {versions}"]
        lines += placed_in(self.settings.placements, self.settings.get("weights"), self.settings.dtypes)
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

    def select_all(self, cases: Iterable[Case]) -> None:
        """Takes the cases of the tests that are selected in all shards together."""
        digest = CaseDigest()
        for one in set(map(identity, cases)):
            digest.add(one)
        self.of_all, self.selection_sha256 = digest.cases, digest.hexdigest()

    def select(self, tests: Mapping[str, Case], on_device: Sequence[Case]) -> None:
        """Takes the cases of the selected tests, and those of the tests that need a device, in their order."""
        self.tests = {nodeid: identity(case) for nodeid, case in tests.items()}
        self._to_end = Counter(key for _, key in self.tests.values())
        self._ahead = iter({identity(case): case for case in on_device}.values())
        self.on_device = set(map(identity, on_device))
        self._estimates = {key: known for key, known in self._estimates.items() if key in self._to_end}

    def probe_ahead(self, cases: int = MAX_AHEAD) -> None:
        """Starts on the next cases that a test needs the device for. Few are ahead, as their records wait in memory."""
        self._runs_ahead = True
        for case in islice(self._ahead, cases):
            self.submit(case)

    def ended(self, nodeid: str, *, shared: bool) -> None:
        """Drops the record and the estimate of a test's call, unless another test still needs them. ``shared``: whether that
        one may run in another process, so that it is not waited for beyond ``MAX_AHEAD`` cases."""
        case = self.tests.get(nodeid)
        if case is None:
            return
        self._to_end[case[1]] -= 1
        if self._to_end[case[1]] <= 0:
            self._drop(case)
        elif shared:
            self._kept[case] = None
            if len(self._kept) > MAX_AHEAD:
                self._drop(next(iter(self._kept)))
        if self._runs_ahead:
            self.probe_ahead(1)

    def _drop(self, case: Identity) -> None:
        _, key = case
        self._futures.pop((self.cases[case].operator, key), None)
        self._estimates.pop(key, None)
        self._kept.pop(case, None)

    def pool(self) -> Pool:
        """Returns the device, opened when first needed."""
        if self._pool is None:
            self._pool = self._stack.enter_context(Pool(self.settings.choice, self.settings.pool_options))
        return self._pool

    def probed_line(self) -> str:
        """Returns how many cases the device probes, and how many answers are taken."""
        keys = {key for _, key in self.on_device}
        taken = len(keys & self._earlier_answers().keys()) if self.settings.incremental else 0
        line = f"probing {counted(len(keys) - taken, 'case')} on {self.settings.pool_options.place(self.settings.choice)}"
        return f"{line}; {taken:,} answers are taken from earlier runs" if taken else line

    def device_facts(self) -> DeviceFacts:
        """Returns what was opened, for ``run.json``."""
        return self._pool.facts if self._pool is not None else NOT_OPENED

    def index_earlier_runs(self) -> None:
        """Adds to the index what is new, where answers of earlier runs are wanted.

        Raises:
            HarnessError: The index cannot be used.
        """
        if self.settings.incremental:
            from ssinghal.runs.known import EarlierRuns

            EarlierRuns(self.settings.get("results")).sync()

    def answerers(self) -> tuple[str, str]:
        """Returns what answers, and what searches for remedies, for ``run.json``; empty where nothing does."""
        if self._pool is None:
            return "", ""
        answerer = answerer_of(self._pool.facts, self.settings.pool_options)
        return answerer, searcher_of(answerer) if self.settings.remedies else ""

    def start_json(self) -> dict[str, Any]:
        """Returns what ``run.json`` states of the device and the selection, as plain values."""
        selection = [self.of_all, self.selection_sha256]
        return {"device": self.device_facts().to_json(), "answerers": list(self.answerers()), "selection": selection}

    def submit(self, case: Case) -> Future[Record]:
        """Returns the record to come of the first of equal calls: they run once, however many tests and names need them, or
        not at all where an earlier run has the answer."""
        call = case.operator, case.key
        if call not in self._futures:
            if self._submit is None:
                self._submit = self._stack.enter_context(probing(self.pool(), remedies=self.settings.remedies))
            self._futures[call] = self._taken(case) or self._submit(case)
        return self._futures[call]

    def record(self, case: Case) -> Record:
        """Returns the case's record, when it has ended. Only one of equal calls took time."""
        record = self.submit(case).result()
        return record if record.op == case.name else record.standing_for(case, duration_s=0.0)

    def _taken(self, case: Case) -> Future[Record] | None:
        """Returns the record of an earlier run, if there is one and it is wanted."""
        if not self.settings.incremental:
            return None
        answer = self._earlier_answers().get(case.key)
        record = answer.record(case, remedies=self.settings.remedies) if answer is not None else None
        if record is None:
            return None
        taken: Future[Record] = Future()
        taken.set_result(record)
        return taken

    def _earlier_answers(self) -> Mapping[str, EarlierAnswer]:
        if self._answers is None:
            from ssinghal.runs.known import EarlierRuns

            keys = [key for _, key in self.on_device]
            earlier = EarlierRuns(self.settings.get("results"))
            self._answers = earlier.answers(keys, self.device_facts(), *self.answerers())
        return self._answers

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
        return replace(record, estimate=self.estimate(case).stored(), test=one_line(nodeid)).to_json()

    def record_without_probe(self, case: Case, nodeid: str, status: Status, message: str) -> dict[str, Any]:
        """Returns the record of a case that no device answered: the reason, and its estimate."""
        return self.record_json(case, unprobed(case, status, message, self.settings.board.name), nodeid)
