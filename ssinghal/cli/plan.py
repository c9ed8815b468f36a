"""``ssinghal plan``: complete models on boards."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

import click

from ssinghal.capacity.parameters import Goal
from ssinghal.cli import options
from ssinghal.cli.long_help import LongHelp
from ssinghal.cli.parameter_types import OneOf
from ssinghal.cli.requests import collected
from ssinghal.core.boards import DEFAULT_BOARD
from ssinghal.core.tensors import Shape
from ssinghal.device.releases import Release
from ssinghal.errors import InvalidCase
from ssinghal.plan.input_sizes import GOALS, STRIDE
from ssinghal.plan.policy import ACTIVATIONS, WEIGHTS, PortingPolicy, Rewrite, find_policy

TIMEOUT_S = 600.0
BOTH = "both"
BOTH_POLICIES = ("port", "eager")


@dataclass(frozen=True)
class PlanRequest:
    """Which models to run on which boards, and what to write.

    ``input_shape``: None for the one that a trace was recorded at. ``l1_small``: bytes, None for as much as the model needs.
    """

    model: str
    input_shape: Shape | None
    boards: tuple[str, ...]
    policy: str
    rewrites: tuple[str, ...]
    weights: str | None
    activations: str | None
    headroom: str | None
    pins: tuple[str, ...]
    data_parallel: bool
    allow_stand_ins: bool
    l1_small: int | None
    as_json: bool
    html: Path | None
    write: Path | None
    release: Release | None
    timeout: float

    def policies(self) -> list[PortingPolicy]:
        names = BOTH_POLICIES if self.policy == BOTH else (self.policy,)
        return [
            find_policy(
                name,
                self.rewrites,
                self.weights,
                activations=self.activations,
                headroom=self.headroom,
                pins=self.pins,
            )
            for name in names
        ]


plan_options = collected(
    PlanRequest,
    "request",
    click.argument("model"),
    options.input_shape,
    options.boards(DEFAULT_BOARD),
    click.option(
        "--policy", default="port", metavar="NAME|FILE", help="port, l1, eager, both (port and eager), or a YAML file."
    ),
    click.option(
        "--rewrite", "rewrites", multiple=True, metavar="NAME", help=f"Also apply this (repeatable): {', '.join(Rewrite)}."
    ),
    click.option("--weights", metavar="DTYPE", help=f"Dtype of weights instead of the model's: {', '.join(WEIGHTS)}."),
    click.option(
        "--activations",
        metavar="DTYPE",
        help=f"Dtype of activations in tiles instead of the model's: {', '.join(ACTIVATIONS)}.",
    ),
    click.option("--headroom", metavar="SIZE", help="Policy l1: what stays free of each core's L1: 10%, or bytes."),
    click.option(
        "--pin",
        "pins",
        multiple=True,
        metavar="MODULES=WHERE",
        help="Policy l1: where results of modules are (repeatable): 'layer1.*=height', block, width, l1, dram, l1:block@8x8.",
    ),
    click.option("--data-parallel", is_flag=True, help="Split the batch over the chips of a mesh, such as n300_1x2."),
    click.option(
        "--allow-stand-ins", is_flag=True, help="Decide although calls that TTNN lacks make up more than 1 % of the bytes."
    ),
    options.count("--l1-small", "l1_small_size in bytes [default: as much as the model needs].", unit="BYTES"),
    options.json("All of it as JSON, each step included."),
    options.file("--html", "Write a page with the timeline to this file."),
    options.file("--write", "Write the plan as a TTNN program to this file: one board, one policy."),
    options.release,
    options.timeout(TIMEOUT_S, "one run of the model"),
)


@click.command("plan", cls=LongHelp, first=("--input", "--board", "--policy", "--max", "--html"))
@plan_options
@click.option("--search/--no-search", default=True, help="If it does not fit, try the other rewrites one by one.")
@click.option("--partial", is_flag=True, help="Plan the recorded part of a model that cannot be recorded completely.")
@options.file("--journal", "Write a line to this file for each completed step.")
@click.option(
    "--max", "goal", type=OneOf(GOALS, "--max"), metavar="GOAL", help=f"Find the largest that fits: {', '.join(GOALS)}."
)
@click.option("--tiers", is_flag=True, help="Find the largest batch at 720p, 1080p, 1440p, 4K and 8K, a table per policy.")
@options.count("--stride", "Heights and widths are multiples of N.", STRIDE)
@options.output(options.FILE, "Record the runs of --max and --tiers in this journal; the runs that it has are not run again.")
def plan_command(
    request: PlanRequest,
    search: bool,
    partial: bool,
    journal: Path | None,
    goal: Goal | None,
    tiers: bool,
    stride: int,
    output: Path | None,
) -> None:
    """Run a complete model on a virtual board: does it fit?

    \b
      ssinghal plan yolo12x --input 1,3,2176,3840 --board n150,p150
      ssinghal plan torchvision/swin_b --input 1,3,1280,800 --policy both --html plan.html
      ssinghal plan my_models.segmenter:small --board all
      ssinghal plan torchvision/resnet50 --input 1,3,224,224 --write resnet50_ttnn.py
      ssinghal plan yolo12x --input 1,3,640,640 --board n150,p150 --max resolution -o edges.jsonl

    MODEL: package/name, a recorded trace (FILE.trace.json.gz), or module:function. Its calls run in their order on a virtual
    board, with real allocation and freeing: the report shows where memory peaks and what makes the model fit. No card is
    needed. What each column and line means: docs/plan.md, Read the output.

    --max and --tiers start at --input, else at the model's own input. Exit code 0 where every plan fits, or where an
    input is known to fit; 1 where not; 2 for bad input.
    """
    from ssinghal.cli.plan_run import find_capacity, plan_model

    if goal is not None or tiers:
        if request.write is not None:
            raise InvalidCase("--write writes the program of one plan: not with --max or --tiers")
        sys.exit(find_capacity(request, goal or Goal.BATCH, partial=partial, tiers=tiers, stride=stride, output=output))
    if output is not None:
        raise InvalidCase("-o holds the runs of --max and --tiers; a plan goes to --html, --json or --journal")
    sys.exit(plan_model(request, partial=partial, search=search, journal=journal))
