"""``ssinghal merge``: the runs of all parts of a selection as one run."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ssinghal.cli import options
from ssinghal.cli.stored_options import check_stored, choice_of, values_of
from ssinghal.cli.streams import show
from ssinghal.core.boards import load_board
from ssinghal.errors import HarnessError

if TYPE_CHECKING:
    from ssinghal.core.case_sets import Identity
    from ssinghal.core.run_info import RunInfo

NAMED = 5  # cases that are missing


@click.command()
@click.argument("runs", nargs=-1, required=True, metavar="RUN...")
@options.results
def merge(runs: tuple[str, ...], results: Path) -> None:
    """Join the runs of all parts of a selection into one run.

    \b
      ssinghal merge shard-1/latest shard-2/latest shard-3/latest
      ssinghal merge 20261128T0230 20261128T0231 --results results

    The runs are those of ssinghal run --shard, or of pytest --oom-shard, on machines of their own. RUN is a folder, or the
    start of the id of a run in --results, where the new run is written as well. Each selected case must be in exactly one of
    the runs, and all must have the same board, device mode, TTNN release, code, limits and selection; else nothing is written.

    Exit code 0, 1 if the merged run has a finding, as ssinghal run, 2 for runs that cannot be merged.
    """
    from ssinghal.runs.folders import find_run
    from ssinghal.runs.merging import NotTheSelection, check_union, merged, parts_of

    parts = parts_of([find_run(run, results) for run in runs])
    for part in parts:
        if "catalogs" in part.info.options:
            check_stored(_run_context(), part.info.options, str(part.path / "run.json"))
    try:
        check_union(parts)
    except NotTheSelection as error:
        raise HarnessError(f"{error}{_first_missing(parts[0].info, error.present)}") from error
    folder, lines = merged(parts, results, " ".join(sys.argv))
    show([*lines, f"records: {folder.path / 'records.jsonl'}"])
    sys.exit(1 if folder.summary().faults else 0)


def _run_context() -> click.Context:
    from ssinghal.cli.run import run

    return click.Context(run)


def _first_missing(info: RunInfo, present: frozenset[Identity]) -> str:
    """Names the first cases that are missing, if the catalogs of the runs are here and unchanged."""
    if "catalogs" not in info.options:  # tests, which are not selected by catalogs alone
        return ""
    try:
        values = values_of(_run_context(), {**info.options, "shard": None}, "run.json", info.folder)
        chosen = choice_of(values).chosen(load_board(info.device.board))
    except (HarnessError, click.UsageError):
        return ""
    if chosen.digest != info.selection_sha256:
        return ""
    missing = [f"{case.name} {case.id}" for case in chosen.cases if (case.name, case.key) not in present]
    return f": {', '.join(missing[:NAMED])}{', …' if len(missing) > NAMED else ''}"
