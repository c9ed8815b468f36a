"""``ssinghal releases``: TTNN releases beside the installed one, and what the same cases do on each of them."""

from __future__ import annotations

import difflib
import json
import sys
from pathlib import Path

import click

from ssinghal.cli.options import (
    host_tiles_option,
    input_lines,
    interruptible,
    nothing_collected,
    timeout_option,
    workers_option,
)
from ssinghal.cli.progress import VerdictProgress, track
from ssinghal.core.tensors import format_bytes
from ssinghal.device.modes import DeviceMode, choose_device
from ssinghal.device.releases import add_release, added_releases, installed_release, remove_release, why_not
from ssinghal.device.virtual import remove_root
from ssinghal.errors import HarnessError
from ssinghal.render.tables import aligned

TIMELINE = "timeline"


class _RunsCases(click.Group):
    """A first argument that is no command is what ``timeline`` runs: a file or a catalog."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if args and args[0] not in (*self.commands, *ctx.help_option_names):
            if not Path(args[0]).exists() and (near := difflib.get_close_matches(args[0], self.commands, n=1, cutoff=0.75)):
                ctx.fail(f"no command {args[0]!r}; did you mean {near[0]}?")
            args = [TIMELINE, *args]
        return super().parse_args(ctx, args)


@click.group(cls=_RunsCases, subcommand_metavar="CASES.jsonl|CATALOG | COMMAND [ARGS]...")
def releases() -> None:
    """Other TTNN releases: have them here, and see what the same cases do on each.

    \b
      ssinghal releases add 0.66.0 0.75.0
      ssinghal releases cases.jsonl --ttnn 0.66.0,0.75.0,0.81.1
      ssinghal releases yolo12x --op conv2d --board p150

    A first argument that is no command is a file or a catalog, for the command timeline.
    """


@releases.command("add")
@click.argument("versions", nargs=-1, required=True, metavar="VERSION...")
@interruptible()
def add(versions: tuple[str, ...]) -> None:
    """Download releases with pip, 150 to 350 MiB each, into the user's cache folder; what is there is not fetched again.

    \b
      ssinghal releases add 0.66.0 0.75.0

    Nothing else of this program uses the network. Releases that give no full verdicts on a virtual device (0.65, and 0.67 to
    0.74) are refused before any download.
    """
    faults = [fault for fault in map(why_not, versions) if fault]
    if faults:
        raise HarnessError("\n".join(faults))
    for version in track(versions, "adding", len(versions)):
        release = add_release(version)
        click.echo(f"ttnn {version}: {release.folder}")


@releases.command("list")
@click.option("--json", "as_json", is_flag=True, help="The same as JSON.")
def list_all(as_json: bool) -> None:
    """The installed release and those that were added, with their sizes and whether they give full verdicts."""
    installed = installed_release()
    known = [*([installed] if installed else []), *added_releases()]
    rows = [
        {
            "ttnn": release.version,
            "installed": release.installed,
            "size_bytes": release.size_bytes,
            "full_verdicts": not why_not(release.version),
            "folder": str(release.folder),
        }
        for release in known
    ]
    if as_json:
        click.echo(json.dumps(rows, indent=2))
        return
    table = [["ttnn", "size", "full verdicts", "where"]]
    for release in known:
        where = "installed" if release.installed else "added"
        table.append([release.version, format_bytes(release.size_bytes), "no" if why_not(release.version) else "yes", where])
    click.echo("\n".join(aligned(table)))


@releases.command("remove")
@click.argument("versions", nargs=-1, required=True, metavar="VERSION...")
def remove(versions: tuple[str, ...]) -> None:
    """Remove added releases, with the kernel caches of their virtual devices."""
    for version in versions:
        release = remove_release(version)
        remove_root(release)
        click.echo(f"ttnn {version}: removed {release.folder}")


@releases.command(TIMELINE)
@click.argument("source", metavar="CASES.jsonl|CATALOG")
@click.option("--ttnn", "versions", metavar="VERSION,…", help="Releases [default: all that are here and give full verdicts].")
@click.option("--board", default=None, help="Virtual board to open: n150 (default), n300, p100, p150.")
@click.option("--op", "operators", multiple=True, metavar="NAME", help="Only this operator, by any of its names (repeatable).")
@click.option("--sample", "per_operator", type=click.IntRange(1), default=None, help="At most so many cases of each operator.")
@timeout_option
@host_tiles_option
@workers_option
@click.option("--all", "everything", is_flag=True, help="A row for every case, not only for those that changed.")
@click.option("--json", "as_json", is_flag=True, help="Everything as one JSON object.")
@click.option(
    "-o",
    "--output",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder of the records and the page [default: a new one in results]; cases that it has are not run again.",
)
@interruptible()
@nothing_collected()
def timeline(
    source: str,
    versions: str | None,
    board: str | None,
    operators: tuple[str, ...],
    per_operator: int | None,
    timeout: float,
    host_tiles: int,
    workers: int | None,
    everything: bool,
    as_json: bool,
    output: Path | None,
) -> None:
    """Run the same cases on several releases, one after the other, and tell what changed from each to the next.

    \b
      ssinghal releases known_changes --ttnn 0.66.0,0.75.0,0.78.0,0.80.0,0.81.1
      ssinghal releases yolo12x --op conv2d --board p150 -o results/yolo

    Releases that are not here are added first, with pip. A reserved base that moved, and every figure with it, is one line for
    the pair of releases, and only what moved otherwise is a change. The folder gets the records of each release, case by case,
    and timeline.html; an interrupted run goes on where it was with the same -o. Exit code 0, 1 where a case newly fails, 2 for
    bad input or a release that gives no full verdicts, 130 interrupted.
    """
    from ssinghal.core.versions import new_run_id
    from ssinghal.release_matrix.matrix import Timeline, VerdictChange
    from ssinghal.release_matrix.page import PAGE, page
    from ssinghal.release_matrix.runner import RemainingCases, run_parts
    from ssinghal.release_matrix.selection import parse_versions, selected_cases, selected_releases
    from ssinghal.release_matrix.text import lines
    from ssinghal.runner.tasks import PoolOptions
    from ssinghal.runs.files import write_whole

    choice = choose_device(DeviceMode.VIRTUAL.value, board)
    cases, notes = selected_cases(source, choice.board, input_lines, operators=operators, per_operator=per_operator)
    wanted = None if versions is None else parse_versions(versions)
    found = selected_releases(wanted, lambda version: click.echo(f"adding ttnn {version}", err=True))
    folder = output or Path("results") / f"timeline-{new_run_id()}"
    options = {"board": choice.board, "timeout": timeout, "host_tiles": host_tiles}
    parts = [RemainingCases.of(release, folder, options, cases) for release in found]
    missing = sum(len(part.missing) for part in parts)
    recorded = len(parts) * len(cases) - missing
    click.echo(f"{folder}: {recorded:,} recorded, {missing:,} to run; -o {folder} goes on from there", err=True)
    with VerdictProgress(missing) as progress:
        pool_options = PoolOptions.of(choice, workers=workers, timeout_s=timeout, host_tiles=host_tiles)
        run_parts(parts, choice, pool_options, progress.told)
    made = Timeline.of([part.folder.run_of(cases) for part in parts])
    write_whole(folder / PAGE, page(made, f"{source} over releases of ttnn"))
    if as_json:
        click.echo(json.dumps({"source": source, "folder": str(folder), "left_out": notes, **made.to_json()}))
    else:
        click.echo("\n".join([*lines(made, everything=everything), *notes, f"page: {folder / PAGE}"]))
    sys.exit(1 if made.count(VerdictChange.NEWLY_FAILS) else 0)
