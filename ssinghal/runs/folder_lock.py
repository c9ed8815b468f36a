"""Holds the folder of a run that is being written, so that no other process writes it meanwhile."""

from __future__ import annotations

from pathlib import Path

from ssinghal.core.closing import Closing
from ssinghal.core.files import refuse_special
from ssinghal.core.locks import LOCK, FileLock
from ssinghal.errors import HarnessError


class FolderLock(Closing):
    """Locks ``folder`` until it is closed or this process ends, however it ends, by a file in it that goes with the lock.

    Not by the folder itself: on NFS its lock would be known to one machine alone.

    Raises:
        HarnessError: Another process holds the folder, or it cannot be locked.
        FileNotFoundError, NotADirectoryError: It is no folder.
    """

    def __init__(self, folder: Path) -> None:
        refuse_special(folder / LOCK)
        try:
            self._lock = FileLock(folder / LOCK)
        except BlockingIOError as error:
            raise HarnessError(f"{folder}: the run is still in progress in another process") from error
        except (FileNotFoundError, NotADirectoryError):
            raise
        except OSError as error:
            raise HarnessError(f"cannot lock {folder} against other commands: {error.strerror}") from error

    def close(self) -> None:
        self._lock.remove()


def is_in_progress(folder: Path) -> bool:
    """Whether another process writes the run of ``folder``. False where that cannot be known."""
    try:
        with FileLock(folder / LOCK, make=False):
            return False
    except BlockingIOError:
        return True
    except OSError:  # no lock, as after an end; or none can be held here
        return False
