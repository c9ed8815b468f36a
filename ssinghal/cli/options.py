"""Options and arguments that several commands share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click

from ssinghal.catalog.placements import PLACEMENTS
from ssinghal.cli.parameter_types import (
    BoardName,
    BoardNames,
    CatalogName,
    DTypeName,
    DTypeNames,
    Memory,
    Named,
    OneOf,
    OperatorName,
    PlacementNames,
    ReleaseVersion,
    Seconds,
    ShardName,
)
from ssinghal.core.boards import DEFAULT_BOARD, board_names
from ssinghal.core.device_facts import OPENED_MODES, DeviceMode
from ssinghal.core.parsing import TENSOR_MEMORIES, parse_shape
from ssinghal.core.tensors import Layout, Shape
from ssinghal.device.modes import AUTO
from ssinghal.runner.probe import Limits
from ssinghal.runner.tasks import DEFAULT_TIMEOUT_S, MAX_WAIT_FACTOR

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]
FILE = click.Path(dir_okay=False, path_type=Path)
FOLDER = click.Path(file_okay=False, path_type=Path)
PATH = click.Path(path_type=Path)


def _shape(text: str) -> Shape:
    return tuple(parse_shape(text))


def _versions(context: click.Context, parameter: click.Parameter, values: Sequence[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(version.strip() for value in values for version in value.split(",")))


def count(name: str, what: str, default: int | None = None, parameter: str | None = None, unit: str = "N") -> Decorator:
    """A number from 1."""
    return click.option(name, *filter(None, [parameter]), type=click.IntRange(1), default=default, metavar=unit, help=what)


# Models and catalogs
catalogs_argument: Decorator = click.argument("catalogs", type=CatalogName(), nargs=-1, metavar="[CATALOG]...")
input_shape: Decorator = click.option(
    "--input", "input_shape", type=_shape, metavar="SHAPE", help="Shape of the model's input, e.g. 1,3,640,640."
)
operators: Decorator = click.option(
    "--op",
    "operators",
    type=OperatorName(),
    multiple=True,
    metavar="NAME",
    help="Only this operator, by any name (repeatable).",
)


def catalogs(what: str) -> Decorator:
    text = f"{what} (repeatable)."
    return click.option("--catalog", "catalogs", type=CatalogName(), multiple=True, metavar="NAME|FILE", help=text)


def sample(default: int | None = None) -> Decorator:
    return count("--sample", "At most N cases of each operator.", default, "per_operator")


shard: Decorator = click.option(
    "--shard",
    type=ShardName(),
    metavar="K/N",
    help="Only part K of N of the cases, as 2/8 (see ssinghal merge).",
)

incremental: Decorator = click.option(
    "--incremental", is_flag=True, help="Take what earlier runs in --results have answered; probe the rest."
)


# Placement
channels: Decorator = click.option(
    "--channels-last/--as-written",
    default=None,
    help="Place rank-4 shapes, written NCHW, as NHWC / as they are written; attributes such as dim refer to the tensor as"
    " placed (those of pools, convolutions and upsample keep torch's meaning) [default: as operators need it].",
)
dtype: Decorator = click.option(
    "--dtype",
    type=DTypeName(),
    default="bfloat16",
    metavar="DTYPE",
    help="bfloat16, float32, bfloat8_b, bfloat4_b, … or bf16, fp32, bf8, bf4.",
)
layout: Decorator = click.option(
    "--layout", type=OneOf(Layout, "layout"), default="tile", metavar="LAYOUT", help="tile or row_major."
)


def memory(default: str | None, what: str) -> Decorator:
    return click.option("--memory", type=OneOf(TENSOR_MEMORIES, "memory"), default=default, metavar="MEMORY", help=what)


sharded_memory: Decorator = click.option(
    "--memory",
    type=Memory("memory"),
    default="dram",
    metavar="MEMORY",
    help="dram, l1, or sharded: l1:height, l1:block@8x8, l1:width@8x6:576x480, dram:width@12.",
)


placements: Decorator = click.option(
    "--placements",
    type=PlacementNames(),
    default=(),
    metavar="LIST",
    help=f"Run each call once per placement, comma-separated: {', '.join(PLACEMENTS)}, or a memory such as l1:block@8x8.",
)
weights: Decorator = click.option(
    "--weights",
    type=DTypeName(),
    metavar="DTYPE",
    help="Dtype of the weights of convolutions and matrix products, e.g. bfloat8_b.",
)

dtypes: Decorator = click.option(
    "--dtypes",
    type=DTypeNames(),
    default=(),
    metavar="LIST",
    help="Run each call once per dtype of its operands, comma-separated, e.g. bfloat16,bfloat8_b.",
)


def only(name: str, kind: Named, what: str) -> Decorator:
    """A list that a command's cases are chosen by, all without it."""
    return click.option(name, type=kind, default=(), metavar="LIST", help=what)


def live(what: str) -> Decorator:
    return click.option("--live", multiple=True, metavar="SIZE@MEMORY|FILE", help=f"{what} (repeatable)")


# Device
scheduler: Decorator = click.option(
    "--scheduler", metavar="ADDRESS", help="Run on the workers of a Dask scheduler, like tcp://host:8786."
)
cluster: Decorator = click.option(
    "--cluster", metavar="local[:N]", help="Run on a Dask cluster of N processes of this machine."
)
mode: Decorator = click.option(
    "--device",
    "mode",
    type=OneOf((AUTO, *OPENED_MODES, DeviceMode.GOLDEN), "device mode"),
    default=AUTO,
    metavar="MODE",
    help=f"How the device is opened: {AUTO}, {', '.join(OPENED_MODES)}; golden, without a device: see docs/verification.md.",
)
release: Decorator = click.option(
    "--ttnn",
    "release",
    type=ReleaseVersion(),
    metavar="VERSION",
    help="TTNN release to run: the installed one, or one added with: ssinghal releases add VERSION.",
)
ttnn_log: Decorator = click.option("--ttnn-log", is_flag=True, help="Let TTNN write its log to standard error.")
workers: Decorator = click.option(
    "--workers",
    type=click.IntRange(1, 64),
    metavar="N",
    help="Device processes [default: 2 on a virtual device, 1 on a real one].",
)


def board(default: str | None = None, what: str = "Board to open", implied: str | None = DEFAULT_BOARD) -> Decorator:
    """``--board`` of a command that takes one. ``implied``: what is used without the option."""
    return _board("board", BoardName(), default, what, implied)


def boards(default: str | None = None) -> Decorator:
    """``--board`` of a command that takes several."""
    return _board("boards", BoardNames(), default, "One board, several comma-separated, or all", DEFAULT_BOARD)


def _board(name: str, kind: Named, default: str | None, what: str, implied: str | None) -> Decorator:
    text = f"{what}: {', '.join(board_names())}, or a cluster descriptor's file"
    text += f" [default: {implied}]." if implied and not default else "."
    return click.option("--board", name, type=kind, default=default, metavar="BOARD", help=text)


def releases(what: str) -> Decorator:
    """``--ttnn`` of a command that takes several: repeated, or comma-separated."""
    return click.option("--ttnn", "versions", multiple=True, callback=_versions, metavar="VERSION", help=what)


def host_tiles(of_trials: int | None = None) -> Decorator:
    """``of_trials``: the default of a command that tries many variants of a call."""
    what, most = "Skip reshapes for which TTNN would map more than N tiles on the host", Limits().host_tiles
    if of_trials is None:
        return count("--host-tiles", f"{what}.", most)
    return count("--host-tiles", f"{what}: fewer than for a single call ({most:,}), as many variants are tried.", of_trials)


def seconds(name: str, default: float, what: str) -> Decorator:
    return click.option(name, type=Seconds(), default=default, metavar="SECONDS", help=what)


def timeout(default: float = DEFAULT_TIMEOUT_S, what: str = "one case on the device") -> Decorator:
    """A limit of processor time, so that a case ends alike on a loaded machine."""
    return seconds("--timeout", default, f"Processor seconds of {what} (up to {MAX_WAIT_FACTOR:g} times as long by the clock).")


# Input and output
results: Decorator = click.option(
    "--results", type=FOLDER, default=Path("results"), metavar="FOLDER", help="Folder of the runs."
)


def file(name: str, what: str, parameter: str | None = None) -> Decorator:
    return click.option(name, *filter(None, [parameter]), type=FILE, metavar="FILE", help=what)


def json(what: str) -> Decorator:
    return click.option("--json", "as_json", is_flag=True, help=what)


def output(kind: click.Path, what: str) -> Decorator:
    return click.option("-o", "--output", type=kind, metavar="PATH", help=what)
