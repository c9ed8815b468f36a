"""Private temporary folders for files that take room. Those that killed processes left go when the next one is made."""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
import weakref
from contextlib import ExitStack, suppress
from pathlib import Path

from ssinghal.core.closing import Closing
from ssinghal.core.locks import is_left, used_folder

PREFIX = "ssinghal-files-"


class TemporaryFolder(Closing):
    """A private folder, removed with all that is in it when it is closed, collected, or at the end of the program.

    It is in use until then, however the process ends.

    Raises:
        OSError: It cannot be made.
    """

    def __init__(self) -> None:
        parent = Path(tempfile.gettempdir())
        _remove_left(parent)
        use = ExitStack()
        self.path = use.enter_context(used_folder(parent, PREFIX)).resolve()
        self._end = weakref.finalize(self, use.close)

    def close(self) -> None:
        self._end()


def _remove_left(parent: Path) -> None:
    """Removes the user's folders that no process uses."""
    for folder in parent.glob(f"{PREFIX}*"):
        with suppress(OSError):  # another process removed it, or nothing can be locked there, so that nothing is known
            status = folder.lstat()
            if stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid() and is_left(folder):
                shutil.rmtree(folder, ignore_errors=True)
