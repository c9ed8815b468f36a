"""How the cases of one run are answered: on which device, by processes of this machine or of a cluster."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial

from ssinghal.core.boards import load_board
from ssinghal.core.tensors import Board
from ssinghal.device.modes import DeviceChoice
from ssinghal.remedy.probing import probing
from ssinghal.runner.answerer import answerer_of, searcher_of
from ssinghal.runner.cluster.opening import Cluster, cluster_prober
from ssinghal.runner.probers import Prober, local_prober
from ssinghal.runner.tasks import PoolOptions


@dataclass(frozen=True)
class Answering:
    """What answers the cases. ``remedies``: whether it searches for what makes them fit. ``cluster``: None for this machine."""

    choice: DeviceChoice
    options: PoolOptions
    remedies: bool = False
    cluster: Cluster | None = None

    @property
    def board(self) -> Board:
        return load_board(self.choice.board)

    @property
    def place(self) -> str:
        """Where that is, in words."""
        if self.cluster is None:
            return self.options.place(self.choice)
        return f"{self.choice.mode} {self.choice.board} on a Dask cluster"

    def opened(self, note: Callable[[str], object]) -> AbstractContextManager[Prober]:
        """Opens the device. ``note`` gets a line for each worker of a cluster that was lost or left out."""
        submitting = partial(probing, remedies=self.remedies)
        if self.cluster is None:
            return local_prober(self.choice, self.options, submitting)
        return cluster_prober(self.cluster, self.choice, self.options, submitting, note)

    def answerer(self, prober: Prober) -> str:
        """Returns the digest by which the answers of this device and code are known."""
        return answerer_of(prober.facts, self.options)

    def searcher(self, prober: Prober) -> str:
        """Returns the digest of what searches for remedies; empty where nothing does."""
        return searcher_of(self.answerer(prober)) if self.remedies else ""
