"""The variants in which a run has each call of its catalogs: what counts of calls count, where there are several."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from ssinghal.core.json_values import plain
from ssinghal.core.record import Record
from ssinghal.operators.case_json import KEYS
from ssinghal.runs.reader import Run
from ssinghal.runs.selection import Selection

DIGEST_CHARS = 16


@dataclass(frozen=True)
class CallVariants:
    """In how many placements and dtypes the run has each call; 1 where it has it as the catalog does, or in one."""

    placements: int = 1
    dtypes: int = 1

    @classmethod
    def of(cls, run: Run) -> CallVariants:
        selection = Selection.of(run)
        if selection is None:
            return cls()
        return cls(max(len(selection.placements), 1), max(len(selection.dtypes), 1))

    def __bool__(self) -> bool:
        """Whether there are several."""
        return self.placements * self.dtypes > 1

    @property
    def factors(self) -> str:
        """What they are: ``2 placements x 2 dtypes``; empty where there are not several."""
        counts = {"placements": self.placements, "dtypes": self.dtypes}
        return " x ".join(f"{count:,} {name}" for name, count in counts.items() if count > 1)

    def counted(self, number: int) -> str:
        """Returns a number of calls with what is counted: ``1 call``, ``6 variants of calls``."""
        if self:
            return f"{number:,} variant{'' if number == 1 else 's'} of calls"
        return f"{number:,} call{'' if number == 1 else 's'}"

    def call_of(self, record: Record) -> str:
        """Returns a digest of what the variants of one call share: all but their memory and dtype, and the layouts of single
        operands, which go with the memory."""
        left_out = ["operands", *(["memory"] if self.placements > 1 else []), *(["dtype"] if self.dtypes > 1 else [])]
        shared: dict[str, Any] = {key: plain(getattr(record, key)) for key in KEYS if key not in left_out}
        own = [{k: v for k, v in (operand or {}).items() if k != "layout"} for operand in record.operands]
        return sha256(json.dumps([shared, own if any(own) else []], sort_keys=True).encode()).hexdigest()[:DIGEST_CHARS]

    def calls(self, records: Iterable[Record]) -> int:
        """Returns how many calls of models ``records`` are variants of, each counted as often as models make it."""
        most: dict[str, int] = {}
        for record in records:
            if made := record.calls:
                call = self.call_of(record)
                most[call] = max(made, most.get(call, 0))
        return sum(most.values())
