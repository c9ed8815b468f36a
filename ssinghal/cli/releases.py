"""``ssinghal releases``: TTNN releases beside the installed one."""

from __future__ import annotations

import json

import click

from ssinghal.cli.options import interruptible
from ssinghal.cli.progress import track
from ssinghal.device.virtual import remove_root
from ssinghal.errors import HarnessError
from ssinghal.releases import add_release, added_releases, installed_release, remove_release, why_not
from ssinghal.specs import format_bytes
from ssinghal.text import aligned


@click.group()
def releases() -> None:
    """Other TTNN releases, to ask them what they say: --ttnn VERSION of probe."""


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


__all__ = ["releases"]
