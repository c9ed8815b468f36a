"""Remedies that arithmetic leaves open, tried on a device: probed once, kept beside the run's records."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from ssinghal.device.modes import choose_device
from ssinghal.errors import HarnessError
from ssinghal.pool import Pool, PoolOptions
from ssinghal.records import Record
from ssinghal.report.alternatives import Alternatives
from ssinghal.results import package_versions
from ssinghal.runs import NO_DEVICE, Group, Run, Setting, stored_records
from ssinghal.stored import StoredRecord

REMEDIES = "remedies.jsonl"
Progress = Callable[[Iterable[Record], int], Iterable[Record]]


def tried_remedies(run: Run) -> tuple[list[StoredRecord], list[str]]:
    """What was tried of the run's failing calls, and a word on each line that is no record.

    Raises:
        HarnessError: the file cannot be read, or was written by a newer version.
    """
    path = run.path / REMEDIES
    return stored_records(path) if path.is_file() else ([], [])


def of_setting(tried: Iterable[StoredRecord], setting: Setting) -> tuple[StoredRecord, ...]:
    return tuple(record for record in tried if Setting.of(record) == setting)


def try_remedies(run: Run, progress: Progress = lambda records, _: records) -> int:
    """Probes what arithmetic leaves open, on each group's board in its device mode; returns how many calls that were.

    Their records join those of earlier times in ``remedies.jsonl`` in the run's folder, each as soon as it is known, and are
    not tried again. ``progress`` gets the records as they come, and how many there will be.

    Raises:
        HarnessError: the run has no folder, was made with another TTNN, or no device opens.
    """
    if not run.path.is_dir():
        raise HarnessError(f"{run.path}: what is tried is kept in the run's folder, and this is a file")
    before, _ = tried_remedies(run)
    tried = 0
    with (run.path / REMEDIES).open("a+b", buffering=0) as file:
        if file.tell() and not (run.path / REMEDIES).read_bytes().endswith(b"\n"):
            file.write(b"\n")  # after a line that was cut short
        for group in run.groups:
            for record in _tried(run, group, before, progress):
                file.write(json.dumps(replace(record, run=run.id).to_json()).encode() + b"\n")
                tried += 1
    return tried


def _tried(run: Run, group: Group, before: Iterable[StoredRecord], progress: Progress) -> Iterator[Record]:
    setting = group.setting
    failing = [r for r in group.records if r.is_oom]
    cases = Alternatives(group.records, of_setting(before, setting)).open(failing)
    if setting.device_mode == NO_DEVICE or not cases:
        return
    installed = package_versions().get("ttnn", "none")
    if setting.ttnn != installed:
        raise HarnessError(f"{run.path}: made with ttnn {setting.ttnn}; what it leaves open cannot be tried with {installed}")
    choice = choose_device(setting.device_mode, setting.board)
    with Pool(choice, PoolOptions.of(choice, workers=None)) as pool:
        yield from progress(pool.map(cases), len(cases))


__all__ = ["REMEDIES", "of_setting", "tried_remedies", "try_remedies"]
