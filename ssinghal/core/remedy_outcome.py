"""What a search for remedies found of a failing case, as its record keeps it. Imports neither torch nor ttnn."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ssinghal.core.json_values import Bytes
from ssinghal.core.tensors import TextEnum, format_bytes

NOT_TRIED = "impossible by arithmetic, or too slow here"


class ValueComparison(TextEnum):
    """What is known of a remedy's values, beside those of the call as it was."""

    SAME_CALL = "the same call"
    EQUAL = "equal in torch"
    ROUNDED = "equal in torch up to rounding"
    NOT_COMPARED = "values not compared"
    NARROWER = "values rounded to the narrower dtype"


@dataclass(frozen=True)
class WorkingRemedy:
    """A remedy that ran on the record's device, and whose result had the wanted shape, dtype, layout and memory.

    ``contract``: what it asks of the code around the call. ``peak_bytes_per_bank``: most that was allocated after any of its
    calls, by kind of memory. ``moved_bytes``: allocated bytes of operands and results over its ``calls``. ``probes``: trials
    that it took to find.
    """

    contract: str
    lever: str
    note: str
    peak_bytes_per_bank: Mapping[str, Bytes]
    moved_bytes: Bytes
    calls: Bytes
    probes: Bytes
    values: ValueComparison

    def __str__(self) -> str:
        note = f" ({self.note})" if self.note else ""
        known = f"; {self.values}" if self.values in (ValueComparison.NOT_COMPARED, ValueComparison.NARROWER) else ""
        return f"{self.contract}: {self.lever}{note}{known}"

    @property
    def cost(self) -> str:
        """What it takes, without a clock: bytes and calls."""
        peaks = ", ".join(f"{kind.upper()} {size:,} B" for kind, size in sorted(self.peak_bytes_per_bank.items(), reverse=True))
        calls = "1 call" if self.calls == 1 else f"{self.calls:,} calls"
        return f"peak per bank: {peaks or 'nothing'}; {calls}, {format_bytes(self.moved_bytes)} moved"


@dataclass(frozen=True)
class StrategyRejection:
    """A lever that does not help. ``probes`` 0: arithmetic says so, it would keep the host too busy to be tried, or the budget
    was spent before it."""

    contract: str
    lever: str
    reason: str
    probes: Bytes


@dataclass(frozen=True)
class RemedyOutcome:
    """``found``: the first that works of each contract, the least change first. ``reason``: why nothing was searched for."""

    found: tuple[WorkingRemedy, ...] = ()
    refused: tuple[StrategyRejection, ...] = ()
    probes: Bytes = 0
    budget_spent: bool = False
    reason: str = ""

    @property
    def first(self) -> WorkingRemedy | None:
        return next(iter(self.found), None)

    def __str__(self) -> str:
        """The first remedy, or that there is none.

        >>> str(Searched(refused=(Refused("other memory", "all in DRAM", "tried: …", 1), Refused("chunked", "pieces", "…", 0))))
        'no remedy: 1 tried and 1 not tried (impossible by arithmetic, or too slow here)'
        """
        if self.first is not None:
            return f"remedy, {self.first}"
        if self.reason:
            return f"no remedy searched for: {self.reason}"
        tried = sum(refused.probes > 0 for refused in self.refused)
        untried = len(self.refused) - tried
        parts = [f"{tried} tried"] * bool(tried) + [f"{untried} not tried ({NOT_TRIED})"] * bool(untried)
        spent = "; the budget was spent" if self.budget_spent else ""
        return f"no remedy: {' and '.join(parts) or 'none is known for it'}{spent}"
