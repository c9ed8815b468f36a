"""``ssinghal compare``: the differences between two runs."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ssinghal.cli import options
from ssinghal.cli.progress import doing
from ssinghal.cli.streams import collector_off, echo
from ssinghal.core.files import write_given
from ssinghal.core.parsing import one_of
from ssinghal.core.tensors import TextEnum
from ssinghal.errors import HarnessError
from ssinghal.runs.change_kinds import WORSE, ChangeKind, Missing

if TYPE_CHECKING:
    from ssinghal.runs.diff import Changes

SUMMARY_VARIABLE = "GITHUB_STEP_SUMMARY"
SUMMARY_LIMIT_BYTES = 1024 * 1024  # GitHub drops a larger one
NO_KIND = "none"
FINDINGS: tuple[TextEnum, ...] = (*ChangeKind, *Missing)


def _kinds(context: click.Context, parameter: click.Parameter, value: str) -> tuple[TextEnum, ...]:
    if value == NO_KIND:
        return ()
    return tuple(one_of(FINDINGS, "kind of change", name.strip()) for name in value.split(","))


@click.command()
@click.argument("run_a")
@click.argument("run_b")
@options.results
@click.option(
    "--fail-on",
    callback=_kinds,
    default=",".join(WORSE),
    metavar="KIND,…",
    help=f"Exit with 1 if there is one of these: {', '.join(FINDINGS)}; {NO_KIND}: never.",
)
@click.option("--across", is_flag=True, help="Also compare different boards and device modes, such as virtual with silicon.")
@click.option("--all", "everything", is_flag=True, help="All changes of each kind, not only the first twenty.")
@options.json("All changes as one JSON object.")
@click.option("--markdown", "as_markdown", is_flag=True, help="All changes as Markdown.")
@options.output(options.FILE, "Write the JSON or Markdown to this file.")
@click.option("--github-summary", is_flag=True, help=f"Also append Markdown to the file that {SUMMARY_VARIABLE} names.")
@collector_off()
def compare(
    run_a: str,
    run_b: str,
    results: Path,
    fail_on: tuple[TextEnum, ...],
    across: bool,
    everything: bool,
    as_json: bool,
    as_markdown: bool,
    output: Path | None,
    github_summary: bool,
) -> None:
    """Report what changed from one run to another.

    \b
      ssinghal compare 20261127 latest
      ssinghal compare before/records.jsonl results/latest --fail-on new-oom,new-fault,grown
      ssinghal compare 20261127 20261128 --markdown -o changes.md --github-summary

    Changes are cases that newly fail or fit, bytes grown or shrunk, new and vanished cases. A run is a folder, a
    records.jsonl, the start of the id of a run in --results, or latest. A reserved base that moved, and every number with it,
    is one note, and so are cases that the other run did not select. Runs with another --memory are compared call by call. Runs
    without a case in common are no finding, unless --fail-on has nothing-compared.

    Exit code 0, 1 for a finding of --fail-on, 2 for runs that cannot be compared.
    """
    from ssinghal.runs.column_diff import compare_runs
    from ssinghal.runs.diff_text import in_short, lines, markdown
    from ssinghal.runs.folders import find_run

    if as_json and as_markdown:
        raise click.UsageError("give one of these: --json, --markdown")
    if output and not (as_json or as_markdown):
        raise click.UsageError("-o requires --json or --markdown")
    summary = _summary_file() if github_summary else None
    before, after = find_run(run_a, results), find_run(run_b, results)
    with doing("comparing the runs"):
        changes = compare_runs(before, after, across=across)
    document = json.dumps(changes.to_json(), indent=2) if as_json else markdown(changes) if as_markdown else ""
    if output:
        write_given(output, document)
    if document and not output:
        echo(document, nl=not document.endswith("\n"))
    else:
        echo("\n".join(lines(changes, *([None] if everything else []))))
    findings = [in_short(changes, [kind]) for kind in fail_on if isinstance(kind, ChangeKind) and changes.counts[kind]]
    if Missing.NOTHING_COMPARED in fail_on and changes.compared_nothing:
        findings.append(f"{Missing.NOTHING_COMPARED}: no case is in both runs")
    if findings:
        echo(f"ssinghal: finding: {', '.join(findings)}", err=True)
    if summary:
        _append(summary, changes)
    if findings:
        sys.exit(1)


def _summary_file() -> Path:
    named = os.environ.get(SUMMARY_VARIABLE)
    if not named:
        raise HarnessError(
            f"--github-summary: {SUMMARY_VARIABLE} is not set: expected the name of a file, as GitHub Actions does"
        )
    return Path(named)


def _append(path: Path, changes: Changes) -> None:
    from ssinghal.runs.diff_text import markdown_within

    size = path.stat().st_size if path.exists() else 0
    document = markdown_within(changes, SUMMARY_LIMIT_BYTES - size - 1)
    if document is None:
        raise HarnessError(f"{path}: has {size:,} B already; a summary may have {SUMMARY_LIMIT_BYTES:,} B")
    with path.open("a", encoding="utf-8") as file:
        file.write(document + "\n")
