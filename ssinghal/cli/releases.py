"""``ssinghal releases``: TTNN releases next to the installed one, and the same cases on each of them."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import click

from ssinghal.cli import options
from ssinghal.cli.default_group import RUN, DefaultGroup
from ssinghal.cli.parameter_types import CatalogName
from ssinghal.cli.progress import VerdictProgress, track
from ssinghal.cli.requests import DeviceRequest, collected
from ssinghal.cli.streams import collector_off, echo, input_lines
from ssinghal.core.device_facts import DeviceMode
from ssinghal.core.files import exists, write_whole
from ssinghal.core.tensors import format_bytes
from ssinghal.core.versions import new_run_id
from ssinghal.device.modes import choose_device
from ssinghal.device.releases import add_release, added_releases, installed_release, remove_release, why_not
from ssinghal.device.virtual import remove_root
from ssinghal.errors import SeveralFaults
from ssinghal.render.tables import aligned

FORMER_RUN = "timeline"


class _CasesOrCommand(DefaultGroup):
    """The command run was named ``timeline`` before."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [name for name in super().list_commands(ctx) if name != FORMER_RUN]

    def is_argument(self, word: str) -> bool:
        return exists(word)


@click.group(cls=_CasesOrCommand, subcommand_metavar="COMMAND [ARGS]... | CASES.jsonl|CATALOG [ARGS]...")
def releases() -> None:
    """Manage TTNN releases and run the same cases on each.

    \b
      ssinghal releases add 0.66.0 0.75.0
      ssinghal releases run cases.jsonl --ttnn 0.66.0,0.75.0,0.81.1
      ssinghal releases run yolo12x --op conv2d --board p150

    The command run may be left out: ssinghal releases cases.jsonl.
    """


@releases.command("add")
@click.argument("versions", nargs=-1, required=True, metavar="VERSION...")
def add(versions: tuple[str, ...]) -> None:
    """Download TTNN releases with pip.

    \b
      ssinghal releases add 0.66.0 0.75.0

    A release takes 150 to 350 MiB in the user's cache folder; one that is there is not downloaded again. Nothing else in this
    program uses the network. Releases that give no full verdicts on a virtual device (0.65, and 0.67 to 0.74) are rejected
    before any download.
    """
    errors = [error for error in map(why_not, versions) if error]
    if errors:
        raise SeveralFaults(errors)
    for version in track(versions, "adding", len(versions)):
        release = add_release(version)
        echo(f"ttnn {version}: {release.folder}")


@releases.command("list")
@options.json("The same as JSON.")
def list_all(as_json: bool) -> None:
    """List the installed release and those that were added.

    With their sizes, and whether they give full verdicts.
    """
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
    echo("\n".join(aligned(table)))


@releases.command("remove")
@click.argument("versions", nargs=-1, required=True, metavar="VERSION...")
def remove(versions: tuple[str, ...]) -> None:
    """Remove added releases and their virtual devices' caches."""
    for version in versions:
        release = remove_release(version)
        remove_root(release)
        echo(f"ttnn {version}: removed {release.folder}")


@releases.command(RUN)
@click.argument("source", type=CatalogName(), metavar="CASES.jsonl|CATALOG")
@collected(
    DeviceRequest,
    "device",
    options.board(None, "Virtual board to open"),
    options.timeout(),
    options.host_tiles(),
    options.workers,
)
@options.releases("Releases, oldest first (repeatable) [default: all that are here and give full verdicts].")
@options.operators
@options.sample()
@click.option("--all", "everything", is_flag=True, help="A row for every case, not only for those that changed.")
@options.json("Everything as one JSON object.")
@options.output(
    options.FOLDER, "Folder for records and page [default: a new one in results]; the cases that it has are not run again."
)
@collector_off()
def run(
    source: str,
    device: DeviceRequest,
    versions: tuple[str, ...],
    operators: tuple[str, ...],
    per_operator: int | None,
    everything: bool,
    as_json: bool,
    output: Path | None,
) -> None:
    """Run the same cases on several releases and report changes.

    \b
      ssinghal releases run known_changes --ttnn 0.66.0,0.75.0,0.78.0,0.80.0,0.81.1
      ssinghal releases run yolo12x --op conv2d --board p150 -o results/yolo

    Releases that are not here are added first, with pip, and run one after the other. A reserved base that moved, and every
    number with it, is one line for the pair of releases; only what moved otherwise is a change. The folder gets the records of
    each release, case by case, and timeline.html; an interrupted run continues where it was with the same -o. Exit code 0, 1
    where a case newly fails, 2 for bad input or a release that gives no full verdicts, 130 interrupted.
    """
    from ssinghal.release_matrix.matrix import Timeline, VerdictChange
    from ssinghal.release_matrix.page import PAGE, page
    from ssinghal.release_matrix.runner import RemainingCases, run_parts
    from ssinghal.release_matrix.selection import parse_versions, selected_cases, selected_releases
    from ssinghal.release_matrix.text import lines

    choice = choose_device(DeviceMode.VIRTUAL, device.board, ttnn_log=device.ttnn_log)
    cases, notes = selected_cases(source, choice.board, input_lines, operators=operators, per_operator=per_operator)
    wanted = parse_versions(",".join(versions)) if versions else None
    chosen = selected_releases(wanted, lambda version: echo(f"adding ttnn {version}", err=True))
    folder = output or Path("results") / f"timeline-{new_run_id()}"
    settings = {"board": choice.board, "timeout": device.timeout, "host_tiles": device.host_tiles}
    parts = [RemainingCases.of(release, folder, settings, cases) for release in chosen]
    missing = sum(len(part.missing) for part in parts)
    recorded = len(parts) * len(cases) - missing
    echo(f"{folder}: {recorded:,} recorded, {missing:,} to run; to continue later: -o {folder}", err=True)
    with VerdictProgress(missing) as progress:
        run_parts(parts, choice, device.pool_options(choice), progress.count)
    timeline = Timeline.of([part.folder.run_of(cases) for part in parts])
    write_whole(folder / PAGE, page(timeline, f"{source} over releases of ttnn"))
    if as_json:
        click.echo(json.dumps({"source": source, "folder": str(folder), "left_out": notes, **timeline.to_json()}))
    else:
        echo("\n".join([*lines(timeline, everything=everything), *notes, f"page: {folder / PAGE}"]))
    sys.exit(1 if timeline.count(VerdictChange.NEWLY_FAILS) else 0)


releases.add_command(run, FORMER_RUN)
