"""What commands read and print."""

from __future__ import annotations

import gc
import os
import re
import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from io import BufferedReader
from pathlib import Path
from typing import IO, cast

import click

from ssinghal.core import files
from ssinghal.core.closing import Closing
from ssinghal.core.files import GZIP_START, MAX_LINE_BYTES, open_file, read_limited
from ssinghal.core.verdict import Status
from ssinghal.errors import InvalidCase, visible
from ssinghal.runs.line_files import blocks

MAX_LIST_BYTES = 2**26  # of calls that are in memory together, as of a catalog
_BLOCK = 2**20
_COLOURS = {"fits": "green", "oom": "red", "exceeds": "red"}  # other verdicts are yellow
_VERDICT = re.compile(rf"^({'|'.join([*Status, 'exceeds', 'unknown'])})(?=:| at | \(|$)", re.IGNORECASE | re.MULTILINE)


def echo(text: str, *, err: bool = False, nl: bool = True) -> None:
    """Prints a text that may repeat what others wrote: nothing in it moves the cursor, changes colours or opens a link."""
    click.echo(visible(text), err=err, nl=nl)


def show(lines: Iterable[str]) -> None:
    """Prints lines. A verdict at the start of one is coloured on a terminal, unless ``NO_COLOR`` is set."""
    click.echo(_VERDICT.sub(_coloured, visible("\n".join(lines))))


def _coloured(verdict: re.Match[str]) -> str:
    return click.style(verdict[0], fg=_COLOURS.get(verdict[0].lower(), "yellow"), bold=True)


def input_lines(source: Path) -> list[str]:
    """Returns the lines of a text file, unpacked where it is a gzip file, or of standard input for ``-``. Raises InvalidCase
    where it cannot be read."""
    if str(source) == "-" and sys.stdin is None:
        raise InvalidCase("-: standard input is closed")
    try:
        is_standard = str(source) == "-"
        data = sys.stdin.buffer.read(MAX_LIST_BYTES + 1) if is_standard else read_limited(source, MAX_LIST_BYTES, unpack=True)
        if len(data) > MAX_LIST_BYTES:
            raise InvalidCase(f"{source}: holds more than {MAX_LIST_BYTES:,} B")
        return data.decode("utf-8-sig").split("\n")
    except OSError as error:
        raise InvalidCase(f"{source}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise InvalidCase(f"{source}: not UTF-8 text (byte {error.start})") from error


class InputLines(Closing):
    """The lines of a text file, unpacked where it is a gzip file as the records of a compressed run, or of standard input for
    ``-``, one at a time and as often as they are iterated over.

    What can be read only once, as a pipe, is copied to a temporary file first, as it is, up to ``files.MAX_PIPE_BYTES``.

    Raises:
        InvalidCase: It cannot be read, is more than that, or is not UTF-8 text.
        HarnessError: It is a gzip file that is damaged or too large, as ``line_files.blocks`` has it.
    """

    def __init__(self, source: Path) -> None:
        self._source = source
        is_standard = str(source) == "-"
        if is_standard and sys.stdin is None:
            raise InvalidCase("-: standard input is closed")
        try:
            if not is_standard and source.is_file():
                self._file: IO[bytes] = open_file(source)
                self._is_packed = self._file.read(len(GZIP_START)) == GZIP_START
                return
            self._is_packed = False
            with nullcontext(sys.stdin.buffer) if is_standard else open_file(source, pipe=True) as given, ExitStack() as kept:
                self._file = kept.enter_context(tempfile.TemporaryFile())
                self._copy(cast("BufferedReader", given))
                kept.pop_all()
        except OSError as error:
            raise InvalidCase(f"{source}: {error.strerror}") from error

    def _copy(self, given: BufferedReader) -> None:
        """Copies a pipe to the temporary file. A device without line ends, as ``/dev/zero``, is refused early."""
        copied = unended = 0
        while block := given.read1(_BLOCK):
            end = block.rfind(b"\n")
            unended = unended + len(block) if end < 0 else len(block) - end - 1
            copied += len(block)
            if unended > MAX_LINE_BYTES:
                raise self._long_line()
            if copied > files.MAX_PIPE_BYTES:
                raise InvalidCase(f"{self._source}: {files.beyond_pipe()}")
            self._file.write(block)

    def _long_line(self) -> InvalidCase:
        return InvalidCase(f"{self._source}: a line of more than {MAX_LINE_BYTES:,} B")

    def _lines(self) -> Iterator[bytes]:
        if self._is_packed:
            for block in blocks(self._source, compressed=True):
                yield from block.complete_lines()
            return
        self._file.seek(0)
        while line := self._file.readline(MAX_LINE_BYTES + 1):
            if len(line) > MAX_LINE_BYTES:
                raise self._long_line()
            yield line

    def __iter__(self) -> Iterator[str]:
        start = 0
        try:
            for line in self._lines():
                yield line.decode("utf-8-sig" if start == 0 else "utf-8").removesuffix("\n")
                start += len(line)
        except UnicodeDecodeError as error:
            raise InvalidCase(f"{self._source}: not UTF-8 text (byte {start + error.start})") from error
        except OSError as error:
            raise InvalidCase(f"{self._source}: {error.strerror}") from error

    def close(self) -> None:
        self._file.close()


def check_writable(path: Path | None) -> None:
    """Raises InvalidCase where a file that is written at the end of long work could not be."""
    if path is not None and (path.is_dir() or not path.parent.is_dir()):
        reason = "it is a folder" if path.is_dir() else f"there is no folder {path.parent}"
        raise InvalidCase(f"cannot write {path}: {reason}")
    if path is not None and not os.access(path if path.exists() else path.parent, os.W_OK):
        raise InvalidCase(f"cannot write {path}: permission denied")


@contextmanager
def collector_off() -> Iterator[None]:
    """Switches Python's garbage collector off, which would go through a million records in use again and again."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()
