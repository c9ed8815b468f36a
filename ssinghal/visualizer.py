"""Cases of a run as reports for ttnn-visualizer: TTNN's own database of each call, made by running it again.

One report holds one case, as TTNN's own pytest fixture makes one per test: a report has one device, whose L1 is less the case's
own L1_SMALL, and its maps show what the call found on an empty device. Imports neither torch nor ttnn.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ssinghal.device.modes import DeviceChoice
from ssinghal.errors import HarnessError
from ssinghal.pool import Pool, PoolOptions, report_name
from ssinghal.records import Record, Status
from ssinghal.results import package_versions, write_whole
from ssinghal.stored import StoredRecord, case_of
from ssinghal.text import sentence

REPORTS = Path("generated", "ttnn", "reports")  # where ttnn-visualizer --tt-metal-home looks


@dataclass(frozen=True)
class Exported:
    """A case that was run again. ``folder``: its report; None where there is none, for ``why``."""

    stored: StoredRecord
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
    records: Sequence[StoredRecord], choice: DeviceChoice, folder: Path, *, timeout_s: float, workers: int | None = None
) -> Iterator[Exported]:
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


def _placed(stored: StoredRecord, record: Record, made: Path, place: Path) -> Exported:
    if record.status in (Status.CRASH, Status.TIMEOUT):
        return Exported(stored, record, None, f"{record.status}: {record.verdict.message}")
    if record.verdict.decided_by != "ttnn":
        return Exported(stored, record, None, f"TTNN was not called: {record.verdict.message}")
    if place.exists():
        place.rename(made.with_name(f"{made.name}.old"))
    made.rename(place)
    return Exported(stored, record, place)


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

__all__ = ["REPORTS", "Exported", "describe", "export"]
