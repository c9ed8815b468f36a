"""Files that a killed process leaves in order: lines that are appended one by one, and files that are replaced in one step."""

from __future__ import annotations

import errno
import gzip
import os
import stat
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from io import BufferedReader, FileIO, RawIOBase
from pathlib import Path
from time import monotonic

from ssinghal.core.closing import Closing
from ssinghal.core.locks import lock, used_file
from ssinghal.errors import HarnessError, InvalidCase, visible

MAX_BYTES = 2**30  # of a file that is read at once, unpacked
MAX_PIPE_BYTES = 2**30  # of what comes through a pipe and is kept: nobody knows where it ends
MAX_LINE_BYTES = 2**24  # the longest line of a record known has 60 KiB
GZIP_START = b"\x1f\x8b"
SYNC_S = 1.0  # the time in which lines that are written are only in the system's memory
_BLOCK = 2**20
_SPECIAL = "a pipe or a device: expected a file"


def is_file(text: str | Path) -> bool:
    """Returns whether a word that may be something else names a file; False also for what no file system can have as a name."""
    return exists(text) and Path(text).is_file()


def exists(text: str | Path) -> bool:
    """Returns whether a word that may be something else names a file or folder, as ``is_file``."""
    try:
        return Path(text).exists()
    except OSError:
        return False


class _Named(FileIO):
    """An open file whose errors name it: those of reading, unlike those of opening, would not."""

    def __init__(self, descriptor: int, path: Path) -> None:
        super().__init__(descriptor)
        self._path = path

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]  # called with a memoryview alone
        with self._naming():
            return super().readinto(buffer)

    def readall(self) -> bytes:
        with self._naming():
            return super().readall()

    @contextmanager
    def _naming(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise OSError(error.errno, error.strerror, str(self._path)) from error


class _Passed(RawIOBase):
    """A pipe that a shell passes: beyond ``MAX_PIPE_BYTES``, reading raises OSError."""

    def __init__(self, descriptor: int, path: Path) -> None:
        self._pipe, self._path, self._read = _Named(descriptor, path), path, 0

    def readable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._pipe.fileno()

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]  # called with a memoryview alone
        count = self._pipe.readinto(buffer) or 0
        self._read += count
        if self._read > MAX_PIPE_BYTES:
            raise OSError(errno.EFBIG, beyond_pipe(), str(self._path))
        return count

    def close(self) -> None:
        self._pipe.close()
        super().close()


def beyond_pipe() -> str:
    """Returns why no more is read from a pipe."""
    return f"more than {MAX_PIPE_BYTES:,} B through a pipe: write them to a file, and name that"


def open_file(path: Path, *, pipe: bool = False) -> BufferedReader:
    """Opens a file that somebody else may have made, without waiting for it: a named pipe, a device or a folder is refused.

    What a shell passes (``<(command)``, ``/dev/stdin``) is read up to ``MAX_PIPE_BYTES``, and the null device. ``pipe``: named
    pipes and terminals too, without that bound, where the user names the file and it is read as a stream: that waits, as every
    program does.

    Raises:
        OSError: It cannot be opened, or is none of these; later, that it cannot be read. It names the path.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOCTTY | (0 if pipe else os.O_NONBLOCK))
    try:
        status = os.fstat(descriptor)
        if stat.S_ISDIR(status.st_mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        is_passed = stat.S_ISFIFO(status.st_mode) and (pipe or path.resolve().is_relative_to("/proc"))
        is_terminal = pipe and os.isatty(descriptor)
        if not (stat.S_ISREG(status.st_mode) or is_passed or is_terminal or _is_null(status)):
            raise OSError(errno.EINVAL, _SPECIAL, str(path))
        os.set_blocking(descriptor, True)
        if stat.S_ISFIFO(status.st_mode) and not pipe:
            return BufferedReader(_Passed(descriptor, path))
        return BufferedReader(_Named(descriptor, path))
    except OSError:
        os.close(descriptor)
        raise


def _is_null(status: os.stat_result) -> bool:
    return stat.S_ISCHR(status.st_mode) and status.st_rdev == os.stat(os.devnull).st_rdev


def refuse_special(*paths: Path) -> None:
    """Raises HarnessError where one is a link, or neither a file nor a folder: in a folder that somebody else packed, a link
    may lead to any file of the user's, a pipe has no reader, and a device takes what is written."""
    for path in paths:
        if path.is_symlink():
            raise HarnessError(f"{path}: a link: expected the file itself, as what a link leads to belongs elsewhere")
        if _is_special(path):
            raise HarnessError(f"{path}: {_SPECIAL}")


def _is_special(path: Path) -> bool:
    """Returns whether a path leads to what is neither a file nor a folder, such as a pipe or a device."""
    return path.exists() and not path.is_file() and not path.is_dir()


def refuse_other_names(path: Path) -> None:
    """Raises HarnessError where a file has a second name (a hard link): what is appended to it would be there too."""
    if path.is_file() and path.stat().st_nlink > 1:
        raise HarnessError(
            f"{path}: has another name (a hard link), under which it would change too; replace it by a copy of it"
        )


def bounded_lines(path: Path, limit: int = MAX_LINE_BYTES) -> Iterator[bytes]:
    """Yields the lines of a file with their ends, of which only the last may lack it.

    Raises:
        OSError: It cannot be read.
        ValueError: A line has more than ``limit`` bytes.
    """
    with open_file(path) as file:
        while line := file.readline(limit + 1):
            if len(line) > limit:
                raise ValueError(f"a line of more than {limit:,} B")
            yield line


def read_limited(path: Path, limit: int = MAX_BYTES, *, unpack: bool = False) -> bytes:
    """Returns the content of a file that somebody else may have written. ``unpack``: that of a gzip archive is unpacked.

    Raises:
        InvalidCase: It cannot be read, is a damaged archive, or holds more than ``limit`` bytes, unpacked.
    """
    parts: list[bytes] = []
    left = limit + 1
    try:
        with open_file(path) as raw:
            start = raw.peek(len(GZIP_START))[: len(GZIP_START)]
            source = gzip.GzipFile(fileobj=raw) if unpack and start == GZIP_START else raw
            while left and (block := source.read(min(left, _BLOCK))):
                parts.append(block)
                left -= len(block)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise InvalidCase(f"{path}: is a damaged archive: {error}") from error
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        raise InvalidCase(f"{path}: {getattr(error, 'strerror', None) or error}") from error
    if not left:
        raise InvalidCase(f"{path}: holds more than {limit:,} B")
    return b"".join(parts)


class LineFile(Closing):
    """A text file that grows by complete lines. Each is one write to the system, so that a kill truncates the last one at most.
    A power failure loses those of about the last ``SYNC_S`` seconds before the last line, at most. ``given``: the user names
    the file, which may be a pipe or a device.

    Raises:
        HarnessError: The file cannot be opened or written, or is a pipe or a device, and not ``given``.
    """

    def __init__(self, path: Path, mode: str = "w", *, given: bool = False) -> None:
        self._path = path
        with self._writing():
            if not given and _is_special(path):
                raise OSError(errno.EINVAL, _SPECIAL)
            self._file = FileIO(path, mode)
            self._is_on_disk = stat.S_ISREG(os.fstat(self._file.fileno()).st_mode)
            if self._is_on_disk:
                sync_folder(path.parent)
        self._synced = monotonic()

    def write(self, line: str) -> None:
        data = (line + "\n").encode()
        written = 0
        with self._writing():
            try:
                while written < len(data):  # a second write states why the first was short
                    written += self._file.write(data[written:])
            except OSError:
                self._drop_last(written)
                raise
            if monotonic() - self._synced >= SYNC_S:
                self._sync()

    def close(self) -> None:
        """Raises HarnessError if the file is no longer at its path: the lines are gone with it."""
        with self._file, self._writing():
            self._sync()
            written = os.fstat(self._file.fileno())
        if not self._path.exists() or not os.path.samestat(written, self._path.stat()):
            raise HarnessError(f"{self._path} was removed or replaced while it was written: its lines are lost")

    def _sync(self) -> None:
        if self._is_on_disk:
            os.fdatasync(self._file.fileno())
        self._synced = monotonic()

    def _drop_last(self, size: int) -> None:
        """Removes a part of a line, to which the next line would be appended."""
        if size and self._file.seekable():
            self._file.seek(-size, os.SEEK_END)
            self._file.truncate()

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise HarnessError(f"cannot write {self._path}: {error.strerror}") from error


class GrowingFile(LineFile):
    """Appends to the lines of earlier sessions, after removing a last line that was truncated.

    Raises:
        HarnessError: The file cannot be opened, written or locked, or another process has it open in this way.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(path, "a+")
        try:
            with self._writing():
                self._hold()
                self._file.truncate(_end_of_lines(self._file))
        except BaseException:
            self._file.close()
            raise

    def _hold(self) -> None:
        try:
            lock(self._file.fileno(), self._path)
        except BlockingIOError as error:
            raise HarnessError(f"{self._path} is in use by another command, which appends to it") from error


def _end_of_lines(file: FileIO) -> int:
    """Returns the size in bytes up to the end of the last complete line."""
    end = file.seek(0, os.SEEK_END)
    while end:
        start = max(0, end - _BLOCK)
        file.seek(start)
        if (last := file.read(end - start).rfind(b"\n")) >= 0:
            return start + last + 1
        end = start
    return 0


@contextmanager
def replacing(path: Path, *, durable: bool = True) -> Iterator[Path]:
    """Yields the path of a temporary file in the same folder. It replaces ``path`` at the end, or is removed after an error.

    Readers see the old file or the new one, never a part of it, also after a power failure if it is ``durable``, for which the
    disk takes some milliseconds. A link stays, and the file that it points to is replaced.

    Raises:
        OSError: The file cannot be written, or is a pipe or a device, which would be lost.
    """
    file = Path(os.path.realpath(path))  # unlike ``resolve``, it takes a link to itself for a name
    if _is_special(file):
        raise OSError(errno.EINVAL, _SPECIAL, str(path))
    with used_file(file) as temporary:
        yield temporary
        if durable:
            _sync(temporary)
        temporary.replace(file)
        if durable:
            sync_folder(file.parent)


def sync_folder(folder: Path) -> None:
    """Waits until the names in a folder are on the disk."""
    try:
        _sync(folder)
    except OSError as error:
        if error.errno not in (
            errno.EINVAL,
            errno.ENOTSUP,
        ):  # of network file systems where names do not wait
            raise


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_pieces(path: Path, pieces: Iterable[str]) -> None:
    """Replaces a file in one step by a text in pieces, which ends with a line end. It is one that can be made again: a power
    failure may lose it.

    Raises:
        HarnessError: It cannot be written.
    """
    last = ""
    try:
        with (
            replacing(path, durable=False) as temporary,
            temporary.open("w", encoding="utf-8", errors="replace", newline="") as file,
        ):
            for piece in pieces:
                file.write(visible(piece))
                last = piece or last
            file.write("" if last.endswith("\n") else "\n")
    except OSError as error:
        raise HarnessError(f"cannot write {path}: {error.strerror}") from error


def write_whole(path: Path, content: str | bytes) -> None:
    """Replaces a file in one step. A text ends with a line end, and has no control characters: they are written as JSON writes
    them.

    Raises:
        HarnessError: It cannot be written, or is a pipe or a device.
    """
    try:
        with replacing(path) as temporary:
            temporary.write_bytes(_bytes(content))
    except OSError as error:
        raise HarnessError(f"cannot write {path}: {error.strerror}") from error


def write_given(path: Path, content: str | bytes) -> None:
    """Does what ``write_whole`` does for a file that the user names, and writes to one that is a pipe or a device.

    Raises:
        HarnessError: It cannot be written.
    """
    if not _is_special(path):
        write_whole(path, content)
        return
    try:
        path.write_bytes(_bytes(content))
    except OSError as error:
        raise HarnessError(f"cannot write {path}: {error.strerror}") from error


def _bytes(content: str | bytes) -> bytes:
    if isinstance(content, bytes):
        return content
    return visible(content if content.endswith("\n") else f"{content}\n").encode(errors="replace")
