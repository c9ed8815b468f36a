"""``ssinghal run``: whole catalogs on a device."""

from __future__ import annotations

import json
import resource
import sys
from functools import partial
from pathlib import Path
from typing import Any

import click

from ssinghal.cli.options import device_options, host_tiles_option, interruptible, timeout_option, workers_option
from ssinghal.cli.progress import VerdictProgress
from ssinghal.core.parsing import tensor_memory
from ssinghal.core.tensors import format_bytes
from ssinghal.device.modes import choose_device
from ssinghal.errors import InvalidCase
from ssinghal.remedy.probing import probing
from ssinghal.runner.sweep import sweep
from ssinghal.runner.tasks import PoolOptions
from ssinghal.runs.summary import Summary, left_out
from ssinghal.runs.writer import RunFolder, new_run


@click.command()
@click.argument("catalogs", nargs=-1, metavar="[CATALOG]...")
@click.option("--op", "operators", multiple=True, metavar="NAME", help="Only this operator, by any of its names (repeatable).")
@click.option("--memory", default=None, help="Put operands into dram or l1 instead of where the catalog says.")
@click.option(
    "--max-bytes", type=click.IntRange(1), default=None, help="Leave out cases whose largest operand has more logical bytes."
)
@click.option("--sample", "per_operator", type=click.IntRange(1), default=None, help="At most so many cases of each operator.")
@click.option("--remedies", is_flag=True, help="Search for what makes the cases fit that are out of memory.")
@device_options
@timeout_option
@host_tiles_option
@workers_option
@click.option(
    "--results",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("results"),
    show_default=True,
    help="Folder that gets <run>/run.json, records.jsonl, summary.txt and the link latest.",
)
@click.option("--json", "as_json", is_flag=True, help="The summary as one JSON object.")
@interruptible()
def run(
    catalogs: tuple[str, ...],
    operators: tuple[str, ...],
    memory: str | None,
    max_bytes: int | None,
    per_operator: int | None,
    remedies: bool,
    board: str | None,
    mode: str,
    ttnn_log: bool,
    timeout: float,
    host_tiles: int,
    workers: int | None,
    results: Path,
    as_json: bool,
) -> None:
    """Probe whole catalogs (all, or those named, by name, part of a name or file) and write a run's folder.

    \b
      ssinghal run
      ssinghal run yolo12x --op conv2d --memory l1 --board p150
      ssinghal run my.yaml --sample 20 --remedies

    Records are written in the order in which cases end. Every selected case has one, also when the run is interrupted.
    With --remedies the record of a case that runs out of memory tells what was tried on the device to make it fit.
    Exit code 0 no finding, 1 an error, mismatch, crash, timeout or leak, 2 bad input, 130 interrupted.
    """
    from ssinghal.catalog.expansion import expand
    from ssinghal.catalog.loader import load_catalogs
    from ssinghal.catalog.sampling import sample

    choice = choose_device(mode, board, ttnn_log=ttnn_log)
    options = PoolOptions.of(choice, workers=workers, timeout_s=timeout, host_tiles=host_tiles)
    found = expand(
        load_catalogs(catalogs or None),
        operators=operators or None,
        memory=None if memory is None else tensor_memory(memory),
        max_bytes=max_bytes,
    )
    cases = found.cases if per_operator is None else sample(found.cases, per_operator)
    if not cases:
        raise InvalidCase("no case is selected")
    given = click.get_current_context().params
    folder = RunFolder(results, new_run(Path.cwd(), _plain(given), len(cases), {}))
    unmapped = [] if operators else [call.count for call in found.unmapped]
    notes = left_out(unmapped)
    with VerdictProgress(len(cases)) as progress:
        try:
            ended = sweep(cases, choice, options, folder, progress.told, submitting=partial(probing, remedies=remedies))
        finally:
            host_bytes = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
            notes.append(f"host memory of the largest device process: {format_bytes(host_bytes)}")
            lines = folder.finish(len(cases), notes)
    summary = Summary.of(folder.records)
    if as_json:
        head = {"run": folder.info.run, "folder": str(folder.path), "selected": len(cases)}
        missing = {"lines": len(unmapped), "calls": sum(unmapped)}
        click.echo(json.dumps({**head, **summary.to_json(), "left_out": missing, "host_bytes": host_bytes}))
    else:
        click.echo("\n".join([*lines, *notes, f"records: {folder.path / 'records.jsonl'}"]))
    sys.exit(128 + ended if ended else 1 if summary.faults else 0)


def _plain(options: dict[str, Any]) -> dict[str, Any]:
    return {name: list(v) if isinstance(v, tuple) else str(v) if isinstance(v, Path) else v for name, v in options.items()}
