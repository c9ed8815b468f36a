"""Commands over catalogs: check, list, and the allocator's baseline of their cases."""

from __future__ import annotations

import sys
from pathlib import Path

import click
from rich.console import Console
from rich.progress import track

from ssinghal.baseline import write_baseline
from ssinghal.boards import DEFAULT_BOARD
from ssinghal.catalog import check_catalogs, list_catalogs, load_catalogs
from ssinghal.device.modes import choose_device
from ssinghal.expand import expand
from ssinghal.pool import DEFAULT_TIMEOUT_S, Pool, PoolOptions


@click.group()
def catalog() -> None:
    """Shape catalogs: what is tested."""


@catalog.command("check")
@click.argument("files", nargs=-1, type=click.Path(path_type=Path))
def check(files: tuple[Path, ...]) -> None:
    """Check catalog files (default: the product's own); every fault at once as file:line: path: what, exit code 2."""
    faults = check_catalogs(files)
    for fault in faults:
        click.echo(fault, err=True)
    sys.exit(2 if faults else 0)


@catalog.command("list")
def list_all() -> None:
    """The product's catalogs with their kind and number of cases."""
    for line in list_catalogs():
        click.echo(line)


@click.command()
@click.option("--board", default=DEFAULT_BOARD, show_default=True, help="Virtual board to ask.")
@click.option("--timeout", default=DEFAULT_TIMEOUT_S, show_default=True, help="Seconds one case may take.")
def baseline(board: str, timeout: float) -> None:
    """Ask TTNN's allocator for every catalog case and write the board's baseline, which estimates are tested against."""
    cases = list({c.key: c for c in expand(load_catalogs(None)).cases}.values())
    with Pool(choose_device("virtual", board), PoolOptions(workers=2, timeout_s=timeout)) as pool:
        progress = track(pool.map(cases), "probing", total=len(cases), console=Console(stderr=True))
        records = list(progress)
        path = write_baseline(board, pool.facts.ttnn, records)
    click.echo(f"{len(records)} cases in {path}")
