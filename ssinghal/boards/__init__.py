"""The boards the product knows: memory facts (``<name>.yaml``) and the cluster descriptor a virtual one opens from."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import yaml

from ssinghal.errors import InvalidCase, unknown
from ssinghal.specs import ONE_CHIP, Board, MemoryRegion

_FOLDER = Path(__file__).parent
DEFAULT_BOARD = "n150"


def board_names() -> list[str]:
    return sorted(p.stem for p in _FOLDER.glob("*.yaml") if not p.name.endswith(".cluster.yaml"))


@cache
def load_board(name: str) -> Board:
    """The named board, or InvalidCase with the nearest names."""
    if name not in board_names():
        raise InvalidCase(unknown("board", name, board_names()))
    facts = yaml.safe_load((_FOLDER / f"{name}.yaml").read_text())
    columns, rows = facts["grid"]
    mesh_rows, mesh_columns = facts.get("mesh", ONE_CHIP)
    return Board(
        name=facts["name"],
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
    load_board(name)
    return _FOLDER / f"{name}.cluster.yaml"
