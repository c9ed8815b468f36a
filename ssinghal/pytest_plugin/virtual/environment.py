"""Makes the process of pytest one that opens a virtual board, before anything in it imports ttnn."""

from __future__ import annotations

import os
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

import pytest

from ssinghal.core.boards import board_names, cluster_descriptor, cluster_file
from ssinghal.core.device_facts import DeviceMode
from ssinghal.device.modes import choose_device
from ssinghal.device.virtual import apply_environment, descriptor_in_force, environment_for, with_own_scratch
from ssinghal.device.virtual_cache import scratch_folder
from ssinghal.errors import HarnessError, InvalidCase
from ssinghal.pytest_plugin.virtual.options import AUTO, VIRTUAL
from ssinghal.runner.custom_boards import board_name

BOARD = pytest.StashKey[str]()  # of a process that opens a virtual board


def prepare(config: pytest.Config, requested: str) -> None:
    """Sets the environment until pytest ends: as ``ssinghal exec`` does, within which its board and release stay.

    Each process of xdist has a scratch folder of its own; they share the cache of stand-in kernels, as all virtual devices do.

    Raises:
        UsageError: ttnn is already imported, the board is unknown, or no virtual device is possible here.
    """
    if BOARD in config.stash:
        return
    if "ttnn" in sys.modules:
        raise pytest.UsageError(
            f"{VIRTUAL.flag}: ttnn is already imported; install ssinghal, or load it by -p ssinghal.plugin, not by a conftest"
        )
    kept = dict(os.environ)
    tempfile.gettempdir()  # Python keeps what it finds here, so that TMPDIR is TT-Metalium's and MPI's alone
    stack = ExitStack()
    config.add_cleanup(stack.close)
    try:
        scratch = stack.enter_context(scratch_folder())
        config.stash[BOARD] = _apply(requested, scratch)
    except HarnessError as error:
        raise pytest.UsageError(f"{VIRTUAL.flag}: {error}") from error
    stack.callback(_restore, kept)


def _apply(requested: str, scratch: Path) -> str:
    """Returns the board that the environment is now prepared for."""
    in_force = descriptor_in_force()
    board = None if requested == AUTO else board_name(requested)
    if in_force is None:
        choice = choose_device(DeviceMode.VIRTUAL, board)
        changes = environment_for(choice, scratch)
        apply_environment({name: value for name, value in changes.items() if not name.startswith("TTNN_")})  # the user's apply
        return choice.board
    if board is not None and cluster_descriptor(board) != in_force:
        raise InvalidCase(f"{board} was requested, but pytest runs on {_name_of(in_force)}")
    apply_environment(with_own_scratch(scratch))
    return board or _name_of(in_force)


def _name_of(descriptor: Path) -> str:
    return next((name for name in board_names() if cluster_file(name) == descriptor), descriptor.name)


def _restore(kept: dict[str, str]) -> None:
    apply_environment({**dict.fromkeys(os.environ), **kept})
