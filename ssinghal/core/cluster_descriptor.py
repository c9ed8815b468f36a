"""Cluster descriptors, as ``ttnn.cluster.serialize_cluster_descriptor()`` writes a machine's, checked and made ready to open.

TT-Metalium reads them in native code, where what is missing or unknown ends the process: that is refused here, in words.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ssinghal.core.boards import DIGEST_MARK
from ssinghal.errors import InvalidCase

MAX_BYTES = 4 * 2**20  # that of a Galaxy with 32 chips has 40 KiB
DIGEST_LENGTH = 12
_NAME_LENGTH = 60
_WORMHOLE = "wormhole_b0"
_TWO_ROWS_NOTE = (
    "two harvested rows of a chip are opened as one, which gives the 8x8 cores that it has as a card: TTNN's mock checks its "
    "programs against 8x7 (tt-metal #54475)"
)

_Chip = Annotated[int, Field(ge=0)]
_Mask = Annotated[int, Field(ge=0)]


class _Harvesting(BaseModel):
    model_config = ConfigDict(extra="allow", strict=True)

    harvest_mask: _Mask


class _DescriptorModel(BaseModel):
    """What TT-Metalium needs of a descriptor; it does without the rest."""

    model_config = ConfigDict(extra="allow", strict=True)

    arch: Annotated[dict[_Chip, Literal["wormhole_b0", "blackhole"]], Field(min_length=1)]
    chips: dict[_Chip, Annotated[list[int], Field(min_length=4, max_length=4)]] = {}
    ethernet_connections: list[Any]
    chips_with_mmio: Annotated[list[dict[_Chip, int]], Field(min_length=1)]
    harvesting: dict[_Chip, _Harvesting]
    boards: Annotated[list[list[dict[str, Any]]], Field(min_length=1)]


@dataclass(frozen=True)
class Descriptor:
    """``content``: the file's bytes, or what is opened instead, for the reason that ``note`` tells."""

    name: str
    digest: str
    content: bytes
    note: str = ""


def read_descriptor(path: Path) -> Descriptor:
    """InvalidCase, in one line, for a file that is not there or no descriptor that a virtual board could open from."""
    try:
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise InvalidCase(f"{path}: {error.strerror}; expected a cluster descriptor") from error
    if len(content) > MAX_BYTES:
        raise InvalidCase(f"{path}: more than {MAX_BYTES:,} B; expected a cluster descriptor")
    layout = _parsed(path, content)
    sha256 = hashlib.sha256(content).hexdigest()
    name = re.sub(r"[^\w.+-]", "_", path.name)[-_NAME_LENGTH:]
    made = Descriptor(f"{name}{DIGEST_MARK}{sha256[:DIGEST_LENGTH]}", sha256[:DIGEST_LENGTH], content)
    return _with_one_row(made, layout)


def _parsed(path: Path, content: bytes) -> Mapping[str, Any]:
    try:
        read = yaml.safe_load(content)
    except yaml.MarkedYAMLError as error:
        line = f":{error.problem_mark.line + 1}" if error.problem_mark else ""
        raise InvalidCase(f"{path}{line}: not YAML: {error.problem or error.context}") from error
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise InvalidCase(f"{path}: not YAML: {str(error).splitlines()[0]}") from error
    if not isinstance(read, dict):
        raise InvalidCase(f"{path}: expected a cluster descriptor, a mapping with arch, harvesting, boards …")
    try:
        layout = _DescriptorModel.model_validate(read)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise InvalidCase(f"{path}: {where}: {first['msg']}; expected a cluster descriptor") from error
    _check(path, layout)
    return read


def _check(path: Path, layout: _DescriptorModel) -> None:
    kinds = sorted(set(layout.arch.values()))
    if len(kinds) > 1:
        raise InvalidCase(f"{path}: arch: chips of one kind make a board; these are {' and '.join(kinds)}")
    for chip in layout.arch:
        if chip not in layout.harvesting:
            raise InvalidCase(f"{path}: harvesting: nothing of chip {chip}")
        if kinds == [_WORMHOLE] and len(layout.arch) > 1 and chip not in layout.chips:
            raise InvalidCase(f"{path}: chips: no coordinates of chip {chip}, which Wormhole boards of several chips need")


# An n300 has two rows harvested, and its dispatch is on Ethernet cores, so that all 8 x 8 cores are for programs. TTNN's mock
# places tensors on those, but checks programs as if dispatch took a row. With one harvested row both are 8 x 8.
def _with_one_row(made: Descriptor, read: Mapping[str, Any]) -> Descriptor:
    of_n300 = {chip for board in read["boards"] for chip in _chips_of(board, "n300")}
    masks = {chip: read["harvesting"][chip]["harvest_mask"] for chip in of_n300 if chip in read["harvesting"]}
    if all(mask.bit_count() < 2 for mask in masks.values()):
        return made
    one_row = {chip: {**read["harvesting"][chip], "harvest_mask": mask & -mask} for chip, mask in masks.items()}
    content = yaml.safe_dump({**read, "harvesting": {**read["harvesting"], **one_row}}, sort_keys=False).encode()
    return Descriptor(made.name, made.digest, content, _TWO_ROWS_NOTE)


def _chips_of(board: list[dict[str, Any]], kind: str) -> list[int]:
    """The chips of an entry of ``boards``, a list of mappings with one key each, if it is of that kind."""
    entry = {key: value for part in board for key, value in part.items()}
    chips = entry.get("chips")
    if entry.get("board_type") != kind or not isinstance(chips, list):
        return []
    return [chip for chip in chips if isinstance(chip, int)]
