"""``ssinghal profile``: where the memory of the user's own program goes."""

from __future__ import annotations

import sys
from pathlib import Path

import click
from packaging.version import Version

from ssinghal import tracker
from ssinghal.cli import options
from ssinghal.cli.exec_command import find_program, run_program
from ssinghal.cli.requests import DeviceRequest, collected
from ssinghal.core.files import write_whole
from ssinghal.core.versions import new_run_id
from ssinghal.errors import HarnessError, InvalidCase
from ssinghal.profile.replay import read_profiles
from ssinghal.profile.text import summary

FIRST_RELEASE = Version("0.75.0")  # in graphs of earlier ones, buffers that are freed have no address


@click.command(context_settings={"allow_interspersed_args": False})
@collected(DeviceRequest, "device", options.board(None, "Virtual board to open"), options.release, options.ttnn_log)
@options.output(options.FOLDER, "Write records and summary to this new folder [default: profiles/<UTC time>].")
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
def profile(device: DeviceRequest, output: Path | None, command: tuple[str, ...]) -> None:
    """Record where the memory of any TTNN program goes.

    \b
      ssinghal profile -- python my_model.py
      ssinghal profile --board p150 -o profiles/unet -- python unet.py
      ssinghal profile -- pytest my_tests

    The program is unchanged, and its standard output and exit code are its own. Every TTNN call is recorded with its line, its
    tensors, what it allocated and freed, and the program buffers that TTNN reported; after each, the sum of live buffers is
    compared with the allocator's own view. The summary is on standard error and in summary.txt; the records are complete up to
    the last call that returned, however the program ends. Needs ttnn 0.75.0 or later.
    """
    if device.release is not None and Version(device.release.version) < FIRST_RELEASE:
        raise InvalidCase(
            f"profile: ttnn {device.release.version} does not report which buffers are freed; 0.75.0 and later do"
        )
    folder = output or Path("profiles", new_run_id())
    if folder.exists() and any(folder.iterdir()):
        raise InvalidCase(f"profile: {folder} is not empty; expected a new folder")
    find_program("profile", command)
    folder.mkdir(parents=True, exist_ok=True)
    inject = Path(tracker.__file__).with_name("inject")
    variables = {"PYTHONPATH": str(inject), tracker.FOLDER_VARIABLE: str(folder.resolve())}
    code = run_program("profile", device, command, variables)
    _report(folder)
    sys.exit(code if code >= 0 else 128 - code)


def _report(folder: Path) -> None:
    """Writes the summary. A program without a device has none, and keeps its exit code."""
    try:
        profiles = read_profiles(folder)
    except HarnessError as error:
        click.echo(f"ssinghal: {error}", err=True)
        return
    lines = [line for one in profiles for line in ("", f"{' '.join(one.argv)} (ttnn {one.ttnn})", *summary(one))]
    write_whole(folder / "summary.txt", "\n".join(lines[1:]) + "\n")
    click.echo("\n".join([*lines, f"recorded in {folder}"]), err=True)
