"""The inputs that a search for a model's edge goes through. Device-free."""

from __future__ import annotations

from collections.abc import Mapping

from ssinghal.capacity.parameters import Goal
from ssinghal.core.tensors import Shape, format_shape
from ssinghal.errors import InvalidCase

MAX_VALUES = 256
STRIDE = 32  # pixels that the deepest maps of most vision models stand for

# Height x width of video frames, heights as models with a stride of 32 take them.
TIERS: Mapping[str, tuple[int, int]] = {
    "720p": (736, 1280), "1080p": (1088, 1920), "1440p": (1440, 2560), "4K": (2176, 3840), "8K": (4320, 7680),
}  # fmt: skip


GOALS = (Goal.BATCH, Goal.RESOLUTION)  # of a whole model


def shapes_of(goal: Goal, shape: Shape, stride: int = STRIDE) -> list[Shape]:
    """The inputs that a search goes through, from the least demanding: batches from 1; or heights and widths in multiples of
    ``stride``, as near to the aspect of ``shape`` as those allow.

    InvalidCase for an input that has no height and width.
    """
    if goal is Goal.BATCH:
        return [(batch, *shape[1:]) for batch in range(1, MAX_VALUES + 1)]
    if len(shape) < 4:
        raise InvalidCase(f"--max resolution: an input {format_shape(shape)} has no height and width")
    *lead, height, width = shape
    short, long = min(height, width), max(height, width)
    found: list[Shape] = []
    for n in range(1, MAX_VALUES + 1):
        edges = (stride * n, stride * max(1, (2 * n * long + short) // (2 * short)))
        found.append((*lead, *(edges if height <= width else edges[::-1])))
    return list(dict.fromkeys(found))


def size_of(goal: Goal, shape: Shape) -> str:
    return str(shape[0]) if goal is Goal.BATCH else "x".join(map(str, shape[-2:]))
