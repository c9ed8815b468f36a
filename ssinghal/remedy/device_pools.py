"""The devices that trials run on: worker processes for each board and release, started when first needed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from importlib.util import find_spec
from typing import TypeVar

from ssinghal.core.case import Case
from ssinghal.core.record import Record
from ssinghal.core.tensors import Board, BufferType, DType
from ssinghal.core.verdict import DecidedBy, Status, Verdict
from ssinghal.device.modes import DeviceChoice
from ssinghal.device.releases import find_release
from ssinghal.errors import HarnessError
from ssinghal.precision.sample_data import REMEDY_SAMPLES
from ssinghal.precision.storage_error import StorageLoss, StorageTask
from ssinghal.remedy.equivalence import MAX_ELEMENTS, ValueCheck, ValuesTask
from ssinghal.remedy.replicate_padding import PadTask, PadValues
from ssinghal.remedy.trial import Trial, TrialResult
from ssinghal.remedy.trial_runner import BoardTask, InsideTask, TrialTask
from ssinghal.runner.pool import Pool
from ssinghal.runner.pool_cache import PoolCache
from ssinghal.runner.tasks import PoolOptions, Task

_HOME = ("", "", False)  # board, release, torch
NO_TORCH = "torch is not installed here"
T = TypeVar("T")


class DevicePools(PoolCache[Pool]):
    """``choice`` and ``options``: the board and release of trials that name no other. ``no_values``: why values are not
    compared. ``most_elements``: of a call whose values are compared at full size. ``home``: workers of that board and release
    that run already; the caller closes them.

    Raises:
        DeviceError: no device opens.
    """

    def __init__(
        self,
        choice: DeviceChoice,
        options: PoolOptions,
        *,
        no_values: str = "",
        most_elements: int = MAX_ELEMENTS,
        home: Pool | None = None,
    ) -> None:
        super().__init__({} if home is None else {_HOME: home})
        self.choice, self.options, self._no_values = choice, replace(options, numerics=False), no_values
        self._most_elements = most_elements
        self._home = self.pool(_HOME, lambda: Pool(choice, self.options))
        self.ttnn = self._home.facts.ttnn

    @property
    def board(self) -> Board:
        """With the bank sizes of the release."""
        return self._home.facts.opened_board

    def board_of(self, release: str, trace_region_bytes: int = 0) -> Board:
        """Returns the board with the bank sizes of ``release`` (empty for the own one), less a trace region."""
        pool = self._on("", release)
        return pool.run(BoardTask(trace_region_bytes)).result() if trace_region_bytes else pool.facts.opened_board

    def on(self, release: str, trial: Trial) -> Trial:
        """Returns ``trial`` on that release."""
        return replace(trial, release="" if release == self.ttnn else release)

    def probe(self, case: Case) -> Record:
        return self._home.submit(case).result()

    def run(self, trial: Trial) -> TrialResult:
        """Runs the trial. Where its board or release does not open, only the trial fails."""
        try:
            pool = self._on(trial.board, trial.release)
        except HarnessError as error:
            where, ttnn = trial.board or self.board.name, trial.release or self.ttnn
            return TrialResult(
                trial, Verdict(Status.ERROR, stage="device", decided_by=DecidedBy.HARNESS, message=str(error)), where, ttnn, ""
            )
        return pool.run(TrialTask(trial)).result()

    def inside(self, trial: Trial) -> Mapping[BufferType, int]:
        """Returns peaks per bank of a trial, with temporaries of TTNN's calls; empty where TTNN does not show them."""
        return self._on(trial.board, trial.release).run(InsideTask(trial)).result()

    def values(self, trial: Trial) -> ValueCheck:
        """Checks in a separate worker with torch whether the trial's rewrite keeps the values."""
        check = self._in_torch(ValuesTask(trial, self._most_elements))
        return ValueCheck(None, reason=check) if isinstance(check, str) else check

    def padding(self, case: Case) -> PadValues | None:
        """Compares replicate padding by parts, and constant padding, with torch's; None without torch."""
        values = self._in_torch(PadTask(case))
        return None if isinstance(values, str) else values

    def storage(self, dtype: DType) -> tuple[StorageLoss, ...]:
        """Measures what is lost by storing values in ``dtype``; nothing without torch."""
        measured = self._in_torch(StorageTask(samples=REMEDY_SAMPLES, dtypes=(dtype,)))
        return () if isinstance(measured, str) else measured.losses

    def _in_torch(self, task: Task[T]) -> T | str:
        """Returns the task's result, or the reason why there is none."""
        if self._no_values:
            return self._no_values
        try:
            return self._on("", "", torch=True).run(task).result()
        except HarnessError as error:
            self._no_values = str(error)
            return self._no_values

    def _on(self, board: str, release: str, *, torch: bool = False) -> Pool:
        release = "" if release == self.ttnn else release

        def create() -> Pool:
            choice = replace(self.choice, board=board) if board else self.choice
            options = replace(self.options, release=find_release(release)) if release else self.options
            return Pool(choice, replace(options, torch=True, workers=1) if torch else options)

        return self.pool((board, release, torch), create)


def why_no_values(wanted: bool = True) -> str:
    """Returns why the values of rewrites are not compared; empty where they are."""
    if not wanted:
        return "not requested"
    return "" if find_spec("torch") is not None else NO_TORCH
