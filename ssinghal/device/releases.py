"""Manages TTNN releases besides the installed one: folders with the unpacked wheel, which are first on a worker's PYTHONPATH.

The same interpreter and the same other packages run them. Adding one is part of the setup, and the only step that uses the
network: pip downloads the wheel, as configured for pip.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

from packaging.version import Version

from ssinghal.core.cache_folder import cache_folder, check_private, filling_cache
from ssinghal.core.locks import LOCK, FileLock, is_left, used_folder
from ssinghal.device.known_wheels import requirement
from ssinghal.errors import HarnessError

_NUMBER = r"(?:0|[1-9]\d*)"
_VERSION = re.compile(rf"({_NUMBER})\.({_NUMBER})\.{_NUMBER}((?:a|b|rc|\.dev|\.post){_NUMBER})*")
_PREFIX = "ttnn-"
_MAKING = "making-"


@dataclass(frozen=True)
class Release:
    """A TTNN release that can be run here. ``folder`` has its packages; the installed one is imported without it."""

    version: str
    folder: Path
    installed: bool = False

    @property
    def package(self) -> Path:
        return self.folder / "ttnn"

    @property
    def import_paths(self) -> list[str]:
        """The folders that must come first on the import path."""
        return [] if self.installed else [str(self.folder)]

    @property
    def distribution(self) -> Distribution:
        (only,) = Distribution.discover(name="ttnn", path=[str(self.folder)])
        return only

    @property
    def size_bytes(self) -> int:
        """The bytes of the files that its wheel installed."""
        files = [Path(str(file.locate())) for file in self.distribution.files or ()]
        return sum(file.stat().st_size for file in files if file.is_file())


def why_not(version: str) -> str:
    """Returns why a release gives no full verdicts on a virtual device, as measured; empty where it does, or is not known."""
    parsed = _VERSION.fullmatch(version)
    if parsed is None:
        return f"{version!r} is not a version of ttnn; expected one like 0.75.0"
    release = int(parsed[1]), int(parsed[2])
    if release < (0, 66):
        return f"ttnn {version} opens no virtual device: up to 0.65 its mock cluster cannot be initialized"
    if (0, 67) <= release <= (0, 74):
        return (
            f"ttnn {version} gives no full verdicts on a virtual device: from 0.67 to 0.74 it has slow dispatch only, which "
            "accepts programs that overflow L1; 0.66.0 and releases from 0.75.0 on give full verdicts"
        )
    return ""


def known_releases() -> list[Release]:
    """Returns the releases that are available and give full verdicts as far as known, oldest first."""
    installed = installed_release()
    by_version = {release.version: release for release in (*added_releases(), *([installed] if installed else []))}
    return [by_version[version] for version in sorted(by_version, key=Version) if not why_not(version)]


def releases_home() -> Path:
    return cache_folder("releases")


def installed_release() -> Release | None:
    """Returns the release of this environment, without importing it; None where ttnn is not installed."""
    try:
        ttnn = distribution("ttnn")
    except PackageNotFoundError:
        return None
    return Release(ttnn.version, Path(str(ttnn.locate_file(""))), installed=True)


def added_releases() -> list[Release]:
    """Returns the releases that were added, oldest first."""
    folders = releases_home().glob(f"{_PREFIX}*")
    releases = [Release(folder.name.removeprefix(_PREFIX), folder) for folder in folders]
    return sorted(filter(_is_complete, releases), key=lambda release: Version(release.version))


def find_release(version: str) -> Release:
    """Returns the installed or added release of this version.

    Raises:
        HarnessError: it is not available, or gives no full verdicts.
    """
    release = _available_release(version)
    if release is not None:
        return release
    raise HarnessError(why_not(version) or f"ttnn {version} is not here; add it with: ssinghal releases add {version}")


def add_release(version: str) -> Release:
    """Downloads and unpacks a release that is not available yet. An interrupted attempt leaves nothing.

    Raises:
        HarnessError: it gives no full verdicts, or pip has no wheel of it for this Python, or cannot download it.
    """
    reason = why_not(version)
    if reason:
        raise HarnessError(reason)
    available = _available_release(version)
    if available is not None:
        return available
    release = _added(version)
    with filling_cache("releases", "added releases"), _temporary_folder() as temporary:
        new = Release(version, temporary / "made")
        _install(new)
        if release.folder.exists():
            release.folder.rename(temporary / "damaged")
        try:
            new.folder.rename(release.folder)
        except OSError:
            if not _is_complete(release):  # else another process was faster: its folder is the same
                raise
    return release


@contextmanager
def release_in_use(release: Release) -> Iterator[None]:
    """Keeps an added release from being removed, also by other processes."""
    if release.installed:
        yield
        return
    with _locked(release, fcntl.LOCK_SH, "is being removed"):
        yield


@contextmanager
def _locked(release: Release, kind: int, otherwise: str) -> Iterator[None]:
    """Holds a lock on the folder of a release, which ends with this process at the latest. HarnessError if another has it, or
    has removed the folder."""
    try:
        folder = os.open(release.folder, os.O_RDONLY)
    except FileNotFoundError:
        raise HarnessError(f"ttnn {release.version} was removed by another command") from None
    try:
        fcntl.flock(folder, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(folder)
        raise HarnessError(f"ttnn {release.version} {otherwise}: try again when that has ended") from None
    try:
        if not release.folder.exists() or not os.path.samestat(os.fstat(folder), release.folder.stat()):
            raise HarnessError(f"ttnn {release.version} was removed by another command")
        yield
    finally:
        os.close(folder)


def remove_release(version: str) -> Release:
    """Removes an added release.

    Raises:
        HarnessError: no such release was added, or a command is using it.
    """
    release = _added(version)
    if not _VERSION.fullmatch(version) or not release.folder.exists():
        known = ", ".join(added.version for added in added_releases()) or "none"
        raise HarnessError(f"ttnn {version} was not added; added: {known}")
    with _temporary_folder() as temporary, _locked(release, fcntl.LOCK_EX, "is in use by another command"):
        release.folder.rename(temporary / "removed")
    return release


def _added(version: str) -> Release:
    return Release(version, releases_home() / f"{_PREFIX}{version}")


def _available_release(version: str) -> Release | None:
    installed, added = installed_release(), _added(version)
    if installed is not None and installed.version == version:
        return installed
    return added if _VERSION.fullmatch(version) and _is_complete(added) else None


def _is_complete(release: Release) -> bool:
    """Returns whether no file is missing that pip installed, such as after a cleaner of caches; its record is written last."""
    check_private(release.folder)
    if not (release.folder / f"ttnn-{release.version}.dist-info" / "RECORD").exists():
        return False
    parts = ("__init__.py", "tt_metal", "_ttnn*.so")
    return all(any(release.package.glob(name)) for name in parts) and release.distribution.version == release.version


def _install(release: Release) -> None:
    options = ["--no-deps", "--only-binary", "ttnn", "--target", str(release.folder)]
    requirements = release.folder.with_name("requirements.txt")
    requirements.write_text(requirement(release.version))
    command = [sys.executable, "-m", "pip", "install", *options, "-r", str(requirements)]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace")
    if done.returncode or not _is_complete(release):
        raise HarnessError(f"ttnn {release.version} cannot be added: {_why_pip_failed(done)}")


def _why_pip_failed(done: subprocess.CompletedProcess[str]) -> str:
    """Returns pip's last error, after the broken connection that pip only reports as a warning."""
    lines = [line.strip() for line in done.stderr.splitlines() if line.strip()]
    broken = [line for line in lines if "connection broken" in line]
    errors = [line.removeprefix("ERROR: ") for line in lines if line.startswith("ERROR: ")]
    messages = [*broken[-1:], *(errors or lines or [f"exit code {done.returncode} without a message"])[-1:]]
    python = ".".join(map(str, sys.version_info[:2]))
    return f"pip of Python {python} reports: {'; '.join(messages)}"


@contextmanager
def _temporary_folder() -> Iterator[Path]:
    """Yields a temporary folder on the same disk; also removes those left by processes that were killed."""
    home = releases_home()
    home.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        with FileLock(home / LOCK, wait=True) as alone:
            for old in filter(is_left, home.glob(f"{_MAKING}*")):
                shutil.rmtree(old, ignore_errors=True)
            folder = stack.enter_context(used_folder(home, _MAKING))
            alone.remove()
        yield folder
