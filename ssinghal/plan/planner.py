"""A model on a board: the run that decides, and where it fails, the rewrites that make it fit, each tried."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from ssinghal.capture.trace import Trace
from ssinghal.core.case import DEFAULT_L1_SMALL_BYTES
from ssinghal.core.device_facts import DeviceMode
from ssinghal.core.record import Resource, Status
from ssinghal.device.modes import choose_device
from ssinghal.device.releases import Release
from ssinghal.errors import InvalidCase
from ssinghal.plan.executor import PlanTask
from ssinghal.plan.passes.registry import rewritten
from ssinghal.plan.policy import PortingPolicy, Rewrite
from ssinghal.plan.result import PlanResult
from ssinghal.runner.pool import Pool
from ssinghal.runner.pool_cache import PoolCache
from ssinghal.runner.tasks import PoolOptions

DEFAULT_TIMEOUT_S = 600.0
MAX_L1_SMALL_BYTES = 8 * DEFAULT_L1_SMALL_BYTES  # of a core's L1 of some 1.4 MB, all of which the calls themselves want too


@dataclass(frozen=True)
class PlanSettings:
    """``l1_small_bytes``: of every core; None: as much as the model wants, from ``DEFAULT_L1_SMALL_BYTES`` on in steps that
    double, up to ``MAX_L1_SMALL_BYTES``. ``allow_stand_ins``: whatever share of the bytes they make. ``inside``: also watch
    what TTNN allocates within its calls. ``to_the_end``: go on after the first failure, with stand-ins."""

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
    """``result``: of the policy as it was asked for. ``tried``: rewrites beyond it, in the order in which they were run; the
    last one fits, if any does."""

    result: PlanResult
    tried: tuple[PlanResult, ...] = ()

    @property
    def remedy(self) -> PlanResult | None:
        """The run that fits where the policy alone does not."""
        return self.tried[-1] if self.tried and self.tried[-1].status is Status.FITS else None


class Boards(PoolCache[Pool]):
    """Worker processes of virtual boards: a card would have to compute the model."""

    def __init__(self, settings: PlanSettings, release: Release | None = None) -> None:
        super().__init__()
        self.settings, self._release = settings, release

    def run(self, trace: Trace, policy: PortingPolicy, board: str, journal: Path | None = None) -> PlanResult:
        settings = self.settings
        size = settings.l1_small_bytes or DEFAULT_L1_SMALL_BYTES
        changed, (stand_ins, inside, to_the_end) = rewritten(trace, policy), settings.switches
        task = PlanTask(changed, policy, size, journal, stand_ins, inside, to_the_end)
        pool = self._on(board)
        result = pool.run(task).result()
        while settings.l1_small_bytes is None and _wants_l1_small(result) and size < MAX_L1_SMALL_BYTES:
            size *= 2
            result = pool.run(replace(task, l1_small_bytes=size)).result()
        return result

    def ttnn(self, board: str) -> str:
        return self._on(board).facts.ttnn

    def _on(self, board: str) -> Pool:
        options = PoolOptions(timeout_s=self.settings.timeout_s, release=self._release)
        return self.pool(board, lambda: Pool(choose_device(DeviceMode.VIRTUAL.value, board), options))


def _wants_l1_small(result: PlanResult) -> bool:
    """Programs of pools and convolutions keep their tables there: a device that was opened with too little says nothing of the
    model."""
    return result.failure is not None and result.failure.verdict.resource is Resource.L1_SMALL_BUFFER


def check_trace(trace: Trace, *, partial: bool) -> tuple[str, ...]:
    """What must be said of the recording with every plan of it.

    InvalidCase where it is not the whole model, unless ``partial``.
    """
    if trace.stopped and not partial:
        raise InvalidCase(
            f"{trace.model}: the recording is not the whole model ({trace.stopped}); --partial plans what was recorded, and"
            " module:function can bring a model without the rest"
        )
    notes = [f"only what was recorded: {trace.stopped}"] if trace.stopped else []
    if trace.guesses:
        where = ", ".join(f"{count} in {path}" for path, count in trace.guesses.items())
        notes.append(f"values read back were guessed, and the way taken may depend on them: {where}")
    return tuple(notes)


def plan(
    trace: Trace, policy: PortingPolicy, board: str, boards: Boards, *, journal: Path | None = None, search: bool = True
) -> Plan:
    """Runs the model; where it does not fit, rewrites one at a time, then on top of the one that gets furthest."""
    result = boards.run(trace, policy, board, journal)
    if result.status is not Status.OOM or not search:
        return Plan(result)
    tried: list[PlanResult] = []
    best, left = _left(result), result
    while True:
        runs = list(_tries(trace, policy, board, boards))
        tried += [run for _, run in runs]
        if tried and tried[-1].status is Status.FITS:
            return Plan(result, tuple(tried))
        rewrite, left = min(runs, key=lambda run: _left(run[1]), default=(None, left))
        if rewrite is None or _left(left) >= best:
            return Plan(result, tuple(tried))
        best, policy = _left(left), policy.with_rewrite(rewrite)


def _tries(trace: Trace, policy: PortingPolicy, board: str, boards: Boards) -> Iterator[tuple[Rewrite, PlanResult]]:
    """Each rewrite that is not in the policy and changes something; ends with the first that fits."""
    for rewrite in Rewrite:
        if rewrite in policy.rewrites or not applies(trace, policy, rewrite):
            continue
        run = boards.run(trace, policy.with_rewrite(rewrite), board)
        yield rewrite, run
        if run.status is Status.FITS:
            return


def applies(trace: Trace, policy: PortingPolicy, rewrite: Rewrite) -> bool:
    if rewrite is Rewrite.SOFTMAX_IN_PLACE:  # a change of the call, not of the trace
        return any(step.overload == "aten.softmax.int" for step in trace.steps)
    return rewritten(trace, policy.with_rewrite(rewrite)).steps != rewritten(trace, policy).steps


def _left(result: PlanResult) -> int:
    """Steps that were not done when it failed: rewrites change their number, but not what is left to do."""
    return result.total_steps - result.failure.step if result.failure is not None else result.total_steps + 1


def with_notes(found: Plan, notes: tuple[str, ...]) -> Plan:
    return Plan(replace(found.result, notes=notes), tuple(replace(run, notes=notes) for run in found.tried))
