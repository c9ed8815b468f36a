"""``ssinghal remedy``: what would make failing calls fit."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

import click

from ssinghal.cli import options
from ssinghal.cli.long_help import LongHelp
from ssinghal.cli.requests import CaseRequest, DeviceRequest, case_options, collected, device_options
from ssinghal.remedy.strategies.strategy import HOST_TILES


@dataclass(frozen=True)
class RemedyRequest:
    """Which cases to search for, where it is not one call; how far; and what to write."""

    source: Path | None
    run: str | None
    results: Path
    catalogs: tuple[str, ...]
    live: tuple[str, ...]
    probes: int
    seconds: float
    no_values: bool
    verbose: bool
    as_json: bool
    output: Path | None
    script: Path | None


remedy_options = collected(
    RemedyRequest,
    "request",
    options.live("Other buffers that stay allocated: 400MiB@dram, 64KiB@l1, or a file"),
    options.file("--from", "JSONL file of cases, or of diagnoses.", "source"),
    click.option("--run", metavar="RUN", help="All calls of a run that ran out of memory: its folder, id or latest."),
    options.results,
    options.catalogs("All cases of a catalog"),
    click.option("--verbose", is_flag=True, help="Of many cases, the code of each and all reasons, not one line."),
    options.json("One JSON object for each case."),
    options.output(options.FILE, "Write the JSON objects to this file."),
    options.file("--script", "Write the first remedy as a program."),
    options.count("--probes", "At most N trials for one case.", 50),
    options.seconds("--seconds", 5.0, "Start no trial of a case after this time."),
    click.option("--no-values", is_flag=True, help="Do not compare the values of rewrites in torch."),
)


@click.command(cls=LongHelp, first=("--memory", "--attr", "--from", "--board", "--script"))
@case_options()
@remedy_options
@device_options(options.release, options.host_tiles(HOST_TILES), options.timeout(), options.workers)
def remedy(case: CaseRequest, request: RemedyRequest, device: DeviceRequest) -> None:
    """Search for changes that make a call fit.

    \b
      ssinghal remedy add 1,64,640,400 1,64,640,400 --memory l1 --channels-last
      ssinghal remedy softmax 4,12,1024,1024 --attr dim=-1 --memory l1 --live 40MiB@l1
      ssinghal remedy --run latest -o remedies.jsonl
      ssinghal remedy view 160,100,512 --attr size=160,100,512,1,1 --script fits.py && ssinghal exec python fits.py

    How shapes, memories and settings are written: ssinghal probe --help.

    Each change is tried on the device, once arithmetic has ruled out what cannot fit, the least change to the surrounding code
    first: same tensor, other memory, other layout, re-arranged, chunked, other dtype, other board or release; the first that
    works of each, three at most. Exit code 0 where each case has a remedy or fits, 1 where one has none or could not be run,
    2 for bad input.
    """
    from ssinghal.cli.remedy_run import search_remedies

    sys.exit(search_remedies(case, request, device))
