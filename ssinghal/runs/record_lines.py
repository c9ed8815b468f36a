"""Reads single lines of a run by their place in its file."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from ssinghal.core.closing import Closing
from ssinghal.errors import HarnessError
from ssinghal.runs.line_files import blocks, is_compressed


class LineReader(Closing):
    """Reads lines of a file by their first byte and size. The first read of a compressed file unpacks it to ``unpacked``.

    Raises:
        HarnessError: It cannot be read.
    """

    def __init__(self, path: Path, unpacked: Path) -> None:
        self._path, self._unpacked = path, unpacked
        self._file: int | None = None

    def read(self, places: Sequence[tuple[int, int]]) -> Iterator[bytes]:
        """Yields the lines at ``places``, in their order."""
        try:
            if self._file is None:
                self._file = os.open(self._plain(), os.O_RDONLY | os.O_CLOEXEC)
            for start, size in places:
                yield os.pread(self._file, size, start)
        except OSError as error:
            raise HarnessError(f"cannot read {self._path}: {error.strerror}") from error

    def close(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _plain(self) -> Path:
        if not is_compressed(self._path):
            return self._path
        with self._unpacked.open("wb") as file:
            for block in blocks(self._path):
                file.write(block.data)
        return self._unpacked
