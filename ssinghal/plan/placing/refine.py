"""Searches for placements and runs the complete model with them, until a run succeeds or its failure has nothing to learn from.

The search knows each call alone, and counts bytes; it does not know how the free memory is fragmented, nor how calls that
measure what is free themselves decide then. The run of the complete model does: where it fails, its failure is learned, and the
search is repeated.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from ssinghal.capture.trace import Trace, Value, ValueKind
from ssinghal.core.tensors import TILE_ELEMENTS, Board, DType
from ssinghal.core.verdict import Resource, Status, Verdict
from ssinghal.errors import InvalidCase
from ssinghal.plan.executor import PlanTask, empty_result, placed_form
from ssinghal.plan.lowering import PlannedCall, PlannedStep, planned_steps
from ssinghal.plan.placement import IN_DRAM, Form, StepChoice
from ssinghal.plan.placing.device_calls import DeviceCalls, Tried
from ssinghal.plan.placing.graph import Calls, Limits, StepNode
from ssinghal.plan.placing.pins import PinnedCalls, check_views, with_pin
from ssinghal.plan.placing.reporting import placement_of
from ssinghal.plan.placing.search import Found, NoPlacement, Search
from ssinghal.plan.policy import POLICIES, PortingPolicy
from ssinghal.plan.result import PlanResult
from ssinghal.plan.sizes import least_bytes
from ssinghal.plan.steering import check_pin_cores
from ssinghal.runner.pool import Pool

MAX_RUNS = 24
BEAM = 48
_L1_FAILURES = (Resource.L1_BUFFER, Resource.CLASH, Resource.CIRCULAR_BUFFER, Resource.FRAGMENTATION)


@dataclass(frozen=True)
class Attempt:
    """A run of the complete model that failed, and what was learned from it.

    ``step``: the one that failed. ``lowered_bytes``: by which its limit was lowered. ``excluded``: its choice is no candidate
    any more. With neither, the tensors in L1 are moved together before it.
    """

    step: int
    message: str
    lowered_bytes: int = 0
    excluded: bool = False


def step_nodes(trace: Trace, steps: Sequence[PlannedStep], weights: DType | None = None) -> list[StepNode]:
    """Returns the graph of a trace as the search takes it. ``weights``: the policy's dtype of them, None for the model's.

    Each call reads its weights and constants from DRAM: at least their elements.
    """
    dying: dict[int, set[int]] = {}
    for value, step in trace.last_use.items():
        if not trace.values[value].is_resident:
            dying.setdefault(step, set()).add(value)
    return [
        StepNode(
            step.number,
            step.operator,
            step.step.at,
            tuple(None if trace.values[n].is_resident else n for n in step.operands),
            step.results,
            frozenset(dying.get(step.number, ())),
            sum(_elements_bytes(trace.values[n], weights) for n in step.operands if trace.values[n].is_resident)
            if isinstance(step, PlannedCall)
            else 0,
        )
        for step in steps
    ]


def _elements_bytes(value: Value, weights: DType | None) -> int:
    narrow = weights is not None and "float" in value.dtype
    size = least_bytes(value.shape, value.dtype)
    return min(size, math.prod(value.shape) * weights.tile_bytes // TILE_ELEMENTS) if narrow and weights else size


def input_forms(trace: Trace, policy: PortingPolicy) -> Mapping[int, Form]:
    """Returns the inputs of a model as a run places them."""
    return {
        number: placed_form(value, trace.dtype, policy)
        for number, value in enumerate(trace.values)
        if value.kind is ValueKind.INPUT
    }


def port_of(policy: PortingPolicy) -> PortingPolicy:
    """Returns the policy ``port`` with the rewrites and dtypes of this one, to compare what is moved."""
    dtypes = {"weights": policy.weights, "activations": policy.activations}
    return replace(POLICIES["port"], rewrites=policy.rewrites, **dtypes)  # type: ignore[arg-type]


@dataclass
class Refinement:
    """The search for one model on one board.

    ``task``: the run, without choices. ``port``: that of the same model under the policy ``port``, to compare what is moved.
    ``tried``: calls that were tried before. ``ran``: the last run, with its choices.
    """

    task: PlanTask
    port: PlanTask
    pool: Pool
    tried: Tried = field(default_factory=dict)
    learned: dict[int, int] = field(default_factory=dict)
    compact: set[int] = field(default_factory=set)
    excluded: set[tuple[int, StepChoice]] = field(default_factory=set)
    attempts: list[Attempt] = field(default_factory=list)
    ran: PlanTask | None = None

    @property
    def board(self) -> Board:
        return self.pool.facts.opened_board.with_l1_small(self.task.l1_small_bytes)

    def result(self) -> PlanResult:
        """Returns the first run of the complete model that succeeds, or the last one; without placements, why not.

        Raises:
            InvalidCase: The headroom is all of L1, or a pin has cores that the board lacks, or is about views alone, which are
                where the viewed tensors are, and that is elsewhere.
        """
        trace, task, board = self.task.trace, self.task, self.board
        check_pin_cores(task.policy.pins, board)
        steps = planned_steps(trace)
        nodes, inputs = step_nodes(trace, steps, task.policy.weights), input_forms(trace, task.policy)
        calls: Calls = DeviceCalls(trace, task.policy, steps, self.pool, board, task.l1_small_bytes, self.tried, self.excluded)
        if task.policy.pins:
            calls = PinnedCalls(calls, task.policy.pins, board)
        headroom = task.policy.headroom.bytes_of(board.l1.bank_bytes)
        if headroom >= board.l1.bank_bytes:
            raise InvalidCase(
                f"headroom {task.policy.headroom}: expected less than the {board.l1.bank_bytes:,} B that a core's L1 of"
                f" {board.name} has for tensors and program buffers"
            )
        port = self.pool.run(self.port).result()
        search, excluded = Search(nodes, inputs, calls, board, beam=BEAM), 0
        search_s = run_s = 0.0
        while True:
            started = time.perf_counter()
            if len(self.excluded) > excluded:
                search, excluded = Search(nodes, inputs, calls, board, beam=BEAM), len(self.excluded)
            limits = Limits(board.l1.bank_bytes, headroom, dict(self.learned), frozenset(self.compact))
            found = search.within(limits)
            searched = time.perf_counter()
            search_s += searched - started
            run = None
            if isinstance(found, NoPlacement):
                found = with_pin(found, task.policy.pins)
            else:
                check_views(task.policy.pins, nodes, found)
                self.ran = replace(task, choices=found.choices, to_the_end=False)
                run = self.pool.run(self.ran).result()
                run_s += time.perf_counter() - searched
            if run is None or len(self.attempts) >= MAX_RUNS:
                break
            if run.status is not Status.FITS:
                if not self._learn(run):
                    break
            elif not headroom or self._keeps(run, board.l1.bank_bytes - headroom):
                break
        report = placement_of(
            found,
            run,
            trace=trace,
            steps=steps,
            board=board,
            headroom_bytes=headroom,
            failed_runs=[(x.step, x.message, x.lowered_bytes, x.excluded) for x in self.attempts],
            probes=len(self.tried),
            search_s=search_s,
            run_s=run_s,
            port=port,
        )
        result = run if run is not None else self._without_placement(found)
        return replace(result, placement=report)

    def _without_placement(self, found: Found | NoPlacement) -> PlanResult:
        """Returns the result where there was nothing to run."""
        facts = self.pool.facts
        rejected = found.failure if isinstance(found, NoPlacement) and found.over_bytes is None else None
        status = rejected.status if rejected is not None else Status.OOM
        return replace(empty_result(self.task, facts.board, facts.ttnn, facts.mode), status=status, message=str(found))

    def _keeps(self, run: PlanResult, most_bytes: int) -> bool:
        """Returns whether each step of a run took no more of a core's L1 than it may; else learns by how much one exceeds that,
        as the run knows program buffers that are unknown of the call alone."""
        over = next((use for use in run.steps if use.l1_total_peak_bytes > most_bytes), None)
        if over is None:
            return True
        excess = over.l1_total_peak_bytes - most_bytes
        self.learned[over.number] = self.learned.get(over.number, 0) + excess
        message = f"it took {over.l1_total_peak_bytes:,} B of a core's L1, {excess:,} B of what is to stay free"
        self.attempts.append(Attempt(over.number, message, excess))
        return False

    def _learn(self, result: PlanResult) -> bool:
        """Learns from a failure; returns False where it is one of DRAM or the host: another placement would not help.

        A call that TTNN rejects for another reason was accepted when it was tried alone: it decides by what is free of L1.
        """
        failure = result.failure
        if failure is None or failure.step < 0 or self.ran is None:
            return False
        if failure.verdict.status is not Status.OOM:
            self.excluded.add((failure.step, self.ran.choices.get(failure.step, IN_DRAM).plain))
            self.attempts.append(Attempt(failure.step, failure.verdict.message, excluded=True))
            return True
        if failure.verdict.resource not in _L1_FAILURES:
            return False
        if failure.step not in self.compact:
            self.compact.add(failure.step)
            self.attempts.append(Attempt(failure.step, failure.verdict.message))
            return True
        lowered = missing_bytes(failure.verdict, self.board)
        self.learned[failure.step] = self.learned.get(failure.step, 0) + lowered
        self.attempts.append(Attempt(failure.step, failure.verdict.message, lowered))
        return True


def missing_bytes(verdict: Verdict, board: Board) -> int:
    """Returns the bytes of a core's L1 that a call lacked; where the message has no figures, the least that is booked."""
    return max(verdict.shortfall_bytes or 0, board.granule_bytes)
