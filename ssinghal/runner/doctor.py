"""Checks the environment and suggests a fix for every check that fails."""

from __future__ import annotations

import platform
import sys
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from ssinghal.core.boards import DEFAULT_BOARD, board_names, load_board, own_boards_home
from ssinghal.core.tensors import format_bytes
from ssinghal.core.versions import package_versions
from ssinghal.device.modes import choose_device, silicon_nodes
from ssinghal.device.virtual import INSTALL_HINT
from ssinghal.device.virtual_cache import MAX_KERNELS, disk_bytes, remove_all, virtual_home
from ssinghal.errors import DEVICE_ERRORS, DeviceUnavailable, reason
from ssinghal.runner.pool import Pool

MIN_GLIBC = (2, 34)
TTNN_PYTHONS = ((3, 10), (3, 12))


@dataclass(frozen=True)
class Check:
    """The result of one check. ``fix``: the command or step that fixes it, where ``found`` does not name it."""

    name: str
    ok: bool
    found: str
    fix: str = ""


def examine(mode: str, board: str | None, *, ttnn_log: bool = False) -> tuple[list[Check], dict[str, Any]]:
    """Returns all checks, and the facts of the device that opened (empty if none did). InvalidCase for an unknown board."""
    load_board(board or DEFAULT_BOARD)  # an unknown name is an error of the caller, not a failed check
    checks = [_python(), _glibc(), _ttnn(), _torch()]
    checks.append(Check("boards", True, f"{', '.join(board_names())}; taken from descriptors: {own_boards_home()}"))
    nodes = silicon_nodes()
    checks.append(Check("silicon", True, ", ".join(nodes) or "none (virtual devices need none)"))
    device, facts = _device(mode, board, ttnn_log)
    # After that, since opening a device removes what no environment needs any more.
    size = f"{format_bytes(disk_bytes(virtual_home()))} on disk, at most {MAX_KERNELS:,} kernels for each environment"
    checks.append(Check("virtual device cache", True, f"{virtual_home()}: {size} (remove with: ssinghal doctor --clean)"))
    checks.append(device)
    return checks, {"device": facts, "versions": package_versions()}


def _device(mode: str, board: str | None, ttnn_log: bool) -> tuple[Check, dict[str, Any]]:
    try:
        choice = choose_device(mode, board, ttnn_log=ttnn_log)
        with Pool(choice) as pool:
            facts = asdict(pool.facts)
    except DEVICE_ERRORS as error:
        return Check("device", False, reason(error)), {}
    return Check("device", True, f"{choice.mode} {choice.board}: {choice.reason}; {pool.facts.proof}"), facts


def clean() -> Path:
    """Removes the virtual device's runtime roots and kernel caches; they are created again when needed.

    Raises:
        DeviceUnavailable: a process has a virtual device open, or seems to (a folder's name has its number and its machine).
    """
    home = virtual_home()
    used = remove_all()
    if used:
        raise DeviceUnavailable(f"{home} is in use; end what uses it, or remove its folder: {', '.join(map(str, used))}")
    return home


def _python() -> Check:
    ok = sys.version_info[:2] in TTNN_PYTHONS
    return Check(
        "python",
        ok,
        platform.python_version(),
        "ttnn has wheels for Python 3.10 and 3.12: PYTHON=python3.12 ./run_all_tests.sh",
    )


def _glibc() -> Check:
    name, found = platform.libc_ver()
    ok = name == "glibc" and tuple(int(x) for x in found.split(".")[:2]) >= MIN_GLIBC
    return Check(
        "glibc",
        ok,
        f"{name} {found}".strip() or "not glibc",
        "ttnn's wheel needs glibc 2.34 or newer: use a newer Linux or container",
    )


def _ttnn() -> Check:
    try:
        return Check("ttnn", True, version("ttnn"))
    except PackageNotFoundError:
        return Check("ttnn", False, "not installed", INSTALL_HINT)


def _torch() -> Check:
    try:
        return Check("torch", True, version("torch"))
    except PackageNotFoundError:
        return Check("torch", True, "not installed (only numerics on silicon and catalog capture need it)")
