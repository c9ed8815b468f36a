"""The pytest plugin: options, the fixtures of the operator and OOM suites, and one record per selected case.

The device lives in worker processes (``pool``), so neither torch nor ttnn is imported here, and native code that crashes or
hangs costs one case. Cases are probed ahead of the tests that ask for them.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any

import pytest

from ssinghal.baseline import disagreements, load_baseline
from ssinghal.cases import Case
from ssinghal.device.modes import DeviceMode
from ssinghal.errors import HarnessError
from ssinghal.estimate import MemoryEstimate
from ssinghal.harness import LISTS, OPTIONS, Harness, Settings, identity
from ssinghal.operators import find_operator
from ssinghal.pool import Pool
from ssinghal.recorder import Recorder
from ssinghal.records import Record, Status
from ssinghal.results import package_versions
from ssinghal.text import sentence


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("oom", "TTNN memory verdicts (ssinghal)")
    for name, kind, default, text in OPTIONS:
        shown = "" if default is None else f" (default {default})"
        group.addoption(f"--oom-{name}", type=kind, default=None, help=f"{text}{shown}")
        parser.addini(f"oom_{name.replace('-', '_')}", text, default=None)
    for name, text in LISTS:
        group.addoption(f"--oom-{name}", action="append", default=None, help=text)
        parser.addini(f"oom_{name}", text, type="args", default=None)
    group.addoption("--oom-ttnn-log", action="store_true", default=None, help="let TTNN write its log to standard error")


HARNESS = pytest.StashKey[Harness]()
RECORD = pytest.StashKey[dict[str, Any]]()


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "operator(name): this module's cases are those of the named operator")
    config.addinivalue_line("markers", "op(name): set on every case, so that -m \"op(name='add')\" selects exactly")
    config.addinivalue_line("markers", "virtual_device: needs ttnn, which opens a virtual board")
    config.addinivalue_line("markers", "needs_torch: needs torch")
    try:
        config.stash[HARNESS] = Harness(Settings(config))
    except HarnessError as error:
        raise pytest.UsageError(*str(error).splitlines()) from error
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Recorder(config), "ssinghal-recorder")


def pytest_unconfigure(config: pytest.Config) -> None:
    if HARNESS in config.stash:
        config.stash[HARNESS].close()


def pytest_report_header(config: pytest.Config) -> list[str]:
    settings = config.stash[HARNESS].settings
    count = sum(len(c) for c in settings.cases.values())
    versions = ", ".join(f"{n} {v}" for n, v in package_versions().items())
    choice = settings.choice
    lines = [f"ssinghal: {choice.mode} {choice.board} ({choice.reason}); {count} cases in the catalogs; {versions}"]
    if choice.mode is DeviceMode.VIRTUAL:
        lines.append("ssinghal: a virtual device gives memory verdicts; numerics are not run")
    return lines


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Gives ``case`` the operator's cases: those known not to fit where the test expects an OOM, all of them elsewhere."""
    if "case" not in metafunc.fixturenames:
        return
    mark = metafunc.definition.get_closest_marker("operator")
    if mark is None:
        raise pytest.UsageError(f"{metafunc.definition.nodeid} takes a case but its module has no operator(name) mark")
    harness = metafunc.config.stash[HARNESS]
    name = mark.args[0]
    try:
        find_operator(name)
    except HarnessError as error:
        raise pytest.UsageError(f"{metafunc.definition.nodeid}: {error}") from error
    cases = harness.settings.cases.get(name, [])
    if "expect_oom" in metafunc.fixturenames:
        cases = [c for c in cases if harness.is_known_oom(c)]
    metafunc.parametrize("case", [pytest.param(c, id=c.id, marks=pytest.mark.op(name=name)) for c in cases])


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leaves out operators not asked for, and modules that have no case in the chosen catalogs."""
    wanted = config.stash[HARNESS].settings.operators
    kept: list[pytest.Item] = []
    dropped: list[pytest.Item] = []
    for item in items:
        mark = item.get_closest_marker("operator")
        is_case = mark is not None and "case" in getattr(item, "fixturenames", ())
        leave = is_case and (_case_of(item) is None or (bool(wanted) and mark is not None and mark.args[0] not in wanted))
        (dropped if leave else kept).append(item)
    if dropped:
        config.hook.pytest_deselected(items=dropped)
        items[:] = kept


def pytest_collection_finish(session: pytest.Session) -> None:
    """Knows what will run: opens the device if any test needs it, and starts on the cases in their order."""
    config = session.config
    harness = config.stash[HARNESS]
    for item in session.items:
        case = _case_of(item)
        if case is not None:
            harness.selected[identity(case)] = case
            if _uses_device(item):
                harness.on_device.add(identity(case))
    needs_device = [item for item in session.items if _uses_device(item)]
    if hasattr(config, "workeroutput"):
        config.workeroutput["ssinghal_selected"] = [harness.not_run(case) for case in harness.selected.values()]
    if config.option.collectonly or not needs_device:
        return
    try:
        harness.pool()
    except HarnessError as error:
        raise pytest.UsageError(str(error)) from error
    if not hasattr(config, "workerinput"):  # under xdist each process probes only what it is given
        for item in needs_device:
            case = _case_of(item)
            if case is not None:
                harness.submit(case)


def _case_of(item: pytest.Item) -> Case | None:
    case = item.callspec.params.get("case") if isinstance(item, pytest.Function) and hasattr(item, "callspec") else None
    return case if isinstance(case, Case) else None


def _uses_device(item: pytest.Item) -> bool:
    return "device" in getattr(item, "fixturenames", ())


# Fixtures -----------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def device(pytestconfig: pytest.Config) -> Pool:
    """The open device, as the pool of worker processes that hold it: ``device.submit(case).result()`` is a case's record."""
    return pytestconfig.stash[HARNESS].pool()


@pytest.fixture
def memory_record(request: pytest.FixtureRequest, device: Pool) -> Callable[[Case], Record]:
    """Runs a case once per session and records it: estimate, bytes per bank, peaks, allocated over logical bytes."""
    harness = request.config.stash[HARNESS]

    def run(case: Case) -> Record:
        record = harness.submit(case).result()
        request.node.stash[RECORD] = harness.record_json(case, record, request.node.nodeid)
        if record.left_allocated:
            pytest.fail(f"the call left device memory allocated: {dict(record.left_allocated)} B per bank", pytrace=False)
        return record

    return run


@pytest.fixture
def compare(request: pytest.FixtureRequest, memory_record: Callable[[Case], Record]) -> Callable[[Case], None]:
    """TTNN must take the call and return what it should; on a device that computes, torch's values too. An OOM skips."""
    harness = request.config.stash[HARNESS]

    def check(case: Case) -> None:
        record = memory_record(case)
        _judge(harness, case, record)

    return check


@pytest.fixture
def expect_oom(request: pytest.FixtureRequest, memory_record: Callable[[Case], Record]) -> Callable[[Case], None]:
    """A case known not to fit: skipped with its numbers, which must be those of the card that ran out; stale if it fits now."""
    harness = request.config.stash[HARNESS]

    def check(case: Case) -> None:
        record = memory_record(case)
        known = case.known_oom
        if record.status is Status.FITS:
            stale = f"{case.name} {case.id}: now fits on ttnn {record.ttnn}"
            harness.stale.append(stale)
            if harness.settings.policy == "strict":
                pytest.fail(f"stale known OOM: {stale}", pytrace=False)
            return
        if record.status is Status.OOM and known is not None and known.total_bytes is not None:
            said, seen = (known.total_bytes, known.bytes_per_bank), (record.verdict.total_bytes, record.verdict.bytes_per_bank)
            if known.banks == record.verdict.banks and said != seen:
                pytest.fail(f"{known.run} asked for {said} B (total, per bank), TTNN now for {seen} B", pytrace=False)
        _judge(harness, case, record)

    return check


@pytest.fixture(name="estimate")
def check_estimate(request: pytest.FixtureRequest) -> Callable[[Case], MemoryEstimate]:
    """The arithmetic, held against the bytes that TTNN's allocator, or a card that ran out, named for this case. No device."""
    harness = request.config.stash[HARNESS]

    def check(case: Case) -> MemoryEstimate:
        made = harness.estimate(case)
        if identity(case) not in harness.on_device:
            request.node.stash[RECORD] = harness.not_run(case, request.node.nodeid)
        entry = load_baseline(harness.settings.board.name).get(case.key)
        if entry is None and case.known_oom is None:
            pytest.skip(f"no allocator bytes are on file for this case on {harness.settings.board.name} (ssinghal baseline)")
        differ = disagreements(case, made, entry)
        if differ:
            pytest.fail("\n".join(differ), pytrace=False)
        return made

    return check


def _judge(harness: Harness, case: Case, record: Record) -> None:
    verdict = record.verdict
    if verdict.status is Status.OOM:
        if harness.settings.policy == "strict" and harness.estimate(case).verdict == "fits":
            pytest.fail(f"OOM that the estimate says fits: {sentence(verdict)}", pytrace=False)
        pytest.skip(f"Expected OOM: {sentence(verdict)}")
    if verdict.status is Status.NOT_RUN:
        pytest.skip(f"not run: {verdict.message}")
    if verdict.status is Status.UNSUPPORTED:
        pytest.xfail(verdict.message)
    if verdict.status is not Status.FITS:
        pytest.fail(f"{verdict.status.value}: {verdict.error_type} {verdict.message}".strip(), pytrace=False)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.when == "call" and RECORD in item.stash:
        report.ssinghal_record = item.stash[RECORD]  # type: ignore[attr-defined]  # a plain dict: crosses xdist
        report.ssinghal_device = item.config.stash[HARNESS].device_facts()  # type: ignore[attr-defined]
    return report
