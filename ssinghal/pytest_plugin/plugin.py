"""The pytest plugin: options, the fixtures of the operator and OOM suites, and one record per selected case.

It is inert until something uses it: an option, a conftest or ``-p`` that names it, or a test with its fixtures or its mark.
Until then it imports little more than pytest. A fixture or a parameter of the user's with the name of one of ours wins.

The device is in worker processes (``Pool``), so that neither torch nor ttnn is imported here, and native code that crashes or
hangs costs one case. Cases are probed ahead of the tests that need them.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING

import pytest

from ssinghal.errors import DEVICE_ERRORS, HarnessError, InvalidCase, reason
from ssinghal.pytest_plugin.memory import hooks as memory_hooks
from ssinghal.pytest_plugin.options import add_options, is_requested, shows_progress
from ssinghal.pytest_plugin.recorder import RECORD_ATTRIBUTE, START_ATTRIBUTE, RecordCollector
from ssinghal.pytest_plugin.state import FAULTS, RECORD, activate, active, in_xdist
from ssinghal.pytest_plugin.virtual import hooks as virtual_hooks

if TYPE_CHECKING:
    from ssinghal.core.case import Case
    from ssinghal.core.record import Record
    from ssinghal.estimation.estimator import MemoryEstimate
    from ssinghal.pytest_plugin.session import Harness
    from ssinghal.runner.pool import Pool

OF_A_CASE = {"memory_record", "compare", "expect_oom", "estimate"}  # fixtures that a test with a case uses
ON_DEVICE = {"device", "memory_record"}
NO_CASE = object()  # the one parameter of a test without a case in the chosen catalogs; such a test is left out
STARTED = pytest.StashKey[bool]()
FROZEN = pytest.StashKey[bool]()
UNOPENED = pytest.StashKey[str]()  # why a device did not open
SHOWN = pytest.StashKey[bool]()


def pytest_addoption(parser: pytest.Parser, pluginmanager: pytest.PytestPluginManager) -> None:
    add_options(parser)
    pluginmanager.register(virtual_hooks, "ssinghal-virtual")
    pluginmanager.register(memory_hooks, "ssinghal-memory")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "operator(name): this module's cases are those of the named operator")
    config.addinivalue_line("markers", "op(name): set on every case, so that -m \"op(name='add')\" selects exactly")
    if not in_xdist(config):
        config.pluginmanager.register(RecordCollector(config), "ssinghal-recorder")
    config.add_cleanup(lambda: _thaw(config))  # cleanups go backwards: this one is after the collections of pytest's own
    if not is_requested(config):
        return
    if shows_progress(config):
        from ssinghal.pytest_plugin.progress import ProgressLine

        config.pluginmanager.register(ProgressLine(config), "ssinghal-progress")
    try:
        activate(config)
    except HarnessError as error:
        raise pytest.UsageError(*str(error).splitlines()) from error


def pytest_exception_interact(call: pytest.CallInfo[object]) -> None:
    """Notes an exception that a test failed by, where ``ssinghal exec`` watches TTNN."""
    failing_calls = sys.modules.get("ssinghal.tracker.failing_calls")
    if failing_calls is not None and call.excinfo is not None:
        failing_calls.note_uncaught(call.excinfo.value)


def pytest_unconfigure(config: pytest.Config) -> None:
    harness = active(config)
    if harness is not None:
        harness.close()


def pytest_report_header(config: pytest.Config) -> list[str]:
    harness = active(config)
    if harness is None:
        return []
    config.stash[SHOWN] = True
    return harness.header()


def pytest_report_collectionfinish(config: pytest.Config) -> list[str]:
    """Shows the header here where only the tests themselves use the plugin."""
    return [] if SHOWN in config.stash or config.get_verbosity() < 0 else pytest_report_header(config)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Gives ``case`` the operator's cases: those known not to fit where the test expects an OOM, all of them elsewhere."""
    test = metafunc.definition
    mark = test.get_closest_marker("operator")
    if "case" not in metafunc.fixturenames:
        return
    if not (_own_fixtures(test) & OF_A_CASE or (mark and not _brings_its_case(metafunc))):
        return
    harness = _activated(metafunc.config)
    if harness is None:
        return
    try:
        cases = harness.cases_of(mark)
    except InvalidCase as error:
        _report_later(metafunc.config, f"{test.nodeid}: {error}")
        return
    if "expect_oom" in metafunc.fixturenames:
        cases = [case for case in cases if harness.is_known_oom(case)]
    parameters = [pytest.param(case, id=case.id, marks=pytest.mark.op(name=case.name)) for case in cases]
    metafunc.parametrize("case", parameters or [pytest.param(NO_CASE, id="none")])


def _own_fixtures(item: pytest.Function) -> set[str]:
    """Names of the fixtures of this plugin that a test uses. One that the user has overridden is not among them."""
    definitions = item._fixtureinfo.name2fixturedefs
    return {name for name in OF_A_CASE | ON_DEVICE if name in definitions and definitions[name][-1].func.__module__ == __name__}


def _brings_its_case(metafunc: pytest.Metafunc) -> bool:
    """Whether the test's ``case`` is a fixture or a parameter of the user's."""
    marks = [mark.args[0] if mark.args else mark.kwargs["argnames"] for mark in metafunc.definition.iter_markers("parametrize")]
    names = [name.strip() for named in marks for name in (named.split(",") if isinstance(named, str) else named)]
    return "case" in names or "case" in metafunc._arg2fixturedefs


def _activated(config: pytest.Config) -> Harness | None:
    try:
        return activate(config)
    except HarnessError as error:
        _report_later(config, str(error))
        return None


def _report_later(config: pytest.Config, fault: str) -> None:
    if in_xdist(config):
        raise pytest.fail.Exception(fault, pytrace=False)
    faults = config.stash.setdefault(FAULTS, [])
    faults += [line for line in fault.splitlines() if line not in faults]


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Generator[None, object, object]:
    """Keeps Python's garbage collector from going through cases and tests, which all remain, again and again."""
    if active(session.config) is None or not gc.isenabled():
        return (yield)
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_runtestloop(session: pytest.Session) -> Generator[None, object, object]:
    """Keeps Python's garbage collector from going through cases and tests while these run and when pytest ends."""
    if active(session.config) is not None:
        gc.collect()
        gc.freeze()
        session.config.stash[FROZEN] = True
    return (yield)


def _thaw(config: pytest.Config) -> None:
    if FROZEN in config.stash:
        gc.unfreeze()


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leaves out operators that are not selected, and modules that have no case in the chosen catalogs; then, as a part of what
    every other option selects, all cases but those of the shard."""
    harness = active(config)
    if harness is None:
        return
    wanted = harness.settings.operators
    kept: list[pytest.Item] = []
    dropped: list[pytest.Item] = []
    for item in items:
        case = _case_of(item, harness)
        leave = _parameter(item) is NO_CASE or (case is not None and bool(wanted) and case.name not in wanted)
        (dropped if leave else kept).append(item)
    harness.select_all(case for item in kept if (case := _case_of(item, harness)) is not None)
    if (shard := harness.settings.shard) is not None:
        others = [item for item in kept if (case := _case_of(item, harness)) is not None and not shard.has(case.key)]
        dropped += others
        left_out = set(others)
        kept = [item for item in kept if item not in left_out]
    if dropped:
        config.hook.pytest_deselected(items=dropped)
        items[:] = kept


def pytest_collection_finish(session: pytest.Session) -> None:
    """Knows what will run: opens the device if any test needs it, and starts on the cases in their order."""
    config = session.config
    needs_device = [item for item in session.items if isinstance(item, pytest.Function) and _own_fixtures(item) & ON_DEVICE]
    harness = _activated(config) if needs_device else active(config)
    if FAULTS in config.stash:
        raise pytest.UsageError(*config.stash[FAULTS])
    if harness is None:
        return
    harness.select(
        {item.nodeid: case for item in session.items if (case := _case_of(item, harness)) is not None},
        on_device=[case for item in needs_device if (case := _case_of(item, harness)) is not None],
    )
    if config.option.collectonly or not needs_device:
        return
    try:
        harness.pool()
    except DEVICE_ERRORS as error:
        if not in_xdist(config):
            raise pytest.UsageError(reason(error)) from error
        config.stash[UNOPENED] = reason(error)
    if in_xdist(config):  # there each process probes only what it is given
        return
    harness.probe_ahead()
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    if reporter is not None and harness.on_device and config.get_verbosity() >= 0:
        reporter.write_line(f"ssinghal: {harness.probed_line()}")


def _parameter(item: pytest.Item) -> object:
    return item.callspec.params.get("case") if isinstance(item, pytest.Function) and hasattr(item, "callspec") else None


def _case_of(item: pytest.Item, harness: Harness) -> Case | None:
    return harness.own_case(_parameter(item))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    config = item.config
    if report.when == "call" and RECORD in item.stash:
        setattr(report, RECORD_ATTRIBUTE, item.stash[RECORD])
        del item.stash[RECORD]
    harness = active(config)
    if harness is not None and in_xdist(config) and STARTED not in config.stash:
        config.stash[STARTED] = True
        fault = config.stash.get(UNOPENED, "")
        setattr(report, START_ATTRIBUTE, {"tests": harness.tests, "fault": fault, **harness.start_json()})
    return report


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Drops what was kept for the test's case, if no other test needs it."""
    done = yield
    harness = active(item.config)
    if harness is not None:
        harness.ended(item.nodeid, shared=in_xdist(item.config))
    return done


# Fixtures -----------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def device(pytestconfig: pytest.Config) -> Pool:
    """The open device, as the pool of worker processes that hold it: ``device.submit(case).result()`` is a case's record."""
    from ssinghal.pytest_plugin import checks

    return checks.opened_pool(pytestconfig)


@pytest.fixture
def memory_record(request: pytest.FixtureRequest, device: Pool) -> Callable[[Case], Record]:
    """Runs a case once per session and records it: estimate, bytes per bank, peaks, allocated over logical bytes."""
    from ssinghal.pytest_plugin import checks

    return checks.recording(request)


@pytest.fixture
def compare(pytestconfig: pytest.Config, memory_record: Callable[[Case], Record]) -> Callable[[Case], None]:
    """TTNN must take the call and return what it should; on a device that computes, torch's values too. An OOM skips."""
    from ssinghal.pytest_plugin import checks

    return checks.comparing(pytestconfig, memory_record)


@pytest.fixture
def expect_oom(request: pytest.FixtureRequest, memory_record: Callable[[Case], Record]) -> Callable[[Case], None]:
    """A case known not to fit: skipped with its numbers, which must be those of the card that ran out; stale if it fits now."""
    from ssinghal.pytest_plugin import checks

    return checks.expecting_oom(request, memory_record)


@pytest.fixture(name="estimate")
def check_estimate(request: pytest.FixtureRequest) -> Callable[[Case], MemoryEstimate]:
    """The arithmetic, checked against the bytes that TTNN's allocator, or a card that ran out, reported for this case. It needs
    no device."""
    from ssinghal.pytest_plugin import checks

    return checks.estimating(request)
