"""Cases of a run as reports for ttnn-visualizer: TTNN's own database of each call, made by running it again.

One report holds one case, as TTNN's own pytest fixture makes one per test: a report has one device, whose L1 is less the case's
own L1_SMALL, and its maps show what the call found on an empty device. Imports neither torch nor ttnn.
"""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ssinghal.catalog.sampling import sample
from ssinghal.core.files import write_whole
from ssinghal.core.record import FAULTS, DecidedBy, Record, Status, sentence
from ssinghal.core.versions import package_versions
from ssinghal.device.modes import DeviceChoice
from ssinghal.errors import HarnessError
from ssinghal.runner.pool import Pool
from ssinghal.runner.tasks import PoolOptions, report_name
from ssinghal.runs.reader import Run, Setting, case_of, case_or_none, find_run, run_folders

REPORTS = Path("generated", "ttnn", "reports")  # where ttnn-visualizer --tt-metal-home looks


@dataclass(frozen=True)
class ExportResult:
    """A case that was run again. ``folder``: its report; None where there is none, for ``why``."""

    stored: Record
    record: Record
    folder: Path | None
    why: str = ""

    @property
    def finding(self) -> str:
        """Why there is no report, or what TTNN says now."""
        name = f"{self.stored.op} {self.stored.id} ({self.stored.key})"
        if self.folder is None:
            return f"no report: {name}: {self.why}"
        return f"differs: {name}: {sentence(self.record.verdict)}; the record says {self.stored.sentence}"

    @property
    def differs(self) -> bool:
        """Whether TTNN says now something else than in the record."""
        return (self.record.status, self.record.verdict.resource) != (self.stored.status, self.stored.resource)


def export(
    records: Sequence[Record], choice: DeviceChoice, folder: Path, *, timeout_s: float, workers: int | None = None
) -> Iterator[ExportResult]:
    """Runs the cases of ``records`` again, and puts the report of each into ``folder / REPORTS`` when it is whole.

    A report of an earlier export takes its new one's place. What crashes or hangs has none, and costs none of the others.

    Raises:
        HarnessError: torch is missing, or no device opens.
    """
    if "torch" not in package_versions():
        raise HarnessError(
            "ttnn-visualizer's reports need torch, which TTNN's own recorder imports: pip install 'ssinghal[device]'"
        )
    cases = [case_of(record) for record in records]
    (folder / REPORTS).mkdir(parents=True, exist_ok=True)
    options = PoolOptions.of(choice, workers=workers, timeout_s=timeout_s)
    with tempfile.TemporaryDirectory(dir=folder, prefix=".making-") as name:
        making = Path(name)
        with Pool(choice, replace(options, numerics=False, reports=making)) as pool:
            for stored, case, record in zip(records, cases, pool.map(cases), strict=True):
                made = making / report_name(case)
                yield _placed(stored, record, made, folder / REPORTS / f"{made.name}-{record.board}")


def _placed(stored: Record, record: Record, made: Path, place: Path) -> ExportResult:
    if record.status in (Status.CRASH, Status.TIMEOUT):
        return ExportResult(stored, record, None, f"{record.status}: {record.verdict.message}")
    if record.verdict.decided_by is not DecidedBy.TTNN:
        return ExportResult(stored, record, None, f"TTNN was not called: {record.verdict.message}")
    if place.exists():
        place.rename(made.with_name(f"{made.name}.old"))
    made.rename(place)
    return ExportResult(stored, record, place)


def describe(folder: Path) -> None:
    """Writes ``folder / README.md``: what the reports are that lie there, of this export and of earlier ones."""
    names = {path.parent.name: json.loads(path.read_text())["report_name"] for path in (folder / REPORTS).glob("*/config.json")}
    rows = [f"| {name} | {title} |" for name, title in sorted(names.items())]
    write_whole(folder / "README.md", "\n".join([_README, "| folder | case |", "|---|---|", *rows]))


_README = f"""# Reports for ttnn-visualizer

Each report is one operator call, run on an empty device by TTNN itself, which also wrote the database. Where a name says
*virtual*, no kernel ran: memory maps and errors are TTNN's own, but every value is zero and durations are the host's.

    ttnn-visualizer --tt-metal-home .        # in this folder: all of them, by name
    ttnn-visualizer --profiler-path {REPORTS}/FOLDER
"""


KEY = re.compile("[0-9a-f]{4,12}")


def was_asked(record: Record) -> bool:
    """Whether TTNN was called for it: arithmetic and declared limitations leave nothing to show."""
    return record.decided_by is DecidedBy.TTNN or record.status in FAULTS


def has_failed(record: Record) -> bool:
    return record.status in (Status.OOM, *FAULTS)


def named(records: Iterable[Record], keys: Sequence[str]) -> list[Record]:
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


def chosen_records(run: Run, keys: Sequence[str], *, everything: bool, per_operator: int) -> tuple[list[Record], list[str]]:
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
