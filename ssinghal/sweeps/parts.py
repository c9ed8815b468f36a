"""Sweeps over boards and releases: a run for each of them, as records of different ones are never added up."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from ssinghal.catalog.choosing import Chosen
from ssinghal.core.case import Case
from ssinghal.core.record import Record
from ssinghal.core.verdict import FAULTS, Status
from ssinghal.core.versions import package_versions
from ssinghal.device.modes import DeviceChoice
from ssinghal.device.releases import Release
from ssinghal.errors import DEVICE_ERRORS, reason
from ssinghal.runner.cluster.opening import Cluster
from ssinghal.runner.sweep import sweep
from ssinghal.runner.tasks import PoolOptions
from ssinghal.runs.known import EarlierRuns
from ssinghal.sweeps.answering import Answering
from ssinghal.sweeps.beginning import OpenDevice, new_folder

Where = tuple[str, str]  # memory and dtype of the operands


@dataclass
class PlacedCounts:
    """The cases of one placement and dtype: as they ended, and where their answers come from."""

    cases: int = 0
    fits: int = 0
    oom: int = 0
    other: int = 0
    # Answers of earlier runs, and of this one. The rest was not reached.
    taken: int = 0
    probed: int = 0

    def add(self, record: Record) -> None:
        if record.status is Status.FITS:
            self.fits += 1
        elif record.status is Status.OOM:
            self.oom += 1
        else:
            self.other += 1
        if record.taken_from:
            self.taken += 1
        else:
            self.probed += 1

    @property
    def unreached(self) -> int:
        return self.cases - self.taken - self.probed


@dataclass(frozen=True)
class SweepPart:
    """A board and a release (None: the installed one) of a sweep."""

    choice: DeviceChoice
    options: PoolOptions

    @property
    def ttnn(self) -> str:
        release = self.options.release
        return release.version if release is not None else package_versions().get("ttnn", "")


@dataclass
class PartResult:
    """The run of one part. ``fault``: why there is none, or why it ended."""

    board: str
    ttnn: str
    run: str = ""
    fault: str = ""
    faults: int = 0
    # The number of the signal that ended it; 0 for none.
    ended: int = 0
    rows: dict[Where, PlacedCounts] = field(default_factory=dict)

    def expect(self, case: Case) -> None:
        self._row(case.placement.memory_text, case.placement.dtype).cases += 1

    def add(self, record: Record) -> None:
        self._row(record.memory, record.dtype).add(record)
        self.faults += record.status in FAULTS or bool(record.left_allocated)

    def _row(self, memory: str, dtype: str) -> PlacedCounts:
        return self.rows.setdefault((memory, str(dtype)), PlacedCounts())

    def to_json(self) -> dict[str, Any]:
        rows = [
            {"placement": memory, "dtype": dtype, **vars(counts), "unreached": counts.unreached}
            for (memory, dtype), counts in self.rows.items()
        ]
        return {"board": self.board, "ttnn": self.ttnn, "run": self.run, "fault": self.fault, "rows": rows}


@dataclass(frozen=True)
class Sweep:
    """What all parts of a sweep share. ``typed``: the options as they are written to each run. ``incremental``: whether answers
    of earlier runs are taken."""

    chosen: Chosen
    results: Path
    typed: Mapping[str, Any]
    remedies: bool = False
    incremental: bool = True
    cluster: Cluster | None = None

    def answering(self, part: SweepPart) -> Answering:
        return Answering(part.choice, part.options, self.remedies, self.cluster)

    def not_started(self, part: SweepPart) -> PartResult:
        """Returns the result of a part that the sweep ended before. Its rows are in the order of the options and then of the
        names: that of the cases differs between shards."""
        result = PartResult(part.choice.board, part.ttnn)
        for case in self.chosen.cases:
            result.expect(case)
        memories, dtypes = (list(self.typed.get(name) or ()) for name in ("placements", "dtypes"))

        def place(row: Where) -> tuple[object, ...]:
            memory, dtype = row
            return _place(dtype, dtypes), dtype, _place(memory, memories), memory

        result.rows = {row: result.rows[row] for row in sorted(result.rows, key=place)}
        return result

    def run(
        self,
        part: SweepPart,
        result: PartResult,
        count: Callable[[Record], None],
        note: Callable[[str], object],
        probes: Callable[[], None],
    ) -> None:
        """Runs one part. ``result``, which has not started, gets what comes, so that it is known whatever ends this. ``count``
        gets the records as they come; ``note`` lines on lost workers of a cluster, which the summary of the run has as well,
        and on a run that is not indexed; ``probes`` is ``sweep``'s. An error that ends this part alone, as a device that does
        not open, is its ``fault``."""
        try:
            self._run(part, result, count, note, probes)
        except BrokenPipeError:  # nobody reads what the command prints
            raise
        except DEVICE_ERRORS as error:
            result.fault = reason(error)

    def _run(
        self,
        part: SweepPart,
        result: PartResult,
        count: Callable[[Record], None],
        note: Callable[[str], object],
        probes: Callable[[], None],
    ) -> None:
        answering = self.answering(part)
        earlier = EarlierRuns(self.results)
        if self.incremental:
            earlier.sync()
        notes: list[str] = []

        def noted(line: str) -> None:
            notes.append(line)
            note(line)

        with OpenDevice(partial(answering.opened, noted)) as device:
            typed = {**self.typed, "board": part.choice.board, "ttnn": part.ttnn}
            folder = new_folder(self.results, typed, self.chosen, part.ttnn)
            result.run = folder.info.run

            def report(record: Record) -> None:
                result.add(record)
                count(record)

            try:
                ended = sweep(
                    self.chosen.cases,
                    answering.board,
                    folder,
                    report,
                    opened=device.opened,
                    answerer=answering.answerer,
                    remedies=self.remedies,
                    earlier=earlier,
                    incremental=self.incremental,
                    probes=probes,
                )
                result.ended = ended or 0
            finally:
                folder.finish(len(self.chosen.cases), notes)
                if folder.not_indexed:
                    note(folder.not_indexed)


def _place(value: str, listed: Sequence[Any]) -> int:
    """Returns the place of a value in a list, or behind it."""
    return listed.index(value) if value in listed else len(listed)


def parts_of(
    choices: Sequence[DeviceChoice], releases: Sequence[Release | None], options: Callable[[DeviceChoice], PoolOptions]
) -> Iterator[SweepPart]:
    """Yields each board on each release, release by release."""
    for release in releases:
        for choice in choices:
            yield SweepPart(choice, replace(options(choice), release=release))
