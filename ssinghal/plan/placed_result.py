"""Models the answer of the policy ``l1``: where each step of a model has its results, what that moves, and what stops better.

Bytes of L1 are those of one core, bytes that are moved are over all banks. What is None was not measured: no run reached it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from ssinghal.core.json_values import plain
from ssinghal.core.tensors import Shape

Share = tuple[int, int]  # how many of how many


@dataclass(frozen=True)
class ResultPlace:
    """A result of a step.

    ``memory``: as a case requests it (``l1:block@8x8:416x32``). ``grid``: of its shards, ``""`` where it is interleaved, as
    ``shard`` is then ``()``. ``shape``: the device tensor's. ``total_bytes``: of all pages. ``l1_bytes``: that each core books.
    ``stays``: it is in L1 from the call that makes it to the last that reads it.
    """

    memory: str
    grid: str
    shard: Shape
    shape: Shape
    dtype: str
    layout: str
    total_bytes: int
    l1_bytes: int
    stays: bool


@dataclass(frozen=True)
class NotChosen:
    """A choice that would move less at its step, and why it was not made.

    ``saved_bytes``: what it would move less than the choice that was made; None where TTNN rejects it. ``over_bytes``: by how
    much it exceeds what the step may take of L1; None where it does not.
    """

    choice: str
    saved_bytes: int | None
    over_bytes: int | None
    reason: str


@dataclass(frozen=True)
class StepPlacement:
    """A step with its choice.

    ``calls``: of TTNN, those of moves among them; none for a view. ``settings`` and ``moves``: in words. ``config``: the
    settings as a case has them. ``dram_bytes``: moved through DRAM, in the run or, where that did not reach the step, by the
    search; ``activations_bytes`` of them, which is then None, are neither the model's weights nor its inputs and results.
    ``resharded_bytes``, ``layout_changes``: likewise.
    ``expected_peak_bytes``: by the search, under ``limit_bytes``. ``l1_peak_bytes``: in the run, tensors and program buffers
    together. ``program_bytes``: the largest of these buffers alone. ``headroom_bytes``: what the run left free of a core's L1.
    """

    number: int
    operator: str
    at: str
    calls: tuple[str, ...]
    results: tuple[ResultPlace, ...]
    settings: str
    config: Mapping[str, Any]
    moves: tuple[str, ...]
    dram_bytes: int
    activations_bytes: int | None
    resharded_bytes: int
    layout_changes: int
    limit_bytes: int
    expected_peak_bytes: int
    l1_peak_bytes: int | None = None
    program_bytes: int | None = None
    headroom_bytes: int | None = None
    not_chosen: tuple[NotChosen, ...] = ()


@dataclass(frozen=True)
class Moved:
    """What a run moves. ``weights_bytes``, ``inputs_bytes``: of the model, read from DRAM. ``results_bytes``: of the model,
    written to DRAM. What is left of ``dram_bytes`` are activations: written to DRAM, and read from there."""

    dram_bytes: int
    weights_bytes: int
    inputs_bytes: int
    results_bytes: int
    resharded_bytes: int
    layout_changes: int

    @property
    def activations_bytes(self) -> int:
        return self.dram_bytes - self.weights_bytes - self.inputs_bytes - self.results_bytes

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "activations_bytes": self.activations_bytes}


@dataclass(frozen=True)
class FailedRun:
    """A run of the complete model that failed.

    ``lowered_bytes``: what the step may hold less since then. ``excluded``: this way of calling it is not tried again, as TTNN
    rejected it for another reason than memory. With neither, the tensors in L1 are moved together before the step.
    """

    step: int
    operator: str
    at: str
    message: str
    lowered_bytes: int
    excluded: bool = False

    @property
    def learned(self) -> str:
        if self.excluded:
            return "it is not called so again"
        return (
            f"it may hold {self.lowered_bytes:,} B less" if self.lowered_bytes else "tensors in L1 are moved together before it"
        )


@dataclass(frozen=True)
class LiveInL1:
    """A value that was live at a step that has no placement. ``l1_bytes``: 0 where it is in DRAM."""

    value: int
    name: str
    memory: str
    l1_bytes: int


@dataclass(frozen=True)
class Nowhere:
    """The step for which there is no placement, so that nothing was run. ``best``: the choice that exceeds ``limit_bytes`` by
    the fewest bytes, ``over_bytes``. ``others_bytes``: what values that are no operands take of L1 then. ``rejections``: why
    TTNN rejects the calls of the step. ``exact``: no placements of these candidates exist; else the search may have missed
    some."""

    step: int
    operator: str
    at: str
    message: str
    limit_bytes: int
    best: str
    over_bytes: int | None
    others_bytes: int
    live: tuple[LiveInL1, ...]
    rejections: tuple[str, ...]
    exact: bool


@dataclass(frozen=True)
class PlacementReport:
    """The placements that were found, and what their run measured.

    Attributes:
        headroom_bytes: What was to stay free of each core's L1.
        l1_bank_bytes: What a core's L1 has for tensors and program buffers.
        confirmed: Whether a run of the complete model with these placements succeeded; else nothing here is known to fit.
        exact: Whether no placements of these candidates move less.
        cost_bytes: What the search expects to be moved through DRAM and resharded.
        bound_bytes: No placements of these candidates move less.
        states: That the search reached.
        probes: Calls that were tried alone.
        search_s: Wall time of all searches, probes included.
        run_s: Wall time of all runs of the complete model.
        steps: All steps.
        failed_runs: Runs before the last one.
        moved: By the last run; None where it failed.
        port: By a run under the policy ``port``; None where there was none that fits.
        steps_in_l1: Of the steps that make calls, those whose results all stay in L1.
        bytes_in_l1: Of the bytes of their results, those that stay in L1.
        peak_bytes: The most of a core's L1 that the run took, tensors and program buffers together.
        peak_step: Where; -1 where no step was run.
        nowhere: Why there is nothing to run.
    """

    headroom_bytes: int
    l1_bank_bytes: int
    confirmed: bool
    exact: bool = False
    cost_bytes: int = 0
    bound_bytes: int = 0
    states: int = 0
    probes: int = 0
    search_s: float = 0.0
    run_s: float = 0.0
    steps: tuple[StepPlacement, ...] = ()
    failed_runs: tuple[FailedRun, ...] = ()
    moved: Moved | None = None
    port: Moved | None = None
    steps_in_l1: Share = (0, 0)
    bytes_in_l1: Share = (0, 0)
    peak_bytes: int = 0
    peak_step: int = -1
    nowhere: Nowhere | None = None

    @property
    def least_headroom_bytes(self) -> int:
        """What was free of a core's L1 at the peak of the run."""
        return self.l1_bank_bytes - self.peak_bytes

    @property
    def ratio(self) -> float | None:
        """Bytes moved through DRAM as a share of those of ``port``; None without both runs."""
        return self.moved.dram_bytes / self.port.dram_bytes if self.moved and self.port and self.port.dram_bytes else None

    def to_json(self) -> dict[str, Any]:
        """Returns the fields, and the figures that follow from them."""
        return {
            **plain(asdict(self)),
            "moved": self.moved.to_json() if self.moved else None,
            "port": self.port.to_json() if self.port else None,
            "ratio": self.ratio,
            "least_headroom_bytes": self.least_headroom_bytes if self.peak_step >= 0 else None,
        }
