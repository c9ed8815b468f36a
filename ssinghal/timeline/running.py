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

from ssinghal.cases import Case
from ssinghal.device.modes import DeviceChoice
from ssinghal.device.session import DeviceFacts
from ssinghal.errors import DeviceError, HarnessError
from ssinghal.estimate import estimate
from ssinghal.pool import Pool
from ssinghal.records import LineFile, Record, RunInfo
from ssinghal.releases import Release
from ssinghal.results import new_run, now, package_versions, write_whole
from ssinghal.runs import INFO, RECORDS, Group, Run, read_run
from ssinghal.tasks import PoolOptions

Told = Callable[[Record], None]


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

    def _check_options(self) -> None:
        try:
            found = json.loads(self._info.read_bytes())["options"]
        except (OSError, ValueError, LookupError, TypeError):
            found = None
        if found != dict(self.options):
            had = _in_words(found) if isinstance(found, dict) else f"no readable {INFO}"
            raise HarnessError(f"{self.path}: has {had}; expected {_in_words(self.options)}: name another folder with -o")

    def missing(self, cases: Sequence[Case]) -> list[Case]:
        """The cases that have no record there yet."""
        recorded = {(r.op, r.key) for r in self._group().records} if self._has_line() else set()
        return [case for case in cases if (case.name, case.key) not in recorded]

    def run_of(self, cases: Sequence[Case]) -> Run:
        """The records of these cases, in their order."""
        run, group = read_run(self.path), self._group()
        by_case = {(record.op, record.key): record for record in group.records}
        records = tuple(by_case[case.name, case.key] for case in cases)
        return replace(run, groups=(replace(group, records=records),))

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
        with _GrowingFile(self._lines) as file:
            yield lambda record: file.write(json.dumps(replace(record, run=info.run).to_json()))
        self._describe(replace(info, finished=now(), selected=len(self._group().records)))

    def _describe(self, info: RunInfo) -> None:
        write_whole(self._info, json.dumps(asdict(info), indent=2))

    def _has_line(self) -> bool:
        return self._lines.exists() and b"\n" in self._lines.read_bytes()

    def _group(self) -> Group:
        """Of this board and release on a virtual device: there is no other, as long as nobody wrote one by hand."""
        wanted = ("virtual", self.options["board"], self.version)
        for group in read_run(self.path).groups:
            if (group.setting.device_mode, group.setting.board, group.setting.ttnn) == wanted:
                return group
        raise HarnessError(f"{self._lines}: no record of a virtual {self.options['board']}, ttnn {self.version}")


class _GrowingFile(LineFile):
    """Lines that join those of earlier sessions."""

    def __init__(self, path: Path) -> None:
        self._path = path
        with self._writing():
            self._file = path.open("ab", buffering=0)
            whole = path.read_bytes().rfind(b"\n") + 1
            self._file.truncate(whole)


def run_releases(
    cases: Sequence[Case],
    folders: Sequence[tuple[Release, ReleaseFolder]],
    choice: DeviceChoice,
    options: PoolOptions,
    told: Told,
) -> list[Run]:
    """Every case on every release, in their order; what has a record already is not run again. A release that has all of them
    is not opened.

    Raises:
        HarnessError: a release opens no device here that gives full verdicts, or its folder cannot be written.
    """
    for release, folder in folders:
        missing = folder.missing(cases)
        if not missing:
            continue
        try:
            pool = Pool(choice, replace(options, release=release))
        except DeviceError as error:
            raise DeviceError(f"ttnn {release.version}: {error}") from error
        with pool, folder.growing(pool.facts) as write:
            board = pool.facts.opened_board
            submitted = {pool.submit(case): case for case in missing}
            for done in as_completed(submitted):
                record = replace(done.result(), estimate=estimate(submitted[done], board).to_json())
                write(record)
                told(record)
    return [folder.run_of(cases) for _, folder in folders]


def _in_words(options: Mapping[str, Any]) -> str:
    return ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in options.items())


__all__ = ["ReleaseFolder", "run_releases"]
