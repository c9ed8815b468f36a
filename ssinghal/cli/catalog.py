"""``ssinghal catalog``: check, list, import, compare and search catalogs."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import click
from click.core import ParameterSource

from ssinghal.cli import options
from ssinghal.cli.capture import capture_command, recapture_command
from ssinghal.cli.catalog_import import number
from ssinghal.cli.parameter_types import CatalogName
from ssinghal.cli.streams import echo
from ssinghal.core.case import OutputMemory
from ssinghal.core.shape_pattern import parse_pattern
from ssinghal.core.tensors import BufferType, DType, Layout
from ssinghal.errors import InvalidCase
from ssinghal.render.tables import aligned


@click.group()
def catalog() -> None:
    """Check, list, search, compare and create shape catalogs."""


catalog.add_command(capture_command)
catalog.add_command(recapture_command)


@catalog.command("check")
@click.argument("files", nargs=-1, type=options.PATH)
def check(files: tuple[Path, ...]) -> None:
    """Check catalog files and list every error.

    Checks the given files [default: the built-in ones]. Errors are printed as file:line: path: what. Exit code 0, 2 for errors.
    """
    from ssinghal.catalog.loader import load_catalogs

    catalogs = load_catalogs(files, thorough=True)
    echo(f"{number(len(catalogs), 'catalog')}, {number(sum(c.line_count for c in catalogs), 'line')}: ok")


@catalog.command("list")
@options.catalogs_argument
@options.json("The same as JSON.")
def list_all(catalogs: tuple[str, ...], as_json: bool) -> None:
    """List catalogs with their numbers of lines and calls.

    Lists the named catalogs [default: the built-in ones] with their lines, the calls that these stand for, and their level.
    """
    from ssinghal.catalog.loader import load_catalogs, summary

    rows = [summary(c) for c in load_catalogs(catalogs)]
    if as_json:
        click.echo(json.dumps(rows, indent=2))
        return
    table = [["catalog", "lines", "calls", "level", "title"]]
    for row in rows:
        calls = "-" if row["calls"] is None else f"{row['calls']:,}"
        table.append([row["catalog"], f"{row['lines']:,}", calls, row["level"] or "-", row["title"]])
    echo("\n".join(aligned(table, left=(0, 3, 4))))


@catalog.command("import")
@click.argument("file", type=options.PATH)
@options.output(options.PATH, "Write the catalog to this file or folder [default: FILE.yaml here, if there is none].")
@options.dtype
@options.layout
@options.memory("dram", "dram or l1.")
@options.channels
@click.option("--skip-unreadable", is_flag=True, help="Leave out rows that cannot be read.")
@options.file("--refused", "Write the recorded calls that are no cases to this file, one a line, with the reason.")
@click.pass_context
def import_list(
    context: click.Context,
    file: Path,
    output: Path | None,
    dtype: DType,
    layout: Layout,
    memory: BufferType,
    channels_last: bool | None,
    skip_unreadable: bool,
    refused: Path | None,
) -> None:
    """Create a catalog from an operator list or a recording.

    \b
      operator,input shapes,arguments,model,count
      add,"[1,64,640,400];[1,64,640,400]",,yolov8s,12
      view,1x64x640x400,"size=[1, 64, 256000]",yolov8s,1

    Columns are recognized by such titles (op, shapes, args, n, …; only operator and shapes are required), operators by any of
    their names here or in torch. Equal rows are merged. Rows that cannot be read are listed as file:line: why; then nothing is
    written and the exit code is 2, except with --skip-unreadable.

    A recording is a profile of ssinghal profile, the folder that TTNN's operation tracer writes with --trace-params, the master
    JSON of tt-metal's model tracer, or JSON lines with the tensors of each call. Its calls become cases with their own tensors,
    memory configs and arguments; those that are no cases are counted by reason.
    """
    from ssinghal.catalog.loader import SUFFIXES
    from ssinghal.catalog.placement_fields import PlacementModel
    from ssinghal.catalog.recorded.importer import is_recording
    from ssinghal.cli.catalog_import import import_csv, import_recording

    target = output or Path()
    if target.is_dir():
        target /= f"{(file if file.name else file.resolve()).name.partition('.')[0] or file.stem}.yaml"
    if output is None and target.exists():
        raise InvalidCase(f"{target} exists already: name a file with -o")
    if not target.parent.is_dir():
        raise InvalidCase(f"{target}: there is no folder {target.parent}")
    if target.suffix not in SUFFIXES:
        raise InvalidCase(f"{target}: a catalog's name ends in {' or '.join(SUFFIXES)}")
    if is_recording(file):
        for name in ("dtype", "layout", "memory", "channels_last"):
            if context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
                raise InvalidCase(f"--{name.replace('_', '-')} is for operator lists; recorded calls have their own placement")
        import_recording(file, target, refused, skip_unreadable)
        return
    if refused is not None:
        raise InvalidCase("--refused is for recordings; unreadable rows of an operator list are printed")
    stated = {"dtype": dtype, "layout": layout, "memory": memory, "output_memory": OutputMemory.SAME}
    placement = PlacementModel.model_validate({**stated, "channels_last": channels_last})
    import_csv(file, target, placement, skip_unreadable)


@catalog.command("diff")
@click.argument("old", type=CatalogName())
@click.argument("new", type=CatalogName())
@click.option("--all", "everything", is_flag=True, help="All calls of each operator, not only the first five.")
@options.json("All differences as JSON.")
def diff(old: str, new: str, everything: bool, as_json: bool) -> None:
    """Show the differences between two catalogs.

    Calls that appeared (+), vanished (-) or changed their count (~), for example between two captures of a model. Exit code 0
    where there are none, 1 where there are some, 2 for catalogs that cannot be compared.
    """
    from ssinghal.catalog.diff import SHOWN, compare
    from ssinghal.catalog.loader import load_catalog

    difference = compare(load_catalog(old), load_catalog(new))
    if as_json:
        click.echo(json.dumps(difference.to_json(), indent=2))
    else:
        echo("\n".join(difference.lines(None if everything else SHOWN)))
    sys.exit(1 if difference else 0)


@catalog.command("find")
@click.argument("shape")
@options.catalogs_argument
@options.json("The same as JSON.")
def find_shape(shape: str, catalogs: tuple[str, ...], as_json: bool) -> None:
    """Find the models and calls that have a shape.

    \b
      ssinghal catalog find 1,768,4,60,106
      ssinghal catalog find "1,*,4320,7680" yolo12x

    Lists every model, input size, call and module with the shape; * is any size. Exit code 0, 1 if none has it: then the
    nearest shapes (other order, one other size, as many elements) are named.
    """
    from ssinghal.catalog.loader import load_catalogs
    from ssinghal.catalog.search import find

    pattern = parse_pattern(shape)
    uses = find(load_catalogs(catalogs), pattern)
    click.echo(json.dumps(uses.to_json(), indent=2) if as_json else "\n".join(uses.lines()))
    sys.exit(0 if uses else 1)
