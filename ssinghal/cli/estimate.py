"""``ssinghal estimate``: bytes by arithmetic."""

from __future__ import annotations

import json
import sys

import click

from ssinghal.cli import options
from ssinghal.cli.parameter_types import OneOf
from ssinghal.cli.requests import CaseRequest, case_options
from ssinghal.cli.streams import show
from ssinghal.core.boards import DEFAULT_BOARD, load_board
from ssinghal.core.estimate import Prediction
from ssinghal.core.tensors import ShardKind
from ssinghal.estimation.estimator import estimate as estimate_case
from ssinghal.estimation.estimator import explain
from ssinghal.operators.binding import specs_of


@click.command()
@case_options()
@options.boards(DEFAULT_BOARD)
@click.option(
    "--shard",
    type=OneOf((ShardKind.HEIGHT, ShardKind.WIDTH, ShardKind.BLOCK), "shard kind"),
    metavar="KIND",
    help="Cut L1 tensors evenly over the cores: height, width or block. Short for --memory l1:KIND.",
)
@options.json("One JSON object for each board.")
def estimate(case: CaseRequest, boards: tuple[str, ...], shard: ShardKind | None, as_json: bool) -> None:
    """Estimate by arithmetic alone whether a call fits.

    \b
      ssinghal estimate add 1,64,640,400 1,64,640,400 --memory l1 --channels-last --board n150
      ssinghal estimate softmax 4,12,1024,1024 --attr dim=-1 --memory l1 --board n150,p150

    How shapes, memories and settings are written: ssinghal probe --help.

    No device is opened. The answer is fits, exceeds, or unknown. Exit code 0 fits or unknown, 1 exceeds on a board, 2 bad
    input.
    """
    known = case.case()
    estimates = [estimate_case(known, load_board(board), shard) for board in boards]
    for one in estimates:
        if one.verdict is Prediction.UNKNOWN:
            specs_of(known, one.board)  # rejects an impossible call; operands that exceed do so in any call
    for board, one in zip(boards, estimates, strict=True):
        if as_json:
            click.echo(json.dumps({**known.identity(), "board": board, **one.to_json()}))
        else:
            show([*([f"{board}:"] if len(boards) > 1 else []), explain(one)])
    sys.exit(1 if any(one.verdict is Prediction.EXCEEDS for one in estimates) else 0)
