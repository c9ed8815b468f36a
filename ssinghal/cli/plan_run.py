"""The work of ``ssinghal plan``: models at one size, and how large they can be."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ssinghal.capacity.parameters import Goal
from ssinghal.capture.client import Captures
from ssinghal.capture.trace import Trace
from ssinghal.capture.trace_library import trace_for
from ssinghal.cli.progress import TrialProgress, doing, track
from ssinghal.cli.streams import check_writable, echo, show
from ssinghal.core.boards import load_board
from ssinghal.core.files import write_given
from ssinghal.core.tensors import Shape, format_shape
from ssinghal.core.verdict import Status
from ssinghal.device.virtual import ttnn_package
from ssinghal.errors import CaptureError, InvalidCase
from ssinghal.plan.capacity import CapacityResult, Explorer, ModelRun, RunInL1, first_index, table_cell
from ssinghal.plan.data_parallel import chips_of, part_of_batch, split_note
from ssinghal.plan.input_sizes import TIERS, shapes_of, size_of
from ssinghal.plan.liveness import arithmetics
from ssinghal.plan.page import EdgeTable, page
from ssinghal.plan.planner import Boards, Plan, PlanSettings, check_policy, check_trace, plan, with_notes
from ssinghal.plan.policy import PortingPolicy
from ssinghal.plan.program.saving import check_program, write_program
from ssinghal.plan.recordings import Recordings
from ssinghal.plan.text import arithmetic_lines, lines, table
from ssinghal.render.tables import aligned

if TYPE_CHECKING:
    from ssinghal.cli.plan import PlanRequest

Capacities = Mapping[tuple[str, str, str], CapacityResult]  # by tier, policy and board


def plan_model(request: PlanRequest, *, partial: bool, search: bool, journal: Path | None) -> int:
    """Plans the model under each policy on each board. Returns 0 where every plan fits, if need be with a rewrite."""
    policies = request.policies()
    _check_first(request, policies)
    with Captures(request.timeout) as captures:
        trace, split = _trace(request, captures)
    notes = (*split, *check_trace(trace, partial=partial))
    for policy in policies:
        check_policy(policy, trace, request.release)
    if request.write is not None:
        check_program(trace)
    if not request.as_json:
        sums = arithmetics(trace, [load_board(name) for name in request.boards], policies[0].weights)
        echo("\n".join(arithmetic_lines(sums)) + "\n")
    wanted = [(name, policy) for name in request.boards for policy in policies]
    plans: list[Plan] = []
    settings = PlanSettings(request.l1_small, request.allow_stand_ins, timeout_s=request.timeout)
    with Boards(settings, request.release) as workers:
        for name, policy in track(wanted, "planning", len(wanted)):
            plans.append(with_notes(plan(trace, policy, name, workers, journal=journal, search=search), notes))
            if not request.as_json:
                show([*lines(plans[-1]), ""])
        if request.write is not None:
            write_program(request.write, trace, plans[0], workers)
    if request.html is not None:
        write_given(request.html, page([run.to_json() for one in plans for run in (one.result, *one.tried)]))
    if request.as_json:
        click.echo(json.dumps([_plan_json(one) for one in plans], indent=2))
    elif len(plans) > 1:
        echo("\n".join(table(plans)))
    return 0 if all(Status.FITS in (one.result.status, one.remedy and one.remedy.status) for one in plans) else 1


def _trace(request: PlanRequest, captures: Captures) -> tuple[Trace, tuple[str, ...]]:
    """Returns what to plan, of a batch that is split over chips the part of each; and notes on that."""
    shape = request.input_shape
    if not request.data_parallel:
        return trace_for(request.model, None if shape is None else (shape,), captures), ()
    chips = chips_of(request.boards)
    shape = shape or trace_for(request.model, None, captures).input_shapes[0]
    trace = trace_for(request.model, (part_of_batch(shape, chips),), captures)
    if len(trace.input_shapes) > 1:
        raise InvalidCase(f"--data-parallel: {request.model} takes {len(trace.input_shapes)} inputs; expected one")
    return trace, (split_note(shape, chips),)


def _plan_json(one: Plan) -> dict[str, object]:
    tried = [run.without_steps().to_json() for run in one.tried]
    rewrites = one.remedy.policy["rewrites"] if one.remedy is not None else None
    return {"plan": one.result.to_json(), "tried": tried, "fits_with": rewrites}


def find_capacity(request: PlanRequest, goal: Goal, *, partial: bool, tiers: bool, stride: int, output: Path | None) -> int:
    """Finds the largest input that fits, under each policy on each board. Returns 1 where none is known to fit anywhere."""
    policies = request.policies()
    if request.data_parallel:
        raise InvalidCase("--data-parallel is for a plan; the largest batch over N chips is N times that of one")
    _check_first(request, policies)
    capacities: dict[tuple[str, str, str], CapacityResult] = {}
    settings = PlanSettings(request.l1_small, request.allow_stand_ins, to_the_end=False, timeout_s=request.timeout)
    with Captures(request.timeout) as captures, Boards(settings, request.release) as boards:
        recordings = Recordings(request.model, captures, partial=partial)
        with doing("recording the model"):  # bad input is one line: nothing is printed before it elsewhere
            sizes = _sizes(recordings.first(request.input_shape), tiers)
            _check_sizes(recordings, goal, sizes, stride)
        wanted = list(product(sizes, policies, request.boards))
        with closing(Explorer(recordings, boards, output)) as explorer, TrialProgress() as progress:
            for name, policy, board in wanted:
                shown = _Shown(progress, goal, " ".join(filter(None, [name, str(policy), board])))
                with shown.bounds_if_interrupted(output):
                    capacity = explorer.search(goal, sizes[name], policy, board, stride, shown)
                capacities[name, str(policy), board] = capacity
                if not request.as_json:
                    echo("\n".join(_capacity_lines(name, capacity)))
    tables = [(policy, _rows(request, policy, sizes, capacities)) for policy in policies]
    if request.as_json:
        click.echo(json.dumps([_capacity_json(name, one) for (name, _, _), one in capacities.items()], indent=2))
    elif tiers:
        for policy, rows in tables:
            echo(f"\n{request.model}, largest {goal}, policy {policy}: fits, and the next, which does not")
            echo("\n".join(aligned([["tier", *request.boards], *rows])))
    if request.html is not None:
        write_given(request.html, page([], [_edge_table(request, goal, policy, rows) for policy, rows in tables]))
    return 0 if any(one.fit is not None for one in capacities.values()) else 1


@dataclass(frozen=True)
class _Shown:
    """Shows the runs of one search. ``where``: its tier, policy and board."""

    progress: TrialProgress
    goal: Goal
    where: str
    runs: list[ModelRun] = field(default_factory=list)

    @contextmanager
    def bounds_if_interrupted(self, journal: Path | None) -> Iterator[None]:
        """Shows what the search has found where a signal ends it, and that ``journal`` continues it."""
        try:
            yield
        except Exception:
            raise
        except BaseException:  # Ctrl-C or SIGTERM
            self.progress.stop()
            echo(f"{self._bounds()}{f'; the same command continues from {journal}' if journal else ''}", err=True)
            raise

    def _bounds(self) -> str:
        """Returns the largest input so far that fits, and the smallest that does not."""
        runs = [run for run in self.runs if type(run) is type(self.runs[-1])]  # of one edge
        place = " with all activations in L1" if runs and isinstance(runs[-1], RunInL1) else ""
        sizes = sorted((math.prod(run.input_shape), run.input_shape, run.fits) for run in runs if run.fits is not None)
        fitting = [f"{size_of(self.goal, shape)} fits" for _, shape, fits in sizes if fits][-1:]
        failing = [f"{size_of(self.goal, shape)} does not fit" for _, shape, fits in sizes if not fits][:1]
        return f"{self.where} {self.goal}{place}: {', '.join([*fitting, *failing]) or 'no run has ended'}"

    def starts(self, value: Shape, left: int) -> None:
        self.progress.starts(f"{self.where} {self.goal} {size_of(self.goal, value)}", left)

    def ended(self, run: ModelRun) -> None:
        self.runs.append(run)
        share = f", peak {100 * run.peak_share:.1f} % of a DRAM bank" if run.status is Status.FITS else ""
        moved = f", {run.activations_bytes or 0:,} B of activations through DRAM" if isinstance(run, RunInL1) else ""
        self.progress.ended(f"{run.status}{share}{moved}")


def _check_first(request: PlanRequest, policies: Sequence[PortingPolicy]) -> None:
    """Refuses what can be known before minutes of work: no TTNN, one that cannot run the policy, no folder for the page."""
    if request.data_parallel:
        chips_of(request.boards)
    ttnn_package(request.release)
    for policy in policies:
        check_policy(policy, release=request.release)
    check_writable(request.html)
    check_writable(request.write)
    if request.write is not None and (len(request.boards) > 1 or len(policies) > 1):
        raise InvalidCase("--write: one board and one policy make one program")


def _check_sizes(recordings: Recordings, goal: Goal, sizes: Mapping[str, Shape], stride: int) -> None:
    """Refuses a search, before a device opens, if its model cannot be recorded at any of the inputs to start from, or at no
    other input than one."""
    reasons = []
    for size in sizes.values():
        values = shapes_of(goal, size, stride)
        start = first_index(values, size)
        reasons += [reason for reason in [recordings.at(values[start])] if isinstance(reason, str)]
        recordings.at(values[min(start + 1, len(values) - 1)])
    if len(reasons) == len(sizes):
        raise CaptureError(reasons[0])


def _sizes(shape: Shape, tiers: bool) -> dict[str, Shape]:
    """Returns the inputs to start from, by the name of their tier, empty for the one of this shape."""
    if not tiers:
        return {"": shape}
    if len(shape) < 4:
        raise InvalidCase(f"--tiers: an input {format_shape(shape)} has no height and width")
    return {name: (*shape[:-2], *size) for name, size in TIERS.items()}


def _rows(request: PlanRequest, policy: PortingPolicy, sizes: Mapping[str, Shape], capacities: Capacities) -> list[list[str]]:
    return [
        [
            f"{name} {size_of(Goal.RESOLUTION, size)}".strip(),
            *(table_cell(capacities[name, str(policy), board]) for board in request.boards),
        ]
        for name, size in sizes.items()
    ]


def _edge_table(request: PlanRequest, goal: Goal, policy: PortingPolicy, rows: list[list[str]]) -> EdgeTable:
    title = f"{request.model}: largest {goal}, policy {policy}"
    note = "What fits, and the next that does not; both were run. Unknown: no run there decides whether it fits."
    return EdgeTable(title, ("input", *request.boards), tuple(map(tuple, rows)), note)


def _capacity_lines(name: str, capacity: CapacityResult) -> list[str]:
    """Returns both sides of the edge, each of which was run, and what is unknown between them."""
    size = f"{name} {size_of(Goal.RESOLUTION, capacity.shape)}, " if name else ""
    result = [
        f"{capacity.model}, {size}largest {capacity.goal} on {capacity.board}, policy {capacity.policy}: {table_cell(capacity)}"
    ]
    result += _edge_lines(capacity)
    if capacity.in_l1 is not None:
        result += ["  all activations in L1, but for the model's inputs and results:"]
        result += [f"  {line}" for line in _edge_lines(capacity.in_l1)]
    return result


def _edge_lines(capacity: CapacityResult) -> list[str]:
    """Returns both sides of one edge, and what is unknown or unlike the rest around it."""
    sides = [run for run in (capacity.fit, capacity.fail) if run is not None]
    result = [f"  {format_shape(run.input_shape)}: {run.message}" for run in sides]
    result += _untried_lines(capacity)
    for hole in capacity.edge.holes:
        run = capacity.edge.tried[hole.last_index]
        ended = "does not fit" if run.fits is False else "gives no memory verdict"
        result.append(f"  but {format_shape(run.input_shape)}, which needs less, {ended}: {run.message}")
    if capacity.edge.is_spent:
        result.append("  stopped at the run limit: the edge may lie further on")
    return result


def _untried_lines(capacity: CapacityResult) -> list[str]:
    """Groups inputs without a verdict by the reason."""
    inputs: dict[str, list[str]] = {}
    for run in capacity.untried:
        inputs.setdefault(run.message, []).append(format_shape(run.input_shape))
    return [f"  no memory verdict, may fit: {' '.join(shapes)}: {message}" for message, shapes in inputs.items()]


def _capacity_json(name: str, capacity: CapacityResult) -> dict[str, object]:
    in_l1 = {} if capacity.in_l1 is None else {"in_l1": _capacity_json(name, capacity.in_l1)}
    runs = [
        {
            "input": list(run.input_shape),
            "status": run.status.value,
            "message": run.message,
            "peak_bytes": run.peak_bytes,
            "peak_share": run.peak_share,
            "activations_bytes": run.activations_bytes,
        }
        for run in capacity.edge.tried.values()
    ]
    return {
        "model": capacity.model,
        "board": capacity.board,
        "policy": capacity.policy,
        "tier": name,
        "goal": capacity.goal.value,
        "fits": None if capacity.fit is None else list(capacity.fit.input_shape),
        "does_not": None if capacity.fail is None else list(capacity.fail.input_shape),
        "no_verdict": [{"input": list(run.input_shape), "reason": run.message} for run in capacity.untried],
        "confirmed": capacity.edge.is_confirmed or capacity.edge.is_open,
        "runs": runs,
        **in_l1,
    }
