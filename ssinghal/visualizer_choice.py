"""Which cases of a run are exported for ttnn-visualizer."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from ssinghal.cases import Case
from ssinghal.errors import HarnessError, InvalidCase
from ssinghal.runs import Run, find_run, run_folders
from ssinghal.sampling import sample
from ssinghal.stored import StoredRecord, case_of
from ssinghal.visualizer import has_failed, named, was_asked

KEY = re.compile("[0-9a-f]{4,12}")


def named_run(text: str | None, results: Path) -> tuple[Path, tuple[str, ...]]:
    """The run that ``text`` names, else the last one with the case whose key begins so."""
    try:
        return find_run(text, results), ()
    except HarnessError as error:
        known = text is None or not KEY.fullmatch(text) or any(p.name.startswith(text) for p in run_folders(results))
        if text is None or known:
            raise
        try:
            return find_run(None, results), (text,)
        except HarnessError:
            raise error from None


def chosen_records(
    run: Run, keys: Sequence[str], *, everything: bool, per_operator: int
) -> tuple[list[StoredRecord], list[str]]:
    """The records to export, and what is left out, in words."""
    if keys:
        return named(run.records, keys), []
    wanted = [record for record in run.records if everything or has_failed(record)]
    asked = [record for record in wanted if was_asked(record)]
    made = [(record, case) for record in asked if (case := _case_of(record)) is not None]
    kept = {(case.name, case.key) for case in sample([case for _, case in made], per_operator)}
    chosen = [record for record, case in made if (case.name, case.key) in kept]
    if not chosen:
        raise HarnessError(f"{run.path}: no {'case' if everything else 'failing case'} that TTNN was asked about")
    notes = []
    if len(wanted) > len(asked):
        notes.append(f"left out: {len(wanted) - len(asked):,} cases that TTNN was not asked about")
    if len(asked) > len(made):
        notes.append(f"left out: {len(asked) - len(made):,} cases that this version has no call for")
    if len(made) > len(chosen):
        notes.append(f"left out: {len(made) - len(chosen):,} of {len(made):,} cases, beyond --sample {per_operator}")
    return chosen, notes


def _case_of(record: StoredRecord) -> Case | None:
    try:
        return case_of(record)
    except InvalidCase:
        return None


__all__ = ["chosen_records", "named_run"]
