"""Knows what calls need from a device: each different call is tried once, in a worker process, and remembered."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from ssinghal.capture.trace import Trace, trace_text
from ssinghal.core.record import Status
from ssinghal.core.tensors import Board
from ssinghal.plan.lowering import PlannedCall, PlannedStep
from ssinghal.plan.placement import Held, Outcome, StepChoice
from ssinghal.plan.placing.candidates import offered
from ssinghal.plan.placing.graph import StepNode
from ssinghal.plan.placing.probing import StepProbe, StepRequest, single_step
from ssinghal.plan.policy import PortingPolicy
from ssinghal.runner.pool import Pool

LOST = (Status.CRASH, Status.TIMEOUT)
_Key = tuple[str, frozenset[int], StepRequest]


@dataclass
class DeviceCalls:
    """The calls of one model on one board. ``tried``: what was seen, by call; models share it on the same device and policy."""

    trace: Trace
    policy: PortingPolicy
    steps: Sequence[PlannedStep]
    pool: Pool
    board: Board
    l1_small_bytes: int
    tried: dict[_Key, Outcome] = field(default_factory=dict)
    _singles: dict[int, tuple[str, Trace]] = field(default_factory=dict)

    def candidates(self, node: StepNode, operands: Mapping[int, Held]) -> Sequence[StepChoice]:
        planned = self.steps[node.number]
        return offered(planned, operands, self.board) if isinstance(planned, PlannedCall) else [StepChoice()]

    def outcomes(self, node: StepNode, requests: Sequence[tuple[Mapping[int, Held], StepChoice]]) -> Sequence[Outcome]:
        name, single = self._single(node.number)
        dies = frozenset(p for p, value in enumerate(node.operands) if value is not None and value in node.dies)
        asked = [
            StepRequest(tuple((p, held.form) for p, held in sorted(operands.items())), choice) for operands, choice in requests
        ]
        missing = [request for request in dict.fromkeys(asked) if (name, dies, request) not in self.tried]
        if missing:
            outcomes = self._probed(single, dies, tuple(missing))
            self.tried.update(((name, dies, request), outcome) for request, outcome in zip(missing, outcomes, strict=True))
        return [self.tried[name, dies, request] for request in asked]

    def _single(self, number: int) -> tuple[str, Trace]:
        if number not in self._singles:
            single = single_step(self.trace, self.trace.steps[number])
            self._singles[number] = hashlib.sha256(trace_text(single).encode()).hexdigest(), single
        return self._singles[number]

    def _probed(self, single: Trace, dies: frozenset[int], requests: tuple[StepRequest, ...]) -> list[Outcome]:
        """Tries calls together; where that ends the worker, each by itself, so that only the one that ends it is lost."""
        probe = StepProbe(single, self.policy, dies, requests, self.l1_small_bytes)
        outcomes = self.pool.run(probe).result()
        if len(requests) > 1 and all(o.failure is not None and o.failure.status in LOST for o in outcomes):
            return [self.pool.run(replace(probe, requests=(request,))).result()[0] for request in requests]
        return outcomes
