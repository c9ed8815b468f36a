"""``ssinghal plan`` of one input: boards and policies side by side."""

from __future__ import annotations

import json
from pathlib import Path

import click

from ssinghal.boards import load_board
from ssinghal.capture.session import Captures
from ssinghal.cli.asked import Asked
from ssinghal.cli.options import write_text
from ssinghal.cli.progress import track
from ssinghal.plan.arithmetic import arithmetics
from ssinghal.plan.page import page
from ssinghal.plan.planning import Boards, Plan, Settings, check_trace, plan, with_notes
from ssinghal.plan.telling import arithmetic_lines, lines, table
from ssinghal.records import Status
from ssinghal.releases import Release
from ssinghal.traces import trace_for


class Whole(Asked):
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
        settings = Settings(self.l1_small_bytes, self.allow_stand_ins, timeout_s=self.timeout_s)
        with Boards(settings, release) as workers:
            for name, policy in track(wanted, "planning", len(wanted)):
                one = with_notes(plan(trace, policy, name, workers, journal=journal, search=search), notes)
                made.append(one)
                if not as_json:
                    click.echo("\n".join(lines(one)) + "\n")
        if html is not None:
            write_text(html, page([run.to_json() for one in made for run in (one.result, *one.tried)]))
        if as_json:
            click.echo(json.dumps([_json(one) for one in made], indent=2))
        elif len(made) > 1:
            click.echo("\n".join(table(made)))
        return 0 if all(Status.FITS in (one.result.status, one.remedy and one.remedy.status) for one in made) else 1


def _json(found: Plan) -> dict[str, object]:
    tried = [run.without_steps().to_json() for run in found.tried]
    remedy = found.remedy.policy["rewrites"] if found.remedy is not None else None
    return {"plan": found.result.to_json(), "tried": tried, "fits_with": remedy}


__all__ = ["Whole"]
