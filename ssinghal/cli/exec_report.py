"""Prints what a program's own run noted, once it has ended."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from ssinghal.cli.requests import DeviceRequest
from ssinghal.cli.streams import echo
from ssinghal.core.device_facts import DeviceMode
from ssinghal.device.releases import installed_release
from ssinghal.errors import HarnessError

if TYPE_CHECKING:
    from ssinghal.diagnose.failed_call.own_run import OwnFailure

SHOWN = 5  # failures; changes are tried to the first
SECONDS = 8.0  # for changes


def report_run(folder: Path, exit_code: int, device: DeviceRequest) -> None:
    """Prints which call of a program that failed ran out of memory, and what makes it fit; or where it crashed.

    Of one that handled its memory failures these are only noted.
    """
    if not any(file.stat().st_size for file in folder.iterdir()) and exit_code < 128:
        return
    from ssinghal.diagnose.failed_call import own_run_text as text
    from ssinghal.diagnose.failed_call.own_run import read_own_run

    release = device.release or installed_release()
    version, asked = release.version if release else "", device.release.version if device.release else ""
    board = replace(device, mode=DeviceMode.VIRTUAL).choose().board
    run = read_own_run(folder, board)
    ended = [failure for failure in run.failures if failure.has_ended] if exit_code else []
    output = _Output()
    for failure in ended[:SHOWN]:
        output.print(text.failure_lines(failure, board, asked))
        if failure is ended[0]:
            output.print(_tried(failure, device))
            output.print(text.remedy_line(failure, board, asked))
    if len(ended) > SHOWN:
        output.print([f"{len(ended) - SHOWN:,} more calls ran out of memory"])
    crash = text.crash_lines(run, exit_code, version) if exit_code else []
    output.print(crash or text.capture_lines(run, version))
    if not (ended or crash):
        output.print(text.handled_lines(run.failures, exit_code, board, asked))


def _tried(failure: OwnFailure, device: DeviceRequest) -> list[str]:
    if failure.explained is None or failure.profile is None:
        return []
    from ssinghal.diagnose.failed_call.search import Limits, changes_of
    from ssinghal.runner.tasks import PoolOptions

    choice = replace(device, mode=DeviceMode.VIRTUAL).choose()
    options = PoolOptions.of(choice, release=device.release)
    try:
        tried = changes_of(failure.explained, failure.profile, choice, options, Limits(seconds=SECONDS))
    except HarnessError as error:
        return [f"  no change was tried: {error}"]
    return [f"  {line}" for line in tried.text()] if tried is not None else []


class _Output:
    """Prints on standard error; an empty line first, for what the program wrote last may have no end of line."""

    def __init__(self) -> None:
        self._start = "\n"

    def print(self, lines: list[str]) -> None:
        from ssinghal.diagnose.parse.own_reports import MARK

        if lines:
            echo(self._start + "\n".join(MARK + line for line in lines), err=True)
            self._start = ""
