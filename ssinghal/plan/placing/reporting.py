"""Makes the report of a search for placements and of the run that decided."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from ssinghal.capture.trace import Trace
from ssinghal.core.memory_config import MemoryConfig
from ssinghal.core.tensors import Board
from ssinghal.core.verdict import MESSAGE_LIMIT, Status, Verdict, sentence
from ssinghal.errors import cut
from ssinghal.plan.lowering import PlannedStep
from ssinghal.plan.placed_result import (
    FailedRun,
    LiveInL1,
    Moved,
    NotChosen,
    Nowhere,
    PlacementReport,
    ResultPlace,
    Share,
    StepPlacement,
)
from ssinghal.plan.placement import DRAM, Form
from ssinghal.plan.placing.choice_words import Places, choice_text, moves_text, settings_text
from ssinghal.plan.placing.found import Found, NoPlacement, PlacedStep, Rejected
from ssinghal.plan.result import PlanResult, StepUse


def placement_of(
    found: Found | NoPlacement,
    run: PlanResult | None,
    *,
    trace: Trace,
    steps: Sequence[PlannedStep],
    board: Board,
    headroom_bytes: int = 0,
    failed_runs: Iterable[tuple[int, str, int] | tuple[int, str, int, bool]] = (),
    probes: int = 0,
    search_s: float = 0.0,
    run_s: float = 0.0,
    port: PlanResult | None = None,
) -> PlacementReport:
    """Returns the report of the last search and its run.

    Args:
        found: What the last search returned.
        run: The run of the complete model with these placements; None where there was nothing to run.
        trace: What was run.
        steps: Those of ``trace``.
        board: Where.
        headroom_bytes: What was to stay free of each core's L1.
        failed_runs: Of each run before: the step that failed, the message, the bytes that its limit was lowered by, and whether
            its choice is excluded.
        probes: Calls that were tried alone.
        search_s: Wall time of all searches.
        run_s: Wall time of all runs.
        port: A run of the same trace under the policy ``port``.
    """
    failed = tuple(FailedRun(steps[x[0]].number, steps[x[0]].operator, steps[x[0]].step.at, *x[1:]) for x in failed_runs)
    effort = {"failed_runs": failed, "probes": probes, "search_s": search_s, "run_s": run_s}
    if isinstance(found, NoPlacement):
        nowhere = _nowhere(found, trace, steps[found.number])
        return PlacementReport(headroom_bytes, board.l1.bank_bytes, False, nowhere=nowhere, **effort)  # type: ignore[arg-type]
    uses = {use.number: use for use in run.steps if use.status is Status.FITS} if run is not None else {}
    stays = _stay(found, steps)
    before = _places(found, steps)
    placed = tuple(_step(x, steps[x.number], uses.get(x.number), stays, before[x.number], board) for x in found.steps)
    calling = [step for step in placed if step.calls]
    results = [result for step in calling for result in step.results]
    peak = max(uses.values(), key=lambda use: use.l1_total_peak_bytes, default=None)
    confirmed = run is not None and run.status is Status.FITS
    return PlacementReport(
        headroom_bytes,
        board.l1.bank_bytes,
        confirmed,
        found.exact,
        found.cost[0],
        found.bound[0],
        found.states,
        probes,
        search_s,
        run_s,
        placed,
        failed,
        moved_by(run) if run is not None and confirmed else None,
        moved_by(port) if port is not None and port.status is Status.FITS else None,
        (sum(all(result.stays for result in step.results) for step in calling), len(calling)),
        _part(results),
        peak.l1_total_peak_bytes if peak is not None else 0,
        peak.number if peak is not None else -1,
    )


def moved_by(run: PlanResult) -> Moved:
    """Returns what all steps of a run moved."""
    return Moved(
        sum(use.dram_moved_bytes for use in run.steps),
        sum(use.weights_read_bytes for use in run.steps),
        sum(use.inputs_read_bytes for use in run.steps),
        sum(use.results_written_bytes for use in run.steps),
        sum(use.resharded_bytes for use in run.steps),
        sum(use.layout_changes for use in run.steps),
    )


def _part(results: Iterable[ResultPlace]) -> Share:
    sizes = [(result.total_bytes * result.stays, result.total_bytes) for result in results]
    return sum(staying for staying, _ in sizes), sum(size for _, size in sizes)


def _stay(found: Found, steps: Sequence[PlannedStep]) -> Mapping[int, bool]:
    """Returns, by value, whether its buffer is in L1 from the call that makes it to the last that reads it."""
    buffers: dict[int, int] = {}  # value -> the value whose buffer it has
    stays: dict[int, bool] = {}
    for placed in found.steps:
        planned = steps[placed.number]
        for position, held in placed.outcome.operands.items():
            value = planned.operands[position]
            buffer = buffers.setdefault(value, value)
            stays[buffer] = stays.get(buffer, True) and held.form.in_l1
        for value, held in zip(planned.results, placed.outcome.results, strict=False):
            shared = planned.operands[held.shares] if held.shares is not None else value
            buffer = buffers[value] = buffers.get(shared, shared)
            stays[buffer] = stays.get(buffer, True) and held.form.in_l1
    return {value: stays[buffer] for value, buffer in buffers.items()}


def _places(found: Found, steps: Sequence[PlannedStep]) -> Mapping[int, Places]:
    """Returns, by step, where its operands are before it; the model's inputs are in DRAM at first."""
    memory: dict[int, MemoryConfig] = {}
    before: dict[int, Places] = {}
    for placed in found.steps:
        planned = steps[placed.number]
        before[placed.number] = {p: memory.get(value, DRAM) for p, value in enumerate(planned.operands)}
        memory.update((planned.operands[p], held.form.memory) for p, held in placed.outcome.operands.items())
        memory.update((n, held.form.memory) for n, held in zip(planned.results, placed.outcome.results, strict=False))
    return before


def _step(
    placed: PlacedStep,
    planned: PlannedStep,
    use: StepUse | None,
    stays: Mapping[int, bool],
    operands: Places,
    board: Board,
) -> StepPlacement:
    """``operands``: where they are before the step."""
    choice, outcome = placed.choice, placed.outcome
    traffic = outcome.traffic
    moved: tuple[int, int | None, int, int] = (traffic.dram_bytes, None, traffic.reshard_bytes, traffic.changes)
    if use is not None:
        moved = use.dram_moved_bytes, use.activations_moved_bytes, use.resharded_bytes, use.layout_changes
    peak = use.l1_total_peak_bytes if use is not None else None
    return StepPlacement(
        planned.number,
        planned.operator,
        planned.step.at,
        outcome.calls,
        tuple(_place(held.form, stays[value], board) for value, held in zip(planned.results, outcome.results, strict=False)),
        settings_text(choice),
        choice.settings_of_case,
        moves_text(choice, operands),
        *moved,
        placed.limit_bytes,
        placed.l1_peak_bytes,
        peak,
        use.program_bytes if use is not None else None,
        board.l1.bank_bytes - peak if peak is not None else None,
        tuple(_not_chosen(placed.rejected, traffic.cost[0], operands)),
    )


def _place(form: Form, stays: bool, board: Board) -> ResultPlace:
    shard = form.memory.shard
    return ResultPlace(
        str(form.memory),
        str(shard.cores) if shard is not None else "",
        shard.shape if shard is not None else (),
        form.shape,
        form.dtype.value,
        form.layout.value,
        form.total_bytes(board),
        form.l1_bytes(board),
        stays,
    )


def _not_chosen(rejected: Iterable[Rejected], cost: int, operands: Places) -> Iterator[NotChosen]:
    """Yields what would be cheaper, the cheapest first, then what TTNN rejects."""
    for one in sorted(rejected, key=lambda one: (one.cost is None, one.cost or (0, 0))):
        saved = cost - one.cost[0] if one.cost is not None else None
        reason = rule(one.failure) if one.failure is not None else one.reason
        yield NotChosen(choice_text(one.choice, operands), saved, one.over_bytes, reason)


def rule(verdict: Verdict) -> str:
    """Returns why TTNN rejects a call: the bytes that are missing, else the first sentence of its message."""
    if verdict.status is Status.OOM:
        return sentence(verdict)
    lines = [line.strip() for line in verdict.message.splitlines() if line.strip()]
    return cut(next(iter(lines), "") or verdict.status.value, MESSAGE_LIMIT)


def _nowhere(found: NoPlacement, trace: Trace, planned: PlannedStep) -> Nowhere:
    live = {x.value: x.form.memory for x in found.live}
    operands = {position: live[value] for position, value in enumerate(planned.operands) if value in live}
    return Nowhere(
        found.number,
        found.operator,
        found.at,
        str(found),
        found.limit_bytes,
        choice_text(found.best, operands) if found.best is not None else "",
        found.over_bytes,
        found.others_bytes,
        tuple(LiveInL1(x.value, trace.values[x.value].name, str(x.form.memory), x.l1_bytes) for x in found.live),
        tuple(dict.fromkeys(map(rule, found.failures))),
        found.exact,
    )
