"""Knows what calls need from a device: each different call is tried once, in a worker process, and remembered."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence, Set
from concurrent.futures import Future
from dataclasses import dataclass, field, replace

from ssinghal.capture.trace import Trace, trace_text
from ssinghal.core.tensors import Board, ceil_div
from ssinghal.core.verdict import Status
from ssinghal.plan.executor import stand_in_form
from ssinghal.plan.lowering import PlannedCall, PlannedStep
from ssinghal.plan.placement import Held, Outcome, StepChoice
from ssinghal.plan.placing.candidates import offered
from ssinghal.plan.placing.graph import StepNode
from ssinghal.plan.placing.probing import StepProbe, StepRequest, single_step
from ssinghal.plan.policy import PortingPolicy
from ssinghal.runner.pool import Pool

MIN_TOGETHER = 4  # calls of one step: what TTNN prepared and built for one serves the others
LOST = (Status.CRASH, Status.TIMEOUT)
Tried = dict[tuple[str, frozenset[int], StepRequest, int], Outcome]  # by call and the bytes of L1_SMALL


@dataclass
class DeviceCalls:
    """The calls of one model on one board.

    ``tried``: what was seen, by call; models share it on the same device and policy. ``excluded``: choices of steps that are no
    candidates.
    """

    trace: Trace
    policy: PortingPolicy
    steps: Sequence[PlannedStep]
    pool: Pool
    board: Board
    l1_small_bytes: int
    tried: Tried = field(default_factory=dict)
    excluded: Set[tuple[int, StepChoice]] = frozenset()
    _singles: dict[int, tuple[str, Trace]] = field(default_factory=dict)

    def candidates(self, node: StepNode, operands: Mapping[int, Held]) -> Sequence[StepChoice]:
        planned = self.steps[node.number]
        if not isinstance(planned, PlannedCall):
            return [StepChoice()]
        return [x for x in offered(planned, operands, self.board) if (node.number, x.plain) not in self.excluded]

    def outcomes(self, node: StepNode, requests: Sequence[tuple[Mapping[int, Held], StepChoice]]) -> Sequence[Outcome]:
        planned = self.steps[node.number]
        if not isinstance(planned, PlannedCall):
            return [self._stand_in(planned, operands) for operands, _ in requests]
        name, single = self._single(node.number)
        dies = frozenset(p for p, value in enumerate(node.operands) if value is not None and value in node.dies)
        requested = [
            StepRequest(tuple((p, held.form) for p, held in sorted(operands.items())), choice) for operands, choice in requests
        ]
        keys = [(name, dies, request, self.l1_small_bytes) for request in requested]
        missing = [key for key in dict.fromkeys(keys) if key not in self.tried]
        if missing:
            outcomes = self._probed(single, dies, tuple(request for _, _, request, _ in missing))
            self.tried.update(zip(missing, outcomes, strict=True))
        return [self.tried[key] for key in keys]

    def _stand_in(self, planned: PlannedStep, operands: Mapping[int, Held]) -> Outcome:
        """Returns what a run does for a step without a call: its results are stand-ins in DRAM."""
        first = next((held.form.axes for _, held in sorted(operands.items())), None)
        forms = [stand_in_form(self.trace.values[number], self.trace.dtype, first) for number in planned.results]
        l1 = sum(held.form.l1_bytes(self.board) for held in operands.values() if held.shares is None)
        return Outcome(operands, tuple(map(Held, forms)), l1_peak_bytes=l1)

    def _single(self, number: int) -> tuple[str, Trace]:
        if number not in self._singles:
            single = single_step(self.trace, self.trace.steps[number])
            self._singles[number] = hashlib.sha256(trace_text(single).encode()).hexdigest(), single
        return self._singles[number]

    def _probed(self, single: Trace, dies: frozenset[int], requests: tuple[StepRequest, ...]) -> list[Outcome]:
        """Tries calls, some of them in each worker. Where one ends its worker, those that were with it are tried again, each by
        itself, so that it alone is lost."""
        share = max(MIN_TOGETHER, ceil_div(len(requests), self.pool.options.workers))
        parts = [requests[start : start + share] for start in range(0, len(requests), share)]
        probes = [StepProbe(single, self.policy, dies, part, self.l1_small_bytes) for part in parts]
        runs = [self.pool.run(probe) for probe in probes]
        return [outcome for probe, run in zip(probes, runs, strict=True) for outcome in self._kept(probe, run)]

    def _kept(self, probe: StepProbe, run: Future[list[Outcome]]) -> list[Outcome]:
        outcomes = run.result()
        if len(outcomes) > 1 and all(o.failure is not None and o.failure.status in LOST for o in outcomes):
            return [self.pool.run(replace(probe, requests=(request,))).result()[0] for request in probe.requests]
        return outcomes
