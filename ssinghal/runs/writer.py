"""Writes the folder of a run: ``run.json``, ``records.jsonl`` (case by case), ``summary.txt``, and the link ``latest``."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from ssinghal.core.case import Case
from ssinghal.core.device_facts import NOT_OPENED, DeviceFacts, DeviceMode
from ssinghal.core.files import LineFile, write_whole
from ssinghal.core.json_values import plain
from ssinghal.core.record import DecidedBy, Record, RunInfo, Status, Verdict
from ssinghal.core.versions import commit_of, new_run_id, now, package_versions
from ssinghal.errors import HarnessError
from ssinghal.runs.summary import Summary, placed_in


def new_run(repository: Path, options: Mapping[str, Any], selected: int | None, device: DeviceFacts = NOT_OPENED) -> RunInfo:
    """Returns what is known when a run starts."""
    command = " ".join(sys.argv)
    return RunInfo(new_run_id(), now(), command, commit_of(repository), device, package_versions(), options, selected=selected)


def unprobed(case: Case, status: Status, message: str, board: str) -> Record:
    """Returns the record of a case that no device answered, with the reason."""
    verdict = Verdict(status, decided_by=DecidedBy.HARNESS, message=message)
    return Record.of(case, verdict, device_mode=DeviceMode.NONE, board=board, ttnn=package_versions().get("ttnn", ""))


class RunFolder:
    """Writes one run. Every record is on disk when ``append`` returns, so a kill loses the line that is being written at most.

    Raises:
        HarnessError: The folder cannot be written.
    """

    def __init__(self, parent: Path, info: RunInfo) -> None:
        self.path = parent / info.run
        self.info = info
        self.records: list[dict[str, Any]] = []
        with self._writing():
            self.path.mkdir(parents=True)
            self._write_info()
            self._lines = LineFile(self.path / "records.jsonl")
            self._link_latest(parent)

    def set_device(self, device: DeviceFacts) -> None:
        """Adds the device, if it is opened only after the start of the run."""
        self.info = replace(self.info, device=device)
        with self._writing():
            self._write_info()

    def append(self, record: Mapping[str, Any]) -> None:
        stamped = {**record, "run": self.info.run}
        self._lines.write(json.dumps(stamped))
        self.records.append(stamped)

    def append_unreached(self, record: Mapping[str, Any]) -> None:
        """Writes the ``not_run`` record of a case that the run ended before, and counts it."""
        self.append(record)
        self.info = replace(self.info, unreached=self.info.unreached + 1)

    def finish(self, selected: int, notes: Sequence[str] = ()) -> list[str]:
        """Closes the run with its totals, adds it to the index, and returns the lines of the summary. ``notes`` are written to
        its file too. If the index cannot be written, the last line states why; the run is complete without it."""
        summary = Summary.of(self.records)
        self.info = replace(self.info, finished=now(), selected=selected, totals=summary.totals)
        lines = [*self._head(), *summary.lines()]
        with self._writing():
            self._write_info()
            write_whole(self.path / "summary.txt", "\n".join([*lines, *notes]))
        self._lines.close()
        from ssinghal.runs.index import STORE, Store

        try:
            Store(self.path.parent / STORE).index(self.path)
        except HarnessError as error:
            return [*lines, f"not indexed: {error}"]
        return lines

    def _head(self) -> list[str]:
        device = self.info.device
        head = f"run {self.info.run}: {len(self.records)} of {self.info.selected} selected cases recorded"
        if self.info.interruption:
            head = f"{head}; {self.info.interruption}"
        opened = f"{device.mode} {device.board}" if device.mode is not DeviceMode.NONE else "no device"
        where = f"{opened}, ttnn {self.info.versions.get('ttnn', 'not installed')}"
        if device.mode is DeviceMode.GOLDEN:
            return [head, f"{where}; no device: TTNN's golden functions compared with torch, no memory was measured"]
        placed = placed_in(self.info.options.get("placements") or (), self.info.options.get("weights"))
        computes = device.mode in (DeviceMode.SILICON, DeviceMode.SIMULATOR)
        return [head, where if computes else f"{where}; numerics not run: memory verdicts only", *placed]

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise HarnessError(f"cannot write results to {self.path}: {error.strerror}") from error

    def _write_info(self) -> None:
        write_whole(self.path / "run.json", json.dumps(plain(self.info), indent=2))

    def _link_latest(self, parent: Path) -> None:
        temporary = parent / f".latest-{os.getpid()}"
        temporary.unlink(missing_ok=True)
        temporary.symlink_to(self.info.run, target_is_directory=True)
        temporary.replace(parent / "latest")
