"""The outcome of a search for remedies of a failing case, as its record keeps it. Imports neither torch nor ttnn."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ssinghal.core.json_values import Bytes, LineText
from ssinghal.core.tensors import TextEnum, format_bytes
from ssinghal.errors import one_line

NOT_TRIED = "impossible by arithmetic, or too slow here"


class ValueComparison(TextEnum):
    """What is known of a remedy's values, compared with those of the original call."""

    SAME_CALL = "the same call"
    EQUAL = "equal in torch"
    ROUNDED = "equal in torch up to rounding"
    NOT_COMPARED = "values not compared"
    NARROWER = "values rounded to the narrower dtype"


@dataclass(frozen=True)
class WorkingRemedy:
    """A remedy that ran on the record's device, and whose result had the required shape, dtype, layout and memory."""

    # What it changes for the code around the call.
    contract: LineText
    # The name of the strategy.
    lever: LineText
    # Details, such as the number of pieces.
    note: LineText
    # The most that was allocated after any of its calls, by kind of memory.
    peak_bytes_per_bank: Mapping[LineText, Bytes]
    # Allocated bytes of operands and results over all of its calls.
    moved_bytes: Bytes
    calls: Bytes
    # How many trials it took to find.
    probes: Bytes
    # How its values compare with those of the original call.
    values: ValueComparison

    def __str__(self) -> str:
        note = f" ({self.note})" if self.note else ""
        known = f"; {self.values}" if self.values in (ValueComparison.NOT_COMPARED, ValueComparison.NARROWER) else ""
        return f"{self.contract}: {self.lever}{note}{known}"

    @property
    def cost(self) -> str:
        """The bytes and calls that it takes."""
        peaks = ", ".join(f"{kind.upper()} {size:,} B" for kind, size in sorted(self.peak_bytes_per_bank.items(), reverse=True))
        calls = "1 call" if self.calls == 1 else f"{self.calls:,} calls"
        return f"peak per bank: {peaks or 'nothing'}; {calls}, {format_bytes(self.moved_bytes)} moved"


@dataclass(frozen=True)
class StrategyRejection:
    """A strategy that does not help."""

    contract: LineText
    lever: LineText
    reason: str
    # 0 if it was not tried: impossible by arithmetic, too much work for the host, or the budget was spent before.
    probes: Bytes


@dataclass(frozen=True)
class RemedyOutcome:
    """What works for a failing case, and what does not."""

    # The first that works of each contract, the least change first.
    found: tuple[WorkingRemedy, ...] = ()
    # What does not work, and why.
    refused: tuple[StrategyRejection, ...] = ()
    # All trials of the search.
    probes: Bytes = 0
    # Whether the search stopped at its limit.
    budget_spent: bool = False
    # Why there was no search; empty if there was one.
    reason: str = ""

    @property
    def first(self) -> WorkingRemedy | None:
        return next(iter(self.found), None)

    def __str__(self) -> str:
        """Returns the first remedy, or that there is none.

        >>> tried, untried = (StrategyRejection("chunked", "pieces", "…", probes) for probes in (1, 0))
        >>> str(RemedyOutcome(refused=(tried, untried)))
        'no remedy: 1 tried and 1 not tried (impossible by arithmetic, or too slow here)'
        """
        if self.first is not None:
            return f"remedy, {self.first}"
        if self.reason:
            return f"no remedy searched for: {one_line(self.reason)}"
        tried = sum(refused.probes > 0 for refused in self.refused)
        untried = len(self.refused) - tried
        parts = [f"{tried} tried"] * bool(tried) + [f"{untried} not tried ({NOT_TRIED})"] * bool(untried)
        spent = "; the budget was spent" if self.budget_spent else ""
        return f"no remedy: {' and '.join(parts) or 'none is known for it'}{spent}"
