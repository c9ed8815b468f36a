"""``ssinghal export-visualizer``: cases of a run for ttnn-visualizer."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import click

from ssinghal.caselines import case_of
from ssinghal.cases import Case
from ssinghal.cli.options import interruptible, results_option, timeout_option, workers_option
from ssinghal.cli.progress import track
from ssinghal.device.modes import choose_device
from ssinghal.errors import HarnessError, InvalidCase
from ssinghal.runs import Run, find_run, read_run, run_folders
from ssinghal.sampling import sample
from ssinghal.stored import StoredRecord
from ssinghal.text import sentence
from ssinghal.visualizer import REPORTS, Exported, describe, export, has_failed, named, was_asked

KEY = re.compile("[0-9a-f]{4,12}")


@click.command("export-visualizer")
@click.argument("run", required=False, metavar="[RUN|CASE]")
@click.option(
    "--case", "keys", multiple=True, metavar="KEY", help="Only cases whose key begins so; aliases of an operator share keys."
)
@click.option("--all", "everything", is_flag=True, help="Also cases that fit.")
@click.option(
    "--sample", "per_operator", type=click.IntRange(1), default=5, show_default=True, help="At most so many of each operator."
)
@click.option("-o", "--output", type=click.Path(file_okay=False, path_type=Path), help="Folder [default: RUN/visualizer].")
@click.option("--device", "mode", default="auto", show_default=True, help="auto, silicon, simulator or virtual.")
@timeout_option
@workers_option
@results_option
@interruptible()
def export_visualizer(
    run: str | None,
    keys: tuple[str, ...],
    everything: bool,
    per_operator: int,
    output: Path | None,
    mode: str,
    timeout: float,
    workers: int | None,
    results: Path,
) -> None:
    """Run a run's failing cases again and write TTNN's own report of each, with memory maps and errors, for ttnn-visualizer.

    \b
      ssinghal export-visualizer                        # of the last run, a few of each operator
      ssinghal export-visualizer 20261128 --sample 1000 # of that run, all
      ssinghal export-visualizer ee099a06               # one case of the last run, by its key
      ttnn-visualizer --tt-metal-home results/latest/visualizer

    One report holds one case, on the board of its record; it takes about 0.2 MB and 40 ms. Needs torch. Exit code 0, 1 where a
    case crashed or hung and has no report, or TTNN's verdict is not the record's, 2 bad input.
    """
    path, case = _named(run, results)
    keys = (*case, *keys)
    folder = output or (path if path.is_dir() else path.parent) / "visualizer"
    found = read_run(path)
    chosen, notes = _chosen(found, keys, everything, per_operator)
    notes += [f"not in the run: {loss}" for loss in found.losses]
    ended: list[Exported] = []
    for board in dict.fromkeys(record.board for record in chosen):
        records = [record for record in chosen if record.board == board]
        exported = export(records, choose_device(mode, board), folder, timeout_s=timeout, workers=workers)
        ended += track(exported, f"exporting {board}", len(records))
    describe(folder)
    made = [one.record for one in ended if one.folder]
    settings = sorted({f"{record.device_mode} {record.board}, ttnn {record.ttnn}; " for record in made})
    findings = [_finding(one) for one in ended if one.folder is None or one.differs]
    click.echo(f"{len(made):,} of {len(chosen):,} reports in {folder / REPORTS}; {''.join(settings)}numerics not run")
    click.echo("\n".join([*findings, *notes, f"open: ttnn-visualizer --tt-metal-home {folder}"]))
    sys.exit(1 if findings else 0)


def _named(text: str | None, results: Path) -> tuple[Path, tuple[str, ...]]:
    """The run that ``text`` names, else the last one with the case whose key begins so."""
    try:
        return find_run(text, results), ()
    except HarnessError as error:
        known = text is None or not KEY.fullmatch(text) or any(p.name.startswith(text) for p in run_folders(results))
        if text is None or known:
            raise
        try:
            return find_run(None, results), (text,)
        except HarnessError:
            raise error from None


def _chosen(run: Run, keys: tuple[str, ...], everything: bool, per_operator: int) -> tuple[list[StoredRecord], list[str]]:
    """The records to export, and what is left out, in words."""
    if keys:
        return named(run.records, keys), []
    wanted = [record for record in run.records if everything or has_failed(record)]
    asked = [record for record in wanted if was_asked(record)]
    made = [(record, case) for record in asked if (case := _case_of(record)) is not None]
    kept = {(case.name, case.key) for case in sample([case for _, case in made], per_operator)}
    chosen = [record for record, case in made if (case.name, case.key) in kept]
    if not chosen:
        raise HarnessError(f"{run.path}: no {'case' if everything else 'failing case'} that TTNN was asked about")
    notes = []
    if len(wanted) > len(asked):
        notes.append(f"left out: {len(wanted) - len(asked):,} cases that TTNN was not asked about")
    if len(asked) > len(made):
        notes.append(f"left out: {len(asked) - len(made):,} cases that this version has no call for")
    if len(made) > len(chosen):
        notes.append(f"left out: {len(made) - len(chosen):,} of {len(made):,} cases, beyond --sample {per_operator}")
    return chosen, notes


def _case_of(record: StoredRecord) -> Case | None:
    try:
        return case_of(record)
    except InvalidCase:
        return None


def _finding(one: Exported) -> str:
    name = f"{one.stored.op} {one.stored.id} ({one.stored.key})"
    if one.folder is None:
        return f"no report: {name}: {one.why}"
    return f"differs: {name}: {sentence(one.record.verdict)}; the record says {one.stored.sentence}"
