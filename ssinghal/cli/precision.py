"""``ssinghal precision``: bytes in bfloat16, bfloat8_b and bfloat4_b, and what storing values so loses."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from ssinghal.cli.options import case_arguments, case_from_arguments, interruptible, release_option, timeout_option_of
from ssinghal.core.boards import DEFAULT_BOARD, load_board
from ssinghal.core.parsing import tensor_memory
from ssinghal.core.tensors import Board
from ssinghal.device.releases import Release
from ssinghal.errors import InvalidCase, unknown
from ssinghal.operators import operators
from ssinghal.operators.unsupported import NOT_OPERATORS
from ssinghal.precision.storage_error import MEASURE_TIMEOUT_S, measure_storage

if TYPE_CHECKING:
    from ssinghal.precision.footprint import CallPlan
    from ssinghal.precision.model_footprint import ModelPlan

OF_CALLS_ALONE = ("attrs", "dtype", "layout", "output_memory", "channels_last", "l1_small_size")


@click.command()
@case_arguments
@click.option("--board", default=DEFAULT_BOARD, show_default=True, help="n150, n300, p100 or p150.")
@click.option("--bytes-only", is_flag=True, help="Arithmetic alone: do not measure the storage error.")
@click.option(
    "--values",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Measure the tensors of a .pt, .npy or .safetensors file instead of made ones.",
)
@click.option("--as-weights", is_flag=True, help="They are weights in torch's order: measure them as TTNN stores them.")
@release_option
@timeout_option_of(MEASURE_TIMEOUT_S, "Time that the measuring may take.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object, with every tensor and every case.")
@interruptible()
def precision(
    operator: str | None,
    shapes: tuple[str, ...],
    attrs: tuple[str, ...],
    board: str,
    bytes_only: bool,
    values: Path | None,
    as_weights: bool,
    release: Release | None,
    timeout: float,
    as_json: bool,
    **placement: Any,
) -> None:
    """Say what a call or a model takes in bfloat16, bfloat8_b and bfloat4_b, and what storing values so loses.

    \b
      ssinghal precision softmax 4,12,8160,8160 --attr dim=-1
      ssinghal precision torchvision-swin_b-1280x800 --board p150 --bytes-only
      ssinghal precision --values model.safetensors --as-weights

    Bytes are arithmetic, on no device. A captured catalog is planned operator by operator; --memory places its calls elsewhere.
    What TTNN does not take in a dtype stays bfloat16 there, with the reason. The storage error is that of TTNN's own packing on
    the host; numerics of the call or model are not run.

    Exit code 0; 1 where a call exceeds in all three dtypes; 2 for bad input.
    """
    from ssinghal.precision.text import plan_json, plan_lines, storage_json, storage_lines

    if bytes_only and (values is not None or operator is None):
        raise click.UsageError("--bytes-only measures nothing: name an operator or a catalog, and no --values")
    if as_weights and values is None:
        raise click.UsageError("--as-weights tells what the tensors of --values FILE are")
    plan = None if operator is None else _planned(operator, shapes, attrs, load_board(board), placement)
    measured = None if bytes_only else measure_storage(values, as_weights=as_weights, release=release, timeout_s=timeout)
    if as_json:
        told = plan_json(plan) if plan is not None else {}
        click.echo(json.dumps({**told, "storage": storage_json(measured)} if measured is not None else told))
    else:
        parts = [plan_lines(plan)] if plan is not None else []
        parts += [storage_lines(measured)] if measured is not None else []
        click.echo("\n\n".join("\n".join(lines) for lines in parts))
    sys.exit(1 if plan is not None and plan.always_exceeds else 0)


def _planned(
    name: str, shapes: tuple[str, ...], attrs: tuple[str, ...], board: Board, placement: dict[str, Any]
) -> CallPlan | ModelPlan:
    """The plan of a call, or of the catalog of that name or path: no operator's name, and no shapes with it."""
    from ssinghal.catalog.loader import load_catalog
    from ssinghal.precision.footprint import plan_call
    from ssinghal.precision.model_footprint import plan_model

    bare = name.removeprefix("ttnn.")
    if shapes or bare in operators() or bare in NOT_OPERATORS:
        return plan_call(case_from_arguments(name, shapes, attrs, **placement), board)
    _check_catalog(name)
    source_of = click.get_current_context().get_parameter_source
    if any(source_of(option) is ParameterSource.COMMANDLINE for option in OF_CALLS_ALONE):
        raise click.UsageError(f"{name} is a catalog, which says all of its calls but --memory")
    chosen = tensor_memory(placement["memory"]) if source_of("memory") is ParameterSource.COMMANDLINE else None
    return plan_model(load_catalog(name), board, chosen)


def _check_catalog(name: str) -> None:
    """InvalidCase for what is part of no catalog's name and no path, either: perhaps an operator was meant."""
    from ssinghal.catalog.loader import catalog_files

    files = catalog_files()
    if os.sep not in name and not Path(name).exists() and not any(name in known for known in files):
        raise InvalidCase(unknown("operator or catalog", name, [*operators(), *(file.stem for file in files.values())]))
