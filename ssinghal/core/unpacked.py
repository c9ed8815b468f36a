"""A stream of somebody else's, as a log, unpacked where it is a gzip archive; no other archive is taken for text."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable
from io import BufferedReader, RawIOBase
from typing import BinaryIO

from ssinghal.core.files import GZIP_START
from ssinghal.errors import InvalidCase

FREE_BYTES = 2**30  # that much may come out of any archive
MAX_RATIO = 250  # of what comes out beyond that to what went in: the log of one failure, repeated, reaches 1,000
FORMATS = {
    b"\x28\xb5\x2f\xfd": "zstd",
    b"\xfd7zXZ\x00": "xz",
    b"7z\xbc\xaf\x27\x1c": "7z",
    b"PK\x03\x04": "zip",
    b"PK\x05\x06": "zip",
    **{b"BZh%d%c" % (level, block): "bzip2" for level in range(1, 10) for block in (0x31, 0x17)},  # a block, or the end
}
_START_BYTES = max(map(len, FORMATS))


def unpacked(stream: BinaryIO, name: str) -> BinaryIO:
    """Returns a stream of the text in ``stream``, which stays open. Nothing is kept in memory.

    Raises:
        InvalidCase: Also while it is read: the stream cannot be read, is a damaged archive, one of another format, or one that
            holds more than ``FREE_BYTES`` and ``MAX_RATIO`` times its size.
    """
    source = _Source(stream.read, name)
    if not source.start.startswith(GZIP_START):
        _refuse_archive(source.start, name)
        return BufferedReader(source)
    text = _Source(_Unpacking(source, name).read, name)
    if text.start.startswith(GZIP_START):
        raise InvalidCase(f"{name}: is a gzip archive in another one: unpack it first")
    _refuse_archive(text.start, name)
    return BufferedReader(text)


def _refuse_archive(start: bytes, name: str) -> None:
    form = next((form for magic, form in FORMATS.items() if start.startswith(magic)), None)
    if form:
        raise InvalidCase(f"{name}: is packed by {form}: expected a text, or a gzip archive of one: unpack it first")


class _Source(RawIOBase):
    """A stream with its first bytes. ``count``: of the bytes that were read."""

    def __init__(self, read: Callable[[int], bytes], name: str) -> None:
        self._read, self._name = read, name
        self.count = 0
        self.start = self._left = self._next(_START_BYTES)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]  # called with a memoryview alone
        data, self._left = self._left[: len(buffer)] or self._next(len(buffer)), self._left[len(buffer) :]
        buffer[: len(data)] = data
        return len(data)

    def _next(self, size: int) -> bytes:
        try:
            data = self._read(size)
        except OSError as error:
            raise InvalidCase(f"{self._name}: {error.strerror or error}") from error
        self.count += len(data)
        return data


class _Unpacking:
    """What comes out of a gzip archive, up to a bound."""

    def __init__(self, source: _Source, name: str) -> None:
        self._source, self._name, self._came = source, name, 0
        self._archive = gzip.GzipFile(fileobj=BufferedReader(source))

    def read(self, size: int) -> bytes:
        try:
            data = self._archive.read(size)
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise InvalidCase(f"{self._name}: is a damaged archive: {error}") from error
        self._came += len(data)
        if self._came > max(FREE_BYTES, MAX_RATIO * self._source.count):
            raise InvalidCase(
                f"{self._name}: unpacks to more than {FREE_BYTES:,} B and {MAX_RATIO} times its size: expected a log"
            )
        return data
