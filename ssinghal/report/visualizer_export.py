"""Cases of a run as reports for ttnn-visualizer: runs each call again, for which TTNN writes its own database.

One report holds one case, like those of TTNN's pytest fixture: a report has one device, whose L1 excludes the case's L1_SMALL
region, and its memory maps show the call on an empty device.
"""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ssinghal.catalog.sampling import sample
from ssinghal.core.files import read_limited, write_whole
from ssinghal.core.record import Record
from ssinghal.core.verdict import FAULTS, DecidedBy, Status, sentence
from ssinghal.core.versions import package_versions
from ssinghal.device.modes import DeviceChoice
from ssinghal.errors import HarnessError, InvalidCase
from ssinghal.runner.pool import Pool
from ssinghal.runner.tasks import PoolOptions, report_name
from ssinghal.runs.folders import find_run, run_folders
from ssinghal.runs.parsing import case_of, case_or_none
from ssinghal.runs.reader import Run
from ssinghal.runs.setting import Setting

REPORTS = Path("generated", "ttnn", "reports")  # where ttnn-visualizer --tt-metal-home looks


@dataclass(frozen=True)
class ExportResult:
    """A case that was run again. ``folder``: its report. None if there is none, and ``why``."""

    stored: Record
    record: Record
    folder: Path | None
    why: str = ""

    @property
    def finding(self) -> str:
        """The reason why there is no report, or the new verdict of TTNN."""
        name = f"{self.stored.op} {self.stored.id} ({self.stored.key})"
        if self.folder is None:
            return f"no report: {name}: {self.why}"
        return f"differs: {name}: {sentence(self.record.verdict)}; the record has {self.stored.sentence}"

    @property
    def differs(self) -> bool:
        """Whether TTNN's verdict is now another than in the record."""
        return (self.record.status, self.record.verdict.resource) != (self.stored.status, self.stored.resource)


def export(
    records: Sequence[Record], choice: DeviceChoice, folder: Path, *, timeout_s: float, workers: int | None = None
) -> Iterator[ExportResult]:
    """Runs the cases of ``records`` again, and moves the report of each into ``folder / REPORTS`` when it is complete.

    A report replaces that of an earlier export. A case that crashes or hangs has no report and does not affect others.

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
        unfinished = Path(name)
        with Pool(choice, replace(options, numerics=False, reports=unfinished)) as pool:
            for stored, case, record in zip(records, cases, pool.map(cases), strict=True):
                report = unfinished / report_name(case)
                yield _moved(stored, record, report, folder / REPORTS / f"{report.name}-{record.board}")


def _moved(stored: Record, record: Record, report: Path, target: Path) -> ExportResult:
    if record.status in (Status.CRASH, Status.TIMEOUT):
        return ExportResult(stored, record, None, f"{record.status}: {record.verdict.message}")
    if record.verdict.decided_by is not DecidedBy.TTNN:
        return ExportResult(stored, record, None, f"TTNN was not called: {record.verdict.message}")
    if target.exists():
        target.rename(report.with_name(f"{report.name}.old"))
    report.rename(target)
    return ExportResult(stored, record, target)


def _title(config: Path) -> str:
    try:
        return str(json.loads(read_limited(config).decode())["report_name"]).replace("|", "\\|")
    except (InvalidCase, KeyError, RecursionError, TypeError, ValueError) as error:
        raise HarnessError(f"{config}: not the config of an exported report ({error})") from error


def describe(folder: Path) -> None:
    """Writes ``folder / README.md``: a list of the reports of this export and of earlier ones."""
    names = {path.parent.name: _title(path) for path in (folder / REPORTS).glob("*/config.json")}
    rows = [f"| {name} | {title} |" for name, title in sorted(names.items())]
    write_whole(folder / "README.md", "\n".join([_README, "| folder | case |", "|---|---|", *rows]))


_README = f"""# Reports for ttnn-visualizer

Each report is one operator call, run on an empty device by TTNN itself, which also wrote the database. If a name has
*virtual* in it, no kernel ran: memory maps and errors are TTNN's own, but every value is zero and durations are the host's.

    ttnn-visualizer --tt-metal-home .        # in this folder: all of them, by name
    ttnn-visualizer --profiler-path {REPORTS}/FOLDER
"""


KEY = re.compile("[0-9a-f]{4,12}")


def was_run(record: Record) -> bool:
    """Returns whether TTNN was called: there is no report for verdicts of arithmetic and declared limitations."""
    return record.decided_by is DecidedBy.TTNN or record.status in FAULTS


def has_failed(record: Record) -> bool:
    return record.status in (Status.OOM, *FAULTS)


def named(records: Iterable[Record], keys: Sequence[str]) -> list[Record]:
    """Returns the records whose key starts with one of ``keys``. HarnessError for one without a match."""
    by_key = {key: [record for record in records if record.key.startswith(key)] for key in keys}
    for key, matches in by_key.items():
        if not matches or not key:
            raise HarnessError(f"no case {key!r} in this run: expected the key of a record, or its first characters")
    return list({(Setting.of(r), r.op, r.key): r for matches in by_key.values() for r in matches}.values())


def named_run(text: str | None, results: Path) -> tuple[Path, tuple[str, ...]]:
    """Returns the run that ``text`` names. If ``text`` is the start of a case's key, returns the last run and the key."""
    try:
        return find_run(text, results), ()
    except HarnessError as error:
        if text is None or not KEY.fullmatch(text) or any(p.name.startswith(text) for p in run_folders(results)):
            raise
        try:
            return find_run(None, results), (text,)
        except HarnessError:
            raise error from None


def chosen_records(run: Run, keys: Sequence[str], *, everything: bool, per_operator: int) -> tuple[list[Record], list[str]]:
    """Returns the records to export, and notes on those that are left out."""
    if keys:
        return named(run.records, keys), []
    wanted = [record for record in run.records if everything or has_failed(record)]
    ran = [record for record in wanted if was_run(record)]
    cases = [(record, case) for record in ran if (case := case_or_none(record)) is not None]
    sampled = {(case.name, case.key) for case in sample([case for _, case in cases], per_operator)}
    chosen = [record for record, case in cases if (case.name, case.key) in sampled]
    if not chosen:
        raise HarnessError(f"{run.path}: no {'case' if everything else 'failing case'} for which TTNN was called")
    notes = []
    if len(wanted) > len(ran):
        notes.append(f"left out: {len(wanted) - len(ran):,} cases for which TTNN was not called")
    if len(ran) > len(cases):
        notes.append(f"left out: {len(ran) - len(cases):,} cases whose operator this version does not have")
    if len(cases) > len(chosen):
        notes.append(f"left out: {len(cases) - len(chosen):,} of {len(cases):,} cases, beyond --sample {per_operator}")
    return chosen, notes
