"""Uses a machine's own cluster descriptor as a board: opens it once to read its memory sizes, then treats it like any board.

The descriptor and the sizes are kept in the user's cache folder under the descriptor's digest. The sizes are read again when
another TTNN is installed.
"""

from __future__ import annotations

import os
from dataclasses import asdict
from pathlib import Path

import yaml

from ssinghal.core.boards import board_names, cluster_file, facts_file
from ssinghal.core.cache_folder import filling_cache
from ssinghal.core.device_facts import DeviceMode
from ssinghal.core.files import replacing
from ssinghal.core.tensors import Board
from ssinghal.device.modes import DeviceChoice
from ssinghal.device.releases import installed_release

_SUFFIXES = (".yaml", ".yml")


def board_name(text: str) -> str:
    """Returns the board that ``text`` names, in any case, or for which it is the path of a cluster descriptor.

    Raises:
        InvalidCase: the file is no cluster descriptor.
        DeviceError: TTNN is not installed, or opens no device from it that passes the proof.
    """
    if os.sep not in text and not text.endswith(_SUFFIXES):
        return text.lower() if text.lower() in board_names() else text
    from ssinghal.core.cluster_descriptor import read_descriptor  # imports pydantic
    from ssinghal.runner.pool import Pool  # slower to import than all options of the command line

    descriptor = read_descriptor(Path(text))
    if not _is_known(descriptor.name):
        opened = cluster_file(descriptor.name)
        _write(opened, descriptor.content)
        choice = DeviceChoice(DeviceMode.VIRTUAL, descriptor.name, "to learn what it is", descriptor=opened)
        with Pool(choice) as pool:
            _write(facts_file(descriptor.name), _facts(pool.facts.opened_board, descriptor.note))
    return descriptor.name


def _is_known(name: str) -> bool:
    """Whether its files exist, with sizes of the installed TTNN."""
    installed = installed_release()
    if installed is None or not (cluster_file(name).is_file() and facts_file(name).is_file()):
        return False
    return bool(yaml.safe_load(facts_file(name).read_text())["ttnn"] == installed.version)


def _facts(board: Board, note: str) -> bytes:
    """Returns the board in the form of the built-in boards' files."""
    regions = {name: asdict(region) for name, region in (("l1", board.l1), ("dram", board.dram))}
    facts = {
        "arch": board.arch,
        "mesh": list(board.mesh),
        "grid": list(board.grid),
        **regions,
        "l1_end_bytes": board.l1_end_bytes,
        "granule_bytes": board.granule_bytes,
        "ttnn": board.provenance.removeprefix("ttnn "),
        "note": note,
    }
    return yaml.safe_dump(facts, sort_keys=False).encode()


def _write(path: Path, content: bytes) -> None:
    with filling_cache("boards", "boards of descriptors"), replacing(path) as temporary:
        temporary.write_bytes(content)
