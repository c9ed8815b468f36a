"""Lists the inputs that a search for a model's edge goes through."""

from __future__ import annotations

from collections.abc import Mapping

from ssinghal.capacity.parameters import Goal
from ssinghal.core.tensors import Shape, format_shape
from ssinghal.errors import InvalidCase

MAX_VALUES = 256
STRIDE = 32  # input pixels per pixel of the deepest map in most vision models

# Height x width of video frames, with heights for models with a stride of 32.
TIERS: Mapping[str, tuple[int, int]] = {
    "720p": (736, 1280), "1080p": (1088, 1920), "1440p": (1440, 2560), "4K": (2176, 3840), "8K": (4320, 7680),
}  # fmt: skip
GOALS = (Goal.BATCH, Goal.RESOLUTION)  # for a complete model


def shapes_of(goal: Goal, shape: Shape, stride: int = STRIDE) -> list[Shape]:
    """Returns the inputs of a search, the smallest first: batches from 1, or resolutions in multiples of ``stride``.

    Heights and widths are as near to the aspect ratio of ``shape`` as the multiples allow.

    Raises:
        InvalidCase: the input has no height and width.
    """
    if goal is Goal.BATCH:
        return [(batch, *shape[1:]) for batch in range(1, MAX_VALUES + 1)]
    if len(shape) < 4:
        raise InvalidCase(f"--max resolution: an input {format_shape(shape)} has no height and width")
    *lead, height, width = shape
    short, long = min(height, width), max(height, width)
    shapes: list[Shape] = []
    for n in range(1, MAX_VALUES + 1):
        sides = (stride * n, stride * max(1, (2 * n * long + short) // (2 * short)))
        shapes.append((*lead, *(sides if height <= width else sides[::-1])))
    return list(dict.fromkeys(shapes))


def size_of(goal: Goal, shape: Shape) -> str:
    """Returns the size that a search varies: the batch, or height x width."""
    return str(shape[0]) if goal is Goal.BATCH else "x".join(map(str, shape[-2:]))
