"""The lines of a run, ``records.jsonl`` or ``records.jsonl.gz``, read block by block: memory does not grow with the file.

A compressed file is not trusted: what comes out of it is bounded by ``MAX_RATIO`` times its size and by ``MAX_LINE_BYTES`` of a
line, so that a small file can fill neither memory nor disk.
"""

from __future__ import annotations

import gzip
import os
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ssinghal.core.files import MAX_LINE_BYTES, open_file
from ssinghal.errors import HarnessError

RECORDS = "records.jsonl"
COMPRESSED = "records.jsonl.gz"
GZIP_SUFFIX = ".gz"
BLOCK_BYTES = 8 * 1024 * 1024
MAX_RATIO = 250  # records of one case, repeated, compress to 1/120; gzip itself reaches 1/1030
FREE_BYTES = 16 * 1024 * 1024  # that much may come out of any file


@dataclass(frozen=True)
class Block:
    """Complete lines of a file; the last line of the file may lack its end.

    Attributes:
        number: Of the first line, from 1.
        start: Where it begins, in bytes of the uncompressed file.
        data: The lines.
    """

    number: int
    start: int
    data: bytes

    def lines(self) -> Iterator[tuple[int, int, bytes]]:
        """Yields the number, start and bytes of each line, without its end."""
        start = self.start
        for number, line in enumerate(self.data.split(b"\n"), self.number):
            yield number, start, line
            start += len(line) + 1

    def complete_lines(self) -> Iterator[bytes]:
        """Yields each line with its end, which only the last one of the file may lack."""
        *complete, rest = self.data.split(b"\n")
        yield from (line + b"\n" for line in complete)
        if rest:
            yield rest


def lines_file(folder: Path) -> Path | None:
    """Returns the file with the records of a run's folder, compressed or not; None if there is none."""
    for name in (RECORDS, COMPRESSED):  # a killed `compress` leaves both; only the first grows if the run is resumed
        if (folder / name).is_file():
            return folder / name
    return None


def is_compressed(path: Path) -> bool:
    return path.suffix == GZIP_SUFFIX


def blocks(path: Path, block_bytes: int = BLOCK_BYTES, *, compressed: bool | None = None) -> Iterator[Block]:
    """Yields the lines of a file in blocks of about ``block_bytes``. ``compressed``: whether it is; None: as its name has it.

    Raises:
        HarnessError: The file cannot be read, is damaged, has a line of more than ``MAX_LINE_BYTES``, or unpacks to more than
            ``MAX_RATIO`` times its size.
    """
    number, start = 1, 0
    rest: list[bytes] = []
    held = 0
    for data in _chunks(path, block_bytes, is_compressed(path) if compressed is None else compressed):
        end = data.rfind(b"\n") + 1
        if held + (data.find(b"\n") + 1 or len(data)) > MAX_LINE_BYTES:
            raise HarnessError(f"{path}:{number}: a line of more than {MAX_LINE_BYTES:,} B: expected a record in each line")
        if not end:
            rest.append(data)
            held += len(data)
            continue
        block = Block(number, start, b"".join([*rest, data[:end]]))
        yield block
        number += block.data.count(b"\n")
        start += len(block.data)
        rest, held = [data[end:]], len(data) - end
    if last := b"".join(rest):
        yield Block(number, start, last)


def _chunks(path: Path, size: int, compressed: bool) -> Iterator[bytes]:
    try:
        with open_file(path) as raw, gzip.GzipFile(fileobj=raw) if compressed else raw as file:
            allowed = max(FREE_BYTES, MAX_RATIO * os.fstat(raw.fileno()).st_size) if compressed else None
            came = 0
            if compressed and not raw.peek(1):  # an empty run has the header of gzip, which takes no file for an empty one
                raise EOFError
            while data := file.read(size):
                came += len(data)
                if allowed is not None and came > allowed:
                    raise HarnessError(
                        f"{path}: unpacks to more than {MAX_RATIO} times its size: expected the records of a run"
                    )
                yield data
    except EOFError as error:
        raise HarnessError(f"{path}: the compressed file is truncated") from error
    except (gzip.BadGzipFile, zlib.error) as error:
        raise HarnessError(f"{path}: not a valid compressed file: {error}") from error
    except OSError as error:
        raise HarnessError(f"cannot read {path}: {error.strerror}") from error
