"""Commands over catalogs: check, list, import, diff, find, and the allocator's baseline of their cases."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import click

from ssinghal.cli.options import board_option_of, timeout_option_of
from ssinghal.cli.progress import track
from ssinghal.core.boards import DEFAULT_BOARD
from ssinghal.core.case import OutputMemory
from ssinghal.core.parsing import one_of, tensor_memory
from ssinghal.core.tensors import DType, Layout
from ssinghal.device.modes import choose_device
from ssinghal.errors import InvalidCase
from ssinghal.estimation.baseline import write_baseline
from ssinghal.render.tables import aligned
from ssinghal.runner.pool import Pool
from ssinghal.runner.tasks import PoolOptions

BASELINE_TIMEOUT_S = 900.0  # every case is to have an answer: the slowest convolution takes TTNN minutes of host work


@click.group()
def catalog() -> None:
    """Shape catalogs: what is tested."""


@catalog.command("check")
@click.argument("files", nargs=-1, type=click.Path(path_type=Path))
def check(files: tuple[Path, ...]) -> None:
    """Check catalog files (default: the product's own); every fault at once as file:line: path: what, exit code 2."""
    from ssinghal.catalog.loader import load_catalogs

    catalogs = load_catalogs(files, thorough=True)
    click.echo(f"{_number(len(catalogs), 'catalog')}, {_number(sum(c.line_count for c in catalogs), 'line')}: ok")


@catalog.command("list")
@click.argument("catalogs", nargs=-1)
@click.option("--json", "as_json", is_flag=True, help="The same as JSON.")
def list_all(catalogs: tuple[str, ...], as_json: bool) -> None:
    """Catalogs (default: the product's own) with their lines, the calls these stand for, and their level or kind."""
    from ssinghal.catalog.loader import load_catalogs, summary

    rows = [summary(c) for c in load_catalogs(catalogs)]
    if as_json:
        click.echo(json.dumps(rows, indent=2))
        return
    table = [["catalog", "lines", "calls", "level", "title"]]
    for row in rows:
        calls = "-" if row["calls"] is None else f"{row['calls']:,}"
        table.append([row["catalog"], f"{row['lines']:,}", calls, row["level"] or "-", row["title"]])
    click.echo("\n".join(aligned(table, left=(0, 3, 4))))


@catalog.command("import")
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), help="File to write [default: FILE.yaml here, if there is none]."
)
@click.option("--dtype", default="bfloat16", show_default=True, help="bfloat16, float32, bfloat8_b, bfloat4_b, …")
@click.option("--layout", default="tile", show_default=True, help="tile or row_major.")
@click.option("--memory", default="dram", show_default=True, help="dram or l1.")
@click.option(
    "--channels-last/--as-written", default=None, help="Rank-4 shapes go as NHWC / as they are [as operators need it]."
)
@click.option("--skip-unreadable", is_flag=True, help="Write the catalog of the other rows where some cannot be read.")
def import_list(
    file: Path, output: Path | None, dtype: str, layout: str, memory: str, channels_last: bool | None, skip_unreadable: bool
) -> None:
    """Make a checked catalog of an operator list in CSV.

    \b
      operator,input shapes,arguments,model,count
      add,"[1,64,640,400];[1,64,640,400]",,yolov8s,12
      view,1x64x640x400,"size=[1, 64, 256000]",yolov8s,1

    Columns are known by such titles (op, shapes, args, n, …; only operator and shapes are needed), operators by any name that
    the product or torch has for them. Equal rows are merged. Rows that cannot be read are listed as file:line: why, and nothing
    is written unless told to: exit code 2.
    """
    from ssinghal.catalog.csv_import import read_list
    from ssinghal.catalog.loader import SUFFIXES, write_checked
    from ssinghal.catalog.schema import PlacementModel

    target = output or Path()
    if target.is_dir():
        target /= f"{file.stem}.yaml"
    if output is None and target.exists():
        raise InvalidCase(f"{target} is there already: name a file with -o")
    if not target.parent.is_dir():
        raise InvalidCase(f"{target}: there is no folder {target.parent}")
    if target.suffix not in SUFFIXES:
        raise InvalidCase(f"{target}: a catalog's name ends in {' or '.join(SUFFIXES)}")
    placement = PlacementModel(
        dtype=one_of(DType, "dtype", dtype),
        layout=one_of(Layout, "layout", layout),
        memory=tensor_memory(memory),
        output_memory=OutputMemory.SAME,
        channels_last=channels_last,
    )
    imported = read_list(file, placement)
    for fault in imported.faults:
        click.echo(fault, err=True)
    if imported.unused:
        click.echo(f"{file}: columns that say nothing here: {', '.join(imported.unused)}", err=True)
    unreadable = len(imported.faults)
    if not imported.text or (unreadable and not skip_unreadable):
        advice = "; --skip-unreadable writes the others" if imported.text else ""
        why = f"{unreadable:,} of {_number(imported.rows, 'row')} cannot be read" if imported.rows else "has no rows"
        raise InvalidCase(f"{file}: {why}; nothing is written{advice}")
    write_checked(imported.text, target)
    click.echo(f"{target}: {_number(imported.lines, 'line')} of {_number(imported.rows - unreadable, 'row')}")
    if unreadable:
        click.echo(f"{_number(unreadable, 'row')} left out")
    if imported.completed:
        click.echo(
            f"{_number(imported.completed, 'row')} with one shape of a call that takes more: the operator makes the rest of it"
        )


def _number(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"


@catalog.command("diff")
@click.argument("old")
@click.argument("new")
@click.option("--all", "everything", is_flag=True, help="All calls of each operator, not the first five.")
@click.option("--json", "as_json", is_flag=True, help="All differences as JSON.")
def diff(old: str, new: str, everything: bool, as_json: bool) -> None:
    """What appeared (+), vanished (-) or changed count (~) from one catalog to another: of two captures of a model, say.

    Exit code 0 where nothing did, 1 where something did, 2 for catalogs that cannot be compared.
    """
    from ssinghal.catalog.diff import SHOWN, compare
    from ssinghal.catalog.loader import load_catalog

    difference = compare(load_catalog(old), load_catalog(new))
    if as_json:
        click.echo(json.dumps(difference.to_json(), indent=2))
    else:
        click.echo("\n".join(difference.lines(None if everything else SHOWN)))
    sys.exit(1 if difference else 0)


@catalog.command("find")
@click.argument("shape")
@click.argument("catalogs", nargs=-1)
@click.option("--json", "as_json", is_flag=True, help="The same as JSON.")
def find_shape(shape: str, catalogs: tuple[str, ...], as_json: bool) -> None:
    """Every model, input size, call and module that has a shape, as catalogs know it. ``*`` stands for any size.

    \b
      ssinghal catalog find 1,768,4,60,106
      ssinghal catalog find "1,*,4320,7680" yolo12x

    Exit code 1 where none has it; the nearest shapes (other order, one other size, as many elements) are named then.
    """
    from ssinghal.catalog.loader import load_catalogs
    from ssinghal.catalog.search import find
    from ssinghal.core.shape_pattern import parse_pattern

    pattern = parse_pattern(shape)
    found = find(load_catalogs(catalogs), pattern)
    if as_json:
        click.echo(json.dumps(found.to_json(), indent=2))
    else:
        click.echo("\n".join(found.lines()))
    sys.exit(0 if found else 1)


@click.command()
@board_option_of(DEFAULT_BOARD, "Virtual board to ask")
@timeout_option_of(BASELINE_TIMEOUT_S, "Time one case may take on the device.")
def baseline(board: str, timeout: float) -> None:
    """Ask TTNN's allocator for every catalog case and write the board's baseline, which estimates are tested against."""
    from ssinghal.catalog.expansion import expand
    from ssinghal.catalog.loader import load_catalogs

    choice = choose_device("virtual", board)
    cases = list({c.key: c for c in expand(load_catalogs(None)).cases}.values())
    with Pool(choice, PoolOptions(workers=2, timeout_s=timeout)) as pool:
        records = list(track(pool.map(cases), "probing", len(cases)))
        path = write_baseline(board, pool.facts.ttnn, records)
    click.echo(f"{len(records)} cases in {path}")
