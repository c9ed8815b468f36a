"""A run's folder: ``run.json``, ``records.jsonl`` (flushed case by case), ``summary.txt``, and the link ``latest``."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from datetime import datetime, timezone
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from ssinghal.cases import Case
from ssinghal.device.modes import DeviceMode
from ssinghal.errors import HarnessError
from ssinghal.records import LineFile, Record, RunInfo, Status, Verdict
from ssinghal.summary import Summary

PACKAGES = ("ssinghal", "ttnn", "torch", "numpy", "pytest")


def new_run_id() -> str:
    """UTC time to the microsecond: sorts by start, and two runs of one second do not meet."""
    return datetime.now(timezone.utc).strftime("%Y%m%dT%H%M%S.%fZ")


def now() -> str:
    return datetime.now(timezone.utc).isoformat(timespec="seconds")


@cache
def package_versions() -> dict[str, str]:
    """Versions of what decides a verdict, read from metadata (nothing is imported); absent packages are left out."""
    found = {}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def commit_of(folder: Path) -> str:
    """The checked-out commit with ``-dirty`` where files differ; empty outside a repository."""
    try:
        done = subprocess.run(
            ["git", "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"],
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=10,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip()


def new_run(repository: Path, options: Mapping[str, Any], selected: int | None, device: Mapping[str, Any]) -> RunInfo:
    """What is known when a run of this program begins."""
    command = " ".join(sys.argv)
    return RunInfo(new_run_id(), now(), command, commit_of(repository), device, package_versions(), options, selected=selected)


def unprobed(case: Case, status: Status, message: str, board: str) -> Record:
    """The record of a case that no device answered, and why."""
    verdict = Verdict(status, decided_by="harness", message=message)
    return Record.of(case, verdict, device_mode="none", board=board, ttnn=package_versions().get("ttnn", ""))


class RunFolder:
    """Writes one run. Every record is on disk when ``append`` returns, so a killed run keeps all but the line that it was at.

    Raises:
        HarnessError: the folder cannot be written.
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

    def set_device(self, device: Mapping[str, Any]) -> None:
        """What was opened, where that is known only after the run began."""
        self.info = replace(self.info, device=device)
        with self._writing():
            self._write_info()

    def append(self, record: Mapping[str, Any]) -> None:
        stamped = {**record, "run": self.info.run}
        self._lines.write(json.dumps(stamped))
        self.records.append(stamped)

    def finish(self, selected: int, notes: Sequence[str] = ()) -> list[str]:
        """Closes the run with its totals and puts it into the index; returns the summary's lines. ``notes`` go into its file
        as well. An index that cannot be written is the last line: the run stands without it."""
        summary = Summary.of(self.records)
        self.info = replace(self.info, finished=now(), selected=selected, totals=summary.totals)
        lines = [*self._head(), *summary.lines()]
        with self._writing():
            self._write_info()
            write_whole(self.path / "summary.txt", "\n".join([*lines, *notes]))
        self._lines.close()
        from ssinghal.store import STORE, Store

        try:
            Store(self.path.parent / STORE).index(self.path)
        except HarnessError as error:
            return [*lines, f"not indexed: {error}"]
        return lines

    def _head(self) -> list[str]:
        device = self.info.device
        head = f"run {self.info.run}: {len(self.records)} of {self.info.selected} selected cases recorded"
        opened = f"{device['mode']} {device['board']}" if device else "no device"
        where = f"{opened}, ttnn {self.info.versions.get('ttnn', 'not installed')}"
        computes = device.get("mode", DeviceMode.VIRTUAL) != DeviceMode.VIRTUAL
        return [head, where if computes else f"{where}; numerics not run: memory verdicts only"]

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise HarnessError(f"cannot write results to {self.path}: {error.strerror}") from error

    def _write_info(self) -> None:
        write_whole(self.path / "run.json", json.dumps(asdict(self.info), indent=2))

    def _link_latest(self, parent: Path) -> None:
        aside = parent / f".latest-{os.getpid()}"
        aside.unlink(missing_ok=True)
        aside.symlink_to(self.info.run, target_is_directory=True)
        aside.replace(parent / "latest")


def write_whole(path: Path, text: str) -> None:
    """The old file or the new one, never half of one; a line's end at its end.

    Raises:
        HarnessError: it cannot be written.
    """
    aside = path.with_name(f".{path.name}-{os.getpid()}")
    try:
        aside.write_text(text if text.endswith("\n") else f"{text}\n", encoding="utf-8", errors="replace")
        aside.replace(path)
    except OSError as error:
        raise HarnessError(f"cannot write {path}: {error.strerror}") from error
    finally:
        aside.unlink(missing_ok=True)
