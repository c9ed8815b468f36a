"""Prepares a virtual board: the runtime root that TT-Metalium needs, and the environment that makes it open a mock cluster.

Everything is in the user's cache folder, keyed by ttnn version and by this file's own revision; site-packages is not touched.
The kernel cache there is filled by the stand-in compiler, and TT-Metalium would take those kernels for real ones (its key has
neither the compiler nor the mock), so no silicon run may ever see that folder: ``silicon_environment`` rejects one that does.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import tempfile
from collections.abc import Mapping, MutableMapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from ssinghal.core.boards import cluster_descriptor
from ssinghal.core.cache_folder import check_private, filling_cache
from ssinghal.core.device_facts import DeviceMode
from ssinghal.device.compiler_stub import is_standin, write_standin
from ssinghal.device.modes import MOCK_VARIABLE, DeviceChoice
from ssinghal.device.releases import Release, installed_release
from ssinghal.device.virtual_cache import KERNELS, LINKS, PURPOSE, ROOT, virtual_home
from ssinghal.errors import DeviceUnavailable

LAYOUT_REVISION = 3
MARKER = "kernels-here-do-nothing"  # a file in every folder of the virtual device, wherever the cache folder was then
SFPI = Path("runtime", "sfpi")
HARDWARE = Path("runtime", "hw")  # linker scripts and objects, in the wheel and in the root
INSTALL_HINT = "install it with: pip install 'ssinghal[device]'"

# Variables of TT-Metalium, TTNN and MPI change a virtual board (its dispatch, banks, allocator), so no inherited one may reach
# it. Those that only control the log may, where the log is requested.
_OWNED = ("TT_", "TTNN_", "ARCH_NAME", "WH_ARCH_YAML", "OMPI_", "PMIX_", "PRTE_")
_LOG = ("TT_LOGGER_", "TT_METAL_LOGGER_")


@dataclass(frozen=True)
class VirtualRoot:
    """The folders of one ttnn version: ``root`` (runtime root), ``kernels`` (cache of stand-in kernels)."""

    folder: Path

    @property
    def root(self) -> Path:
        return self.folder / ROOT

    @property
    def kernels(self) -> Path:
        return self.folder / KERNELS


def ttnn_package(release: Release | None = None) -> tuple[Path, str]:
    """Returns folder and version of a release's ttnn package, or of the installed one.

    Raises:
        DeviceUnavailable: ttnn is not installed.
    """
    release = release or installed_release()
    if release is None:
        raise DeviceUnavailable(f"ttnn is not installed in this environment; {INSTALL_HINT}")
    return release.package, release.version


def prepare_root(release: Release | None = None) -> VirtualRoot:
    """Creates the runtime root of a ttnn release, where it is missing or damaged: three symlinks and the stand-in compiler.

    It is built elsewhere and renamed into place, so that it is complete even if processes start together or are killed.
    """
    package, version = ttnn_package(release)
    odd = re.search(r"[^A-Za-z0-9_./+@%=:,~-]", str(virtual_home()))
    if odd:
        where = f"{virtual_home()} ({odd[0]!r} in the path)"
        raise DeviceUnavailable(f"TT-Metalium cannot start a compiler from {where}; set XDG_CACHE_HOME to another folder")
    virtual = _root_of(package, version)
    for folder in (virtual.folder, virtual.root, virtual.kernels):
        check_private(folder)
    if not _is_complete(virtual.root, package):
        with filling_cache("virtual", PURPOSE):
            _create_root(virtual, package)
    _link_hardware(virtual.root, package)
    return virtual


def _link_hardware(root: Path, package: Path) -> None:
    """Links the inputs of the linker. A root without them works, as earlier versions made it, but TT-Metalium then keeps no
    hash of a link, and every process links all of its kernels again."""
    if (package / HARDWARE).is_dir() and not (root / HARDWARE).exists():
        with suppress(OSError):  # made by another process, or not to be written
            (root / HARDWARE).symlink_to(package / HARDWARE)


def _create_root(virtual: VirtualRoot, package: Path) -> None:
    virtual.kernels.mkdir(parents=True, exist_ok=True)
    (virtual.folder / MARKER).touch()
    temporary = Path(tempfile.mkdtemp(dir=virtual.folder, prefix="making-"))
    try:
        (temporary / "root").mkdir()
        for name in LINKS:
            (temporary / "root" / name).symlink_to(package / name)
        write_standin(temporary / "root" / SFPI, package)
        if virtual.root.exists() and not _is_complete(virtual.root, package):
            virtual.root.rename(temporary / "damaged")
        (temporary / "root").rename(virtual.root)
    except OSError:
        if not _is_complete(virtual.root, package):  # else another process was faster: its root is the same
            raise
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _root_of(package: Path, version: str) -> VirtualRoot:
    mark = hashlib.sha256(f"{package}:{LAYOUT_REVISION}".encode()).hexdigest()[:8]
    return VirtualRoot(virtual_home() / f"ttnn-{version}-{mark}")


def remove_root(release: Release) -> None:
    """Removes a release's runtime root and kernel cache, if there are any."""
    shutil.rmtree(_root_of(release.package, release.version).folder, ignore_errors=True)


def _is_complete(root: Path, package: Path) -> bool:
    """Returns whether nothing is missing: a cleaner of caches may take files, a moved environment the targets of links."""
    links = all((root / name).is_dir() and (root / name).samefile(package / name) for name in LINKS)
    return links and is_standin(root / SFPI, package)


def virtual_environment(
    root: VirtualRoot, descriptor: Path, scratch: Path, environ: Mapping[str, str], *, ttnn_log: bool = False
) -> dict[str, str | None]:
    """Returns the variables that make ttnn open ``descriptor`` as a mock cluster; None means: must not be set.

    They must be set before ttnn is imported. The reasons are measured facts about ttnn 0.66 to 0.81.1.
    """
    inherited = {n for n in environ if n.startswith(_OWNED) and not (ttnn_log and n.startswith(_LOG))}
    return {
        **dict.fromkeys(inherited),
        MOCK_VARIABLE: str(descriptor),
        "TT_METAL_RUNTIME_ROOT": str(root.root),
        "TT_METAL_CACHE": str(root.kernels),  # otherwise stand-in kernels land in the cache that real boards use
        **with_own_scratch(scratch),  # otherwise generated/ appears in the working folder
        "TT_METAL_DISABLE_BACKTRACE": "1",  # an out-of-memory exception then costs 20 us instead of 925
        "TT_METAL_SHM_TRACKING_DISABLED": "1",  # otherwise /dev/shm gets the file in which real boards track memory
        "OMPI_MCA_btl": "self",  # otherwise MPI leaves 16 MiB in /dev/shm per process
        "HOME": environ.get("HOME") or str(scratch),  # without it TT-Metalium ends with a segmentation fault
        **({} if ttnn_log else {"TT_LOGGER_LEVEL": "off", "LOGURU_LEVEL": "WARNING"}),
    }


def descriptor_in_force(environ: Mapping[str, str] = os.environ) -> Path | None:
    """Returns the cluster descriptor of the virtual board that ``environ`` is prepared for, None where it is not."""
    descriptor, root = environ.get(MOCK_VARIABLE), environ.get("TT_METAL_RUNTIME_ROOT")
    return Path(descriptor) if descriptor and root and _is_virtual(Path(root).resolve()) else None


def with_own_scratch(scratch: Path) -> dict[str, str | None]:
    """Returns the variables that a process changes which joins an environment in force, with a folder of its own."""
    return {"TT_METAL_LOGS_PATH": str(scratch), "TMPDIR": str(scratch)}


def silicon_environment(environ: Mapping[str, str] = os.environ, *, ttnn_log: bool = False) -> dict[str, str | None]:
    """Returns the variables for a real card or a simulator.

    Raises:
        DeviceUnavailable: a runtime root or kernel cache of the virtual device is configured. Its kernels do nothing, and
            TT-Metalium would run them on the card.
    """
    for name in ("TT_METAL_CACHE", "TT_METAL_RUNTIME_ROOT", "TT_METAL_HOME"):
        value = environ.get(name)
        if value and _is_virtual(Path(value).resolve()):
            raise DeviceUnavailable(
                f"{name}={value} belongs to the virtual device, whose kernels must never run on a card: unset it"
            )
    quiet: dict[str, str | None] = {"TT_METAL_DISABLE_BACKTRACE": "1"}
    return quiet if ttnn_log else {**quiet, "TT_LOGGER_LEVEL": "off", "LOGURU_LEVEL": "WARNING"}


def _is_virtual(path: Path) -> bool:
    return any(folder == virtual_home().resolve() or (folder / MARKER).exists() for folder in (path, *path.parents))


def environment_for(
    choice: DeviceChoice, scratch: Path, environ: Mapping[str, str] = os.environ, *, release: Release | None = None
) -> dict[str, str | None]:
    """Returns the variables that a chosen device changes in ``environ``; None means: must not be set.

    Raises:
        DeviceUnavailable: it is not available here, or it is a card and the release is not the installed one.
    """
    if choice.mode in (DeviceMode.VIRTUAL, DeviceMode.GOLDEN):  # TTNN asks a cluster for the sizes of host tiles too
        root = prepare_root(release)
        descriptor = choice.descriptor or cluster_descriptor(choice.board)
        return virtual_environment(root, descriptor, scratch, environ, ttnn_log=choice.ttnn_log)
    if release is not None and not release.installed:
        raise DeviceUnavailable(f"ttnn {release.version} is not installed, and other releases run on --device virtual only")
    return silicon_environment(environ, ttnn_log=choice.ttnn_log)


def apply_environment(changes: Mapping[str, str | None], environ: MutableMapping[str, str] = os.environ) -> None:
    """Sets variables in ``environ``, and removes those that must not be set."""
    for name, value in changes.items():
        if value is None:
            environ.pop(name, None)
        else:
            environ[name] = value
