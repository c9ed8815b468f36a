"""``ssinghal plan --max`` and ``--tiers``: how far a model goes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import click

from ssinghal.capacity.parameters import Goal
from ssinghal.capture.client import Captures
from ssinghal.capture.trace_library import trace_for
from ssinghal.cli.options import write_text
from ssinghal.cli.progress import track
from ssinghal.core.boards import load_board
from ssinghal.core.record import Status
from ssinghal.core.tensors import Shape, format_shape
from ssinghal.device.releases import Release
from ssinghal.errors import InvalidCase
from ssinghal.plan.capacity import CapacityResult, Explorer, cell
from ssinghal.plan.input_sizes import TIERS, size_of
from ssinghal.plan.liveness import arithmetics
from ssinghal.plan.page import EdgeTable, page
from ssinghal.plan.planner import Boards, Plan, PlanSettings, check_trace, plan, with_notes
from ssinghal.plan.policy import PortingPolicy
from ssinghal.plan.text import arithmetic_lines, lines, table
from ssinghal.render.tables import aligned


@dataclass(frozen=True)
class PlanRequest:
    """``inputs``: of the model, None where its trace brings it. ``l1_small_bytes``: None for as much as the model needs."""

    model: str
    inputs: tuple[Shape, ...] | None
    boards: Sequence[str]
    policies: Sequence[PortingPolicy]
    l1_small_bytes: int | None
    allow_stand_ins: bool
    timeout_s: float


class CapacityRun(PlanRequest):
    def run(
        self,
        goal: Goal,
        *,
        tiers: bool,
        stride: int,
        output: Path | None,
        release: Release | None,
        as_json: bool,
        html: Path | None,
    ) -> int:
        """The exit code: 1 where nothing fits anywhere."""
        if not self.inputs:
            raise InvalidCase("--max and --tiers: give an --input, e.g. 1,3,640,640; its other sizes are kept")
        (shape,) = self.inputs
        sizes = {"": shape}
        if tiers:
            if len(shape) < 4:
                raise InvalidCase(f"--tiers: an input {format_shape(shape)} has no height and width")
            sizes = {name: (*shape[:-2], *size) for name, size in TIERS.items()}
        wanted = [
            (name, size, policy, board) for name, size in sizes.items() for policy in self.policies for board in self.boards
        ]
        found: dict[tuple[str, str, str], CapacityResult] = {}
        settings = PlanSettings(self.l1_small_bytes, self.allow_stand_ins, to_the_end=False, timeout_s=self.timeout_s)
        with (
            Captures(self.timeout_s) as captures,
            Boards(settings, release) as boards,
            closing(Explorer(self.model, boards, captures, output)) as explorer,
        ):
            for name, size, policy, board in track(wanted, "searching", len(wanted)):
                reach = explorer.reach(goal, size, policy, board, stride)
                found[name, str(policy), board] = reach
                if not as_json:
                    click.echo("\n".join(_lines(name, reach)))
        if as_json:
            click.echo(json.dumps([_json(name, reach) for (name, _, _), reach in found.items()], indent=2))
        elif tiers:
            click.echo("\n".join(self._table(goal, sizes, found)))
        if html is not None:
            self._page(html, goal, sizes, found)
        return 0 if any(reach.fit is not None for reach in found.values()) else 1

    def _rows(
        self, policy: PortingPolicy, sizes: dict[str, Shape], found: dict[tuple[str, str, str], CapacityResult]
    ) -> list[list[str]]:
        return [
            [
                f"{name} {size_of(Goal.RESOLUTION, size)}".strip(),
                *(cell(found[name, str(policy), board]) for board in self.boards),
            ]
            for name, size in sizes.items()
        ]

    def _table(self, goal: Goal, sizes: dict[str, Shape], found: dict[tuple[str, str, str], CapacityResult]) -> list[str]:
        told = []
        for policy in self.policies:
            told += ["", f"{self.model}, largest {goal}, policy {policy}: fits, and the next, which does not"]
            told += aligned([["tier", *self.boards], *self._rows(policy, sizes, found)])
        return told

    def _page(self, html: Path, goal: Goal, sizes: dict[str, Shape], found: dict[tuple[str, str, str], CapacityResult]) -> None:
        note = "What fits, and the next that does not; both were run."
        tables = []
        for policy in self.policies:
            rows = tuple(map(tuple, self._rows(policy, sizes, found)))
            tables.append(EdgeTable(f"{self.model}: largest {goal}, policy {policy}", ("input", *self.boards), rows, note))
        write_text(html, page([], tables))


def _lines(name: str, reach: CapacityResult) -> list[str]:
    """Both sides of the edge, each a run."""
    size = f"{name} {size_of(Goal.RESOLUTION, reach.shape)}, " if name else ""
    told = [f"{reach.model}, {size}largest {reach.goal} on {reach.board}, policy {reach.policy}: {cell(reach)}"]
    for tried in (reach.fit, reach.fail):
        if tried is not None:
            told.append(f"  {format_shape(tried.input_shape)}: {tried.message}")
    for hole in reach.edge.holes:
        tried = reach.edge.tried[hole.last_index]
        told.append(f"  but {format_shape(tried.input_shape)}, which asks for less, does not: {tried.message}")
    if reach.edge.is_spent:
        told.append("  runs were used up: the edge may lie further on")
    return told


def _json(name: str, reach: CapacityResult) -> dict[str, object]:
    runs = [
        {
            "input": list(tried.input_shape),
            "status": tried.status.value,
            "message": tried.message,
            "peak_bytes": tried.peak_bytes,
            "peak_share": tried.peak_share,
        }
        for tried in reach.edge.tried.values()
    ]
    return {
        "model": reach.model,
        "board": reach.board,
        "policy": reach.policy,
        "tier": name,
        "goal": reach.goal.value,
        "fits": None if reach.fit is None else list(reach.fit.input_shape),
        "does_not": None if reach.fail is None else list(reach.fail.input_shape),
        "confirmed": reach.edge.is_confirmed or reach.edge.is_open,
        "runs": runs,
    }


class WholeModelRun(PlanRequest):
    def run(
        self,
        *,
        partial: bool,
        search: bool,
        journal: Path | None,
        release: Release | None,
        as_json: bool,
        html: Path | None,
    ) -> int:
        """The exit code: 0 where every plan fits, if need be with a rewrite."""
        with Captures(self.timeout_s) as captures:
            trace = trace_for(self.model, self.inputs, captures)
        notes = check_trace(trace, partial=partial)
        if not as_json:
            found = arithmetics(trace, [load_board(name) for name in self.boards])
            click.echo("\n".join(arithmetic_lines(found)) + "\n")
        wanted = [(name, policy) for name in self.boards for policy in self.policies]
        made: list[Plan] = []
        settings = PlanSettings(self.l1_small_bytes, self.allow_stand_ins, timeout_s=self.timeout_s)
        with Boards(settings, release) as workers:
            for name, policy in track(wanted, "planning", len(wanted)):
                one = with_notes(plan(trace, policy, name, workers, journal=journal, search=search), notes)
                made.append(one)
                if not as_json:
                    click.echo("\n".join(lines(one)) + "\n")
        if html is not None:
            write_text(html, page([run.to_json() for one in made for run in (one.result, *one.tried)]))
        if as_json:
            click.echo(json.dumps([_plan_json(one) for one in made], indent=2))
        elif len(made) > 1:
            click.echo("\n".join(table(made)))
        return 0 if all(Status.FITS in (one.result.status, one.remedy and one.remedy.status) for one in made) else 1


def _plan_json(found: Plan) -> dict[str, object]:
    tried = [run.without_steps().to_json() for run in found.tried]
    remedy = found.remedy.policy["rewrites"] if found.remedy is not None else None
    return {"plan": found.result.to_json(), "tried": tried, "fits_with": remedy}
