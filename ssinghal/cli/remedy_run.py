"""The work of ``ssinghal remedy``: selects cases, searches, and prints or writes the remedies."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ssinghal.cli.progress import track
from ssinghal.cli.requests import CaseRequest, DeviceRequest
from ssinghal.cli.streams import check_writable, echo, input_lines, show
from ssinghal.core.case import Case, call_text
from ssinghal.core.files import LineFile, replacing, write_given
from ssinghal.core.verdict import Status, Verdict, sentence
from ssinghal.errors import HarnessError, InvalidCase
from ssinghal.operators.case_json import case_from_json, read_lines
from ssinghal.remedy.device_pools import DevicePools, why_no_values
from ssinghal.remedy.equivalence import MAX_ELEMENTS, MAX_ELEMENTS_ALONE
from ssinghal.remedy.resident_buffers import live_set
from ssinghal.remedy.search import Budget
from ssinghal.remedy.solver import Unsolved, solve_all
from ssinghal.remedy.strategies.strategy import HOST_TILES
from ssinghal.remedy.text import RemedyReport, facts, script, to_json
from ssinghal.remedy.text import lines as report_lines
from ssinghal.remedy.trial import Impact
from ssinghal.render.tables import aligned
from ssinghal.runner.tasks import PoolOptions

if TYPE_CHECKING:
    from ssinghal.cli.remedy import RemedyRequest

Failing = list[tuple[Case, Verdict | None]]
FITS, REMEDY, NO_REMEDY = "fit as they are", "have a remedy", "have none of those tried"
_OF_ONE = {FITS: "fits as it is", REMEDY: "has a remedy", NO_REMEDY: "has none of those tried"}


def search_remedies(case: CaseRequest, request: RemedyRequest, device: DeviceRequest) -> int:
    """Searches remedies of one call, or of many cases. Returns 0 where each case has a remedy or fits, else 1."""
    failing = _selected(case, request)
    single = case.operator is not None
    if request.script is not None and not single:
        raise click.UsageError("--script writes the remedy of one call: give an operator and its shapes")
    for path in (request.output, request.script):
        check_writable(path)
    outcomes: Counter[str] = Counter()
    with ExitStack() as stack:
        pools = stack.enter_context(_pools(request, device, single))
        budget = Budget(request.probes, request.seconds, device.host_tiles or HOST_TILES)
        reports = solve_all(failing, pools, budget, live_set(request.live, pools.board), measured=single)
        file = stack.enter_context(_complete_file(request.output)) if request.output is not None else None
        detailed = single or request.verbose
        rows: list[list[str]] = []
        for report in reports if single else track(reports, "searching", len(failing)):
            outcomes.update(_outcomes(report))
            if file is not None:
                file.write(json.dumps(_json_of(report)))
            elif single and isinstance(report, Unsolved) and report.verdict.status is Status.INVALID:
                raise InvalidCase(report.verdict.message)
            elif request.as_json:
                click.echo(json.dumps(_json_of(report)))
            elif detailed:
                show([*_lines_of(report), *([] if single else [""])])
            else:
                rows.append(_row(report))
            if request.script is not None:
                _write_script(request.script, report)
    if rows:
        table = aligned([["call", "runs out of", "made to fit by"], *rows], left=(0, 1, 2))
        show([*table, "", "code and reasons: --verbose, or -o FILE as JSON"])
    if not single:
        echo("\n".join(_summary(len(failing), outcomes)), err=request.as_json)
    return 0 if outcomes[FITS] + outcomes[REMEDY] == len(failing) else 1


@contextmanager
def _complete_file(path: Path) -> Iterator[LineFile]:
    """Yields a file that replaces the one at ``path`` when all of its lines are written."""
    with replacing(path) as temporary, LineFile(temporary) as file:
        yield file


def _pools(request: RemedyRequest, device: DeviceRequest, single: bool) -> DevicePools:
    choice = device.choose()
    workers = device.workers or (1 if single else None)
    pool_options = PoolOptions.of(choice, workers=workers, timeout_s=device.timeout, release=device.release)
    most = MAX_ELEMENTS_ALONE if single else MAX_ELEMENTS
    return DevicePools(choice, pool_options, no_values=why_no_values(not request.no_values), most_elements=most)


def _selected(case: CaseRequest, request: RemedyRequest) -> Failing:
    """Returns the cases, each with its failure where that is known."""
    ways = (case.operator, request.source, request.run, request.catalogs or None)
    if sum(way is not None for way in ways) != 1:
        raise click.UsageError("give one of these: an operator and its shapes, --from, --run, --catalog")
    if case.operator is not None:
        return [(case.case(), None)]
    if request.source is not None:
        lines = read_lines(request.source, input_lines(request.source), _cases_of)
        cases = [pair for pairs in lines for pair in pairs]
        if not cases:
            raise InvalidCase(f"{request.source}: no call in it")
        return cases
    if request.run is not None:
        return _failures_of(request.run, request.results)
    from ssinghal.catalog.expansion import expand
    from ssinghal.catalog.loader import load_catalogs

    return [(known, None) for known in expand(load_catalogs(request.catalogs)).cases]


def _cases_of(fields: Any) -> Failing:
    """Returns the cases of a line: a case, one that this command wrote, one failure of a diagnosis, or a complete diagnosis."""
    if isinstance(fields, dict) and isinstance(fields.get("failures"), list):
        return [pair for failure in fields["failures"] for pair in _cases_of(failure)]
    if isinstance(fields, dict) and "case" in fields:
        return [] if fields["case"] is None else _cases_of(fields["case"])
    return [(case_from_json(fields), None)]


def _failures_of(name: str, results: Path) -> Failing:
    from ssinghal.runs.folders import find_run
    from ssinghal.runs.parsing import case_or_none
    from ssinghal.runs.stored import read_run_of_any_size

    run = read_run_of_any_size(find_run(name, results))
    return [(case, None) for record in run.records if record.is_oom and (case := case_or_none(record)) is not None]


def _row(report: RemedyReport | Unsolved) -> list[str]:
    """Returns the call, what it runs out of, and the strategies that make it fit."""
    if isinstance(report, Unsolved):
        fits = report.verdict.status is Status.FITS
        return [call_text(report.case), "", "it fits as it is" if fits else f"not searched: {sentence(report.verdict)}"]
    problem = report.remedies.problem
    found = [f"{r.impact}: {r.strategy}" for r in report.remedies.found]
    return [call_text(problem.case), str(problem.verdict.resource or ""), "; ".join(found) or "none of those tried"]


def _outcomes(report: RemedyReport | Unsolved) -> list[str]:
    """Returns what became of the case, one of a few phrases, then the kinds of its remedies."""
    if isinstance(report, Unsolved):
        return [FITS if report.verdict.status is Status.FITS else f"not searched, {report.verdict.status}"]
    kinds = [str(r.impact) for r in report.remedies.found]
    return [REMEDY, *kinds] if kinds else [NO_REMEDY]


def _summary(count: int, outcomes: Counter[str]) -> list[str]:
    """Counts each case once, then the kinds of remedies, of which a case has up to three."""
    if not count:
        return ["0 cases: none is out of memory"]
    kinds = {str(impact) for impact in Impact}
    states = [f"{n:,} {_OF_ONE.get(what, what) if n == 1 else what}" for what, n in outcomes.most_common() if what not in kinds]
    remedies = [f"{n:,} {what}" for what, n in outcomes.most_common() if what in kinds]
    cases = "1 case" if count == 1 else f"{count:,} cases"
    return [f"{cases}: {', '.join(states)}", *([f"kinds of remedies: {', '.join(remedies)}"] if remedies else [])]


def _json_of(report: RemedyReport | Unsolved) -> dict[str, Any]:
    if isinstance(report, RemedyReport):
        return {**to_json(report), "status": str(Status.OOM)}
    verdict = report.verdict
    return {
        "case": report.case.identity(),
        "key": report.case.key,
        "status": str(verdict.status),
        "message": verdict.message,
        "remedies": [],
        "refused": [],
        "probes": 0,
    }


def _lines_of(report: RemedyReport | Unsolved) -> list[str]:
    if isinstance(report, RemedyReport):
        return report_lines(report)
    if report.verdict.status is not Status.FITS:
        return [call_text(report.case), f"{report.verdict.status}: {sentence(report.verdict)}"]
    code = report.result.code if report.result else ()
    changes = report.changes.lines() if report.changes else []
    return [call_text(report.case), "it fits: there is nothing to remedy", *(f"   {line}" for line in code), *changes]


def _write_script(path: Path, report: RemedyReport | Unsolved) -> None:
    if isinstance(report, Unsolved) or not report.remedies.found:
        raise HarnessError(f"{path}: there is no remedy to write")
    first = report.remedies.found[0]
    about = [f"{first.impact}: {first.strategy}" + (f" ({first.note})" if first.note else ""), *facts(report, first)]
    write_given(path, script(first.result, about))
