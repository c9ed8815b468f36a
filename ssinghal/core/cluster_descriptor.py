"""Cluster descriptors, as ``ttnn.cluster.serialize_cluster_descriptor()`` writes them, checked before a board opens from one.

TT-Metalium reads them in native code, where a missing or unknown entry ends the process. Here it is an error with a clear text.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ssinghal.core.boards import DIGEST_LENGTH, DIGEST_MARK
from ssinghal.core.files import read_limited
from ssinghal.errors import InvalidCase

MAX_BYTES = 4 * 2**20  # that of a Galaxy with 32 chips has 40 KiB
MAX_DEPTH = 8  # boards nest three deep
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
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
    """The entries of a descriptor that TT-Metalium needs."""

    model_config = ConfigDict(extra="allow", strict=True)

    arch: Annotated[dict[_Chip, Literal["wormhole_b0", "blackhole"]], Field(min_length=1)]
    chips: dict[_Chip, Annotated[list[int], Field(min_length=4, max_length=4)]] = {}
    ethernet_connections: list[Any]
    chips_with_mmio: Annotated[list[dict[_Chip, int]], Field(min_length=1)]
    harvesting: dict[_Chip, _Harvesting]
    boards: Annotated[list[list[dict[str, Any]]], Field(min_length=1)]


@dataclass(frozen=True)
class Descriptor:
    """A checked descriptor. ``content``: the bytes to open: the file's own, or changed ones for the reason in ``note``."""

    name: str
    digest: str
    content: bytes
    note: str = ""


def read_descriptor(path: Path) -> Descriptor:
    """Reads and checks a descriptor.

    Raises:
        InvalidCase: The file cannot be read, or a virtual board could not open from it; one line states why.
    """
    try:
        content = read_limited(path, MAX_BYTES)
    except InvalidCase as error:
        raise InvalidCase(f"{error}; expected a cluster descriptor") from error
    entries = _parsed(path, content)
    sha256 = hashlib.sha256(content).hexdigest()
    name = re.sub(r"[^\w.+-]", "_", path.name)[-_NAME_LENGTH:]
    digest = sha256[:DIGEST_LENGTH]
    return _with_one_row(Descriptor(f"{name}{DIGEST_MARK}{digest}", digest, content), entries)


def _parsed(path: Path, content: bytes) -> Mapping[str, Any]:
    try:
        _check_notation(path, content)
        entries = yaml.load(content, _LOADER)
    except yaml.MarkedYAMLError as error:
        line = f":{error.problem_mark.line + 1}" if error.problem_mark else ""
        raise InvalidCase(f"{path}{line}: not YAML: {error.problem or error.context}") from error
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise InvalidCase(f"{path}: not YAML: {' '.join(str(error).split()) or type(error).__name__}") from error
    if not isinstance(entries, dict):
        raise InvalidCase(f"{path}: expected a cluster descriptor, a mapping with arch, harvesting, boards …")
    try:
        model = _DescriptorModel.model_validate(entries)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise InvalidCase(f"{path}: {where}: {first['msg']}; expected a cluster descriptor") from error
    _check(path, model)
    return entries


def _check_notation(path: Path, content: bytes) -> None:
    """Refuses what no descriptor has, and what would make a small file large: aliases, tags, deep nesting."""
    depth = 0
    event: Any
    for event in yaml.parse(content, _LOADER):
        line = event.start_mark.line + 1
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None) is not None:
            raise InvalidCase(f"{path}:{line}: anchors and aliases are not allowed; expected a cluster descriptor")
        if getattr(event, "tag", None) is not None:
            raise InvalidCase(f"{path}:{line}: the tag {event.tag} is not allowed; expected a cluster descriptor")
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > MAX_DEPTH:
            raise InvalidCase(f"{path}:{line}: nested more than {MAX_DEPTH} deep; expected a cluster descriptor")


def _check(path: Path, model: _DescriptorModel) -> None:
    kinds = sorted(set(model.arch.values()))
    if len(kinds) > 1:
        raise InvalidCase(f"{path}: arch: the chips of a board are of one kind; these are {' and '.join(kinds)}")
    for chip in model.arch:
        if chip not in model.harvesting:
            raise InvalidCase(f"{path}: harvesting: no entry for chip {chip}")
        if kinds == [_WORMHOLE] and len(model.arch) > 1 and chip not in model.chips:
            raise InvalidCase(f"{path}: chips: no coordinates of chip {chip}; Wormhole boards with several chips need them")


# An n300 has two harvested rows, and dispatches from Ethernet cores, so that programs may use all of its 8 x 8 cores. TTNN's
# mock places tensors on all of them, but checks programs as if dispatch took a row. With one harvested row both are 8 x 8.
def _with_one_row(descriptor: Descriptor, entries: Mapping[str, Any]) -> Descriptor:
    of_n300 = {chip for board in entries["boards"] for chip in _chips_of(board, "n300")}
    masks = {chip: entries["harvesting"][chip]["harvest_mask"] for chip in of_n300 if chip in entries["harvesting"]}
    if all(mask.bit_count() < 2 for mask in masks.values()):
        return descriptor
    one_row = {chip: {**entries["harvesting"][chip], "harvest_mask": mask & -mask} for chip, mask in masks.items()}
    content = yaml.safe_dump({**entries, "harvesting": {**entries["harvesting"], **one_row}}, sort_keys=False).encode()
    return replace(descriptor, content=content, note=_TWO_ROWS_NOTE)


def _chips_of(board: list[dict[str, Any]], kind: str) -> list[int]:
    """Returns the chips of an entry of ``boards`` (a list of mappings with one key each) if it is of that kind."""
    entry = {key: value for part in board for key, value in part.items()}
    chips = entry.get("chips")
    if entry.get("board_type") != kind or not isinstance(chips, list):
        return []
    return [chip for chip in chips if isinstance(chip, int)]
