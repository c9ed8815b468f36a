"""How much a peak may grow before a comparison fails."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import NamedTuple

from ssinghal.core.parsing import size_in_bytes
from ssinghal.core.tensors import format_bytes
from ssinghal.errors import InvalidCase
from ssinghal.profile.call_changes import Change
from ssinghal.profile.comparison import Comparison
from ssinghal.profile.names import MEMORY_NAMES

_PERCENT = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,9})?) *%")
_PROGRAMS = "L1 with program buffers"


class GrowthLimit(NamedTuple):
    """A peak may grow by ``share`` of what it was, and by so many ``bank_bytes``."""

    share: Fraction = Fraction(0)
    bank_bytes: int = 0

    @classmethod
    def parse(cls, text: str) -> GrowthLimit:
        """Returns the limit that a text such as ``1%``, ``64 KiB`` or ``4096`` gives.

        Raises:
            InvalidCase: It is none.

        >>> GrowthLimit.parse("1.5%").share, GrowthLimit.parse("64 KiB").bank_bytes
        (Fraction(3, 200), 65536)
        """
        if match := _PERCENT.fullmatch(text.strip()):
            return cls(share=Fraction(match[1]) / 100)
        try:
            return cls(bank_bytes=size_in_bytes(int(text) if text.strip().isdecimal() else text))
        except InvalidCase:
            raise InvalidCase(f"increase {text!r}: expected a share such as 1%, or a size such as '64 KiB'") from None

    def is_exceeded(self, change: Change) -> bool:
        return change.difference > self.share * (change.before or 0) + self.bank_bytes

    def findings(self, comparison: Comparison) -> list[str]:
        """Returns why the second profile is worse: peaks that grew too much, or an end that the first did not have.

        A peak with program buffers is only a finding if the first profile knows those of all its programs: else it may have
        been as high.
        """
        rows = [(MEMORY_NAMES[memory], change) for memory, change in comparison.peaks.items()]
        if not comparison.unknown_programs.before:
            rows.append((_PROGRAMS, comparison.l1_and_programs))
        grown = [f"{name}: peak grew by {format_bytes(change.difference)}" for name, change in rows if self.is_exceeded(change)]
        before, after = comparison.failures
        return grown + ([f"the program {after}"] if after and not before else [])

    def unproven(self, comparison: Comparison) -> list[str]:
        """Returns what grew too much as far as it is known, but may not have: see ``findings``."""
        unknown = comparison.unknown_programs.before
        if not unknown or not self.is_exceeded(comparison.l1_and_programs):
            return []
        grown = format_bytes(comparison.l1_and_programs.difference)
        return [
            f"{_PROGRAMS}: known peak grew by {grown}, which is no finding: TTNN did not report the program buffers of "
            f"{unknown:,} runs of programs of the first profile"
        ]
