"""Splits the batch of a model over the chips of a mesh: each chip has all weights, and runs the model on its part.

TTNN allocates and makes the same on every chip of a mesh, so the plan of one part is the plan of each chip.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from ssinghal.core.boards import load_board, mesh_boards
from ssinghal.core.tensors import Shape, format_shape
from ssinghal.errors import InvalidCase

OPTION = "--data-parallel"


def chips_of(boards: Sequence[str]) -> int:
    """Returns the number of chips over which a batch is split.

    Raises:
        InvalidCase: A board is one chip, or the boards have different numbers of them.
    """
    counts = {name: math.prod(load_board(name).mesh) for name in boards}
    single = next((name for name, chips in counts.items() if chips == 1), None)
    if single is not None:
        raise InvalidCase(f"{OPTION}: {single} is one chip; expected {' or '.join(mesh_boards())}")
    if len(set(counts.values())) > 1:
        text = ", ".join(f"{name} has {chips}" for name, chips in counts.items())
        raise InvalidCase(f"{OPTION}: expected boards of equally many chips; {text}")
    return next(iter(counts.values()))


def part_of_batch(shape: Shape, chips: int) -> Shape:
    """Returns the part of an input that each chip gets; InvalidCase where the parts would not be equal."""
    if not shape or shape[0] % chips:
        raise InvalidCase(f"{OPTION}: the batch of an input {format_shape(shape)} does not divide over {chips} chips")
    return (shape[0] // chips, *shape[1:])


def split_note(shape: Shape, chips: int) -> str:
    """Returns the note on a plan of one part. ``shape``: of the complete input."""
    part = shape[0] // chips
    return f"data parallel: a batch of {shape[0]} over {chips} chips, {part} on each; all figures are those of each chip"
