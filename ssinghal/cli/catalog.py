"""Commands over catalogs: check, list, and the allocator's baseline of their cases."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from ssinghal.baseline import write_baseline
from ssinghal.boards import DEFAULT_BOARD
from ssinghal.cli.options import timeout_option
from ssinghal.cli.progress import track
from ssinghal.device.modes import choose_device
from ssinghal.pool import Pool, PoolOptions


@click.group()
def catalog() -> None:
    """Shape catalogs: what is tested."""


@catalog.command("check")
@click.argument("files", nargs=-1, type=click.Path(path_type=Path))
def check(files: tuple[Path, ...]) -> None:
    """Check catalog files (default: the product's own); every fault at once as file:line: path: what, exit code 2."""
    from ssinghal.catalog.reading import check_catalogs

    faults = check_catalogs(files)
    for fault in faults:
        click.echo(fault, err=True)
    sys.exit(2 if faults else 0)


@catalog.command("list")
def list_all() -> None:
    """The product's catalogs with their kind and number of cases."""
    from ssinghal.catalog.reading import list_catalogs

    for line in list_catalogs():
        click.echo(line)


@click.command()
@click.option("--board", default=DEFAULT_BOARD, show_default=True, help="Virtual board to ask.")
@timeout_option
def baseline(board: str, timeout: float) -> None:
    """Ask TTNN's allocator for every catalog case and write the board's baseline, which estimates are tested against."""
    from ssinghal.catalog.reading import load_catalogs
    from ssinghal.expand import expand

    choice = choose_device("virtual", board)
    cases = list({c.key: c for c in expand(load_catalogs(None)).cases}.values())
    with Pool(choice, PoolOptions(workers=2, timeout_s=timeout)) as pool:
        records = list(track(pool.map(cases), "probing", len(cases)))
        path = write_baseline(board, pool.facts.ttnn, records)
    click.echo(f"{len(records)} cases in {path}")
