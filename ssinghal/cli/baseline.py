"""``ssinghal baseline``: what TTNN's allocator books for the cases of all catalogs."""

from __future__ import annotations

import click

from ssinghal.cli import options
from ssinghal.cli.progress import track
from ssinghal.cli.streams import echo
from ssinghal.core.boards import DEFAULT_BOARD
from ssinghal.core.device_facts import DeviceMode
from ssinghal.device.modes import choose_device
from ssinghal.estimation.baseline import write_baseline
from ssinghal.runner.pool import Pool
from ssinghal.runner.tasks import PoolOptions

TIMEOUT_S = 900.0  # every case needs an answer: the slowest convolution takes TTNN minutes of work on the host


@click.command()
@options.board(DEFAULT_BOARD, "Virtual board to open")
@options.timeout(TIMEOUT_S)
def baseline(board: str, timeout: float) -> None:
    """Record what TTNN's allocator books for catalog cases.

    Runs every case of the built-in catalogs and writes the board's baseline, which estimates are tested against.
    """
    from ssinghal.catalog.expansion import expand
    from ssinghal.catalog.loader import load_catalogs

    choice = choose_device(DeviceMode.VIRTUAL, board)
    cases = list({c.key: c for c in expand(load_catalogs(None)).cases}.values())
    with Pool(choice, PoolOptions(workers=2, timeout_s=timeout)) as pool:
        records = list(track(pool.map(cases), "probing", len(cases)))
        path = write_baseline(board, pool.facts.ttnn, records)
    echo(f"{len(records)} cases in {path}")
