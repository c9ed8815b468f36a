"""A run's folder: ``run.json``, ``records.jsonl`` (flushed case by case), ``summary.txt``, and the link ``latest`` beside it."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping
from dataclasses import asdict, replace
from datetime import datetime, timezone
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, TextIO

from ssinghal.errors import HarnessError
from ssinghal.records import RunInfo
from ssinghal.text import aligned, summary_rows, totals

PACKAGES = ("ssinghal", "ttnn", "torch", "numpy", "pytest")


def new_run_id() -> str:
    """UTC time to the microsecond: sorts by start, and two runs of one second do not meet."""
    return datetime.now(timezone.utc).strftime("%Y%m%dT%H%M%S.%fZ")


def now() -> str:
    return datetime.now(timezone.utc).isoformat(timespec="seconds")


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


class RunFolder:
    """Writes one run. Every record is on disk when ``append`` returns, so a killed run keeps what it had."""

    def __init__(self, parent: Path, info: RunInfo) -> None:
        self.path = parent / info.run
        self.info = info
        self.records: list[dict[str, Any]] = []
        try:
            self.path.mkdir(parents=True)
            self._write_info()
            self._file: TextIO = (self.path / "records.jsonl").open("x", encoding="utf-8")
            self._link_latest(parent)
        except OSError as error:
            raise HarnessError(f"cannot write results under {parent}: {error.strerror}") from error

    def append(self, record: Mapping[str, Any]) -> None:
        stamped = {**record, "run": self.info.run}
        self.records.append(stamped)
        self._file.write(json.dumps(stamped, ensure_ascii=False) + "\n")
        self._file.flush()

    def finish(self, selected: int) -> list[str]:
        """Closes the run with its totals and returns the summary's lines."""
        self._file.close()
        counted = totals(self.records)
        self.info = replace(self.info, finished=now(), selected=selected, totals=dict(sorted(counted.items())))
        self._write_info()
        lines = self.summary()
        (self.path / "summary.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
        return lines

    def summary(self) -> list[str]:
        device = self.info.device
        head = f"run {self.info.run}: {len(self.records)} of {self.info.selected} selected cases recorded"
        opened = f"{device['mode']} {device['board']}" if device else "no device"
        where = f"{opened}, ttnn {self.info.versions.get('ttnn', 'not installed')}"
        notes = [] if device.get("mode") == "silicon" else ["numerics not run: memory verdicts only"]
        return [head, "; ".join([where, *notes]), *(aligned(summary_rows(self.records)) if self.records else [])]

    def _write_info(self) -> None:
        aside = self.path / ".run.json"
        aside.write_text(json.dumps(asdict(self.info), indent=2) + "\n", encoding="utf-8")
        aside.replace(self.path / "run.json")

    def _link_latest(self, parent: Path) -> None:
        aside = parent / f".latest-{os.getpid()}"
        aside.unlink(missing_ok=True)
        aside.symlink_to(self.info.run, target_is_directory=True)
        aside.replace(parent / "latest")
