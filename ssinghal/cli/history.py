"""``ssinghal history``: how a case ended from run to run."""

from __future__ import annotations

import json
from collections.abc import Iterable
from itertools import islice
from pathlib import Path

import click

from ssinghal.cli import options
from ssinghal.cli.parameter_types import DTypeNames, OneOf, OperatorName, PlacementNames
from ssinghal.cli.progress import track
from ssinghal.cli.streams import collector_off, echo
from ssinghal.core.device_facts import OPENED_MODES, DeviceMode
from ssinghal.core.elements import DType
from ssinghal.core.shape_pattern import parse_pattern
from ssinghal.errors import HarnessError
from ssinghal.operators import find_operator

_AT_ONCE = 1000  # lines that are written together


@click.command()
@click.argument("operator", type=OperatorName(), required=False)
@click.argument("shape", required=False)
@options.results
@options.board(None, "Only this board", implied=None)
@click.option(
    "--device",
    "mode",
    type=OneOf(OPENED_MODES, "device mode"),
    metavar="MODE",
    help=f"Only this device mode: {', '.join(OPENED_MODES)}.",
)
@options.only("--placements", PlacementNames(), "Only cases in these memories, comma-separated, as l1,l1:block@8x8.")
@options.only("--dtypes", DTypeNames(), "Only cases with operands in these dtypes, comma-separated.")
@click.option("--rebuild", is_flag=True, help="First rebuild the index of runs from their folders.")
@options.json("The same as JSON, with all numbers.")
@collector_off()
def history(
    operator: str | None,
    shape: str | None,
    results: Path,
    board: str | None,
    mode: DeviceMode | None,
    placements: tuple[str, ...],
    dtypes: tuple[DType, ...],
    rebuild: bool,
    as_json: bool,
) -> None:
    """Show how the cases at a shape ended in every run.

    \b
      ssinghal history add 1,96,2160,3840
      ssinghal history concat "1,*,2160,3840" --board n150
      ssinghal history matmul "*,512,512" --placements dram,l1 --dtypes bfloat8_b
      ssinghal history --rebuild

    A case is found by its listed shape and by that of any operand; * is any size. Runs come from the folders in --results;
    store.sqlite there is an index of them, updated first, and can be deleted at any time. Exit code 0, also if there is no
    record (then the nearest shapes are named), 2 for an unknown operator, board or mode.
    """
    from ssinghal.runs.folders import run_folders
    from ssinghal.runs.history import History
    from ssinghal.runs.index import STORE, Store

    if shape is None and not (rebuild and operator is None):
        raise click.UsageError("expected OPERATOR and SHAPE, or --rebuild alone")
    name = find_operator(operator).name if operator else ""
    pattern = None if shape is None else parse_pattern(shape)
    if not run_folders(results):
        raise HarnessError(f"no run in {results}; start with: ssinghal run")
    store = Store(results / STORE)
    if rebuild:
        store.rebuild(results, _progress)
    store.sync(results, _progress)
    if pattern is None:
        echo(f"{store.path}: {len(store.runs()):,} runs")
        return
    of_device = {"board": board, "mode": mode.value if mode else None}
    cases = History.of(store, name, pattern, **of_device, memories=placements, dtypes=dtypes)
    if as_json:
        echo(json.dumps(cases.to_json(), indent=2))
        return
    lines = cases.lines()
    while some := list(islice(lines, _AT_ONCE)):
        echo("\n".join(some))


def _progress(folders: list[Path]) -> Iterable[Path]:
    return track(folders, "indexing", len(folders))
