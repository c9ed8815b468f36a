"""``ssinghal compress``: the records of runs in about a twentieth of their size."""

from __future__ import annotations

from pathlib import Path

import click

from ssinghal.cli import options
from ssinghal.errors import HarnessError


@click.command()
@click.argument("runs", nargs=-1, required=True, metavar="RUN...")
@click.option("--undo", is_flag=True, help="Unpack compressed records.")
@options.results
def compress(runs: tuple[str, ...], undo: bool, results: Path) -> None:
    """Compress the records of runs.

    \b
      ssinghal compress 20261127
      ssinghal compress latest --undo

    A run's records.jsonl becomes records.jsonl.gz, which every command reads like the other; run --resume unpacks it where
    the run goes on. The old file is removed after the new one was read back. RUN is a run's folder, the start of the id of a
    run in --results, or latest.

    Where a folder has both, one goes if they hold the same lines; else both stay, and that is an error.

    Exit code 0, also if there was nothing to do, 2 for a folder that is no run, is still written, or is damaged.
    """
    from ssinghal.runs.compressing import repack
    from ssinghal.runs.folders import find_run

    for path in [_folder_of(find_run(run, results)) for run in runs]:
        sizes = repack(path, undo=undo)
        done = f"{sizes.before:,} → {sizes.after:,} B" if sizes.before != sizes.after else f"{sizes.after:,} B, as before"
        click.echo(f"{path.name}: {done}")


def _folder_of(path: Path) -> Path:
    """Returns the folder of a run that is named by its folder or its records.

    Raises:
        HarnessError: It is another file.
    """
    from ssinghal.runs.line_files import COMPRESSED, RECORDS

    if path.is_dir():
        return path
    if path.name not in (RECORDS, COMPRESSED):
        raise HarnessError(f"{path}: expected a run's folder, or {RECORDS} or {COMPRESSED} in one")
    return path.parent
