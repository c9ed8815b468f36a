"""Files of a run: whole lines appended, and whole files written at once."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ssinghal.errors import HarnessError


class LineFile:
    """A text file that grows by whole lines: each is one write to the system, so a killed process cuts the last one at most.

    Raises:
        HarnessError: the file cannot be opened or written.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        with self._writing():
            self._file = path.open("wb", buffering=0)

    def __enter__(self) -> LineFile:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def write(self, line: str) -> None:
        data = (line + "\n").encode()
        with self._writing():
            if self._file.write(data) != len(data):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def close(self) -> None:
        """HarnessError where the file is no longer at its path: what was written is gone with it."""
        with self._file:
            written = os.fstat(self._file.fileno())
        if not self._path.exists() or not os.path.samestat(written, self._path.stat()):
            raise HarnessError(f"{self._path} was removed or replaced while it was written: its lines are lost")

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise HarnessError(f"cannot write {self._path}: {error.strerror}") from error


class GrowingFile(LineFile):
    """Lines that join those of earlier sessions; a last one that was cut short is cut off."""

    def __init__(self, path: Path) -> None:
        self._path = path
        with self._writing():
            self._file = path.open("ab", buffering=0)
            self._file.truncate(path.read_bytes().rfind(b"\n") + 1)


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
