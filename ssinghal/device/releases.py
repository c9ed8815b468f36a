"""TTNN releases beside the installed one: each a folder with the unpacked wheel, which goes first on a worker's PYTHONPATH.

The same interpreter and the same other packages run it. Adding one is set-up, the only step here that uses the network: pip
fetches the wheel, from where its own configuration says.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

import platformdirs
from packaging.version import Version

from ssinghal.errors import HarnessError

_NUMBER = r"(?:0|[1-9]\d*)"
_VERSION = re.compile(rf"({_NUMBER})\.({_NUMBER})\.{_NUMBER}((?:a|b|rc|\.dev|\.post){_NUMBER})*")
_PREFIX = "ttnn-"
_MAKING = "making-"


@dataclass(frozen=True)
class Release:
    """A TTNN release that can be run here. ``folder`` holds its packages; the installed one is imported without it."""

    version: str
    folder: Path
    installed: bool = False

    @property
    def package(self) -> Path:
        return self.folder / "ttnn"

    @property
    def import_paths(self) -> list[str]:
        """What must go before all else that is imported."""
        return [] if self.installed else [str(self.folder)]

    @property
    def distribution(self) -> Distribution:
        (found,) = Distribution.discover(name="ttnn", path=[str(self.folder)])
        return found

    @property
    def size_bytes(self) -> int:
        """Of the files that its wheel laid down."""
        files = [Path(str(file.locate())) for file in self.distribution.files or ()]
        return sum(file.stat().st_size for file in files if file.is_file())


def why_not(version: str) -> str:
    """Why a release gives no full verdicts on a virtual device, measured of each; empty where it does, or is yet unknown."""
    parsed = _VERSION.fullmatch(version)
    if parsed is None:
        return f"{version!r} is no version of ttnn; expected one like 0.75.0"
    release = int(parsed[1]), int(parsed[2])
    if release < (0, 66):
        return f"ttnn {version} opens no virtual device: up to 0.65 its mock cluster cannot be initialized"
    if (0, 67) <= release <= (0, 74):
        return (
            f"ttnn {version} gives no full verdicts on a virtual device: from 0.67 to 0.74 it has slow dispatch only, in which "
            "programs that overflow L1 pass; 0.66.0 gives them, and so do those from 0.75.0 on"
        )
    return ""


def known_releases() -> list[Release]:
    """All that are here and give full verdicts, as far as is known: the installed one and those added, oldest first."""
    installed = installed_release()
    by_version = {release.version: release for release in (*added_releases(), *([installed] if installed else []))}
    return [by_version[version] for version in sorted(by_version, key=Version) if not why_not(version)]


def releases_home() -> Path:
    return platformdirs.user_cache_path("ssinghal").absolute() / "releases"


def installed_release() -> Release | None:
    """The release of this environment, found without importing it."""
    try:
        found = distribution("ttnn")
    except PackageNotFoundError:
        return None
    return Release(found.version, Path(str(found.locate_file(""))), installed=True)


def added_releases() -> list[Release]:
    """Oldest first."""
    folders = releases_home().glob(f"{_PREFIX}*")
    found = [Release(folder.name.removeprefix(_PREFIX), folder) for folder in folders]
    return sorted(filter(_is_whole, found), key=lambda release: Version(release.version))


def find_release(version: str) -> Release:
    """The installed or added release of this version.

    Raises:
        HarnessError: it is not here, or gives no full verdicts.
    """
    found = _found_release(version)
    if found is not None:
        return found
    raise HarnessError(why_not(version) or f"ttnn {version} is not here; add it with: ssinghal releases add {version}")


def add_release(version: str) -> Release:
    """Downloads and unpacks a release; at once where it is here already. An interrupted try leaves nothing.

    Raises:
        HarnessError: it gives no full verdicts, or pip has no wheel of it for this Python, or cannot fetch it.
    """
    fault = why_not(version)
    if fault:
        raise HarnessError(fault)
    here = _found_release(version)
    if here is not None:
        return here
    release = _added(version)
    with _aside() as aside:
        made = Release(version, aside / "made")
        _install(made)
        if release.folder.exists():
            release.folder.rename(aside / "damaged")
        try:
            made.folder.rename(release.folder)
        except OSError:
            if not _is_whole(release):  # else another process was faster: its folder is the same
                raise
    return release


def remove_release(version: str) -> Release:
    """Raises HarnessError where no such release was added."""
    release = _added(version)
    if not _VERSION.fullmatch(version) or not release.folder.exists():
        known = ", ".join(added.version for added in added_releases()) or "none"
        raise HarnessError(f"ttnn {version} was not added; added: {known}")
    with _aside() as aside:
        release.folder.rename(aside / "removed")
    return release


def _added(version: str) -> Release:
    return Release(version, releases_home() / f"{_PREFIX}{version}")


def _found_release(version: str) -> Release | None:
    installed, added = installed_release(), _added(version)
    if installed is not None and installed.version == version:
        return installed
    return added if _VERSION.fullmatch(version) and _is_whole(added) else None


def _is_whole(release: Release) -> bool:
    """A cleaner of caches may have taken files. Which ones pip laid down is in the last file that it writes."""
    if not (release.folder / f"ttnn-{release.version}.dist-info" / "RECORD").exists():
        return False
    parts = ("__init__.py", "tt_metal", "_ttnn*.so")
    return all(any(release.package.glob(name)) for name in parts) and release.distribution.version == release.version


def _install(release: Release) -> None:
    what = f"ttnn=={release.version}"
    into = ["--no-deps", "--only-binary", "ttnn", "--target", str(release.folder)]
    command = [sys.executable, "-m", "pip", "install", *into, what]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace")
    if done.returncode or not _is_whole(release):
        raise HarnessError(f"ttnn {release.version} cannot be added: {_why_pip_failed(done)}")


def _why_pip_failed(done: subprocess.CompletedProcess[str]) -> str:
    """pip's last error, and before it the broken connection that pip itself only warns of."""
    lines = [line.strip() for line in done.stderr.splitlines() if line.strip()]
    broken = [line for line in lines if "connection broken" in line]
    errors = [line.removeprefix("ERROR: ") for line in lines if line.startswith("ERROR: ")]
    said = [*broken[-1:], *(errors or lines or [f"exit code {done.returncode}, without a word"])[-1:]]
    python = ".".join(map(str, sys.version_info[:2]))
    return f"pip of Python {python} says: {'; '.join(said)}"


@contextmanager
def _aside() -> Iterator[Path]:
    """A folder on the same disk, gone afterwards; so are those of processes that were killed."""
    home = releases_home()
    home.mkdir(parents=True, exist_ok=True)
    for old in home.glob(f"{_MAKING}*"):
        pid = old.name.removeprefix(_MAKING).partition("-")[0]
        if not Path(f"/proc/{pid}").exists():
            shutil.rmtree(old, ignore_errors=True)
    folder = Path(tempfile.mkdtemp(dir=home, prefix=f"{_MAKING}{os.getpid()}-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
