"""``ssinghal profile PROGRAM``: runs it on each board and release, and records its calls."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import click
from packaging.version import Version

from ssinghal import tracker
from ssinghal.cli import options
from ssinghal.cli.default_group import RUN
from ssinghal.cli.exec_command import INJECTED, Ended, find_program, run_program
from ssinghal.cli.profile_report import make_report
from ssinghal.cli.requests import DeviceRequest, collected
from ssinghal.cli.streams import echo
from ssinghal.core.boards import DEFAULT_BOARD
from ssinghal.core.files import refuse_special, write_whole
from ssinghal.core.versions import new_run_id
from ssinghal.device.releases import find_release, installed_release
from ssinghal.errors import HarnessError, InvalidCase
from ssinghal.profile.model import Profile

FIRST_RELEASE = Version(tracker.FIRST_RELEASE)
STDOUT, COMPARISON = "stdout.txt", "comparison.txt"
SHOWN = 5  # lines and operations of a comparison on standard error


@click.command(RUN, context_settings={"allow_interspersed_args": False})
@collected(
    DeviceRequest,
    "device",
    options.boards(),
    options.ttnn_log,
)
@options.releases("Releases to run, oldest first (repeatable) [default: the installed one].")
@options.output(options.FOLDER, "Write records and summary to this new folder [default: profiles/<UTC time>].")
@click.option(
    "--program-buffers",
    is_flag=True,
    help="Repeat calls without dispatching them, where that is safe: TTNN then reports program buffers that it left out.",
)
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
def run(
    device: DeviceRequest, versions: tuple[str, ...], output: Path | None, program_buffers: bool, command: tuple[str, ...]
) -> None:
    """Run a program and record where its memory goes.

    \b
      ssinghal profile -- python my_model.py
      ssinghal profile -- timeout 600 pytest my_tests
      ssinghal profile --board n150,p150 --ttnn 0.75.0,0.81.1 -- python unet.py

    The program is unchanged, and its standard output and exit code are its own. Every TTNN call is recorded with its line, its
    tensors, what it allocated and freed, and the program buffers that TTNN reported; after each, the sum of live buffers is
    compared with the allocator's own view. The summary is on standard error and in summary.txt, pictures are in profile.html,
    everything in profile.json. The records are complete up to the last call that returned, however the program ends. Needs ttnn
    0.75.0 or later.

    With several boards or releases the program runs once on each, one after the other, recorded in a folder BOARD-VERSION of
    its own; what changed, operation by operation, is in comparison.txt. The first run has the standard input and output; what
    the others print is in their stdout.txt. The exit code is the first that is not 0.
    """
    requests = _requests(device, versions)
    folder = output or Path("profiles", new_run_id())
    if folder.exists() and any(folder.iterdir()):
        raise InvalidCase(f"profile: {folder} is not empty; expected a new folder")
    find_program("profile", command)
    program = _Program(command, {tracker.SHADOW_VARIABLE: "1" if program_buffers else ""})
    if len(requests) == 1:
        sys.exit(_profiled(requests[0], folder, program, None)[0].exit_code)
    sys.exit(_each(requests, folder, program))


class _Program(NamedTuple):
    """The user's program. ``variables``: of its environment, besides those of every profile."""

    command: tuple[str, ...]
    variables: Mapping[str, str]


def _requests(device: DeviceRequest, versions: tuple[str, ...]) -> list[DeviceRequest]:
    """Returns one for each board and release.

    Raises:
        HarnessError: a release is not here.
        InvalidCase: it does not report which buffers are freed.
    """
    releases = [find_release(version) for version in versions]
    for release in releases:
        if Version(release.version) < FIRST_RELEASE:
            raise InvalidCase(f"profile: ttnn {release.version} does not report which buffers are freed; 0.75.0 and later do")
    return [
        replace(device, boards=None, board=board, release=release)
        for board in device.boards or (None,)
        for release in releases or (None,)
    ]


def _each(requests: list[DeviceRequest], folder: Path, program: _Program) -> int:
    """Runs the program on each board and release, and compares; returns the first exit code that is not 0."""
    codes = []
    profiles = {}
    for number, request in enumerate(requests):
        own = folder / _name(request)
        echo(f"ssinghal: {own.name}", err=True)
        ended, profiles[own.name] = _profiled(request, own, program, own / STDOUT if number else None)
        codes.append(ended.exit_code)
        if ended.stopped_by is not None:
            codes.append(128 + ended.stopped_by)
            if rest := requests[number + 1 :]:
                echo(f"ssinghal: {ended.stopped_by.name}: not run: {', '.join(map(_name, rest))}", err=True)
            break
    _compare(profiles, folder)
    return next(filter(None, codes), 0)


def _compare(profiles: Mapping[str, Sequence[Profile]], folder: Path) -> None:
    from ssinghal.profile.side_by_side import side_by_side

    if sum(map(bool, profiles.values())) > 1:
        write_whole(folder / COMPARISON, "\n".join(side_by_side(profiles, None)))
        echo("\n".join(["", *side_by_side(profiles, SHOWN), f"all differences: {folder / COMPARISON}"]), err=True)


def _name(request: DeviceRequest) -> str:
    release = request.release or installed_release()
    return f"{request.board or DEFAULT_BOARD}-{release.version if release else ''}"


def _profiled(request: DeviceRequest, folder: Path, program: _Program, stdout: Path | None) -> tuple[Ended, Sequence[Profile]]:
    """Runs the program once. One that opens no device has no report, and keeps its exit code."""
    folder.mkdir(parents=True, exist_ok=True)
    if stdout is not None:
        refuse_special(stdout)
    variables = {**program.variables, "PYTHONPATH": str(INJECTED), tracker.FOLDER_VARIABLE: str(folder.resolve())}
    ended = run_program("profile", request, program.command, variables, stdout)
    try:
        return ended, make_report(folder, request if ended.stopped_by is None else None)
    except (HarnessError, OSError) as error:  # the exit code stays the program's
        echo(f"ssinghal: {error}", err=True)
        return ended, ()
