"""``ssinghal profile compare``: what changed from one profile to another."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import click

from ssinghal.cli import options
from ssinghal.cli.streams import echo
from ssinghal.profile.growth import GrowthLimit


def _limit(context: click.Context, parameter: click.Parameter, value: str | None) -> GrowthLimit | None:
    return None if value is None else GrowthLimit.parse(value)


@click.command("compare")
@click.argument("before", type=options.PATH)
@click.argument("after", type=options.PATH)
@click.option(
    "--fail-on-increase",
    "limit",
    callback=_limit,
    metavar="SHARE|SIZE",
    help="Exit with 1 if a peak grew by more than this, such as 1% or '64 KiB', or the program newly fails.",
)
@click.option("--all", "everything", is_flag=True, help="All lines and operations, not only the twenty largest changes.")
@options.json("All changes as one JSON object.")
def compare(before: Path, after: Path, limit: GrowthLimit | None, everything: bool, as_json: bool) -> None:
    """Report what changed from one profile to another.

    \b
      ssinghal profile compare profiles/before profiles/after
      ssinghal profile compare profiles/before profiles/after --fail-on-increase 1%

    A profile is a folder, or the file of one process in it. Peaks per memory, the lines that hold them, and call by call what
    each allocates, its program buffers and the placement of its results. Calls correspond by name and by the text of their
    line, or by the function that makes them where a line or a file is another, in order.

    Exit code 0, 1 for a finding of --fail-on-increase, 2 for profiles that cannot be read.
    """
    from ssinghal.profile.comparison import paired
    from ssinghal.profile.comparison_text import SHOWN, lines, to_json
    from ssinghal.profile.reading import read_profiles

    comparisons, removed, added = paired(read_profiles(before), read_profiles(after))
    alone = [
        f"only in {path}: {' '.join(one.argv)}" for path, profiles in ((before, removed), (after, added)) for one in profiles
    ]
    if as_json:
        click.echo(json.dumps({"processes": [to_json(one) for one in comparisons], "alone": alone}, indent=2))
    else:
        texts = ["\n".join(lines(one, None if everything else SHOWN)) for one in comparisons]
        echo("\n\n".join([*texts, *alone]))
    findings = [*(finding for one in comparisons for finding in limit.findings(one)), *alone] if limit else []
    for finding in findings:
        echo(f"ssinghal: finding: {finding}", err=True)
    for remark in (remark for one in comparisons for remark in (limit.unproven(one) if limit else [])):
        echo(f"ssinghal: {remark}", err=True)
    sys.exit(1 if findings else 0)
