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
from ssinghal.results import package_versions, write_whole
from ssinghal.runs import NO_DEVICE, Group, Run, Setting, stored_records
from ssinghal.stored import StoredRecord

REMEDIES = "remedies.jsonl"


def tried_remedies(run: Run, setting: Setting) -> tuple[StoredRecord, ...]:
    """What was tried of the run's failing calls in this setting."""
    path = run.path / REMEDIES
    found, _ = stored_records(path) if path.is_file() else ([], [])
    return tuple(r for r in found if Setting(r.device_mode, r.board, r.ttnn) == setting)


def try_remedies(run: Run, progress: Callable[[Iterable[Record], int], Iterable[Record]] = lambda records, _: records) -> int:
    """Probes what arithmetic leaves open, on each group's board in its device mode; returns how many calls that were.

    ``progress`` gets the records as they come, and how many there will be.

    Their records join those of earlier times in ``remedies.jsonl`` in the run's folder. What was tried once stays tried.

    Raises:
        HarnessError: the run has no folder, was made with another TTNN, or no device opens.
    """
    if not run.path.is_dir():
        raise HarnessError(f"{run.path}: what is tried is kept in the run's folder, and this is a file")
    made = [replace(record, run=run.id) for group in run.groups for record in _tried(run, group, progress)]
    if made:
        path = run.path / REMEDIES
        before = path.read_text(encoding="utf-8").rstrip("\n").splitlines() if path.is_file() else []
        write_whole(path, "\n".join([*before, *(json.dumps(record.to_json()) for record in made)]))
    return len(made)


def _tried(run: Run, group: Group, progress: Callable[[Iterable[Record], int], Iterable[Record]]) -> Iterator[Record]:
    setting = group.setting
    failing = [r for r in group.records if r.is_oom]
    cases = Alternatives(group.records, tried_remedies(run, setting)).open(failing)
    if setting.device_mode == NO_DEVICE or not cases:
        return
    installed = package_versions().get("ttnn", "none")
    if setting.ttnn != installed:
        raise HarnessError(f"{run.path}: made with ttnn {setting.ttnn}; what it leaves open cannot be tried with {installed}")
    choice = choose_device(setting.device_mode, setting.board)
    with Pool(choice, PoolOptions.of(choice, workers=None)) as pool:
        yield from progress(pool.map(cases), len(cases))


__all__ = ["REMEDIES", "tried_remedies", "try_remedies"]
