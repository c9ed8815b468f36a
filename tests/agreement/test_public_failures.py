"""Failures that users reported: every message is read with its numbers, every call is replayed, and its remedies run.

``data/public_failures.yaml`` has the facts and says what they are.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from ssinghal.core.case import Case
from ssinghal.core.verdict import Resource, Status, Verdict
from ssinghal.device.error_patterns import translate_error
from ssinghal.device.modes import choose_device
from ssinghal.device.releases import find_release
from ssinghal.diagnose.fingerprint import fingerprint_of
from ssinghal.diagnose.log_reader import read_log
from ssinghal.diagnose.pipeline import diagnose_failures
from ssinghal.diagnose.replay import Replay, replay
from ssinghal.diagnose.text import explanation_lines
from ssinghal.errors import HarnessError
from ssinghal.operators.case_json import case_from_json
from ssinghal.remedy.device_pools import DevicePools
from ssinghal.remedy.problem import Problem
from ssinghal.remedy.solver import Unsolved, solve
from ssinghal.remedy.text import RemedyReport, script
from ssinghal.remedy.trial import LiveSet
from ssinghal.runner.pool_cache import PoolCache
from ssinghal.runner.tasks import PoolOptions
from tests.support.wrapped_messages import WRAPPINGS

REPORTS: list[dict[str, Any]] = yaml.safe_load((Path(__file__).parents[1] / "data" / "public_failures.yaml").read_text())
FACTS = Path(__file__).parents[3] / "shared" / "reports" / "public_failures.csv"
FITS = "fits"

MESSAGES = [
    pytest.param(message, id=f"{report['ref']}-{i}")
    for report in REPORTS
    for i, message in enumerate(report.get("messages", []))
]
CALLS = [(report, i, call) for report in REPORTS for i, call in enumerate(report.get("calls", []))]
REPLAYS = [
    pytest.param(report, call, release, id=f"{report['ref']}-{i}-{release}")
    for report, i, call in CALLS
    for release in call["replays"]
]
FAILING = [param for param in REPLAYS if param.values[1]["replays"][param.values[2]] != FITS]
NEVER_FAILING = [pytest.param(call, id=f"{report['ref']}-{i}") for report, i, call in CALLS if "remedies" not in call]


class ReleasePools(PoolCache[DevicePools]):
    def of(self, call: dict[str, Any], release: str) -> DevicePools:
        choice = choose_device("virtual", call.get("board", "n150"))
        options = PoolOptions.of(choice, workers=1, release=found(release))
        return self.pool((choice.board, release), lambda: DevicePools(choice, options, no_values="not asked"))


def found(release: str) -> Any:
    try:
        return find_release(release)
    except HarnessError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def benches() -> Iterator[ReleasePools]:
    with ReleasePools() as pools:
        yield pools


def read(text: str, wrapping: str) -> list[Verdict]:
    return [f.verdict for f in read_log(io.BytesIO(WRAPPINGS[wrapping]({"text": text}).encode()), "log").failures]


def figures(verdict: Verdict, names: Any) -> dict[str, Any]:
    return {name: getattr(verdict, name) for name in names}


def case_of(call: dict[str, Any]) -> Case:
    return case_from_json(call["case"])


def reported(report: dict[str, Any]) -> Verdict:
    """Returns the first message, or a failure of the kind that the report names."""
    if "messages" in report:
        return translate_error("RuntimeError", report["messages"][0]["text"])
    return Verdict(Status.OOM, Resource(report["kind"]))


def made_again(benches: ReleasePools, report: dict[str, Any], call: dict[str, Any], release: str) -> Replay:
    verdict = reported(report)
    live: LiveSet | None = () if call.get("alone") else None
    return replay(case_of(call), verdict, benches.of(call, release), "", live, fingerprint_of(verdict).trace_region_bytes)


# ---- read ----


@pytest.mark.parametrize("message", MESSAGES)
def test_message_is_read(message: dict[str, Any]) -> None:
    right = [(Status.OOM, Resource(message["resource"]), message["numbers"])]
    found = {
        wrapping: [(v.status, v.resource, figures(v, message["numbers"])) for v in read(message["text"], wrapping)]
        for wrapping in WRAPPINGS
    }
    assert {wrapping: verdicts for wrapping, verdicts in found.items() if verdicts != right} == {}


# What a diagnosis would state of a board with another chip, and of the build.
OTHER_CHIPS = {
    "wormhole": r"points to an? (Blackhole|p1[05]0|p300)",
    "blackhole": r"points to (an?|one chip of an?) (Wormhole|n150|n300)",
    "grayskull": r"board: points to",
}


KNOWN_BUILD = r"release: .*points to (\d|builds)"


@pytest.mark.parametrize("report", [pytest.param(report, id=report["ref"]) for report in REPORTS if "messages" in report])
def test_report_is_not_contradicted(report: dict[str, Any]) -> None:
    for message in report["messages"]:
        reading = read_log(io.BytesIO(WRAPPINGS["traceback"]({"text": message["text"]}).encode()), "log")
        (diagnosis,) = diagnose_failures(reading)
        said = "\n".join(explanation_lines(diagnosis))
        assert not re.search(OTHER_CHIPS.get(report.get("chip", ""), "not a memory failure"), said)
        assert not (report.get("older") and re.search(KNOWN_BUILD, said))


# ---- replayed ----


@pytest.mark.virtual_device
@pytest.mark.parametrize(("report", "call", "release"), REPLAYS)
def test_replay(benches: ReleasePools, report: dict[str, Any], call: dict[str, Any], release: str) -> None:
    """The call fits, or fails with these numbers, and TTNN's own message is read back completely."""
    expected = call["replays"][release]
    replayed = made_again(benches, report, call, release)
    verdict = replayed.result.verdict
    if expected == FITS:
        assert (verdict.status, verdict.message) == (Status.FITS, "")
        return
    numbers = {name: value for name, value in expected.items() if name != "resource"}
    assert (verdict.status, verdict.resource) == (Status.OOM, Resource(expected["resource"]))
    assert figures(verdict, numbers) == numbers
    if verdict.resource is not Resource.CLASH:  # its message is kept without the number of the program
        (again,) = read(verdict.message, "pytest")
        assert figures(again, numbers) == numbers
    if replayed.same_kind and release == next(iter(call["replays"])):
        unequal = {f.name: f.replayed - f.reported for f in replayed.numbers if not f.equal}  # type: ignore[operator]
        assert unequal == call.get("differences", {})


# ---- remedied ----


@pytest.mark.virtual_device
@pytest.mark.parametrize(("report", "call", "release"), FAILING)
def test_remedies(benches: ReleasePools, report: dict[str, Any], call: dict[str, Any], release: str) -> None:
    """Each ran on a device; on the first release they include those listed."""
    replayed = made_again(benches, report, call, release)
    verdict = reported(report)
    trace = fingerprint_of(verdict).trace_region_bytes
    solution = solve(
        case_of(call), benches.of(call, release), live=replayed.live, verdict=replayed.result.verdict, trace_region_bytes=trace
    )
    assert isinstance(solution, RemedyReport)
    remedies = solution.remedies.found
    assert all(remedy.result.works for remedy in remedies)
    contracts = {str(remedy.impact) for remedy in remedies}
    assert contracts
    if release == next(iter(call["replays"])):
        assert contracts >= set(call["remedies"])
        assert any(call.get("advice", "") in remedy.note for remedy in remedies)


@pytest.mark.virtual_device
@pytest.mark.parametrize("call", NEVER_FAILING)
def test_what_fits_needs_no_remedy(benches: ReleasePools, call: dict[str, Any]) -> None:
    solution = solve(case_of(call), benches.of(call, next(iter(call["replays"]))))
    assert isinstance(solution, Unsolved)
    assert solution.verdict.status is Status.FITS


# ---- the device as the report's was ----


@pytest.mark.virtual_device
@pytest.mark.parametrize(
    ("release", "bank_bytes"), [("0.66.0", 1_073_741_792 - 1_920_000), ("0.81.1", 1_072_693_184 - 20 * 8192)]
)
def test_trace_region(benches: ReleasePools, release: str, bank_bytes: int) -> None:
    """0.66.0 takes ``trace_region_size`` from each DRAM bank; later releases from all together, in steps of 8 KiB of each:
    1,920,000 / 12 is 19.5 of them. A program asks for it again."""
    pools = benches.of({}, release)
    assert pools.board_of("", 1_920_000).dram.bank_bytes == bank_bytes
    assert pools.board_of("").dram.bank_bytes > bank_bytes
    case = case_from_json({"op": "relu", "inputs": [[32, 32]]})
    problem = Problem.of(case, Verdict(Status.FITS), pools.board_of("", 1_920_000), trace_region_bytes=1_920_000)
    result = pools.run(problem.trial())
    assert result.works
    assert "ttnn.open_device(device_id=0, l1_small_size=0, trace_region_size=1920000)" in script(result, [])


# ---- all of them ----


def test_every_report_is_complete() -> None:
    for report in REPORTS:
        assert ("messages" in report) != ("kind" in report), report["ref"]
        assert ("calls" in report) != ("why_no_call" in report), report["ref"]
    for report, _, call in CALLS:
        assert any(outcome != FITS for outcome in call["replays"].values()) == ("remedies" in call), report["ref"]


@pytest.mark.skipif(not FACTS.exists(), reason="the table of reports is not beside this repository")
def test_every_report_of_the_table_is_here() -> None:
    with FACTS.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [report["ref"] for report in REPORTS] == [row["ref"] for row in rows]
    replayable = [row["ref"] for row in rows if row["replay_class"] in ("A", "A*", "B", "C", "D")]
    replayed = [report["ref"] for report in REPORTS if "calls" in report]
    assert set(replayed) <= set(replayable)
    assert len(replayed) >= 0.9 * len(replayable)
