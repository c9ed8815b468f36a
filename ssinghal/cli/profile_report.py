"""``ssinghal profile report``: what the records of a folder add up to."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from ssinghal.cli import options
from ssinghal.profile.model import Profile


def make_report(folder: Path) -> Sequence[Profile]:
    """Writes the report of a folder's records beside them, prints its summary, and returns the profiles.

    Raises:
        HarnessError: there are no records, or a line of them is damaged.
    """
    from ssinghal.profile.replay import read_profiles
    from ssinghal.profile.report import write_report

    profiles = read_profiles(folder)
    click.echo("\n".join(["", *write_report(folder, profiles), f"recorded in {folder}"]), err=True)
    return profiles


@click.command("report")
@click.argument("folder", type=options.FOLDER)
def report(folder: Path) -> None:
    """Write the report of records once more.

    \b
      ssinghal profile report profiles/unet

    Reads records-*.jsonl of a profile, whose program may have crashed or still be running, and writes
    summary.txt and profile.json beside them.
    """
    make_report(folder)
