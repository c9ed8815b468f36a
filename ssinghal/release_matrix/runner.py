"""Cases on one release after another, each case's record on disk as soon as it has ended, so that an interrupted run goes on.

A release has a run's folder of its own in the timeline's, which ``ssinghal report`` and ``compare`` read as any other.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import as_completed
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from ssinghal.core.case import Case
from ssinghal.core.record import Record, RunInfo
from ssinghal.core.versions import now, package_versions
from ssinghal.device.modes import DeviceChoice, DeviceMode
from ssinghal.device.releases import Release
from ssinghal.device.session import DeviceFacts
from ssinghal.errors import DeviceError, HarnessError
from ssinghal.estimation.estimator import estimate
from ssinghal.runner.pool import Pool
from ssinghal.runner.tasks import PoolOptions
from ssinghal.runs.files import GrowingFile, write_whole
from ssinghal.runs.reader import INFO, RECORDS, Run, Setting, read_run, stored_records
from ssinghal.runs.writer import new_run

Told = Callable[[Record], None]

NO_WORKER = "device"  # the stage of a record whose case no worker took, because none could start


@dataclass(frozen=True)
class ReleaseFolder:
    """The records of one release in a timeline's ``parent`` folder. ``options`` decide verdicts: all sessions that write there
    must have the same.

    Raises:
        HarnessError: what lies there was written with other options, or cannot be read.
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
        return Setting(DeviceMode.VIRTUAL.value, self.options["board"], self.version)

    def _check_options(self) -> None:
        try:
            found = json.loads(self._info.read_bytes())["options"]
        except (OSError, ValueError, LookupError, TypeError):
            found = None
        if found != dict(self.options):
            had = _in_words(found) if isinstance(found, dict) else f"no readable {INFO}"
            raise HarnessError(f"{self.path}: has {had}; expected {_in_words(self.options)}: name another folder with -o")

    def missing(self, cases: Sequence[Case]) -> list[Case]:
        """The cases that no device has answered yet."""
        found, _ = stored_records(self._lines) if self._lines.exists() else ([], [])
        recorded = {(r.op, r.key) for r in found if Setting.of(r) == self._setting and r.stage != NO_WORKER}
        return [case for case in cases if (case.name, case.key) not in recorded]

    def run_of(self, cases: Sequence[Case]) -> Run:
        """The records of these cases, all of which are there, in their order."""
        run = read_run(self.path)
        (group,) = (group for group in run.groups if group.setting == self._setting)
        by_case = {(record.op, record.key): record for record in group.records}
        return replace(run, groups=(replace(group, records=tuple(by_case[case.name, case.key] for case in cases)),))

    @contextmanager
    def growing(self, facts: DeviceFacts) -> Iterator[Callable[[Record], None]]:
        """What puts a record at the end of the file. A last line that was cut short is cut off before."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise HarnessError(f"cannot write {self.path}: {error.strerror}") from error
        begun = new_run(Path.cwd(), self.options, None, asdict(facts))
        info = replace(begun, run=f"{self.parent.name}-{self.version}", versions={**package_versions(), "ttnn": self.version})
        self._describe(info)
        with GrowingFile(self._lines) as file:
            yield lambda record: file.write(json.dumps(replace(record, run=info.run).to_json()))
        self._describe(replace(info, finished=now()))

    def _describe(self, info: RunInfo) -> None:
        write_whole(self._info, json.dumps(asdict(info), indent=2))


@dataclass(frozen=True)
class RemainingCases:
    """What is left to do on one release. ``folder`` has the rest."""

    release: Release
    folder: ReleaseFolder
    missing: Sequence[Case]

    @classmethod
    def of(cls, release: Release, parent: Path, options: Mapping[str, Any], cases: Sequence[Case]) -> RemainingCases:
        """HarnessError as ``ReleaseFolder``."""
        folder = ReleaseFolder(parent, release.version, options)
        return cls(release, folder, folder.missing(cases))


def run_parts(parts: Sequence[RemainingCases], choice: DeviceChoice, options: PoolOptions, told: Told) -> None:
    """What is missing, one release after the other; each record is in its file before ``told`` gets it. A release that has all
    of them is not opened.

    Raises:
        HarnessError: a release opens no device here that gives full verdicts, or its folder cannot be written.
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
            submitted = {pool.submit(case): case for case in part.missing}
            for done in as_completed(submitted):
                record = replace(done.result(), estimate=estimate(submitted[done], board).to_json())
                write(record)
                told(record)


def _in_words(options: Mapping[str, Any]) -> str:
    return ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in options.items())
