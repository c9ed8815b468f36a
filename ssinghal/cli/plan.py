"""``ssinghal plan``: whole models on boards."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from ssinghal.capacity.parameters import Goal
from ssinghal.cli.options import interruptible, release_option, timeout_option_of
from ssinghal.core.boards import board_names as all_boards
from ssinghal.core.parsing import one_of, parse_shape
from ssinghal.device.releases import Release
from ssinghal.errors import InvalidCase
from ssinghal.plan.input_sizes import GOALS, STRIDE
from ssinghal.plan.policy import POLICIES, PortingPolicy, Rewrite, find_policy
from ssinghal.runner.custom_boards import board_name

DEFAULT_TIMEOUT_S = 600.0
ALL = "all"


@click.command("plan")
@click.argument("model")
@click.option("--input", "input_", metavar="SHAPE", help="Shape of the model's input, e.g. 1,3,640,640.")
@click.option("--board", "boards", default="n150", show_default=True, metavar="NAMES|FILE", help="Boards, by comma, or all.")
@click.option("--policy", default="port", show_default=True, help="port, eager, both, or a YAML file.")
@click.option("--rewrite", "rewrites", multiple=True, help=f"Also do this (repeatable): {', '.join(Rewrite)}.")
@click.option("--search/--no-search", default=True, help="Where it does not fit, try the other rewrites one by one.")
@click.option("--allow-stand-ins", is_flag=True, help="Decide although calls that TTNN lacks make more than 1 % of the bytes.")
@click.option("--partial", is_flag=True, help="Plan what was recorded of a model that cannot be recorded whole.")
@click.option("--l1-small", type=click.IntRange(1), help="l1_small_size in bytes [default: as much as the model needs].")
@click.option("--max", "goal", metavar="GOAL", help="The largest batch or resolution that fits, instead of the one asked for.")
@click.option("--tiers", is_flag=True, help="The largest batch at 720p, 1080p, 1440p, 4K and 8K, a table per policy.")
@click.option(
    "--stride", default=STRIDE, show_default=True, type=click.IntRange(1), help="Heights and widths are multiples of it."
)
@click.option(
    "-o", "--output", type=click.Path(dir_okay=False, path_type=Path), help="Runs of --max and --tiers: resumes there."
)
@click.option("--json", "as_json", is_flag=True, help="All of it as JSON, each step included.")
@click.option("--html", type=click.Path(dir_okay=False, path_type=Path), help="Write a page with the timeline there.")
@click.option("--journal", type=click.Path(dir_okay=False, path_type=Path), help="A line there for each step as it is done.")
@release_option
@timeout_option_of(DEFAULT_TIMEOUT_S, "Time one run of the model may take.")
@interruptible()
def plan_command(
    model: str,
    input_: str | None,
    boards: str,
    policy: str,
    rewrites: tuple[str, ...],
    search: bool,
    allow_stand_ins: bool,
    partial: bool,
    l1_small: int | None,
    goal: str | None,
    tiers: bool,
    stride: int,
    output: Path | None,
    as_json: bool,
    html: Path | None,
    journal: Path | None,
    release: Release | None,
    timeout: float,
) -> None:
    """Does a whole model fit on a board, where does it peak, and what makes it fit? No card needed.

    \b
      ssinghal plan yolo12x --input 1,3,2176,3840 --board n150,p150
      ssinghal plan torchvision/swin_b --input 1,3,1280,800 --policy both --html plan.html
      ssinghal plan my_models.segmenter:small --board all
      ssinghal plan yolo12x --input 1,3,640,640 --board n150,p150 --max resolution -o edges.jsonl

    MODEL: package/name, a recorded trace (FILE.trace.json.gz), or module:function. Its calls run in their order on a virtual
    board, with real allocation and freeing. Exit code 0 where every plan fits, 1 where one does not, 2 for bad input.
    """
    names = board_names(boards)
    policies = policies_of(policy, rewrites)
    inputs = None if input_ is None else (tuple(parse_shape(input_)),)
    if goal is None and not tiers:
        if output is not None:
            raise InvalidCase("-o holds the runs of --max and --tiers; a plan goes to --html, --json or --journal")
        from ssinghal.cli.plan_run import WholeModelRun

        whole = WholeModelRun(model, inputs, names, policies, l1_small, allow_stand_ins, timeout)
        sys.exit(whole.run(partial=partial, search=search, journal=journal, release=release, as_json=as_json, html=html))
    from ssinghal.cli.plan_run import CapacityRun

    far = CapacityRun(model, inputs, names, policies, l1_small, allow_stand_ins, timeout)
    chosen = Goal.BATCH if goal is None else one_of(GOALS, "--max", goal)
    sys.exit(far.run(chosen, tiers=tiers, stride=stride, output=output, release=release, as_json=as_json, html=html))


def board_names(text: str) -> list[str]:
    """Names by comma; ``all`` is every board of the product: each chip of a mesh holds what one alone does."""
    if text == ALL:
        return all_boards()
    names = [board_name(name.strip()) for name in text.split(",") if name.strip()]
    if not names:
        raise InvalidCase("--board: expected names by comma, like n150,p150, or all")
    return list(dict.fromkeys(names))


def policies_of(name: str, rewrites: tuple[str, ...]) -> list[PortingPolicy]:
    return [find_policy(one, rewrites) for one in (POLICIES if name == "both" else (name,))]
