"""How a tensor is cut over the chips of a mesh. Imports neither torch nor ttnn.

The rules are those of TTNN's mappers. ``ttnn.ShardTensorToMesh(mesh, dim)`` cuts one dim over all chips, row by row;
``ttnn.ShardTensor2dMesh(mesh, dims, shape)`` has a dim, or none, for each axis of the mesh, and copies the tensor along an axis
without one. Both need equal parts, one on each chip.
"""

from __future__ import annotations

from typing import Any

from ssinghal.errors import InvalidCase

Shape = tuple[int, ...]
Mesh = tuple[int, int]  # rows and columns of chips: the sizes of mesh axis 0 and 1
ShardDim = int | tuple[int | None, int | None]  # a dim over all chips, or a dim for each mesh axis

WORD = "shard="
EXPECTED = "expected a dim over all chips as shard=3, over one mesh axis as shard=3@1, or over both as shard=2,3"


def shard_dim_from_word(text: str) -> ShardDim:
    """Returns what ``text`` requests.

    Raises:
        InvalidCase: It is none of the three forms.

    >>> shard_dim_from_word("-1"), shard_dim_from_word("3@1"), shard_dim_from_word("2,3")
    (-1, (None, 3), (2, 3))
    """
    try:
        if "@" in text:
            dim, axis = map(int, text.split("@"))
            return {0: (dim, None), 1: (None, dim)}[axis]
        if "," in text:
            rows, columns = map(int, text.split(","))
            return rows, columns
        return int(text)
    except (ValueError, KeyError):
        raise InvalidCase(f"{WORD}{text}: {EXPECTED}") from None


def shard_dim_from_json(value: Any) -> ShardDim:
    """Returns a dim as it is, or a list of two, one of which may be null, for the mesh axes.

    Raises:
        InvalidCase: It is neither.
    """
    if _is_dim(value):
        return int(value)
    per_axis = isinstance(value, list) and len(value) == 2 and all(dim is None or _is_dim(dim) for dim in value)
    if not per_axis or value == [None, None]:
        raise InvalidCase(f"shard_dim: expected a dim like 2 or -1, or one for each mesh axis like [null, 3], got {value!r}")
    return value[0], value[1]


def _is_dim(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def shard_dim_json(dim: ShardDim) -> int | list[int | None]:
    return dim if isinstance(dim, int) else list(dim)


def shard_dim_word(dim: ShardDim) -> str:
    """Returns the word that requests it.

    >>> shard_dim_word(3), shard_dim_word((2, None)), shard_dim_word((2, 3))
    ('shard=3', 'shard=2@0', 'shard=2,3')
    """
    if isinstance(dim, int):
        return f"{WORD}{dim}"
    given = [f"{d}@{axis}" for axis, d in enumerate(dim) if d is not None]
    return WORD + (given[0] if len(given) == 1 else ",".join(map(str, dim)))


def part_of(shape: Shape, dim: ShardDim, mesh: Mesh) -> Shape:
    """Returns the part of a tensor of ``shape`` that every chip of ``mesh`` holds.

    Raises:
        InvalidCase: A dim is outside the shape, both mesh axes cut one dim, or the parts would not be equal.

    >>> part_of((1, 1, 4096, 14336), 3, (2, 4)), part_of((64, 1024), (0, 1), (2, 4))
    ((1, 1, 4096, 1792), (32, 256))
    """
    word, rank = shard_dim_word(dim), len(shape)
    pairs = [(dim, mesh[0] * mesh[1])] if isinstance(dim, int) else list(zip(dim, mesh, strict=True))
    part = list(shape)
    cut: set[int] = set()
    for cut_dim, chips in pairs:
        if cut_dim is None:
            continue
        if not -rank <= cut_dim < rank:
            raise InvalidCase(f"{word}: dim {cut_dim} is outside -{rank}..{rank - 1}")
        place = cut_dim % rank
        if place in cut:
            raise InvalidCase(f"{word}: both mesh axes cut dim {place}; TTNN's mapper takes two dims")
        if shape[place] % chips:
            raise InvalidCase(f"{word}: {shape[place]} does not divide over {chips} chips, each of which holds an equal part")
        cut.add(place)
        part[place] //= chips
    return tuple(part)
