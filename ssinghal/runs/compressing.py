"""Compresses the records of a run, and unpacks them again. The old file goes only after the new one was read back in full."""

from __future__ import annotations

import gzip
import os
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import BinaryIO, cast

from ssinghal.core.files import refuse_special, replacing
from ssinghal.errors import HarnessError
from ssinghal.runs.column_file import forget_columns
from ssinghal.runs.folder_lock import FolderLock
from ssinghal.runs.line_files import COMPRESSED, RECORDS, Block, blocks, is_compressed

LEVEL = 6


@dataclass(frozen=True)
class Repacked:
    """The sizes of a run's records in bytes before and after; equal where there was nothing to do."""

    before: int
    after: int


def repack(folder: Path, *, undo: bool = False) -> Repacked:
    """Compresses the records of a run's folder. ``undo``: unpacks them. Of two files with the same lines, which a killed
    process leaves, one is removed.

    Raises:
        HarnessError: The folder has no records, or two files that differ, is written by another process, or cannot be written;
            or a file is damaged, or a link.
    """
    try:
        with FolderLock(folder):
            return repack_held(folder, undo=undo)
    except OSError as error:
        raise HarnessError(f"cannot open {folder}: {error.strerror}") from error


def repack_held(folder: Path, *, undo: bool) -> Repacked:
    """Does what ``repack`` does in a folder whose lock the caller holds."""
    plain, packed = folder / RECORDS, folder / COMPRESSED
    source, target = (packed, plain) if undo else (plain, packed)
    try:
        refuse_special(plain, packed)
        if plain.is_file() and packed.is_file():
            return _without_copy(source, target, packed)
        if not source.is_file():
            if not target.is_file():
                raise HarnessError(f"{folder}: expected a run's folder, with {RECORDS} or {COMPRESSED} in it")
            return Repacked(target.stat().st_size, target.stat().st_size)
        before = source.stat()
        with replacing(target) as temporary:
            digest = _written(source, temporary)
            os.utime(temporary, ns=(before.st_atime_ns, before.st_mtime_ns))
            if _digest(blocks(temporary, compressed=not undo)) != digest:
                raise HarnessError(f"{temporary} does not read as it was written: {source} is kept")
            if (source.stat().st_size, source.stat().st_mtime_ns) != (before.st_size, before.st_mtime_ns):
                raise HarnessError(f"{source} was changed meanwhile: it is kept")
        source.unlink()
        forget_columns(folder)
        return Repacked(before.st_size, target.stat().st_size)
    except OSError as error:
        raise HarnessError(f"cannot write {target}: {error.strerror}") from error


def _without_copy(source: Path, target: Path, packed: Path) -> Repacked:
    """Removes ``source``, where ``target`` holds the same lines. Readers take the plain file, and never the other one."""
    before = source.stat().st_size
    if _digest(blocks(source)) != _digest(blocks(target)):
        current = source if target == packed else target
        raise HarnessError(
            f"{packed}: other records than in {current.name} beside it, which every command reads: both are kept; remove one"
        )
    source.unlink()
    forget_columns(source.parent)
    return Repacked(before, target.stat().st_size)


def _written(source: Path, to: Path) -> bytes:
    """Writes the lines of ``source`` to a file, compressed or not as the other is not, and returns their digest."""
    with to.open("wb") as raw:
        with nullcontext(raw) if is_compressed(source) else _packing(raw) as file:
            digest = _digest(_copied(blocks(source), file))
        raw.flush()
        os.fsync(raw.fileno())
    return digest


def _packing(raw: BinaryIO) -> BinaryIO:
    """Without name and time, so that equal lines give equal files."""
    return cast(BinaryIO, gzip.GzipFile("", "wb", LEVEL, raw, mtime=0))


def _copied(read: Iterator[Block], to: BinaryIO) -> Iterator[Block]:
    for block in read:
        to.write(block.data)
        yield block


def _digest(read: Iterator[Block]) -> bytes:
    digest = blake2b()
    for block in read:
        digest.update(block.data)
    return digest.digest()
