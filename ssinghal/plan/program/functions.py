"""Divides the steps of a plan into functions, one for each module of a sensible size."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from ssinghal.plan.program.recording import RecordedStep

LIMIT = 32  # steps of one function
BLOCK = 4  # steps from which a numbered module is a block of its own
TOP = "(top)"


@dataclass(frozen=True)
class ModuleSteps:
    """Consecutive steps of one module. ``path``: of the module, "" for the model itself."""

    path: str
    steps: tuple[RecordedStep, ...]

    @property
    def is_function(self) -> bool:
        """Whether it becomes a function; a single call, or what the model itself does, stays where it is."""
        return bool(self.path) and len(self.steps) > 1


def parts_of(steps: Sequence[RecordedStep]) -> list[ModuleSteps]:
    """Returns the steps, in order, by the largest modules that have at most ``LIMIT`` of them and are no row of blocks."""
    counts = Counter(prefix for step in steps for prefix in _prefixes(step.at))
    rows = {path for path in counts if _is_row(path, counts)}

    def owner(step: RecordedStep) -> str:
        prefixes = _prefixes(step.at)
        fitting = (prefix for prefix in prefixes if prefix and counts[prefix] <= LIMIT and prefix not in rows)
        return next(fitting, prefixes[-1])

    return [ModuleSteps(path, tuple(group)) for path, group in groupby(steps, owner)]


def _is_row(path: str, counts: Counter[str]) -> bool:
    """Returns whether a module does nothing but run two or more numbered blocks."""
    below = [p for p in counts if p.startswith(f"{path}.") and "." not in p[len(path) + 1 :]] if path else []
    blocks = [p for p in below if p.rpartition(".")[2].isdigit() and counts[p] >= BLOCK]
    return len(blocks) > 1 and sum(counts[p] for p in blocks) == counts[path]


def _prefixes(at: str) -> list[str]:
    """Returns the paths of the modules around a call, the model first.

    >>> _prefixes("layer1.0.conv1")
    ['', 'layer1', 'layer1.0', 'layer1.0.conv1']
    """
    names = [] if at in ("", TOP) else at.split(".")
    return [".".join(names[:count]) for count in range(len(names) + 1)]
