"""``ssinghal sweep``: catalogs on several boards, releases, placements and dtypes, a run for each board and release."""

from __future__ import annotations

import json
import sys
from functools import partial
from pathlib import Path

import click

from ssinghal.cli import options
from ssinghal.cli.long_help import LongHelp
from ssinghal.cli.progress import VerdictProgress, doing, track
from ssinghal.cli.requests import DeviceRequest, device_options
from ssinghal.cli.stored_options import plain_options
from ssinghal.cli.streams import echo, show
from ssinghal.core.boards import load_board
from ssinghal.core.case_sets import Shard
from ssinghal.core.tensors import DType
from ssinghal.device.releases import Release, find_release


@click.command(cls=LongHelp, first=("--op", "--board", "--placements", "--dtypes", "--results"))
@options.catalogs_argument
@options.operators
@options.placements
@options.dtypes
@options.weights
@options.count("--max-bytes", "Skip cases whose largest operand has more logical bytes.", unit="BYTES")
@options.sample()
@options.shard
@click.option("--remedies", is_flag=True, help="Search for what makes the cases fit that are out of memory.")
@click.option("--fresh", is_flag=True, help="Probe every case, also those that earlier runs have answered.")
@options.scheduler
@options.cluster
@options.releases("Releases to run: the installed one, or added ones (repeatable) [default: the installed one].")
@device_options(options.timeout(), options.host_tiles(), options.workers, board=options.boards())
@options.results
@options.json("Everything as one JSON object.")
def sweep(
    catalogs: tuple[str, ...],
    operators: tuple[str, ...],
    placements: tuple[str, ...],
    dtypes: tuple[DType, ...],
    weights: DType | None,
    max_bytes: int | None,
    per_operator: int | None,
    shard: Shard | None,
    remedies: bool,
    fresh: bool,
    scheduler: str | None,
    cluster: str | None,
    versions: tuple[str, ...],
    device: DeviceRequest,
    results: Path,
    as_json: bool,
) -> None:
    """Run catalogs on boards, releases, placements and dtypes.

    \b
      ssinghal sweep --board n150,p150 --placements dram,l1 --dtypes bfloat16,bfloat8_b
      ssinghal sweep yolo12x resnet50 --board all --ttnn 0.75.0,0.81.1 --shard 1/4

    Each board and release gets a run in --results, as ssinghal run writes it, with each call once per placement and dtype;
    equal calls of several models or names are probed once. What earlier runs there have answered by the same device, TTNN,
    code and limits is taken from them, unless --fresh is given: the same command completes a sweep that was interrupted. A
    board that does not open gets a line, and the sweep continues with the next one.

    Exit code 0 no finding, 1 an error, mismatch, crash, timeout or leak, 2 bad input or a board that did not run, 130
    interrupted.
    """
    from ssinghal.catalog.choosing import Choice
    from ssinghal.catalog.placements import check_placements
    from ssinghal.runner.cluster.opening import Cluster
    from ssinghal.runs.known import EarlierRuns
    from ssinghal.sweeps.parts import PartResult, Sweep, parts_of
    from ssinghal.sweeps.table import interruption, lines

    choices = device.choose_all()
    releases: list[Release | None] = [*map(find_release, versions)] or [None]
    for choice in choices:
        check_placements(placements, load_board(choice.board))  # before anything is opened
    where = Cluster.of(scheduler, cluster, device.workers, device.pool_options(choices[0]).workers, partial(echo, err=True))
    selection = Choice(catalogs, operators, None, max_bytes, per_operator, placements, weights, shard, dtypes)
    with doing("selecting the cases"):
        chosen = selection.chosen(load_board(choices[0].board))
    if where is not None:
        where.check()  # once, not for each board
    if not fresh:
        EarlierRuns(results).sync(lambda folders: track(folders, "indexing earlier runs", len(folders)))
    typed = plain_options(click.get_current_context().params)
    shared = Sweep(chosen, results, typed, remedies, not fresh, where)
    notes: list[str] = []
    ended: list[PartResult] = []
    parts = list(parts_of(choices, releases, device.pool_options))
    has_ended = False
    try:
        for part in parts:
            click.echo(f"{part.choice.board}, ttnn {part.ttnn or 'not installed'}:", err=True)
            with VerdictProgress(len(chosen.cases), shared.answering(part).place) as progress:
                ended.append(shared.not_started(part))
                shared.run(part, ended[-1], progress.count, notes.append, progress.probes)
            if ended[-1].ended:
                break
        has_ended = True
    finally:  # also where Ctrl-C comes while a device opens, or the summary of a run is written
        all_parts = [*ended, *map(shared.not_started, parts[len(ended) :])]
        is_interrupted = not has_ended or any(result.ended for result in ended)
        is_begun = any(result.run or result.fault for result in ended)
        if is_interrupted:
            notes += filter(None, [interruption(all_parts, fresh=fresh)])
        if is_begun and as_json:
            selected = len(chosen.cases)
            counts = {"selected": selected, "cases": selected * len(all_parts)}  # of one part, and of all
            found = {"results": str(results), **counts, "interrupted": is_interrupted}
            click.echo(json.dumps({**found, "parts": [result.to_json() for result in all_parts], "notes": notes}))
        elif is_begun:
            show([*lines(all_parts), *notes])
    if ended[-1].ended:
        sys.exit(128 + ended[-1].ended)
    sys.exit(2 if any(result.fault for result in ended) else 1 if any(result.faults for result in ended) else 0)
