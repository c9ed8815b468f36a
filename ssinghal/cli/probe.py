"""``ssinghal probe``: cases on a device."""

from __future__ import annotations

import json
import sys
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from ssinghal.cli import options
from ssinghal.cli.long_help import LongHelp
from ssinghal.cli.progress import track
from ssinghal.cli.requests import PLACEMENT, CaseRequest, DeviceRequest, case_options, device_options, was_typed
from ssinghal.cli.streams import InputLines, echo, show
from ssinghal.core.boards import load_board
from ssinghal.core.case import Case, operand_text
from ssinghal.core.device_facts import DeviceMode
from ssinghal.core.files import LineFile
from ssinghal.core.json_values import fields_of, value_text
from ssinghal.core.measured import Comparison, PlacedTensor
from ssinghal.core.record import Record
from ssinghal.core.tensors import ONE_CHIP, Board, format_bytes, format_shape
from ssinghal.core.verdict import FAULTS, Status, Verdict, sentence
from ssinghal.device.modes import DeviceChoice
from ssinghal.errors import InvalidCase
from ssinghal.estimation.estimator import MemoryEstimate, estimate
from ssinghal.operators.case_json import case_from_json, parse_json, read_lines
from ssinghal.render.tables import aligned
from ssinghal.runner.pool import Pool
from ssinghal.runner.tasks import PoolOptions
from ssinghal.runs.first_ooms import shortage


@click.command(cls=LongHelp, first=("--memory", "--dtype", "--attr", "--board", "--json"))
@case_options()
@device_options(options.release, options.timeout(), options.host_tiles(), options.workers)
@options.json("The record as one JSON object.")
@options.file("--from", "JSONL file of cases, - for standard input.", "source")
@options.output(options.FILE, "Write the records to this file instead of standard output.")
def probe(case: CaseRequest, device: DeviceRequest, as_json: bool, source: Path | None, output: Path | None) -> None:
    """Run a call on a device and report whether it fits.

    \b
      ssinghal probe add 1,64,640,400 1,64,640,400 --memory l1 --channels-last
      ssinghal probe view 1,640,400,64 --attr size=1,64,640,400 --memory l1
      ssinghal probe matmul 1,1,3136,64/l1:block@2x7 64,256/bf8/dram --output-memory l1:block --attr core_grid=2x7
      ssinghal probe --from cases.jsonl -o records.jsonl

    Words behind a shape are of that operand alone, in any order: a dtype (bf8), a layout (row_major), a memory (l1:block@8x8),
    and on a board of several chips how it is cut over them (shard=3). --dtype, --layout and --memory hold for operands without
    such words.

    A memory is dram or l1, interleaved, or sharded: BUFFER:KIND, then @CORES, :SHAPE and :ORIENTATION as needed. KIND is
    height, width, block or nd; CORES 8x8 (columns x rows), a number, or ranges as 0,0-7,2+0,3-2,3; SHAPE a shard in elements,
    as 64x32; ORIENTATION row_major or col_major. What is left out is chosen, and printed. A memory config of a port is
    taken as well: 'ttnn.MemoryConfig(...)' with its numbers (docs/sharding.md).

    Settings of TTNN's call are attributes, written as in a port: --attr 'program_config=ttnn.SDPAProgramConfig(...)',
    core_grid, compute_kernel_config, conv_config, activation. 'ssinghal operators --json' lists those of each
    operator (docs/settings.md).

    One case: exit code 0 fits (or agrees, with --device golden), 1 does not, 2 invalid. --from: one record a line, in the
    order of the cases, each written as soon as it and all before it are complete; exit code 1 if any ended in error, mismatch,
    crash or timeout.
    """
    choice = device.choose(golden=True)
    pool_options = device.pool_options(choice)
    if source is not None:
        if was_typed("operator", "attrs", *PLACEMENT):
            raise click.UsageError("with --from, each line of the file has its own operator, shapes, attributes and placement")
        sys.exit(_batch(source, output, choice, pool_options))
    if case.operator is None:
        raise click.UsageError("give an operator and its shapes, or --from FILE")
    known = case.case()
    with Pool(choice, pool_options) as pool:
        prediction = estimate(known, _board(pool))
        record = pool.submit(known).result()
    if output is not None:
        with LineFile(output, given=True) as file:
            file.write(_line(record, prediction))
    elif as_json:
        echo(_line(record, prediction))
    elif record.status is Status.INVALID:
        raise InvalidCase(record.verdict.message)
    else:
        show(_description(known, record))
    sys.exit({Status.FITS: 0, Status.AGREES: 0, Status.INVALID: 2}.get(record.status, 1))


def _board(pool: Pool) -> Board:
    """Returns the board as it was opened; that of its file where nothing was."""
    return pool.facts.opened_board if pool.facts.knows_memory else load_board(pool.facts.board)


def _batch(source: Path, output: Path | None, choice: DeviceChoice, pool_options: PoolOptions) -> int:
    """Returns the exit code. Nothing runs and nothing is written unless every case can be read.

    The cases are read again as they run, so that a long file is never in memory as cases, nor are its records.
    """
    with InputLines(source) as lines:
        board = load_board(choice.board)
        count = len(read_lines(source, lines, lambda fields: _checked(fields, board)))
        if not count:
            raise InvalidCase(f"{source}: no case in it, nothing to probe")
        if output is not None and output.exists() and source.exists() and output.samefile(source):
            raise InvalidCase(f"{output}: holds the cases; write the records elsewhere")
        if output is None and sys.stdout is None:
            raise InvalidCase("standard output is closed; write the records to a file with -o")
        statuses: set[Status] = set()
        with Pool(choice, pool_options) as pool, ExitStack() as stack:
            write = stack.enter_context(LineFile(output, given=True)).write if output is not None else click.echo
            if pool_options.release is not None:
                board = _board(pool)  # its banks are not those of the board's file
            for record, line in track(_lines_of(pool, lines, board), "probing", count):
                write(line)
                statuses.add(record.status)
    return 1 if statuses & set(FAULTS) else 0


def _lines_of(pool: Pool, lines: Iterable[str], board: Board) -> Iterator[tuple[Record, str]]:
    """Yields the record of each case with its line of output; few cases and records are in memory at a time."""
    running: deque[Case] = deque()
    cases = (case_from_json(parse_json(line)) for line in lines if line.strip())
    for record in pool.map(_noted(cases, running)):
        yield record, _line(record, estimate(running.popleft(), board))


def _checked(fields: Any, board: Board) -> None:
    """Raises InvalidCase for a line that is no case, or has a tensor that no device can hold."""
    estimate(case_from_json(fields), board)


def _noted(cases: Iterable[Case], running: deque[Case]) -> Iterator[Case]:
    """Yields ``cases``, each of which is ``running`` from then on."""
    for case in cases:
        running.append(case)
        yield case


def _line(record: Record, prediction: MemoryEstimate) -> str:
    return json.dumps(replace(record, estimate=prediction.stored()).to_json())


def _description(case: Case, record: Record) -> list[str]:
    """Describes a record: sizes in binary units with their exact bytes."""
    shapes = " ".join(operand_text(case, position) for position in range(len(case.inputs)))
    attrs = " ".join(f"{k}={value_text(v)}" for k, v in case.attrs.items())
    call = " ".join(filter(None, (case.name, shapes, attrs)))
    where = f"{record.device_mode} {record.board}, ttnn {record.ttnn}"
    if record.mesh != ONE_CHIP:
        where += ", of each of {}x{} chips".format(*record.mesh)
    lines = [f"{call}  on {where}", *_verdict_lines(record.verdict)]
    if record.tensors:
        lines += _tensor_table(record.tensors)
    if record.usage is not None:
        peaks = ", ".join(f"{k.removesuffix('_bytes')} {v:,} B" for k, v in fields_of(record.usage).items() if v)
        taken = "the call takes" if record.status is Status.FITS else "without limits, the call would take"
        lines.append(f"{taken} per bank or core: {peaks}")
    elif record.usage_note:
        lines.append(f"peaks: {record.usage_note}")
    if record.comparison is not None:
        lines.append(_comparison_line(record.comparison))
    if record.device_mode is DeviceMode.VIRTUAL:
        lines.append("numerics not run: a virtual device gives memory verdicts only")
    return lines


def _comparison_line(comparison: Comparison) -> str:
    if comparison.pcc is None or comparison.max_abs_error is None:
        return f"values: {comparison.fault}"
    return f"values: PCC {comparison.pcc:.6f} (at least {comparison.min_pcc}), largest error {comparison.max_abs_error:.3g}"


def _verdict_lines(verdict: Verdict) -> list[str]:
    status = verdict.status.value.upper()
    reason = sentence(verdict) if verdict.status not in (Status.FITS, Status.AGREES) else verdict.message
    lines = [f"{status}: {reason}" if reason else status]
    if verdict.total_bytes is not None:
        lines.append(f"requested {format_bytes(verdict.total_bytes)} over {verdict.banks} banks of {verdict.bank_bytes:,} B")
    return [*lines, *shortage(verdict)]


def _tensor_table(tensors: Sequence[PlacedTensor]) -> list[str]:
    rows = [["tensor", "shape", "dtype", "layout", "memory", "logical B", "allocated B", "B per bank"]]
    for t in tensors:
        sizes = (t.logical_bytes, t.allocated_bytes, t.booked_bytes)
        numbers = ["" if size is None else f"{size:,}" for size in sizes]
        rows.append([t.label, format_shape(t.shape), t.dtype, t.layout, t.memory, *numbers])
    return aligned(rows)
