"""Runs cases on one release after another. Each record is on disk as soon as its case has ended, so that an interrupted run can
be continued.

Each release has a separate run folder in that of the timeline, which ``ssinghal report`` and ``compare`` read like any other.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ssinghal.core.case import Case
from ssinghal.core.device_facts import DeviceFacts, DeviceMode
from ssinghal.core.files import GrowingFile, write_whole
from ssinghal.core.record import Record
from ssinghal.core.run_info import RunInfo
from ssinghal.core.versions import now, package_versions
from ssinghal.device.modes import DeviceChoice
from ssinghal.device.releases import Release
from ssinghal.errors import DeviceError, HarnessError
from ssinghal.estimation.estimator import estimate
from ssinghal.runner.pool import Pool
from ssinghal.runner.probers import LocalProber
from ssinghal.runner.tasks import PoolOptions
from ssinghal.runs.folders import INFO, head_bytes
from ssinghal.runs.line_files import RECORDS
from ssinghal.runs.parsing import complete_records
from ssinghal.runs.reader import Run
from ssinghal.runs.setting import Setting
from ssinghal.runs.stored import read_run_of_any_size
from ssinghal.runs.writer import new_run

NO_WORKER = "device"  # the stage of a record whose case was not run because no worker could start


@dataclass(frozen=True)
class ReleaseFolder:
    """The records of one release in a timeline's ``parent`` folder. All sessions that write there must have the same
    ``options``, since verdicts depend on them.

    Raises:
        HarnessError: the folder was written with other options, or cannot be read.
    """

    parent: Path
    version: str
    options: Mapping[str, Any]

    def __post_init__(self) -> None:
        if self.path.exists() and not self.path.is_dir():
            raise HarnessError(f"{self.path}: expected a folder")
        if self._lines.exists() or self._info.exists():
            self._check_options()

    @property
    def path(self) -> Path:
        return self.parent / self.version

    @property
    def _lines(self) -> Path:
        return self.path / RECORDS

    @property
    def _info(self) -> Path:
        return self.path / INFO

    @property
    def _setting(self) -> Setting:
        return Setting(DeviceMode.VIRTUAL, self.options["board"], self.version)

    def _check_options(self) -> None:
        try:
            options = json.loads(head_bytes(self._info))["options"]
        except (OSError, ValueError, LookupError, TypeError, RecursionError):
            options = None
        if options != dict(self.options):
            actual = _options_text(options) if isinstance(options, dict) else f"no readable {INFO}"
            expected = _options_text(self.options)
            raise HarnessError(f"{self.path}: has {actual}; expected {expected}: name another folder with -o")

    def missing(self, cases: Sequence[Case]) -> list[Case]:
        """Returns the cases without a verdict of a device."""
        records = complete_records(self._lines, []) if self._lines.exists() else ()
        recorded = {(r.op, r.key) for _, r in records if Setting.of(r) == self._setting and r.stage != NO_WORKER}
        return [case for case in cases if (case.name, case.key) not in recorded]

    def run_of(self, cases: Sequence[Case]) -> Run:
        """Returns the run with the records of ``cases``, in this order. All of them must be there."""
        run = read_run_of_any_size(self.path)
        (group,) = (group for group in run.groups if group.setting == self._setting)
        by_case = {(record.op, record.key): record for record in group.records}
        return replace(run, groups=(replace(group, records=tuple(by_case[case.name, case.key] for case in cases)),))

    @contextmanager
    def growing(self, facts: DeviceFacts) -> Iterator[Callable[[Record], None]]:
        """Yields a function that appends a record to the file. A truncated last line is removed first."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise HarnessError(f"cannot write {self.path}: {error.strerror}") from error
        started = new_run(Path.cwd(), self.options, None, facts)
        info = replace(started, run=f"{self.parent.name}-{self.version}", versions={**package_versions(), "ttnn": self.version})
        self._describe(info)
        with GrowingFile(self._lines) as file:
            yield lambda record: file.write(json.dumps(replace(record, run=info.run).to_json()))
        self._describe(replace(info, finished=now()))

    def _describe(self, info: RunInfo) -> None:
        write_whole(self._info, info.text())


@dataclass(frozen=True)
class RemainingCases:
    """The cases that are still to be run on one release. ``folder`` has the records of the others."""

    release: Release
    folder: ReleaseFolder
    missing: Sequence[Case]

    @classmethod
    def of(cls, release: Release, parent: Path, options: Mapping[str, Any], cases: Sequence[Case]) -> RemainingCases:
        """Raises HarnessError like ``ReleaseFolder``."""
        folder = ReleaseFolder(parent, release.version, options)
        return cls(release, folder, folder.missing(cases))


def run_parts(
    parts: Sequence[RemainingCases], choice: DeviceChoice, options: PoolOptions, on_record: Callable[[Record], None]
) -> None:
    """Runs the missing cases, one release after the other. Each record is in its file before ``on_record`` gets it. A release
    without missing cases is not opened.

    Raises:
        HarnessError: a release cannot open a device that gives full verdicts, or its folder cannot be written.
    """
    for part in parts:
        if not part.missing:
            continue
        release, folder = part.release, part.folder
        try:
            pool = Pool(choice, replace(options, release=release))
        except DeviceError as error:
            raise DeviceError(f"ttnn {release.version}: {error}") from error
        with pool, folder.growing(pool.facts) as write:
            board = pool.facts.opened_board
            answers = LocalProber(pool, pool.submit).answers(enumerate(part.missing), stopped=lambda: False)
            for number, answer in answers:
                record = replace(answer, estimate=estimate(part.missing[number], board).stored())
                write(record)
                on_record(record)


def _options_text(options: Mapping[str, Any]) -> str:
    return ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in options.items())
