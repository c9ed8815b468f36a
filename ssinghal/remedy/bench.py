"""The devices that trials run on: worker processes of a board and a release, started when first asked for."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import replace
from threading import Lock

from ssinghal.cases import Case
from ssinghal.device.modes import DeviceChoice
from ssinghal.pool import Pool
from ssinghal.records import Record
from ssinghal.releases import find_release
from ssinghal.remedy.padding import PadTask, PadValues
from ssinghal.remedy.running import BoardTask, InsideTask, TrialTask
from ssinghal.remedy.storage import StorageError, StorageTask
from ssinghal.remedy.trials import Trial, Tried
from ssinghal.remedy.values import MOST_ELEMENTS, ValueCheck, ValuesTask
from ssinghal.specs import Board, BufferType, DType
from ssinghal.tasks import PoolOptions

NO_TORCH = ValueCheck(None, reason="torch is not installed here")


class Bench:
    """``choice`` and ``options``: of the board and release that a trial names no other than. ``most_elements``: of a call whose
    values are compared as it is. ``home``: workers of that board and release that run already, and are closed by whoever
    started them. Use as a context manager.

    Raises:
        DeviceError: no device opens.
    """

    def __init__(
        self,
        choice: DeviceChoice,
        options: PoolOptions,
        *,
        values: bool = True,
        most_elements: int = MOST_ELEMENTS,
        home: Pool | None = None,
    ) -> None:
        self.choice, self.options, self._values = choice, replace(options, numerics=False), values
        self._most_elements = most_elements
        self._stack = ExitStack()
        self._pools: dict[tuple[str, str, bool], Pool] = {} if home is None else {("", "", False): home}
        self._lock = Lock()
        self._home_ttnn = ""
        self._home = self._pool("", "")
        self._home_ttnn = self._home.facts.ttnn

    def __enter__(self) -> Bench:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._stack.close()

    @property
    def ttnn(self) -> str:
        return self._home.facts.ttnn

    @property
    def board(self) -> Board:
        """With the bank sizes of the release."""
        return self._home.facts.opened_board

    def board_of(self, release: str, trace_region_bytes: int = 0) -> Board:
        """With the bank sizes of ``release``, the bench's own where empty, less a trace region."""
        pool = self._pool("", release)
        return pool.run(BoardTask(trace_region_bytes)).result() if trace_region_bytes else pool.facts.opened_board

    def on(self, release: str, trial: Trial) -> Trial:
        """``trial`` on that release."""
        return replace(trial, release="" if release == self.ttnn else release)

    def probe(self, case: Case) -> Record:
        return self._home.submit(case).result()

    def run(self, trial: Trial) -> Tried:
        return self._pool(trial.board, trial.release).run(TrialTask(trial)).result()

    def inside(self, trial: Trial) -> Mapping[BufferType, int]:
        """Peaks per bank of a trial that works, with what TTNN's calls hold on the way; empty where TTNN does not tell."""
        return self._pool(trial.board, trial.release).run(InsideTask(trial)).result()

    def values(self, trial: Trial) -> ValueCheck:
        """Whether the trial's rewrite keeps the values, by torch in a worker of its own."""
        if not self._values:
            return NO_TORCH
        return self._pool("", "", torch=True).run(ValuesTask(trial, self._most_elements)).result()

    def padding(self, case: Case) -> PadValues | None:
        """What a replicate padding's parts give, and what constant padding would; None without torch."""
        return self._pool("", "", torch=True).run(PadTask(case)).result() if self._values else None

    def storage(self, dtype: DType) -> tuple[StorageError, ...]:
        """What is lost by keeping values in ``dtype``; nothing where torch is not there to measure it."""
        return self._pool("", "", torch=True).run(StorageTask(dtype)).result() if self._values else ()

    def _pool(self, board: str, release: str, *, torch: bool = False) -> Pool:
        key = (board, "" if release == self._home_ttnn else release, torch)
        with self._lock:
            if key not in self._pools:
                choice = replace(self.choice, board=board) if board else self.choice
                options = replace(self.options, release=find_release(release)) if key[1] else self.options
                if torch:
                    options = replace(options, torch=True, workers=1)
                self._pools[key] = self._stack.enter_context(Pool(choice, options))
            return self._pools[key]


__all__ = ["Bench"]
