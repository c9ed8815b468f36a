"""``ssinghal export-visualizer``: cases of a run for ttnn-visualizer."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from ssinghal.cli import options
from ssinghal.cli.progress import track
from ssinghal.cli.requests import DeviceRequest, collected
from ssinghal.cli.streams import echo
from ssinghal.device.modes import choose_device


@click.command("export-visualizer")
@click.argument("run", required=False, metavar="[RUN|CASE]")
@click.option(
    "--case",
    "keys",
    multiple=True,
    metavar="KEY",
    help="Only cases whose key starts so (repeatable); aliases of an operator share keys.",
)
@click.option("--all", "everything", is_flag=True, help="Also cases that fit.")
@options.sample(5)
@options.output(options.FOLDER, "Write the reports to this folder [default: RUN/visualizer].")
@collected(DeviceRequest, "device", options.mode, options.timeout(), options.workers)
@options.results
def export_visualizer(
    run: str | None,
    keys: tuple[str, ...],
    everything: bool,
    per_operator: int,
    output: Path | None,
    device: DeviceRequest,
    results: Path,
) -> None:
    """Write a run's cases for ttnn-visualizer.

    \b
      ssinghal export-visualizer                        # of the last run, a few of each operator
      ssinghal export-visualizer 20261128 --sample 1000 # of that run, all
      ssinghal export-visualizer ee099a06               # one case of the last run, by its key
      ttnn-visualizer --tt-metal-home results/latest/visualizer

    Runs a run's failing cases again and keeps TTNN's own report of each, with memory maps and errors. One report holds one
    case, on the board of its record; it takes about 0.2 MB and 40 ms. Needs torch. Exit code 0, 1 where a case crashed or
    hung and has no report, or TTNN's verdict is not the record's, 2 bad input.
    """
    from ssinghal.report.visualizer_export import REPORTS, chosen_records, describe, export, named_run
    from ssinghal.runs.stored import read_run_of_any_size

    path, case = named_run(run, results)
    folder = output or (path if path.is_dir() else path.parent) / "visualizer"
    source = read_run_of_any_size(path)
    chosen, notes = chosen_records(source, (*case, *keys), everything=everything, per_operator=per_operator)
    notes += [f"the run is incomplete: {loss}" for loss in source.losses]
    reported, settings, findings = 0, set(), list[str]()
    for board in dict.fromkeys(record.board for record in chosen):
        records = [record for record in chosen if record.board == board]
        choice = choose_device(device.mode, board)
        results_of_board = export(records, choice, folder, timeout_s=device.timeout, workers=device.workers)
        for one in track(results_of_board, f"exporting {board}", len(records)):
            if one.folder:
                reported += 1
                settings.add(f"{one.record.device_mode} {one.record.board}, ttnn {one.record.ttnn}; ")
            if one.folder is None or one.differs:
                findings.append(one.finding)
    describe(folder)
    echo(f"{reported:,} of {len(chosen):,} reports in {folder / REPORTS}; {''.join(sorted(settings))}numerics not run")
    echo("\n".join([*findings, *notes, f"open: ttnn-visualizer --tt-metal-home {folder}"]))
    sys.exit(1 if findings else 0)
