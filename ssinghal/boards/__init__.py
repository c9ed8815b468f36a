"""The boards the product knows: memory facts (``<name>.yaml``) and the cluster descriptor a virtual one opens from.

Those of the product lie in this folder, those that were taken from a machine's own descriptor (``boards.own``) in the user's
cache folder.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import platformdirs
import yaml

from ssinghal.errors import InvalidCase, unknown
from ssinghal.specs import ONE_CHIP, Board, MemoryRegion

_FOLDER = Path(__file__).parent
_DESCRIPTOR = ".cluster.yaml"
DEFAULT_BOARD = "n150"
DIGEST_MARK = "@"  # in the name of a board that was taken from a descriptor: FILE@DIGEST


def board_names() -> list[str]:
    """Of the product."""
    return sorted(p.stem for p in _FOLDER.glob("*.yaml") if not p.name.endswith(_DESCRIPTOR))


def current_boards() -> list[str]:
    """Those that are worth trying instead of another one: no meshes, each chip of which holds what one alone does, and no
    variants of a board's grid."""
    return [name for name in board_names() if not {"mesh", "variant_of"} & _facts(_FOLDER / f"{name}.yaml").keys()]


def own_boards_home() -> Path:
    return platformdirs.user_cache_path("ssinghal").absolute() / "boards"


def is_own(name: str) -> bool:
    """Whether the board was taken from a descriptor."""
    return DIGEST_MARK in name


@cache
def load_board(name: str) -> Board:
    """The named board, or InvalidCase with the nearest names."""
    facts = _facts(_file(name, ".yaml"))
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


def cluster_descriptor(name: str) -> Path:
    """The YAML file that TT-Metalium opens as a mock cluster of this board."""
    return _file(name, _DESCRIPTOR)


def board_note(name: str) -> str:
    """What must be told with a board's name: where it is not opened quite as its descriptor has it."""
    return str(_facts(_file(name, ".yaml")).get("note", ""))


def _file(name: str, suffix: str) -> Path:
    if is_own(name):
        file, _, digest = name.rpartition(DIGEST_MARK)
        path = own_boards_home() / f"{digest}{suffix}"
        if not path.is_file():
            raise InvalidCase(f"board {name} is not known here; give the descriptor that it was taken from: PATH/{file}")
        return path
    if name not in board_names():
        raise InvalidCase(unknown("board", name, board_names()))
    return _FOLDER / f"{name}{suffix}"


@cache
def _facts(path: Path) -> dict[str, Any]:
    facts: dict[str, Any] = yaml.safe_load(path.read_text())
    return facts
