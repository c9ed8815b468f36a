"""Files that a killed process leaves in order: lines that are appended one by one, and files that are replaced in one step."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from glob import escape
from io import FileIO
from pathlib import Path

from ssinghal.core.closing import Closing
from ssinghal.errors import HarnessError


class LineFile(Closing):
    """A text file that grows by complete lines. Each is one write to the system, so that a kill truncates the last one at most.

    Raises:
        HarnessError: The file cannot be opened or written.
    """

    def __init__(self, path: Path, mode: str = "w") -> None:
        self._path = path
        with self._writing():
            self._file = FileIO(path, mode)

    def write(self, line: str) -> None:
        data = (line + "\n").encode()
        with self._writing():
            if self._file.write(data) != len(data):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def close(self) -> None:
        """Raises HarnessError if the file is no longer at its path: the lines are gone with it."""
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
    """Appends to the lines of earlier sessions, after removing a last line that was truncated."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, "a")
        with self._writing():
            self._file.truncate(path.read_bytes().rfind(b"\n") + 1)


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yields the path of a temporary file in the same folder. It replaces ``path`` at the end, or is removed after an error.

    Readers see the old file or the new one, never a part of it. A link stays, and what it points to is replaced. Also removes
    temporary files of this name that killed processes left.
    """
    file = path.resolve()
    temporary = file.with_name(f".{file.name}-{os.getpid()}")
    for left in file.parent.glob(f".{escape(file.name)}-*"):
        if (pid := left.name.rpartition("-")[2]).isdecimal() and not Path(f"/proc/{pid}").exists():
            left.unlink(missing_ok=True)
    try:
        yield temporary
        temporary.replace(file)
    finally:
        temporary.unlink(missing_ok=True)


def write_whole(path: Path, content: str | bytes) -> None:
    """Replaces a file in one step; writes to what is no regular file, such as a pipe or a device. A text ends with a line end.

    Raises:
        HarnessError: It cannot be written.
    """
    if isinstance(content, str):
        content = (content if content.endswith("\n") else f"{content}\n").encode(errors="replace")
    try:
        if path.exists() and not path.is_file():
            path.write_bytes(content)
            return
        with replacing(path) as temporary:
            temporary.write_bytes(content)
    except OSError as error:
        raise HarnessError(f"cannot write {path}: {error.strerror}") from error
