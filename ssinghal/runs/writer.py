"""Writes the folder of a run: ``run.json``, ``records.jsonl`` (case by case), ``summary.txt``, and the link ``latest``."""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from ssinghal.core.case import Case
from ssinghal.core.device_facts import NOT_OPENED, DeviceFacts, DeviceMode
from ssinghal.core.files import LineFile, write_whole
from ssinghal.core.record import Record
from ssinghal.core.run_info import RunInfo
from ssinghal.core.verdict import DecidedBy, Status, Verdict
from ssinghal.core.versions import commit_of, new_run_id, now, package_versions
from ssinghal.errors import HarnessError
from ssinghal.runs.folder_lock import FolderLock
from ssinghal.runs.latest import NewFolder, link_latest
from ssinghal.runs.summary import Summary, SummaryCounts, placed_in


def new_run(repository: Path, options: Mapping[str, Any], selected: int | None, device: DeviceFacts = NOT_OPENED) -> RunInfo:
    """Returns what is known when a run starts."""
    return RunInfo(
        run=new_run_id(),
        started=now(),
        command=" ".join(sys.argv),
        folder=_working_folder(),
        commit=commit_of(repository),
        device=device,
        versions=package_versions(),
        options=options,
        selected=selected,
    )


def _working_folder() -> str:
    """Returns the working folder; empty if JSON cannot have its name."""
    folder = os.getcwd()
    return folder if folder.isprintable() else ""


def unprobed(case: Case, status: Status, message: str, board: str) -> Record:
    """Returns the record of a case that no device answered, with the reason."""
    verdict = Verdict(status, decided_by=DecidedBy.HARNESS, message=message)
    return Record.of(case, verdict, device_mode=DeviceMode.NONE, board=board, ttnn=package_versions().get("ttnn", ""))


class Continued(NamedTuple):
    """The folder of a run that goes on, its records counted, and held by a lock."""

    path: Path
    counts: SummaryCounts
    lock: FolderLock


class RunFolder:
    """Writes one run. Every record is on disk when ``append`` returns, so a kill loses the line that is being written at most.
    No other process can resume the run until it is finished or this process has ended.

    Raises:
        HarnessError: The folder cannot be written.
    """

    def __init__(self, parent: Path, info: RunInfo, continued: Continued | None = None) -> None:
        self.path = parent / info.run if continued is None else continued.path
        self.place = self.path  # where it is once it is complete
        self.info = info
        self._counts = SummaryCounts() if continued is None else continued.counts
        self._is_cut = False  # a record could not be written
        self.not_indexed = ""  # why the finished run is not in the index
        with self._writing():
            made = NewFolder(parent, info.run) if continued is None else None
            with nullcontext() if made is None else made.removed_after_failure():
                self._lock = FolderLock(self.path) if continued is None else continued.lock
                self._write_info()
                self._lines = LineFile(self.path / "records.jsonl", "w" if continued is None else "a")
                link_latest(parent, self.path.name)

    def set_device(self, device: DeviceFacts, answerer: str = "", searcher: str = "") -> None:
        """Adds the device, if it is opened only after the start of the run, what answers, and what searches for remedies."""
        self.info = replace(self.info, device=device, answerer=answerer, searcher=searcher)
        with self._writing():
            self._write_info()

    def set_selection(self, of_all: int, digest: str) -> None:
        """Adds how many cases all shards have together, and their digest, if the run starts before that is known."""
        self.info = replace(self.info, selected_of_all=of_all, selection_sha256=digest)
        with self._writing():
            self._write_info()

    def append(self, record: Mapping[str, Any]) -> None:
        stamped = {**record, "run": self.info.run}
        try:
            self._lines.write(json.dumps(stamped))
        except HarnessError:
            self._is_cut = True  # whether or not later lines, which may be shorter, can be written
            raise
        self._counts.add(stamped)

    def append_unreached(self, record: Mapping[str, Any]) -> None:
        """Writes the ``not_run`` record of a case that the run ended before, and counts it."""
        self.append(record)
        self.info = replace(self.info, unreached=self.info.unreached + 1)

    def summary(self) -> Summary:
        """Returns the summary of what was written so far."""
        return self._counts.summary()

    def finish(self, selected: int, notes: Sequence[str] = ()) -> list[str]:
        """Closes the run with its totals, adds it to the index, and returns the lines of the summary.

        ``notes`` are written to its file too. A run of which a record could not be written has not ended: its header states no
        time of that. If the index cannot be written, the last line states why; the run is complete without it."""
        return [*self.close(selected, notes), *self.index()]

    def close(self, selected: int, notes: Sequence[str] = ()) -> list[str]:
        """Does what ``finish`` does, without the index."""
        with self._lock:
            return self._closed(selected, notes)

    def _closed(self, selected: int, notes: Sequence[str]) -> list[str]:
        summary = self.summary()
        self.info = replace(self.info, finished=None if self._is_cut else now(), selected=selected, totals=summary.totals)
        lines = [*self._head(), *summary.lines(str(self.place))]
        with self._writing():
            write_whole(self.path / "summary.txt", "\n".join([*lines, *notes]))
            self._write_info()  # last: a run whose head states its end has all that belongs to it
        self._lines.close()
        return lines

    def index(self) -> list[str]:
        """Adds the run, which is closed, to the index; returns a line with the reason where that cannot be written. Whatever
        uses the index next adds the run then."""
        from ssinghal.runs.index import SHORT_BUSY_S, STORE, Store

        try:
            Store(self.path.parent / STORE, SHORT_BUSY_S).index(self.path)
        except HarnessError as error:
            self.not_indexed = f"not indexed: {error}"
            return [self.not_indexed]
        return []

    def _head(self) -> list[str]:
        device = self.info.device
        # Those that the run did not reach have a record too, which must not read as success.
        reached, did = self._counts.cases - self.info.unreached, "were run" if self.info.unreached else "recorded"
        head = f"run {self.info.run}: {reached:,} of {self.info.selected or 0:,} selected cases {did}"
        if self.info.interruption:
            head = f"{head}; {self.info.interruption}"
        if self.info.resumed:
            head = f"{head}; resumed {', '.join(self.info.resumed)}"
        if self.info.merged:
            head = f"{head}; {self.info.origin}"
        opened = f"{device.mode} {device.board}" if device.mode is not DeviceMode.NONE else "no device"
        where = f"{opened}, ttnn {self.info.versions.get('ttnn', 'not installed')}"
        if device.mode is DeviceMode.GOLDEN:
            return [head, f"{where}; no device: TTNN's golden functions compared with torch, no memory was measured"]
        can_resume = "catalogs" in self.info.options and (self._is_cut or self.info.unreached)
        how = [f"complete it with: ssinghal run --resume {shlex.quote(str(self.path))}"] if can_resume else []
        given = self.info.options.get
        placed = placed_in(given("placements") or (), given("weights"), given("dtypes") or ())
        computes = device.mode in (DeviceMode.SILICON, DeviceMode.SIMULATOR)
        return [head, where if computes else f"{where}; numerics not run: memory verdicts only", *placed, *how]

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise HarnessError(f"cannot write results to {self.path}: {error.strerror}") from error

    def _write_info(self) -> None:
        write_whole(self.path / "run.json", self.info.text())
