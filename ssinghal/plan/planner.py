"""Plans a model on a board: the run that decides, and if it fails, runs with the rewrites that may make it fit."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from packaging.version import Version

from ssinghal.capture.trace import Trace, ValueKind
from ssinghal.core.case import DEFAULT_L1_SMALL_BYTES
from ssinghal.core.device_facts import DeviceMode
from ssinghal.core.verdict import Resource, Status
from ssinghal.device.modes import choose_device
from ssinghal.device.releases import Release, installed_release, known_releases
from ssinghal.errors import InvalidCase
from ssinghal.plan.executor import PlanTask
from ssinghal.plan.passes.registry import rewritten
from ssinghal.plan.placing.device_calls import Tried
from ssinghal.plan.placing.refine import Refinement, port_of
from ssinghal.plan.policy import PortingPolicy, Rewrite
from ssinghal.plan.result import PlanResult
from ssinghal.plan.steering import check_pins
from ssinghal.runner.pool import Pool
from ssinghal.runner.pool_cache import PoolCache
from ssinghal.runner.tasks import PoolOptions, Task

R = TypeVar("R")
DEFAULT_TIMEOUT_S = 600.0
FEWER_CHANGES = (Rewrite.QKV_SPLIT, Rewrite.SDPA)  # in L1 they move no more bytes, and change fewer layouts
WORKERS = 2  # of a board; a run of a model takes one, the calls that a search tries take all
FIRST_WITH_BUFFERS = Version("0.67")  # the first release whose graphs have each buffer's memory: ``Session.can_capture``
MAX_L1_SMALL_BYTES = 8 * DEFAULT_L1_SMALL_BYTES  # of a core's L1 of some 1.4 MB, which the calls themselves need


@dataclass(frozen=True)
class PlanSettings:
    """Settings of all runs.

    ``l1_small_bytes``: of every core; None for as much as the model needs, from ``DEFAULT_L1_SMALL_BYTES`` up to
    ``MAX_L1_SMALL_BYTES`` in steps that double. ``allow_stand_ins``: for any share of the bytes. ``inside``: also watch what
    TTNN allocates within its calls. ``to_the_end``: continue after the first failure, with stand-ins.
    """

    l1_small_bytes: int | None = None
    allow_stand_ins: bool = False
    inside: bool = True
    to_the_end: bool = True
    timeout_s: float = DEFAULT_TIMEOUT_S

    @property
    def switches(self) -> tuple[bool, bool, bool]:
        return self.allow_stand_ins, self.inside, self.to_the_end


@dataclass(frozen=True)
class Plan:
    """Whether a model fits on a board, and what makes it fit.

    Attributes:
        result: The run under the requested policy.
        tried: Runs with further rewrites, in their order; the last one fits, if any does.
    """

    result: PlanResult
    tried: tuple[PlanResult, ...] = ()

    @property
    def remedy(self) -> PlanResult | None:
        """The run that fits, where the policy alone does not."""
        return self.tried[-1] if self.tried and self.tried[-1].status is Status.FITS else None


class Boards(PoolCache[Pool]):
    """Runs models in worker processes of virtual boards; a card would have to compute them."""

    def __init__(self, settings: PlanSettings, release: Release | None = None) -> None:
        super().__init__()
        self.settings, self._release = settings, release
        self._tried: dict[tuple[str, str], Tried] = {}  # by board and policy
        self._tasks: dict[tuple[str, str], PlanTask] = {}

    def run(self, trace: Trace, policy: PortingPolicy, board: str, journal: Path | None = None) -> PlanResult:
        """Runs a model, again with a larger L1_SMALL region where that alone was too small.

        Under policy ``l1`` it is run with the rewrites that move less there, and without them only if that does not fit.

        Raises:
            InvalidCase: a pin of the policy matches no module, or the release cannot run the policy.
        """
        check_policy(policy, trace, self._release)
        fused = policy
        for rewrite in FEWER_CHANGES if policy.in_l1 else ():
            if rewrite not in fused.rewrites and applies(trace, fused, rewrite):
                fused = fused.with_rewrite(rewrite)
        result = self._sized(trace, fused, policy, board, journal)
        if fused == policy or result.status is Status.FITS:
            return result
        return self._sized(trace, policy, policy, board, journal)

    def _sized(
        self, trace: Trace, policy: PortingPolicy, requested: PortingPolicy, board: str, journal: Path | None
    ) -> PlanResult:
        """Runs a model under a policy, which may have more rewrites than the requested one."""
        settings = self.settings
        size = settings.l1_small_bytes or DEFAULT_L1_SMALL_BYTES
        task = PlanTask(rewritten(trace, policy), policy, size, journal, *settings.switches)
        in_dram = port_of(requested)
        port = replace(task, trace=rewritten(trace, in_dram), policy=in_dram, journal=None, to_the_end=False)
        result = self._run(task, port, board)
        while settings.l1_small_bytes is None and _lacks_l1_small(result) and size < MAX_L1_SMALL_BYTES:
            size *= 2
            result = self._run(replace(task, l1_small_bytes=size), replace(port, l1_small_bytes=size), board)
        return result

    def _run(self, task: PlanTask, port: PlanTask, board: str) -> PlanResult:
        """Runs ``task``. ``port``: what a plan in L1 is compared with."""
        pool, key = self._on(board), (board, str(task.policy))
        self._tasks[key] = task
        if not task.policy.in_l1:
            return pool.run(task).result()
        refinement = Refinement(task, port, pool, self._tried.setdefault(key, {}))
        result = refinement.result()
        self._tasks[key] = refinement.ran or task
        return result

    def last_task(self, result: PlanResult) -> PlanTask:
        """Returns the run that had a result, with its choices of placements: the last one under its policy on its board."""
        return self._tasks[result.board, result.policy_name]

    def perform(self, task: Task[R], board: str) -> R:
        """Runs any other task on the board."""
        return self._on(board).run(task).result()

    def ttnn(self, board: str) -> str:
        """Returns the TTNN release that runs the board."""
        return self._on(board).facts.ttnn

    def _on(self, board: str) -> Pool:
        options = PoolOptions(WORKERS, self.settings.timeout_s, release=self._release)
        return self.pool(board, lambda: Pool(choose_device(DeviceMode.VIRTUAL.value, board), options))


def _lacks_l1_small(result: PlanResult) -> bool:
    """Returns whether L1_SMALL was too small for the tables of pools and convolutions, which says nothing about the model."""
    return result.failure is not None and result.failure.verdict.resource is Resource.L1_SMALL_BUFFER


def check_policy(policy: PortingPolicy, trace: Trace | None = None, release: Release | None = None) -> None:
    """Raises InvalidCase for a policy that a TTNN release cannot run (None: the installed one), or with pins that match no
    module of ``trace``."""
    running = release or installed_release()
    if policy.in_l1 and running is not None and Version(running.version) < FIRST_WITH_BUFFERS:
        able = [x.version for x in known_releases() if Version(x.version) >= FIRST_WITH_BUFFERS]
        raise InvalidCase(
            f"policy {policy.name} needs graphs of calls with the buffers of each memory, which ttnn {running.version} does not"
            f" give; it runs with {', '.join(able) or 'releases from 0.75.0 on'}"
        )
    if trace is not None:
        check_pins(policy.pins, (step.at for step in trace.steps))


def check_trace(trace: Trace, *, partial: bool) -> tuple[str, ...]:
    """Returns notes on the recording that belong to every plan of it.

    Raises:
        InvalidCase: an input has no elements, or the recording is not the complete model, and not ``partial``.
    """
    for value in trace.values:
        if value.kind is ValueKind.INPUT and 0 in value.shape:
            where = f"{trace.model}: {value.name or 'an input'} {list(value.shape)}"
            raise InvalidCase(f"{where}: expected sizes of at least 1, got 0")
    if trace.stopped and not partial:
        raise InvalidCase(
            f"{trace.model}: the recording is not the complete model ({trace.stopped}); --partial plans what was recorded, and"
            " module:function can supply a model without the rest"
        )
    notes = [f"only the recorded part: {trace.stopped}"] if trace.stopped else []
    if trace.guesses:
        where = ", ".join(f"{count} in {path}" for path, count in trace.guesses.items())
        notes.append(f"values read back were guessed, and the model's control flow may depend on them: {where}")
    return tuple(notes)


def plan(
    trace: Trace, policy: PortingPolicy, board: str, boards: Boards, *, journal: Path | None = None, search: bool = True
) -> Plan:
    """Runs the model; if it does not fit, also with each rewrite, then with the others in addition to the best one."""
    result = boards.run(trace, policy, board, journal)
    if result.status is not Status.OOM or not search:
        return Plan(result)
    tried: list[PlanResult] = []
    fewest_left = _steps_left(result)
    while True:
        runs = list(_runs_with_rewrites(trace, policy, board, boards))
        tried += [run for _, run in runs]
        if not runs or tried[-1].status is Status.FITS:
            return Plan(result, tuple(tried))
        rewrite, best = min(runs, key=lambda run: _steps_left(run[1]))
        if _steps_left(best) >= fewest_left:
            return Plan(result, tuple(tried))
        fewest_left, policy = _steps_left(best), policy.with_rewrite(rewrite)


def _runs_with_rewrites(
    trace: Trace, policy: PortingPolicy, board: str, boards: Boards
) -> Iterator[tuple[Rewrite, PlanResult]]:
    """Runs the model with each rewrite that is not in the policy and changes something, up to the first that fits."""
    for rewrite in Rewrite:
        if rewrite in policy.rewrites or not applies(trace, policy, rewrite):
            continue
        run = boards.run(trace, policy.with_rewrite(rewrite), board)
        yield rewrite, run
        if run.status is Status.FITS:
            return


def applies(trace: Trace, policy: PortingPolicy, rewrite: Rewrite) -> bool:
    """Returns whether a rewrite changes anything of the model under this policy."""
    if rewrite is Rewrite.SOFTMAX_IN_PLACE:  # a change of the call, not of the trace
        return any(step.overload == "aten.softmax.int" for step in trace.steps)
    return rewritten(trace, policy.with_rewrite(rewrite)).steps != rewritten(trace, policy).steps


def _steps_left(result: PlanResult) -> int:
    """Returns the steps that were not done at the failure: rewrites change the number of all steps, but not of those."""
    return result.total_steps - result.failure.step if result.failure is not None else result.total_steps + 1


def with_notes(plan: Plan, notes: tuple[str, ...]) -> Plan:
    """Returns the plan with ``notes`` before those of each of its results."""
    results = [replace(run, notes=(*notes, *run.notes)) for run in (plan.result, *plan.tried)]
    return Plan(results[0], tuple(results[1:]))
