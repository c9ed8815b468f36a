"""The user's cache folder: files that take time to create and can be created again."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import platformdirs

from ssinghal.errors import HarnessError


def cache_folder(kind: str) -> Path:
    """Returns the folder of one kind of files."""
    return platformdirs.user_cache_path("ssinghal").absolute() / kind


@contextmanager
def filling_cache(kind: str, purpose: str) -> Iterator[None]:
    """Turns an error of the file system into one that names the folder, what it is for, and the way to use another one."""
    try:
        yield
    except OSError as error:
        path = error.filename or cache_folder(kind)
        raise HarnessError(
            f"cannot write {path}, for {purpose}: {error.strerror}; set XDG_CACHE_HOME to another folder"
        ) from error
