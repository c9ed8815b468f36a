"""``ssinghal profile report``: what the records of a folder add up to."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import click

from ssinghal.cli import options
from ssinghal.cli.requests import DeviceRequest
from ssinghal.cli.streams import echo
from ssinghal.core.device_facts import DeviceMode
from ssinghal.core.files import read_limited, write_whole
from ssinghal.core.json_text import read_json
from ssinghal.errors import HarnessError
from ssinghal.profile.model import Profile
from ssinghal.profile.tried_changes import TriedChanges

TRIED = "tried.json"


def make_report(folder: Path, device: DeviceRequest | None = None) -> Sequence[Profile]:
    """Writes the report of a folder's records beside them, prints its summary, and returns the profiles.

    With a ``device``, changes to a call that ran out of memory are tried on it, and kept in the folder for later reports.

    Raises:
        HarnessError: there are no records, or a line of them is damaged.
    """
    from ssinghal.profile.reading import read_profiles
    from ssinghal.profile.report import write_report

    profiles = read_profiles(folder)
    if device is not None:
        _try_changes(profiles, folder / TRIED, device)
    elif (folder / TRIED).exists():
        _read_tried(profiles, folder / TRIED)
    echo("\n".join(["", *write_report(folder, profiles), f"recorded in {folder}"]), err=True)
    return profiles


def _try_changes(profiles: Sequence[Profile], path: Path, device: DeviceRequest) -> None:
    if all(profile.failure is None or not profile.failure.is_out_of_memory for profile in profiles):
        return
    from ssinghal.diagnose.failed_call.search import try_changes
    from ssinghal.runner.tasks import PoolOptions

    choice = replace(device, mode=DeviceMode.VIRTUAL).choose()
    for profile in profiles:
        try:
            profile.tried = try_changes(profile, choice, PoolOptions.of(choice, release=device.release))
        except HarnessError as error:  # the rest of the report needs no device
            profile.tried = TriedChanges(why_not=str(error))
    write_whole(path, json.dumps([profile.tried and profile.tried.to_json() for profile in profiles]) + "\n")


def _read_tried(profiles: Sequence[Profile], path: Path) -> None:
    try:
        tried = [values and TriedChanges.from_json(values) for values in read_json(read_limited(path).decode())]
        for profile, one in zip(profiles, tried, strict=True):
            profile.tried = one
    except (AttributeError, KeyError, RecursionError, TypeError, ValueError) as error:
        raise HarnessError(f"{path}: not what was tried of these profiles ({error!r})") from error


@click.command("report")
@click.argument("folder", type=options.FOLDER)
def report(folder: Path) -> None:
    """Write the report of records once more.

    \b
      ssinghal profile report profiles/unet

    Reads records-*.jsonl of a profile, whose program may have crashed or still be running, and writes
    summary.txt, profile.html and profile.json beside them.
    """
    make_report(folder)
