"""Which cases of a run are exported for ttnn-visualizer."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from ssinghal.errors import HarnessError
from ssinghal.records import Status
from ssinghal.runs import Run, Setting, find_run, run_folders
from ssinghal.sampling import sample
from ssinghal.stored import StoredRecord, case_or_none
from ssinghal.summary import FAULTS

KEY = re.compile("[0-9a-f]{4,12}")


def was_asked(record: StoredRecord) -> bool:
    """Whether TTNN was called for it: arithmetic and declared limitations leave nothing to show."""
    return record.decided_by == "ttnn" or record.status in FAULTS


def has_failed(record: StoredRecord) -> bool:
    return record.status in (Status.OOM, *FAULTS)


def named(records: Iterable[StoredRecord], keys: Sequence[str]) -> list[StoredRecord]:
    """The records whose key begins with one of ``keys``. HarnessError for one that is none's."""
    found = {key: [record for record in records if record.key.startswith(key)] for key in keys}
    for key, matches in found.items():
        if not matches or not key:
            raise HarnessError(f"no case {key!r} in this run: expected a record's key, or what it begins with")
    return list({(Setting.of(r), r.op, r.key): r for matches in found.values() for r in matches}.values())


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
    made = [(record, case) for record in asked if (case := case_or_none(record)) is not None]
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


__all__ = ["chosen_records", "has_failed", "named", "named_run", "was_asked"]
