"""What people paste of a failure: every failure once, with all its figures, and nothing that the text does not support.

``data/pasted_reports.yaml`` has the texts of reports and says what its fields mean; those of ``data/made_reports.yaml`` were
written like them, before anyone tried them, with other figures, operators and forms.
"""

from __future__ import annotations

import io
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from ssinghal.device.releases import find_release
from ssinghal.diagnose.log_reader import read_log
from ssinghal.diagnose.model import FailureKind
from ssinghal.diagnose.pipeline import Diagnosis, diagnose_failures
from ssinghal.diagnose.text import as_json, explanation_lines
from ssinghal.errors import HarnessError

DATA = Path(__file__).parents[1] / "data"
REPORTS: list[dict[str, Any]] = [
    report for name in ("pasted_reports", "made_reports") for report in yaml.safe_load((DATA / f"{name}.yaml").read_text())
]
WITH_FAILURES = [report for report in REPORTS if "failures" in report]
WITHOUT = [report for report in REPORTS if "failures" not in report]
REPLAYS = [pytest.param(r, replay, id=r["ref"]) for r in REPORTS for replay in r.get("replays", ())]


def lacking(words: Mapping[str, Any], output: str) -> dict[str, list[str]]:
    """Returns what ``output`` should have and has not, and what it must not have and has."""
    says = [expression for expression in words.get("says", ()) if not re.search(expression, output)]
    never = [expression for expression in words.get("never", ()) if re.search(expression, output)]
    return {name: found for name, found in (("not said", says), ("said", never)) if found}


def ids(report: Mapping[str, Any]) -> str:
    return f"{report['ref']}: {report['form']}" if "form" in report else str(report["ref"])


def diagnosed(text: str) -> list[Diagnosis]:
    return list(diagnose_failures(read_log(io.BytesIO(text.encode()), "pasted.log")))


def printed(diagnoses: list[Diagnosis]) -> str:
    return "\n\n".join("\n".join(explanation_lines(diagnosis)) for diagnosis in diagnoses)


def facts(diagnosis: Diagnosis, expected: Mapping[str, Any]) -> dict[str, Any]:
    """Returns of ``diagnosis`` what ``expected`` names. Where that lists several that are right, all if it has one of them."""
    found = as_json(diagnosis)
    found["function"] = next(iter(found["functions"]), "")
    found["operation"] = (found["operation"] or {}).get("name")
    out = {name: found[name] for name in expected if name not in ("says", "note")}
    return {name: expected[name] if is_one_of(value, expected[name]) else value for name, value in out.items()}


def is_one_of(value: Any, right: Any) -> bool:
    return isinstance(right, list) and value in right


@pytest.mark.parametrize("report", WITH_FAILURES, ids=ids)
def test_every_failure_once_with_its_figures(report: dict[str, Any]) -> None:
    diagnoses = diagnosed(report["text"])
    expected = [{"kind": str(FailureKind.MEMORY), **failure} for failure in report["failures"]]
    assert [facts(d, e) for d, e in zip(diagnoses, expected, strict=True)] == [
        {name: value for name, value in failure.items() if name != "says"} for failure in expected
    ]
    for diagnosis, failure in zip(diagnoses, expected, strict=True):
        assert not lacking(failure, printed([diagnosis]))
    assert not lacking(report, printed(diagnoses))


@pytest.mark.virtual_device
@pytest.mark.parametrize(("report", "replay"), REPLAYS)
def test_replay(run, report: dict[str, Any], replay: dict[str, Any]) -> None:
    try:
        options = [word for version in replay.get("releases", ()) for word in ("--ttnn", find_release(version).version)]
    except HarnessError as error:
        pytest.skip(str(error))
    options += ["--board", replay["board"]] if "board" in replay else []
    options += ["--call", replay["call"]] if "call" in replay else []
    done = run("diagnose", "-", *options, stdin=report["text"].encode())
    assert (done.code, done.err) == (1, "")
    assert not lacking(replay, done.out)


@pytest.mark.parametrize("report", WITHOUT, ids=ids)
def test_nothing_is_invented(report: dict[str, Any]) -> None:
    kinds = {str(diagnosis.failure.kind) for diagnosis in diagnosed(report["text"])}
    assert kinds <= set(report["kinds"])


def test_exit_codes(run) -> None:
    """0 where nothing like a failure stands in the text, 1 everywhere else."""
    sure = [*(report for report in WITHOUT if not report["kinds"]), *WITH_FAILURES[::8]]
    codes = {ids(r): run("diagnose", "-", "--no-replay", stdin=r["text"].encode()).code for r in sure}
    assert codes == {ids(report): 1 if "failures" in report else 0 for report in sure}
