"""Probes the remedies of a run's failing cases on a device, once, and keeps their records in the run's folder.

The records in ``remedies.jsonl`` are like the run's own: of changed calls that were probed, and of failing calls that were
probed again with a search for remedies.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from ssinghal.core.device_facts import DeviceMode
from ssinghal.core.files import refuse_special
from ssinghal.core.record import Record
from ssinghal.device.modes import choose_device
from ssinghal.device.releases import Release, find_release, installed_release
from ssinghal.errors import HarnessError
from ssinghal.report.placement_alternatives import Alternatives
from ssinghal.runner.pool import Pool
from ssinghal.runner.tasks import PoolOptions
from ssinghal.runs.parsing import case_or_none, stored_records
from ssinghal.runs.reader import RecordGroup, Run
from ssinghal.runs.setting import Setting

REMEDIES = "remedies.jsonl"
Progress = Callable[[Iterable[Record], int], Iterable[Record]]


def tried_remedies(run: Run) -> tuple[list[Record], list[str]]:
    """Returns the records of remedies that were tried, and a note on each line that is not a record.

    Raises:
        HarnessError: the file cannot be read, or was written by a newer version.
    """
    path = run.path / REMEDIES
    return stored_records(path) if path.is_file() else ([], [])


def of_setting(tried: Iterable[Record], setting: Setting) -> tuple[Record, ...]:
    return tuple(record for record in tried if Setting.of(record) == setting)


def try_remedies(run: Run, progress: Progress = lambda records, _: records) -> int:
    """Probes the remedies that arithmetic cannot decide, on each group's board and device mode. Returns the number of calls.

    Each record is appended to ``remedies.jsonl`` in the run's folder at once, and its call is not tried again. ``progress``
    gets the records as they come, and their number.

    Raises:
        HarnessError: the run has no folder or needs a TTNN release that is not here, or no device opens.
    """

    def tried(group: RecordGroup, before: Sequence[Record]) -> Iterator[Record]:
        cases = Alternatives(group.records, before).open(r for r in group.records if r.is_oom)
        if cases:
            with _pool(run, group.setting) as pool:
                yield from progress(pool.map(cases), len(cases))

    return len(_kept(run, tried))


def search_remedies(run: Run, progress: Progress = lambda records, _: records) -> list[Record]:
    """Searches for remedies of the failing calls without a search, on each group's board, device mode and TTNN release, and
    returns their records. They are kept like those of ``try_remedies``. Values of rewritten calls are compared if torch is
    installed.

    Raises:
        HarnessError: the run has no folder or needs a TTNN release that is not here, or no device opens.
    """
    from ssinghal.remedy.record_remedies import Searcher

    def searched(group: RecordGroup, before: Sequence[Record]) -> Iterator[Record]:
        done = {(r.op, r.key) for r in before} | {(r.op, r.key) for r in group.records if r.was_searched}
        failing = [r for r in group.records if r.is_oom and (r.op, r.key) not in done]
        cases = [case for r in failing if (case := case_or_none(r)) is not None]
        if cases:
            with _pool(run, group.setting) as pool, Searcher(pool, values=True) as searcher:
                yield from progress(searcher.map(cases), len(cases))

    return _kept(run, searched)


def _kept(run: Run, records_of: Callable[[RecordGroup, Sequence[Record]], Iterator[Record]]) -> list[Record]:
    """Writes the new records of each group to the file, each as soon as it is known. ``records_of`` also gets those tried
    before."""
    if not run.path.is_dir():
        raise HarnessError(f"{run.path}: remedies are kept in the run's folder, and this is a file")
    refuse_special(run.path / REMEDIES)
    if (run.path / REMEDIES).is_dir():
        raise HarnessError(f"{run.path / REMEDIES}: expected a file of records")
    before, _ = tried_remedies(run)
    kept = []
    with (run.path / REMEDIES).open("a+b", buffering=0) as file:
        if file.tell() and not (run.path / REMEDIES).read_bytes().endswith(b"\n"):
            file.write(b"\n")  # after a truncated line
        for group in run.groups:
            if group.setting.device_mode is DeviceMode.NONE:
                continue
            for record in records_of(group, of_setting(before, group.setting)):
                file.write(json.dumps(replace(record, run=run.id).to_json()).encode() + b"\n")
                kept.append(record)
    return kept


@contextmanager
def _pool(run: Run, setting: Setting) -> Iterator[Pool]:
    choice = choose_device(setting.device_mode, setting.board)
    with Pool(choice, PoolOptions.of(choice, release=_release(run, setting))) as pool:
        yield pool


def _release(run: Run, setting: Setting) -> Release | None:
    """Returns the TTNN release of the group's records; None for the installed one."""
    installed = installed_release()
    if installed is not None and installed.version == setting.ttnn:
        return None
    try:
        return find_release(setting.ttnn)
    except HarnessError as error:
        raise HarnessError(
            f"{run.path}: its remedies can be tried with ttnn {setting.ttnn} only, as the run was: {error}"
        ) from error
