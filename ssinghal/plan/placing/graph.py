"""The graph that placements are searched for: steps in the order of the trace, who makes their calls, and the limits of L1."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from ssinghal.plan.placement import Held, Outcome, StepChoice


@dataclass(frozen=True)
class StepNode:
    """A step of the graph.

    Attributes:
        number: Of the step in the trace.
        operator: Its canonical name, for texts.
        at: The module that makes the call, for texts.
        operands: The value at each position among the operands; None for weights and constants.
        results: The values that it creates.
        dies: The values that nobody reads after it, results that nobody reads among them.
        least_bytes: Bytes that each call of the step moves through DRAM however values are held, such as those of its weights.
            They make the lower bound of a search better; 0 is always true.
    """

    number: int
    operator: str
    at: str
    operands: tuple[int | None, ...]
    results: tuple[int, ...]
    dies: frozenset[int]
    least_bytes: int = 0


class Calls(Protocol):
    """Knows how steps can be called, and what such a call needs.

    Operands are given by position, without those that are weights or constants. ``Held.shares`` is then the first position
    that has the same value or, in L1, the same buffer; sharing in DRAM is not stated. Both methods return the same for the same
    arguments.
    """

    def candidates(self, node: StepNode, operands: Mapping[int, Held]) -> Sequence[StepChoice]:
        """Returns the choices worth trying for operands held like this, in any order. They are hashable."""

    def outcomes(self, node: StepNode, requests: Sequence[tuple[Mapping[int, Held], StepChoice]]) -> Sequence[Outcome]:
        """Returns what each call did, in the order of the requests: one round trip to a device for all of them.

        In an outcome ``shares`` refers to buffers as they are after the step. An operand that has the same form keeps its
        buffer, as it does where it shares that of its own position; with another form it has been replaced by a tensor with a
        buffer of its own. One that it lacks was freed within the step.
        """


@dataclass(frozen=True)
class Limits:
    """What a core's L1 may hold, in bytes.

    Attributes:
        l1_bank_bytes: What a core's L1 has for tensors and program buffers.
        headroom_bytes: What is to stay free of it at every step.
        learned: By step, what it may hold less, as runs of the complete model have shown.
        compact: Steps before which all tensors in L1 are moved together.
    """

    l1_bank_bytes: int
    headroom_bytes: int = 0
    learned: Mapping[int, int] = field(default_factory=dict)
    compact: frozenset[int] = frozenset()

    def at(self, step: int) -> int:
        """Returns the bytes that a core's L1 may hold at any moment of a step."""
        return self.l1_bank_bytes - self.headroom_bytes - self.learned.get(step, 0)
