"""Makes equal values one object: the calls of a long program repeat, and most of what they are made of is equal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar, cast

T = TypeVar("T")


class Sharing:
    """Values that were seen before. Nobody may change them."""

    def __init__(self) -> None:
        self._values: dict[Any, Any] = {}
        self._levels: dict[tuple[tuple[str, int], ...], Mapping[str, int]] = {}

    def of(self, value: T) -> T:
        """Returns the equal value that came first."""
        return cast("T", self._values.setdefault(value, value))

    def levels(self, values: Mapping[str, int]) -> Mapping[str, int]:
        """The same for bytes of each memory."""
        key = tuple(values.items())
        levels = self._levels.get(key)
        if levels is None:
            levels = self._levels[key] = dict(key)
        return levels
