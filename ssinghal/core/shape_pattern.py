"""Patterns of shapes, such as 1,*,640,640."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable

from ssinghal.core.parsing import parse_shape
from ssinghal.core.tensors import Shape
from ssinghal.errors import InvalidCase

MAX_NEAR = 5
SAME_RANK = 3  # the last of the kinds of likeness, which says little

Pattern = tuple[int | None, ...]


def parse_pattern(text: str) -> Pattern:
    """Returns the pattern of ``1,768,4,60,106`` or ``1x768x4x60x106``, in which ``*`` is any size.

    Raises:
        InvalidCase: The text is no such pattern.
    """
    try:
        sizes = parse_shape(text.replace("*", " 0 "))
    except InvalidCase:
        sizes = [-1]
    if min(sizes) < 0:
        raise InvalidCase(f"shape {text!r}: expected sizes like 1,64,80,80, or * for any")
    parts = re.findall(r"[0-9]+|\*", text)
    return tuple(None if part == "*" else size for part, size in zip(parts, sizes, strict=True))


def fits_pattern(shape: Shape, pattern: Pattern) -> bool:
    return len(shape) == len(pattern) and all(want in (None, size) for want, size in zip(pattern, shape, strict=True))


def nearest(shapes: Iterable[Shape], pattern: Pattern) -> tuple[Shape, ...]:
    """Returns the few of ``shapes`` that are most like the pattern: the same sizes in another order, then one other size, then
    as many elements; where there is none of these, those of the same rank. Among equals, those whose sizes have the least ratio
    to the pattern's come first. A pattern with ``*`` has none."""
    wanted = tuple(size for size in pattern if size is not None)
    if len(wanted) < len(pattern):
        return ()
    ranked: dict[Shape, tuple[int, float]] = {}
    for shape in set(shapes):
        ratios = [abs(math.log((a + 1) / (b + 1))) for a, b in zip(shape, wanted, strict=False) if a != b]  # a size may be 0
        likeness = (
            sorted(shape) == sorted(wanted),
            len(shape) == len(wanted) and len(ratios) == 1,
            math.prod(shape) == math.prod(wanted),
            len(shape) == len(wanted),
        )
        if any(likeness):
            ranked[shape] = likeness.index(True), sum(ratios)
    alike = [shape for shape, (kind, _) in ranked.items() if kind < SAME_RANK] or ranked
    return tuple(sorted(alike, key=lambda shape: (ranked[shape], shape))[:MAX_NEAR])
