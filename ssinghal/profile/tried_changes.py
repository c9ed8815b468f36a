"""Changes to a failing call that were run among exactly the buffers that were resident, and how each of them ended."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ssinghal.core.json_values import fields_of, plain


@dataclass(frozen=True)
class TriedChange:
    """``code``: what to write; ``where``: in which part of the program; ``caution``: what else it changes, or what must hold;
    ``lines``: the code in place of the call, where that is more than ``code``. ``ended``: how the call failed with the change;
    empty if it fits."""

    code: str
    where: str
    caution: str = ""
    lines: tuple[str, ...] = ()
    ended: str = ""


@dataclass(frozen=True)
class TriedChanges:
    """``changes``: of each kind the first that fits, else the last that was tried. ``why_not``: why none was. ``spent``: a
    limit of time or of trials ended the search."""

    changes: tuple[TriedChange, ...] = ()
    why_not: str = ""
    trials: int = 0
    seconds: float = 0.0
    spent: bool = False

    @property
    def found(self) -> tuple[TriedChange, ...]:
        """Returns the changes with which the call fits."""
        return tuple(change for change in self.changes if not change.ended)

    def to_json(self) -> dict[str, Any]:
        return {**fields_of(self), "changes": [plain(fields_of(change)) for change in self.changes]}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> TriedChanges:
        changes = tuple(TriedChange(**{**change, "lines": tuple(change["lines"])}) for change in values["changes"])
        return cls(**{**values, "changes": changes})

    def text(self) -> list[str]:
        """Returns the lines of a summary."""
        if self.why_not:
            return [f"no change was tried: {self.why_not}"]
        over = "; a limit ended the search" if self.spent else ""
        head = f"tried with exactly these buffers resident ({self.trials} trials, {self.seconds:.1f} s{over})"
        failed = [f"  {change.code}: {change.ended}" for change in self.changes if change.ended]
        if not self.found:
            ends = ["with each of them the call ends so:", *failed] if failed else []
            return [f"{head}: none of the changes makes it fit", *ends]
        others = ["and these do not:", *failed] if failed else []
        lines = [f"{head}, each of these alone makes the call fit:"]
        for change in self.found:
            caution = f" ({change.caution})" if change.caution else ""
            lines += [f"  {change.code}, {change.where}{caution}", *(f"      {line}" for line in change.lines)]
        return [*lines, *others]
