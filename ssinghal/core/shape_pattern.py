"""Patterns of shapes, such as 1,*,640,640."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable

from ssinghal.core.parsing import parse_shape
from ssinghal.core.tensors import Shape
from ssinghal.errors import InvalidCase

MAX_NEAR = 5


Pattern = tuple[int | None, ...]


def parse_pattern(text: str) -> Pattern:
    """``1,768,4,60,106`` or ``1x768x4x60x106``; ``*`` is any size. InvalidCase for what is neither."""
    try:
        sizes = parse_shape(text.replace("*", " 0 "))
    except InvalidCase:
        sizes = [-1]
    if min(sizes) < 0:
        raise InvalidCase(f"shape {text!r}: expected sizes like 1,64,80,80, or * for any")
    wild = re.findall(r"[0-9]+|\*", text)
    return tuple(None if given == "*" else size for given, size in zip(wild, sizes, strict=True))


def fits_pattern(shape: Shape, pattern: Pattern) -> bool:
    return len(shape) == len(pattern) and all(want in (None, size) for want, size in zip(pattern, shape, strict=True))


def nearest(shapes: Iterable[Shape], pattern: Pattern) -> tuple[Shape, ...]:
    """At most a handful of ``shapes``: the same sizes in another order, one other size, as many elements. None for a pattern
    with any size in it."""
    wanted = tuple(size for size in pattern if size is not None)
    if len(wanted) < len(pattern):
        return ()
    ranked: dict[Shape, tuple[int, int]] = {}
    for shape in set(shapes):
        apart = [abs(a - b) for a, b in zip(shape, wanted, strict=False) if a != b]
        likeness = (
            sorted(shape) == sorted(wanted),
            len(shape) == len(wanted) and len(apart) == 1,
            math.prod(shape) == math.prod(wanted),
        )
        if any(likeness):
            ranked[shape] = likeness.index(True), sum(apart)
    return tuple(sorted(ranked, key=lambda shape: (ranked[shape], shape))[:MAX_NEAR])
