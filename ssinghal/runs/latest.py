"""The link ``latest`` to the last run in a folder of runs, and what becomes of a run that fails before it is complete."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from ssinghal.core.files import sync_folder
from ssinghal.core.locks import is_left, link_beside, used_folder
from ssinghal.errors import HarnessError

LATEST = "latest"
_MAKING = ".making-"


def link_latest(parent: Path, run: str) -> None:
    """Makes ``latest`` in ``parent`` a link to ``run``, in one step.

    Raises:
        HarnessError: Something else has the name.
        OSError: It cannot be made.
    """
    _check_latest(parent)
    temporary = link_beside(parent / LATEST)
    try:
        temporary.symlink_to(run, target_is_directory=True)
        temporary.replace(parent / LATEST)
        sync_folder(parent)
    finally:
        temporary.unlink(missing_ok=True)


def _check_latest(parent: Path) -> None:
    """Raises HarnessError where ``latest`` is no link: the file or folder of someone else."""
    latest = parent / LATEST
    if latest.exists() and not latest.is_symlink():
        what = "a folder" if latest.is_dir() else "a file"
        raise HarnessError(f"{latest}: is {what}; expected a link to the last run, or nothing: move it away")


@contextmanager
def hidden_until_complete(parent: Path, run: str) -> Iterator[Path]:
    """Yields a hidden folder in ``parent`` in which the folder of the new ``run`` is made. At the end that gets its place, and
    ``latest`` points to it. A failure leaves nothing, and what a killed process leaves is removed by the next one.

    Raises:
        HarnessError: ``latest`` is there, and no link.
        OSError: The hidden folder cannot be made, or the new one cannot get its place.
    """
    _check_latest(parent)
    made = [folder for folder in (parent, *parent.parents) if not folder.exists()]
    try:
        parent.mkdir(parents=True, exist_ok=True)
        for left in parent.glob(f"{_MAKING}*"):
            with suppress(OSError):  # nothing can be locked there, so that nothing is known
                if is_left(left):
                    shutil.rmtree(left, ignore_errors=True)
        with used_folder(parent, _MAKING) as absolute:
            hidden = parent / absolute.name
            yield hidden
            if (parent / run).exists():
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST))
            (hidden / run).rename(parent / run)
            try:
                link_latest(parent, run)
            except BaseException:
                shutil.rmtree(parent / run, ignore_errors=True)
                raise
    except BaseException:
        for folder in made:
            with suppress(OSError):  # another process has something in it
                folder.rmdir()
        raise


class NewFolder:
    """The folder of the new ``run`` in ``parent``, which this process has made.

    Raises:
        OSError: It cannot be made, or is there already: another process has it.
    """

    def __init__(self, parent: Path, run: str) -> None:
        self._parent, self._run = parent, run
        self._before = _target(parent)
        self._made = [folder for folder in (parent, *parent.parents) if not folder.exists()]
        try:
            (parent / run).mkdir(parents=True)
        except OSError:
            self._remove_parents()
            raise

    @contextmanager
    def removed_after_failure(self) -> Iterator[None]:
        """Removes the folder if the block fails, however it does. ``latest`` then points to what it pointed to before, and
        folders that were made for the run are gone."""
        try:
            yield
        except BaseException:
            shutil.rmtree(self._parent / self._run, ignore_errors=True)
            if _target(self._parent) == self._run:  # not yet another run's
                with suppress(OSError):
                    (self._parent / LATEST).unlink() if self._before is None else link_latest(self._parent, self._before)
            self._remove_parents()
            raise

    def _remove_parents(self) -> None:
        for folder in self._made:
            with suppress(OSError):  # another process has something in it
                folder.rmdir()


def _target(parent: Path) -> str | None:
    try:
        return os.readlink(parent / LATEST)
    except OSError:
        return None
