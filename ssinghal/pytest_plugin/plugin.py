"""The pytest plugin: options, the fixtures of the operator and OOM suites, and one record per selected case.

The device lives in worker processes (``pool``), so neither torch nor ttnn is imported here, and native code that crashes or
hangs costs one case. Cases are probed ahead of the tests that ask for them.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any

import pytest

from ssinghal.core.case import Case
from ssinghal.core.record import MESSAGE_LIMIT, Record, Status, sentence
from ssinghal.core.versions import package_versions
from ssinghal.device.modes import DeviceMode
from ssinghal.errors import HarnessError, InvalidCase, cut
from ssinghal.estimation.baseline import disagreements, load_baseline
from ssinghal.estimation.estimator import MemoryEstimate, Prediction
from ssinghal.operators import suite_name
from ssinghal.pytest_plugin.options import OomPolicy, PluginSettings, add_options
from ssinghal.pytest_plugin.recorder import RECORD_ATTRIBUTE, STALE_PROPERTY, START_ATTRIBUTE, RecordCollector
from ssinghal.pytest_plugin.session import Harness, identity
from ssinghal.runner.pool import Pool
from ssinghal.runs.summary import left_out

DEVICE_ERRORS = (HarnessError, OSError)  # why a device did not open
HARNESS = pytest.StashKey[Harness]()
RECORD = pytest.StashKey[dict[str, Any]]()
STARTED = pytest.StashKey[bool]()


def pytest_addoption(parser: pytest.Parser) -> None:
    add_options(parser)


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "operator(name): this module's cases are those of the named operator")
    config.addinivalue_line("markers", "op(name): set on every case, so that -m \"op(name='add')\" selects exactly")
    config.addinivalue_line("markers", "virtual_device: needs ttnn, which opens a virtual board")
    config.addinivalue_line("markers", "needs_torch: needs torch")
    try:
        harness = config.stash[HARNESS] = Harness(PluginSettings(config))
    except HarnessError as error:
        raise pytest.UsageError(*str(error).splitlines()) from error
    if not _in_xdist(config):
        config.pluginmanager.register(RecordCollector(config, harness), "ssinghal-recorder")


def pytest_unconfigure(config: pytest.Config) -> None:
    if HARNESS in config.stash:
        config.stash[HARNESS].close()


def pytest_report_header(config: pytest.Config) -> list[str]:
    settings = config.stash[HARNESS].settings
    count = sum(len(c) for c in settings.cases.values())
    versions = ", ".join(f"{n} {v}" for n, v in package_versions().items())
    choice = settings.choice
    lines = [f"ssinghal: {choice.mode} {choice.board} ({choice.reason}); {count} cases in the catalogs; {versions}"]
    lines += [f"ssinghal: {line}" for line in left_out([call.count for call in settings.unmapped])]
    if choice.mode is DeviceMode.VIRTUAL:
        lines.append("ssinghal: a virtual device gives memory verdicts; numerics are not run")
    return lines


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Gives ``case`` the operator's cases: those known not to fit where the test expects an OOM, all of them elsewhere."""
    if "case" not in metafunc.fixturenames:
        return
    harness = metafunc.config.stash[HARNESS]
    cases: list[Case] = []
    mark = metafunc.definition.get_closest_marker("operator")
    try:
        name = _operator_of(mark)
        cases = harness.settings.cases.get(name, [])
    except InvalidCase as error:
        fault = f"{metafunc.definition.nodeid}: {error}"
        if _in_xdist(metafunc.config):
            raise pytest.fail.Exception(fault, pytrace=False) from None
        harness.faults.append(fault)
    if "expect_oom" in metafunc.fixturenames:
        cases = [c for c in cases if harness.is_known_oom(c)]
    metafunc.parametrize("case", [pytest.param(c, id=c.id, marks=pytest.mark.op(name=c.name)) for c in cases])


def _operator_of(mark: pytest.Mark | None) -> str:
    """The suite that a module's ``operator`` mark names. InvalidCase where it is missing or names none."""
    if mark is None or len(mark.args) != 1 or mark.kwargs or not isinstance(mark.args[0], str):
        raise InvalidCase('a test that takes a case needs a mark like pytest.mark.operator("add")')
    return suite_name(mark.args[0])


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leaves out operators not asked for, and modules that have no case in the chosen catalogs."""
    wanted = config.stash[HARNESS].settings.operators
    kept: list[pytest.Item] = []
    dropped: list[pytest.Item] = []
    for item in items:
        case = _case_of(item)
        leave = _takes(item, "case") and (case is None or (bool(wanted) and case.name not in wanted))
        (dropped if leave else kept).append(item)
    if dropped:
        config.hook.pytest_deselected(items=dropped)
        items[:] = kept


def pytest_collection_finish(session: pytest.Session) -> None:
    """Knows what will run: opens the device if any test needs it, and starts on the cases in their order."""
    config = session.config
    harness = config.stash[HARNESS]
    if harness.faults:
        raise pytest.UsageError(*harness.faults)
    needs_device = [item for item in session.items if _takes(item, "device")]
    to_probe = [case for case in map(_case_of, needs_device) if case is not None]
    harness.tests = {item.nodeid: identity(case) for item in session.items if (case := _case_of(item)) is not None}
    harness.on_device = set(map(identity, to_probe))
    if config.option.collectonly or not needs_device:
        return
    try:
        harness.pool()
    except DEVICE_ERRORS as error:
        if not _in_xdist(config):
            raise pytest.UsageError(str(error)) from error
    if not _in_xdist(config):  # there each process probes only what it is given
        for case in to_probe:
            harness.submit(case)


def _takes(item: pytest.Item, fixture: str) -> bool:
    return fixture in getattr(item, "fixturenames", ())


def _case_of(item: pytest.Item) -> Case | None:
    case = item.callspec.params.get("case") if isinstance(item, pytest.Function) and hasattr(item, "callspec") else None
    return case if isinstance(case, Case) else None


def _in_xdist(config: pytest.Config) -> bool:
    """True in the processes that xdist distributes tests to. Of these only reports reach the user, not a UsageError."""
    return hasattr(config, "workerinput")


# Fixtures -----------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def device(pytestconfig: pytest.Config) -> Pool:
    """The open device, as the pool of worker processes that hold it: ``device.submit(case).result()`` is a case's record."""
    try:
        return pytestconfig.stash[HARNESS].pool()
    except DEVICE_ERRORS as error:
        raise pytest.fail.Exception(str(error), pytrace=False) from None


@pytest.fixture
def memory_record(request: pytest.FixtureRequest, device: Pool) -> Callable[[Case], Record]:
    """Runs a case once per session and records it: estimate, bytes per bank, peaks, allocated over logical bytes."""
    harness = request.config.stash[HARNESS]

    def run(case: Case) -> Record:
        nodeid = request.node.nodeid
        try:
            record = harness.submit(case).result()
        except DEVICE_ERRORS as error:
            request.node.stash[RECORD] = harness.record_without_probe(case, nodeid, Status.ERROR, str(error))
            raise pytest.fail.Exception(str(error), pytrace=False) from None
        request.node.stash[RECORD] = harness.record_json(case, record, nodeid)
        if record.left_allocated:
            pytest.fail(f"the call left device memory allocated: {dict(record.left_allocated)} B per bank", pytrace=False)
        return record

    return run


@pytest.fixture
def compare(request: pytest.FixtureRequest, memory_record: Callable[[Case], Record]) -> Callable[[Case], None]:
    """TTNN must take the call and return what it should; on a device that computes, torch's values too. An OOM skips."""
    harness = request.config.stash[HARNESS]

    def check(case: Case) -> None:
        __tracebackhide__ = True  # a skip is then said to be at the test, not here
        _judge(harness, case, memory_record(case))

    return check


@pytest.fixture
def expect_oom(request: pytest.FixtureRequest, memory_record: Callable[[Case], Record]) -> Callable[[Case], None]:
    """A case known not to fit: skipped with its numbers, which must be those of the card that ran out; stale if it fits now."""
    harness = request.config.stash[HARNESS]

    def check(case: Case) -> None:
        __tracebackhide__ = True
        record = memory_record(case)
        known = case.known_oom
        if record.status is Status.FITS:
            stale = f"{case.name} {case.id}: now fits on ttnn {record.ttnn}"
            request.node.user_properties.append((STALE_PROPERTY, stale))
            if harness.settings.policy is OomPolicy.STRICT:
                pytest.fail(f"{STALE_PROPERTY}: {stale}", pytrace=False)
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
        __tracebackhide__ = True
        made = harness.estimate(case)
        if identity(case) not in harness.on_device:
            message = "no selected test ran it; its estimate was checked"
            request.node.stash[RECORD] = harness.record_without_probe(case, request.node.nodeid, Status.NOT_RUN, message)
        entry = load_baseline(harness.settings.board.name).get(case.key)
        if entry is None and case.known_oom is None:
            pytest.skip(f"no allocator bytes are on file for this case on {harness.settings.board.name} (ssinghal baseline)")
        differ = disagreements(case, made, entry)
        if differ:
            pytest.fail("\n".join(differ), pytrace=False)
        return made

    return check


def _judge(harness: Harness, case: Case, record: Record) -> None:
    __tracebackhide__ = True
    verdict = record.verdict
    foreseen = harness.estimate(case).verdict if harness.settings.policy is OomPolicy.STRICT else Prediction.UNKNOWN
    if verdict.status is Status.OOM:
        if foreseen is Prediction.FITS:
            pytest.fail(f"OOM that the estimate says fits: {sentence(verdict)}", pytrace=False)
        remedy = "" if record.remedies is None else f"; {record.remedies}"
        pytest.skip(f"Expected OOM: {sentence(verdict)}{remedy}")
    if verdict.status is Status.NOT_RUN:
        pytest.skip(f"not run: {verdict.message}")
    if verdict.status is Status.UNSUPPORTED:
        pytest.xfail(verdict.message)
    if verdict.status is not Status.FITS:
        pytest.fail(
            ": ".join(filter(None, (verdict.status.value, verdict.error_type, cut(verdict.message, MESSAGE_LIMIT)))),
            pytrace=False,
        )
    if foreseen is Prediction.EXCEEDS:
        pytest.fail("it fits, but the estimate says that it exceeds", pytrace=False)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    config = item.config
    if report.when == "call" and RECORD in item.stash:
        setattr(report, RECORD_ATTRIBUTE, item.stash[RECORD])
    if _in_xdist(config) and STARTED not in config.stash:
        config.stash[STARTED] = True
        harness = config.stash[HARNESS]
        setattr(report, START_ATTRIBUTE, {"tests": harness.tests, "device": harness.device_facts()})
    return report
