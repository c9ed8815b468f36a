"""What the lines of a text state of the system, a board or a version, for each of the runs that the text may have."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field


@dataclass
class Statements:
    """Names that lines state, in the order of the lines."""

    _stated: list[tuple[int, frozenset[str]]] = field(default_factory=list)

    def add(self, line: int, names: frozenset[str]) -> None:
        """Adds what the line of this number states."""
        if names:
            self._stated.append((line, names))

    def of(self, line: int, failures: Collection[int]) -> frozenset[str]:
        """Returns the names that hold for the failure on ``line``: the last ones before it, else the first ones after it.

        Names belong together if none of ``failures``, the lines of all, is between them: a run ends with its failure.

        >>> statements = Statements([(1, frozenset({"0.66.0"})), (9, frozenset({"0.81.1"}))])
        >>> [set(statements.of(line, (5, 12, 14))) for line in (5, 12, 14)]
        [{'0.66.0'}, {'0.81.1'}, {'0.81.1'}]
        """
        before = [number for number, _ in self._stated if number <= line]
        if before:
            first = max((failure + 1 for failure in failures if failure < before[-1]), default=0)
            return self._between(first, line)
        after = [number for number, _ in self._stated]
        return self._between(line, _next(after[0], failures)) if after else frozenset()

    def _between(self, first: int, last: float) -> frozenset[str]:
        return frozenset().union(*(names for number, names in self._stated if first <= number <= last))


def _next(line: int, failures: Collection[int]) -> float:
    return min((failure for failure in failures if failure >= line), default=float("inf"))
