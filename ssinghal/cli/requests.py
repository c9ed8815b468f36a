"""What the shared options of a command ask for, as one argument each."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import wraps
from typing import Any

import click
from click.core import ParameterSource

from ssinghal.cli import options
from ssinghal.cli.memory_words import short_words
from ssinghal.cli.options import Decorator
from ssinghal.cli.parameter_types import DTypeName, Memory, Named, OperatorName
from ssinghal.core.case import Case, OutputMemory
from ssinghal.core.operand_words import operand_words
from ssinghal.core.tensors import DType, Layout
from ssinghal.device.modes import AUTO, DeviceChoice, choose_device
from ssinghal.device.releases import Release
from ssinghal.device.virtual import ttnn_package
from ssinghal.errors import InvalidCase
from ssinghal.operators import case_name, find_operator
from ssinghal.operators.case_json import case_from_json, parse_json, unique_keys
from ssinghal.operators.settings import check_name
from ssinghal.runner.tasks import DEFAULT_TIMEOUT_S, PoolOptions

PLACEMENT = ("dtype", "layout", "memory", "output_memory", "channels_last", "l1_small_size", "output_dtype")


def collected(request: type, name: str, *added: Decorator) -> Decorator:
    """Adds options to a command, which gets their values as one argument ``name``, an instance of ``request``."""

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(command)
        def collecting(**values: Any) -> Any:
            own = {field.name: values.pop(field.name) for field in fields(request) if field.name in values}
            return command(**values, **{name: request(**own)})

        decorated: Callable[..., Any] = collecting
        for option in reversed(added):
            decorated = option(decorated)
        return decorated

    return decorate


def was_typed(*names: str) -> bool:
    """Returns whether one of the current command's parameters was typed."""
    source_of = click.get_current_context().get_parameter_source
    return any(source_of(name) is ParameterSource.COMMANDLINE for name in names)


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

    def choose(self, *, golden: bool = False) -> DeviceChoice:
        """``golden``: whether the command has a use for values without memory verdicts."""
        ttnn_package(self.release)  # before anything is selected, read or started
        return choose_device(self.mode, self.board, golden=golden, ttnn_log=self.ttnn_log)

    def choose_all(self) -> list[DeviceChoice]:
        ttnn_package(self.release)
        return [choose_device(self.mode, name, ttnn_log=self.ttnn_log) for name in self.boards or (None,)]

    def pool_options(self, choice: DeviceChoice) -> PoolOptions:
        return PoolOptions.of(
            choice, workers=self.workers, timeout_s=self.timeout, host_tiles=self.host_tiles, release=self.release
        )


def device_options(*added: Decorator, board: Decorator | None = None) -> Decorator:
    """Gives a command ``device``, a DeviceRequest, from the options for board, mode and log, and the ``added`` ones."""
    return collected(DeviceRequest, "device", board or options.board(), options.mode, options.ttnn_log, *added)


@dataclass(frozen=True)
class CaseRequest:
    """One case as typed."""

    operator: str | None
    shapes: tuple[str, ...]
    attrs: tuple[str, ...]
    dtype: DType
    layout: Layout
    memory: str
    output_memory: str
    channels_last: bool | None
    l1_small_size: int | None
    output_dtype: DType | None

    def case(self) -> Case:
        """Returns the case.

        Raises:
            UsageError: no operator is named.
            InvalidCase: something cannot be parsed, or the operator does not have an attribute.
        """
        if self.operator is None:
            raise click.UsageError("give an operator and its shapes")
        operator = case_name(self.operator)
        attrs = unique_keys(map(parse_attr, self.attrs))
        info = find_operator(operator)
        for name in attrs:
            check_name(info, name, typed=operator)
        operands = [operand_words(short_words(text)) for text in self.shapes]
        fields: dict[str, Any] = {name: getattr(self, name) for name in PLACEMENT if getattr(self, name) is not None}
        if any(own for _, own in operands):
            fields["operands"] = [own for _, own in operands]
        return case_from_json({"op": operator, "inputs": [shape for shape, _ in operands], "attrs": attrs, **fields})


def case_options(operator: Named = OperatorName()) -> Decorator:
    """Gives a command ``case``, a CaseRequest. ``operator``: what its first argument may be."""
    return collected(
        CaseRequest,
        "case",
        click.argument("operator", type=operator, required=False),
        click.argument("shapes", nargs=-1, metavar="[SHAPE[/DTYPE][/LAYOUT][/MEMORY][/shard=DIM]]..."),
        click.option("--attr", "attrs", multiple=True, metavar="NAME=VALUE", help=_ATTR_HELP),
        options.dtype,
        options.layout,
        options.sharded_memory,
        click.option(
            "--output-memory",
            type=Memory("output_memory", OutputMemory),
            default="same",
            metavar="MEMORY",
            help="Memory of the result: same as --memory, ttnn (where TTNN puts it), or as for --memory.",
        ),
        click.option(
            "--output-dtype",
            type=DTypeName(),
            metavar="DTYPE",
            help="Dtype of the result [default: TTNN's own].",
        ),
        options.channels,
        click.option("--l1-small", "l1_small_size", type=int, metavar="BYTES", help=_L1_SMALL_HELP),
    )


_ATTR_HELP = "ATen attribute, as dim=-1 or size=1,64,80, or setting of TTNN's call, as core_grid=8x8 (repeatable)."
_L1_SMALL_HELP = "l1_small_size in bytes [default: what the operator needs]."


def parse_attr(text: str) -> tuple[str, Any]:
    """Parses ``name=value``: numbers, true/false/none, a comma-separated list of numbers, JSON, or else text."""
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
        except InvalidCase as error:
            raise InvalidCase(f"attribute {name}: {error}") from None
    return name, value
