"""``ssinghal probe``: cases on a device."""

from __future__ import annotations

import json
import sys
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from ssinghal.cli.options import (
    case_arguments,
    case_from_arguments,
    device_options,
    host_tiles_option,
    input_lines,
    interruptible,
    release_option,
    timeout_option,
    workers_option,
)
from ssinghal.cli.progress import track
from ssinghal.core.boards import load_board
from ssinghal.core.case import Case
from ssinghal.core.record import FAULTS, Record, Status, sentence
from ssinghal.core.tensors import format_bytes, format_shape
from ssinghal.device.modes import DeviceChoice, choose_device
from ssinghal.device.releases import Release
from ssinghal.errors import InvalidCase
from ssinghal.estimation.estimator import MemoryEstimate, estimate, read_cases
from ssinghal.render.tables import aligned
from ssinghal.runner.pool import Pool
from ssinghal.runner.tasks import PoolOptions
from ssinghal.runs.files import LineFile


@click.command()
@case_arguments
@device_options
@release_option
@click.option("--json", "as_json", is_flag=True, help="The record as one JSON object.")
@click.option(
    "--from", "source", type=click.Path(dir_okay=False, path_type=Path), help="JSONL file of cases, - for standard input."
)
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write the records there instead of standard output.",
)
@timeout_option
@host_tiles_option
@workers_option
@interruptible()
def probe(
    operator: str | None,
    shapes: tuple[str, ...],
    attrs: tuple[str, ...],
    board: str | None,
    mode: str,
    ttnn_log: bool,
    as_json: bool,
    source: Path | None,
    output: Path | None,
    timeout: float,
    host_tiles: int,
    workers: int | None,
    release: Release | None,
    **placement: Any,
) -> None:
    """Run a case on a device and say whether it fits.

    \b
      ssinghal probe add 1,64,640,400 1,64,640,400 --memory l1 --channels-last
      ssinghal probe view 1,640,400,64 --attr size=1,64,640,400 --memory l1
      ssinghal probe --from cases.jsonl -o records.jsonl

    One case: exit code 0 fits, 1 does not, 2 invalid. --from: one record a line, in the order of the cases, each written when
    it and all before it are there; exit code 1 if any ended in error, mismatch, crash or timeout.
    """
    choice = choose_device(mode, board, ttnn_log=ttnn_log)
    options = PoolOptions.of(choice, workers=workers, timeout_s=timeout, host_tiles=host_tiles, release=release)
    if source is not None:
        source_of = click.get_current_context().get_parameter_source
        if any(source_of(name) is ParameterSource.COMMANDLINE for name in ("operator", "attrs", *placement)):
            raise click.UsageError("with --from, each line of the file says its own operator, shapes, attributes and placement")
        sys.exit(_batch(source, output, choice, options))
    if operator is None:
        raise click.UsageError("give an operator and its shapes, or --from FILE")
    case = case_from_arguments(operator, shapes, attrs, **placement)
    with Pool(choice, options) as pool:
        made = estimate(case, pool.facts.opened_board)
        record = pool.submit(case).result()
    if output is not None:
        with LineFile(output) as file:
            file.write(_line(record, made))
    elif as_json:
        click.echo(_line(record, made))
    elif record.status is Status.INVALID:
        raise InvalidCase(record.verdict.message)
    else:
        click.echo("\n".join(describe(case, record)))
    sys.exit({Status.FITS: 0, Status.INVALID: 2}.get(record.status, 1))


def _batch(source: Path, output: Path | None, choice: DeviceChoice, options: PoolOptions) -> int:
    """The exit code. Nothing runs and nothing is written unless every case can be read."""
    cases = read_cases(source, input_lines(source), load_board(choice.board))
    if output is not None and output.exists() and source.exists() and output.samefile(source):
        raise InvalidCase(f"{output}: holds the cases; write the records elsewhere")
    if output is None and sys.stdout is None:
        raise InvalidCase("standard output is closed; write the records to a file with -o")
    statuses = []
    with Pool(choice, options) as pool, ExitStack() as stack:
        write = stack.enter_context(LineFile(output)).write if output is not None else click.echo
        records = zip(pool.map(case for case, _ in cases), cases, strict=True)
        for record, (case, made) in track(records, "probing", len(cases)):
            if options.release is not None:
                made = estimate(case, pool.facts.opened_board)  # its banks are not those of the board's file
            write(_line(record, made))
            statuses.append(record.status)
    return 1 if set(statuses) & set(FAULTS) else 0


def _line(record: Record, made: MemoryEstimate) -> str:
    return json.dumps(replace(record, estimate=made.to_json()).to_json())


def describe(case: Case, record: Record) -> list[str]:
    """The record in words, sizes in binary units with their exact bytes."""
    verdict = record.verdict
    shapes = " ".join(format_shape(s) for s in case.inputs)
    attrs = " ".join(f"{k}={v}" for k, v in case.attrs.items())
    lines = [
        " ".join(x for x in (case.name, shapes, attrs) if x) + f"  on {record.device_mode} {record.board}, ttnn {record.ttnn}"
    ]
    said = sentence(verdict) if verdict.status is not Status.FITS else verdict.message
    lines.append(f"{verdict.status.value.upper()}: {said}" if said else verdict.status.value.upper())
    if verdict.total_bytes is not None:
        lines.append(f"asked for {format_bytes(verdict.total_bytes)} over {verdict.banks} banks of {verdict.bank_bytes:,} B")
    if verdict.shortfall_bytes is not None and verdict.status is Status.OOM:
        lines.append(f"short by {format_bytes(verdict.shortfall_bytes)} per {'bank' if verdict.banks else 'core'}")
    if record.tensors:
        rows = [["tensor", "shape", "dtype", "layout", "memory", "logical B", "allocated B", "B per bank"]]
        for t in record.tensors:
            booked = f"{t.booked_bytes:,}" if t.booked_bytes is not None else ""
            rows.append(
                [
                    t.label,
                    format_shape(t.shape),
                    t.dtype,
                    t.layout,
                    t.memory,
                    f"{t.logical_bytes:,}",
                    f"{t.allocated_bytes:,}",
                    booked,
                ]
            )
        lines += aligned(rows)
    if record.usage is not None:
        peaks = ", ".join(f"{k.removesuffix('_bytes')} {v:,} B" for k, v in record.usage.items() if v)
        lines.append(f"the whole call would take, were there no limits, per bank or core: {peaks}")
    elif record.usage_note:
        lines.append(f"peaks: {record.usage_note}")
    if record.device_mode == "virtual":
        lines.append("numerics not run: a virtual device gives memory verdicts only")
    return lines
