"""``ssinghal plan --max`` and ``--tiers``: how far a model goes."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path

import click

from ssinghal.capture.session import Captures
from ssinghal.cli.asked import Asked
from ssinghal.cli.options import write_text
from ssinghal.cli.progress import track
from ssinghal.errors import InvalidCase
from ssinghal.plan.far import Explorer, Reach, cell
from ssinghal.plan.inputs import TIERS, Goal, size_of
from ssinghal.plan.page import EdgeTable, page
from ssinghal.plan.planning import Boards, Settings
from ssinghal.plan.policy import Policy
from ssinghal.releases import Release
from ssinghal.specs import Shape, format_shape
from ssinghal.text import aligned


class Far(Asked):
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
        found: dict[tuple[str, str, str], Reach] = {}
        settings = Settings(self.l1_small_bytes, self.allow_stand_ins, to_the_end=False, timeout_s=self.timeout_s)
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

    def _rows(self, policy: Policy, sizes: dict[str, Shape], found: dict[tuple[str, str, str], Reach]) -> list[list[str]]:
        return [
            [
                f"{name} {size_of(Goal.RESOLUTION, size)}".strip(),
                *(cell(found[name, str(policy), board]) for board in self.boards),
            ]
            for name, size in sizes.items()
        ]

    def _table(self, goal: Goal, sizes: dict[str, Shape], found: dict[tuple[str, str, str], Reach]) -> list[str]:
        told = []
        for policy in self.policies:
            told += ["", f"{self.model}, largest {goal}, policy {policy}: fits, and the next, which does not"]
            told += aligned([["tier", *self.boards], *self._rows(policy, sizes, found)])
        return told

    def _page(self, html: Path, goal: Goal, sizes: dict[str, Shape], found: dict[tuple[str, str, str], Reach]) -> None:
        note = "What fits, and the next that does not; both were run."
        tables = []
        for policy in self.policies:
            rows = tuple(map(tuple, self._rows(policy, sizes, found)))
            tables.append(EdgeTable(f"{self.model}: largest {goal}, policy {policy}", ("input", *self.boards), rows, note))
        write_text(html, page([], tables))


def _lines(name: str, reach: Reach) -> list[str]:
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


def _json(name: str, reach: Reach) -> dict[str, object]:
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


__all__ = ["Far"]
