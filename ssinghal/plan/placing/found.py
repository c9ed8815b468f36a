"""What a search for placements returns: a choice for each step, or the step at which there is none."""

from __future__ import annotations

from dataclasses import dataclass, field

from ssinghal.core.verdict import DecidedBy, Resource, Verdict
from ssinghal.plan.placement import Form, Outcome, StepChoice, Traffic

Cost = tuple[int, int]  # of ``Traffic.cost``: bytes, then changes


@dataclass(frozen=True)
class Rejected:
    """A choice that was not made.

    Attributes:
        choice: The choice.
        over_bytes: By how much the step would exceed the limit of a core's L1, beside what else is there; None where it fits.
        failure: Why TTNN rejected the call.
        cost: What the step would have cost; None where TTNN rejected the call.
    """

    choice: StepChoice
    over_bytes: int | None = None
    failure: Verdict | None = None
    cost: Cost | None = None

    @property
    def reason(self) -> str:
        if self.failure is not None:
            return self.failure.message or str(self.failure.status)
        if self.over_bytes is not None:
            return f"needs {self.over_bytes:,} B of a core's L1 more than there is beside the others"
        return "fits here, but is no part of the best plan"


@dataclass(frozen=True)
class PlacedStep:
    """A step with its choice. Bytes of L1 are those of one core.

    Attributes:
        number: Of the step in the trace.
        choice: How it is called.
        outcome: What that call does.
        others_bytes: L1 of live values that are no operands, each buffer once.
        limit_bytes: What the step may take of L1.
        rejected: What would have been cheaper at this step, and why it was not chosen; calls that TTNN rejected among them,
            whose cost is unknown.
    """

    number: int
    choice: StepChoice
    outcome: Outcome
    others_bytes: int
    limit_bytes: int
    rejected: tuple[Rejected, ...] = ()

    @property
    def l1_peak_bytes(self) -> int:
        return self.outcome.l1_peak_bytes + self.others_bytes

    @property
    def traffic(self) -> Traffic:
        return self.outcome.traffic


@dataclass(frozen=True)
class Found:
    """The cheapest placements that were found.

    Attributes:
        steps: Every step with its choice.
        traffic: The sum over all steps.
        exact: Whether there are none cheaper among the candidates: the beam cut no state.
        states: How many states were reached, equal ones counted once.
        bound: No placements of these candidates cost less; equals the cost where ``exact``.
    """

    steps: tuple[PlacedStep, ...]
    traffic: Traffic
    exact: bool
    states: int
    bound: Cost

    @property
    def cost(self) -> Cost:
        return self.traffic.cost

    @property
    def choices(self) -> dict[int, StepChoice]:
        return {step.number: step.choice for step in self.steps}


@dataclass(frozen=True)
class LiveForm:
    """A value that was live: how it was held, and the bytes of a core's L1 that its buffer takes."""

    value: int
    form: Form
    l1_bytes: int


@dataclass(frozen=True)
class NoPlacement:
    """No placements: each way through the steps before this one leaves no choice for it that fits.

    Attributes:
        number: Of the step in the trace.
        operator: Of the step.
        at: The module that makes the call.
        limit_bytes: What the step may take of a core's L1.
        best: The choice that exceeds the limit by the fewest bytes; None where TTNN rejected all, or there were none.
        over_bytes: By how many.
        others_bytes: What values that are no operands take of L1 then.
        live: The values that are live then; without a ``best``, in the cheapest state before the step.
        failures: Why TTNN rejected calls of this step: each message once.
        exact: Whether there are none among the candidates at all: the beam cut no state before.
        pin: What the step's results are pinned to, as it was written; then all this is about calls that keep to it.
    """

    number: int
    operator: str
    at: str
    limit_bytes: int
    best: StepChoice | None = None
    over_bytes: int | None = None
    others_bytes: int = 0
    live: tuple[LiveForm, ...] = ()
    failures: tuple[Verdict, ...] = field(default=())
    exact: bool = True
    pin: str = ""

    @property
    def failure(self) -> Verdict | None:
        """The failure that matters most: where not even DRAM holds the step's tensors, that L1 does not either is no reason."""
        in_dram = (x for x in self.failures if x.resource is Resource.DRAM_BUFFER)
        return next(in_dram, self.failures[0] if self.failures else None)

    def __str__(self) -> str:
        where = f"step {self.number} {self.operator}" + (f" in {self.at}" if self.at else "")
        where += f", pinned by {self.pin}" if self.pin else ""
        if self.over_bytes is not None:
            return (
                f"{where}: the smallest choice needs {self.over_bytes:,} B of a core's L1 more than the"
                f" {self.limit_bytes:,} B it may take, of which other values take {self.others_bytes:,} B"
            )
        if self.failure is not None:
            who = "TTNN rejects every call" if self.failure.decided_by is DecidedBy.TTNN else "no call is possible"
            return f"{where}: {who}: {self.failure.message or self.failure.status}"
        return f"{where}: there are no candidates"
