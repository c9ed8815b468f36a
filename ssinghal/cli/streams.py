"""What commands read and print."""

from __future__ import annotations

import gc
import os
import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from ssinghal.core.record import Status
from ssinghal.errors import InvalidCase

_COLOURS = {"fits": "green", "oom": "red", "exceeds": "red"}  # other verdicts are yellow
_VERDICT = re.compile(rf"^({'|'.join([*Status, 'exceeds', 'unknown'])})(?=:| at | \(|$)", re.IGNORECASE | re.MULTILINE)


def show(lines: Iterable[str]) -> None:
    """Prints lines. A verdict at the start of one is coloured on a terminal, unless ``NO_COLOR`` is set."""
    click.echo(_VERDICT.sub(_coloured, "\n".join(lines)))


def _coloured(verdict: re.Match[str]) -> str:
    return click.style(verdict[0], fg=_COLOURS.get(verdict[0].lower(), "yellow"), bold=True)


def input_lines(source: Path) -> list[str]:
    """Returns the lines of a text file, or of standard input for ``-``. Raises InvalidCase where it cannot be read."""
    if str(source) == "-" and sys.stdin is None:
        raise InvalidCase("-: standard input is closed")
    try:
        data = sys.stdin.buffer.read() if str(source) == "-" else source.read_bytes()
        return data.decode("utf-8-sig").split("\n")
    except OSError as error:
        raise InvalidCase(f"{source}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise InvalidCase(f"{source}: not UTF-8 text (byte {error.start})") from error


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
