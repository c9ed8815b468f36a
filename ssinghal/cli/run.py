"""``ssinghal run``: complete catalogs on a device."""

from __future__ import annotations

import json
import resource
import sys
from functools import partial
from pathlib import Path
from typing import Any

import click

from ssinghal.catalog.placements import check_placements, in_placements
from ssinghal.catalog.sampling import sample
from ssinghal.cli import options
from ssinghal.cli.progress import VerdictProgress
from ssinghal.cli.requests import DeviceRequest, device_options
from ssinghal.cli.streams import show
from ssinghal.core.boards import load_board
from ssinghal.core.tensors import BufferType, DType, format_bytes
from ssinghal.errors import InvalidCase
from ssinghal.remedy.probing import probing
from ssinghal.runner.sweep import sweep
from ssinghal.runs.summary import Summary, left_out
from ssinghal.runs.writer import RunFolder, new_run


@click.command()
@options.catalogs_argument
@options.operators
@options.memory(None, "Put operands into dram or l1, whatever the catalog has.")
@options.placements
@options.weights
@options.count("--max-bytes", "Skip cases whose largest operand has more logical bytes.", unit="BYTES")
@options.sample()
@click.option("--remedies", is_flag=True, help="Search for what makes the cases fit that are out of memory.")
@device_options(options.timeout(), options.host_tiles(), options.workers)
@options.results
@options.json("The summary as one JSON object.")
def run(
    catalogs: tuple[str, ...],
    operators: tuple[str, ...],
    memory: BufferType | None,
    placements: tuple[str, ...],
    weights: DType | None,
    max_bytes: int | None,
    per_operator: int | None,
    remedies: bool,
    device: DeviceRequest,
    results: Path,
    as_json: bool,
) -> None:
    """Run complete catalogs on a device and record every case.

    \b
      ssinghal run
      ssinghal run yolo12x --op conv2d --memory l1 --board p150
      ssinghal run my.yaml --sample 20 --remedies
      ssinghal run resnet50-224 --placements dram,l1,height,width,block --weights bfloat8_b

    Catalogs are named by name, part of a name, or file [default: all]. The folder of the run, in --results, gets run.json,
    records.jsonl and summary.txt; the link latest points to it. Records are written in the order in which cases end. Every
    selected case has one, also when the run is interrupted. With --remedies, the record of a case that runs out of memory shows
    what was tried on the device to make it fit.

    With --placements, each call runs once per placement: its operands and its result are there, and weights of sharded calls
    stay interleaved in DRAM. The summary then ends with the placements in which the calls of each model fit.

    Exit code 0 no finding, 1 an error, mismatch, crash, timeout or leak, 2 bad input, 130 interrupted.
    """
    from ssinghal.catalog.expansion import expand
    from ssinghal.catalog.loader import load_catalogs
    from ssinghal.report import placement_text
    from ssinghal.report.placement_view import placement_views
    from ssinghal.runs.reader import read_run

    if memory is not None and placements:
        raise InvalidCase("--memory and --placements both place the operands: give one of them")
    choice = device.choose(golden=True)
    check_placements(placements, load_board(choice.board))
    expanded = expand(load_catalogs(catalogs or None), operators=operators or None, memory=memory, max_bytes=max_bytes)
    cases = expanded.cases if per_operator is None else sample(expanded.cases, per_operator)
    if placements or weights is not None:
        cases = in_placements(cases, placements, weights)
    if not cases:
        limits = [*(f"--op {name}" for name in operators), *([] if max_bytes is None else [f"--max-bytes {max_bytes}"])]
        by = f" by {' '.join(limits)}" if limits else ""
        raise InvalidCase(f"no case is selected from {', '.join(catalogs) or 'the catalogs'}{by}")
    typed = _plain(click.get_current_context().params)
    folder = RunFolder(results, new_run(Path.cwd(), typed, len(cases)))
    unmapped = [] if operators else [call.count for call in expanded.unmapped]
    notes = left_out(unmapped)
    submitting = partial(probing, remedies=remedies)
    with VerdictProgress(len(cases)) as progress:
        try:
            ended = sweep(cases, choice, device.pool_options(choice), folder, progress.count, submitting=submitting)
        finally:
            host_bytes = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
            notes.append(f"host memory of the largest device process: {format_bytes(host_bytes)}")
            lines = folder.finish(len(cases), notes)
    summary = Summary.of(folder.records)
    views = placement_views(read_run(folder.path)) if placements else ()
    if as_json:
        counts = {"selected": len(cases), "unreached": folder.info.unreached}
        header = {"run": folder.info.run, "folder": str(folder.path), **counts}
        missing = {"lines": len(unmapped), "calls": sum(unmapped)}
        placed = {"placements": [view.to_json() for view in views]} if placements else {}
        click.echo(json.dumps({**header, **summary.to_json(), **placed, "left_out": missing, "host_bytes": host_bytes}))
    else:
        show([*lines, *placement_text.summary(views), *notes, f"records: {folder.path / 'records.jsonl'}"])
    sys.exit(128 + ended if ended else 1 if summary.faults else 0)


def _plain(values: dict[str, Any]) -> dict[str, Any]:
    """Returns the values of options as JSON has them."""
    return {name: list(v) if isinstance(v, tuple) else str(v) if isinstance(v, Path) else v for name, v in values.items()}
