"""``ssinghal edge``: the largest or smallest size of a call that fits."""

from __future__ import annotations

import json
import sys
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ssinghal.capacity.parameters import LARGEST, SMALLEST, Bounds, Goal, SearchParameter
from ssinghal.capacity.search import SearchLimits
from ssinghal.cli import options
from ssinghal.cli.long_help import LongHelp
from ssinghal.cli.parameter_types import OneOf
from ssinghal.cli.requests import CaseRequest, DeviceRequest, case_options, collected, device_options
from ssinghal.cli.streams import echo, show
from ssinghal.core.boards import load_board
from ssinghal.core.parsing import parse_shape
from ssinghal.runner.pool import Pool

if TYPE_CHECKING:
    from ssinghal.capacity.finder import EdgeResult, ValueRun


@dataclass(frozen=True)
class SearchRequest:
    """What is varied, and how far the search goes."""

    largest: Goal | None
    smallest: Goal | None
    dims: str | None
    step: int | None
    upto: int | None
    runs: int
    seconds: float
    doubts: float

    def goal(self) -> Goal:
        goals = [goal for goal in (self.largest, self.smallest) if goal is not None]
        if len(goals) != 1:
            raise click.UsageError(f"give one of these: --max {'|'.join(LARGEST)}, --min {'|'.join(SMALLEST)}")
        return goals[0]

    def bounds(self) -> Bounds:
        return Bounds(tuple(parse_shape(self.dims)) if self.dims else (), self.step, self.upto)

    def limits(self) -> SearchLimits:
        return SearchLimits(runs=self.runs, seconds=self.seconds, check_seconds=self.doubts)


search_options = collected(
    SearchRequest,
    "request",
    click.option(
        "--max",
        "largest",
        type=OneOf(LARGEST, "--max"),
        metavar="GOAL",
        help=f"Find the largest that fits: {', '.join(LARGEST)}.",
    ),
    click.option(
        "--min",
        "smallest",
        type=OneOf(SMALLEST, "--min"),
        metavar="GOAL",
        help=f"Find the smallest that fits: {', '.join(SMALLEST)}.",
    ),
    click.option("--dim", "dims", metavar="N[,N]", help="Dimensions of the first operand, as written, to vary."),
    options.count("--step", "Step between values (of a resolution: height and width are multiples of it)."),
    click.option("--upto", type=click.IntRange(0), metavar="N", help="The largest value to try (of a resolution: its height)."),
    options.count("--runs", "At most N runs per search.", 64),
    options.seconds("--seconds", 60.0, "Start no run of a search after this time."),
    options.seconds("--doubts", 2.0, "Time limit of extra checks around the edge."),
)


@click.command(cls=LongHelp, first=("--max", "--min", "--memory", "--attr", "--board"))
@case_options()
@search_options
@device_options(options.release, options.timeout(), options.host_tiles(), board=options.boards())
@options.json("One JSON object for each board.")
@options.output(options.FILE, "Record the runs in this journal; the runs that it has are not run again.")
def edge(case: CaseRequest, request: SearchRequest, device: DeviceRequest, as_json: bool, output: Path | None) -> None:
    """Find the largest or smallest size of a call that fits.

    \b
      ssinghal edge convolution 1,64,320,320 64,64,3,3 64 --attr padding=1 --memory l1 --max resolution
      ssinghal edge relu 1,64,320,200 --memory l1 --max batch --board n150,p150
      ssinghal edge softmax 1,12,1024,1024 --attr dim=-1 --memory l1 --max sequence
      ssinghal edge convolution 1,3,2160,3840 64,3,7,7 --attr stride=2 --min slices -o slices.jsonl
      ssinghal edge max_pool2d 1,64,320,320 --attr kernel_size=3 --memory l1 --min l1_small

    How shapes, memories and settings are written: ssinghal probe --help.

    The last value that fits and the next one, which does not, are both run on the device. Values around the edge are run as
    well: if there are several edges, all are reported. A value that was no trial of memory (a crash, a call that TTNN does not
    take) bounds nothing, and is named. Exit code 0 where something is known to fit on each board, else 1; 2 for bad input.
    """
    from ssinghal.capacity.finder import EdgeSearch, lean
    from ssinghal.capacity.journal import Journal
    from ssinghal.capacity.text import lines, table, to_json

    known = case.case()
    search = EdgeSearch(request.goal(), known, request.bounds(), request.limits())
    choices = device.choose_all()
    for choice in choices:
        search.check(load_board(choice.board))  # before any device is opened
    edges: list[EdgeResult] = []
    with Journal(output) if output else nullcontext() as journal:
        for choice in choices:
            pool_options = replace(device, workers=1).pool_options(choice)
            with Pool(choice, lean(pool_options)) as pool:
                edges.append(search.on(pool, journal, _show_run))
            if as_json:
                click.echo(json.dumps(to_json(edges[-1])))
    if not as_json:
        show(lines(edges[0]) if len(edges) == 1 else table(edges))
    sys.exit(0 if all(one.fit for one in edges) else 1)


def _show_run(parameter: SearchParameter, run: ValueRun) -> None:
    """Shows each run on a terminal."""
    if sys.stderr is not None and sys.stderr.isatty():
        echo(f"{parameter.goal} {parameter.value_text(run.value)}: {run.verdict.status}", err=True)
