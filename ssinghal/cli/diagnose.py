"""``ssinghal diagnose``: which call it was, why it failed, and what would make it fit."""

from __future__ import annotations

import json
import shlex
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import click

from ssinghal.cases import Case
from ssinghal.cli.options import (
    case_arguments,
    case_from_arguments,
    device_options,
    host_tiles_option_of,
    interruptible,
    timeout_option,
)
from ssinghal.device.modes import choose_device
from ssinghal.errors import HarnessError, InvalidCase
from ssinghal.pool import PoolOptions
from ssinghal.releases import added_releases, find_release, installed_release
from ssinghal.remedy.levers import HOST_TILES

if TYPE_CHECKING:
    from ssinghal.diagnose.diagnosing import Diagnosis
    from ssinghal.diagnose.reading import Reading


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
@click.option("--script", type=click.Path(dir_okay=False, path_type=Path), help="Write a program that makes the failing call.")
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
    script: Path | None,
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
    from ssinghal.diagnose import diagnosing
    from ssinghal.diagnose.logs import read_log
    from ssinghal.diagnose.mlir import read_module

    asked = [find_release(version).version for version in versions]
    call = None if call_text is None else _call_of(call_text)
    with ExitStack() as stack:
        operations = read_module(_opened(module, stack), str(module)) if module is not None else ()
        reading = read_log(_opened(log, stack), str(log), operations)
    found = diagnosing.understand(reading, call)
    if not no_replay and any(known.is_memory for known in found):
        found = _tried(found, asked, live, board, mode, ttnn_log, timeout, host_tiles, remedies=not no_remedies)
    if script is not None:
        _write_script(script, found)
    if as_json:
        click.echo(
            json.dumps(
                {
                    "log": str(log),
                    "lines": reading.lines,
                    "remarks": list(reading.remarks),
                    "failures": [diagnosing.as_json(known) for known in found],
                }
            )
        )
    else:
        click.echo("\n".join(_told(reading, found)))
    sys.exit(1 if found else 0)


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


def _tried(
    found: list[Diagnosis],
    asked: list[str],
    live: tuple[str, ...],
    board: str | None,
    mode: str,
    ttnn_log: bool,
    timeout: float,
    host_tiles: int,
    *,
    remedies: bool,
) -> list[Diagnosis]:
    """Each failure on the board and the releases that its figures point to, where the user names none."""
    from importlib.util import find_spec

    from ssinghal.diagnose import diagnosing
    from ssinghal.remedy.bench import Bench
    from ssinghal.remedy.live import live_set
    from ssinghal.remedy.search import Budget

    budget = Budget(host_tiles=host_tiles) if remedies else None
    out = []
    with ExitStack() as stack:
        benches: dict[tuple[str, str], Bench] = {}
        for known in found:
            if not known.is_memory:
                out.append(known)
                continue
            origin = known.explanation.origin
            choice = choose_device(mode, board or next(iter(origin.boards), None), ttnn_log=ttnn_log)
            releases = asked or _releases_for(origin.nearest_release)
            key = (choice.board, releases[0])
            if key not in benches:
                options = PoolOptions.of(choice, workers=1, timeout_s=timeout, release=find_release(releases[0]))
                benches[key] = stack.enter_context(Bench(choice, options, values=find_spec("torch") is not None))
            bench = benches[key]
            out.append(diagnosing.tried(known, bench, releases, live_set(live, bench.board) if live else None, budget))
    return out


def _releases_for(nearest: str) -> list[str]:
    """What the figures point to, where it is here, and the installed release."""
    here = installed_release()
    installed = [here.version] if here else []
    added = [r.version for r in added_releases() if r.version == nearest]
    releases = list(dict.fromkeys([*added, *installed]))
    if not releases:
        raise HarnessError("no TTNN release is here to replay on; --no-replay reads and explains without one")
    return releases


def _told(reading: Reading, found: list[Diagnosis]) -> list[str]:
    from ssinghal.diagnose import diagnosing

    remarks = [f"remark: {remark}" for remark in reading.remarks]
    if not found:
        return [f"{reading.name}: no failure in {reading.lines:,} lines", *remarks]
    out = list(remarks)
    for known in found:
        out += [*diagnosing.lines(known), ""]
    return out[:-1]


def _write_script(path: Path, found: list[Diagnosis]) -> None:
    from ssinghal.remedy.telling import call_text, script

    for known in found:
        for made in known.replays:
            if made.tried.code:
                about = [
                    f"{call_text(made.tried.trial.case)} as reported: {known.failure.verdict.message}",
                    f"on {made.tried.device_mode} {made.tried.board}, ttnn {made.tried.ttnn}: {made.outcome(())}",
                ]
                path.write_text(script(made.tried, about))
                return
    raise HarnessError(f"{path}: no call is known to write a program of")


__all__ = ["diagnose"]
