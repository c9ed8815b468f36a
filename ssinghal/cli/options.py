"""Options and arguments that several commands share."""

from __future__ import annotations

import gc
import json
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import click

from ssinghal.core.boards import board_names, board_note
from ssinghal.core.case import Case
from ssinghal.core.parsing import parse_shape, seconds
from ssinghal.device.releases import Release, find_release
from ssinghal.errors import InvalidCase, unknown
from ssinghal.operators import find_operator
from ssinghal.operators.case_json import case_from_json, parse_json, unique_keys
from ssinghal.runner.custom_boards import board_name
from ssinghal.runner.probe import Limits
from ssinghal.runner.tasks import DEFAULT_TIMEOUT_S

F = TypeVar("F", bound=Callable[..., Any])


def _seconds(context: click.Context, parameter: click.Parameter, value: str | float) -> float:
    try:
        return seconds(value)
    except InvalidCase as error:
        raise click.BadParameter(str(error)) from error


def seconds_option_of(name: str, default: float, what: str) -> Callable[[F], F]:
    """An option of seconds."""
    return click.option(name, callback=_seconds, default=default, show_default=True, metavar="SECONDS", help=what)


def timeout_option_of(default: float, what: str) -> Callable[[F], F]:
    """``--timeout SECONDS`` of a command."""
    return seconds_option_of("--timeout", default, what)


timeout_option = timeout_option_of(DEFAULT_TIMEOUT_S, "Time one case may take on the device.")


def host_tiles_option_of(default: int) -> Callable[[F], F]:
    """``--host-tiles`` of a command."""
    told = "Run no reshape for which TTNN maps more tiles on the host."
    return click.option("--host-tiles", type=click.IntRange(1), default=default, show_default=True, help=told)


host_tiles_option = host_tiles_option_of(Limits().host_tiles)
results_option = click.option(
    "--results",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("results"),
    show_default=True,
    help="Folder of the runs.",
)
workers_option = click.option(
    "--workers",
    type=click.IntRange(1, 64),
    default=None,
    help="Device processes [default: 2 on a virtual device, 1 on a real one].",
)


def _release(context: click.Context, parameter: click.Parameter, version: str | None) -> Release | None:
    return None if version is None else find_release(version)


release_option = click.option(
    "--ttnn",
    "release",
    callback=_release,
    metavar="VERSION",
    help="TTNN release to ask: the installed one, or one added by: ssinghal releases add VERSION.",
)


def _board(context: click.Context, parameter: click.Parameter, given: str | None) -> str | None:
    """The board's name, or those of several parted by commas; what must be told with one, on standard error."""
    if given is None:
        return None
    names = []
    for text in map(str.strip, given.split(",")):
        names.append(board_name(text))
        if names[-1] != text and board_note(names[-1]):
            click.echo(f"ssinghal: {text}: {board_note(names[-1])}", err=True)
    return ",".join(names)


def board_option_of(default: str | None, what: str) -> Callable[[F], F]:
    """``--board`` of a command: a name, or the file of a machine's own cluster descriptor."""
    text = f"{what}: {', '.join(board_names())}, or the file of a cluster descriptor."
    shown = default is not None
    return click.option("--board", callback=_board, default=default, show_default=shown, metavar="NAME|FILE", help=text)


@contextmanager
def interruptible() -> Iterator[None]:
    """Ctrl-C ends a command in one line and with the shell's exit code for it."""
    try:
        yield
    except KeyboardInterrupt:
        click.echo("ssinghal: interrupted", err=True)
        sys.exit(128 + signal.SIGINT)


@contextmanager
def nothing_collected() -> Iterator[None]:
    """For a command that reads whole runs: a million small objects that live to its end, among which Python's collector would
    look for garbage again and again."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


def device_options(command: F) -> F:
    """Which device is opened."""
    for option in (
        click.option("--ttnn-log", is_flag=True, help="Let TTNN write its log to standard error."),
        click.option("--device", "mode", default="auto", show_default=True, help="auto, silicon, simulator or virtual."),
        board_option_of(None, "Board to open [default: n150]"),
    ):
        command = option(command)
    return command


def case_arguments(command: F) -> F:
    """One case: operator, shapes, attributes, placement."""
    for option in (
        click.option(
            "--l1-small", "l1_small_size", type=int, help="l1_small_size in bytes [default: what the operator needs]."
        ),
        click.option(
            "--channels-last/--as-written", default=None, help="Rank-4 shapes are NCHW and go as NHWC / go as they are."
        ),
        click.option("--output-memory", default="same", show_default=True, help="same, l1, dram, or ttnn: where TTNN chooses."),
        click.option("--memory", default="dram", show_default=True, help="dram or l1."),
        click.option("--layout", default="tile", show_default=True, help="tile or row_major."),
        click.option("--dtype", default="bfloat16", show_default=True, help="bfloat16, float32, bfloat8_b, bfloat4_b, …"),
        click.option(
            "--attr", "attrs", multiple=True, metavar="NAME=VALUE", help="ATen attribute: dim=-1, size=1,64,80 (repeatable)."
        ),
        click.argument("shapes", nargs=-1, metavar="[SHAPE]..."),
        click.argument("operator", required=False),
    ):
        command = option(command)
    return command


def case_from_arguments(operator: str, shapes: tuple[str, ...], attrs: tuple[str, ...], **placement: Any) -> Case:
    """The case the arguments describe; InvalidCase for what cannot be read, and for an attribute the operator does not have."""
    operator = operator.removeprefix("ttnn.")
    given = unique_keys(map(parse_attr, attrs))
    known = find_operator(operator).attrs
    for name in given:
        if name not in known:
            raise InvalidCase(unknown(f"attribute of {operator}", name, known))
    fields = {key: value for key, value in placement.items() if value is not None}
    return case_from_json({"op": operator, "inputs": [parse_shape(s) for s in shapes], "attrs": given, **fields})


def parse_attr(text: str) -> tuple[str, Any]:
    """``name=value``: numbers, true/false/none, a comma list of numbers, JSON, or else text."""
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


def input_lines(source: Path) -> list[str]:
    """Of a text file, or of standard input for ``-``. InvalidCase where there is none."""
    if str(source) == "-" and sys.stdin is None:
        raise InvalidCase("-: standard input is closed")
    try:
        data = sys.stdin.buffer.read() if str(source) == "-" else source.read_bytes()
        return data.decode("utf-8-sig").split("\n")
    except OSError as error:
        raise InvalidCase(f"{source}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise InvalidCase(f"{source}: not UTF-8 text (byte {error.start})") from error


def write_text(path: Path, text: str) -> None:
    """InvalidCase where the file cannot be written."""
    try:
        path.write_text(text)
    except OSError as error:
        raise InvalidCase(f"{path}: {error.strerror}") from error
