"""``ssinghal history``: a case over runs."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

import click

from ssinghal.cli.options import board_option_of, interruptible, nothing_collected, results_option
from ssinghal.cli.progress import track
from ssinghal.core.boards import load_board
from ssinghal.core.parsing import one_of
from ssinghal.device.modes import DeviceMode
from ssinghal.errors import HarnessError
from ssinghal.operators import find_operator


@click.command()
@click.argument("operator", required=False)
@click.argument("shape", required=False)
@results_option
@board_option_of(None, "Only this board")
@click.option("--device", "mode", metavar="MODE", help=f"Only this device mode: {', '.join(DeviceMode)}.")
@click.option("--rebuild", is_flag=True, help="First make the index of runs anew from their folders.")
@click.option("--json", "as_json", is_flag=True, help="The same as JSON, with all numbers.")
@interruptible()
@nothing_collected()
def history(
    operator: str | None, shape: str | None, results: Path, board: str | None, mode: str | None, rebuild: bool, as_json: bool
) -> None:
    """How the cases of an operator at a shape ended in every run, and where that changed.

    \b
      ssinghal history add 1,96,2160,3840
      ssinghal history concat "1,*,2160,3840" --board n150
      ssinghal history --rebuild

    A case is found by its listed shape and by that of any operand; * is any size. Runs come from the folders in --results;
    store.sqlite there is an index of them, brought up to date first, and can be deleted at any time. Exit code 0, also where
    there is no record (the nearest shapes are named then), 2 for an unknown operator, board or mode.
    """
    from ssinghal.core.shape_pattern import parse_pattern
    from ssinghal.runs.history import History
    from ssinghal.runs.index import STORE, Store
    from ssinghal.runs.reader import run_folders

    if shape is None and not (rebuild and operator is None):
        raise click.UsageError("expected OPERATOR and SHAPE, or --rebuild alone")
    name = find_operator(operator).name if operator else ""
    pattern = None if shape is None else parse_pattern(shape)
    wanted_board = load_board(board).name if board else None
    wanted_mode = one_of(DeviceMode, "device mode", mode).value if mode else None
    if not run_folders(results):
        raise HarnessError(f"no run in {results}; begin with: ssinghal run")
    store = Store(results / STORE)
    if rebuild:
        store.rebuild(results, _progress)
    store.sync(results, _progress)
    if pattern is None:
        click.echo(f"{store.path}: {len(store.runs()):,} runs")
        return
    found = History.of(store, name, pattern, board=wanted_board, mode=wanted_mode)
    click.echo(json.dumps(found.to_json(), indent=2) if as_json else "\n".join(found.lines()))


def _progress(folders: list[Path]) -> Iterable[Path]:
    return track(folders, "indexing", len(folders))
