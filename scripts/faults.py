#!/usr/bin/env python
"""Makes faults happen to the real program, each in a temporary folder, and prints how it took them.

    python scripts/faults.py --list
    python scripts/faults.py run-killed disk-full
    python scripts/faults.py
    python scripts/faults.py --docs

Without names, all of them: about half an hour on two cores. Exits with 1 where one fell short. A fault that this
machine cannot make, as a memory limit without control groups, is listed as such. ``--docs`` makes all of them, and writes the
table, with the commit, to docs/reference/faults.md.
"""

from __future__ import annotations

import datetime
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import click
from fault_cases import cluster, inputs, kills, runs, system
from fault_cases.base import Fault, NotHere, Outcome, Place

FAULTS: tuple[Fault, ...] = (*runs.FAULTS, *cluster.FAULTS, *system.FAULTS, *inputs.FAULTS, *kills.FAULTS)
PAGE = Path(__file__).parents[1] / "docs" / "reference" / "faults.md"
HEADER = ("fault", "what was done", "exit code", "message", "records", "verdict")


def made(fault: Fault) -> Outcome:
    with tempfile.TemporaryDirectory(prefix="fault-") as folder:
        try:
            return fault.make(Place(Path(folder)))
        except NotHere as error:
            return Outcome(f"not made here: {error}", "")


def row(fault: Fault, outcome: Outcome) -> tuple[str, ...]:
    verdict = f"fell short: {'; '.join(outcome.short)}" if outcome.short else "held" if outcome.code else "not made"
    records = "" if outcome.expected is None else f"{outcome.found:,} of {outcome.expected:,}"
    return fault.name, outcome.done.replace("|", "/"), outcome.code, _plain(outcome.message), records, verdict


def _plain(message: str) -> str:
    """Leaves out folders of this machine, the times of runs, and what Markdown would take for a column."""
    text = re.sub(r"(?<![\w./:])/(?!proc|dev|sys)[\w.-]+(?:/[\w.-]+)*/", "…/", message)
    return re.sub(r"\b20\d{6}T\d{6}\.\d+Z", "RUN", text).replace("|", "/").strip()[:160]


def documented(text: str, rows: Sequence[tuple[str, ...]], commit: str, day: datetime.date) -> str:
    """Returns the page with these rows in its table, and how many of them held, and where."""
    held = sum(cells[-1] == "held" for cells in rows)
    count = f"All {len(rows)}" if held == len(rows) else f"{held} of {len(rows)}"
    sentence = f"{count} held at commit {commit} ({day.day} {day:%B %Y})."
    table = "".join("".join(f"| {cell} " if cell else "| " for cell in cells) + "|\n" for cells in rows)
    before, _, rest = text.partition(f"| {' | '.join(HEADER)} |\n")
    after = rest.partition("\n\n")[2]
    before = re.sub(r"^(All )?\d+ (of \d+ )?held at commit .*$", sentence, before, flags=re.MULTILINE)
    return f"{before}{_head()}\n{table}\n{after}"


def _head() -> str:
    return f"| {' | '.join(HEADER)} |\n|{'---|' * len(HEADER)}"


def _commit() -> str:
    command = ["git", "describe", "--always", "--dirty"]
    return subprocess.run(command, cwd=PAGE.parent, capture_output=True, text=True, check=True).stdout.strip()


@click.command()
@click.argument("names", nargs=-1)
@click.option("--list", "listed", is_flag=True, help="List the names.")
@click.option("--docs", is_flag=True, help="Make all, and write the table to docs/reference/faults.md.")
def main(names: tuple[str, ...], listed: bool, docs: bool) -> None:
    """Make faults happen to ssinghal in temporary folders, and print a table of how it took them."""
    known = {fault.name: fault for fault in FAULTS}
    if listed:
        click.echo("\n".join(known))
        return
    if unknown := [name for name in names if name not in known]:
        raise click.UsageError(f"no fault {unknown[0]!r}; known: {', '.join(known)}")
    if docs and names:
        raise click.UsageError("--docs makes all faults: expected no names")
    commit = _commit() if docs else ""
    click.echo(_head())
    fell_short = 0
    rows = []
    for fault in [known[name] for name in names] or FAULTS:
        start = time.monotonic()
        outcome = made(fault)
        fell_short += bool(outcome.short)
        rows.append(row(fault, outcome))
        click.echo(f"| {' | '.join(rows[-1])} |")
        click.echo(f"{fault.name}: {time.monotonic() - start:.0f} s", err=True)
    if docs:
        PAGE.write_text(documented(PAGE.read_text(), rows, commit, datetime.date.today()))
    sys.exit(1 if fell_short else 0)


if __name__ == "__main__":
    main()
