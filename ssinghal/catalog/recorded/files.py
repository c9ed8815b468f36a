"""Opens recordings: text or gzip, JSON lines or one JSON document. Whatever is damaged is one line ``file:line: what``."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ssinghal.core.files import open_file
from ssinghal.errors import CatalogError

_GZIP = b"\x1f\x8b"
LIMIT_BYTES = 2**30  # of a file, unpacked
_BLOCK = 2**20


def read_bytes(file: Path) -> bytes:
    """Returns the content of a file, unpacked.

    Raises:
        CatalogError: It cannot be read, is a damaged archive, or holds more than ``LIMIT_BYTES``.
    """
    parts: list[bytes] = []
    size = 0
    try:
        with open_file(file) as raw, gzip.GzipFile(fileobj=raw) if raw.peek(2)[:2] == _GZIP else raw as source:
            while block := source.read(_BLOCK):
                size += len(block)
                if size > LIMIT_BYTES:
                    raise CatalogError([f"{file}:1: holds more than {LIMIT_BYTES:,} B"])
                parts.append(block)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        line = b"".join(parts).count(b"\n") + 1
        raise CatalogError([f"{file}:{line}: is a damaged archive: {error}"]) from error
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        raise CatalogError([f"{file}:1: {getattr(error, 'strerror', None) or error}"]) from error
    return b"".join(parts)


def read_text(file: Path) -> str:
    """Returns the text of a file; CatalogError as of ``read_bytes``, or where it is no UTF-8."""
    raw = read_bytes(file)
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise CatalogError([f"{file}:{line}: is not UTF-8 text"]) from error


def parsed(text: str, file: Path, line: int = 1) -> Any:
    """Returns what a JSON text says, which begins at ``line`` of a file; CatalogError where it is no JSON."""
    try:
        return json.loads(text, parse_constant=_no_number)
    except json.JSONDecodeError as error:
        raise CatalogError([f"{file}:{line + error.lineno - 1}: is not JSON: {error.msg}"]) from error
    except RecursionError as error:
        raise CatalogError([f"{file}:{line}: is nested too deep"]) from error
    except ValueError as error:  # NaN, and whole numbers of more than 4,300 digits
        raise CatalogError([f"{file}:{line}: {error}"]) from error


def _no_number(name: str) -> Any:
    raise ValueError(f"{name} is no number of JSON")


def lines(text: str) -> Iterator[tuple[int, str]]:
    """Yields the number and text of every line that is not blank."""
    return ((number, line) for number, line in enumerate(text.split("\n"), 1) if line.strip())
