"""``ssinghal diagnose``: which call failed, why, and what would make it fit."""

from __future__ import annotations

import errno
import json
import shlex
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import click

from ssinghal.cli import options
from ssinghal.cli.requests import CaseRequest, DeviceRequest, case_options, device_options
from ssinghal.cli.streams import check_writable, echo, show
from ssinghal.core.case import Case, call_text
from ssinghal.core.files import open_file, write_given
from ssinghal.core.nouns import counted
from ssinghal.core.unpacked import unpacked
from ssinghal.device.releases import find_release
from ssinghal.diagnose.parse.mlir import read_module
from ssinghal.diagnose.parse.own_reports import call_of
from ssinghal.errors import InvalidCase, cut
from ssinghal.remedy.strategies.strategy import HOST_TILES

_SHOWN = 80  # characters of a file that is not there, which may be a pasted text
MOST_FAILURES = 20  # a replay takes up to seconds, with remedies up to ten

if TYPE_CHECKING:
    from ssinghal.diagnose.model import Failure, LogReading
    from ssinghal.diagnose.pipeline import Diagnosis


@click.command()
@click.argument("log", type=options.FILE)
@options.file("--module", "The MLIR module that the log belongs to.")
@click.option("--call", metavar="TEXT", help="The call that failed, as for probe: 'add 1,64,80,80 1,64,80,80'.")
@device_options(
    options.timeout(), options.host_tiles(HOST_TILES), board=options.board(implied="the one that the log points to")
)
@options.releases("Releases to replay on (repeatable) [default: those that the numbers point to].")
@options.live("Other buffers that were allocated [default: those that the message implies]")
@click.option("--no-replay", is_flag=True, help="Read and explain only: no device.")
@click.option("--no-remedies", is_flag=True, help="Replay, but search for no remedies.")
@options.count("--most", "Explain and replay N failures, count the rest.", MOST_FAILURES)
@options.json("One JSON object for the log.")
@options.file("--script", "Write the replayed call as a program.", "script_path")
def diagnose(
    log: Path,
    module: Path | None,
    call: str | None,
    device: DeviceRequest,
    versions: tuple[str, ...],
    live: tuple[str, ...],
    no_replay: bool,
    no_remedies: bool,
    most: int,
    as_json: bool,
    script_path: Path | None,
) -> None:
    """Explain the failures in a log and how to fix them.

    \b
      ssinghal diagnose failure.log
      ssinghal diagnose run.log --module ttnn.mlir --ttnn 0.66.0,0.81.1 --script repro.py
      pbpaste | ssinghal diagnose - --call 'max_pool2d 6,64,464,800 --attr kernel_size=3,3 --attr stride=2,2 --layout row_major'

    LOG is a pasted exception, or a log of pytest, TT-Metalium or TT-MLIR; - is standard input. Exit code 0 no failure in the
    log, 1 failures, 2 bad input.
    """
    from ssinghal.diagnose import text
    from ssinghal.diagnose.log_reader import read_log
    from ssinghal.diagnose.pipeline import diagnose_failures
    from ssinghal.diagnose.replay_pools import ReplayPools
    from ssinghal.diagnose.unknown_call import ways_to_know
    from ssinghal.remedy.search import Budget

    if str(log) == str(module) == "-":
        raise click.UsageError("log and module cannot both be standard input")
    if no_replay and (versions or live):
        raise click.UsageError("--ttnn and --live set how to replay, which --no-replay excludes")
    check_writable(script_path)
    releases = [find_release(version).version for version in versions]
    known_call = None if call is None else _case_of(call)
    with ExitStack() as stack:
        operations = read_module(_opened(module, stack), str(module)) if module is not None else None
        reading = read_log(_opened(log, stack), str(log), operations)
    print_lines = (lambda lines: None) if as_json else _print
    print_lines(_header(reading))
    budget = None if no_remedies else Budget(host_tiles=device.host_tiles or HOST_TILES)
    diagnoses = []
    with ReplayPools(releases, live, device.board, device.mode, ttnn_log=device.ttnn_log, timeout_s=device.timeout) as pools:
        found = diagnose_failures(reading, known_call, lambda failure: _reported(failure, reading))
        for number, diagnosis in enumerate(islice(found, most)):
            print_lines([*([""] if number else []), *text.explanation_lines(diagnosis)])
            if diagnosis.is_memory and not no_replay:
                diagnosis = pools.replayed(diagnosis, budget)
                print_lines(text.replay_lines(diagnosis))
            diagnoses.append(diagnosis)
    more = reading.failures[most:]
    if more:
        memory = sum(failure.verdict.resource is not None for failure in more)
        print_lines(["", f"{len(more):,} more failures, {memory:,} of them of memory, were only counted: --most N explains N"])
    if ways := ways_to_know(diagnoses, names_compiler=reading.names_compiler):
        print_lines(["", *ways])
    if as_json:
        failures = [text.as_json(diagnosis) for diagnosis in diagnoses]
        head = {"log": str(log), "lines": reading.lines, "remarks": reading.remarks}
        click.echo(json.dumps({**head, "failures": failures, "more_failures": len(more)}))
    if script_path is not None:
        _write_script(script_path, diagnoses)
    sys.exit(1 if diagnoses else 0)


def _print(lines: Sequence[str]) -> None:
    if lines:
        show(lines)


def _header(reading: LogReading) -> list[str]:
    remarks = [f"remark: {remark}" for remark in reading.remarks]
    return remarks if reading.failures else [f"{reading.name}: no failure in {counted(reading.lines, 'line')}", *remarks]


@click.command(add_help_option=False)
@case_options()
def _call(case: CaseRequest) -> CaseRequest:
    """Parses the text of ``--call``."""
    return case


def _case_of(text: str) -> Case:
    """Returns the call in the words of ``ssinghal probe``."""
    try:
        with _call.make_context("--call", shlex.split(text)) as context:
            request: CaseRequest = _call.invoke(context)
            return request.case()
    except (ValueError, click.ClickException) as error:
        message = error.format_message() if isinstance(error, click.ClickException) else error
        raise InvalidCase(f"--call {text!r}: {message}") from None


def _reported(failure: Failure, reading: LogReading) -> Case | None:
    """Returns the call that ``ssinghal exec`` reported for a failure in the same log."""
    words = call_of(failure, reading.own_calls)
    try:
        return None if words is None else _case_of(words)
    except InvalidCase:
        return None


def _opened(path: Path, stack: ExitStack) -> BinaryIO:
    if str(path) == "-":
        if sys.stdin is None:
            raise InvalidCase("-: standard input is closed")
        return unpacked(sys.stdin.buffer, "-")
    try:
        return unpacked(stack.enter_context(open_file(path, pipe=True)), str(path))
    except OSError as error:
        is_text = error.errno in (errno.ENOENT, errno.ENAMETOOLONG)
        hint = "; expected a file, or - for a text on standard input" if is_text else ""
        raise InvalidCase(f"{cut(str(path), _SHOWN)}: {error.strerror}{hint}") from error


def _write_script(path: Path, diagnoses: Sequence[Diagnosis]) -> None:
    """Writes the first replayed call. Without one, prints so on standard error, for the diagnosis stands."""
    from ssinghal.remedy.text import script

    replays = [(diagnosis, replay) for diagnosis in diagnoses for replay in diagnosis.replays if replay.result.code]
    if not replays:
        echo(f"ssinghal: {path}: not written: no call was replayed", err=True)
        return
    diagnosis, replay = replays[0]
    result = replay.result
    about = [
        f"{call_text(result.trial.case)}, reported: {diagnosis.failure.verdict.message}",
        f"on {result.device_mode} {result.board}, ttnn {result.ttnn}: {replay.outcome()}",
    ]
    write_given(path, script(result, about))
