"""The user's cache folder: files that take time to create and can be created again.

What lies there is run and believed: releases, stand-in kernels, sizes of boards. So it is the user's alone.
"""

from __future__ import annotations

import os
import shlex
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import platformdirs

from ssinghal.errors import HarnessError

_PRIVATE = 0o700


def cache_folder(kind: str) -> Path:
    """Returns the folder of one kind of files.

    Raises:
        HarnessError: It, or the folder of all kinds, is another user's, or can be written by others.
    """
    home = platformdirs.user_cache_path("ssinghal").absolute()
    for folder in (home, home / kind):
        check_private(folder)
    return home / kind


def check_private(path: Path) -> None:
    """Refuses a folder or file that somebody else could have filled. One that does not exist is no fault.

    Raises:
        HarnessError: It is another user's, or can be written by others.
    """
    try:
        status = path.stat()
    except OSError:  # whoever needs it states why it cannot be reached
        return
    if status.st_uid != os.geteuid():
        raise HarnessError(f"{path} belongs to another user ({status.st_uid}): set XDG_CACHE_HOME to another folder")
    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise HarnessError(
            f"{path} can be written by others: after a look at what is in it, chmod -R go-w {shlex.quote(str(path))}; or set "
            "XDG_CACHE_HOME to another folder"
        )


@contextmanager
def filling_cache(kind: str, purpose: str) -> Iterator[None]:
    """Makes the folder of one kind, for its user alone, and turns an error of the file system into one that names the folder,
    what it is for, and the way to use another one."""
    try:
        folder = cache_folder(kind)
        folder.mkdir(_PRIVATE, parents=True, exist_ok=True)
        if stat.S_IMODE(folder.parent.stat().st_mode) & ~_PRIVATE:  # new, or of an earlier version
            folder.parent.chmod(_PRIVATE)
        yield
    except OSError as error:
        path = error.filename or cache_folder(kind)
        raise HarnessError(
            f"cannot write {path}, for {purpose}: {error.strerror}; set XDG_CACHE_HOME to another folder"
        ) from error
