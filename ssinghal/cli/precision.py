"""``ssinghal precision``: bytes in bfloat16, bfloat8_b and bfloat4_b, and the storage error of each."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ssinghal.cli import options
from ssinghal.cli.parameter_types import OperatorOrCatalog
from ssinghal.cli.requests import PLACEMENT, CaseRequest, case_options, was_typed
from ssinghal.cli.streams import echo
from ssinghal.core.boards import DEFAULT_BOARD, load_board
from ssinghal.core.files import exists
from ssinghal.core.sharding import memory_request
from ssinghal.core.tensors import Board
from ssinghal.device.releases import Release
from ssinghal.errors import InvalidCase, unknown
from ssinghal.operators import operators
from ssinghal.operators.unsupported import NOT_OPERATORS
from ssinghal.precision.footprint import CallPlan, plan_call
from ssinghal.precision.storage_error import MEASURE_TIMEOUT_S, measure_storage

if TYPE_CHECKING:
    from ssinghal.precision.model_footprint import ModelPlan


@click.command()
@case_options(OperatorOrCatalog())
@options.board(DEFAULT_BOARD, "Board")
@click.option("--bytes-only", is_flag=True, help="Arithmetic alone: do not measure the storage error.")
@options.file("--values", "Measure a .pt, .npy or .safetensors file's tensors instead of generated ones.")
@click.option("--as-weights", is_flag=True, help="They are weights in torch's order: measure them as TTNN stores them.")
@options.release
@options.timeout(MEASURE_TIMEOUT_S, "the measurement")
@options.json("One JSON object, with every tensor and every case.")
def precision(
    case: CaseRequest,
    board: str,
    bytes_only: bool,
    values: Path | None,
    as_weights: bool,
    release: Release | None,
    timeout: float,
    as_json: bool,
) -> None:
    """Compare bytes and storage error of block-float dtypes.

    \b
      ssinghal precision softmax 4,12,8160,8160 --attr dim=-1
      ssinghal precision torchvision-swin_b-1280x800 --board p150 --bytes-only
      ssinghal precision --values model.safetensors --as-weights

    Shows what a call or a model takes in bfloat16, bfloat8_b and bfloat4_b. Bytes are arithmetic, on no device. A captured
    catalog is planned operator by operator; --memory places its calls elsewhere. What TTNN does not take in a dtype stays
    bfloat16 there, with the reason. The storage error is that of TTNN's own packing on the host; numerics of the call or model
    are not run.

    Exit code 0; 1 where a call exceeds in all three dtypes; 2 for bad input.
    """
    from ssinghal.precision.text import plan_json, plan_lines, storage_json, storage_lines, storage_summary

    if bytes_only and (values is not None or case.operator is None):
        raise click.UsageError("--bytes-only measures nothing: name an operator or a catalog, and no --values")
    if as_weights and values is None:
        raise click.UsageError("--as-weights requires --values")
    plan = None if case.operator is None else _planned(case, case.operator, load_board(board))
    measured = None if bytes_only else measure_storage(values, as_weights=as_weights, release=release, timeout_s=timeout)
    if as_json:
        report = plan_json(plan) if plan is not None else {}
        click.echo(json.dumps({**report, "storage": storage_json(measured)} if measured is not None else report))
    else:
        parts = [plan_lines(plan)] if plan is not None else []
        told = storage_summary if plan is not None and values is None else storage_lines
        parts += [told(measured)] if measured is not None else []
        echo("\n\n".join("\n".join(lines) for lines in parts))
    sys.exit(1 if plan is not None and plan.always_exceeds else 0)


def _planned(case: CaseRequest, name: str, board: Board) -> CallPlan | ModelPlan:
    """Returns the plan of a call, or of the catalog of that name or path: it is no operator's name and has no shapes."""
    from ssinghal.catalog.loader import load_catalog
    from ssinghal.precision.model_footprint import plan_model

    bare = name.removeprefix("ttnn.")
    if case.shapes or bare in operators() or bare in NOT_OPERATORS:
        return plan_call(case.case(), board)
    _check_catalog(name)
    if was_typed("attrs", *(option for option in PLACEMENT if option != "memory")):
        raise click.UsageError(f"{name} is a catalog, which sets all of its calls except --memory")
    return plan_model(load_catalog(name), board, memory_request(case.memory) if was_typed("memory") else None)


def _check_catalog(name: str) -> None:
    """Raises InvalidCase for a name that is neither part of a catalog's name nor a path: perhaps an operator was meant."""
    from ssinghal.catalog.loader import catalog_files

    files = catalog_files()
    if os.sep not in name and not exists(name) and not any(name in known for known in files):
        raise InvalidCase(unknown("operator or catalog", name, [*operators(), *(file.stem for file in files.values())]))
