"""What a run leaves open, tried on a device: done once, kept beside the run's records.

``remedies.jsonl`` in the run's folder has records like the run's own: of changed calls that were probed, and of failing calls
that were probed again with a search for remedies.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from ssinghal.core.device_facts import DeviceMode
from ssinghal.core.record import Record
from ssinghal.device.modes import choose_device
from ssinghal.device.releases import Release, find_release, installed_release
from ssinghal.errors import HarnessError
from ssinghal.report.placement_alternatives import Alternatives
from ssinghal.runner.pool import Pool
from ssinghal.runner.tasks import PoolOptions
from ssinghal.runs.reader import RecordGroup, Run, Setting, case_or_none, stored_records

REMEDIES = "remedies.jsonl"
Progress = Callable[[Iterable[Record], int], Iterable[Record]]


def tried_remedies(run: Run) -> tuple[list[Record], list[str]]:
    """What was tried of the run's failing calls, and a word on each line that is no record.

    Raises:
        HarnessError: the file cannot be read, or was written by a newer version.
    """
    path = run.path / REMEDIES
    return stored_records(path) if path.is_file() else ([], [])


def of_setting(tried: Iterable[Record], setting: Setting) -> tuple[Record, ...]:
    return tuple(record for record in tried if Setting.of(record) == setting)


def try_remedies(run: Run, progress: Progress = lambda records, _: records) -> int:
    """Probes what arithmetic leaves open, on each group's board in its device mode; returns how many calls that were.

    Their records join those of earlier times in ``remedies.jsonl`` in the run's folder, each as soon as it is known, and are
    not tried again. ``progress`` gets the records as they come, and how many there will be.

    Raises:
        HarnessError: the run has no folder, was made with a TTNN that is not here, or no device opens.
    """

    def tried(group: RecordGroup, before: Sequence[Record]) -> Iterator[Record]:
        cases = Alternatives(group.records, before).open(r for r in group.records if r.is_oom)
        if cases:
            with _pool(run, group.setting) as pool:
                yield from progress(pool.map(cases), len(cases))

    return len(_kept(run, tried))


def search_remedies(run: Run, progress: Progress = lambda records, _: records) -> list[Record]:
    """Searches for what makes the failing calls fit that have no search yet, on each group's board, in its device mode and
    with its TTNN, and returns their records. They are kept as ``try_remedies`` keeps its own. Values of rewritten calls are
    compared where torch is installed.

    Raises:
        HarnessError: the run has no folder, was made with a TTNN that is not here, or no device opens.
    """
    from ssinghal.remedy.record_remedies import Searcher

    def searched(group: RecordGroup, before: Sequence[Record]) -> Iterator[Record]:
        done = {(r.op, r.key) for r in before} | {(r.op, r.key) for r in group.records if r.remedies is not None}
        failing = [r for r in group.records if r.is_oom and (r.op, r.key) not in done]
        cases = [case for r in failing if (case := case_or_none(r)) is not None]
        if cases:
            with _pool(run, group.setting) as pool, Searcher(pool, values=True) as searcher:
                yield from progress(searcher.map(cases), len(cases))

    return _kept(run, searched)


def _kept(run: Run, made: Callable[[RecordGroup, Sequence[Record]], Iterator[Record]]) -> list[Record]:
    """What is ``made`` for each group, given what was tried before of it. Each record is in the file as soon as it is known."""
    if not run.path.is_dir():
        raise HarnessError(f"{run.path}: what is tried is kept in the run's folder, and this is a file")
    before, _ = tried_remedies(run)
    kept = []
    with (run.path / REMEDIES).open("a+b", buffering=0) as file:
        if file.tell() and not (run.path / REMEDIES).read_bytes().endswith(b"\n"):
            file.write(b"\n")  # after a line that was cut short
        for group in run.groups:
            if group.setting.device_mode is DeviceMode.NONE:
                continue
            for record in made(group, of_setting(before, group.setting)):
                file.write(json.dumps(replace(record, run=run.id).to_json()).encode() + b"\n")
                kept.append(record)
    return kept


@contextmanager
def _pool(run: Run, setting: Setting) -> Iterator[Pool]:
    choice = choose_device(setting.device_mode, setting.board)
    with Pool(choice, PoolOptions.of(choice, release=_release(run, setting))) as pool:
        yield pool


def _release(run: Run, setting: Setting) -> Release | None:
    """The TTNN that the group was made with; None for the installed one."""
    installed = installed_release()
    if installed is not None and installed.version == setting.ttnn:
        return None
    try:
        return find_release(setting.ttnn)
    except HarnessError as error:
        raise HarnessError(
            f"{run.path}: made with ttnn {setting.ttnn}; what it leaves open is tried with that alone: {error}"
        ) from error
