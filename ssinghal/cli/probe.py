"""``ssinghal probe``: cases on a device."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, TextIO

import click
from rich.console import Console
from rich.progress import track

from ssinghal.boards import load_board
from ssinghal.caselines import read_cases
from ssinghal.cases import Case
from ssinghal.cli.options import case_arguments, case_from_arguments, device_options
from ssinghal.device.modes import choose_device
from ssinghal.errors import InvalidCase
from ssinghal.estimate import estimate
from ssinghal.pool import DEFAULT_TIMEOUT_S, Pool, PoolOptions
from ssinghal.records import Record, Status
from ssinghal.specs import format_bytes, format_shape
from ssinghal.text import aligned, sentence

# What a batch may end with and still have done its work; anything else is a finding.
VERDICTS = (Status.FITS, Status.OOM, Status.UNSUPPORTED, Status.INVALID)


@click.command()
@case_arguments
@device_options
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
@click.option("--timeout", type=float, default=DEFAULT_TIMEOUT_S, show_default=True, help="Seconds one case may take.")
@click.option(
    "--workers", type=click.IntRange(1, 64), default=None, help="Device processes for --from [default: 2 virtual, 1 real]."
)
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
    workers: int | None,
    **placement: Any,
) -> None:
    """Run a case on a device and say whether it fits.

    \b
      ssinghal probe add 1,64,640,400 1,64,640,400 --memory l1 --channels-last
      ssinghal probe view 1,640,400,64 --attr size=1,64,640,400 --memory l1
      ssinghal probe --from cases.jsonl -o records.jsonl

    One case: exit code 0 fits, 1 does not, 2 invalid. --from: one record a line, in the order of the cases;
    exit code 1 if any ended in error, mismatch, crash or timeout.
    """
    if (operator is None) == (source is None):
        raise click.UsageError("give an operator and its shapes, or --from FILE")
    choice = choose_device(mode, board, ttnn_log=ttnn_log)
    virtual = choice.mode == "virtual"
    if source is not None:
        if not shapes and not attrs:
            cases = _read(source)
            options = PoolOptions(workers or (2 if virtual else 1), timeout, numerics=not virtual)
            sys.exit(_batch(cases, Pool(choice, options), output))
        raise click.UsageError("--from takes no shapes or attributes")
    assert operator is not None
    case = case_from_arguments(operator, shapes, attrs, **placement)
    with Pool(choice, PoolOptions(1, timeout, numerics=not virtual)) as pool:
        record = pool.submit(case).result()
    made = estimate(case, load_board(choice.board).with_l1_small(case.placement.l1_small_bytes or 0))
    if as_json or output is not None:
        line = json.dumps({**record.to_json(), "estimate": made.to_json()})
        output.write_text(line + "\n", encoding="utf-8") if output else click.echo(line)
    else:
        click.echo("\n".join(describe(case, record)))
    sys.exit({Status.FITS: 0, Status.INVALID: 2}.get(record.status, 1))


def _read(source: Path) -> list[Case]:
    try:
        text = sys.stdin.read() if str(source) == "-" else source.read_text(encoding="utf-8")
    except OSError as error:
        raise InvalidCase(f"{source}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise InvalidCase(f"{source}: not UTF-8 text (byte {error.start})") from error
    return read_cases(source, text.splitlines())


def _batch(cases: list[Case], pool: Pool, output: Path | None) -> int:
    """Writes each record as soon as it and all before it are there; returns the exit code."""
    board = load_board(pool.choice.board)
    unexpected = 0
    with pool:
        try:
            file: TextIO = output.open("w", encoding="utf-8") if output else sys.stdout
        except OSError as error:
            raise InvalidCase(f"{output}: {error.strerror}") from error
        progress = Console(stderr=True)
        records = zip(cases, pool.map(cases), strict=True)
        shown = output is not None and progress.is_terminal
        for case, record in track(records, "probing", total=len(cases), console=progress, disable=not shown):
            made = estimate(case, board.with_l1_small(case.placement.l1_small_bytes or 0))
            file.write(json.dumps({**record.to_json(), "estimate": made.to_json()}) + "\n")
            file.flush()
            unexpected += record.status not in VERDICTS
        if output:
            file.close()
    return 1 if unexpected else 0


def describe(case: Case, record: Record) -> list[str]:
    """The record in words, sizes in binary units with their exact bytes."""
    verdict = record.verdict
    shapes = " ".join(format_shape(s) for s in case.inputs)
    attrs = " ".join(f"{k}={v}" for k, v in case.attrs.items())
    lines = [
        " ".join(x for x in (case.name, shapes, attrs) if x) + f"  on {record.device_mode} {record.board}, ttnn {record.ttnn}"
    ]
    lines.append(f"{verdict.status.value.upper()}: {sentence(verdict)}" if verdict.status is not Status.FITS else "FITS")
    if verdict.total_bytes is not None:
        lines.append(f"asked for {format_bytes(verdict.total_bytes)} over {verdict.banks} banks of {verdict.bank_bytes:,} B")
    if verdict.shortfall_bytes is not None and verdict.status is Status.OOM:
        lines.append(f"short by {format_bytes(verdict.shortfall_bytes)} per bank")
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
        lines.append(f"peak of the whole call, per bank or core: {peaks}")
    elif record.usage_note:
        lines.append(f"peaks: {record.usage_note}")
    if record.device_mode == "virtual":
        lines.append("numerics not run: a virtual device gives memory verdicts only")
    return lines
