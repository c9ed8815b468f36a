"""Locks that end with their process, however it ends, and temporary files and folders that are in use while they are locked.

``flock`` holds between processes of one machine, whatever container they are in, on every file system that has locks; on NFS
and on most others between machines as well, if the file is open for writing. Where it does not, names have the machine.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import socket
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from glob import escape
from hashlib import sha256
from pathlib import Path

from ssinghal.core.closing import Closing

LOCK = ".lock"  # in a folder that is in use
OLD_S = 7 * 86_400.0  # what another machine left is taken for given up once nothing was added to it for so long
_BOOT = Path("/proc/sys/kernel/random/boot_id")  # equal in all containers of a machine, until it starts anew
_OF_EARLIER_VERSION = re.compile(r"-\d+$")  # the number of a process, which may be one of another machine
_MARK = re.compile(r"-(?P<host>[A-Za-z0-9_.]+)-(?P<boot>[0-9a-f]{8})-[^-]*$")


class FileLock(Closing):
    """Locks a file for this process alone, and makes it where it is missing. A link is refused.

    ``wait``: for as long as another process holds it. ``make``: False where a missing file is an error.

    Raises:
        BlockingIOError: Another process holds it.
        OSError: It cannot be opened, or its file system has no locks.
    """

    def __init__(self, path: Path, *, wait: bool = False, make: bool = True) -> None:
        self._path = path
        self._descriptor = self._opened(wait, os.O_CREAT if make else 0)
        while not self._is_at_its_path():  # removed by the process that held it
            os.close(self._descriptor)
            self._descriptor = self._opened(wait, os.O_CREAT if make else 0)

    def close(self) -> None:
        if self._descriptor != -1:
            os.close(self._descriptor)
            self._descriptor = -1

    def remove(self) -> None:
        """Removes the file and ends the lock. A process that waits for it locks a new file."""
        if self._descriptor != -1:
            with suppress(OSError):  # its folder is gone, or cannot be written any more: nobody is misled by a file left
                self._path.unlink()
            self.close()

    def _opened(self, wait: bool, make: int) -> int:
        flags = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK | make
        descriptor = os.open(self._path, flags, 0o666)
        try:
            lock(descriptor, self._path, wait=wait)
        except OSError:
            os.close(descriptor)
            raise
        return descriptor

    def _is_at_its_path(self) -> bool:
        try:
            return os.path.samestat(os.fstat(self._descriptor), self._path.lstat())
        except FileNotFoundError:
            return False


def lock(descriptor: int, path: Path, *, wait: bool = False) -> None:
    """Locks an open file until its last descriptor is closed.

    Raises:
        BlockingIOError: Another process holds it.
        OSError: The file system has no locks. Both name ``path``.
    """
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except OSError as error:
        raise OSError(
            error.errno, error.strerror if isinstance(error, BlockingIOError) else no_lock(error), str(path)
        ) from error


def no_lock(error: OSError) -> str:
    """Returns why a file cannot be locked that no other process holds."""
    return f"no locks here ({error.strerror})"


@contextmanager
def used_folder(parent: Path, prefix: str = "") -> Iterator[Path]:
    """Yields a new temporary folder in ``parent``, which is in use until the end of the block or of this process.

    Make it while no other process looks for what is left. Its name has the number of the process and the name of the machine,
    for whoever looks for what uses it.
    """
    folder = Path(tempfile.mkdtemp(dir=parent, prefix=f"{prefix}{os.getpid()}-{mark()}-"))
    held = None
    try:
        held = FileLock(folder / LOCK)
        yield folder
    finally:
        if held:
            held.close()  # first: NFS keeps a removed file in its folder while it is open
        shutil.rmtree(folder, ignore_errors=True)


def is_left(folder: Path) -> bool:
    """Returns whether the process that made a ``used_folder`` has ended without removing it. False for one that is gone.

    A folder of another machine, whose locks may not be seen here, and one without a lock, as earlier versions made them, is
    left only when it is old.

    Raises:
        OSError: Its file system has no locks.
    """
    try:
        with FileLock(folder / LOCK, make=False):
            return is_of_here(folder.name) or _is_old(folder)
    except BlockingIOError:
        return False
    except FileNotFoundError:
        return _is_old(folder)


def temporary_beside(file: Path) -> Path:
    """Returns a path in the folder of ``file`` that no other process, on whatever machine, has or will have, and removes the
    temporary files there that killed processes left."""
    for path, _ in temporaries(file.parent, escape(file.name)):
        remove_left(path)
    return file.with_name(f".{file.name}-{mark()}-{os.urandom(4).hex()}")


def link_beside(file: Path) -> Path:
    """Returns a path as ``temporary_beside`` for a link, which cannot be locked: its name has the number of this process, and
    the namespace in which that is its number."""
    path = temporary_beside(file)
    return path.with_name(f"{path.name}.{_namespace()}.{os.getpid()}")


@contextmanager
def used_file(file: Path) -> Iterator[Path]:
    """Yields the path of a temporary file beside ``file``, which no other process removes until the end of the block or of this
    process. It is empty, or missing where none can be made; it may be renamed."""
    path = temporary_beside(file)
    held = None
    try:
        # Whoever writes it finds out why it cannot be made; where nothing can be locked, nobody removes it.
        with suppress(OSError):
            held = FileLock(path, wait=True)
        yield path
    finally:
        if held:
            held.close()
        path.unlink(missing_ok=True)


def temporaries(folder: Path, name: str = "*") -> Iterator[tuple[Path, str]]:
    """Yields the temporary files in a folder, in use or left, each with the name of the file that it is to become. ``name``: a
    pattern for that."""
    for path in folder.glob(f".{name}-*"):
        if end := _MARK.search(path.name) or _OF_EARLIER_VERSION.search(path.name):
            yield path, path.name[1 : end.start()]


def remove_left(path: Path) -> None:
    """Removes a temporary file or link whose process has ended."""
    try:
        with FileLock(path, make=False) as held:
            if is_of_here(path.name) or _is_old(path):
                held.remove()
    except OSError:  # in use, or gone, or another user's; or nothing can be locked here, so that nothing is known
        if path.is_symlink() and _is_left_link(path):
            path.unlink(missing_ok=True)


def _is_left_link(path: Path) -> bool:
    """Returns whether the process that made a link has ended; of one that cannot be seen here, whether it is old."""
    *_, namespace, pid = path.name.split(".")
    marked = _MARK.search(path.name)
    if marked is not None and marked["boot"] == _boot() and namespace == _namespace() != "" and pid.isdecimal():
        return not Path(f"/proc/{pid}").exists()
    return _is_old(path)


def mark() -> str:
    """Returns what distinguishes this machine, since it was started, from others: ``host-boot``, in at most 29 characters."""
    return f"{_host()}-{_boot()}"


def is_of_here(name: str) -> bool:
    """Returns whether a name that ends with a ``mark()`` and a random part was made on this machine, maybe before a restart."""
    found = _MARK.search(name)
    return found is not None and (found["host"] == _host() or found["boot"] == _boot())


def _is_old(path: Path) -> bool:
    try:
        return time.time() - path.lstat().st_mtime > OLD_S
    except FileNotFoundError:
        return False


def _host() -> str:
    return re.sub("[^A-Za-z0-9_.]", "_", socket.gethostname())[:20] or "_"


def _namespace() -> str:
    """Returns what distinguishes the numbers of processes here from those in other containers, "" if nothing is known."""
    try:
        return str(os.stat("/proc/self/ns/pid").st_ino)
    except OSError:
        return ""


@cache
def _boot() -> str:
    try:
        text = _BOOT.read_text()
    except OSError:
        text = socket.gethostname()
    return sha256(text.encode()).hexdigest()[:8]
