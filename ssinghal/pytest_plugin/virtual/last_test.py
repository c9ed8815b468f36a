"""Keeps the name of the test that runs in a file beside pytest's cache, for when native code ends the process of pytest."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ssinghal.core.files import read_limited
from ssinghal.errors import visible


class LastTest:
    """One line per test that starts; the file goes when pytest ends by itself. Needs pytest's cache."""

    def __init__(self, config: pytest.Config) -> None:
        cache = getattr(config, "cache", None)  # none with -p no:cacheprovider
        self._path: Path | None = cache.mkdir("ssinghal") / "started.txt" if cache is not None else None
        self.of_run_before = self._read()
        self._file = -1
        if self._path is not None:
            if self._path.is_symlink() or not self._path.is_file():  # the cache may have come with the tests
                self._path.unlink(missing_ok=True)
            self._file = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC)

    def _read(self) -> str:
        """Returns the test in which the process of the run before ended, empty where that ended by itself."""
        if self._path is None or not self._path.is_file():
            return ""
        lines = read_limited(self._path).decode(errors="replace").splitlines()
        return visible(lines[-1]) if lines else ""

    def pytest_report_header(self) -> list[str]:
        if not self.of_run_before:
            return []
        return [f"ssinghal: the process of the run before ended within {self.of_run_before}, without a report"]

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        if self._file >= 0:
            os.write(self._file, f"{nodeid}\n".encode())

    def pytest_unconfigure(self) -> None:
        if self._path is not None:
            os.close(self._file)
            self._path.unlink(missing_ok=True)
            self._file = -1
