"""``ssinghal report``: a run's records as documents, tables and one page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ssinghal.cli import options
from ssinghal.cli.progress import doing, track
from ssinghal.cli.streams import collector_off, echo
from ssinghal.core.files import refuse_special
from ssinghal.errors import HarnessError

if TYPE_CHECKING:
    from ssinghal.core.record import Record
    from ssinghal.runs.diff import Changes
    from ssinghal.runs.reader import Run


@click.command()
@click.argument("run", required=False)
@options.output(options.FOLDER, "Write the report to this folder [default: RUN/report, for a file ./report].")
@click.option(
    "--since", metavar="RUN", help="Show what changed since this run [default: the last one before with equal options]."
)
@click.option("--try", "tries", is_flag=True, help="First probe the remedies that arithmetic leaves open, on the run's board.")
@click.option("--remedies", is_flag=True, help="First search for what makes failing calls fit, on the run's board.")
@options.results
@collector_off()
def report(run: str | None, output: Path | None, since: str | None, tries: bool, remedies: bool, results: Path) -> None:
    """Write a run's report: page, documents, CSV and JSON.

    RUN is a run's folder, its id or the start of it, or a records.jsonl [default: the latest in results].

    \b
      ssinghal report
      ssinghal report --remedies
      ssinghal report 20261128T0624 -o nightly-report

    Everything is counted from the run's records. Records of several boards or device modes are reported separately. What a
    killed run lacks is stated in every document.

    --remedies searches for every failing case that has no search yet; its first working remedy then appears in every table.
    --try does less: it checks whether three changes of placement fit, where arithmetic cannot decide. Both need the run's ttnn,
    and keep their findings in RUN/remedies.jsonl.
    """
    from ssinghal.report.retry import search_remedies, try_remedies
    from ssinghal.report.writer import PAGE, write_report
    from ssinghal.runs.diff_text import heading
    from ssinghal.runs.folders import find_run
    from ssinghal.runs.reader import counted
    from ssinghal.runs.stored import read_run_of_any_size

    path = find_run(run, results)
    with doing("reading the records"):
        wanted = read_run_of_any_size(path)
    skipped: list[str] = []
    with doing("comparing it with an earlier run"):
        if since is not None:
            earlier = find_run(since, results)
            changes: Changes | None = _changes(earlier, wanted)
        else:
            changes = _changes_since_the_last(wanted, skipped)
    if tries:
        tried = try_remedies(wanted, lambda records, total: track(records, "trying remedies", total))
        echo(f"tried {tried:,} remedies that arithmetic left open")
    if remedies:
        records = search_remedies(wanted, lambda records, total: track(records, "searching", total))
        echo(_searched(records))
    folder = output or (path / "report" if path.is_dir() else Path("report"))
    if output is None:  # somebody else may have packed it
        refuse_special(folder, *folder.rglob("*"))
    with doing(f"writing the report of {sum(len(group.records) for group in wanted.groups):,} cases"):
        written = write_report(wanted, folder, changes)
    for group in wanted.groups:
        totals = ", ".join(f"{status} {cases:,}" for status, cases in counted(group.records).items())
        echo(f"{group.setting}: {len(group.records):,} cases: {totals}; {group.numerics}")
    if not wanted.groups:
        echo("0 cases: the run has no record")
    for line in (*(f"the run is incomplete: {loss}" for loss in wanted.losses), *wanted.remarks, *skipped):
        echo(line)
    if changes is not None:
        echo(f"since run {changes.before}: {heading(changes)}")
    echo(f"{len(written)} files; the page: {folder / PAGE}")


def _searched(records: Sequence[Record]) -> str:
    """Counts the searched cases by the contract of their first remedy."""
    outcomes = [r.remedies for r in records if r.remedies is not None]
    firsts = Counter(outcome.first.contract if outcome.first else "none found" for outcome in outcomes)
    firsts.update(f"now {r.status}" for r in records if r.remedies is None)
    counts = ", ".join(f"{what} {cases:,}" for what, cases in firsts.most_common())
    return f"searched remedies of {len(records):,} failing cases" + (f", by the first that fits: {counts}" if counts else "")


def _changes(before: Path, run: Run) -> Changes:
    """Compares a run with an earlier one, by columns where one of them is large."""
    from ssinghal.runs.column_diff import compare_runs, is_large
    from ssinghal.runs.diff import Changes
    from ssinghal.runs.stored import read_run_of_any_size

    if is_large(before) or is_large(run.path):
        return compare_runs(before, run.path)
    return Changes.of(read_run_of_any_size(before), run)


def _changes_since_the_last(run: Run, skipped: list[str]) -> Changes | None:
    """Compares with the last run with equal options that can be compared. Adds those that cannot, and why, to ``skipped``."""
    from ssinghal.runs.folders import earlier_runs

    for path in earlier_runs(run.path):
        try:
            return _changes(path, run)
        except HarnessError as error:
            skipped.append(f"not compared with {path.name}: {error}")
    return None
