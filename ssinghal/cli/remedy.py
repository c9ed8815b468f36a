"""``ssinghal remedy``: what would make failing calls fit."""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ssinghal.cli.options import (
    case_arguments,
    case_from_arguments,
    device_options,
    host_tiles_option_of,
    input_lines,
    interruptible,
    release_option,
    seconds_option_of,
    timeout_option,
    workers_option,
    write_text,
)
from ssinghal.cli.progress import track
from ssinghal.core.case import Case
from ssinghal.core.record import Status, Verdict, sentence
from ssinghal.device.modes import choose_device
from ssinghal.device.releases import Release
from ssinghal.errors import HarnessError, InvalidCase
from ssinghal.operators.case_json import case_from_json, read_lines
from ssinghal.remedy.strategies.placement import HOST_TILES
from ssinghal.runner.tasks import PoolOptions
from ssinghal.runs.files import LineFile

if TYPE_CHECKING:
    from ssinghal.remedy.solver import Unsolved
    from ssinghal.remedy.text import RemedyReport

Failing = list[tuple[Case, Verdict | None]]


@click.command()
@case_arguments
@device_options
@release_option
@click.option("--live", multiple=True, metavar="SIZE@MEMORY|FILE", help="What else lives: 400MiB@dram, 64KiB@l1, or a file.")
@click.option("--from", "source", type=click.Path(dir_okay=False, path_type=Path), help="JSONL file of cases, or of diagnoses.")
@click.option("--run", "run_name", metavar="RUN", help="All calls of a run that ran out of memory: its folder, id or latest.")
@click.option("--catalog", "catalogs", multiple=True, metavar="NAME|FILE", help="All cases of a catalog (repeatable).")
@click.option(
    "--results", type=click.Path(file_okay=False, path_type=Path), default=Path("results"), help="Folder of the runs."
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object for each case.")
@click.option("-o", "--output", type=click.Path(dir_okay=False, path_type=Path), help="Write the JSON objects there.")
@click.option("--script", type=click.Path(dir_okay=False, path_type=Path), help="Write the first remedy as a program.")
@click.option("--probes", type=click.IntRange(1), default=50, show_default=True, help="Most trials for one case.")
@seconds_option_of("--seconds", 5.0, "Begin no trial of a case after this time.")
@click.option("--no-values", is_flag=True, help="Do not compare the values of rewrites in torch.")
@host_tiles_option_of(HOST_TILES)
@timeout_option
@workers_option
@interruptible()
def remedy(
    operator: str | None,
    shapes: tuple[str, ...],
    attrs: tuple[str, ...],
    board: str | None,
    mode: str,
    ttnn_log: bool,
    release: Release | None,
    live: tuple[str, ...],
    source: Path | None,
    run_name: str | None,
    catalogs: tuple[str, ...],
    results: Path,
    as_json: bool,
    output: Path | None,
    script: Path | None,
    probes: int,
    seconds: float,
    no_values: bool,
    host_tiles: int,
    timeout: float,
    workers: int | None,
    **placement: Any,
) -> None:
    """Search for changes that make a call fit, each tried on the device.

    \b
      ssinghal remedy add 1,64,640,400 1,64,640,400 --memory l1 --channels-last
      ssinghal remedy softmax 4,12,1024,1024 --attr dim=-1 --memory l1 --live 40MiB@l1
      ssinghal remedy --run latest -o remedies.jsonl
      ssinghal remedy view 160,100,512 --attr size=160,100,512,1,1 --script fits.py && ssinghal exec python fits.py

    First what arithmetic rules out, then trials, the least change to the code around the call first: same tensor, other memory,
    other layout, re-arranged, chunked, other dtype, other board or release; the first that works of each, three at most.
    Exit code 0 where each case has a remedy or fits, 1 where one has none, 2 for bad input.
    """
    from ssinghal.remedy.device_pools import DevicePools, why_no_values
    from ssinghal.remedy.equivalence import MAX_ELEMENTS, MAX_ELEMENTS_ALONE
    from ssinghal.remedy.resident_buffers import live_set
    from ssinghal.remedy.search import Budget
    from ssinghal.remedy.solver import Unsolved, solve_all

    failing = _selected(operator, shapes, attrs, placement, source, run_name, results, catalogs)
    single = operator is not None
    if script is not None and not single:
        raise click.UsageError("--script writes the remedy of one call: give an operator and its shapes")
    choice = choose_device(mode, board, ttnn_log=ttnn_log)
    options = PoolOptions.of(choice, workers=workers or (1 if single else None), timeout_s=timeout, release=release)
    outcomes: Counter[str] = Counter()
    most = MAX_ELEMENTS_ALONE if single else MAX_ELEMENTS
    with DevicePools(choice, options, no_values=why_no_values(not no_values), most_elements=most) as bench:
        budget = Budget(probes, seconds, host_tiles)
        solved = solve_all(failing, bench, budget, live_set(live, bench.board), measured=single)
        tracked = solved if single else track(solved, "searching", len(failing))
        if output is not None:
            with LineFile(output) as file:
                for told in tracked:
                    file.write(json.dumps(_json_of(told)))
                    outcomes.update(_outcomes(told))
        else:
            for told in tracked:
                outcomes.update(_outcomes(told))
                if isinstance(told, Unsolved) and single and told.verdict.status is Status.INVALID:
                    raise InvalidCase(told.verdict.message)
                click.echo(json.dumps(_json_of(told)) if as_json else "\n".join(_lines_of(told, blank=not single)))
                if script is not None:
                    _write_script(script, told)
    if not single:
        click.echo("\n".join(_summary(len(failing), outcomes)), err=as_json)
    sys.exit(1 if outcomes[NO_REMEDY] else 0)


def _selected(
    operator: str | None,
    shapes: tuple[str, ...],
    attrs: tuple[str, ...],
    placement: dict[str, Any],
    source: Path | None,
    run_name: str | None,
    results: Path,
    catalogs: tuple[str, ...],
) -> Failing:
    """The cases of the one way in which they were given, with how they fail where that is known."""
    given = sum(x is not None and x != () for x in (operator, source, run_name, catalogs))
    if given != 1:
        raise click.UsageError("give one of these: an operator and its shapes, --from, --run, --catalog")
    if operator is not None:
        return [(case_from_arguments(operator, shapes, attrs, **placement), None)]
    if source is not None:
        found = [pair for pairs in read_lines(source, input_lines(source), _cases_of) for pair in pairs]
        if not found:
            raise InvalidCase(f"{source}: no call in it")
        return found
    if run_name is not None:
        return _failures_of(run_name, results)
    from ssinghal.catalog.expansion import expand
    from ssinghal.catalog.loader import load_catalogs

    return [(case, None) for case in expand(load_catalogs(catalogs)).cases]


def _cases_of(fields: Any) -> Failing:
    """Of a line that is a case, or has one: what this command wrote, one failure of a diagnosis, or a whole diagnosis."""
    if isinstance(fields, dict) and isinstance(fields.get("failures"), list):
        return [pair for failure in fields["failures"] for pair in _cases_of(failure)]
    if isinstance(fields, dict) and "case" in fields:
        return [] if fields["case"] is None else _cases_of(fields["case"])
    return [(case_from_json(fields), None)]


def _failures_of(name: str, results: Path) -> Failing:
    from ssinghal.runs.reader import find_run, read_run
    from ssinghal.runs.stored_record import case_or_none

    run = read_run(find_run(name, results))
    return [(case, None) for record in run.records if record.is_oom and (case := case_or_none(record)) is not None]


FITS, REMEDY, NO_REMEDY = "fit as they are", "have a remedy", "have none of those tried"


def _outcomes(told: RemedyReport | Unsolved) -> list[str]:
    """What became of the case, one of a few words, then the kinds of its remedies."""
    from ssinghal.remedy.text import RemedyReport

    if not isinstance(told, RemedyReport):
        return [FITS if told.verdict.status is Status.FITS else f"not searched, {told.verdict.status}"]
    kinds = [str(r.contract) for r in told.remedies.found]
    return [REMEDY, *kinds] if kinds else [NO_REMEDY]


def _summary(count: int, outcomes: Counter[str]) -> list[str]:
    """Each case once, then the kinds of remedies, of which a case has up to three."""
    from ssinghal.remedy.trial import Impact

    kinds = {str(contract) for contract in Impact}
    states = [f"{n:,} {what}" for what, n in outcomes.most_common() if what not in kinds]
    found = [f"{n:,} {what}" for what, n in outcomes.most_common() if what in kinds]
    cases = "1 case" if count == 1 else f"{count:,} cases"
    return [f"{cases}: {', '.join(states)}", *([f"kinds of remedies: {', '.join(found)}"] if found else [])]


def _json_of(told: RemedyReport | Unsolved) -> dict[str, Any]:
    from ssinghal.remedy.text import RemedyReport, to_json

    if isinstance(told, RemedyReport):
        return {**to_json(told), "status": str(Status.OOM)}
    verdict = told.verdict
    known = {"case": told.case.identity(), "key": told.case.key, "status": str(verdict.status), "message": verdict.message}
    return {**known, "remedies": [], "refused": [], "probes": 0}


def _lines_of(told: RemedyReport | Unsolved, *, blank: bool) -> list[str]:
    from ssinghal.core.case import call_text
    from ssinghal.remedy.text import RemedyReport, lines

    end = [""] if blank else []
    if isinstance(told, RemedyReport):
        return [*lines(told), *end]
    if told.verdict.status is not Status.FITS:
        return [call_text(told.case), f"{told.verdict.status}: {sentence(told.verdict)}", *end]
    code = told.tried.code if told.tried else ()
    changes = told.changes.lines() if told.changes else []
    return [call_text(told.case), "it fits: there is nothing to remedy", *(f"   {line}" for line in code), *changes, *end]


def _write_script(path: Path, told: RemedyReport | Unsolved) -> None:
    from ssinghal.remedy.text import RemedyReport, facts, script

    if not isinstance(told, RemedyReport) or not told.remedies.found:
        raise HarnessError(f"{path}: there is no remedy to write")
    first = told.remedies.found[0]
    about = [f"{first.contract}: {first.lever}" + (f" ({first.note})" if first.note else ""), *facts(told, first)]
    write_text(path, script(first.tried, about))
