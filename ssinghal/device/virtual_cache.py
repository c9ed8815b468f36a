"""Keeps the virtual device's cache bounded: kernels that nobody needs any more go when a device opens and no other is open.

A stand-in kernel takes about 50 KB in ten small files, and one is written for every new set of compile-time arguments, so that
a sweep over many shapes fills a disk. All of it can be created again.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from ssinghal.core.cache_folder import cache_folder, filling_cache
from ssinghal.core.locks import FileLock, is_left, used_folder

PURPOSE = "the files of virtual devices"
LINKS = ("tt_metal", "ttnn")  # of a runtime root, into the installed wheel
ROOT, KERNELS = "root", "kernels"
MAX_KERNELS = 40_000  # of one environment: about 2 GB; both suites and all catalogs need 19,300


def virtual_home() -> Path:
    """Returns the parent folder of everything virtual, for all ttnn versions."""
    return cache_folder("virtual")


def scratch_folders(*, in_use: bool) -> list[Path]:
    """Returns the folders that a process uses, on whatever machine, or those left by processes that were killed."""
    parent = virtual_home() / "scratch"
    return [folder for folder in parent.iterdir() if is_left(folder) != in_use] if parent.exists() else []


@contextmanager
def scratch_folder() -> Iterator[Path]:
    """Yields a temporary folder for files of TT-Metalium and MPI, which marks the cache as in use.

    Before that, what no process needs any more is removed: folders of killed processes, and surplus kernels.
    """
    with ExitStack() as stack:
        with filling_cache("virtual", PURPOSE), _alone():
            for old in scratch_folders(in_use=False):
                shutil.rmtree(old, ignore_errors=True)
            if not scratch_folders(in_use=True):
                remove_surplus(virtual_home())
            parent = virtual_home() / "scratch"
            parent.mkdir(exist_ok=True)
            folder = stack.enter_context(used_folder(parent))
        yield folder


def remove_surplus(home: Path) -> None:
    """Removes the folders of environments that are gone, and kernel caches beyond ``MAX_KERNELS``. Nobody may have a device
    open."""
    for folder in home.glob("ttnn-*"):
        links = [folder / ROOT / name for name in LINKS]
        if any(link.is_symlink() and not link.exists() for link in links):
            shutil.rmtree(folder, ignore_errors=True)
        elif count_kernels(folder / KERNELS) > MAX_KERNELS:
            for cache in (folder / KERNELS).iterdir():
                shutil.rmtree(cache, ignore_errors=True)


def count_kernels(kernels: Path) -> int:
    """Returns the number of compiled kernels in a cache of TT-Metalium: ``<build>/kernels/<name>/<arguments>/``."""
    return sum(len(os.listdir(name)) for name in kernels.glob("*/kernels/*"))


def disk_bytes(folder: Path) -> int:
    """Returns the bytes that a folder takes on disk, as ``du`` counts them; a walk over all files: seconds per gigabyte."""
    total = 0
    for where, folders, files in os.walk(folder):
        links = (name for name in folders if os.path.islink(os.path.join(where, name)))
        for path in (where, *(os.path.join(where, name) for name in (*files, *links))):
            try:
                total += 512 * os.lstat(path).st_blocks  # the unit of st_blocks, whatever the file system's blocks are
            except FileNotFoundError:  # of another process
                continue
    return total


def remove_all() -> list[Path]:
    """Empties the cache; returns the scratch folders of the processes that prevent it, where there are any."""
    home = virtual_home()
    if not home.exists():
        return []
    with filling_cache("virtual", PURPOSE), _alone():
        used = scratch_folders(in_use=True)
        for folder in home.iterdir():
            if folder.is_dir() and not used:
                shutil.rmtree(folder)
    return used


@contextmanager
def _alone() -> Iterator[None]:
    """Holds the lock under which processes enter and clean the cache, so that no one enters while it is cleaned."""
    home = virtual_home()
    home.mkdir(parents=True, exist_ok=True)
    with FileLock(home / "lock", wait=True):
        yield
