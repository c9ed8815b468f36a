"""``ssinghal edge``: how far a call can go."""

from __future__ import annotations

import json
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ssinghal.capacity.parameters import LARGEST, SMALLEST, Bounds, Goal, SearchParameter
from ssinghal.capacity.search import SearchLimits
from ssinghal.cli.options import (
    case_arguments,
    case_from_arguments,
    device_options,
    host_tiles_option,
    interruptible,
    release_option,
    seconds_option_of,
    timeout_option,
)
from ssinghal.core.boards import load_board
from ssinghal.core.parsing import parse_shape
from ssinghal.device.modes import choose_device
from ssinghal.device.releases import Release
from ssinghal.errors import InvalidCase
from ssinghal.runner.pool import Pool
from ssinghal.runner.tasks import PoolOptions

if TYPE_CHECKING:
    from ssinghal.capacity.finder import ValueRun


@click.command()
@case_arguments
@device_options
@release_option
@click.option("--max", "largest", type=click.Choice([str(g) for g in LARGEST]), help="The largest that fits.")
@click.option("--min", "smallest", type=click.Choice([str(g) for g in SMALLEST]), help="The smallest that fits.")
@click.option("--dim", "dims", default="", metavar="N[,N]", help="Dims that are meant, of the first operand as written.")
@click.option("--step", type=click.IntRange(1), help="Between values; of a resolution, of which its sizes are multiples.")
@click.option("--upto", type=click.IntRange(0), help="The largest value to try; of a resolution, its height.")
@click.option("--runs", type=click.IntRange(1), default=64, show_default=True, help="Most runs of one search.")
@seconds_option_of("--seconds", 60.0, "Begin no run of a search after this time.")
@seconds_option_of("--doubts", 2.0, "After this time, run nothing but what the edge itself needs.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object for each board.")
@click.option(
    "-o", "--output", type=click.Path(dir_okay=False, path_type=Path), help="Journal of the runs; what it has is not run again."
)
@timeout_option
@host_tiles_option
@interruptible()
def edge(
    operator: str | None,
    shapes: tuple[str, ...],
    attrs: tuple[str, ...],
    board: str | None,
    mode: str,
    ttnn_log: bool,
    release: Release | None,
    largest: str | None,
    smallest: str | None,
    dims: str,
    step: int | None,
    upto: int | None,
    runs: int,
    seconds: float,
    doubts: float,
    as_json: bool,
    output: Path | None,
    timeout: float,
    host_tiles: int,
    **placement: Any,
) -> None:
    """Find how far one call can go: the last value that fits and the next one, which does not, both run on the device.

    \b
      ssinghal edge convolution 1,64,320,320 64,64,3,3 64 --attr padding=1 --memory l1 --max resolution
      ssinghal edge relu 1,64,320,200 --memory l1 --max batch --board n150,p150
      ssinghal edge softmax 1,12,1024,1024 --attr dim=-1 --memory l1 --max sequence
      ssinghal edge convolution 1,3,2160,3840 64,3,7,7 --attr stride=2 --min slices -o slices.jsonl
      ssinghal edge max_pool2d 1,64,320,320 --attr kernel_size=3 --memory l1 --min l1_small

    Values beside, beyond and below the edge are run as well: more than one edge is told. --board takes several, parted by
    commas. Exit code 0 where something fits on each board, 1 where nothing does, 2 for bad input.
    """
    from ssinghal.capacity.finder import EdgeSearch, lean  # they bring along what reads records, and what searches for remedies
    from ssinghal.capacity.journal import Journal
    from ssinghal.capacity.text import lines, table, to_json

    if operator is None:
        raise click.UsageError("give an operator and its shapes")
    if (largest is None) == (smallest is None):
        raise click.UsageError("give one of these: --max batch|resolution|sequence, --min slices|l1_small")
    case = case_from_arguments(operator, shapes, attrs, **placement)
    search = EdgeSearch(
        Goal(largest or smallest),
        case,
        Bounds(tuple(parse_shape(dims)) if dims else (), step, upto),
        SearchLimits(runs=runs, seconds=seconds, check_seconds=doubts),
    )
    choices = [choose_device(mode, name, ttnn_log=ttnn_log) for name in _names(board)]
    for choice in choices:
        search.check(load_board(choice.board))  # before any device is opened
    several = []
    with Journal(output) if output else nullcontext() as journal:
        for choice in choices:
            options = PoolOptions.of(choice, workers=1, timeout_s=timeout, host_tiles=host_tiles, release=release)
            with Pool(choice, lean(options)) as pool:
                several.append(search.on(pool, journal, _show_run))
            if as_json:
                click.echo(json.dumps(to_json(several[-1])))
    if not as_json:
        click.echo("\n".join(lines(several[0]) if len(several) == 1 else table(several)))
    sys.exit(0 if all(found.fit for found in several) else 1)


def _names(board: str | None) -> list[str | None]:
    """Boards parted by commas; one that is not named is the usual one."""
    names = [name.strip() for name in board.split(",")] if board is not None else [None]
    if len(set(names)) < len(names):
        raise InvalidCase(f"--board {board}: names a board twice")
    return list(names)


def _show_run(parameter: SearchParameter, run: ValueRun) -> None:
    """Shows each run to a user who waits at a terminal."""
    if sys.stderr is not None and sys.stderr.isatty():
        click.echo(f"{parameter.goal} {parameter.value_text(run.value)}: {run.verdict.status}", err=True)
