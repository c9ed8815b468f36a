"""``ssinghal diagnose``: which call it was, why it failed, and what would make it fit."""

from __future__ import annotations

import json
import shlex
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import click

from ssinghal.cli.options import (
    case_arguments,
    case_from_arguments,
    device_options,
    host_tiles_option_of,
    interruptible,
    timeout_option,
    write_text,
)
from ssinghal.core.case import Case, call_text
from ssinghal.device.releases import find_release
from ssinghal.errors import InvalidCase
from ssinghal.remedy.search import Budget
from ssinghal.remedy.strategies.placement import HOST_TILES
from ssinghal.remedy.text import script

if TYPE_CHECKING:
    from ssinghal.diagnose.model import LogReading
    from ssinghal.diagnose.pipeline import Diagnosis


@click.command()
@click.argument("log", type=click.Path(dir_okay=False, path_type=Path))
@click.option("--module", type=click.Path(dir_okay=False, path_type=Path), help="The MLIR module that the log is of.")
@click.option("--call", "call_text", metavar="TEXT", help="The call that failed, as for probe: 'add 1,64,80,80 1,64,80,80'.")
@device_options
@click.option(
    "--ttnn", "versions", multiple=True, metavar="VERSION", help="Releases to replay on [default: what the figures point to]."
)
@click.option("--live", multiple=True, metavar="SIZE@MEMORY|FILE", help="What else lived [default: what the message implies].")
@click.option("--no-replay", is_flag=True, help="Read and explain only: no device.")
@click.option("--no-remedies", is_flag=True, help="Replay, but search for no remedies.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object for the log.")
@click.option(
    "--script", "script_path", type=click.Path(dir_okay=False, path_type=Path), help="Write a program that makes the call."
)
@host_tiles_option_of(HOST_TILES)
@timeout_option
@interruptible()
def diagnose(
    log: Path,
    module: Path | None,
    call_text: str | None,
    board: str | None,
    mode: str,
    ttnn_log: bool,
    versions: tuple[str, ...],
    live: tuple[str, ...],
    no_replay: bool,
    no_remedies: bool,
    as_json: bool,
    script_path: Path | None,
    host_tiles: int,
    timeout: float,
) -> None:
    """Explain the failures in a log: a pasted exception, a pytest, TT-Metalium or TT-MLIR log; - is standard input.

    \b
      ssinghal diagnose failure.log
      ssinghal diagnose run.log --module ttnn.mlir --ttnn 0.66.0 --ttnn 0.81.1 --script repro.py
      pbpaste | ssinghal diagnose - --call 'max_pool2d 6,64,464,800 --attr kernel_size=3,3 --attr stride=2,2 --layout row_major'

    Exit code 0 no failure in the log, 1 failures, 2 bad input.
    """
    from ssinghal.diagnose import text as diagnosis_text
    from ssinghal.diagnose.log_reader import read_log
    from ssinghal.diagnose.parse.mlir import read_module
    from ssinghal.diagnose.pipeline import diagnose_failures
    from ssinghal.diagnose.replay_pools import ReplayPools

    if str(log) == str(module) == "-":
        raise click.UsageError("log and module cannot both be standard input")
    if no_replay and (versions or live):
        raise click.UsageError("--ttnn and --live say how to replay, and --no-replay says not to")
    asked = list(dict.fromkeys(find_release(version).version for version in versions))
    call = None if call_text is None else _call_of(call_text)
    with ExitStack() as stack:
        operations = read_module(_opened(module, stack), str(module)) if module is not None else None
        reading = read_log(_opened(log, stack), str(log), operations)
    print_lines = (lambda lines: None) if as_json else _print_lines
    print_lines(_header(reading))
    budget = None if no_remedies else Budget(host_tiles=host_tiles)
    diagnoses = []
    with ReplayPools(asked, live, board, mode, ttnn_log=ttnn_log, timeout_s=timeout) as pools:
        for number, diagnosis in enumerate(diagnose_failures(reading, call)):
            print_lines([*([""] if number else []), *diagnosis_text.explanation_lines(diagnosis)])
            if diagnosis.is_memory and not no_replay:
                diagnosis = pools.replayed(diagnosis, budget)
                print_lines(diagnosis_text.replay_lines(diagnosis))
            diagnoses.append(diagnosis)
    if as_json:
        failures = [diagnosis_text.as_json(diagnosis) for diagnosis in diagnoses]
        click.echo(json.dumps({"log": str(log), "lines": reading.lines, "remarks": reading.remarks, "failures": failures}))
    if script_path is not None:
        _write_script(script_path, diagnoses)
    sys.exit(1 if diagnoses else 0)


def _print_lines(lines: list[str]) -> None:
    if lines:
        click.echo("\n".join(lines))


def _header(reading: LogReading) -> list[str]:
    remarks = [f"remark: {remark}" for remark in reading.remarks]
    return remarks if reading.failures else [f"{reading.name}: no failure in {reading.lines:,} lines", *remarks]


@click.command()
@case_arguments
def _words(**_: Any) -> None:
    """The arguments that describe a case, of which ``--call`` is made."""


def _call_of(text: str) -> Case:
    """The call in the words of ``ssinghal probe``."""
    try:
        context = _words.make_context("--call", shlex.split(text))
    except (ValueError, click.ClickException) as error:
        raise InvalidCase(
            f"--call {text!r}: {error.format_message() if isinstance(error, click.ClickException) else error}"
        ) from None
    given = dict(context.params)
    return case_from_arguments(given.pop("operator") or "", given.pop("shapes"), given.pop("attrs"), **given)


def _opened(path: Path, stack: ExitStack) -> BinaryIO:
    if str(path) == "-":
        if sys.stdin is None:
            raise InvalidCase("-: standard input is closed")
        return sys.stdin.buffer
    try:
        return stack.enter_context(path.open("rb"))
    except OSError as error:
        raise InvalidCase(f"{path}: {error.strerror}") from error


def _write_script(path: Path, diagnoses: list[Diagnosis]) -> None:
    """Writes the first call that was replayed; without one prints a note on standard error, as the diagnosis still holds."""
    replays = [(diagnosis, replay) for diagnosis in diagnoses for replay in diagnosis.replays if replay.result.code]
    if not replays:
        click.echo(f"ssinghal: {path}: not written: no call was replayed", err=True)
        return
    diagnosis, replay = replays[0]
    result = replay.result
    about = [
        f"{call_text(result.trial.case)}, reported: {diagnosis.failure.verdict.message}",
        f"on {result.device_mode} {result.board}, ttnn {result.ttnn}: {replay.outcome(())}",
    ]
    write_text(path, script(result, about))
