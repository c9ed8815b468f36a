"""The known boards: memory facts (``<name>.yaml``), and the cluster descriptor that a virtual board opens from.

The files of built-in boards are in ``ssinghal/boards``. Those of boards taken from a machine's own descriptor
(``runner.custom_boards``) are in the user's cache folder.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from ssinghal.core.cache_folder import cache_folder
from ssinghal.core.tensors import ONE_CHIP, Board, MemoryRegion
from ssinghal.errors import InvalidCase, unknown

_FOLDER = Path(__file__).parents[1] / "boards"
_DESCRIPTOR = ".cluster.yaml"
DEFAULT_BOARD = "n150"
DIGEST_MARK = "@"  # in the name of a board that was taken from a descriptor: FILE@DIGEST
DIGEST_LENGTH = 12
_DIGEST = re.compile(f"[0-9a-f]{{{DIGEST_LENGTH}}}")


def board_names() -> list[str]:
    """Returns the names of the built-in boards.

    Examples:
        >>> board_names()[:2]
        ['n150', 'n300']
    """
    return sorted(p.stem for p in _FOLDER.glob("*.yaml") if not p.name.endswith(_DESCRIPTOR))


def current_boards() -> list[str]:
    """Returns the boards that are worth trying instead of another one: no meshes, as each of their chips holds what a single
    one does, and no variants of a board's grid."""
    return [name for name in board_names() if not {"mesh", "variant_of"} & _facts(name).keys()]


def mesh_boards() -> list[str]:
    """Returns the built-in boards of several chips."""
    return [name for name in board_names() if "mesh" in _facts(name)]


def own_boards_home() -> Path:
    """Returns the folder of boards that were taken from a descriptor."""
    return cache_folder("boards")


def is_own(name: str) -> bool:
    """Whether the board was taken from a descriptor."""
    return DIGEST_MARK in name


@cache
def load_board(name: str) -> Board:
    """Returns a board by its name.

    Args:
        name: A name of ``board_names()``, or of a board that was taken from a cluster descriptor.

    Returns:
        The board: number of banks, bytes per bank and alignment of L1 and DRAM, core grid as columns and rows.

    Raises:
        InvalidCase: No board has this name; the text states the nearest ones.

    Examples:
        >>> load_board("n150").l1
        MemoryRegion(num_banks=64, bank_bytes=1393312, alignment_bytes=16)
    """
    facts = _facts(name)
    columns, rows = facts["grid"]
    mesh_rows, mesh_columns = facts.get("mesh", ONE_CHIP)
    return Board(
        name=name,
        arch=facts["arch"],
        grid=(columns, rows),
        l1=MemoryRegion(**facts["l1"]),
        dram=MemoryRegion(**facts["dram"]),
        l1_end_bytes=facts["l1_end_bytes"],
        granule_bytes=facts["granule_bytes"],
        provenance=f"ttnn {facts['ttnn']}",
        mesh=(mesh_rows, mesh_columns),
    )


def board_note(name: str) -> str:
    """Returns how the opened board differs from its descriptor; empty for most boards."""
    return str(_facts(name).get("note", ""))


def cluster_descriptor(name: str) -> Path:
    """Returns the YAML file that TT-Metalium opens as a mock cluster of this board.

    Raises:
        InvalidCase: No board has this name.
    """
    _facts(name)
    return cluster_file(name)


def cluster_file(name: str) -> Path:
    """Returns the path of a board's cluster descriptor, which need not exist."""
    return _file(name, _DESCRIPTOR)


def facts_file(name: str) -> Path:
    """Returns the path of a board's memory facts, which need not exist."""
    return _file(name, ".yaml")


def _file(name: str, suffix: str) -> Path:
    if is_own(name):
        return own_boards_home() / f"{name.rpartition(DIGEST_MARK)[2]}{suffix}"
    return _FOLDER / f"{name}{suffix}"


def _facts(name: str) -> dict[str, Any]:
    if is_own(name):
        if not _DIGEST.fullmatch(name.rpartition(DIGEST_MARK)[2]):  # as in records and settings of others: it names a file
            raise InvalidCase(unknown("board", name, board_names()))
        if not (facts_file(name).is_file() and cluster_file(name).is_file()):
            file = name.rpartition(DIGEST_MARK)[0]
            raise InvalidCase(f"board {name} is not known here; give the descriptor that it was taken from: PATH/{file}")
    elif name not in board_names():
        raise InvalidCase(unknown("board", name, board_names()))
    facts: dict[str, Any] = yaml.safe_load(facts_file(name).read_text())
    return facts
