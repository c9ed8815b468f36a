"""Options and arguments that several commands share, and what they ask for as dataclasses."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from functools import wraps
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from ssinghal.cli.parameter_types import (
    BoardName,
    BoardNames,
    CatalogName,
    Named,
    OneOf,
    OperatorName,
    OperatorOrCatalog,
    ReleaseVersion,
    Seconds,
)
from ssinghal.core.boards import DEFAULT_BOARD, board_names
from ssinghal.core.case import Case, OutputMemory
from ssinghal.core.device_facts import OPENED_MODES
from ssinghal.core.parsing import TENSOR_MEMORIES, parse_shape
from ssinghal.core.tensors import BufferType, DType, Layout, Shape
from ssinghal.device.modes import AUTO, DeviceChoice, choose_device
from ssinghal.device.releases import Release
from ssinghal.errors import InvalidCase, unknown
from ssinghal.operators import find_operator
from ssinghal.operators.case_json import case_from_json, parse_json, unique_keys
from ssinghal.runner.probe import Limits
from ssinghal.runner.tasks import DEFAULT_TIMEOUT_S, PoolOptions

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]
FILE = click.Path(dir_okay=False, path_type=Path)
FOLDER = click.Path(file_okay=False, path_type=Path)
PATH = click.Path(path_type=Path)


def collected(request: type, name: str, *options: Decorator) -> Decorator:
    """Adds options to a command, which gets the values as one argument: ``name``, an instance of the dataclass ``request``."""

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(command)
        def collecting(**values: Any) -> Any:
            own = {field.name: values.pop(field.name) for field in fields(request) if field.name in values}
            return command(**values, **{name: request(**own)})

        decorated: Callable[..., Any] = collecting
        for option in reversed(options):
            decorated = option(decorated)
        return decorated

    return decorate


def seconds_option(name: str, default: float, what: str) -> Decorator:
    return click.option(name, type=Seconds(), default=default, show_default=True, metavar="SECONDS", help=what)


def timeout_option(default: float = DEFAULT_TIMEOUT_S, what: str = "one case on the device") -> Decorator:
    return seconds_option("--timeout", default, f"Time limit of {what}.")


def host_tiles_option(default: int = Limits().host_tiles) -> Decorator:
    what = "Skip reshapes for which TTNN would map more than N tiles on the host."
    return click.option("--host-tiles", type=click.IntRange(1), default=default, show_default=True, metavar="N", help=what)


def board_option(default: str | None = None, what: str = "Board to open", implied: str | None = DEFAULT_BOARD) -> Decorator:
    """``--board`` of a command that takes one. ``implied``: the board that is used without the option."""
    return _board_option("board", BoardName(), default, what, implied)


def boards_option(default: str | None = None) -> Decorator:
    """``--board`` of a command that takes several."""
    return _board_option("boards", BoardNames(), default, "One board, several comma-separated, or all", DEFAULT_BOARD)


def _board_option(name: str, kind: Named, default: str | None, what: str, implied: str | None) -> Decorator:
    text = f"{what}: {', '.join(board_names())}, or a cluster descriptor's file"
    text += f" [default: {implied}]." if implied and not default else "."
    return click.option("--board", name, type=kind, default=default, show_default=bool(default), metavar="BOARD", help=text)


def output_option(kind: click.Path, what: str) -> Decorator:
    return click.option("-o", "--output", type=kind, metavar="PATH", help=what)


def json_option(what: str) -> Decorator:
    return click.option("--json", "as_json", is_flag=True, help=what)


def memory_option(default: str | None, what: str) -> Decorator:
    kind = OneOf(TENSOR_MEMORIES, "memory")
    return click.option("--memory", type=kind, default=default, show_default=bool(default), metavar="MEMORY", help=what)


def releases_option(what: str) -> Decorator:
    """``--ttnn`` of a command that takes several: repeated, or comma-separated."""
    return click.option("--ttnn", "versions", multiple=True, callback=_versions, metavar="VERSION", help=what)


def _versions(context: click.Context, parameter: click.Parameter, values: Sequence[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(version.strip() for value in values for version in value.split(",")))


release_option: Decorator = click.option(
    "--ttnn",
    "release",
    type=ReleaseVersion(),
    metavar="VERSION",
    help="TTNN release to run: the installed one, or one added with: ssinghal releases add VERSION.",
)
results_option: Decorator = click.option(
    "--results", type=FOLDER, default=Path("results"), show_default=True, metavar="FOLDER", help="Folder of the runs."
)
workers_option: Decorator = click.option(
    "--workers",
    type=click.IntRange(1, 64),
    metavar="N",
    help="Device processes [default: 2 on a virtual device, 1 on a real one].",
)
mode_option: Decorator = click.option(
    "--device",
    "mode",
    type=OneOf((AUTO, *OPENED_MODES), "device mode"),
    default=AUTO,
    show_default=True,
    metavar="MODE",
    help=f"How it is opened: {AUTO}, {', '.join(OPENED_MODES)}.",
)
ttnn_log_option: Decorator = click.option("--ttnn-log", is_flag=True, help="Let TTNN write its log to standard error.")
operators_option: Decorator = click.option(
    "--op",
    "operators",
    type=OperatorName(),
    multiple=True,
    metavar="NAME",
    help="Only this operator, by any name (repeatable).",
)


dtype_option: Decorator = click.option(
    "--dtype",
    type=OneOf(DType, "dtype"),
    default="bfloat16",
    show_default=True,
    metavar="DTYPE",
    help="bfloat16, float32, bfloat8_b, bfloat4_b, …",
)
layout_option: Decorator = click.option(
    "--layout", type=OneOf(Layout, "layout"), default="tile", show_default=True, metavar="LAYOUT", help="tile or row_major."
)
channels_option: Decorator = click.option(
    "--channels-last/--as-written",
    default=None,
    help="Rank-4 shapes are NCHW and are placed as NHWC / as they are [default: as operators need it].",
)


def sample_option(default: int | None = None) -> Decorator:
    what = "At most N cases of each operator."
    return click.option(
        "--sample", "per_operator", type=click.IntRange(1), default=default, show_default=bool(default), metavar="N", help=what
    )


def catalogs_option(what: str) -> Decorator:
    return click.option(
        "--catalog", "catalogs", type=CatalogName(), multiple=True, metavar="NAME|FILE", help=f"{what} (repeatable)."
    )


def live_option(what: str) -> Decorator:
    return click.option("--live", multiple=True, metavar="SIZE@MEMORY|FILE", help=f"{what} (repeatable)")


def _shape(text: str) -> Shape:
    return tuple(parse_shape(text))


input_option: Decorator = click.option(
    "--input", "input_shape", type=_shape, metavar="SHAPE", help="Shape of the model's input, e.g. 1,3,640,640."
)
catalogs_argument: Decorator = click.argument("catalogs", type=CatalogName(), nargs=-1, metavar="[CATALOG]...")


@dataclass(frozen=True)
class DeviceRequest:
    """Which device to open, and how cases run on it."""

    board: str | None = None
    boards: tuple[str, ...] | None = None
    mode: str = AUTO
    ttnn_log: bool = False
    release: Release | None = None
    timeout: float = DEFAULT_TIMEOUT_S
    host_tiles: int | None = None
    workers: int | None = None

    def choose(self) -> DeviceChoice:
        return choose_device(self.mode, self.board, ttnn_log=self.ttnn_log)

    def choose_all(self) -> list[DeviceChoice]:
        return [choose_device(self.mode, name, ttnn_log=self.ttnn_log) for name in self.boards or (None,)]

    def pool_options(self, choice: DeviceChoice) -> PoolOptions:
        return PoolOptions.of(
            choice,
            workers=self.workers,
            timeout_s=self.timeout,
            host_tiles=self.host_tiles,
            release=self.release,
        )


def device_options(*options: Decorator, board: Decorator | None = None) -> Decorator:
    """A command gets ``device``, a DeviceRequest: board, mode and log, with the further ``options`` of that class."""
    return collected(DeviceRequest, "device", board or board_option(), mode_option, ttnn_log_option, *options)


PLACEMENT = ("dtype", "layout", "memory", "output_memory", "channels_last", "l1_small_size")


@dataclass(frozen=True)
class CaseRequest:
    """One case as typed."""

    operator: str | None
    shapes: tuple[str, ...]
    attrs: tuple[str, ...]
    dtype: DType
    layout: Layout
    memory: BufferType
    output_memory: OutputMemory
    channels_last: bool | None
    l1_small_size: int | None

    def case(self) -> Case:
        """The described case.

        Raises:
            UsageError: no operator is named.
            InvalidCase: something cannot be parsed, or the operator does not have an attribute.
        """
        if self.operator is None:
            raise click.UsageError("give an operator and its shapes")
        operator = self.operator.removeprefix("ttnn.")
        attrs = unique_keys(map(parse_attr, self.attrs))
        known = find_operator(operator).attrs
        for name in attrs:
            if name not in known:
                raise InvalidCase(unknown(f"attribute of {operator}", name, known))
        placement = {name: getattr(self, name) for name in PLACEMENT if getattr(self, name) is not None}
        return case_from_json({"op": operator, "inputs": [*map(parse_shape, self.shapes)], "attrs": attrs, **placement})


case_options = collected(
    CaseRequest,
    "case",
    click.argument("operator", type=OperatorOrCatalog(), required=False),
    click.argument("shapes", nargs=-1, metavar="[SHAPE]..."),
    click.option(
        "--attr", "attrs", multiple=True, metavar="NAME=VALUE", help="ATen attribute, as dim=-1 or size=1,64,80 (repeatable)."
    ),
    dtype_option,
    layout_option,
    memory_option("dram", "dram or l1."),
    click.option(
        "--output-memory",
        type=OneOf(OutputMemory, "output_memory"),
        default="same",
        show_default=True,
        metavar="MEMORY",
        help="same, l1, dram, or ttnn: where TTNN chooses.",
    ),
    channels_option,
    click.option(
        "--l1-small",
        "l1_small_size",
        type=int,
        metavar="BYTES",
        help="l1_small_size in bytes [default: what the operator needs].",
    ),
)


def was_typed(*names: str) -> bool:
    """Whether one of the current command's parameters was typed."""
    source_of = click.get_current_context().get_parameter_source
    return any(source_of(name) is ParameterSource.COMMANDLINE for name in names)


def parse_attr(text: str) -> tuple[str, Any]:
    """``name=value``: numbers, true/false/none, a comma-separated list of numbers, JSON, or else text."""
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise InvalidCase(f"attribute {text!r}: expected NAME=VALUE")
    words = {"true": True, "false": False, "none": None}
    if value.lower() in words:
        return name, words[value.lower()]
    for text in (value, f"[{value}]"):
        try:
            return name, parse_json(text)
        except json.JSONDecodeError:
            continue
    return name, value
