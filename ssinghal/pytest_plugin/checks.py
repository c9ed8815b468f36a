"""The work of the suites' fixtures: running a case, judging how it ended, and keeping its record."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ssinghal.core.case import Case
from ssinghal.core.estimate import Prediction
from ssinghal.core.record import Record
from ssinghal.core.verdict import MESSAGE_LIMIT, Status, sentence
from ssinghal.errors import DEVICE_ERRORS, cut, reason
from ssinghal.estimation.baseline import disagreements, load_baseline
from ssinghal.estimation.estimator import MemoryEstimate
from ssinghal.pytest_plugin.recorder import STALE_PROPERTY
from ssinghal.pytest_plugin.session import Harness, identity
from ssinghal.pytest_plugin.settings import OomPolicy
from ssinghal.pytest_plugin.state import RECORD, activate
from ssinghal.runner.pool import Pool


def opened_pool(config: pytest.Config) -> Pool:
    try:
        return activate(config).pool()
    except DEVICE_ERRORS as error:
        raise pytest.fail.Exception(reason(error), pytrace=False) from None


def recording(request: pytest.FixtureRequest) -> Callable[[Case], Record]:
    harness = activate(request.config)

    def run(case: Case) -> Record:
        nodeid = request.node.nodeid
        try:
            record = harness.record(case)
        except DEVICE_ERRORS as error:
            request.node.stash[RECORD] = harness.record_without_probe(case, nodeid, Status.ERROR, reason(error))
            raise pytest.fail.Exception(reason(error), pytrace=False) from None
        request.node.stash[RECORD] = harness.record_json(case, record, nodeid)
        if record.left_allocated:
            pytest.fail(f"the call left device memory allocated: {dict(record.left_allocated)} B per bank", pytrace=False)
        return record

    return run


def comparing(config: pytest.Config, memory_record: Callable[[Case], Record]) -> Callable[[Case], None]:
    harness = activate(config)

    def check(case: Case) -> None:
        __tracebackhide__ = True  # so that a skip is reported at the test, not here
        _judge(harness, case, memory_record(case))

    return check


def expecting_oom(request: pytest.FixtureRequest, memory_record: Callable[[Case], Record]) -> Callable[[Case], None]:
    harness = activate(request.config)

    def check(case: Case) -> None:
        __tracebackhide__ = True
        record = memory_record(case)
        known, verdict = case.known_oom, record.verdict
        if record.status is Status.AGREES:
            pytest.skip("golden functions measure no memory, so that the OOM is not looked for")
        if record.status is Status.FITS:
            stale = f"{case.name} {case.id}: now fits on ttnn {record.ttnn}"
            request.node.user_properties.append((STALE_PROPERTY, stale))
            if harness.settings.policy is OomPolicy.STRICT:
                pytest.fail(f"{STALE_PROPERTY}: {stale}", pytrace=False)
            return
        if record.status is Status.OOM and known is not None and known.total_bytes is not None:
            on_card, here = (known.total_bytes, known.bytes_per_bank), (verdict.total_bytes, verdict.bytes_per_bank)
            if known.banks == verdict.banks and on_card != here:
                pytest.fail(f"{known.run} requested {on_card} B (total, per bank), TTNN now requests {here} B", pytrace=False)
        _judge(harness, case, record)

    return check


def estimating(request: pytest.FixtureRequest) -> Callable[[Case], MemoryEstimate]:
    harness = activate(request.config)

    def check(case: Case) -> MemoryEstimate:
        __tracebackhide__ = True
        estimate = harness.estimate(case)
        if identity(case) not in harness.on_device:
            message = "no selected test ran it; its estimate was checked"
            request.node.stash[RECORD] = harness.record_without_probe(case, request.node.nodeid, Status.NOT_RUN, message)
        entry = load_baseline(harness.settings.board.name).get(case.key)
        if entry is None and case.known_oom is None:
            pytest.skip(f"no allocator bytes are on file for this case on {harness.settings.board.name} (ssinghal baseline)")
        differences = disagreements(case, estimate, entry)
        if differences:
            pytest.fail("\n".join(differences), pytrace=False)
        return estimate

    return check


def _judge(harness: Harness, case: Case, record: Record) -> None:
    __tracebackhide__ = True
    verdict = record.verdict
    foreseen = harness.estimate(case).verdict if harness.settings.policy is OomPolicy.STRICT else Prediction.UNKNOWN
    if verdict.status is Status.OOM:
        if foreseen is Prediction.FITS:
            pytest.fail(f"OOM although the estimate predicts a fit: {sentence(verdict)}", pytrace=False)
        remedy = "" if record.remedies is None else f"; {record.remedies}"
        pytest.skip(f"Expected OOM: {sentence(verdict)}{remedy}")
    if verdict.status is Status.NOT_RUN:
        pytest.skip(f"not run: {verdict.message}")
    if verdict.status is Status.UNSUPPORTED:
        pytest.xfail(verdict.message)
    if verdict.status is Status.AGREES:
        return
    if verdict.status is not Status.FITS:
        parts = (verdict.status.value, verdict.error_type, cut(verdict.message, MESSAGE_LIMIT))
        pytest.fail(": ".join(filter(None, parts)), pytrace=False)
    if foreseen is Prediction.EXCEEDS:
        pytest.fail("it fits although the estimate predicts an OOM", pytrace=False)
